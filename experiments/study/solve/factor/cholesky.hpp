// SPDX-License-Identifier: Apache-2.0
// The kernel of the Cholesky factorisation, in any format. Its results are defined in definitions.hpp.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/solve/factor/factors.hpp"

namespace macheps::study {

/// Factors a symmetric matrix A = L L'. The elements of `a` are numbers of `format`. Only the lower half is read. The
/// bits are the same on every instruction set and for every number of threads.
Factors factor_cholesky(Matrix a, const Format& format, ThreadPool& pool, Simd simd = chosen_simd());

/// Returns the matrix with diagonal elements a_ii + c u a_ii, where u is the unit roundoff of `format`. With this
/// shift, a positive definite matrix stays definite when it is rounded (Higham, Pranesh 2021).
Matrix shifted(Matrix a, const Format& format, double c);

bool is_symmetric(const Matrix& a);

}  // namespace macheps::study
