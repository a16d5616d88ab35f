// SPDX-License-Identifier: Apache-2.0
// The summation orders of the machines: how one accumulator of a matmul is made. Host and device.
#pragma once
#include "core/hd.hpp"

namespace macheps {

/// Machine fp32.chain: acc = +0, then acc = fma(a[i * a_step], b[i * b_step], acc) for i = 0 .. k - 1 in that order.
/// k == 0 gives +0. A NaN result carries whatever bits the processor made: its reader canonicalises it.
MACHEPS_HD inline float fp32_chain_dot(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step,
                                       std::int64_t k) {
    float acc = 0;
    for (std::int64_t i = 0; i < k; ++i) acc = fma(a[i * a_step], b[i * b_step], acc);
    return acc;
}

}  // namespace macheps
