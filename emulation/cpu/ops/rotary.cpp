// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/rotary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/rotary.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET

void rotate_row(const float* x, const float* cos, const float* sin, Turn turn, std::int64_t heads, std::int64_t width,
                float* direct, float* rotated) {
    const std::int64_t half = width / 2;
    for (std::int64_t i = 0; i < half; i += vector_step) {
        const auto count = static_cast<std::size_t>(min_of(vector_step, half - i));
        const F32 c = load_n(cos + i, count), positive = load_n(sin + i, count);
        const F32 s = turn == Turn::forward ? positive : -positive;
        for (std::int64_t h = 0; h < heads; ++h) {
            const std::int64_t first = h * width + i, second = first + half;
            const F32 a = load_n(x + first, count), b = load_n(x + second, count);
            store_n(canonical(a * c), direct + first, count);
            store_n(canonical(b * c), direct + second, count);
            store_n(canonical(-b * s), rotated + first, count);
            store_n(canonical(a * s), rotated + second, count);
        }
    }
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

RotateKernel rotate_kernel(Simd level) { return MACHEPS_CHOOSE_TARGET(level, definition::rotate_row, rotate_row); }

}  // namespace macheps
#endif
