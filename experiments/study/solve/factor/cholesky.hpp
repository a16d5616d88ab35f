// SPDX-License-Identifier: Apache-2.0
// Cholesky factorisation in any format: the kernel. `definitions.hpp` defines what it computes.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/solve/factor/factors.hpp"

namespace macheps::study {

/// Returns A = L L' for a symmetric matrix of numbers of `format`. Only the lower half is read. The bits are the same
/// on every instruction set and for every number of threads.
Factors factor_cholesky(Matrix a, const Format& format, ThreadPool& pool, Simd simd = chosen_simd());

/// Returns the matrix with a_ii + c u a_ii as diagonal elements, where u is the unit roundoff of `format`. This keeps a
/// matrix definite when it is rounded (Higham, Pranesh 2021).
Matrix shifted(Matrix a, const Format& format, double c);

bool is_symmetric(const Matrix& a);

}  // namespace macheps::study
