// SPDX-License-Identifier: Apache-2.0
// Packed blocks of the operands of a matrix unit. A block of rows of a and a block of columns of b give a rectangle of
// outputs. The blocks are packed once and then read by every tile of this rectangle. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_pack-inl.hpp"
#include "emulation/cpu/matmul/machine/machine_pairs-inl.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(MACHEPS_MACHINE_BLOCKS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_BLOCKS_INL
#undef MACHEPS_MACHINE_BLOCKS_INL
#else
#define MACHEPS_MACHINE_BLOCKS_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Size of a tile of outputs. All rows of a tile use the same columns of b. The part of these columns that one step
/// reads stays in the first-level cache.
inline constexpr std::int64_t tile_rows = 64, tile_size = tile_rows * machine_columns;

/// Buffer that grows as needed and that a thread keeps from call to call.
template <class T>
class Buffer {
  public:
    T* sized(std::int64_t count) {
        // Allocates one more vector, because packing writes whole vectors and may write beyond the end.
        const std::size_t bytes = (static_cast<std::size_t>(count) * sizeof(T) + 255) / 64 * 64;
        if (bytes > bytes_) {
            memory_.reset(static_cast<T*>(std::aligned_alloc(64, bytes)));
            if (memory_ == nullptr) throw std::bad_alloc();
            bytes_ = bytes;
        }
        return memory_.get();
    }
    template <class U>
    U* sized_as(std::int64_t count) {
        return reinterpret_cast<U*>(sized(count * static_cast<std::int64_t>(sizeof(U) / sizeof(T))));
    }

  private:
    struct Free {
        void operator()(T* p) const { std::free(p); }
    };
    std::unique_ptr<T, Free> memory_;
    std::size_t bytes_ = 0;
};

/// Memory that one thread keeps from call to call: packed blocks, and the sums of the current tile.
template <class E>
struct Scratch {
    Buffer<float> raw, a, b, a_scale, b_scale;
    Buffer<E> a_exponent, b_exponent;
    Buffer<std::int32_t> a_spread;
    Buffer<std::int32_t> a_scale_exponent, b_scale_exponent, a_nonzero, b_nonzero;
    Buffer<std::uint8_t> a_special, b_special;
    Buffer<std::byte> a_pairs, b_pairs;
    alignas(64) float main[tile_size], partial[tile_size], before[tile_size];
    alignas(64) E largest[2 * tile_size];
};

/// Rectangle of outputs, summed over terms [first, last) of k.
struct Range {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0, first = 0, last = 0;
};

/// Packed block of rows of a, and packed block of columns of b. A panel has machine_columns columns. Shapes: rows are
/// [rows, padded]; columns are [panels, padded, machine_columns]; scales are [rows, count] and [panels, count,
/// machine_columns] with count = instructions * MachinePlan::scale_count.
template <class E>
struct PackedBlocks {
    std::int64_t padded = 0, instructions = 0;  ///< k padded to whole instructions; number of instructions
    const float *a = nullptr, *b = nullptr, *a_scale = nullptr, *b_scale = nullptr;
    const E *a_exponent = nullptr, *b_exponent = nullptr;
    const Spread<E>* a_spread = nullptr;  ///< copy of a_exponent that largest_exponents() reads
    const std::int32_t *a_scale_exponent = nullptr, *b_scale_exponent = nullptr;
    /// For SumModel::scaled_groups: a bit for each of the 16 terms of a group, set if the term is not zero. Shapes:
    /// [rows, padded / 16] and [panels, padded / 16, machine_columns].
    const std::int32_t *a_nonzero = nullptr, *b_nonzero = nullptr;
    const std::uint8_t *a_special = nullptr, *b_special = nullptr;
#if HWY_TARGET == HWY_AVX3
    const PairFactor* a_pairs = nullptr;
    const PairBlock* b_pairs = nullptr;
#endif
};

/// Packs blocks of one matmul into a thread's scratch memory. If `in_pairs`, the kernel reads 16-bit pairs of terms
/// (machine_pairs-inl.hpp). Pairs exist only for 8-bit exponents on AVX-512.
template <class E>
class BlockPacker {
  public:
    BlockPacker(const Matmul& args, const float* a, const float* b, const MachinePlan& plan, bool in_pairs,
                Scratch<E>& scratch)
        : args_(args), a_(a), b_(b), plan_(plan), in_pairs_(in_pairs), scratch_(scratch) {}

    /// Sets the number of terms of the blocks that follow.
    void set_depth(std::int64_t k) {
        const std::int64_t step = plan_.instruction_k;
        blocks_.padded = (k + step - 1) / step * step;
        blocks_.instructions = blocks_.padded / step;
    }
    /// Returns how many rows or columns of a block fit in `bytes`: a multiple of `unit`, and at least `unit`. A term
    /// takes `more` bytes in addition to its value and exponent.
    std::int64_t fitting(std::int64_t bytes, std::int64_t unit, std::size_t more = 0) const {
        const std::int64_t line =
            max_of(blocks_.padded, std::int64_t{1}) * static_cast<std::int64_t>((in_pairs_ ? 6 : 4) + sizeof(E) + more);
        return max_of(bytes / line / unit, std::int64_t{1}) * unit;
    }

    const PackedBlocks<E>& blocks() const { return blocks_; }

    /// Packs the rows of `block`.
    void pack_a(const Range& block) {
        const std::int64_t k = block.last - block.first, padded = blocks_.padded;
        float* raw = scratch_.raw.sized(max_of(block.rows, machine_columns) * (max_of(k, padded) + lanes_of_vector));
        float* value = scratch_.a.sized(block.rows * padded + lanes_of_vector);
        E* exponent = scratch_.a_exponent.sized(block.rows * padded + lanes_of_vector);
        std::uint8_t* special = scratch_.a_special.sized(block.rows);
        blocks_.a = value, blocks_.a_exponent = exponent, blocks_.a_special = special;
        pack_rows<E>(plan_, args_.a, a_, block.row, block.rows, block.first, block.last, padded, raw, value, exponent,
                     special);
#if HWY_TARGET == HWY_AVX3
        if constexpr (sizeof(E) == 1) {
            if (in_pairs_) {
                auto* pairs = scratch_.a_pairs.template sized_as<PairFactor>(block.rows * padded / 2);
                blocks_.a_pairs = pairs;
                pack_pair_factors(value, exponent, plan_.a_base, block.rows * padded / 2, pairs);
            }
        }
#endif
        if constexpr (sizeof(E) == 1) {
            std::int32_t* spread = scratch_.a_spread.sized(block.rows * padded);
            blocks_.a_spread = spread;
            for (std::int64_t i = 0; i < block.rows * padded; ++i) {
                spread[i] = static_cast<std::int32_t>(static_cast<std::uint8_t>(exponent[i]) * 0x01010101u);
            }
        } else {
            blocks_.a_spread = exponent;
        }
        pack_a_scales(block);
        if (plan_.rule.model == SumModel::scaled_groups) {
            const std::int64_t groups = block.rows * padded / group_terms;
            std::int32_t* nonzero = scratch_.a_nonzero.sized(groups);
            blocks_.a_nonzero = nonzero;
            const hn::CappedTag<E, group_terms> d;
            for (std::int64_t g = 0; g < groups; ++g) {
                std::uint8_t bits[8] = {};
                for (std::size_t t = 0; t < group_terms; t += hn::Lanes(d)) {
                    const auto is_zero = hn::Lt(hn::LoadU(d, exponent + g * group_terms + t), hn::Zero(d));
                    hn::StoreMaskBits(d, hn::Not(is_zero), bits + t / 8);
                }
                nonzero[g] = bits[0] | bits[1] << 8;
            }
        }
    }

    /// Packs the columns of `block`.
    void pack_b(const Range& block) {
        const std::int64_t k = block.last - block.first, padded = blocks_.padded;
        const std::int64_t panels = panels_of(block), panel = padded * machine_columns;
        float* raw = scratch_.raw.sized(machine_columns * (max_of(k, padded) + lanes_of_vector));
        // If the kernel reads pairs, it does not read the values of b. The values of each panel are then only needed
        // for packing its pairs, so all panels use the same memory in turn.
        float* value = scratch_.b.sized(in_pairs_ ? panel : panels * panel);
        const std::int64_t value_step = in_pairs_ ? 0 : panel;
        E* exponent = scratch_.b_exponent.sized(panels * panel);
        std::uint8_t* special = scratch_.b_special.sized(panels * machine_columns);
        blocks_.b = value, blocks_.b_exponent = exponent, blocks_.b_special = special;
        for (std::int64_t p = 0; p < panels; ++p) {
            const std::int64_t column = block.column + p * machine_columns;
            pack_columns<E>(plan_, args_.b, b_, column, min_of(machine_columns, block.column + block.columns - column),
                            block.first, block.last, padded, raw, value + p * value_step, exponent + p * panel,
                            special + p * machine_columns);
#if HWY_TARGET == HWY_AVX3
            if constexpr (sizeof(E) == 1) {
                if (in_pairs_) {
                    auto* pairs = scratch_.b_pairs.template sized_as<PairBlock>(panels * padded / 2);
                    blocks_.b_pairs = pairs;
                    pack_pair_blocks(value, exponent + p * panel, plan_.b_base, padded / 2, pairs + p * padded / 2);
                }
            }
#endif
        }
        pack_b_scales(block);
        if (plan_.rule.model == SumModel::scaled_groups) {
            const std::int64_t groups = panels * padded / group_terms;
            std::int32_t* nonzero = scratch_.b_nonzero.sized(groups * machine_columns);
            blocks_.b_nonzero = nonzero;
            for (std::int64_t g = 0; g < groups; ++g, nonzero += machine_columns) {
                std::fill_n(nonzero, machine_columns, 0);
                for (int t = 0; t < group_terms; ++t, exponent += machine_columns) {
                    for (int j = 0; j < machine_columns; ++j) nonzero[j] |= (exponent[j] >= 0 ? 1 : 0) << t;
                }
            }
        }
    }

  private:
    static std::int64_t panels_of(const Range& block) {
        return (block.columns + machine_columns - 1) / machine_columns;
    }
    /// Returns the index of a term to which scale i of the block applies.
    std::int64_t scaled_term(const Range& block, std::int64_t i) const {
        return min_of(block.first + i * plan_.scale_block, block.last - 1);
    }

    void pack_a_scales(const Range& block) {
        const std::int64_t count = plan_.scale_count * blocks_.instructions;
        if (count == 0) return;
        float* value = scratch_.a_scale.sized(block.rows * count);
        std::int32_t* exponent = scratch_.a_scale_exponent.sized(block.rows * count);
        blocks_.a_scale = value, blocks_.a_scale_exponent = exponent;
        for (std::int64_t i = 0; i < count; ++i) {
            const ScalesOfTerm of_row(args_.a.scales, scaled_term(block, i));
            for (std::int64_t r = 0; r < block.rows; ++r) {
                const PackedScale scale = packed_scale(plan_.scale, of_row(block.row + r));
                value[r * count + i] = scale.value;
                exponent[r * count + i] = scale.exponent;
            }
        }
    }

    void pack_b_scales(const Range& block) {
        const std::int64_t count = plan_.scale_count * blocks_.instructions, panels = panels_of(block);
        if (count == 0) return;
        float* value = scratch_.b_scale.sized(panels * count * machine_columns);
        std::int32_t* exponent = scratch_.b_scale_exponent.sized(panels * count * machine_columns);
        blocks_.b_scale = value, blocks_.b_scale_exponent = exponent;
        for (std::int64_t p = 0; p < panels; ++p) {
            for (std::int64_t i = 0; i < count; ++i) {
                const ScalesOfTerm of_column(args_.b.scales, scaled_term(block, i));
                for (std::int64_t j = 0; j < machine_columns; ++j, ++value, ++exponent) {
                    const std::int64_t column =
                        min_of(block.column + p * machine_columns + j, block.column + block.columns - 1);
                    const PackedScale scale = packed_scale(plan_.scale, of_column(column));
                    *value = scale.value;
                    *exponent = scale.exponent;
                }
            }
        }
    }

    const Matmul& args_;
    const float *a_, *b_;
    const MachinePlan& plan_;
    bool in_pairs_;
    Scratch<E>& scratch_;
    PackedBlocks<E> blocks_;
};

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
