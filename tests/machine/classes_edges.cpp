// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/classes.hpp"

#include <algorithm>

namespace macheps::machine_oracle::classes {

using Digits = Maker::Digits;

/// Puts a zero or a small term into a slot. In a step whose largest exponent is t, terms are cut at the unit 2^(t - F).
/// The exponent of the small term is close to that of the unit or lies between the unit and t, so low bits of the term
/// may be lost.
static void put_small(Maker& m, int slot, int t) {
    const int f = std::max(m.in.fraction_bits, m.in.precision);
    if (m.chance(20)) return m.put_zero(slot);
    const int e = m.chance(70) ? t - f + m.between(-3, 3) : t - m.between(1, f);
    if (e < m.least() - 1 && m.chance(85)) return m.put_zero(slot);  // even the smallest product hides C's last bits
    m.put({slot, m.chance(50), e, m.some_digits()});
}

static void small_c(Maker& m, int t) {
    const int f = std::max(m.in.fraction_bits, m.in.precision);
    if (m.chance(40)) return;
    m.put_c({m.chance(50), m.chance(50) ? t - f + m.between(-3, 3) : t - m.between(0, f), m.some_digits()});
}

void alignment_edge(Maker& m) {
    const int t = m.leader(m.in.fraction_bits + 2);
    m.set_scales(t - m.between(0, 4));
    for (int i = 0; i < m.slots(); ++i) put_small(m, i, t);
    if (m.chance(40)) {
        m.put_c({m.chance(50), t, m.some_digits()});
    } else {
        small_c(m, t);
        m.put({m.two_slots().first, m.chance(50), t, m.some_digits()});
    }
}

void swamp(Maker& m) {
    const int t = m.leader(m.in.fraction_bits + 2);
    m.set_scales(t - m.between(0, 4));
    const auto [i, j] = m.two_slots();
    if (m.chance(50)) {
        for (int k = 0; k < m.slots(); ++k) put_small(m, k, t);
    } else {  // few terms, so that even a short significand shows every bit of the sum
        for (int k = 0; k < m.slots(); ++k) m.put_zero(k);
        for (int n = m.between(0, 3); n > 0; --n)
            put_small(m, m.chance(50) ? m.two_slots().first : (i ^ 1) % m.slots(), t);
    }
    small_c(m, t);
    if (m.chance(35)) {  // the large term is a power of two, so that C cancels it exactly
        const bool negative = m.chance(50);
        m.put_power({i, negative, t});
        m.put_c({!negative, t, Digits::none});
    } else {
        m.put({i, m.chance(50), t, m.chance(40) ? Digits::ones : m.some_digits()});
        m.mirror(i, j);
        if (m.chance(30)) {
            auto& code = m.made.a[static_cast<std::size_t>(j * (m.in.products / m.slots()))];
            code = m.nudged(m.in.a, code, m.between(-1, 1));
        }
    }
}

void near_one_and_four(Maker& m) {
    const int t = m.leader(m.in.fraction_bits + 2);
    m.set_scales(t);
    for (int i = 0; i < m.slots(); ++i) m.put({i, m.chance(50), t, m.chance(60) ? Digits::ones : Digits::none});
    const int pairs = m.slots() / 2;
    for (int p = 0; p < pairs; ++p) {
        const auto [i, j] = m.two_slots();
        m.mirror(i, j);
    }
    if (m.slots() > 2 && m.chance(70)) put_small(m, m.two_slots().first, t);
    if (m.chance(40))
        m.cancel_with_c(m.between(-2, 2));
    else if (m.chance(50))
        small_c(m, t);
    else
        m.put_c({m.chance(50), t + m.between(-1, 2), Digits::any});
}

/// Chooses an exponent of C that is larger (`direction` 1) or smaller (`direction` -1) than the exponent of the largest
/// product. In most cases the difference is about F + 3, where F is the number of fraction bits.
void c_far(Maker& m, int direction) {
    const int f = m.in.fraction_bits > 0 ? m.in.fraction_bits : m.in.precision;
    const int t = m.leader(3);
    m.set_scales(t);
    for (int i = 0; i < m.slots(); ++i) m.put({i, m.chance(50), t - m.between(0, 3), Digits::any});
    if (direction < 0 && m.chance(60)) {
        const auto [i, j] = m.two_slots();
        for (int k = 0; k < m.slots(); ++k) m.put_zero(k);
        m.put({i, m.chance(50), t, m.some_digits()});
        m.mirror(i, j);
    }
    const int e = m.chance(60) ? f + m.between(-4, 6) : m.between(1, f + 4);
    m.put_c({m.chance(50), t + direction * e, m.some_digits()});
}

void underflow(Maker& m) {
    const int quantum = m.in.d.emin() - (m.in.precision - 1), unit = m.in.zero_exponent - m.in.fraction_bits;
    const int kind = m.between(0, 4), t = quantum + m.between(-5, 3);
    m.set_scales(quantum - m.between(0, 6));
    for (int i = 0; i < m.slots(); ++i) m.put_zero(i);
    if (kind == 0) {  // sums around the smallest result
        for (int i = 0; i < m.slots(); ++i) m.put({i, m.chance(50), t - m.between(0, 6), Digits::any});
    } else if (kind == 1) {  // one quantum of the result (or half of it), and a term around a zero's unit
        const auto [i, j] = m.two_slots();
        const bool nearest = m.in.rounding == Rounding::nearest_even, negative = m.chance(50);
        m.put_power({j, nearest ? negative : !negative, unit - m.between(0, 1)});
        m.put_power({i, negative, nearest ? quantum - 1 : quantum});
        if (m.chance(15)) m.put({i, m.chance(50), quantum + m.between(-1, 3), Digits::few});
    } else if (kind == 2) {  // many terms around a zero's unit; they lose all their bits or none
        const bool sign = m.chance(50);
        const int e = unit + m.between(-3, 6);
        m.set_scales(e);
        for (int i = 0; i < m.slots(); ++i) m.put({i, sign, e + m.between(-1, 1), m.some_digits()});
    } else if (kind == 3) {  // only terms of one sign that underflow
        const bool sign = m.chance(60);
        for (int n = m.between(1, 3); n > 0; --n)
            m.put({m.two_slots().first, sign, quantum - m.between(1, 8), m.some_digits()});
    } else {
        for (std::size_t k = 0; k < m.made.a.size(); ++k) {
            m.made.a[k] = m.subnormal_code(m.in.a);
            m.made.b[k] = m.subnormal_code(m.in.b);
        }
    }
    if (kind != 1 && m.chance(20)) m.put_c({m.chance(50), quantum + m.between(0, 4), m.some_digits()});
    if (kind != 1 && m.chance(10)) m.put_c({m.chance(50), m.in.c.emin() + m.between(0, 24), m.some_digits()});
}

void tie(Maker& m) {
    const int p = m.in.precision, room = std::max(m.in.fraction_bits - p, 8);
    const int low = std::max(m.least(), m.in.d.emin() - p), high = std::min(m.greatest(), m.in.d.emax() - p - 1);
    const int half =
        m.chance(70) ? std::clamp(m.between(-12, 4), std::min(low + room, high), high) : m.between(low, high);
    m.set_scales(half);
    for (int i = 0; i < m.slots(); ++i) m.put_zero(i);
    const auto [i, j] = m.two_slots();
    const Digits digits = m.chance(70) ? Digits::any : m.some_digits();
    // The sum consists of C, half an ulp of the result, and a small term that just breaks the tie. The small term is
    // about one unit of the alignment, or lies 8 bits below the half ulp, where CDNA3 floors the sum.
    if (m.chance(70) && j != i)
        m.put_power({j, m.chance(50),
                     m.chance(50) ? half - 8 + (m.chance(70) ? 0 : m.between(-1, 1))
                                  : half + p - m.in.fraction_bits + m.between(-2, 1)});
    m.put_power({i, m.chance(50), half});
    m.put_c({m.chance(50), half + p, digits});
    if (m.chance(30) && half + p <= m.greatest() && m.slots() > 2) {  // here C breaks the tie
        m.made.c = 0;
        for (int k = 0; k < m.slots(); ++k)
            if (k != i && k != j) {
                m.put({k, m.chance(50), half + p, Digits::any});
                break;
            }
        if (m.chance(60)) m.put_c({m.chance(50), half + p - m.in.fraction_bits + m.between(-2, 2), Digits::none});
    }
}

void zeros(Maker& m) {
    m.set_scales(m.between(-8, 8));
    for (int i = 0; i < m.slots(); ++i) m.put_zero(i);
    if (m.chance(50)) m.put({m.two_slots().first, m.chance(50), m.far_below(3, 40), m.some_digits()});
    if (m.chance(20)) m.put({m.two_slots().first, m.chance(50), m.least() + m.between(0, 20), m.some_digits()});
    const int choice = m.between(0, 5);
    if (choice == 5) m.put_c({m.chance(50), m.in.c.emin() + m.between(-2, 20), Digits::any});
    if (choice == 0) m.made.c = m.chance(50) ? 0 : std::uint64_t{1} << (m.in.c.bits - 1);
    if (choice == 1) m.made.c = m.subnormal_code(m.in.c);
    if (choice == 2) m.put_c({m.chance(50), m.between(m.in.c.emin(), m.in.c.emax()), Digits::any});
    if (choice == 3 || choice == 4) m.put_c({m.chance(50), m.far_below(3, 24), Digits::any});
    if (m.in.scales == 0 || m.chance(60)) return;
    const int slot = m.two_slots().first;
    m.put({slot, m.chance(50), m.far_below(3, 40), Digits::any});
    m.put_zero_scale(slot);
}

}  // namespace macheps::machine_oracle::classes
