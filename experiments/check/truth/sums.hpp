// SPDX-License-Identifier: Apache-2.0
// Orders in which kernels sum rows, accumulator formats, and bounds of the rounding errors of sums.
#pragma once
#include "core/format.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

enum class SumShape : std::uint8_t {
    any,       ///< every order of n - 1 additions
    pairwise,  ///< a tree of minimal height
    lanes,     ///< `width` interleaved chains, joined by a tree
    blocks,    ///< chains over blocks of `width` elements, joined by a tree
    kahan,     ///< a chain with Kahan's compensation
};

struct SumOrder {
    SumShape shape = SumShape::any;
    std::int64_t width = 1;
    Format accumulator = fp32;

    bool is_narrow() const { return accumulator.precision < fp32.precision || accumulator.emin() > fp32.emin(); }
};

/// Parses an order: `any`, `pairwise`, `lanes32`, `blocks128` or `kahan`. The format of the partial sums may precede
/// the order: `fp16.pairwise`. A format alone, such as `bf16`, means the order `any`. Errors: throws Error (usage).
SumOrder parse_sum_order(std::string_view text, std::string_view where = "--sum");
std::string sum_order_text(const SumOrder& order);

/// Returns the height of the summation tree: the largest number of additions between a term and the final sum.
double sum_height(const SumOrder& order, std::int64_t terms);
/// Returns c such that the error of a sum of exact terms is at most c times the sum of their magnitudes.
double sum_error(const SumOrder& order, std::int64_t terms);

}  // namespace macheps::check
