// SPDX-License-Identifier: Apache-2.0
// MatmulBlock: the part of a matmul that one thread computes, a rectangle of one output matrix.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

struct MatmulBlock {
    const float *a = nullptr, *b = nullptr;  ///< first elements of the two matrices to multiply
    const float* addend = nullptr;           ///< first element of C, or null
    float* out = nullptr;
    std::int64_t first_row = 0, last_row = 0, first_column = 0, last_column = 0;
    std::uint64_t first_element = 0;  ///< index of the matrix's first element in the random stream
};

/// Kernel that computes the outputs of `block`. If `tally` is not null, adds the statistics of the last cast to *tally.
using MatmulBlockKernel = void (*)(const Matmul& args, const Caster& caster, const MatmulBlock& block, Tally* tally);
MatmulBlockKernel matmul_block_kernel(Simd level);

}  // namespace macheps
