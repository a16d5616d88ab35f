// SPDX-License-Identifier: Apache-2.0
// Code that the matmul kernels share: packing with transposition, and the cast of finished rows. Included once per SIMD
// target.
#include "emulation/cpu/matmul/kernel.hpp"
#include "emulation/cpu/simd/lanes-inl.hpp"

#if defined(MACHEPS_MATMUL_PARTS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MATMUL_PARTS_INL
#undef MACHEPS_MATMUL_PARTS_INL
#else
#define MACHEPS_MATMUL_PARTS_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

inline constexpr std::int64_t lanes_of_vector = f32_lanes;

/// The scales of an operand for one term of the sum. operator() returns the same values as OperandScales::at(). For
/// most operands, it needs no division per element.
class ScalesOfTerm {
  public:
    ScalesOfTerm(const OperandScales& scales, std::int64_t term)
        : data_(scales.data == nullptr ? &one : scales.data + term / scales.k_block * scales.k_stride),
          block_(scales.outer_block),
          stride_(scales.data == nullptr ? 0 : scales.outer_stride) {}
    HWY_INLINE float operator()(std::int64_t outer) const {
        return data_[(block_ == 1 ? outer : stride_ == 0 ? 0 : outer / block_) * stride_];
    }

  private:
    static constexpr float one = 1;
    const float* data_;
    std::int64_t block_, stride_;
};

/// Loads four elements from each of row[0], row[4], row[8], ... Block l of 128 bits of the result holds the elements
/// with indices `at` to at + 3 of row[4 l].
HWY_INLINE F32 load_blocks(const float* const* row, std::int64_t at) {
#if HWY_TARGET == HWY_AVX3
    const hn::Half<DF32> half;
    const hn::Half<decltype(half)> quarter;
    return hn::Combine(DF32(), hn::Combine(half, hn::LoadU(quarter, row[12] + at), hn::LoadU(quarter, row[8] + at)),
                       hn::Combine(half, hn::LoadU(quarter, row[4] + at), hn::LoadU(quarter, row[0] + at)));
#else
    const hn::Half<DF32> half;
    return hn::Combine(DF32(), hn::LoadU(half, row[4] + at), hn::LoadU(half, row[0] + at));
#endif
}

/// Packs a transposed block: out[p * step + r] = in[r * ld + p] for r < rows <= lanes, p < k. Writes a whole vector for
/// each p, in ascending p. Elements beyond `rows` are copies of the last row, which are overwritten later or never
/// used.
inline void pack_transposed(const float* in, std::int64_t ld, std::int64_t rows, std::int64_t k, float* out,
                            std::int64_t step) {
    const float* row[lanes_of_vector];
    for (std::int64_t r = 0; r < lanes_of_vector; ++r) row[r] = in + min_of(r, rows - 1) * ld;
    std::int64_t p = 0;
    for (; p + 4 <= k; p += 4, out += 4 * step) {
        // Transpose the 4 x 4 elements of each 128-bit block.
        const auto v0 = load_blocks(row, p).v, v1 = load_blocks(row + 1, p).v;
        const auto v2 = load_blocks(row + 2, p).v, v3 = load_blocks(row + 3, p).v;
        const DF32 d;
        const auto even01 = hn::InterleaveLower(d, v0, v2), even23 = hn::InterleaveUpper(d, v0, v2);
        const auto odd01 = hn::InterleaveLower(d, v1, v3), odd23 = hn::InterleaveUpper(d, v1, v3);
        hn::StoreU(hn::InterleaveLower(d, even01, odd01), d, out);
        hn::StoreU(hn::InterleaveUpper(d, even01, odd01), d, out + step);
        hn::StoreU(hn::InterleaveLower(d, even23, odd23), d, out + 2 * step);
        hn::StoreU(hn::InterleaveUpper(d, even23, odd23), d, out + 3 * step);
    }
    for (; p < k; ++p, out += step) {
        for (std::int64_t r = 0; r < lanes_of_vector; ++r) out[r] = row[r][p];
    }
}

/// Casts finished rows while they are still in the cache. With bias_after_cast, adds the bias after this cast and casts
/// again.
inline void cast_rows(const Matmul& args, const Caster& caster, const MatmulBlock& block, std::int64_t row,
                      std::int64_t rows, std::int64_t column, std::int64_t columns, Tally* tally) {
    const bool after = args.bias != nullptr && args.bias_after_cast;
    const bool identity = args.out_cast.is_identity();
    if (identity && tally == nullptr && !after) return;
    // If whole rows are contiguous in memory, cast them as one range.
    const bool whole = columns == args.n && args.ld_out == args.n && !after;
    const std::int64_t ranges = whole ? 1 : rows, length = whole ? rows * columns : columns;
    for (std::int64_t i = 0; i < ranges; ++i) {
        float* out = block.out + (row + i) * args.ld_out + column;
        const auto element = block.first_element + static_cast<std::uint64_t>((row + i) * args.n + column);
        if (after) {
            if (!identity) caster(out, out, length, nullptr, element);
            for (std::int64_t j = 0; j < length; j += lanes_of_vector) {
                const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, length - j));
                const F32 x = load_n(out + j, count) + load_n(args.bias + column + j, count);
                store_n(canonical(x), out + j, count);
            }
        }
        if (!identity || tally != nullptr) caster(out, out, length, tally, element);
    }
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
