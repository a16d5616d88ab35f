// SPDX-License-Identifier: Apache-2.0
// Matrix products in fp64. Each product is rounded, and the products are added in ascending order. The bits are
// therefore the same on every instruction set and for any number of threads.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/check/truth/operands.hpp"

#include <vector>

namespace macheps::check {

/// Returns the matrix product of `a` and `b`, whose shapes and batches are those of the operands in `of`.
std::vector<double> multiply(const ProductOperands& of, const std::vector<double>& a, const std::vector<double>& b,
                             ThreadPool& pool, Simd simd = chosen_simd());

}  // namespace macheps::check
