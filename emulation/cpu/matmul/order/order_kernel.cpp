// SPDX-License-Identifier: Apache-2.0
// Packs rows of A and panels of columns of B in the order in which the chain adds the terms. Each block of k is padded
// with zeros to a multiple of the instruction's k. The accumulators of a tile stay in registers for a whole block.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/matmul/order/order_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/matmul/joins-inl.hpp"
#include "emulation/cpu/matmul/machine/machine_step-inl.hpp"
#include "emulation/cpu/matmul/order/brain_chain.hpp"
#include "emulation/cpu/matmul/order/half_chain.hpp"
#include "emulation/cpu/matmul/order/order_brain-inl.hpp"
#include "emulation/cpu/matmul/order/order_dot8-inl.hpp"
#include "emulation/cpu/matmul/order/order_exact-inl.hpp"
#include "emulation/cpu/matmul/order/order_kernel.hpp"
#include "emulation/cpu/matmul/order/order_narrow-inl.hpp"
#include "emulation/cpu/matmul/order/order_pack-inl.hpp"
#include "emulation/cpu/matmul/order/order_tile-inl.hpp"
#include "emulation/cpu/simd/simd.hpp"

#include <algorithm>
#include <utility>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

constexpr std::int64_t order_rows = 192;

constexpr int max_order_rows = 6;

/// An order of summation, and the functions that compute tiles in this order.
struct OrderKernel {
    bool (*serves)(const Matmul& args);
    OrderTile tiles[max_order_rows];  ///< tiles[r - 1] computes r rows, for r up to `rows`
    int rows;
    bool flushes = false;               ///< runs with MXCSR's flush modes on
    bool cuts = true;                   ///< operands are truncated to the grid of their format
    float b_scale = 1;                  ///< factor by which packing multiplies the columns of b
    bool as_halves = false;             ///< operands are packed as fp16 (half_chain.hpp)
    const OrderTile* scaled = nullptr;  ///< faster tiles for moderate operands (order_brain-inl.hpp)
    bool turns = false;                 ///< the scaled tiles read permuted columns (brain_chain.hpp)
};

bool is_flushed_chain(const SumRule& sum) {
    return sum.flush_operands && sum.flush_results == ResultFlush::after_rounding &&
           sum.rounding == Round::nearest_even && sum.delivery == Delivery::fp32_nearest_even;
}
template <int joined>
bool is_parted(const Machine& m, int k) {
    return m.sum.model == SumModel::parted_chain && is_flushed_chain(m.sum) && m.sum.joined_products == joined &&
           m.k == k && m.sum.terms == k;
}
bool is_plain(const Machine& m, Delivery delivery) { return m.sum.is_plain_chain() && m.sum.delivery == delivery; }

/// Returns true for a chain of fp16 fma if fp16 can represent all values of the operand formats.
bool is_half_chain(const Matmul& args) {
    const auto fits = [](const Format& f) {
        return f.encoding == Encoding::binary && f.precision <= fp16.precision && f.emin() - f.fraction_bits() >= -24 &&
               decode64(f, f.max_finite_code() << f.padding) <= 65504;
    };
    return is_plain(*args.rule.machine, Delivery::fp16_nearest_even) && fits(args.a.format) && fits(args.b.format);
}
bool is_native_half_chain(const Matmul& args) {
    return HWY_TARGET == HWY_AVX3 && has_extension(Extension::avx512_fp16) && is_half_chain(args);
}

template <int terms>
bool is_exact_dot8(const Matmul& args, Delivery delivery) {
    const Machine& m = *args.rule.machine;
    const auto is_fp8 = [](const Format& f) { return f == e4m3fn || f == e5m2; };
    return m.sum.model == SumModel::exact_step && m.k == terms && m.sum.terms == terms && m.sum.delivery == delivery &&
           !m.sum.zeros_keep_sign && is_fp8(args.a.format) && is_fp8(args.b.format);
}

constexpr OrderTile brain_tiles[] = {brain_tile<1>, brain_tile<2>, brain_tile<3>, brain_tile<4>};
constexpr OrderTile native_brain_tiles[] = {brain_chain_tile<1>, brain_chain_tile<2>, brain_chain_tile<3>,
                                            brain_chain_tile<4>, brain_chain_tile<5>, brain_chain_tile<6>};

/// Returns true for a chain of bf16 fma if no operand format is more precise than bf16.
bool is_brain_chain(const Matmul& args) {
    return is_plain(*args.rule.machine, Delivery::bf16_nearest_even) && args.a.format.precision <= bf16.precision &&
           args.b.format.precision <= bf16.precision;
}

bool is_native_brain_chain(const Matmul& args) {
    return HWY_TARGET == HWY_AVX3 && has_extension(Extension::avx512_bf16) && is_brain_chain(args);
}

constexpr OrderKernel order_kernels[] = {
    {[](const Matmul& x) {
         const SumRule& sum = x.rule.machine->sum;
         return sum.model == SumModel::fma_chain && is_flushed_chain(sum) && !sum.rounds_products;
     },
     {order_tile<FmaOrder, 1>, order_tile<FmaOrder, 2>, order_tile<FmaOrder, 3>, order_tile<FmaOrder, 4>},
     4,
     true},
    {[](const Matmul& x) { return is_parted<1>(*x.rule.machine, 32); },
     {order_tile<PartedOrder<32, 1>, 1>, order_tile<PartedOrder<32, 1>, 2>},
     2,
     true},
    {[](const Matmul& x) { return is_parted<2>(*x.rule.machine, 64); },
     {order_tile<PartedOrder<64, 2>, 1>, order_tile<PartedOrder<64, 2>, 2>},
     2,
     true},
    {[](const Matmul& x) {
         return is_plain(*x.rule.machine, Delivery::fp32_nearest_even) && x.rule.machine->result == fp32;
     },
     {order_tile<FmaOrder, 1>, order_tile<FmaOrder, 2>, order_tile<FmaOrder, 3>, order_tile<FmaOrder, 4>},
     4,
     false,
     false},
    {.serves = is_native_brain_chain,
     .tiles = {order_tile<BrainOrder, 1>, order_tile<BrainOrder, 2>, order_tile<BrainOrder, 3>,
               order_tile<BrainOrder, 4>, order_tile<BrainOrder, 5>, order_tile<BrainOrder, 6>},
     .rows = 6,
     .scaled = native_brain_tiles,
     .turns = true},
    {.serves = is_brain_chain,
     .tiles = {order_tile<BrainOrder, 1>, order_tile<BrainOrder, 2>, order_tile<BrainOrder, 3>,
               order_tile<BrainOrder, 4>},
     .rows = 4,
     .scaled = brain_tiles},
    {[](const Matmul& x) { return is_plain(*x.rule.machine, Delivery::bf16_nearest_even); },
     {order_tile<BrainOrder, 1>, order_tile<BrainOrder, 2>, order_tile<BrainOrder, 3>, order_tile<BrainOrder, 4>},
     4},
    {is_native_half_chain,
     {half_chain_tile<1>, half_chain_tile<2>, half_chain_tile<3>, half_chain_tile<4>},
     4,
     false,
     true,
     1,
     true},
    {is_half_chain,
     {narrow_tile<HalfSums, 1>, narrow_tile<HalfSums, 2>, narrow_tile<HalfSums, 3>, narrow_tile<HalfSums, 4>},
     4,
     false,
     true,
     1 / HalfSums::unscale},
    {[](const Matmul& x) { return is_plain(*x.rule.machine, Delivery::fp16_nearest_even); },
     {order_tile<HalfOrder, 1>, order_tile<HalfOrder, 2>, order_tile<HalfOrder, 3>, order_tile<HalfOrder, 4>},
     4},
    {[](const Matmul& x) {
         const SumRule& sum = x.rule.machine->sum;
         return sum.model == SumModel::fma_chain && sum.rounds_products && !sum.flush_operands &&
                sum.delivery == Delivery::fp32_nearest_even;
     },
     {order_tile<UnfusedOrder, 1>, order_tile<UnfusedOrder, 2>, order_tile<UnfusedOrder, 3>,
      order_tile<UnfusedOrder, 4>},
     4,
     false,
     false},
    {[](const Matmul& x) { return x.rule.machine->sum.model == SumModel::kahan; },
     {order_tile<KahanOrder, 1>, order_tile<KahanOrder, 2>, order_tile<KahanOrder, 3>, order_tile<KahanOrder, 4>},
     4,
     false,
     false},
    {[](const Matmul& x) {
         const SumRule& sum = x.rule.machine->sum;
         return sum.model == SumModel::odd_pairs && sum.rounding == Round::to_odd && sum.flush_operands;
     },
     {odd_pairs_tile<1>, odd_pairs_tile<2>, odd_pairs_tile<3>, odd_pairs_tile<4>},
     4},
    {[](const Matmul& x) {
         const SumRule& sum = x.rule.machine->sum;
         return sum.model == SumModel::pair_then_add && sum.terms == 2;
     },
     {order_tile<PairThenAddOrder, 1>, order_tile<PairThenAddOrder, 2>},
     2},
    {[](const Matmul& x) { return is_exact_dot8<2>(x, Delivery::fp16_nearest_even); },
     {order_tile<Dot8Order<2>, 1>, order_tile<Dot8Order<2>, 2>},
     2},
    {[](const Matmul& x) {
         // A sum of products of e5m2 numbers may need more significant bits than fp64 has.
         const bool is_wide = x.a.format == e5m2 && x.b.format == e5m2;
         return is_exact_dot8<4>(x, Delivery::fp32_nearest_even) && !is_wide;
     },
     {order_tile<Dot8Order<4>, 1>, order_tile<Dot8Order<4>, 2>},
     2},
    {[](const Matmul& x) { return x.rule.machine->sum.model == SumModel::pairwise; },
     {pairwise_tile<1>, pairwise_tile<2>},
     2,
     false,
     false},
    {[](const Matmul& x) { return x.rule.machine->sum.model == SumModel::exact; },
     {exact_tile<1>, exact_tile<2>},
     2,
     false,
     false},
};

const OrderKernel* order_kernel_of(const Matmul& args) {
    for (const OrderKernel& kernel : order_kernels) {
        if (kernel.serves(args)) return &kernel;
    }
    return nullptr;
}

/// Prepares a packed panel for the scaled tiles of the kernel. Returns the factor by which the panel was multiplied, or
/// 0 if the panel is unchanged. Unused columns become copies of the first one, because zero sums would force the slow
/// steps that check for ties.
float scale_panel(const OrderKernel& kernel, const OperandSizes& a, const OrderTerms& terms, std::int64_t columns,
                  float* b) {
    if (kernel.scaled == nullptr) return 0;
    const float scale = brain_scale(a, OperandSizes::of(b, terms.size() * order_columns));
    if (scale == 0) return 0;
    for (std::int64_t p = 0; p < terms.size(); ++p) {
        float* const row = b + p * order_columns;
        std::fill(row + columns, row + order_columns, row[0]);
        for (std::int64_t j = 0; j < order_columns; j += lanes_of_vector) store(load(row + j) * F32(scale), row + j);
    }
    // At the beginning of every block, the sums are in the original order of columns. Therefore the columns of each
    // block are permuted separately.
    if (kernel.turns) {
        for (const OrderBlock& each : terms.blocks) turn_columns(b + each.begin * order_columns, each.end - each.begin);
    }
    return scale;
}

/// Sets the start values of a tile's sums: the bias, the addend as the machine reads it, or +0.
void begin_sums(const Matmul& args, const MatmulBlock& block, std::int64_t row, int rows, std::int64_t column,
                std::int64_t columns, const float* bias, float* sums) {
    std::fill_n(sums, rows * order_columns, 0.0f);
    const Machine& machine = *args.rule.machine;
    for (int r = 0; r < rows; ++r) {
        float* out = sums + r * order_columns;
        if (bias != nullptr) std::copy_n(bias, order_columns, out);
        if (block.addend == nullptr) continue;
        const float* from = block.addend + (row + r) * args.ld_addend + column;
        for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, columns - j));
            F32 c = canonical(load_n(from + j, count));
            if (machine.addend == fp16) c = through_half(c);
            if (machine.addend == bf16) c = canonical(through_bf16(c));
            if (machine.sum.flush_operands && args.k > 0) c = flushed(c);
            store(c, out + j);
        }
    }
}

/// Adds the sums of a tile over all blocks to `sums`. If `adds_first` is false, the chains of the first block begin
/// with the values in `sums`. If it is true, they begin with +0, and the first block is added like the others. If
/// `scale` is not 0, the columns of b have been multiplied by it, and the scaled tiles are used.
void sum_tile(const OrderKernel& kernel, const OrderTerms& terms, const float* a, const float* b, float scale, int rows,
              bool adds_first, float* sums) {
    alignas(64) float block[max_order_rows * 2 * f32_lanes];
    bool is_first = !adds_first;
    for (const OrderBlock& each : terms.blocks) {
        if (!is_first) std::fill_n(block, rows * order_columns, 0.0f);
        {
            const FlushMode mode(kernel.flushes);
            const OrderTile tile = scale != 0 ? kernel.scaled[rows - 1] : kernel.tiles[rows - 1];
            float* const out = is_first ? sums : block;
            tile(a + each.begin, terms.size(), b + each.begin * order_columns, each.end - each.begin, out);
            for (std::int64_t i = 0; scale != 0 && i < rows * order_columns; i += lanes_of_vector) {
                store(load(out + i) * F32(1 / scale), out + i);
            }
        }
        for (std::int64_t i = 0; !is_first && i < rows * order_columns; i += lanes_of_vector)
            store(load(sums + i) + load(block + i), sums + i);
        is_first = false;
    }
}

}  // namespace

void order_block(const Matmul& args, const Caster& caster, const MatmulBlock& block, Tally* tally) {
    thread_local OrderScratch scratch;
    const OrderKernel& kernel = *order_kernel_of(args);
    const OrderTerms terms(args);
    const bool has_scales = args.a.scales.data != nullptr || args.b.scales.data != nullptr;
    const float* bias = args.bias_after_cast || args.rule.bias_first ? nullptr : args.bias;
    const OuterView a{block.a, args.a.transposed ? 1 : args.a.ld, args.a.transposed ? args.a.ld : 1};
    const OuterView b{block.b, args.b.transposed ? args.b.ld : 1, args.b.transposed ? 1 : args.b.ld};
    const bool flushes = args.rule.machine->sum.flush_operands;
    const GridReader read_a(args.a.format, kernel.cuts, flushes), read_b(args.b.format, kernel.cuts, flushes);
    const bool only_lower = args.triangle == Triangle::out_lower && tally == nullptr;
    alignas(64) float sums[max_order_rows * 2 * f32_lanes], first_bias[2 * f32_lanes];
    for (std::int64_t row = block.first_row; row < block.last_row; row += order_rows) {
        const std::int64_t rows = min_of(order_rows, block.last_row - row);
        pack_rows(a, row, rows, terms, read_a, scratch);
        if (kernel.as_halves) halve_rows(scratch.a.data(), rows * terms.size());
        const OperandSizes row_sizes =
            kernel.scaled != nullptr ? OperandSizes::of(scratch.a.data(), rows * terms.size()) : OperandSizes{};
        for (std::int64_t column = block.first_column; column < block.last_column; column += order_columns) {
            const std::int64_t columns = min_of(order_columns, block.last_column - column);
            if (only_lower && column >= row + rows) break;
            pack_columns(b, column, columns, terms, read_b, kernel.b_scale, scratch);
            if (kernel.as_halves) halve_columns(scratch.b.data(), terms.size());
            // The scaled tiles support only sums that begin with +0.
            const float scale =
                block.addend != nullptr ? 0 : scale_panel(kernel, row_sizes, terms, columns, scratch.b.data());
            Joins joins{.order = args.rule.scale_order};
            if (has_scales) {
                scratch.b_scales.resize(static_cast<std::size_t>(order_columns));
                pack_scales(args.b.scales, column, columns, 0, 0, 1, order_columns, scratch.b_scales.data());
                joins.b = scratch.b_scales.data();
            }
            const float* start = nullptr;
            if (args.rule.bias_first && args.bias != nullptr) {
                std::fill_n(first_bias, order_columns, 0.0f);
                std::copy_n(args.bias + column, columns, first_bias);
                start = first_bias;
            }
            for (std::int64_t r = 0; r < rows; r += kernel.rows) {
                const auto count = static_cast<int>(min_of(std::int64_t{kernel.rows}, rows - r));
                begin_sums(args, block, row + r, count, column, columns, start, sums);
                sum_tile(kernel, terms, scratch.a.data() + r * terms.size(), scratch.b.data(), scale, count,
                         start != nullptr, sums);
                if (has_scales) {
                    scratch.a_scales.resize(static_cast<std::size_t>(order_columns));
                    pack_scales(args.a.scales, row + r, count, 0, 0, 1, order_columns, scratch.a_scales.data());
                    joins.a = scratch.a_scales.data();
                }
                finish_rows(joins, args.out_scale, nullptr, count, order_columns, sums, order_columns);
                for (int i = 0; i < count; ++i) {
                    float* out = block.out + (row + r + i) * args.ld_out + column;
                    for (std::int64_t j = 0; j < columns; j += lanes_of_vector) {
                        const auto n = static_cast<std::size_t>(min_of(lanes_of_vector, columns - j));
                        F32 x = load(sums + i * order_columns + j);
                        if (bias != nullptr) x = canonical(x + load_n(bias + column + j, n));
                        store_n(x, out + j, n);
                    }
                }
            }
            cast_rows(args, caster, block, row, rows, column, columns, tally);
        }
    }
}

bool has_order_kernel(const Matmul& args) { return order_kernel_of(args) != nullptr; }

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

bool runs_as_order(Simd level, const Matmul& args) {
    const MatmulRule& rule = args.rule;
    const Machine& machine = *rule.machine;
    const bool changes = args.a.scales.k_stride != 0 || args.b.scales.k_stride != 0;
    if (rule.promotion != Promotion::none || rule.slices > 1 || rule.lanes > 1 || changes || machine.has_scales() ||
        machine.addend != machine.result) {
        return false;
    }
    // Fused steps have no kernel here: machine_block_kernel() computes them.
    return MACHEPS_CHOOSE_TARGET(
        level, [](const Matmul&) { return false; }, has_order_kernel)(args);
}

MatmulBlockKernel order_block_kernel(Simd level) {
    return MACHEPS_CHOOSE_TARGET(level, matmul_block_kernel(Simd::scalar), order_block);
}

}  // namespace macheps
#endif
