// SPDX-License-Identifier: Apache-2.0
// QR by Householder's reflections in any format: the kernel. `definitions.hpp` says what it computes.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/solve/factor/factors.hpp"

namespace macheps::study {

/// `a` holds numbers of `format`. The same bits on every instruction set and for every number of threads.
Factors factor_qr(Matrix a, const Format& format, ThreadPool& pool, Simd simd = chosen_simd());

/// norm(A - Q R) / norm(A), the product of Q and R in fp64, or with 113 digits where fp64 is the factors' format.
double qr_error(const Matrix& a, const Factors& factors);

}  // namespace macheps::study
