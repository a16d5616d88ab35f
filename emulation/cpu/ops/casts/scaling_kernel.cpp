// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/casts/scaling_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/ops/casts/cast-inl.hpp"
#include "emulation/cpu/ops/casts/scaling_kernel.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"
#include "emulation/definitions.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

template <bool ignore_nan>
HWY_INLINE I32 magnitude(I32 x) {
    const I32 size(hn::And(x.v, I32(0x7fffffff).v));
    if constexpr (!ignore_nan) return size;
    return I32(hn::IfThenZeroElse(hn::Gt(size.v, I32(0x7f800000).v), size.v));
}

HWY_INLINE I32 larger(I32 a, I32 b) { return I32(hn::Max(a.v, b.v)); }

/// Divides [0, n) into vectors and calls f(first, count) for each. Only the last vector may have fewer elements than
/// lanes.
template <class Function>
HWY_INLINE void each_vector(std::int64_t n, const Function& f) {
    std::int64_t i = 0;
    for (; i + vector_step <= n; i += vector_step) f(i, f32_lanes);
    if (i < n) f(i, static_cast<std::size_t>(n - i));
}

/// Finds the largest magnitude of each column over all rows, for blocks that are one column wide. The columns fill
/// `vectors` adjacent vectors, and the last of these vectors has only `count` columns.
template <bool ignore_nan, int vectors>
HWY_INLINE void largest_of_columns(const std::int32_t* bits, std::int64_t rows, std::int64_t ld, std::size_t count,
                                   std::int32_t* out) {
    I32 top[vectors];
    for (std::int64_t r = 0; r < rows; ++r, bits += ld) {
        for (int v = 0; v < vectors; ++v) {
            const std::size_t here = v + 1 < vectors ? f32_lanes : count;
            top[v] = larger(top[v], magnitude<ignore_nan>(load_n(bits + v * vector_step, here)));
        }
    }
    for (int v = 0; v < vectors; ++v) store_n(top[v], out + v * vector_step, v + 1 < vectors ? f32_lanes : count);
}

template <bool ignore_nan>
void find_largest(const ScaledRows& in, std::int64_t block, std::int32_t* out) {
    const auto* bits = reinterpret_cast<const std::int32_t*>(in.x);
    if (block == 1) {
        std::int64_t i = 0;
        for (; i + 4 * vector_step <= in.n; i += 4 * vector_step) {
            largest_of_columns<ignore_nan, 4>(bits + i, in.rows, in.ld, f32_lanes, out + i);
        }
        each_vector(in.n - i, [&](std::int64_t j, std::size_t count) HWY_ATTR {
            largest_of_columns<ignore_nan, 1>(bits + i + j, in.rows, in.ld, count, out + i + j);
        });
        return;
    }
    for (std::int64_t first = 0; first < in.n; first += block, ++out) {
        I32 top;
        const std::int64_t width = min_of(block, in.n - first);
        const std::int32_t* row = bits + first;
        for (std::int64_t r = 0; r < in.rows; ++r, row += in.ld) {
            each_vector(width, [&](std::int64_t i, std::size_t count)
                                   HWY_ATTR { top = larger(top, magnitude<ignore_nan>(load_n(row + i, count))); });
        }
        *out = hn::GetLane(hn::MaxOfLanes(DI32(), top.v));
    }
}

void largest(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out) {
    ignore_nan ? find_largest<true>(in, block, out) : find_largest<false>(in, block, out);
}

void multiply(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z) {
    const float* x = in.x;
    for (std::int64_t r = 0; r < in.rows; ++r, x += in.ld, z += in.n, scales += step) {
        if (block == 1) {
            for_each_vector(in.n, z, [&](std::int64_t i, std::size_t count) HWY_ATTR {
                return load_n(x + i, count) * load_n(scales + i, count);
            });
            continue;
        }
        const float* scale_of = scales;
        for (std::int64_t first = 0; first < in.n; first += block, ++scale_of) {
            const F32 scale(*scale_of);
            for_each_vector(min_of(block, in.n - first), z + first, [&](std::int64_t i, std::size_t count) HWY_ATTR {
                return load_n(x + first + i, count) * scale;
            });
        }
    }
}

/// Multiplies, and casts the products to nearest even. Every overflow gives the largest finite number.
template <vector_cast::Known known>
void multiply_and_cast(const CastPlan& plan, const ScaledRows& in, const float* scales, std::int64_t step,
                       std::int64_t block, float* out) {
    using namespace vector_cast;
    VectorRounder<Round::nearest_even> rounder(plan);
    Seen seen;
    const float* x = in.x;
    const auto cast = [&](std::int64_t i, std::size_t count) HWY_ATTR {
        store_n(F32(cast_vector<Round::nearest_even, known>(rounder, load_n(x + i, count).v, hn::Zero(du), seen)),
                out + i, count);
    };
    for (std::int64_t r = 0; r < in.rows; ++r, x += in.ld, out += in.n, scales += step) {
        if (block == 1) {
            each_vector(in.n, [&](std::int64_t i, std::size_t count) HWY_ATTR {
                rounder.scale = load_n(scales + i, count).v;
                cast(i, count);
            });
            continue;
        }
        const float* scale_of = scales;
        for (std::int64_t first = 0; first < in.n; first += block, ++scale_of) {
            rounder.scale = F32(*scale_of).v;
            each_vector(min_of(block, in.n - first),
                        [&](std::int64_t i, std::size_t count) HWY_ATTR { cast(first + i, count); });
        }
    }
}

ScalingKernels::Cast cast_kernel_of(const CastPlan& plan) {
    const bool is_usual = plan.path == CastPlan::Path::narrow && plan.cast.round == Round::nearest_even &&
                          plan.infinity_is_max && !plan.signless;
    if (!is_usual) return nullptr;
#if HWY_TARGET == HWY_AVX3
    if (plan.nan_is_max) return multiply_and_cast<vector_cast::Known{.limited = true, .no_nan = true}>;
#endif
    return multiply_and_cast<vector_cast::Known{.limited = true}>;
}

constexpr ScalingKernels kernels{largest, multiply, cast_kernel_of};

}  // namespace

const ScalingKernels& kernels_of_scaling() { return kernels; }

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace {

void define_largest(const ScaledRows& in, std::int64_t block, bool ignore_nan, std::int32_t* out) {
    for (std::int64_t i = 0; i < in.n; i += block) out[i / block] = 0;
    for (std::int64_t r = 0; r < in.rows; ++r) {
        for (std::int64_t i = 0; i < in.n; ++i) {
            std::int32_t size = bit_cast<std::int32_t>(in.x[r * in.ld + i]) & 0x7fffffff;
            if (ignore_nan && size > 0x7f800000) size = 0;
            out[i / block] = max_of(out[i / block], size);
        }
    }
}

void define_multiply(const ScaledRows& in, const float* scales, std::int64_t step, std::int64_t block, float* z) {
    for (std::int64_t r = 0; r < in.rows; ++r) {
        for (std::int64_t i = 0; i < in.n; ++i) {
            z[r * in.n + i] = definition::canonical(in.x[r * in.ld + i] * scales[r * step + i / block]);
        }
    }
}

/// Returns null: the scalar table has no kernel that casts in the same pass. scaled_cast() then casts in a second pass.
ScalingKernels::Cast no_cast_kernel(const CastPlan&) { return nullptr; }

const ScalingKernels& definitions() {
    static constexpr ScalingKernels table{define_largest, define_multiply, no_cast_kernel};
    return table;
}

}  // namespace

const ScalingKernels& scaling_kernels(Simd simd) {
    return MACHEPS_CHOOSE_TARGET(simd, definitions, kernels_of_scaling)();
}

}  // namespace macheps
#endif
