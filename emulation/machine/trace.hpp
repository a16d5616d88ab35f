// SPDX-License-Identifier: Apache-2.0
// Traces the fused steps of a matrix unit, so that people can see the bits that a step cuts off. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace macheps {

struct TracedTerm {
    double a = 0, b = 0;
    double product = 0;            ///< exact, except for products of fp64 numbers
    std::optional<double> kept{};  ///< the part of the product that is added; set if the step cuts products
};

/// One fused step. The fields with an exponent, and the kept parts, are set only for the model `truncated` if no operand
/// is infinite or NaN: products and addend are cut toward zero to multiples of 2^unit_exponent, which is
/// 2^(largest_exponent - F), and then added exactly. For the other models, a step has only operands, products and results.
struct TracedStep {
    double addend = 0;
    std::optional<double> addend_kept{};
    std::vector<TracedTerm> terms{};
    std::optional<int> largest_exponent{}, unit_exponent{};
    std::optional<double> sum{};  ///< sum of the kept parts
    std::uint64_t code = 0;       ///< the result, in the format of the machine's result
    double result = 0;
};

/// Returns the steps with which a machine adds the products of `a` and `b`, which are codes of these formats, to the
/// addend `c`, a code of machine.addend. A step whose products are missing at the end gets zeros. Returns nothing for a
/// machine with block scales, and for orders of summation without steps (pairwise, kahan, exact).
std::optional<std::vector<TracedStep>> trace_products(const Machine& machine, Format a_format, Format b_format,
                                                      std::span<const std::uint64_t> a,
                                                      std::span<const std::uint64_t> b, std::uint64_t c);

}  // namespace macheps
