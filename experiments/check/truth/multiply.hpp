// SPDX-License-Identifier: Apache-2.0
// Matrix products in fp64. Products are rounded, and terms are added in ascending order, so the bits are the same on
// every instruction set and for any number of threads.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/check/truth/operands.hpp"

#include <vector>

namespace macheps::check {

/// Returns the product of `a` and `b`, which have the shapes of the operands `of`.
std::vector<double> multiply(const ProductOperands& of, const std::vector<double>& a, const std::vector<double>& b,
                             ThreadPool& pool, Simd simd = chosen_simd());

}  // namespace macheps::check
