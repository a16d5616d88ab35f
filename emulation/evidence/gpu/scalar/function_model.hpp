// SPDX-License-Identifier: Apache-2.0
// Table of the functions that a device approximates, and a function that returns the code nearest to the reference
// value. Does not need the headers of the CUDA toolkit.
#pragma once
#include "emulation/evidence/gpu/scalar/arithmetic_model.hpp"
#include "emulation/evidence/gpu/scalar/function_rows.hpp"
#include "emulation/evidence/gpu/scalar/reference.hpp"

namespace macheps::evidence {

enum class Approximation : std::uint8_t {
#define MACHEPS_ID(id, ...) id,
    MACHEPS_FUNCTIONS_SM80(MACHEPS_ID) MACHEPS_FUNCTIONS_SM90(MACHEPS_ID) MACHEPS_FUNCTIONS_CUDA(MACHEPS_ID)
#undef MACHEPS_ID
};

/// Source of the error bound of a row. function_rows.hpp explains the values.
enum class Claim : std::uint8_t { correct, documented, exceeded, gross };

/// Magnitudes of operands for which the bound holds.
enum class Domain : std::uint8_t {
    everywhere,
    moderate,  ///< magnitudes up to 10, because the error of e^x grows with x
    turn       ///< magnitudes up to 2 pi
};

struct FunctionRow {
    Approximation id;
    const char* instruction;
    Format format;
    Function function;
    Variant variant;
    Domain domain;
    double relative, absolute, ulps;
    Claim claim;

    MACHEPS_HD constexpr std::uint64_t inputs() const { return std::uint64_t{1} << format.bits; }
    /// Returns whether errors are reported as absolute errors instead of in ulp.
    MACHEPS_HD constexpr bool absolute_error() const { return relative == 0 && ulps == 0 && absolute != 0; }
};

namespace detail::function_words {
inline constexpr FunctionRow rows[] = {
#define MACHEPS_ROW(id, name, format, function, variant, domain, relative, absolute, ulps, claim, call) \
    {Approximation::id, name,     format, Function::function, Variant::variant, Domain::domain,         \
     relative,          absolute, ulps,   Claim::claim},
    MACHEPS_FUNCTIONS_SM80(MACHEPS_ROW) MACHEPS_FUNCTIONS_SM90(MACHEPS_ROW) MACHEPS_FUNCTIONS_CUDA(MACHEPS_ROW)
#undef MACHEPS_ROW
};
}  // namespace detail::function_words

inline constexpr auto& function_rows = detail::function_words::rows;

namespace detail {

/// Returns the code nearest to the reference value. For __frsqrt_rn, returns the result of core/math.hpp instead, which
/// is correctly rounded.
MACHEPS_HD inline std::uint64_t nearest_code(const FunctionRow& row, float x) {
    const Format f = row.format;
    if (row.function == Function::rsqrt && row.claim == Claim::correct && f.bits == 32) {
        const auto bits = bit_cast<std::uint32_t>(math::rsqrt(x));
        return is_nan_code(f, bits) ? f.magnitude_mask() : bits;
    }
    const double exact = reference(row.function, x);
    if (exact != exact) return f.magnitude_mask();
    const std::uint64_t code = encode64(f, exact, Round::nearest_even, Overflow::nonsaturate);
    return row.variant == Variant::ftz ? flush(f, code) : code;
}

MACHEPS_HD inline float operand_of(const FunctionRow& row, std::uint64_t code) {
    return decode(row.format, row.variant == Variant::ftz ? flush(row.format, code) : code);
}

}  // namespace detail

}  // namespace macheps::evidence
