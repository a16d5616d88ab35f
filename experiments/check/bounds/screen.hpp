// SPDX-License-Identifier: Apache-2.0
// A screen of all outputs of a product, including those that a sample leaves out. Each column has a random sign. For 64
// columns, let x be the vector of their signs. Element i of A (B x) is then the sum of the 64 outputs of row i, each
// multiplied by the sign of its column. Computing A (B x) costs as much as one column of a product instead of 64
// columns. The error of a legal kernel's sum is at most the sum of the bounds of its outputs (certain). The signs are
// independent of the errors. Therefore the error of the sum exceeds lambda times the norm of these bounds only with the
// requested probability (Hoeffding).
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/bounds/products.hpp"
#include "experiments/check/verdict.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace macheps::check {

/// A product, and everything else that its outputs depend on.
struct ScreenedProduct {
    const ProductOperands& of;
    const std::optional<MatmulRule>& rule;
    SumFreedom freedom{};
    std::span<const Input> inputs{};  ///< scales, bias, c and residual, if present
    double alpha = 1, beta = 1;
    Format output = fp32;
    Round rounding = Round::nearest_even;  ///< rounding of the outputs
};

/// Screens all outputs `got`. `delta` is the probability that a legal kernel exceeds at least one probable bound.
/// Precondition: the product has no activation, so that its outputs are sums of their terms.
Screen screen(const ScreenedProduct& product, NumberView got, double delta, ThreadPool& pool);

}  // namespace macheps::check
