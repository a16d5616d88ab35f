// SPDX-License-Identifier: Apache-2.0
// One step of each model, between the decoding and the chain of oracle.cpp.
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

/// NaN or infinity where an operand, inf * 0 or infinities of both signs force it.
[[nodiscard]] std::optional<std::uint64_t> special_result(const Instruction& in, const Step& step,
                                                          bool great_products_are_infinite);

[[nodiscard]] std::uint64_t fused_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t grouped_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t exact_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t pairwise_step(const Instruction& in, const Step& step, Mutation mutation);
/// CDNA3: `parities` 1 (all products in one sum) or 2 (even and odd ones apart, and a tiny C dropped).
[[nodiscard]] std::uint64_t truncated_step(const Instruction& in, const Step& step, int parities, Mutation mutation);
[[nodiscard]] std::uint64_t fma_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t integer_step(const Instruction& in, const Step& step);
/// The wrong model of fp32 products and a tree of fp32 additions, C last.
[[nodiscard]] std::uint64_t pairwise_fp32_step(const Instruction& in, const Step& step);

}  // namespace macheps::machine_oracle
