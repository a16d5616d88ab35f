// SPDX-License-Identifier: Apache-2.0
// What Backend::matmul means for one element of its output. The scalar engine runs this text, and the vector and CUDA
// engines return its bits.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/dot.hpp"

namespace macheps::definition {

/// The accumulator of out[i,j]. `a` and `b` point to the first element of their matrices.
MACHEPS_HD inline float matmul_accumulator(const Matmul& args, const float* a, const float* b, std::int64_t i,
                                           std::int64_t j) {
    if (args.k == 0) return 0;
    const bool at = args.a.transposed, bt = args.b.transposed;
    return fp32_chain_dot(a + i * (at ? 1 : args.a.ld), at ? args.a.ld : 1, b + j * (bt ? args.b.ld : 1),
                          bt ? 1 : args.b.ld, args.k);
}

/// The way from an accumulator to the output: what enters the last cast, and what it gives.
struct MatmulOutput {
    float before, after;
};

/// `element` indexes the random stream and counts row-major over [batch_outer, batch_inner, m, n].
MACHEPS_HD inline MatmulOutput matmul_output(const Matmul& args, float acc, std::int64_t j, std::uint64_t element) {
    float x = args.out_scale == 1 ? acc : acc * args.out_scale;
    if (args.bias != nullptr) {
        if (args.bias_after_cast) x = store_as(args.out_cast, x, element);
        x += args.bias[j];
    }
    x = canonical(x);
    return {x, store_as(args.out_cast, x, element)};
}

}  // namespace macheps::definition
