// SPDX-License-Identifier: Apache-2.0
// Walks: functions that compute all steps along k for every row of a tile. The table at the end has one walk for each
// kind of step that has vector code. Included once per SIMD target.
#include "emulation/cpu/matmul/machine/machine_amd-inl.hpp"
#include "emulation/cpu/matmul/machine/machine_blocks-inl.hpp"
#include "emulation/cpu/matmul/machine/machine_step-inl.hpp"

#include <type_traits>

#if defined(MACHEPS_MACHINE_WALK_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef MACHEPS_MACHINE_WALK_INL
#undef MACHEPS_MACHINE_WALK_INL
#else
#define MACHEPS_MACHINE_WALK_INL
#endif

#if MACHEPS_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {

/// Position of a tile's operands in the packed blocks.
template <class E>
struct TileOperands {
    const MachinePlan& plan;
    const PackedBlocks<E>& blocks;
    std::int64_t row = 0, rows = 0;  ///< index of the first packed row, and number of rows
    std::int64_t panel = 0;          ///< index of the panel in the packed columns
    E* largest = nullptr;            ///< scratch [2, tile_rows, machine_columns]
};

/// Function that computes the steps over packed terms [begin, end) for every row of a tile. Replaces the addends in c
/// [rows, machine_columns] by the results.
template <class E>
using Walk = void (*)(const TileOperands<E>& tile, std::int64_t begin, std::int64_t end, float* c);

/// Prefetches one part of the `bytes` bytes that the next step reads. All rows of a tile read the same bytes, so each
/// row prefetches a different part.
template <std::int64_t bytes>
HWY_INLINE void prefetch_share(const void* from, std::int64_t row) {
    constexpr std::int64_t line = 64, lines = (bytes + line - 1) / line, each = (lines + tile_rows - 1) / tile_rows;
    for (std::int64_t l = row * each; l < (row + 1) * each && l < lines; ++l) {
        __builtin_prefetch(static_cast<const std::byte*>(from) + l * line);
    }
}

// --- types that compute one step of one row
// The member `terms` is the number of products per column. If `groups` is not 0, the products are divided into `groups`
// equal parts, and the step needs the largest exponent of each part. `has_groups` is true if the model of the step is
// SumModel::scaled_groups.

template <class E, int n, Delivery delivery, int halves = 1, bool scaled = false>
struct TruncatedRow {
    static constexpr int terms = n, groups = 1;
    static constexpr bool has_groups = false;
    HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E* largest, float* c) const {
        truncated_row<E, n, halves, scaled, delivery>(plan, x, largest, c);
    }
};
template <class E>
struct ScaledGroupsRow {
    static constexpr int terms = step_groups * group_terms, groups = 0;
    static constexpr bool has_groups = true;
    HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E*, float* c) const {
        scaled_groups_row(plan, x, c);
    }
};
template <class E, int n, int parts>
struct FlooredRow {
    static constexpr int terms = n, groups = parts;
    static constexpr bool has_groups = false;
    HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E* largest, float* c) const {
        floored_row<E, n, parts>(plan, x, largest, tile_size, c);
    }
};
template <class E, int n>
struct ExactRow {
    static constexpr int terms = n, groups = 0;
    static constexpr bool has_groups = false;
    HWY_INLINE void operator()(const MachinePlan& plan, const StepOperands<E>& x, const E*, float* c) const {
        exact_row<E, n>(plan, x, c);
    }
};
template <class E, int n>
struct FlushedPairsRow {
    static constexpr int terms = n, groups = 0;
    static constexpr bool has_groups = false;
    HWY_INLINE void operator()(const MachinePlan&, const StepOperands<E>& x, const E*, float* c) const {
        flushed_pairs_row<n>(x.a, x.b, c);
    }
};

// --- walks

template <class E, class Row>
HWY_NOINLINE void walk(const TileOperands<E>& tile, std::int64_t begin, std::int64_t end, float* c) {
    const MachinePlan plan = tile.plan;
    const PackedBlocks<E> packed = tile.blocks;
    const Row row;
    const std::int64_t scales = plan.scale_count, rows = tile.rows, padded = packed.padded;
    const std::int64_t b_at = tile.panel * padded * machine_columns;
    E* const largest = tile.largest;
    for (std::int64_t t = begin; t < end; t += Row::terms) {
        StepOperands<E> x{.a = packed.a + tile.row * padded + t,
                          .a_exponent = packed.a_exponent + tile.row * padded + t,
                          .b = packed.b + b_at + t * machine_columns,
                          .b_exponent = packed.b_exponent + b_at + t * machine_columns};
        if (scales != 0) {
            const std::int64_t instruction = t / plan.instruction_k;
            const std::int64_t b_scale = (tile.panel * packed.instructions + instruction) * scales * machine_columns;
            x.b_scale = packed.b_scale + b_scale;
            x.b_scale_exponent = packed.b_scale_exponent + b_scale;
            x.a_scale = packed.a_scale + (tile.row * packed.instructions + instruction) * scales;
            x.a_scale_exponent = packed.a_scale_exponent + (tile.row * packed.instructions + instruction) * scales;
        }
        if constexpr (Row::has_groups) {
            x.a_nonzero = packed.a_nonzero + (tile.row * padded + t) / group_terms;
            x.b_nonzero = packed.b_nonzero + (tile.panel * padded + t) / group_terms * machine_columns;
        }
        if constexpr (Row::groups > 0) {
            constexpr int each = Row::terms / Row::groups;
            for (int g = 0; g < Row::groups; ++g) {
                largest_exponents<each>(packed.a_spread + tile.row * padded + t + g * each, padded, rows,
                                        x.b_exponent + g * each * machine_columns, largest + g * tile_size);
            }
        }
        const float* const next_b = x.b + Row::terms * machine_columns;
        const E* const next_e = x.b_exponent + Row::terms * machine_columns;
        for (std::int64_t i = 0; i < rows; ++i) {
            // Prefetches the operands of the next step, because long operands do not stay in the first-level cache.
            prefetch_share<Row::terms * machine_columns * std::int64_t{sizeof(float)}>(next_b, i);
            prefetch_share<Row::terms * machine_columns * std::int64_t{sizeof(E)}>(next_e, i);
            __builtin_prefetch(x.a + Row::terms);
            row(plan, x, largest + i * machine_columns, c + i * machine_columns);
            x.a += padded;
            x.a_exponent += padded;
            x.a_scale += packed.instructions * scales;
            x.a_scale_exponent += packed.instructions * scales;
            if constexpr (Row::has_groups) x.a_nonzero += padded / group_terms;
        }
    }
}

/// Runs walk() for NVIDIA's steps, which need CutMode. (AMD's steps round to nearest.) The rounding mode is changed
/// outside walk(), which is not inlined. Within one function, a compiler may move arithmetic across the change.
template <class E, class Row>
void walk_cutting(const TileOperands<E>& tile, std::int64_t begin, std::int64_t end, float* c) {
    const CutMode mode;
    walk<E, Row>(tile, begin, end, c);
}

#if HWY_TARGET == HWY_AVX3
template <int terms, bool vnni, Delivery delivery>
HWY_NOINLINE void walk_pairs_with(const TileOperands<std::int8_t>& tile, std::int64_t begin, std::int64_t end,
                                  float* c) {
    const MachinePlan plan = tile.plan;
    const PackedBlocks<std::int8_t> packed = tile.blocks;
    const std::int64_t rows = tile.rows, padded = packed.padded;
    std::int8_t* const largest = tile.largest;
    for (std::int64_t t = begin; t < end; t += terms) {
        const PairBlock* b = packed.b_pairs + (tile.panel * padded + t) / 2;
        largest_exponents<terms>(packed.a_spread + tile.row * padded + t, padded, rows,
                                 packed.b_exponent + (tile.panel * padded + t) * machine_columns, largest);
        const PairFactor* a = packed.a_pairs + (tile.row * padded + t) / 2;
        const float* value = packed.a + tile.row * padded + t;
        const std::int8_t* const next_e = packed.b_exponent + (tile.panel * padded + t + terms) * machine_columns;
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

template <int terms, Delivery delivery>
void walk_pairs(const TileOperands<std::int8_t>& tile, std::int64_t begin, std::int64_t end, float* c) {
    static const bool has_vnni = __builtin_cpu_supports("avx512vnni") != 0;
    has_vnni ? walk_pairs_with<terms, true, delivery>(tile, begin, end, c)
             : walk_pairs_with<terms, false, delivery>(tile, begin, end, c);
}
#endif

// --- the table

/// Row of the table: a kind of step, and the walk that computes it.
template <class E>
struct StepKernel {
    SumModel model;
    int terms;
    Delivery delivery;
    int min_fraction, max_fraction;  ///< range of F (bits kept below the largest exponent)
    Walk<E> walk;
    bool scaled = false;    ///< the step applies block scales
    bool in_pairs = false;  ///< the walk reads pairs
};

namespace step_kernels {

using enum SumModel;
using enum Delivery;
using Narrow = std::int8_t;

/// Kernels for exponents of any width.
template <class E>
inline constexpr StepKernel<E> of_any_width[] = {
    {truncated, 4, fp32_toward_zero, 0, 25, walk_cutting<E, TruncatedRow<E, 4, fp32_toward_zero>>},
    {truncated, 8, fp32_toward_zero, 0, 25, walk_cutting<E, TruncatedRow<E, 8, fp32_toward_zero>>},
    {truncated, 16, fp32_toward_zero, 0, 25, walk_cutting<E, TruncatedRow<E, 16, fp32_toward_zero>>},
    {scaled_groups, 64, fp32_toward_zero, 35, 35, walk_cutting<E, ScaledGroupsRow<E>>, true},
    {exact_step, 2, fp32_nearest_even, 0, 0, walk<E, ExactRow<E, 2>>},
    {exact_step, 4, fp32_nearest_even, 0, 0, walk<E, ExactRow<E, 4>>},
    {flushed_pairs, 2, fp32_nearest_even, 0, 0, walk<E, FlushedPairsRow<E, 2>>},
    {flushed_pairs, 4, fp32_nearest_even, 0, 0, walk<E, FlushedPairsRow<E, 4>>},
    {floored, 4, fp32_nearest_even, 24, 24, walk<E, FlooredRow<E, 4, 1>>},
    {floored, 8, fp32_nearest_even, 24, 24, walk<E, FlooredRow<E, 8, 1>>},
    {floored_even_odd, 16, fp32_nearest_even, 24, 24, walk<E, FlooredRow<E, 16, 2>>},
};

/// Kernels for 8-bit exponents. Machines with these steps accept only formats with exponents that fit in 8 bits. A
/// 32-bit accumulator can hold the sum of n products below 2^(F + 2) if n 2^(F + 2) <= 2^31. This allows 16 products
/// with F = 25, and 32 products with F = 24.
inline constexpr StepKernel<Narrow> of_8_bits[] = {
#if HWY_TARGET == HWY_AVX3
    {truncated, 16, e8m13_toward_zero, 13, 13, walk_pairs<16, e8m13_toward_zero>, false, true},
    {truncated, 32, e8m13_toward_zero, 13, 13, walk_pairs<32, e8m13_toward_zero>, false, true},
    {truncated, 16, fp16_nearest_even, 13, 13, walk_pairs<16, fp16_nearest_even>, false, true},
    {truncated, 32, fp16_nearest_even, 13, 13, walk_pairs<32, fp16_nearest_even>, false, true},
#endif
    {truncated, 16, e8m13_toward_zero, 0, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 16, e8m13_toward_zero>>},
    {truncated, 32, e8m13_toward_zero, 0, 24, walk_cutting<Narrow, TruncatedRow<Narrow, 32, e8m13_toward_zero>>},
    {truncated, 4, fp16_nearest_even, 0, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 4, fp16_nearest_even>>},
    {truncated, 8, fp16_nearest_even, 0, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 8, fp16_nearest_even>>},
    {truncated, 16, fp16_nearest_even, 0, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 16, fp16_nearest_even>>},
    {truncated, 32, fp16_nearest_even, 0, 24, walk_cutting<Narrow, TruncatedRow<Narrow, 32, fp16_nearest_even>>},
    {truncated, 32, fp16_nearest_even, 25, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 32, fp16_nearest_even, 2>>},
    {truncated, 32, fp32_toward_zero, 0, 24, walk_cutting<Narrow, TruncatedRow<Narrow, 32, fp32_toward_zero>>},
    {truncated, 32, fp32_toward_zero, 25, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 32, fp32_toward_zero, 2>>},
    {truncated, 32, fp32_toward_zero, 0, 25, walk_cutting<Narrow, TruncatedRow<Narrow, 32, fp32_toward_zero, 2, true>>,
     true},
};

}  // namespace step_kernels

/// Returns the first kernel of the table that computes the plan's steps with stored exponents of type E, or nullptr.
template <class E>
const StepKernel<E>* step_kernel(const FusedPlan& plan) {
    const auto fits = [&](const StepKernel<E>& kernel) {
        return kernel.model == plan.rule.model && kernel.terms == plan.terms && kernel.delivery == plan.rule.delivery &&
               kernel.min_fraction <= plan.rule.fraction_bits && plan.rule.fraction_bits <= kernel.max_fraction &&
               kernel.scaled == (plan.scale_block != 0);
    };
    if constexpr (sizeof(E) == 1) {
        for (const StepKernel<E>& kernel : step_kernels::of_8_bits) {
            if (fits(kernel)) return &kernel;
        }
    }
    for (const StepKernel<E>& kernel : step_kernels::of_any_width<E>) {
        if (fits(kernel)) return &kernel;
    }
    return nullptr;
}

}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
