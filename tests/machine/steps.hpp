// SPDX-License-Identifier: Apache-2.0
// One step of each model. oracle.cpp decodes the operands before a step, and chains the steps.
#pragma once
#include "tests/machine/oracle.hpp"

#include <optional>

namespace macheps::machine_oracle {

/// Operands of one step. `sa`, `sb` hold the scales of the products' blocks, one entry for each product, or nothing.
struct Step {
    std::vector<Number> a, b, sa, sb;
    Number c;
    const Type* c_type = nullptr;
};

[[nodiscard]] std::uint64_t nan_code(const Instruction& in);

/// Returns NaN or infinity if an operand, inf * 0 or infinities of both signs force it, otherwise nothing.
[[nodiscard]] std::optional<std::uint64_t> special_result(const Instruction& in, const Step& step,
                                                          bool great_products_are_infinite);

[[nodiscard]] std::uint64_t fused_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t grouped_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t exact_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t pairwise_step(const Instruction& in, const Step& step, Mutation mutation);
/// Evaluates a step of CDNA3. `parities` is 1 (all products in one sum) or 2 (even and odd ones in separate sums, and a
/// tiny C is dropped).
[[nodiscard]] std::uint64_t truncated_step(const Instruction& in, const Step& step, int parities, Mutation mutation);
[[nodiscard]] std::uint64_t fma_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t integer_step(const Instruction& in, const Step& step);
/// Evaluates the wrong model of fp32 products and a tree of fp32 additions, with C last.
[[nodiscard]] std::uint64_t pairwise_fp32_step(const Instruction& in, const Step& step);

}  // namespace macheps::machine_oracle
