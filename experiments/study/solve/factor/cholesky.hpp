// SPDX-License-Identifier: Apache-2.0
// Cholesky's factorisation in any format: the kernel. `definitions.hpp` says what it computes.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/solve/factor/factors.hpp"

namespace macheps::study {

/// A = L L' of a symmetric matrix of numbers of `format`, of which the lower half is read. The same bits on every instruction
/// set and for every number of threads.
Factors factor_cholesky(Matrix a, const Format& format, ThreadPool& pool, Simd simd = chosen_simd());

/// Each a_ii becomes a_ii + c u a_ii, u the unit roundoff of `format`: what keeps a matrix definite when it is rounded
/// (Higham, Pranesh 2021).
Matrix shifted(Matrix a, const Format& format, double c);

bool is_symmetric(const Matrix& a);

}  // namespace macheps::study
