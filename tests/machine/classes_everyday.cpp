// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/classes.hpp"

#include <algorithm>
#include <bit>

namespace macheps::machine_oracle::classes {

using Digits = Maker::Digits;

void random_bits(Maker& m, bool finite) {
    const auto fill = [&](std::vector<std::uint64_t>& codes, const Type& type) {
        for (auto& code : codes) code = finite ? m.finite_code(type) : m.bits(type.bits);
    };
    fill(m.made.a, m.in.a);
    fill(m.made.b, m.in.b);
    fill(m.made.sa, m.in.scale);
    fill(m.made.sb, m.in.scale);
    m.made.c = m.chance(15) ? 0 : finite ? m.finite_code(m.in.c) : m.bits(m.in.c.bits);
}

/// Returns a code of an approximately normal random number, N(0, 4^e). It is the sum of twelve uniform integers,
/// because library functions may give different bits on other platforms.
static std::uint64_t normal_code(Maker& m, const Type& type, int e) {
    std::int64_t x = -6 * 65536;
    for (int i = 0; i < 12; ++i) x += static_cast<std::int64_t>(m.bits(16));
    const std::uint64_t magnitude = static_cast<std::uint64_t>(x < 0 ? -x : x) | 1;
    const int leading = std::bit_width(magnitude) - 1;
    const std::uint64_t aligned = magnitude << (63 - leading) << 1;
    const std::uint64_t fraction = aligned >> (64 - (type.precision - 1)) | m.bits(2);
    return make_code(type, x < 0, leading - 16 + e, fraction) | m.bits(type.ignored);
}

void normal(Maker& m) {
    const int e = m.between(-3, 1);
    m.set_scales(m.between(-3, 3));
    for (auto& code : m.made.a) code = normal_code(m, m.in.a, e);
    for (auto& code : m.made.b) code = normal_code(m, m.in.b, e);
    m.made.c =
        m.chance(15) ? 0 : normal_code(m, m.in.c, 2 * e + std::bit_width(static_cast<unsigned>(m.in.products)) / 2);
}

void close_exponents(Maker& m) {
    const int t = m.leader(4);
    m.set_scales(t);
    const Digits digits = m.some_digits();
    for (int i = 0; i < m.slots(); ++i)
        m.put({i, m.chance(50), t + m.between(-2, 2), m.chance(70) ? Digits::any : digits});
    if (!m.chance(15)) m.put_c({m.chance(50), t + m.between(-2, 4), Digits::any});
}

void cancellation(Maker& m) {
    close_exponents(m);
    for (int pairs = m.slots() / 2 + 1; pairs > 0; --pairs) {
        const auto [i, j] = m.two_slots();
        m.mirror(i, j);
        auto& code = m.made.a[static_cast<std::size_t>(j * (m.in.products / m.slots()))];
        code = m.nudged(m.in.a, code, m.chance(50) ? 0 : m.between(-2, 2));
    }
    if (m.chance(50)) m.cancel_with_c(m.chance(50) ? 0 : m.between(-3, 3));
}

void subnormal(Maker& m) {
    const int kind = m.between(0, 3);
    for (std::size_t k = 0; k < m.made.a.size(); ++k) {
        const bool great = m.chance(50);
        const auto other = [&](const Type& type) {
            return m.code(type, {m.chance(50), great ? type.emax() - m.between(0, 2) : m.between(-2, 2), Digits::any});
        };
        m.made.a[k] = kind == 0 || (kind == 3 && m.chance(50)) ? m.subnormal_code(m.in.a) : other(m.in.a);
        m.made.b[k] = kind == 1 || (kind == 3 && m.chance(50)) ? m.subnormal_code(m.in.b) : other(m.in.b);
        if (kind == 2) m.made.a[k] = m.subnormal_code(m.in.a), m.made.b[k] = m.subnormal_code(m.in.b);
        if (m.chance(20)) m.made.a[k] = 0;
    }
    if (m.in.scales > 0) m.set_scales(m.between(-20, 4));
    const int choice = m.between(0, 3);
    if (choice == 0) m.made.c = m.subnormal_code(m.in.c);
    if (choice == 1) m.cancel_with_c(m.between(-3, 3));
    if (choice == 2) m.put_c({m.chance(50), m.between(m.in.c.emin(), m.in.c.emin() + 12), Digits::any});
    if (m.chance(10))
        for (int i = 0; i < m.slots(); ++i) m.put_zero(i);
}

void mixed(Maker& m) {
    const auto fill = [&](std::vector<std::uint64_t>& codes, const Type& type) {
        const int low = type.specials == Specials::e8m0 ? -127 : type.emin() - 1;
        for (auto& code : codes) code = m.code(type, {m.chance(50), m.between(low, type.emax()), Digits::any});
    };
    fill(m.made.a, m.in.a);
    fill(m.made.b, m.in.b);
    if (m.chance(50)) {
        fill(m.made.sa, m.in.scale);
        fill(m.made.sb, m.in.scale);
    }
    const int low = std::max(m.in.c.emin() - 1, m.least()), high = std::min(m.in.c.emax(), m.greatest());
    m.put_c(
        {m.chance(50), m.chance(50) ? m.between(low, high) : m.between(m.in.c.emin() - 1, m.in.c.emax()), Digits::any});
}

void overflow(Maker& m) {
    const int top = m.in.d.emax(), t = std::min(m.greatest(), top + m.between(-5, 1));
    m.set_scales(m.in.model == Model::grouped ? t - 4 : t);
    const bool one_sign = m.chance(50), sign = m.chance(50);
    for (int i = 0; i < m.slots(); ++i)
        if (m.chance(60))
            m.put({i, one_sign ? sign : m.chance(50),
                   m.chance(80) ? t - m.between(0, 4) : std::min(m.greatest(), top + m.between(0, 20)),
                   m.some_digits()});
        else
            m.put_zero(i);
    const auto [i, j] = m.two_slots();
    if (!one_sign && m.chance(60)) m.mirror(i, j);
    m.put_c({one_sign ? sign : m.chance(50), m.in.c.emax() - m.between(0, 2), m.some_digits()});
    if (m.chance(30)) m.made.c = 0;
}

void specials(Maker& m) {
    close_exponents(m);
    for (int n = m.between(1, 3); n > 0; --n) {
        const auto k = static_cast<std::size_t>(m.below(m.made.a.size()));
        switch (m.between(0, m.in.scales > 0 ? 5 : 3)) {
            case 0:
                m.made.a[k] = m.special_code(m.in.a);
                break;
            case 1:
                m.made.b[k] = m.special_code(m.in.b);
                break;
            case 2:
                m.made.c = m.special_code(m.in.c);
                break;
            case 3:
                m.made.a[k] = m.special_code(m.in.a);
                m.made.b[k] = m.special_code(m.in.b);
                break;
            case 4:
                m.made.sa[m.below(m.made.sa.size())] = m.special_code(m.in.scale);
                break;
            default:
                m.made.sb[m.below(m.made.sb.size())] = m.special_code(m.in.scale);
                break;
        }
    }
}

void integers(Maker& m, Class cls) {
    random_bits(m, true);
    if (cls != Class::overflow && cls != Class::c_dominant) return;
    // All factors have the largest magnitude, most products have the same sign, and C is close to one end of its range.
    const auto extreme = [&](const Type& type, bool low) {
        const std::uint64_t top = std::uint64_t{1} << (type.bits - 1);
        return type.bias == 1 ? 2 * top - 1 : low ? top : top - 1;
    };
    const bool low = m.chance(50);
    for (auto& code : m.made.a) code = extreme(m.in.a, low);
    for (auto& code : m.made.b) code = extreme(m.in.b, m.chance(90) ? low : !low);
    m.made.c = (m.chance(50) ? 0x7fffffffu - m.bits(18) : 0x80000000u + m.bits(18)) & 0xffffffffu;
}

}  // namespace macheps::machine_oracle::classes
