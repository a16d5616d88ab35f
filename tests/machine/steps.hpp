// SPDX-License-Identifier: Apache-2.0
// Functions that evaluate one step of each model. oracle.cpp decodes the operands before a step, and chains the steps.
#pragma once
#include "tests/machine/oracle.hpp"

#include <optional>

namespace macheps::machine_oracle {

/// Operands of one step. If the instruction has scales, `sa` and `sb` have one entry for each product: the scale of the
/// block to which the factor belongs. Otherwise they are empty.
struct Step {
    std::vector<Number> a, b, sa, sb;
    Number c;
    const Type* c_type = nullptr;
};

[[nodiscard]] std::uint64_t nan_code(const Instruction& in);

/// Returns NaN or infinity if special operands decide the result: a NaN, inf * 0, or infinities. Otherwise returns
/// nothing. If `great_products_are_infinite`, products of 2^128 or more count as infinities.
[[nodiscard]] std::optional<std::uint64_t> special_result(const Instruction& in, const Step& step,
                                                          bool great_products_are_infinite);

[[nodiscard]] std::uint64_t fused_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t grouped_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t exact_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t pairwise_step(const Instruction& in, const Step& step, Mutation mutation);
/// Evaluates a step of CDNA3. If `parities` is 1, all products are in one sum. If it is 2, even and odd products are in
/// separate sums, and a tiny C is dropped.
[[nodiscard]] std::uint64_t truncated_step(const Instruction& in, const Step& step, int parities, Mutation mutation);
[[nodiscard]] std::uint64_t fma_step(const Instruction& in, const Step& step, Mutation mutation);
[[nodiscard]] std::uint64_t integer_step(const Instruction& in, const Step& step);
/// Evaluates the mutation pairwise_fp32: fp32 products, then a tree of fp32 additions, then the addition of C.
[[nodiscard]] std::uint64_t pairwise_fp32_step(const Instruction& in, const Step& step);

}  // namespace macheps::machine_oracle
