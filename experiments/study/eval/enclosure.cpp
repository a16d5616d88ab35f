// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/enclosure.hpp"

#include "core/codec.hpp"
#include "core/ulp.hpp"
#include "experiments/study/eval/real_system.hpp"
#include "experiments/study/eval/walk.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace macheps::study {

namespace {

/// Magnitude of a number to be rounded: value * 2^exponent, or only a flag if it is outside the range of all formats.
struct Magnitude {
    Fraction value{};                       ///< the fraction, or the integer significand of an Arf
    slong exponent = 0;                     ///< 0 for a fraction
    bool is_huge = false, is_tiny = false;  ///< above or below the range of all formats
};

Magnitude magnitude_of(const Fraction& x) {
    Magnitude out{.value = x};
    fmpq_abs(out.value.get(), out.value.get());
    return out;
}

Magnitude magnitude_of(const Arf& x) {
    constexpr slong max_exponent = 1 << 20;
    Magnitude out;
    if (!x.is_finite() || arf_cmpabs_2exp_si(x.get(), max_exponent) > 0) return {.is_huge = true};
    if (arf_cmpabs_2exp_si(x.get(), -max_exponent) < 0) return {.is_tiny = !x.is_zero()};
    Integer significand, exponent;
    arf_get_fmpz_2exp(significand.get(), exponent.get(), x.get());
    fmpz_abs(significand.get(), significand.get());
    fmpq_set_fmpz(out.value.get(), significand.get());
    out.exponent = fmpz_get_si(exponent.get());
    return out;
}

/// Returns floor(log2 x). Sets `is_power` to whether x is a power of two.
slong floor_log2(const Magnitude& x, bool& is_power) {
    const fmpz *above = x.value.above(), *below = x.value.below();
    slong top = static_cast<slong>(fmpz_bits(above)) - static_cast<slong>(fmpz_bits(below));
    Integer left, right;  // left / right = x.value / 2^top
    fmpz_mul_2exp(left.get(), above, static_cast<flint_bitcnt_t>(top < 0 ? -top : 0));
    fmpz_mul_2exp(right.get(), below, static_cast<flint_bitcnt_t>(top > 0 ? top : 0));
    const int order = fmpz_cmp(left.get(), right.get());
    is_power = order == 0;
    return top - (order < 0 ? 1 : 0) + x.exponent;
}

/// Rounds `x` to the format. If `nudge` is 1 or -1, rounds a number whose magnitude is larger (1) or smaller (-1) than
/// `x` by an arbitrarily small amount. round_shift receives the last kept bit, which decides ties, the next 33 bits,
/// and a bit that is set if any lower bit is set.
double rounded(const Format& f, Magnitude x, int nudge, bool is_negative, Round mode, RandomBits random) {
    const auto coded = [&](const Unpacked& value) {
        return decode64(f, detail::encode_unpacked(f, value, mode, Overflow::nonsaturate, random) << f.padding);
    };
    constexpr int max_exponent = 2000;  // beyond every format
    if (x.is_huge) return coded({Unpacked::Kind::finite, is_negative, 1, max_exponent});
    const bool is_zero = x.value.sign() == 0 && !x.is_tiny;
    if (is_zero && nudge <= 0) return coded({Unpacked::Kind::finite, is_negative, 0, 0});
    if (x.is_tiny || is_zero) return coded({Unpacked::Kind::finite, is_negative, 1, -100000});
    bool is_power = false;
    slong top = floor_log2(x, is_power);
    if (nudge < 0 && is_power) --top;
    if (top > max_exponent) return coded({Unpacked::Kind::finite, is_negative, 1, max_exponent});
    const slong quantum = std::max<slong>(top, f.emin()) - f.fraction_bits();
    constexpr int places = 33;
    // n = floor(x 2^(33 - quantum)) consists of the kept bits and the 33 bits after them.
    Integer n, rest, divisor;
    const slong shift = places - quantum + x.exponent;
    fmpz_mul_2exp(n.get(), x.value.above(), static_cast<flint_bitcnt_t>(shift > 0 ? shift : 0));
    fmpz_mul_2exp(divisor.get(), x.value.below(), static_cast<flint_bitcnt_t>(shift < 0 ? -shift : 0));
    fmpz_fdiv_qr(n.get(), rest.get(), n.get(), divisor.get());
    bool has_more = fmpz_is_zero(rest.get()) == 0;
    if (nudge < 0 && !has_more) fmpz_sub_ui(n.get(), n.get(), 1);
    has_more = has_more || nudge != 0;
    Integer high;
    fmpz_fdiv_q_2exp(high.get(), n.get(), places);
    const std::uint64_t kept = fmpz_get_ui(high.get());
    fmpz_mul_2exp(high.get(), high.get(), places);
    fmpz_sub(n.get(), n.get(), high.get());
    const std::uint64_t end = (kept & 1) << (places + 1) | fmpz_get_ui(n.get()) << 1 | (has_more ? 1u : 0u);
    const std::uint64_t ulps = (kept & ~std::uint64_t{1}) + round_shift(end, places + 1, mode, is_negative, random);
    return coded({Unpacked::Kind::finite, is_negative, ulps, static_cast<int>(quantum)});
}

double rounded(const Format& f, const Fraction& x, bool is_negative_zero, Round mode, RandomBits random) {
    return rounded(f, magnitude_of(x), 0, x.sign() < 0 || is_negative_zero, mode, random);
}

/// Rounds an end of a span. `side` is 1 to round the numbers just above the end, -1 for the numbers just below it, and
/// 0 for the end itself.
double rounded(const Format& f, const Arf& x, int side, Round mode, RandomBits random) {
    const bool is_negative = x.sign() < 0 || (x.is_zero() && side < 0);
    // An infinite end counts as a finite number that is larger than any other.
    return rounded(f, magnitude_of(x), is_negative ? -side : side, is_negative, mode, random);
}

double special_code(const Format& f, double x) {
    return decode64(f, encode64(f, x, Round::nearest_even, Overflow::nonsaturate));
}

/// Rounds both ends of the enclosure and returns the result if both give the same number. +0 and -0 count as the same
/// number.
std::optional<double> settled(const Real& x, const Format& f, Round mode, RandomBits random) {
    switch (x.kind) {
        case Real::Kind::nan:
            return special_code(f, std::numeric_limits<double>::quiet_NaN());
        case Real::Kind::infinite:
            return special_code(f, x.is_negative ? -HUGE_VAL : HUGE_VAL);
        case Real::Kind::exact:
            return rounded(f, x.exact, x.is_negative, mode, random);
        default:
            break;
    }
    const double lo = rounded(f, x.span.lo, x.span.is_lo_open ? 1 : 0, mode, random),
                 hi = rounded(f, x.span.hi, x.span.is_hi_open ? -1 : 0, mode, random);
    if (lo != lo && hi != hi && x.sign() != 0) return lo;  // all values overflow, and the format's overflow gives NaN
    if (lo != hi) return std::nullopt;
    return lo == 0 && std::signbit(lo) != std::signbit(hi) ? 0.0 : lo;
}

/// Stores the exact value as out.near + out.rest. Returns false if the enclosure is wider than 2^-20 ulp.
bool set_near(const Real& x, const Format& f, FormulaReference& out) {
    if (!x.is_number()) {
        out.near = out.rounded;
        return true;
    }
    Arf middle;
    constexpr slong bits = 128;
    if (x.is_exact()) {
        arf_fmpz_div_fmpz(middle.get(), x.exact.above(), x.exact.below(), bits, ARF_RND_NEAR);
    } else {
        if (!x.span.is_bounded()) {
            out.near = x.sign() < 0 ? -HUGE_VAL : HUGE_VAL;
            return true;
        }
        if (std::isfinite(out.rounded)) {
            Arf width;
            arf_sub(width.get(), x.span.hi.get(), x.span.lo.get(), 30, ARF_RND_UP);
            arf_mul_2exp_si(width.get(), width.get(), 20);
            if (order(width, Arf(ulp(f, out.rounded))) > 0) return false;
        }
        arf_add(middle.get(), x.span.lo.get(), x.span.hi.get(), bits, ARF_RND_NEAR);
        arf_mul_2exp_si(middle.get(), middle.get(), -1);
    }
    out.near = rounded(fp64, middle, 0, Round::nearest_even, {});
    if (std::isfinite(out.near)) {
        arf_sub(middle.get(), middle.get(), Arf(out.near).get(), bits, ARF_RND_NEAR);
        out.rest = rounded(fp64, middle, 0, Round::nearest_even, {});
    }
    return true;
}

/// Calls `use` with 64 bits of precision and doubles them until `use` returns a result. Returns nothing if no result is
/// found with up to `max_bits` bits, or if the work limit is reached.
template <class Use>
auto with_digits(int max_bits, const Use& use) -> decltype(use(std::declval<RealSystem&>())) {
    std::uint64_t work = 0;
    for (slong bits = 64; bits <= max_bits; bits *= 2) {
        RealSystem system(bits, work);
        try {
            if (auto result = use(system)) return result;
        } catch (const Undecided&) {  // the next try has twice the digits
        } catch (const Exhausted&) {
            break;
        }
    }
    return std::nullopt;
}

std::vector<Real> reals(const std::vector<double>& x) {
    std::vector<Real> out;
    for (const double each : x) out.push_back(real_of(each));
    return out;
}

}  // namespace

bool has_enclosures() { return true; }
void require_enclosures() {}

std::optional<FormulaReference> reference_value(const Expression& expression, const Format& format, Round mode,
                                                const std::vector<double>& inputs) {
    const std::vector<Real> numbers = reals(inputs);
    std::optional<FormulaReference> wide;  // a result whose `rounded` is known, but whose `near` is uncertain
    const auto settle = [&](RealSystem& system) -> std::optional<FormulaReference> {
        const Real value = Walk(system, expression).value(numbers);
        const std::optional<double> number = settled(value, format, mode, {});
        if (!number) return std::nullopt;
        FormulaReference out{.rounded = *number, .is_nan = *number != *number};
        if (set_near(value, format, out)) return out;
        wide = out;
        wide->near = *number;
        return std::nullopt;
    };
    const std::optional<FormulaReference> out = with_digits(max_enclosure_bits(format), settle);
    return out ? out : wide;
}

std::optional<bool> is_precondition_met(const Expression& expression, const std::vector<double>& inputs) {
    const std::vector<Real> numbers = reals(inputs);
    const auto use = [&](RealSystem& system) { return std::optional(Walk(system, expression).accepts(numbers)); };
    return with_digits(max_enclosure_bits(fp64), use);
}

std::optional<double> enclosed_call(Op op, const std::vector<double>& x, const Format& format, Round mode,
                                    RandomBits random) {
    const std::vector<Real> numbers = reals(x);
    const auto use = [&](RealSystem& system) { return settled(system.apply(op, numbers), format, mode, random); };
    return with_digits(max_enclosure_bits(format), use);
}

std::optional<double> enclosed_literal(const Node& node, const Format& format, Round mode, RandomBits random) {
    const auto use = [&](RealSystem& system) { return settled(system.literal(node), format, mode, random); };
    return with_digits(max_enclosure_bits(format), use);
}

void free_enclosure_memory() { flint_cleanup(); }

}  // namespace macheps::study
