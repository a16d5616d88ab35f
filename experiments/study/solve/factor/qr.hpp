// SPDX-License-Identifier: Apache-2.0
// The kernel of Householder QR, in any format. Its results are defined in definitions.hpp.
#pragma once
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/study/solve/factor/factors.hpp"

namespace macheps::study {

/// Returns the factors of `a`, which holds numbers of `format`. The bits are the same on every instruction set and for
/// every number of threads.
Factors factor_qr(Matrix a, const Format& format, ThreadPool& pool, Simd simd = chosen_simd());

/// Returns norm(A - Q R) / norm(A). The product of Q and R is computed in fp64, or with 113 digits if the factors are
/// not numbers of fp32.
double qr_error(const Matrix& a, const Factors& factors);

}  // namespace macheps::study
