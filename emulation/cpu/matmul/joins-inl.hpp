// SPDX-License-Identifier: Apache-2.0
// Decode scales for the kernel of the machine fp32.chain. The scales are packed like the operands. If a sum is split
// into partial sums (Promotion), each partial sum is scaled when it joins the main sum. Otherwise the finished sum is
// scaled once. Included once per SIMD target.
#include "emulation/cpu/matmul/parts-inl.hpp"

#if defined(MACHEPS_MATMUL_JOINS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MATMUL_JOINS_INL
#undef MACHEPS_MATMUL_JOINS_INL
#else
#define MACHEPS_MATMUL_JOINS_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Packs the scales of `count` rows of a or columns of b, from index `first` on, for `intervals` intervals of k.
/// Interval q consists of `interval` terms, the first of which is first_k + q * interval. out[q * ld + i] is the scale
/// of row or column first + i in interval q. ld is a multiple of the vector length; unused elements are 1.
inline void pack_scales(const OperandScales& scales, std::int64_t first, std::int64_t count, std::int64_t first_k,
                        std::int64_t interval, std::int64_t intervals, std::int64_t ld, float* out) {
    for (std::int64_t q = 0; q < intervals; ++q, out += ld) {
        std::int64_t i = 0;
        if (scales.data != nullptr) {
            const float* row = scales.data + (first_k + q * interval) / scales.k_block * scales.k_stride;
            const std::int64_t block = scales.outer_block, stride = scales.outer_stride;
            if (block == 1) {
                for (; i < count; ++i) out[i] = row[(first + i) * stride];
            }
            while (i < count) {
                const std::int64_t group = (first + i) / block, end = min_of((group + 1) * block - first, count);
                for (const float scale = row[group * stride]; i < end; ++i) out[i] = scale;
            }
        }
        for (; i < ld; ++i) out[i] = 1;
    }
}

/// How the sums of a tile are split into partial sums, scaled and joined.
struct Joins {
    std::int64_t interval = 0;               ///< terms per partial sum; 0: the whole sum is one chain
    const float *a = nullptr, *b = nullptr;  ///< scales of the tile's rows and columns
    std::int64_t a_ld = 0, b_ld = 0;         ///< elements from one interval to the next
    Promotion promotion = Promotion::none;   ///< fma_joint or fma_left
    ScaleOrder order = ScaleOrder::joint;    ///< order in which a sum that is one chain is multiplied by the two scales
    bool at_end() const { return a != nullptr && interval == 0; }
};

/// Scales `partial` by sa and sb, adds it to the main sum, and returns the new main sum.
HWY_INLINE F32 joined(Promotion promotion, F32 partial, F32 sa, F32 sb, F32 main) {
    return promotion == Promotion::fma_joint ? fma(partial, sa * sb, main) : fma(partial * sa, sb, main);
}

/// Applies the last steps before the cast to finished sums: the scales (if the sum is a single chain), the factor and
/// the bias. `out` points to `rows` rows that are `ld` elements apart. `bias` points to the bias of the first column,
/// or is null.
inline void finish_rows(const Joins& joins, float factor, const float* bias, std::int64_t rows, std::int64_t columns,
                        float* out, std::int64_t ld) {
    for (std::int64_t i = 0; i < rows; ++i, out += ld) {
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, columns - j));
            F32 x = load_n(out + j, count);
            if (joins.at_end()) {
                const F32 sa(joins.a[i]), sb = load(joins.b + j);
                switch (joins.order) {
                    case ScaleOrder::a_first:
                        x = sb * (sa * x);
                        break;
                    case ScaleOrder::b_first:
                        x = sa * (sb * x);
                        break;
                    default:
                        x = x * (sa * sb);
                        break;
                }
            }
            x = x * F32(factor);  // exact if the factor is 1
            if (bias != nullptr) x = x + load_n(bias + j, count);
            store_n(canonical(x), out + j, count);
        }
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
