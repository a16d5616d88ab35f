// SPDX-License-Identifier: Apache-2.0
// Matmul kernel for machine fp32.chain. Packed panels of B (32 columns on AVX-512, 16 on AVX2) stay in the second-level
// cache, a packed strip of rows of A stays in the first-level cache, and a tile of accumulators stays in registers. The
// terms of an output are added in ascending k for every block size, because each block of k continues from the stored
// accumulators. If scales change along k, every interval with constant scales is a separate chain, and a block of k
// contains only whole intervals.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/matmul/kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/matmul/joins-inl.hpp"
#include "emulation/cpu/matmul/kernel.hpp"
#include "emulation/cpu/matmul/parts-inl.hpp"
#include "emulation/matmul/matmul.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

constexpr std::int64_t panel_columns = 2 * lanes_of_vector;
/// Rows of a tile. Its accumulators take 24 of 32 registers on AVX-512, and 12 of 16 on AVX2. Each loaded vector of B
/// is used for every row, and each scalar of A for two vectors.
constexpr std::int64_t strip_rows = HWY_TARGET == HWY_AVX3 ? 12 : 6;
constexpr std::int64_t k_block = 384;       ///< terms; a strip of A takes at most 18 KiB of the first-level cache
constexpr std::int64_t column_block = 512;  ///< columns; a block of B takes at most 768 KiB of the second-level cache

/// Number of strips of a transposed A that are packed together, so that whole cache lines of A are read. This saves 4%
/// of the time of a product with 128 columns. It costs 3% if a block of B fills the second-level cache, so it is only
/// done for at most `columns_beside_strips` columns.
constexpr std::int64_t strips_packed = 4, columns_beside_strips = 256;

/// Returns the distance in elements between the beginnings of two consecutive packed strips of `rows` x `k` elements.
/// It leaves space after each strip, because packing writes whole vectors, the last of which reaches beyond the strip.
constexpr std::int64_t strip_stride(std::int64_t rows, std::int64_t k) { return rows * k + panel_columns; }

/// Scratch memory of one thread, kept from call to call.
struct Scratch {
    struct Free {
        void operator()(float* p) const { std::free(p); }
    };
    static float* allocate(std::int64_t count) {
        void* p = std::aligned_alloc(64, static_cast<std::size_t>(count) * sizeof(float));
        if (p == nullptr) throw std::bad_alloc();
        return static_cast<float*>(p);
    }
    std::unique_ptr<float, Free> a{allocate(strips_packed * strip_stride(strip_rows, k_block))};
    std::unique_ptr<float, Free> b{allocate(column_block * k_block + panel_columns)};
    // Scales of a strip's rows and of a block's columns, if there are any.
    std::vector<float> a_scales, b_scales;
};

// --- packing

/// Packs columns [0, columns) of k rows of `in` into consecutive panels of panel_columns columns. Each row of `in` is
/// read sequentially. Unused lanes of the last vector are +0.
void pack_straight(const float* in, std::int64_t ld, std::int64_t columns, std::int64_t k, float* out) {
    const std::int64_t whole = columns / panel_columns * panel_columns, panel = panel_columns * k;
    for (std::int64_t p = 0; p < k; ++p, in += ld) {
        float* to = out + p * panel_columns;
        for (std::int64_t j = 0; j < whole; j += panel_columns, to += panel) {
            const F32 first = load(in + j), second = load(in + j + lanes_of_vector);
            store(first, to);
            store(second, to + lanes_of_vector);
        }
        for (std::int64_t j = whole; j < columns; j += lanes_of_vector, to += lanes_of_vector) {
            store(load_n(in + j, static_cast<std::size_t>(min_of(lanes_of_vector, columns - j))), to);
        }
    }
}

/// Packs `count` columns of k rows of `in` into strips of `rows` columns:
/// out[s * stride + p * rows + r] = in[p * ld + s * rows + r]. Writes whole vectors, in ascending p. The elements that
/// a vector writes after the last of its `rows` elements are overwritten later or never used.
void pack_strips(const float* in, std::int64_t ld, std::int64_t count, std::int64_t rows, std::int64_t k, float* out) {
    const std::int64_t stride = strip_stride(rows, k);
    for (std::int64_t p = 0; p < k; ++p, in += ld) {
        float* to = out + p * rows;
        for (std::int64_t i = 0; i < count; i += rows, to += stride) {
            store(load_n(in + i, static_cast<std::size_t>(count - i)), to);
        }
    }
}

// --- the tile

template <bool whole>
HWY_INLINE F32 load_part(const float* p, std::size_t n) {
    return whole ? load(p) : F32(hn::MaskedLoad(hn::FirstN(DF32(), n), DF32(), p));
}
template <bool whole>
HWY_INLINE void store_part(F32 x, float* p, std::size_t n) {
    whole ? store(x, p) : hn::BlendedStore(x.v, hn::FirstN(DF32(), n), DF32(), p);
}

/// The last steps that are applied to the accumulators of a tile before their cast: a factor and a bias.
struct Finish {
    float scale = 1;
    const float* bias = nullptr;  ///< points to the bias of the tile's first column
};

/// A tile of accumulators: its operands, and its place in the output.
struct Tile {
    const float* a = nullptr;
    std::int64_t a_row = 0, a_step = 0;  ///< elements from one row (a_row) or term (a_step) to the next
    const float* b = nullptr;
    std::int64_t b_step = 0;
    std::int64_t k = 0;
    std::int64_t k_rest = 0;  ///< number of terms after these k terms, each +0 times a finite number
    float* out = nullptr;
    std::int64_t ld_out = 0;
    std::size_t last_count = 0;  ///< columns of the last vector
    bool resume = false;         ///< start from the sums in `out` instead of +0
};

/// Computes a tile. Accumulator i belongs to row i / vectors and to vector i % vectors of this row. Parameter packs are
/// expanded over the accumulators, because loops over `acc` would make the compiler keep it in memory.
template <int vectors, bool whole, int... i>
HWY_INLINE void run_tile(const Tile& t, const Finish* finish, std::integer_sequence<int, i...>) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const std::size_t n = t.last_count;
    constexpr auto is_whole = [](int v) { return whole || v % vectors != vectors - 1; };
    const auto place = [&t](int v) { return t.out + v / vectors * t.ld_out + v % vectors * lanes; };
    F32 acc[] = {(static_cast<void>(i), F32())...};
    if (t.resume) ((acc[i] = load_part<is_whole(i)>(place(i), n)), ...);
    const float *a = t.a, *b = t.b;
    const std::int64_t a_row = t.a_row, a_step = t.a_step, b_step = t.b_step;
    for (std::int64_t p = t.k; p > 0; --p, a += a_step, b += b_step) {
        const F32 b0 = load(b), b1 = vectors == 2 ? load(b + lanes) : b0;
        ((acc[i] = fma(F32(a[i / vectors * a_row]), i % vectors == 0 ? b0 : b1, acc[i])), ...);
    }
    if (t.k_rest > 0) {
        // The remaining products are +0 or -0. They can change a sum only if it is -0, which is possible after an
        // underflow.
        const I32 negative_zero(-0x7fffffff - 1);
        M32 changes = bits(acc[0]) == negative_zero;
        ((changes = changes | (bits(acc[i]) == negative_zero)), ...);
        for (std::int64_t p = any(changes) ? t.k_rest : 0; p > 0; --p, a += a_step, b += b_step) {
            const F32 b0 = load(b), b1 = vectors == 2 ? load(b + lanes) : b0;
            ((acc[i] = fma(F32(a[i / vectors * a_row]), i % vectors == 0 ? b0 : b1, acc[i])), ...);
        }
    }
    if (finish != nullptr) {
        const F32 scale(finish->scale);
        ((acc[i] = acc[i] * scale), ...);  // exact if the scale is 1
        if (const float* bias = finish->bias) {
            const F32 b0 = load_part<is_whole(0)>(bias, n);
            const F32 b1 = vectors == 2 ? load_part<whole>(bias + lanes, n) : b0;
            ((acc[i] = acc[i] + (i % vectors == 0 ? b0 : b1)), ...);
        }
        ((acc[i] = canonical(acc[i])), ...);
    }
    (store_part<is_whole(i)>(acc[i], place(i), n), ...);
}

/// Computes a tile like run_tile(), but sums every interval in a separate chain, scales it and adds it to the sum in
/// `out`.
template <int vectors, bool whole, int... i>
HWY_INLINE void run_joined(const Tile& t, const Joins& joins, std::integer_sequence<int, i...>) {
    constexpr std::int64_t lanes = lanes_of_vector;
    const std::size_t n = t.last_count;
    constexpr auto is_whole = [](int v) { return whole || v % vectors != vectors - 1; };
    const auto place = [&t](int v) { return t.out + v / vectors * t.ld_out + v % vectors * lanes; };
    const float *a = t.a, *b = t.b, *sa = joins.a, *sb = joins.b;
    const std::int64_t a_row = t.a_row, a_step = t.a_step, b_step = t.b_step;
    bool is_begun = t.resume;
    for (std::int64_t rest = t.k; rest > 0 || !is_begun; rest -= joins.interval, is_begun = true) {
        F32 acc[] = {(static_cast<void>(i), F32())...};
        for (std::int64_t p = min_of(joins.interval, rest); p > 0; --p, a += a_step, b += b_step) {
            const F32 b0 = load(b), b1 = vectors == 2 ? load(b + lanes) : b0;
            ((acc[i] = fma(F32(a[i / vectors * a_row]), i % vectors == 0 ? b0 : b1, acc[i])), ...);
        }
        const F32 s0 = load(sb), s1 = vectors == 2 ? load(sb + lanes) : s0;
        ((acc[i] = joined(joins.promotion, acc[i], F32(sa[i / vectors]), i % vectors == 0 ? s0 : s1,
                          is_begun ? load_part<is_whole(i)>(place(i), n) : F32())),
         ...);
        (store_part<is_whole(i)>(acc[i], place(i), n), ...);
        sa += joins.a_ld;
        sb += joins.b_ld;
    }
}

template <int rows, int vectors>
void multiply_tile(const Tile& t, const Finish* finish, const Joins& joins) {
    const auto indices = std::make_integer_sequence<int, rows * vectors>();
    const bool whole = t.last_count == f32_lanes;
    if (joins.interval > 0) {
        return whole ? run_joined<vectors, true>(t, joins, indices) : run_joined<vectors, false>(t, joins, indices);
    }
    if (whole) return run_tile<vectors, true>(t, finish, indices);
    run_tile<vectors, false>(t, finish, indices);
}

using TileKernel = void (*)(const Tile&, const Finish*, const Joins&);
template <int vectors, int... rows>
constexpr std::array<TileKernel, sizeof...(rows)> tile_kernels(std::integer_sequence<int, rows...>) {
    return {multiply_tile<rows + 1, vectors>...};
}
constexpr auto tile_table = std::array{tile_kernels<1>(std::make_integer_sequence<int, strip_rows>()),
                                       tile_kernels<2>(std::make_integer_sequence<int, strip_rows>())};

// --- blocks

/// Splits `count` into the fewest parts of at most `limit`. Returns the length of a part, rounded up to a multiple of
/// `grain`.
std::int64_t part_of(std::int64_t count, std::int64_t limit, std::int64_t grain) {
    const std::int64_t parts = max_of((count + limit - 1) / limit, std::int64_t{1});
    return max_of(((count + parts - 1) / parts + grain - 1) / grain * grain, grain);
}

/// Packs `columns` columns of b, starting at `column`, into consecutive panels. A packed column has the `k` terms that
/// begin with term `first_k`.
void pack_panels(const MatmulOperand& operand, const float* b, std::int64_t first_k, std::int64_t k,
                 std::int64_t column, std::int64_t columns, float* out) {
    if (!operand.transposed) return pack_straight(b + first_k * operand.ld + column, operand.ld, columns, k, out);
    for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
        const std::int64_t width = min_of(lanes_of_vector, columns - j);
        float* to = out + j / panel_columns * panel_columns * k + j % panel_columns;
        pack_transposed(b + (column + j) * operand.ld + first_k, operand.ld, width, k, to, panel_columns);
    }
}

/// Returns true if columns [first, last) of b have no NaN and no infinity.
bool all_finite(const MatmulOperand& operand, const float* b, std::int64_t k, std::int64_t first, std::int64_t last) {
    const std::int64_t rows = operand.transposed ? last - first : k, columns = operand.transposed ? k : last - first;
    const float* x = b + (operand.transposed ? first * operand.ld : first);
    const F32 infinity = from_bits(I32(0x7f800000));
    M32 finite = infinity == infinity;
    for (std::int64_t r = 0; r < rows; ++r, x += operand.ld) {
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, columns - j));
            finite = finite & (abs(load_n(x + j, count)) < infinity);
        }
    }
    return !any(!finite);
}

/// Removes terms at the beginning or end of `tile` that are known to be +0 times a finite number. The tile begins with
/// term `first_k`. Terms that are removed at the end are counted in `k_rest`.
void leave_out_zeros(Triangle triangle, std::int64_t first_k, std::int64_t row, std::int64_t rows, Tile& tile) {
    if (triangle == Triangle::a_lower) {
        const std::int64_t needed = min_of(max_of(row + rows - first_k, std::int64_t{0}), tile.k);
        tile.k_rest = tile.k - needed;
        tile.k = needed;
    } else if (triangle == Triangle::a_upper) {
        // These terms are not counted, because the sums would still be +0 after them.
        const std::int64_t zeros = min_of(max_of(row - first_k, std::int64_t{0}), tile.k);
        tile.a += zeros * tile.a_step;
        tile.b += zeros * tile.b_step;
        tile.k -= zeros;
    }
}

/// Packs the scales of a block: first the scales of all its columns, then the scales of one strip of rows at a time.
class ScalePacker {
  public:
    ScalePacker(const Matmul& args, Scratch& scratch) : args_(args), scratch_(scratch) {
        joins_.promotion = args.rule.promotion;
        joins_.order = args.rule.scale_order;
        joins_.interval = args.rule.promotion_interval;
        joins_.a_ld = round_up(strip_rows);
        is_used_ = args.a.scales.data != nullptr || args.b.scales.data != nullptr || joins_.interval > 0;
    }
    /// Returns true if there are scales or partial sums. finish_rows() then performs the last steps instead of the tile
    /// kernels.
    bool is_used() const { return is_used_; }
    std::int64_t interval() const { return joins_.interval; }

    void begin_columns(std::int64_t column, std::int64_t columns, std::int64_t first_k, std::int64_t k) {
        if (!is_used_) return;
        first_k_ = first_k;
        intervals_ = joins_.interval > 0 ? max_of((k + joins_.interval - 1) / joins_.interval, std::int64_t{1}) : 1;
        joins_.b_ld = round_up(columns);
        pack(args_.b.scales, column, columns, joins_.b_ld, scratch_.b_scales);
    }
    void begin_rows(std::int64_t row, std::int64_t rows) {
        if (is_used_) pack(args_.a.scales, row, rows, joins_.a_ld, scratch_.a_scales);
    }
    /// Returns the joins of the tile that begins `j` columns after the first column of the block. The reference is
    /// valid until the next call. The struct is not copied, because vector loads of fields that were just stored one by
    /// one have to wait until these stores are done.
    const Joins& joins(std::int64_t j) {
        if (is_used_) joins_.a = scratch_.a_scales.data(), joins_.b = scratch_.b_scales.data() + j;
        return joins_;
    }

  private:
    static std::int64_t round_up(std::int64_t count) {
        return (count + panel_columns - 1) / panel_columns * panel_columns;
    }
    void pack(const OperandScales& scales, std::int64_t first, std::int64_t count, std::int64_t ld,
              std::vector<float>& out) {
        out.resize(static_cast<std::size_t>(ld * intervals_));
        pack_scales(scales, first, count, first_k_, joins_.interval, intervals_, ld, out.data());
    }

    const Matmul& args_;
    Scratch& scratch_;
    Joins joins_{};
    bool is_used_ = false;
    std::int64_t first_k_ = 0, intervals_ = 1;
};

/// Returns the number of terms of k that are packed together, which is a multiple of the length of a partial sum.
std::int64_t part_of_k(const Matmul& args) {
    const std::int64_t interval = args.rule.promotion_interval;
    return interval > 0 ? part_of(args.k, k_block / interval * interval, interval) : part_of(args.k, k_block, 4);
}

/// Copies the block's elements of C to the output. The chains start from these values.
void begin_with_addend(const Matmul& args, const MatmulBlock& block) {
    if (block.addend == block.out && args.ld_addend == args.ld_out) return;
    const std::int64_t columns = block.last_column - block.first_column;
    for (std::int64_t i = block.first_row; i < block.last_row; ++i) {
        std::copy_n(block.addend + i * args.ld_addend + block.first_column, columns,
                    block.out + i * args.ld_out + block.first_column);
    }
}

}  // namespace

void multiply_block(const Matmul& args, const Caster& caster, const MatmulBlock& block, Tally* tally) {
    thread_local Scratch scratch;
    ScalePacker scales(args, scratch);
    const bool at = args.a.transposed;
    const std::int64_t a_row = at ? 1 : args.a.ld, a_step = at ? args.a.ld : 1;
    const std::int64_t column_part = part_of(block.last_column - block.first_column, column_block, panel_columns);
    const std::int64_t k_part = part_of_k(args);
    const std::int64_t row_part = part_of(block.last_row - block.first_row, strip_rows, 1);
    const float* bias = args.bias_after_cast ? nullptr : args.bias;
    const bool only_lower = args.triangle == Triangle::out_lower && tally == nullptr;
    const bool zeros_in_a = (args.triangle == Triangle::a_lower || args.triangle == Triangle::a_upper) &&
                            !scales.is_used() && block.addend == nullptr &&
                            all_finite(args.b, block.b, args.k, block.first_column, block.last_column);

    if (block.addend != nullptr) begin_with_addend(args, block);
    for (std::int64_t column = block.first_column; column < block.last_column; column += column_part) {
        const std::int64_t columns = min_of(column_part, block.last_column - column);
        // Packing B pays off if the packed copy is read more than a few times. It is required if B is transposed, and
        // if the columns do not fill whole vectors, because loads of whole vectors must not reach beyond the end of B.
        const bool pack_b =
            args.b.transposed || columns % lanes_of_vector != 0 || block.last_row - block.first_row > 4 * strip_rows;
        const std::int64_t strips = columns <= columns_beside_strips ? strips_packed : 1;
        const bool pack_a = columns > (at ? 2 : 4) * panel_columns;
        for (std::int64_t first_k = 0;; first_k += k_part) {
            const std::int64_t k = min_of(k_part, args.k - first_k);
            const bool last = first_k + k == args.k;
            Tile tile{.k = k, .ld_out = args.ld_out, .resume = first_k != 0 || block.addend != nullptr};
            if (pack_b && k > 0) pack_panels(args.b, block.b, first_k, k, column, columns, scratch.b.get());
            scales.begin_columns(column, columns, first_k, k);

            for (std::int64_t row = block.first_row; row < block.last_row; row += row_part) {
                const std::int64_t rows = min_of(row_part, block.last_row - row);
                const std::int64_t wanted =
                    only_lower ? min_of(columns, max_of(row + rows - column, std::int64_t{0})) : columns;
                tile.a_row = a_row;
                tile.a_step = a_step;
                if (k > 0) tile.a = block.a + row * a_row + first_k * a_step;
                if (pack_a && k > 0) {
                    const std::int64_t strip = at ? (row - block.first_row) / row_part % strips : 0;
                    if (!at) {
                        pack_transposed(tile.a, args.a.ld, rows, k, scratch.a.get(), row_part);
                    } else if (strip == 0) {
                        const std::int64_t count = min_of(strips * row_part, block.last_row - row);
                        pack_strips(tile.a, args.a.ld, count, row_part, k, scratch.a.get());
                    }
                    tile.a = scratch.a.get() + strip * strip_stride(row_part, k);
                    tile.a_row = 1;
                    tile.a_step = row_part;
                }
                scales.begin_rows(row, rows);
                for (std::int64_t j = 0; j < wanted; j += panel_columns) {
                    const std::int64_t width = min_of(panel_columns, columns - j);
                    const int vectors = width > lanes_of_vector ? 2 : 1;
                    tile.last_count = static_cast<std::size_t>(width - (vectors - 1) * lanes_of_vector);
                    tile.out = block.out + row * args.ld_out + column + j;
                    if (k > 0) tile.b = pack_b ? scratch.b.get() + j * k : block.b + first_k * args.b.ld + column + j;
                    tile.b_step = pack_b ? panel_columns : args.b.ld;
                    const Finish finish{args.out_scale, bias != nullptr ? bias + column + j : nullptr};
                    const Joins& joins = scales.joins(j);
                    const TileKernel multiply = tile_table[vectors - 1][rows - 1];
                    const Finish* const own = last && !scales.is_used() ? &finish : nullptr;
                    if (zeros_in_a) {
                        Tile part = tile;
                        leave_out_zeros(args.triangle, first_k, row, rows, part);
                        multiply(part, own, joins);
                    } else {
                        multiply(tile, own, joins);
                    }
                    if (last && scales.is_used()) {
                        finish_rows(joins, finish.scale, finish.bias, rows, width, tile.out, args.ld_out);
                    }
                }
                if (last) cast_rows(args, caster, block, row, rows, column, wanted, tally);
            }
            if (last) break;
        }
    }
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace {

void define_block(const Matmul& args, const Caster&, const MatmulBlock& block, Tally* tally) {
    for (std::int64_t i = block.first_row; i < block.last_row; ++i) {
        for (std::int64_t j = block.first_column; j < block.last_column; ++j) {
            const std::uint64_t element = block.first_element + static_cast<std::uint64_t>(i * args.n + j);
            const auto [before, after] =
                definition::matmul_element(args, block.a, block.b, i, j, element, block.addend);
            if (tally != nullptr) {
                const float scale = args.out_cast.encode_scale;
                tally->add(args.out_cast.format, before, scale == 1 ? before : before * scale, after);
            }
            block.out[i * args.ld_out + j] = after;
        }
    }
}

}  // namespace

MatmulBlockKernel matmul_block_kernel(Simd level) { return MACHEPS_CHOOSE_TARGET(level, define_block, multiply_block); }

}  // namespace macheps
#endif
