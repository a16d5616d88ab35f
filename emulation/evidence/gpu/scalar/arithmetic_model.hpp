// SPDX-License-Identifier: Apache-2.0
// Table of the arithmetic operations of a device, and the model that gives the correctly rounded results. Does not need
// the headers of the CUDA toolkit.
#pragma once
#include "core/arithmetic.hpp"
#include "emulation/evidence/gpu/scalar/arithmetic_rows.hpp"
#include "emulation/evidence/gpu/scalar/convert_model.hpp"

namespace macheps::evidence {

enum class Arithmetic : std::uint8_t {
#define MACHEPS_ID(id, ...) id,
    MACHEPS_ARITHMETIC_FUNCTIONS(MACHEPS_ID) MACHEPS_ARITHMETIC_PTX(MACHEPS_ID)
#undef MACHEPS_ID
};

/// Changes that an instruction makes to its operands or to the rounded result.
/// - `ftz`: subnormal operands become zeros with the same sign. Results that are below 2^-126 after rounding with an
///   unbounded exponent also become zeros. So a product just below 2^-126 is flushed even if it would round to 2^-126
///   as a subnormal number. The results of fma.rn.ftz on an H100 (docs/gpu.md) rule out a test for tiny results before
///   rounding. The recorded operands of mul.rn.ftz do not distinguish a test before rounding from a test after
///   rounding. For sums, quotients and roots, these tests never differ.
/// - `relu`: negative results become 0.
/// - `unit`: results are clamped to [0, 1], and NaN becomes 0.
enum class Variant : std::uint8_t { none, ftz, relu, unit };

struct ArithmeticRow {
    Arithmetic id;
    const char* instruction;
    Format format;
    Operation operation;
    bool reciprocal;  ///< the operation is 1 / a
    Round mode;
    Variant variant;
    Elements elements;
    int codes;  ///< maximum distance from the correctly rounded result, counted in codes
    /// Returns the number of operands.
    MACHEPS_HD constexpr int operands() const {
        if (operation == Operation::fma) return 3;
        return operation == Operation::sqrt || reciprocal ? 1 : 2;
    }
    /// Returns the number of possible inputs, or 0 if there are too many to try all of them. The probe then draws
    /// operands that are chosen to be hard until its time is over.
    MACHEPS_HD constexpr std::uint64_t inputs() const {
        const int bits = format.bits * operands();
        return elements == Elements::two || bits > 32 ? 0 : std::uint64_t{1} << bits;
    }
};

namespace detail::arithmetic_words {
inline constexpr Round rn = Round::nearest_even, rz = Round::toward_zero, rm = Round::down, rp = Round::up;
inline constexpr Operation add = Operation::add, sub = Operation::sub, mul = Operation::mul, div = Operation::div,
                           rcp = Operation::div, sqrt = Operation::sqrt, fma = Operation::fma;
constexpr bool is_reciprocal(const char* operation) { return operation[0] == 'r'; }
inline constexpr ArithmeticRow rows[] = {
#define MACHEPS_ROW(id, name, format, operation, mode, variant, elements, codes, call)               \
    {Arithmetic::id,     name, format, operation, is_reciprocal(#operation), mode, Variant::variant, \
     Elements::elements, codes},
    MACHEPS_ARITHMETIC_FUNCTIONS(MACHEPS_ROW) MACHEPS_ARITHMETIC_PTX(MACHEPS_ROW)
#undef MACHEPS_ROW
};
}  // namespace detail::arithmetic_words

inline constexpr auto& arithmetic_rows = detail::arithmetic_words::rows;

namespace detail {

inline const char* mode_name(Round mode) {
    const char* names[] = {"to nearest even", "to nearest away", "toward zero", "up", "down"};
    return names[static_cast<int>(mode)];
}

MACHEPS_HD inline std::uint64_t flush(Format f, std::uint64_t code) {
    return class_of(f, code) == InputClass::subnormal ? code & f.sign_bit() : code;
}

MACHEPS_HD inline std::uint64_t vary(const ArithmeticRow& row, std::uint64_t code) {
    const Format f = row.format;
    if (row.variant == Variant::none) return code;
    if (row.variant == Variant::ftz) return flush(f, code);
    if (is_nan_code(f, code)) return row.variant == Variant::unit ? 0 : code;
    if ((code & f.sign_bit()) != 0) return 0;
    const std::uint64_t one = static_cast<std::uint64_t>(f.exponent_bias) << f.fraction_bits();
    return row.variant == Variant::unit ? min_of(code, one) : code;
}

/// Returns the result of the model, which is the result of core/arithmetic.hpp with one exception: in formats narrower
/// than fp64, a NaN has NVIDIA's code (all ones, with a clear sign).
MACHEPS_HD inline std::uint64_t arithmetic_by_model(const ArithmeticRow& row, std::uint64_t a, std::uint64_t b,
                                                    std::uint64_t c) {
    const Format f = row.format;
    if (row.variant == Variant::ftz) a = flush(f, a), b = flush(f, b), c = flush(f, c);
    if (row.reciprocal) {
        b = a;
        a = static_cast<std::uint64_t>(f.exponent_bias) << f.fraction_bits();
    }
    const Rounded rounded = op(row.operation, f, a, b, c, row.mode);
    const std::uint64_t code = rounded.bits;
    if (row.variant == Variant::ftz && rounded.flags.underflow) return code & f.sign_bit();
    return vary(row, is_nan_code(f, code) && f.bits < 64 ? f.magnitude_mask() : code);
}

}  // namespace detail

/// The operands of one trial. `x` has the operands of the only element, or of the first of two elements that one
/// instruction processes. `y` has those of the second.
struct ArithmeticOperands {
    Operands x, y;
};
MACHEPS_HD inline ArithmeticOperands arithmetic_operands(const ArithmeticRow& row, std::uint64_t seed,
                                                         std::uint64_t index) {
    const Format f = row.format;
    const bool two = row.elements == Elements::two;
    ArithmeticOperands both;
    Operands &x = both.x, &y = both.y;
    if (row.inputs() == 0) {
        const Operation operation = row.reciprocal ? Operation::sqrt : row.operation;
        x = hard_operands(f, operation, seed, two ? 2 * index : index);
        if (two) y = hard_operands(f, operation, seed, 2 * index + 1);
        // Unused operands are printed in reports, so set them to zero.
        if (row.operands() < 3) x.c = y.c = 0;
        if (row.operands() < 2) x.b = y.b = 0;
    } else {
        x.a = row.operands() == 1 ? index : index & ((std::uint64_t{1} << f.bits) - 1);
        x.b = row.operands() == 1 ? 0 : index >> f.bits;
    }
    return both;
}

}  // namespace macheps::evidence
