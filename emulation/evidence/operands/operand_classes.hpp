// SPDX-License-Identifier: Apache-2.0
// All classes of operands, one row each, with the type that makes them: plan() draws what a tile has in common,
// product() one of its products. This is a switch instead of a table of pointers because tiles are also made on
// devices.
#pragma once
#include "emulation/evidence/operands/classes_alignment.hpp"
#include "emulation/evidence/operands/classes_result.hpp"
#include "emulation/evidence/operands/classes_spread.hpp"
#include "emulation/evidence/operands/operand_class.hpp"

namespace macheps::evidence {

/// Calls `f` with the functions of that class.
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
