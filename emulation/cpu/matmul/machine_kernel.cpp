// SPDX-License-Identifier: Apache-2.0
// A tile of outputs (64 rows, a panel of columns) walks over k step by step: one step of the panel's columns of b stays
// in the first-level cache while every row meets it.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/matmul/machine_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/matmul/machine_amd-inl.hpp"
#include "emulation/cpu/matmul/machine_kernel.hpp"
#include "emulation/cpu/matmul/machine_pairs-inl.hpp"
#include "emulation/cpu/matmul/machine_step-inl.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

constexpr std::int64_t tile_rows = 64;
constexpr std::int64_t tile_size = tile_rows * machine_columns;
constexpr std::int64_t b_block_bytes = 8 << 20, a_block_bytes = 4 << 20;

/// Memory that grows, kept from call to call by its thread.
template <class T>
class Buffer {
  public:
    T* sized(std::int64_t count) {
        // A vector beyond the end: packing writes whole vectors.
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

template <class E>
struct Scratch {
    Buffer<float> raw, a, b, a_scale, b_scale;
    Buffer<E> a_exponent, b_exponent;
    Buffer<std::int32_t> a_scale_exponent, b_scale_exponent;
    Buffer<std::uint8_t> a_special, b_special;
    Buffer<std::byte> a_pairs, b_pairs;
    alignas(64) float main[tile_size], partial[tile_size], before[tile_size];
    alignas(64) E largest[2 * tile_size];
};

/// A rectangle of outputs over terms [first, last) of k.
struct Range {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0, first = 0, last = 0;
};

/// Asks for the share of row `row` of `bytes` that the next step reads; the rows of a tile share them.
template <std::int64_t bytes>
HWY_INLINE void prefetch_share(const void* from, std::int64_t row) {
    constexpr std::int64_t line = 64, lines = (bytes + line - 1) / line, each = (lines + tile_rows - 1) / tile_rows;
    for (std::int64_t l = row * each; l < (row + 1) * each && l < lines; ++l) {
        __builtin_prefetch(static_cast<const std::byte*>(from) + l * line);
    }
}

/// One matmul, or one slice of it, for one thread.
template <class E>
class Worker {
  public:
    Worker(const Matmul& args, const float* a, const float* b, const MachinePlan& plan)
        : args_(args), a_(a), b_(b), plan_(plan) {
        thread_local std::unique_ptr<Scratch<E>> scratch;
        if (scratch == nullptr) scratch = std::make_unique<Scratch<E>>();
        scratch_ = scratch.get();
    }

    /// Calls start(tile range, tile) and end(tile range, tile) for each tile of `range`; tiles are
    /// [rows, machine_columns], and start gives the addends. Tiles that `wanted` refuses are left out.
    template <class Wanted, class Start, class End>
    void run(const Range& range, const Wanted& wanted, const Start& start, const End& end) {
        const std::int64_t k = range.last - range.first, step = plan_.instruction_k;
        padded_ = (k + step - 1) / step * step;
        instructions_ = padded_ / step;
        const std::int64_t term_bytes =
            max_of(padded_, std::int64_t{1}) * static_cast<std::int64_t>((uses_pairs() ? 6 : 4) + sizeof(E));
        const std::int64_t column_block = block_of(b_block_bytes / term_bytes, machine_columns);
        const std::int64_t row_block = block_of(a_block_bytes / term_bytes, tile_rows);
        for (std::int64_t column = range.column; column < range.column + range.columns; column += column_block) {
            Range columns = range;
            columns.column = column;
            columns.columns = min_of(column_block, range.column + range.columns - column);
            if (k > 0) pack_b(columns);
            for (std::int64_t row = range.row; row < range.row + range.rows; row += row_block) {
                Range block = columns;
                block.row = row;
                block.rows = min_of(row_block, range.row + range.rows - row);
                if (k > 0) pack_a(block);
                for (std::int64_t r = 0; r < block.rows; r += tile_rows) {
                    for (std::int64_t j = 0; j < block.columns; j += machine_columns) {
                        const Range tile{block.row + r,    min_of(tile_rows, block.rows - r),
                                         block.column + j, min_of(machine_columns, block.columns - j),
                                         range.first,      range.last};
                        if (!wanted(tile)) continue;
                        start(tile, scratch_->main);
                        if (k > 0) compute(tile, r, j / machine_columns);
                        end(tile, scratch_->main);
                    }
                }
            }
        }
    }

  private:
    static std::int64_t block_of(std::int64_t fits, std::int64_t unit) {
        return max_of(fits / unit, std::int64_t{1}) * unit;
    }

    void pack_a(const Range& block) {
        Scratch<E>& s = *scratch_;
        const std::int64_t k = block.last - block.first;
        float* raw = s.raw.sized(max_of(block.rows, machine_columns) * (max_of(k, padded_) + lanes_of_vector));
        float* packed = s.a.sized(block.rows * padded_ + lanes_of_vector);
        E* packed_e = s.a_exponent.sized(block.rows * padded_ + lanes_of_vector);
        std::uint8_t* special = s.a_special.sized(block.rows);
        packed_.a = packed, packed_.a_exponent = packed_e, packed_.a_special = special;
        pack_rows<E>(plan_, args_.a, a_, block.row, block.rows, block.first, block.last, padded_, raw, packed, packed_e,
                     special);
#if HWY_TARGET == HWY_AVX3
        if constexpr (sizeof(E) == 1) {
            if (uses_pairs()) {
                auto* pairs = s.a_pairs.template sized_as<PairFactor>(block.rows * padded_ / 2);
                packed_.a_pairs = pairs;
                pack_pair_factors(packed, packed_e, plan_.a_base, block.rows * padded_ / 2, pairs);
            }
        }
#endif
        const std::int64_t count = plan_.scale_count * instructions_;
        if (count == 0) return;
        float* value = s.a_scale.sized(block.rows * count);
        std::int32_t* exponent = s.a_scale_exponent.sized(block.rows * count);
        packed_.a_scale = value, packed_.a_scale_exponent = exponent;
        for (std::int64_t r = 0; r < block.rows; ++r) {
            for (std::int64_t i = 0; i < count; ++i, ++value, ++exponent) {
                const BlockScale scale =
                    block_scale(plan_.scale, args_.a.scales.at(block.row + r, scaled_term(block, i)));
                *value = scale.value;
                *exponent = scale.exponent;
            }
        }
    }

    void pack_b(const Range& block) {
        Scratch<E>& s = *scratch_;
        const std::int64_t k = block.last - block.first;
        const std::int64_t panels = (block.columns + machine_columns - 1) / machine_columns,
                           panel = padded_ * machine_columns;
        float* raw = s.raw.sized(machine_columns * (max_of(k, padded_) + lanes_of_vector));
        // In pairs, values are only on the way.
        float* value = s.b.sized(uses_pairs() ? panel : panels * panel);
        const std::int64_t value_step = uses_pairs() ? 0 : panel;
        E* exponent = s.b_exponent.sized(panels * panel);
        std::uint8_t* special = s.b_special.sized(panels * machine_columns);
        packed_.b = value, packed_.b_exponent = exponent, packed_.b_special = special;
        for (std::int64_t p = 0; p < panels; ++p) {
            const std::int64_t column = block.column + p * machine_columns;
            pack_columns<E>(plan_, args_.b, b_, column, min_of(machine_columns, block.column + block.columns - column),
                            block.first, block.last, padded_, raw, value + p * value_step, exponent + p * panel,
                            special + p * machine_columns);
#if HWY_TARGET == HWY_AVX3
            if constexpr (sizeof(E) == 1) {
                if (uses_pairs()) {
                    auto* pairs = s.b_pairs.template sized_as<PairBlock>(panels * padded_ / 2);
                    packed_.b_pairs = pairs;
                    pack_pair_blocks(value, exponent + p * panel, plan_.b_base, padded_ / 2, pairs + p * padded_ / 2);
                }
            }
#endif
        }
        const std::int64_t count = plan_.scale_count * instructions_;
        if (count == 0) return;
        float* scale = s.b_scale.sized(panels * count * machine_columns);
        std::int32_t* scale_e = s.b_scale_exponent.sized(panels * count * machine_columns);
        packed_.b_scale = scale, packed_.b_scale_exponent = scale_e;
        for (std::int64_t p = 0; p < panels; ++p) {
            for (std::int64_t i = 0; i < count; ++i) {
                for (std::int64_t j = 0; j < machine_columns; ++j, ++scale, ++scale_e) {
                    const std::int64_t column =
                        min_of(block.column + p * machine_columns + j, block.column + block.columns - 1);
                    const BlockScale read = block_scale(plan_.scale, args_.b.scales.at(column, scaled_term(block, i)));
                    *scale = read.value;
                    *scale_e = read.exponent;
                }
            }
        }
    }

    /// A term of the block that scale i of the range belongs to.
    std::int64_t scaled_term(const Range& block, std::int64_t i) const {
        return min_of(block.first + i * (plan_.instruction_k / plan_.scale_count), block.last - 1);
    }

    /// The tile that begins at row `r` of the packed rows and is panel `panel` of the packed columns.
    void compute(const Range& tile, std::int64_t r, std::int64_t panel) {
        Scratch<E>& s = *scratch_;
        const std::uint8_t* row_special = packed_.a_special + r;
        const std::uint8_t* column_special = packed_.b_special + panel * machine_columns;
        const bool columns_special =
            std::any_of(column_special, column_special + tile.columns, [](std::uint8_t f) { return f != 0; });
        const bool any_special =
            columns_special || std::any_of(row_special, row_special + tile.rows, [](std::uint8_t f) { return f != 0; });
        if (any_special) std::copy_n(s.main, tile_size, s.before);

        // Known zeros of a: before the first other product a sum stays +0; after the last one, one more step turns a -0
        // into +0, and further ones change nothing.
        std::int64_t begin = 0, end = padded_;
        const std::int64_t unit = plan_.join == PartialJoin::none ? plan_.instruction_k : plan_.interval;
        if (!columns_special && args_.triangle == Triangle::a_lower) {
            const std::int64_t needed = max_of(tile.row + tile.rows - tile.first, std::int64_t{0});
            end = min_of(padded_, (needed + unit - 1) / unit * unit + unit);
        } else if (!columns_special && args_.triangle == Triangle::a_upper) {
            begin = min_of(padded_, max_of(tile.row - tile.first, std::int64_t{0}) / unit * unit);
        }
        if (plan_.join == PartialJoin::none) {
            chain(tile, r, panel, begin, end, s.main);
        } else {
            for (std::int64_t t = begin; t < end; t += plan_.interval) {
                std::fill_n(s.partial, tile_size, 0.0f);
                chain(tile, r, panel, t, min_of(t + plan_.interval, end), s.partial);
                join(tile, tile.first + t);
            }
        }
        if (any_special) settle_specials(tile, row_special, column_special);
    }

    /// Steps over packed terms [begin, end) for every row; c [rows, machine_columns] in place.
    void chain(const Range& tile, std::int64_t r, std::int64_t panel, std::int64_t begin, std::int64_t end, float* c) {
        using enum Delivery;
        const auto amd = [&](auto row) { walk(tile, r, panel, begin, end, c, row); };
        switch (plan_.rule.model) {
            case SumModel::floored:
                return plan_.terms == 4 ? amd(Floored<4, 1>()) : amd(Floored<8, 1>());
            case SumModel::floored_even_odd:
                return amd(Floored<16, 2>());
            case SumModel::exact_step:
                return plan_.terms == 4 ? amd(ExactStep<4>()) : amd(ExactStep<2>());
            case SumModel::flushed_pairs:
                return plan_.terms == 4 ? amd(FlushedPairs<4>()) : amd(FlushedPairs<2>());
            default:
                break;
        }
        const CutMode mode;
#if HWY_TARGET == HWY_AVX3
        if constexpr (sizeof(E) == 1) {
            if (uses_pairs()) {
                const auto pairs = [&](auto terms, auto vnni) {
                    constexpr int n = decltype(terms)::value;
                    constexpr bool v = decltype(vnni)::value;
                    plan_.rule.delivery == fp16_nearest_even
                        ? walk_pairs<n, v, fp16_nearest_even>(tile, r, panel, begin, end, c)
                        : walk_pairs<n, v, e8m13_toward_zero>(tile, r, panel, begin, end, c);
                };
                static const bool has_vnni = __builtin_cpu_supports("avx512vnni") != 0;
                const auto with_terms = [&](auto terms) {
                    has_vnni ? pairs(terms, std::true_type()) : pairs(terms, std::false_type());
                };
                return plan_.terms == 32 ? with_terms(std::integral_constant<int, 32>())
                                         : with_terms(std::integral_constant<int, 16>());
            }
        }
#endif
        const auto steps = [&](auto row) { walk(tile, r, panel, begin, end, c, row); };
        if (plan_.rule.model == SumModel::scaled_groups) return steps(ScaledGroups());
        const Delivery delivery = plan_.rule.delivery;
        const bool wide = plan_.rule.fraction_bits > 20;
        const auto with_terms = [&](auto terms) {
            constexpr int n = decltype(terms)::value;
            if (delivery == fp32_toward_zero) return steps(Truncated<n, 1, false, fp32_toward_zero>());
            if constexpr (sizeof(E) == 1) {
                if (delivery == fp16_nearest_even) return steps(Truncated<n, 1, false, fp16_nearest_even>());
                if constexpr (n >= 16) return steps(Truncated<n, 1, false, e8m13_toward_zero>());
            }
        };
        if constexpr (sizeof(E) == 1) {
            if (plan_.scale_count != 0) return steps(Truncated<32, 2, true, fp32_toward_zero>());
            if (plan_.terms == 32 && wide && delivery == fp16_nearest_even) {
                return steps(Truncated<32, 2, false, fp16_nearest_even>());
            }
            if (plan_.terms == 32 && wide) return steps(Truncated<32, 2, false, fp32_toward_zero>());
            if (plan_.terms == 32) return with_terms(std::integral_constant<int, 32>());
        }
        switch (plan_.terms) {
            case 4:
                return with_terms(std::integral_constant<int, 4>());
            case 8:
                return with_terms(std::integral_constant<int, 8>());
            default:
                return with_terms(std::integral_constant<int, 16>());
        }
    }

    /// True where the kernel on 16-bit integers serves.
    bool uses_pairs() const {
        return HWY_TARGET == HWY_AVX3 && sizeof(E) == 1 && plan_.rule.model == SumModel::truncated &&
               plan_.rule.fraction_bits == 13;
    }

#if HWY_TARGET == HWY_AVX3
    template <int terms, bool vnni, Delivery delivery>
    HWY_NOINLINE void walk_pairs(const Range& tile, std::int64_t r, std::int64_t panel, std::int64_t begin,
                                 std::int64_t end, float* c) {
        const MachinePlan plan = plan_;
        const std::int64_t rows = tile.rows, padded = padded_;
        E* const largest = scratch_->largest;
        for (std::int64_t t = begin; t < end; t += terms) {
            const PairBlock* b = packed_.b_pairs + (panel * padded + t) / 2;
            largest_exponents<terms>(packed_.a_exponent + r * padded + t, padded, rows,
                                     packed_.b_exponent + (panel * padded + t) * machine_columns, largest);
            const PairFactor* a = packed_.a_pairs + (r * padded + t) / 2;
            const float* value = packed_.a + r * padded + t;
            const E* const next_e = packed_.b_exponent + (panel * padded + t + terms) * machine_columns;
            std::int64_t i = 0;
            for (; i + 2 <= rows; i += 2, a += padded, value += 2 * padded) {
                for (const std::int64_t shared : {i, i + 1}) {
                    prefetch_share<terms / 2 * std::int64_t{sizeof(PairBlock)}>(b + terms / 2, shared);
                    prefetch_share<terms * machine_columns>(next_e, shared);
                }
                for (int p = terms / 2; p < terms; p += 4) {
                    __builtin_prefetch(a + p);
                    __builtin_prefetch(a + padded / 2 + p);
                }
                const PairFactor* const two[2] = {a, a + padded / 2};
                const float* const values[2] = {value, value + padded};
                pair_rows<terms, 2, vnni, delivery>(plan, two, values, b, largest + i * machine_columns,
                                                    c + i * machine_columns);
            }
            if (i < rows) {
                pair_rows<terms, 1, vnni, delivery>(plan, &a, &value, b, largest + i * machine_columns,
                                                    c + i * machine_columns);
            }
        }
    }
#endif

    struct ScaledGroups {
        static constexpr int terms = 64;
        static constexpr int groups = 0;
        HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E* largest,
                                   float* c) const {
            scaled_groups_row(plan, x, c);
        }
    };
    template <int n, int halves, bool scaled, Delivery delivery>
    struct Truncated {
        static constexpr int terms = n;
        static constexpr int groups = 1;
        HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E* largest,
                                   float* c) const {
            truncated_row<E, n, halves, scaled, delivery>(plan, x, largest, c);
        }
    };

    template <int n, int parts>
    struct Floored {
        static constexpr int terms = n, groups = parts;
        HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E* largest,
                                   float* c) const {
            floored_row<E, n, parts>(plan, x, largest, tile_size, c);
        }
    };
    template <int n>
    struct ExactStep {
        static constexpr int terms = n, groups = 0;
        HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E*, float* c) const {
            exact_row<E, n>(plan, x, c);
        }
    };
    template <int n>
    struct FlushedPairs {
        static constexpr int terms = n, groups = 0;
        HWY_INLINE void operator()(const MachinePlan&, const StepOperands<E>& x, const E*, float* c) const {
            flushed_pairs_row<n>(x.a, x.b, c);
        }
    };

    /// Every row of the tile through every step. Row::groups: parts of a step whose largest exponents are asked for.
    template <class Row>
    HWY_NOINLINE void walk(const Range& tile, std::int64_t r, std::int64_t panel, std::int64_t begin, std::int64_t end,
                           float* c, Row row) {
        const MachinePlan plan = plan_;
        const std::int64_t scales = plan.scale_count, rows = tile.rows, padded = padded_;
        const std::int64_t b_at = panel * padded * machine_columns;
        E* const largest = scratch_->largest;
        for (std::int64_t t = begin; t < end; t += Row::terms) {
            StepOperands<E> x{.a = packed_.a + r * padded + t,
                              .a_exponent = packed_.a_exponent + r * padded + t,
                              .b = packed_.b + b_at + t * machine_columns,
                              .b_exponent = packed_.b_exponent + b_at + t * machine_columns};
            if (scales != 0) {
                const std::int64_t instruction = t / plan.instruction_k;
                const std::int64_t b_scale = (panel * instructions_ + instruction) * scales * machine_columns;
                x.b_scale = packed_.b_scale + b_scale;
                x.b_scale_exponent = packed_.b_scale_exponent + b_scale;
                x.a_scale = packed_.a_scale + (r * instructions_ + instruction) * scales;
                x.a_scale_exponent = packed_.a_scale_exponent + (r * instructions_ + instruction) * scales;
            }
            if constexpr (Row::groups > 0) {
                constexpr int each = Row::terms / Row::groups;
                for (int g = 0; g < Row::groups; ++g) {
                    largest_exponents<each>(x.a_exponent + g * each, padded, rows,
                                            x.b_exponent + g * each * machine_columns, largest + g * tile_size);
                }
            }
            const float* const next_b = x.b + Row::terms * machine_columns;
            const E* const next_e = x.b_exponent + Row::terms * machine_columns;
            for (std::int64_t i = 0; i < rows; ++i) {
                // Long operands stand in the second-level cache or beyond it.
                prefetch_share<Row::terms * machine_columns * std::int64_t{sizeof(float)}>(next_b, i);
                prefetch_share<Row::terms * machine_columns * std::int64_t{sizeof(E)}>(next_e, i);
                __builtin_prefetch(x.a + Row::terms);
                row(plan, x, largest + i * machine_columns, c + i * machine_columns);
                x.a += padded;
                x.a_exponent += padded;
                x.a_scale += instructions_ * scales;
                x.a_scale_exponent += instructions_ * scales;
            }
        }
    }

    /// main joins partial, of the terms from p on.
    void join(const Range& tile, std::int64_t p) {
        float* main = scratch_->main;
        const float* partial = scratch_->partial;
        alignas(64) float sb[machine_columns];
        const bool scaled = plan_.join == PartialJoin::fma_joint || plan_.join == PartialJoin::fma_left;
        for (std::int64_t j = 0; scaled && j < machine_columns; ++j) {
            sb[j] = args_.b.scales.at(tile.column + min_of(j, tile.columns - 1), p);
        }
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            const F32 sa(scaled ? args_.a.scales.at(tile.row + i, p) : 1.0f);
            for (std::int64_t j = 0; j < machine_columns; j += lanes_of_vector) {
                const F32 x = load(partial + i * machine_columns + j), y = load(main + i * machine_columns + j);
                F32 sum;
                switch (plan_.join) {
                    case PartialJoin::fma_joint:
                        sum = fma(x, sa * load(sb + j), y);
                        break;
                    case PartialJoin::fma_left:
                        sum = fma(x * sa, load(sb + j), y);
                        break;
                    // The sum of two fp16 numbers rounds to fp32 first without harm: 24 >= 2 * 11 + 2 bits.
                    case PartialJoin::add_fp16:
                        sum = through_half(y + x);
                        break;
                    default:
                        sum = y + x;
                        break;
                }
                store(sum, main + i * machine_columns + j);
            }
        }
    }

    /// Outputs with NaN or Inf among their operands, which were packed as zeros.
    void settle_specials(const Range& tile, const std::uint8_t* rows, const std::uint8_t* columns) {
        Scratch<E>& s = *scratch_;
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t j = 0; j < tile.columns; ++j) {
                if ((rows[i] | columns[j]) == 0) continue;
                const std::int64_t at = i * machine_columns + j;
                s.main[at] = special_output(tile, tile.row + i, tile.column + j, rows[i] | columns[j], s.before[at]);
            }
        }
    }

    float special_output(const Range& tile, std::int64_t i, std::int64_t j, int flags, float start) const {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        const float nan = std::numeric_limits<float>::quiet_NaN();
        if ((flags & has_nan) != 0 || start != start) return nan;
        const definition::DotOperands x = definition::dot_operands(args_, a_, b_, i, j);
        bool positive = start == infinity, negative = start == -infinity;
        for (std::int64_t p = tile.first; p < tile.last && !(positive && negative); ++p) {
            const float u = x.a[p * x.a_step], v = x.b[p * x.b_step];
            if (!(std::fabs(u) == infinity) && !(std::fabs(v) == infinity)) continue;
            const Factor f = factor_of_value(args_.a.format, u), g = factor_of_value(args_.b.format, v);
            if (f.is_zero() || g.is_zero()) return nan;
            // A subnormal may read as zero there.
            if (plan_.rule.model == SumModel::flushed_pairs) break;
            (f.negative != g.negative ? negative : positive) = true;
        }
        if (positive && negative) return nan;
        // Where finite products can overflow, or scales take part, more than the operands decides.
        const bool plain = has_narrow_exponents(args_.a.format) && has_narrow_exponents(args_.b.format) &&
                           plan_.rule.delivery != Delivery::fp16_nearest_even && plan_.scale_count == 0 &&
                           plan_.rule.model != SumModel::flushed_pairs &&
                           (plan_.join == PartialJoin::none || plan_.join == PartialJoin::add);
        if (plain) return positive ? infinity : -infinity;
        if (args_.rule.promotion != Promotion::none) return definition::slice_sum(args_, x, tile.first, tile.last);
        return definition::instruction_chain(args_, x, tile.first, tile.last, start);
    }

    /// Where the packed operands of the present blocks lie.
    struct Packed {
        const float *a = nullptr, *b = nullptr, *a_scale = nullptr, *b_scale = nullptr;
        const E *a_exponent = nullptr, *b_exponent = nullptr;
        const std::int32_t *a_scale_exponent = nullptr, *b_scale_exponent = nullptr;
        const std::uint8_t *a_special = nullptr, *b_special = nullptr;
#if HWY_TARGET == HWY_AVX3
        const PairFactor* a_pairs = nullptr;
        const PairBlock* b_pairs = nullptr;
#endif
    };

    const Matmul& args_;
    const float *a_, *b_;
    MachinePlan plan_;
    Packed packed_;
    Scratch<E>* scratch_;
    std::int64_t padded_ = 0, instructions_ = 0;
};

/// The stored exponents of a matrix begin here: not above -1, so that a sum of only zeros stays below every addend.
int clamp_base(const ExponentRange& range, const Format& format) {
    return range.most < range.least ? format.emin() : min_of(max_of(range.least, format.emin()), -1);
}

/// Calls f with a Worker whose exponents are as wide as the operands need.
template <class Function>
void with_worker(const Matmul& args, const float* a, const float* b, const Function& f) {
    MachinePlan plan = machine_plan(args);
    const auto fit = [](const MatmulOperand& operand, const float* x, std::int64_t rows, std::int64_t columns,
                        const Format& format, int& base) {
        if (has_narrow_exponents(format)) return true;
        if (operand.transposed) std::swap(rows, columns);
        const ExponentRange range = exponent_range(x, operand.ld, rows, columns, format);
        base = clamp_base(range, format);
        return range.most - base <= 63 || range.most < range.least;
    };
    const bool narrow = fit(args.a, a, args.m, args.k, plan.a_format, plan.a_base) &&
                        fit(args.b, b, args.k, args.n, plan.b_format, plan.b_base);
    if (narrow) {
        f(Worker<std::int8_t>(args, a, b, plan));
    } else {
        plan.a_base = plan.a_format.emin();
        plan.b_base = plan.b_format.emin();
        f(Worker<std::int16_t>(args, a, b, plan));
    }
}

// --- whole matmuls

/// tile, or what the earlier slices left in the output joined with it, becomes finished rows of the output.
void finish_tile(const Matmul& args, const Caster& caster, const MatmulBlock& block, const Range& tile, float* sums,
                 std::int64_t slice, Tally* tally) {
    float* out = block.out + tile.row * args.ld_out + tile.column;
    if (args.rule.slices > 1) {
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t j = 0; j < tile.columns; ++j) {
                const std::int64_t row = tile.row + i, column = tile.column + j;
                const std::uint64_t element = block.first_element + static_cast<std::uint64_t>(row * args.n + column);
                float& sum = out[i * args.ld_out + j];
                sum = definition::join_slice(args, slice, slice == 0 ? 0.0f : sum, sums[i * machine_columns + j], row,
                                             column, element);
                sums[i * machine_columns + j] = sum;
            }
        }
        if (slice + 1 < args.rule.slices) return;
    }
    const bool serial = args.rule.slices > 1 && args.rule.join == SliceJoin::serial;
    const bool scaled = (args.a.scales.data != nullptr || args.b.scales.data != nullptr) && !serial &&
                        !definition::scales_in_machine(args) && !definition::scales_in_promotion(args);
    alignas(64) float sb[machine_columns];
    for (std::int64_t j = 0; scaled && j < machine_columns; ++j) {
        sb[j] = args.b.scales.at(tile.column + min_of(j, tile.columns - 1), 0);
    }
    // A serial sum is an output already: the cast below changes nothing more.
    const F32 factor(serial ? 1.0f : args.out_scale);
    const bool add_bias = args.bias != nullptr && !args.bias_after_cast;
    for (std::int64_t i = 0; i < tile.rows; ++i) {
        const F32 sa(scaled ? args.a.scales.at(tile.row + i, 0) : 1.0f);
        for (std::int64_t j = 0; j < tile.columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, tile.columns - j));
            F32 x = load(sums + i * machine_columns + j);
            if (scaled) {
                const F32 b = load(sb + j);
                switch (args.rule.scale_order) {
                    case ScaleOrder::a_first:
                        x = b * (sa * x);
                        break;
                    case ScaleOrder::b_first:
                        x = sa * (b * x);
                        break;
                    default:
                        x = x * (sa * b);
                        break;
                }
            }
            x = x * factor;  // exact when it is 1
            if (add_bias) x = x + load_n(args.bias + tile.column + j, count);
            store_n(canonical(x), out + i * args.ld_out + j, count);
        }
    }
    cast_rows(args, caster, block, tile.row, tile.rows, tile.column, tile.columns, tally);
}

void machine_block(const Matmul& args, const Caster& caster, const MatmulBlock& block, Tally* tally) {
    const bool only_lower = args.triangle == Triangle::out_lower && tally == nullptr;
    const auto wanted = [&](const Range& tile) { return !only_lower || tile.column < tile.row + tile.rows; };
    const auto start = [](const Range&, float* sums) { std::fill_n(sums, tile_size, 0.0f); };
    with_worker(args, block.a, block.b, [&](auto&& worker) {
        const std::int64_t slices = max_of(args.rule.slices, 1);
        const std::int64_t length = slices == 1 ? args.k : definition::slice_length(args.rule, args.k);
        for (std::int64_t slice = 0; slice < slices; ++slice) {
            const std::int64_t first = min_of(slice * length, args.k), last = min_of(first + length, args.k);
            worker.run({block.first_row, block.last_row - block.first_row, block.first_column,
                        block.last_column - block.first_column, first, last},
                       wanted, start, [&](const Range& tile, float* sums) {
                           finish_tile(args, caster, block, tile, sums, slice, tally);
                       });
        }
    });
}

void chain_block(const Matmul& args, float* c) {
    with_worker(args, args.a.data, args.b.data, [&](auto&& worker) {
        const auto each = [&](const Range& tile, const auto& f) {
            for (std::int64_t i = 0; i < tile.rows; ++i) {
                for (std::int64_t j = 0; j < tile.columns; ++j) {
                    f(c[(tile.row + i) * args.n + tile.column + j], i * machine_columns + j);
                }
            }
        };
        worker.run(
            {0, args.m, 0, args.n, 0, args.k}, [](const Range&) { return true; },
            [&](const Range& tile, float* sums) {
                std::fill_n(sums, tile_size, 0.0f);
                each(tile, [&](float x, std::int64_t at) { sums[at] = x; });
            },
            [&](const Range& tile, float* sums) {
                each(tile, [&](float& x, std::int64_t at) { x = definition::canonical(sums[at]); });
            });
    });
}

}  // namespace

MatmulBlockKernel machine_block_of() { return machine_block; }
void (*machine_chain_of())(const Matmul&, float*) { return chain_block; }

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace {

void define_chain(const Matmul& args, float* c) {
    for (std::int64_t i = 0; i < args.m; ++i) {
        for (std::int64_t j = 0; j < args.n; ++j) {
            const auto x = definition::dot_operands(args, args.a.data, args.b.data, i, j);
            float& sum = c[i * args.n + j];
            sum = definition::canonical(definition::instruction_chain(args, x, 0, args.k, sum));
        }
    }
}

/// The vector code for `level`, or the definition where there is none for the machine.
template <class Function>
Function kernel_for(Simd level, const Machine& machine, Function scalar, Function avx2, Function avx512) {
    if (!has_machine_kernel(level, machine)) return scalar;
    return level == Simd::avx512 ? avx512 : avx2;
}

}  // namespace

bool is_plain_fp32_chain(const Matmul& args) {
    return args.rule == MatmulRule{} && args.a.scales.data == nullptr && args.b.scales.data == nullptr;
}

bool has_machine_kernel(Simd level, const Machine& machine) {
    if (level == Simd::scalar || machine.addend != machine.result) return false;
    const SumRule& sum = machine.sum;
    if (sum.zero_factor_counts || !sum.underflow_keeps_sign || sum.zeros_keep_sign || sum.normalises_addend)
        return false;
    switch (sum.model) {
        case SumModel::truncated:
        case SumModel::through_fp16:
        case SumModel::scaled_groups:
        case SumModel::exact_step:
        case SumModel::flushed_pairs:
        case SumModel::floored:
        case SumModel::floored_even_odd:
            return true;
        default:
            return false;
    }
}

MatmulBlockKernel machine_block_kernel(Simd level) {
    static constexpr auto run = [](Simd simd, const Matmul& args, const Caster& caster, const MatmulBlock& block,
                                   Tally* tally) {
        // A machine whose instructions end in a join of their own has no room for a second one.
        const bool nested =
            args.rule.machine->sum.model == SumModel::through_fp16 && args.rule.promotion != Promotion::none;
        const MatmulBlockKernel scalar = matmul_block_kernel(Simd::scalar);
        const auto kernel = nested ? scalar
                                   : kernel_for(simd, *args.rule.machine, scalar, N_AVX2::machine_block_of(),
                                                N_AVX3::machine_block_of());
        kernel(args, caster, block, tally);
    };
    switch (level) {
        case Simd::avx2:
            return
                [](const Matmul& m, const Caster& c, const MatmulBlock& b, Tally* t) { run(Simd::avx2, m, c, b, t); };
        case Simd::avx512:
            return
                [](const Matmul& m, const Caster& c, const MatmulBlock& b, Tally* t) { run(Simd::avx512, m, c, b, t); };
        default:
            return matmul_block_kernel(Simd::scalar);
    }
}

void machine_chain(Simd level, const Matmul& args, float* c) {
    kernel_for(level, *args.rule.machine, define_chain, N_AVX2::machine_chain_of(), N_AVX3::machine_chain_of())(args,
                                                                                                                c);
}

}  // namespace macheps
#endif
