// SPDX-License-Identifier: Apache-2.0
// A screen of all outputs of a product, for those that a sample leaves out. With signs x, drawn once for each column, the
// sum of 64 outputs of a row, each times its sign, is A (B x): one column of a product in place of 64. A legal kernel's sum
// is off by no more than all its outputs' bounds together (certain), and, because the signs are independent of its errors,
// by more than lambda times the norm of those bounds only in the probability that was asked for (Hoeffding).
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/bounds/products.hpp"
#include "experiments/check/verdict.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace macheps::check {

/// What the screen needs to know of a product beside its operands.
struct ScreenedProduct {
    const ProductOperands& of;
    const std::optional<MatmulRule>& rule;
    SumFreedom freedom{};
    std::span<const Input> inputs{};  ///< scales, bias, c and residual, as far as there are any
    double alpha = 1, beta = 1;
    Format output = fp32;
    Round rounding = Round::nearest_even;  ///< rounding of the outputs
};

/// `got` are all outputs; `delta` the probability with which any probable bound may be exceeded by a legal kernel. The
/// product has no activation: its outputs are sums of their terms.
Screen screen(const ScreenedProduct& product, NumberView got, double delta, ThreadPool& pool);

}  // namespace macheps::check
