// SPDX-License-Identifier: Apache-2.0
// Orders in which kernels sum rows, the formats of their accumulators, and bounds of their errors.
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
    lanes,     ///< chains of every width-th element, joined by a tree
    blocks,    ///< chains of `width` neighbours, joined by a tree
    kahan,     ///< compensated
};

struct SumOrder {
    SumShape shape = SumShape::any;
    std::int64_t width = 1;
    Format accumulator = fp32;

    bool is_narrow() const { return accumulator.precision < fp32.precision || accumulator.emin() > fp32.emin(); }
};

/// Parses an order: `any`, `pairwise`, `lanes32`, `blocks128` or `kahan`. A format of the partial sums may precede the
/// order, or stand alone for the order `any`: `fp16.pairwise`, `bf16`. Errors: throws Error (usage).
SumOrder parse_sum_order(std::string_view text, std::string_view where = "--sum");
std::string sum_order_text(const SumOrder& order);

/// Returns the height of the tree: the largest number of additions that a term passes through.
double sum_height(const SumOrder& order, std::int64_t terms);
/// Returns c such that the error of a sum of exact terms is at most c times the sum of their magnitudes.
double sum_error(const SumOrder& order, std::int64_t terms);

}  // namespace macheps::check
