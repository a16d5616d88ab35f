// SPDX-License-Identifier: Apache-2.0
// Compares codes with integer operations, as defined by IEEE 754-2019 5.6, 5.10, 5.11 and 9.6.
#pragma once
#include "core/arithmetic.hpp"
#include "core/ulp.hpp"

namespace macheps {

enum class Relation : std::uint8_t { less, equal, greater, unordered };

/// Compares two codes as numbers. Zeros of either sign are equal, and a NaN is unordered with everything.
MACHEPS_HD constexpr Relation compare(Format f, std::uint64_t a, std::uint64_t b) {
    if (is_nan(f, a) || is_nan(f, b)) return Relation::unordered;
    const std::int64_t x = ordinal(f, a), y = ordinal(f, b);
    return x < y ? Relation::less : x > y ? Relation::greater : Relation::equal;
}

/// Returns the flags of a comparison. A quiet comparison raises `invalid` only for signaling NaNs, a signaling
/// comparison for every NaN.
MACHEPS_HD constexpr Flags comparison_flags(Format f, std::uint64_t a, std::uint64_t b, bool signaling) {
    const bool any = is_nan(f, a) || is_nan(f, b);
    return {.invalid = signaling ? any : detail::is_signaling_nan(f, a) || detail::is_signaling_nan(f, b)};
}

/// Returns totalOrder(a, b): -NaN < -Inf < ... < -0 < +0 < ... < Inf < NaN. NaNs of the same sign are ordered by their
/// codes: positive signaling NaNs are below positive quiet NaNs, and negative signaling NaNs are above negative quiet
/// NaNs. The only NaN of an fnuz format has no sign and is above everything.
MACHEPS_HD constexpr bool total_order(Format f, std::uint64_t a, std::uint64_t b) {
    const auto place = [f](std::uint64_t container) {
        const std::uint64_t code = (container >> f.padding) & (f.sign_bit() | f.magnitude_mask());
        const auto magnitude = static_cast<std::int64_t>(code & f.magnitude_mask());
        if (f.encoding == Encoding::fixed_point) return ordinal(f, container);
        if (f.specials == Specials::fnuz && code == f.sign_bit()) return static_cast<std::int64_t>(f.sign_bit());
        return (code & f.sign_bit()) != 0 ? -magnitude - 1 : magnitude;
    };
    return place(a) <= place(b);
}

/// Return the minimum or the maximum. A NaN operand gives the canonical NaN. -0 is less than +0.
MACHEPS_HD constexpr Rounded minimum(Format f, std::uint64_t a, std::uint64_t b) {
    const Flags flags = comparison_flags(f, a, b, false);
    if (is_nan(f, a) || is_nan(f, b)) return {f.nan_code() << f.padding, flags};
    return {total_order(f, a, b) ? a : b, flags};
}
MACHEPS_HD constexpr Rounded maximum(Format f, std::uint64_t a, std::uint64_t b) {
    const Flags flags = comparison_flags(f, a, b, false);
    if (is_nan(f, a) || is_nan(f, b)) return {f.nan_code() << f.padding, flags};
    return {total_order(f, a, b) ? b : a, flags};
}

/// Return minimumNumber or maximumNumber, which ignore a NaN operand. Two NaNs give the canonical NaN.
MACHEPS_HD constexpr Rounded minimum_number(Format f, std::uint64_t a, std::uint64_t b) {
    const Flags flags = comparison_flags(f, a, b, false);
    if (is_nan(f, a)) return {is_nan(f, b) ? f.nan_code() << f.padding : b, flags};
    return {is_nan(f, b) ? a : minimum(f, a, b).bits, flags};
}
MACHEPS_HD constexpr Rounded maximum_number(Format f, std::uint64_t a, std::uint64_t b) {
    const Flags flags = comparison_flags(f, a, b, false);
    if (is_nan(f, a)) return {is_nan(f, b) ? f.nan_code() << f.padding : b, flags};
    return {is_nan(f, b) ? a : maximum(f, a, b).bits, flags};
}

/// Return the smallest number that compares greater than `a` (nextUp) or the largest number that compares less
/// (nextDown). The ends of the range are returned unchanged. A step from a negative number to zero gives -0 if the
/// format has -0.
MACHEPS_HD constexpr Rounded next_up(Format f, std::uint64_t a) {
    const Flags flags{.invalid = detail::is_signaling_nan(f, a)};
    if (is_nan(f, a) || ordinal(f, a) >= greatest_ordinal(f)) {
        return {is_nan(f, a) ? f.nan_code() << f.padding : a, flags};
    }
    return {nextafter(f, a, from_ordinal(f, greatest_ordinal(f))), flags};
}
MACHEPS_HD constexpr Rounded next_down(Format f, std::uint64_t a) {
    const Flags flags{.invalid = detail::is_signaling_nan(f, a)};
    if (is_nan(f, a) || ordinal(f, a) <= min_ordinal(f)) {
        return {is_nan(f, a) ? f.nan_code() << f.padding : a, flags};
    }
    return {nextafter(f, a, from_ordinal(f, min_ordinal(f))), flags};
}

}  // namespace macheps
