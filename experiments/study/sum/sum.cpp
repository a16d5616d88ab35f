// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sum/sum.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/rounding_names.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/study/product/gemm.hpp"
#include "experiments/study/rounder.hpp"
#include "experiments/study/sum/seed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace macheps::study {

namespace {

/// One data set in one format for all seeds, and its results. `results` has the indices [seed][method][round], and the
/// values of a Result have the index [trial].
struct SumBatch {
    const SumGrid& grid;
    const SumData& data;
    Format format;
    std::int64_t n;
    std::vector<SumSeed> seeds{};

    struct Result {
        std::vector<double> values{};            ///< one for each trial; only one if all trials give the same
        std::vector<unsigned char> saturated{};  ///< 1: the value is finite although an operation overflowed
        std::optional<std::int64_t> stagnated_at{};
    };
    std::vector<Result> results{};

    Result& result(std::size_t seed, std::size_t method, std::size_t round) {
        return results[(seed * grid.methods.size() + method) * grid.rounds.size() + round];
    }
    bool takes(const SumChoice& method) const {
        if (!method.machine || method.machine->order) return true;
        return format != fp64 && study::takes(*method.machine, {format, format}, OperandScaling::none);
    }
    std::int64_t trials_of(Round round) const { return round == Round::stochastic ? grid.trials : 1; }
};

RngKey sum_key(std::uint64_t seed, std::int64_t trial) {
    return {.seed = seed, .step = static_cast<std::uint32_t>(trial), .site = site_id("sum.round")};
}

/// Returns the terms x sorted by magnitude. For dot products, x holds the rounded products (sorted_products).
SumVectors sorted_terms(const SumVectors& terms, bool descends) {
    std::vector<std::size_t> order(terms.x.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const double x = std::fabs(terms.x[a]), y = std::fabs(terms.x[b]);
        return descends ? y < x : x < y;
    });
    SumVectors out;
    for (const std::size_t i : order) out.x.push_back(terms.x[i]);
    return out;
}

/// The work of one call of the kernel: up to sixteen trials of one seed, or one trial of up to sixteen seeds.
struct LaneGroup {
    std::size_t method = 0, round = 0;
    std::size_t seed = 0;
    std::int64_t trial = 0;
    std::size_t count = 1;
    bool is_of_trials = false;
};

std::vector<LaneGroup> lane_groups(const SumBatch& batch) {
    std::vector<LaneGroup> groups;
    const std::size_t seeds = batch.seeds.size();
    for (std::size_t method = 0; method < batch.grid.methods.size(); ++method) {
        const SumChoice& choice = batch.grid.methods[method];
        const SumMethod kind = choice.row->method;
        if (!batch.takes(choice)) continue;
        for (std::size_t round = 0; round < batch.grid.rounds.size(); ++round) {
            const bool is_drawn = batch.grid.rounds[round] == Round::stochastic;
            if (kind == SumMethod::machine && round > 0) continue;
            const bool one_by_one = kind == SumMethod::exact || kind == SumMethod::machine;
            if (is_drawn && !one_by_one) {
                for (std::size_t seed = 0; seed < seeds; ++seed) {
                    for (std::int64_t trial = 0; trial < batch.grid.trials; trial += sum_lanes) {
                        const auto count = std::min<std::int64_t>(sum_lanes, batch.grid.trials - trial);
                        groups.push_back({method, round, seed, trial, static_cast<std::size_t>(count), true});
                    }
                }
            } else {
                const std::size_t step = one_by_one ? 1 : sum_lanes;
                for (std::size_t seed = 0; seed < seeds; seed += step) {
                    groups.push_back({method, round, seed, 0, std::min(step, seeds - seed), false});
                }
            }
        }
    }
    return groups;
}

/// Interleaves the columns and returns them as [n, sum_lanes]. Lanes without a column repeat the last column.
std::vector<double> interleaved(const std::vector<const std::vector<double>*>& columns) {
    const std::size_t n = columns.front()->size();
    std::vector<double> out(n * sum_lanes);
    for (std::size_t l = 0; l < sum_lanes; ++l) {
        const std::vector<double>& column = *columns[std::min(l, columns.size() - 1)];
        for (std::size_t i = 0; i < n; ++i) out[i * sum_lanes + l] = column[i];
    }
    return out;
}

LaneKeys keys_of(const SumBatch& batch, const LaneGroup& group) {
    LaneKeys keys{};
    for (std::size_t l = 0; l < sum_lanes; ++l) {
        const std::size_t at = std::min(l, group.count - 1);
        const std::size_t seed = group.is_of_trials ? group.seed : group.seed + at;
        keys[l] = sum_key(static_cast<std::uint64_t>(batch.grid.seeds[seed]),
                          group.is_of_trials ? group.trial + static_cast<std::int64_t>(at) : 0);
    }
    return keys;
}

/// Adds products in the order of their magnitudes. First computes and rounds all products, then sorts them in each
/// lane, and then adds them. The additions use the random words that follow those of the products.
LaneSums sorted_products(LaneArithmetic& arithmetic, const SumTerms& terms, bool descends) {
    const auto n = static_cast<std::size_t>(terms.n);
    std::vector<SumVectors> lanes(sum_lanes);
    const auto pack = [&](const double* from, std::size_t i) {
        LanePack out;
        for (std::size_t l = 0; l < sum_lanes; ++l) out.lane[l] = terms.is_shared ? from[i] : from[i * sum_lanes + l];
        return out;
    };
    for (std::size_t i = 0; i < n; ++i) {
        const LanePack p = arithmetic.mul(pack(terms.x, i), pack(terms.y, i));
        for (std::size_t l = 0; l < sum_lanes; ++l) lanes[l].x.push_back(p.lane[l]);
    }
    std::vector<const std::vector<double>*> columns;
    for (SumVectors& lane : lanes) {
        lane = sorted_terms(lane, descends);
        columns.push_back(&lane.x);
    }
    const std::vector<double> all = interleaved(columns);
    return sum_in_lanes(arithmetic, SumMethod::recursive, 0, {.x = all.data(), .n = terms.n});
}

LaneSums lane_sums(const SumBatch& batch, Simd simd, const LaneGroup& group, const SumTerms& terms, Beyond beyond) {
    const SumChoice& choice = batch.grid.methods[group.method];
    LaneArithmetic arithmetic(simd, batch.format, batch.grid.rounds[group.round], keys_of(batch, group), beyond);
    if (choice.row->sorts && batch.grid.is_dot) return sorted_products(arithmetic, terms, choice.row->descends);
    return sum_in_lanes(arithmetic, choice.row->method, choice.parameter, terms);
}

void run_lanes(SumBatch& batch, Simd simd, const LaneGroup& group) {
    const SumChoice& choice = batch.grid.methods[group.method];
    const Round round = batch.grid.rounds[group.round];
    const bool is_shared = group.is_of_trials || group.count == 1, sorts = choice.row->sorts;
    std::vector<SumVectors> sorted;
    std::vector<const std::vector<double>*> x, y;
    for (std::size_t l = 0; l < (is_shared ? 1 : group.count); ++l) {
        const SumVectors& vectors = batch.seeds[group.seed + l].vectors;
        if (sorts && !batch.grid.is_dot) sorted.push_back(sorted_terms(vectors, choice.row->descends));
        x.push_back(&vectors.x), y.push_back(&vectors.y);
    }
    for (std::size_t l = 0; l < sorted.size(); ++l) x[l] = &sorted[l].x;
    SumTerms terms{.x = x.front()->data(),
                   .y = batch.grid.is_dot ? y.front()->data() : nullptr,
                   .n = batch.n,
                   .is_shared = is_shared};
    std::vector<double> all_x, all_y;
    if (!is_shared) {
        all_x = interleaved(x);
        terms.x = all_x.data();
        if (batch.grid.is_dot) {
            all_y = interleaved(y);
            terms.y = all_y.data();
        }
    }
    // If the format or the mode can hide an overflow, the sum is first computed with Inf as the result of every
    // overflow, because an Inf stays in every later sum. If this sum is finite, no overflow occurred, and the sum is
    // valid. Otherwise it is computed again with the overflow rule of the format.
    const bool is_marked = hides_overflow(batch.format, round);
    LaneSums sums = lane_sums(batch, simd, group, terms, is_marked ? Beyond::infinity : Beyond::as_format);
    std::array<bool, sum_lanes> has_overflowed{};
    for (std::size_t l = 0; l < group.count; ++l) has_overflowed[l] = is_marked && !std::isfinite(sums.value.lane[l]);
    if (std::find(has_overflowed.begin(), has_overflowed.end(), true) != has_overflowed.end()) {
        sums = lane_sums(batch, simd, group, terms, Beyond::as_format);
    }
    for (std::size_t l = 0; l < group.count; ++l) {
        const std::size_t seed = group.is_of_trials ? group.seed : group.seed + l;
        SumBatch::Result& result = batch.result(seed, group.method, group.round);
        const auto trial =
            static_cast<std::size_t>(group.is_of_trials ? group.trial : 0) + (group.is_of_trials ? l : 0);
        result.values[trial] = sums.value.lane[l];
        result.saturated[trial] = has_overflowed[l] && std::isfinite(sums.value.lane[l]) ? 1 : 0;
        // With stochastic rounding, a later term could still have changed the sum.
        const bool is_drawn = batch.grid.rounds[group.round] == Round::stochastic;
        if (choice.row->method == SumMethod::recursive && !is_drawn && trial == 0 && sums.moved[l] < batch.n)
            result.stagnated_at = sums.moved[l];
    }
}

double machine_sum(const SumBatch& batch, const SumChoice& choice, const SumSeed& seed, std::uint64_t key,
                   bool& saturates) {
    if (choice.machine->order) {
        std::vector<double> products;
        for (std::size_t i = 0; i < seed.vectors.x.size(); ++i) {
            products.push_back(seed.vectors.x[i] * (batch.grid.is_dot ? seed.vectors.y[i] : 1));
        }
        return choice.machine->order->sum(products, sum_key(key, 0), 0, &saturates);
    }
    const std::vector<float> x(seed.vectors.x.begin(), seed.vectors.x.end());
    std::vector<float> y(x.size(), 1.0f);
    if (batch.grid.is_dot) y.assign(seed.vectors.y.begin(), seed.vectors.y.end());
    CpuBackend backend(1);
    float out = 0;
    Matmul args{.m = 1, .n = 1, .k = batch.n};
    args.a = {.data = x.data(), .ld = batch.n, .format = batch.format};
    args.b = {.data = y.data(), .ld = 1, .format = batch.format};
    args.out = &out;
    args.ld_out = 1;
    args.rule = choice.machine->rule;
    args.out_cast.format = choice.machine->rule.machine->result;
    backend.matmul(args);
    return double{out};
}

void run_group(SumBatch& batch, Simd simd, const LaneGroup& group) {
    const SumChoice& choice = batch.grid.methods[group.method];
    if (choice.row->method != SumMethod::exact && choice.row->method != SumMethod::machine) {
        run_lanes(batch, simd, group);
        return;
    }
    const SumSeed& seed = batch.seeds[group.seed];
    const auto key = static_cast<std::uint64_t>(batch.grid.seeds[group.seed]);
    SumBatch::Result& result = batch.result(group.seed, group.method, group.round);
    for (std::size_t trial = 0; trial < result.values.size(); ++trial) {
        const RandomBits random{random_bits(sum_key(key, static_cast<std::int64_t>(trial)), 0), 32};
        const Round round = batch.grid.rounds[group.round];
        const bool is_exact = choice.row->method == SumMethod::exact;
        bool saturates = is_exact && seed.sum.saturates(batch.format, round, random);
        result.values[trial] =
            is_exact ? seed.sum.rounded(batch.format, round, random) : machine_sum(batch, choice, seed, key, saturates);
        result.saturated[trial] = saturates ? 1 : 0;
    }
}

void put_bounds(reports::SumRow& row, const SumBatch& batch, const SumChoice& choice, Round round,
                const SumSeed& seed) {
    const bool is_nearest = round == Round::nearest_even || round == Round::nearest_away;
    const double off = is_nearest ? 1 : 2;
    if (choice.row->height != nullptr) {
        const bool rounds_products =
            batch.grid.is_dot && choice.row->method != SumMethod::chain && choice.row->method != SumMethod::exact;
        row.height = choice.row->height(batch.n, choice.parameter) + (rounds_products ? 1 : 0);
        const auto h = static_cast<double>(*row.height), u = batch.format.unit_roundoff() * off;
        // With rounding to nearest or toward zero, the bound of a sum has no second-order term. In other modes, each
        // rounding can increase the magnitude of the sum. In dot products, the roundings of the sums can increase the
        // errors of the rounded products. In these two cases, the bound is (1 + u)^h - 1.
        const bool is_linear =
            !rounds_products && choice.row->method != SumMethod::chain && (is_nearest || round == Round::toward_zero);
        // The bound (1 + u)^h - 1 is useless if h u > 1.
        if (is_linear || h * u <= 1) row.bound_unit = is_linear ? off * h : off * std::expm1(h * std::log1p(u)) / u;
        if (is_nearest || round == Round::stochastic) row.probable_unit = off * batch.grid.lambda * std::sqrt(h);
    } else if (choice.row->bound != nullptr && !(batch.grid.is_dot && choice.row->method != SumMethod::dot2)) {
        row.bound_unit = choice.row->bound({.n = batch.n,
                                            .parameter = choice.parameter,
                                            .unit = batch.format.unit_roundoff(),
                                            .off = off,
                                            .share = seed.magnitudes > 0 ? std::fabs(seed.exact) / seed.magnitudes : 1,
                                            .is_nearest = is_nearest});
    }
    // The bounds do not hold if an overflow gave the largest number of the format.
    if (row.saturated.value_or(0) > 0) {
        row.bound_unit.reset();
        row.probable_unit.reset();
        return;
    }
    // The sum of two numbers of the format cannot underflow, but a product and its rounding error can. Each later
    // rounding increases the error of such an underflow by a factor of at most 1 + u. The method `exact` underflows at
    // most once.
    const bool is_exact = choice.row->method == SumMethod::exact;
    const bool rounds_products = choice.row->height != nullptr && choice.row->method != SumMethod::chain && !is_exact;
    const std::int64_t fine = is_exact ? std::min<std::int64_t>(seed.underflows.fine, 1) : seed.underflows.fine;
    const std::int64_t count = rounds_products ? seed.underflows.below : fine;
    if (!row.bound_unit || count == 0) return;
    const double u = batch.format.unit_roundoff() * off,
                 least = Format::power_of_two(batch.format.emin() - batch.format.precision + 1);
    *row.bound_unit += static_cast<double>(count) * off * (least / 2) *
                       std::exp(static_cast<double>(batch.n) * std::log1p(u)) /
                       (batch.format.unit_roundoff() * seed.magnitudes);
}

reports::SumRow sum_row(SumBatch& batch, std::size_t at_seed, std::size_t at_method, std::size_t at_round) {
    const SumChoice& choice = batch.grid.methods[at_method];
    const SumSeed& seed = batch.seeds[at_seed];
    const Round round = batch.grid.rounds[at_round];
    const SumBatch::Result& result = batch.result(at_seed, at_method, at_round);
    const bool is_machine = choice.row->method == SumMethod::machine;
    const Format held = is_machine ? choice.machine->result() : batch.format;
    reports::SumRow row{.method = choice.name,
                        .format = std::string(format_name(batch.format)),
                        .round = is_machine ? "machine" : std::string(name_of(round)),
                        .data = batch.data.name,
                        .seed = batch.grid.seeds[at_seed],
                        .trials = batch.trials_of(round),
                        .n = batch.n,
                        .value = result.values.front(),
                        .exact = seed.exact,
                        .lambda = batch.grid.lambda,
                        .stagnated_at = result.stagnated_at,
                        .dot = batch.grid.is_dot ? 1 : 0};
    row.result = fmt::format("{:0{}x}", encode64(held, row.value, Round::nearest_even, Overflow::nonsaturate),
                             (held.container_bits() + 3) / 4);
    if (seed.exact != 0) row.cond = (batch.grid.is_dot ? 2 : 1) * seed.magnitudes / std::fabs(seed.exact);
    const double unit = batch.format.unit_roundoff() * seed.magnitudes;
    double squares = 0, total = 0;
    for (const double value : result.values) {
        if (!std::isfinite(value)) {
            ++row.nonfinite;
            continue;
        }
        const double e = seed.sum.error_of(value) / unit;
        squares += e * e;
        total += e;
    }
    // If all trials give the same value, only one was run.
    const auto finite = static_cast<double>(result.values.size() - row.nonfinite);
    if (finite > 0 && unit > 0) {
        row.rms_unit = std::sqrt(squares / finite);
        row.mean_unit = total / finite;
    }
    if (std::isfinite(row.value)) {
        row.abs_error = std::fabs(seed.sum.error_of(row.value));
        if (unit > 0) row.error_unit = *row.abs_error / unit;
    }
    row.saturated = static_cast<std::uint64_t>(std::count(result.saturated.begin(), result.saturated.end(), 1));
    if (!is_machine) put_bounds(row, batch, choice, round, seed);
    return row;
}

void run_batch(ThreadPool& pool, Simd simd, SumBatch& batch, const std::function<void(const reports::SumRow&)>& row) {
    const SumGrid& grid = batch.grid;
    batch.seeds.resize(grid.seeds.size());
    pool.run(static_cast<std::int64_t>(grid.seeds.size()), [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        batch.seeds[at] =
            prepared_seed(batch.data, batch.format, static_cast<std::uint64_t>(grid.seeds[at]), batch.n, grid.is_dot);
    });
    batch.results.resize(grid.seeds.size() * grid.methods.size() * grid.rounds.size());
    for (std::size_t seed = 0; seed < grid.seeds.size(); ++seed) {
        for (std::size_t method = 0; method < grid.methods.size(); ++method) {
            for (std::size_t round = 0; round < grid.rounds.size(); ++round) {
                const bool is_machine = grid.methods[method].row->method == SumMethod::machine;
                const auto trials = static_cast<std::size_t>(is_machine ? 1 : batch.trials_of(grid.rounds[round]));
                SumBatch::Result& result = batch.result(seed, method, round);
                result.values.resize(trials);
                result.saturated.resize(trials);
            }
        }
    }
    const std::vector<LaneGroup> groups = lane_groups(batch);
    pool.run(static_cast<std::int64_t>(groups.size()),
             [&](std::int64_t i) { run_group(batch, simd, groups[static_cast<std::size_t>(i)]); });
    for (std::size_t seed = 0; seed < grid.seeds.size(); ++seed) {
        for (std::size_t method = 0; method < grid.methods.size(); ++method) {
            if (!batch.takes(grid.methods[method])) continue;
            const bool is_machine = grid.methods[method].row->method == SumMethod::machine;
            for (std::size_t round = 0; round < (is_machine ? 1 : grid.rounds.size()); ++round) {
                row(sum_row(batch, seed, method, round));
            }
        }
    }
}

Error sum_error(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

}  // namespace

SumCost cost_of(const SumGrid& grid) {
    SumCost cost;
    for (const SumData& data : grid.data) {
        for (const Format& format : grid.formats) {
            for (const std::int64_t n : grid.sizes) {
                const SumBatch batch{.grid = grid, .data = data, .format = format, .n = n};
                std::size_t rows = 0;
                double sums = 0;
                for (const SumChoice& method : grid.methods) {
                    if (!batch.takes(method)) continue;
                    const bool is_machine = method.row->method == SumMethod::machine;
                    rows += is_machine ? 1 : grid.rounds.size();
                    for (const Round round : grid.rounds) sums += static_cast<double>(batch.trials_of(round));
                }
                cost.rows += rows * grid.seeds.size();
                cost.terms += sums * static_cast<double>(n) * static_cast<double>(grid.seeds.size());
                // Memory for the vectors of every seed, for the interleaved copies of one thread, and for the copy that
                // sumK makes.
                cost.bytes = std::max(cost.bytes, static_cast<double>(n) * 8 *
                                                      (2 * static_cast<double>(grid.seeds.size()) + 3 * sum_lanes));
            }
        }
    }
    return cost;
}

void require_possible(const SumGrid& grid) {
    for (const Format& format : grid.formats) {
        if (!is_rounded_here(format)) {
            throw sum_error(fmt::format("cannot compute in {}", format_name(format)), "--format",
                            "use fp64, or a format with at most 8 exponent bits and a precision of at most 25 bits");
        }
    }
    for (const SumData& data : grid.data) {
        for (const Format& format : grid.formats) {
            if (!is_beyond(data, format)) continue;
            throw sum_error(fmt::format("{} is beyond the largest number of {}", data.value, format_name(format)),
                            "--data", "use a smaller number, or a format with a wider range");
        }
        if (data.kind != SumData::Kind::cancel) continue;
        if (data.c < 0) throw sum_error("cancel needs a value of c", "--data", "use cancel:16, or --sweep c=0..40");
        for (const std::int64_t n : grid.sizes) {
            if (n % 2 != 0)
                throw sum_error(fmt::format("cancel needs an even n, not {}", n), "-n", "use an even n, such as 256");
        }
    }
    for (const SumChoice& method : grid.methods) {
        const auto takes = [&](const Format& format) {
            return SumBatch{.grid = grid, .data = grid.data.front(), .format = format, .n = 1}.takes(method);
        };
        if (std::none_of(grid.formats.begin(), grid.formats.end(), takes)) {
            throw sum_error("this method accepts none of these formats", method.name, "see `macheps machine show`");
        }
    }
}

void run_sums(ThreadPool& pool, Simd simd, const SumGrid& grid, const std::function<void(const reports::SumRow&)>& row,
              const std::function<void(const std::string&)>& progress) {
    const DefaultFloatModes modes;
    for (const SumData& data : grid.data) {
        for (const Format& format : grid.formats) {
            for (const std::int64_t n : grid.sizes) {
                progress(fmt::format("{}, {}, n = {}", data.name, format_name(format), n));
                SumBatch batch{.grid = grid, .data = data, .format = format, .n = n};
                run_batch(pool, simd, batch, row);
            }
        }
    }
}

}  // namespace macheps::study
