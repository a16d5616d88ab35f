// SPDX-License-Identifier: Apache-2.0
// Orders in which kernels sum rows, and in which format: how much each may lose.
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
    pairwise,  ///< a tree of least depth
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

/// `any`, `pairwise`, `lanes32`, `blocks128`, `kahan`; before it, or alone, a format that partial sums are held in:
/// `bf16`, `fp16.pairwise`. Errors: throws Error (usage).
SumOrder parse_sum_order(std::string_view text, std::string_view where = "--sum");
std::string sum_order_text(const SumOrder& order);

/// How many additions lie above a term, at the most: the height of the tree.
double sum_height(const SumOrder& order, std::int64_t terms);
/// c such that the sum of exact terms is within c times the sum of their magnitudes, in the accumulator's format.
double sum_error(const SumOrder& order, std::int64_t terms);

}  // namespace macheps::check
