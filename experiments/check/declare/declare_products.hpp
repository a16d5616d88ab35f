// SPDX-License-Identifier: Apache-2.0
// Keys that only declarations of matrix products have.
#pragma once
#include "core/rounding.hpp"
#include "experiments/check/declare/declare.hpp"

#include <optional>
#include <string_view>

namespace macheps::check {

/// Returns true if the operation is a matrix product. Used as the member `applies` of keys that only products have.
bool of_products(const Operation& operation, const DeclareKey& key);

std::vector<DeclareKey> product_keys();

/// Returns the name of the machine that sums the product: the declared machine or, if none is declared, `sliced`.
std::string_view machine_name_of(const Declaration& declaration);

/// How a kernel converts its fp32 operands before it multiplies them.
struct OperandConversion {
    std::string_view name;
    std::optional<Round> rounding{};  ///< rounding to tf32; empty if the operands are not converted
};
inline constexpr OperandConversion operand_conversions[] = {
    {"stored"},
    {"tf32:nearest_away", Round::nearest_away},
    {"tf32:toward_zero", Round::toward_zero},
    {"tf32:nearest_even", Round::nearest_even},
};
/// Returns null for an unknown name.
const OperandConversion* find_operand_conversion(std::string_view name);

}  // namespace macheps::check
