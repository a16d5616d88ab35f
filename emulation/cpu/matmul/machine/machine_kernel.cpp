// SPDX-License-Identifier: Apache-2.0
// Matmul kernel for matrix units. A tile of outputs (64 rows, a panel of columns) is computed step by step along k. The
// part of the panel that one step reads stays in the first-level cache while all rows use it.
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/matmul/machine/machine_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "emulation/cpu/matmul/machine/machine_walk-inl.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

/// Maximum sizes of the packed blocks of b and of a. A block of rows of a stays in the second-level cache until all
/// panels of columns have used it.
constexpr std::int64_t b_block_bytes = 8 << 20, a_block_bytes = 1 << 20;

template <class E>
Scratch<E>& scratch_of_thread() {
    thread_local std::unique_ptr<Scratch<E>> scratch;
    if (scratch == nullptr) scratch = std::make_unique<Scratch<E>>();
    return *scratch;
}

/// Computes one matmul, or one slice of it, on one thread.
template <class E>
class Worker {
  public:
    Worker(const Matmul& args, const float* a, const float* b, const MachinePlan& plan, const StepKernel<E>& kernel)
        : args_(args),
          a_(a),
          b_(b),
          plan_(plan),
          kernel_(kernel),
          scratch_(scratch_of_thread<E>()),
          packer_(args, a, b, plan, kernel.in_pairs, scratch_) {}

    /// Computes the sums of all tiles of `range`. For each tile, start(tile range, sums) sets the addends, and end(tile
    /// range, sums) receives the finished sums. `sums` is [rows, machine_columns]. Skips tiles for which wanted(tile
    /// range) is false.
    template <class Wanted, class Start, class End>
    void run(const Range& range, const Wanted& wanted, const Start& start, const End& end) {
        const std::int64_t k = range.last - range.first;
        packer_.set_depth(k);
        const std::int64_t column_block = packer_.fitting(b_block_bytes, machine_columns);
        const std::int64_t row_block = packer_.fitting(a_block_bytes, tile_rows, sizeof(Spread<E>));
        for (std::int64_t column = range.column; column < range.column + range.columns; column += column_block) {
            Range columns = range;
            columns.column = column;
            columns.columns = min_of(column_block, range.column + range.columns - column);
            if (k > 0) packer_.pack_b(columns);
            for (std::int64_t row = range.row; row < range.row + range.rows; row += row_block) {
                Range block = columns;
                block.row = row;
                block.rows = min_of(row_block, range.row + range.rows - row);
                if (k > 0) packer_.pack_a(block);
                for (std::int64_t r = 0; r < block.rows; r += tile_rows) {
                    for (std::int64_t j = 0; j < block.columns; j += machine_columns) {
                        const Range tile{block.row + r,    min_of(tile_rows, block.rows - r),
                                         block.column + j, min_of(machine_columns, block.columns - j),
                                         range.first,      range.last};
                        if (!wanted(tile)) continue;
                        start(tile, scratch_.main);
                        if (k > 0) compute(tile, r, j / machine_columns);
                        end(tile, scratch_.main);
                    }
                }
            }
        }
    }

  private:
    /// Computes the sums of a tile over all terms, starting from the addends in scratch_.main. The tile begins at row
    /// `r` of the packed rows and is panel `panel` of the packed columns.
    void compute(const Range& tile, std::int64_t r, std::int64_t panel) {
        const PackedBlocks<E>& blocks = packer_.blocks();
        const TileOperands<E> operands{plan_, blocks, r, tile.rows, panel, scratch_.largest};
        const std::uint8_t* row_special = blocks.a_special + r;
        const std::uint8_t* column_special = blocks.b_special + panel * machine_columns;
        const auto is_set = [](std::uint8_t flags) { return flags != 0; };
        const bool columns_special = std::any_of(column_special, column_special + tile.columns, is_set);
        const bool any_special = columns_special || std::any_of(row_special, row_special + tile.rows, is_set);
        if (any_special) std::copy_n(scratch_.main, tile_size, scratch_.before);

        const auto [begin, end] = needed_terms(tile, columns_special);
        if (plan_.join == PartialJoin::none) {
            kernel_.walk(operands, begin, end, scratch_.main);
        } else {
            for (std::int64_t t = begin; t < end; t += plan_.interval) {
                std::fill_n(scratch_.partial, tile_size, 0.0f);
                kernel_.walk(operands, t, min_of(t + plan_.interval, end), scratch_.partial);
                join(tile, tile.first + t);
            }
        }
        if (any_special) set_specials(tile, row_special, column_special);
    }

    /// Returns the range [begin, end) of packed terms that may change an output of the tile. Before the first term
    /// whose element of a may be nonzero, a sum stays +0. After the last such term, one more instruction or partial sum
    /// may change a -0 to +0. Further instructions change nothing.
    std::pair<std::int64_t, std::int64_t> needed_terms(const Range& tile, bool columns_special) const {
        const std::int64_t padded = packer_.blocks().padded;
        const std::int64_t unit = plan_.join == PartialJoin::none ? plan_.instruction_k : plan_.interval;
        if (args_.addend != nullptr) return {0, padded};
        if (!columns_special && args_.triangle == Triangle::a_lower) {
            const std::int64_t needed = max_of(tile.row + tile.rows - tile.first, std::int64_t{0});
            return {0, min_of(padded, (needed + unit - 1) / unit * unit + unit)};
        }
        if (!columns_special && args_.triangle == Triangle::a_upper) {
            return {min_of(padded, max_of(tile.row - tile.first, std::int64_t{0}) / unit * unit), padded};
        }
        return {0, padded};
    }

    /// Adds the partial sums that begin with term p to the main sums.
    void join(const Range& tile, std::int64_t p) {
        float* main = scratch_.main;
        const float* partial = scratch_.partial;
        alignas(64) float sb[machine_columns];
        const bool scaled = plan_.join == PartialJoin::fma_joint || plan_.join == PartialJoin::fma_left;
        const ScalesOfTerm of_row(args_.a.scales, p), of_column(args_.b.scales, p);
        for (std::int64_t j = 0; scaled && j < machine_columns; ++j) {
            sb[j] = of_column(tile.column + min_of(j, tile.columns - 1));
        }
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            const F32 sa(scaled ? of_row(tile.row + i) : 1.0f);
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
                    // The sum of two fp16 numbers is rounded to fp32 and then to fp16. The result is still correct,
                    // because 24 >= 2 * 11 + 2 bits.
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

    /// Sets the outputs that have a NaN or an infinity among their operands. Packing replaced these operands by zeros.
    void set_specials(const Range& tile, const std::uint8_t* rows, const std::uint8_t* columns) {
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t j = 0; j < tile.columns; ++j) {
                if ((rows[i] | columns[j]) == 0) continue;
                const std::int64_t at = i * machine_columns + j;
                scratch_.main[at] =
                    special_output(tile, tile.row + i, tile.column + j, rows[i] | columns[j], scratch_.before[at]);
            }
        }
    }

    /// Returns the sum of output (i, j) over the terms of `tile`, with the addend `start`. `flags` combines the flags
    /// has_nan and has_infinity of row i of a and column j of b.
    float special_output(const Range& tile, std::int64_t i, std::int64_t j, int flags, float start) const {
        constexpr float infinity = std::numeric_limits<float>::infinity();
        const float nan = std::numeric_limits<float>::quiet_NaN();
        if ((flags & has_nan) != 0 || start != start) return nan;
        definition::DotOperands x = definition::dot_operands(args_, a_, b_, i, j);
        x.start = start;
        bool positive = start == infinity, negative = start == -infinity;
        for (std::int64_t p = tile.first; p < tile.last && !(positive && negative); ++p) {
            const float u = x.a[p * x.a_step], v = x.b[p * x.b_step];
            if (!(std::fabs(u) == infinity) && !(std::fabs(v) == infinity)) continue;
            const Factor f = factor_of_value(args_.a.format, u), g = factor_of_value(args_.b.format, v);
            if (f.is_zero() || g.is_zero()) return nan;
            // The model flushed_pairs reads a subnormal factor as a zero, and infinity times zero is NaN. The scalar
            // definition below handles this.
            if (plan_.rule.model == SumModel::flushed_pairs) break;
            (f.negative != g.negative ? negative : positive) = true;
        }
        if (positive && negative) return nan;
        // The infinite operands alone determine the result, unless finite products can overflow or there are scales.
        const bool plain = has_narrow_exponents(args_.a.format) && has_narrow_exponents(args_.b.format) &&
                           plan_.rule.delivery != Delivery::fp16_nearest_even && plan_.scale_count == 0 &&
                           plan_.rule.model != SumModel::flushed_pairs &&
                           (plan_.join == PartialJoin::none || plan_.join == PartialJoin::add);
        if (plain) return positive ? infinity : -infinity;
        if (args_.rule.promotion != Promotion::none) return definition::slice_sum(args_, x, tile.first, tile.last);
        return definition::instruction_chain(args_, x, tile.first, tile.last, start);
    }

    const Matmul& args_;
    const float *a_, *b_;
    const MachinePlan& plan_;
    const StepKernel<E>& kernel_;
    Scratch<E>& scratch_;
    BlockPacker<E> packer_;
};

/// Returns true if the exponents of the matrix x, relative to `base`, fit in 8 bits. If the format does not guarantee
/// this, the function examines the values and changes `base` to their smallest exponent, or to -1 if that is smaller.
/// A base of at most -1 keeps the exponent of a sum of zeros below the exponent of every addend.
bool has_narrow_values(const MatmulOperand& operand, const float* x, std::int64_t rows, std::int64_t columns,
                       const Format& format, int& base) {
    if (has_narrow_exponents(format)) return true;
    if (operand.transposed) std::swap(rows, columns);
    const ExponentRange range = exponent_range(x, operand.ld, rows, columns, format);
    if (range.most < range.least) return true;  // only zeros and specials
    base = min_of(max_of(range.least, format.emin()), -1);
    return range.most - base <= 63;
}

/// Calls f with a Worker whose stored exponents are as wide as the operands need. Returns false without calling f if no
/// kernel can compute the matmul.
template <class Function>
bool with_worker(const Matmul& args, const float* a, const float* b, const Function& f) {
    const std::optional<FusedPlan> fused = fused_plan(args);
    if (!fused) return false;
    MachinePlan plan(*fused);
    const auto call = [&]<class E>(const StepKernel<E>* kernel) {
        if (kernel == nullptr) return false;
        f(Worker<E>(args, a, b, plan, *kernel));
        return true;
    };
    if (has_narrow_values(args.a, a, args.m, args.k, plan.a_format, plan.a_base) &&
        has_narrow_values(args.b, b, args.k, args.n, plan.b_format, plan.b_base)) {
        return call(step_kernel<std::int8_t>(plan));
    }
    plan.a_base = plan.a_format.emin();
    plan.b_base = plan.b_format.emin();
    return call(step_kernel<std::int16_t>(plan));
}

// --- whole matmuls

/// Casts a tile of finished sums, adds the bias if it comes after the cast, and copies the tile to the output. Only for
/// casts without tally and without random bits. The tile is contiguous, so one call casts it. In the output, each row
/// of the tile would need its own call.
void cast_tile(const Matmul& args, const Caster& caster, const Range& tile, float* sums, float* out) {
    const std::int64_t count = tile.rows * machine_columns;
    caster(sums, sums, count, nullptr, 0);
    const auto each = [&](const auto& f) {
        for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t j = 0; j < tile.columns; j += lanes_of_vector) {
                f(i, j, static_cast<std::size_t>(min_of(lanes_of_vector, tile.columns - j)));
            }
        }
    };
    if (args.bias != nullptr && args.bias_after_cast) {
        each([&](std::int64_t i, std::int64_t j, std::size_t n) HWY_ATTR {
            float* x = sums + i * machine_columns + j;
            store(canonical(load(x) + load_n(args.bias + tile.column + j, n)), x);
        });
        caster(sums, sums, count, nullptr, 0);
    }
    each([&](std::int64_t i, std::int64_t j, std::size_t n)
             HWY_ATTR { store_n(load(sums + i * machine_columns + j), out + i * args.ld_out + j, n); });
}

/// Sets the addends of a tile to C, rounded to the machine's addend format, and to +0 beyond the tile's rows and
/// columns.
void begin_tile(const Matmul& args, const MatmulBlock& block, const Range& tile, float* sums) {
    if (tile.rows < tile_rows || tile.columns < machine_columns) std::fill_n(sums, tile_size, 0.0f);
    const float* from = block.addend + tile.row * args.ld_addend + tile.column;
    const Format format = args.rule.machine->addend;
    for (std::int64_t i = 0; i < tile.rows; ++i, from += args.ld_addend) {
        for (std::int64_t j = 0; j < tile.columns; j += lanes_of_vector) {
            const auto count = static_cast<std::size_t>(min_of(lanes_of_vector, tile.columns - j));
            const F32 c = canonical(load_n(from + j, count));
            store(format == fp16 ? through_half(c) : c, sums + i * machine_columns + j);
        }
    }
}

/// Applies the steps after the sum to a tile and writes it to the output. If there are slices of k, the sums first join
/// the sums that earlier slices left in the output, and only the last slice performs the further steps.
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
    // With SliceJoin::serial, the sum is already a finished output, which the cast below does not change.
    const F32 factor(serial ? 1.0f : args.out_scale);
    const bool add_bias = args.bias != nullptr && !args.bias_after_cast;
    const bool in_tile = tally == nullptr && !args.out_cast.is_identity() && args.out_cast.round != Round::stochastic;
    if (in_tile && !scaled && !add_bias && (serial || args.out_scale == 1)) {
        for (std::int64_t at = 0; at < tile.rows * machine_columns; at += lanes_of_vector)
            store(canonical(load(sums + at)), sums + at);
        return cast_tile(args, caster, tile, sums, out);
    }
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
            x = x * factor;  // exact if the factor is 1
            if (add_bias) x = x + load_n(args.bias + tile.column + j, count);
            if (in_tile) {
                store(canonical(x), sums + i * machine_columns + j);
            } else {
                store_n(canonical(x), out + i * args.ld_out + j, count);
            }
        }
    }
    if (in_tile) return cast_tile(args, caster, tile, sums, out);
    cast_rows(args, caster, block, tile.row, tile.rows, tile.column, tile.columns, tally);
}

}  // namespace

void machine_block(const Matmul& args, const Caster& caster, const MatmulBlock& block, Tally* tally) {
    const bool only_lower = args.triangle == Triangle::out_lower && tally == nullptr;
    const auto wanted = [&](const Range& tile) { return !only_lower || tile.column < tile.row + tile.rows; };
    const auto start = [&](const Range& tile, float* sums) {
        if (block.addend != nullptr) return begin_tile(args, block, tile, sums);
        std::fill_n(sums, tile_size, 0.0f);
    };
    const bool done = with_worker(args, block.a, block.b, [&](auto&& worker) {
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
    if (!done) matmul_block_kernel(Simd::scalar)(args, caster, block, tally);
}

/// Computes machine_chain() with vector kernels. Returns false without a result if no kernel can compute it.
bool vector_chain(const Matmul& args, float* c) {
    return with_worker(args, args.a.data, args.b.data, [&](auto&& worker) {
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

/// Returns true if there are kernels for every format and every width of exponents that the machine's operands may
/// have.
bool has_step_kernels(const Machine& machine) {
    for (const Format& format : FormatSet::known) {
        if (!machine.operands.contains(format)) continue;
        Matmul args;
        args.a.format = args.b.format = format;
        args.rule.machine = &machine;
        const std::optional<FusedPlan> plan = fused_plan(args);
        if (!plan || step_kernel<std::int8_t>(*plan) == nullptr) return false;
        if (!has_narrow_exponents(plan->a_format) && step_kernel<std::int16_t>(*plan) == nullptr) return false;
    }
    return true;
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {

bool runs_as_fp32_chain(const Matmul& args) {
    constexpr int most = 384;  // terms of a partial sum, which must fit in one block of k
    const MatmulRule& rule = args.rule;
    const bool joins = rule.promotion == Promotion::none || definition::scales_in_promotion(args);
    const bool changes = args.a.scales.k_stride != 0 || args.b.scales.k_stride != 0;
    const Machine& machine = *rule.machine;
    const bool is_chain = machine.sum.is_plain_chain() && machine.sum.delivery == Delivery::fp32_nearest_even &&
                          !machine.has_scales() && !rule.has_blocks();
    return is_chain && rule.slices <= 1 && joins && rule.promotion_interval <= most &&
           (rule.promotion_interval > 0 || !changes);
}

bool has_machine_kernel(Simd level, const Machine& machine) {
    return MACHEPS_CHOOSE_TARGET(
        level, [](const Machine&) { return false; }, has_step_kernels)(machine);
}

MatmulBlockKernel machine_block_kernel(Simd level) {
    return MACHEPS_CHOOSE_TARGET(level, matmul_block_kernel(Simd::scalar), machine_block);
}

void machine_chain(Simd level, const Matmul& args, float* c) {
    const auto chain = MACHEPS_CHOOSE_TARGET(
        level, [](const Matmul&, float*) { return false; }, vector_chain);
    if (chain(args, c)) return;
    for (std::int64_t i = 0; i < args.m; ++i) {
        for (std::int64_t j = 0; j < args.n; ++j) {
            const auto x = definition::dot_operands(args, args.a.data, args.b.data, i, j);
            float& sum = c[i * args.n + j];
            sum = definition::canonical(definition::instruction_chain(args, x, 0, args.k, sum));
        }
    }
}

}  // namespace macheps
#endif
