// SPDX-License-Identifier: Apache-2.0
// Maps each class of operands to the type that makes its tiles: plan() draws the properties that a whole tile shares,
// and product() draws one product of the tile. A switch is used instead of a table of function pointers, because tiles
// are also made on devices.
#pragma once
#include "emulation/evidence/operands/classes_alignment.hpp"
#include "emulation/evidence/operands/classes_result.hpp"
#include "emulation/evidence/operands/classes_spread.hpp"
#include "emulation/evidence/operands/operand_class.hpp"

namespace macheps::evidence {

/// Calls `f` with an object of the type that makes the tiles of `cls`, and returns the result of the call.
template <class F>
MACHEPS_HD constexpr auto with_class(OperandClass cls, const F& f) {
    // clang-format off
    switch (cls) {
        case OperandClass::random_bits:     return f(classes::RandomBits{});
        case OperandClass::finite_bits:     return f(classes::RandomBits{});
        case OperandClass::normal:          return f(classes::Normal{});
        case OperandClass::close_exponents: return f(classes::CloseExponents{});
        case OperandClass::cancellation:    return f(classes::Cancellation{});
        case OperandClass::alignment_edge:  return f(classes::AlignmentEdge{});
        case OperandClass::swamp:           return f(classes::Swamp{});
        case OperandClass::subnormal:       return f(classes::Subnormal{});
        case OperandClass::one_to_four:     return f(classes::OneToFour{});
        case OperandClass::mixed:           return f(classes::Mixed{});
        case OperandClass::addend_dominant: return f(classes::FarAddend<1>{});
        case OperandClass::addend_tiny:     return f(classes::FarAddend<-1>{});
        case OperandClass::overflow:        return f(classes::Overflow{});
        case OperandClass::underflow:       return f(classes::Underflow{});
        case OperandClass::tie:             return f(classes::Tie{});
        case OperandClass::zeros:           return f(classes::Zeros{});
        case OperandClass::specials:        return f(classes::CloseExponents{});
        case OperandClass::exhaustive:      break;
    }
    // clang-format on
    return f(classes::Exhaustive{});
}

}  // namespace macheps::evidence
