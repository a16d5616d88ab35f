// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/gemm.hpp"

#include "core/codec.hpp"
#include "core/field_error.hpp"
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/overflow.hpp"
#include "experiments/study/product/error_bound.hpp"
#include "experiments/study/product/output_size.hpp"
#include "experiments/study/product/product_errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::study {

namespace {

/// Operands as a machine receives them, with the exact outputs and their sizes.
struct Prepared {
    RoundedOperand a{}, b{};
    float out_scale = 1;
    std::vector<ExactOutput> exact{};
    std::vector<OutputSize> sizes{};
    std::optional<double> operand_sqnr_db{};
};

Prepared prepare(Backend& backend, ThreadPool& pool, const GemmData& data) {
    const auto seed = static_cast<std::uint64_t>(data.seed);
    const std::vector<float> a = drawn_operand(data.distribution, Operand::a, seed, data.m, data.k, data.scale);
    const std::vector<float> b = drawn_operand(data.distribution, Operand::b, seed, data.n, data.k, data.scale);
    Prepared p{.a = rounded_operand(backend, Operand::a, data, a), .b = rounded_operand(backend, Operand::b, data, b)};
    p.out_scale = product_scale(p.a.scale, p.b.scale);
    p.exact = exact_product(p.a.host, p.b.host, data.m, data.n, data.k, pool, {p.a.k_block, p.a.factors, p.b.factors});
    for (ExactOutput& out : p.exact) {
        out.sum = scaled(out.sum, p.out_scale);
        out.magnitudes *= p.out_scale;
    }
    p.sizes = output_sizes(data, p.a, p.b, p.exact, pool);
    if (p.a.host == a && p.b.host == b) return p;
    const std::vector<ExactOutput> drawn = exact_product(a, b, data.m, data.n, data.k, pool);
    double signal = 0, noise = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const double e = (p.exact[i].sum.high - drawn[i].sum.high) + (p.exact[i].sum.low - drawn[i].sum.low);
        signal += drawn[i].sum.high * drawn[i].sum.high;
        noise += e * e;
    }
    p.operand_sqnr_db = decibels(signal, noise);
    return p;
}

/// Outputs of a machine or of an order of summation.
struct Outputs {
    std::vector<float> values{};
    std::vector<unsigned char> saturated{};  ///< 1: the value is finite, although a sum or a cast overflowed
    bool is_judged = true;  ///< false: no bound is certain, because saturation of partial sums cannot be detected

    /// Returns whether output i enters the statistics: it must be finite, and no overflow may be hidden by saturation.
    bool counts(std::size_t i) const { return std::isfinite(values[i]) && saturated[i] == 0; }
};

/// Compares the outputs with their bounds and sets the bounds and counts of the row. The bounds of the row are the
/// maxima over all outputs. Like the errors, they are relative to the magnitudes.
void compare(reports::GemmRow& row, const Outputs& outputs, const Prepared& operands, const ErrorBound& bound,
             double lambda) {
    row.lambda = lambda;
    if (!outputs.is_judged) return;
    const std::vector<float>& out = outputs.values;
    double largest = 0, largest_probable = 0;
    if (row.outputs == row.saturated) {  // all outputs overflowed: report the bounds for operands without subnormals
        const OutputSize one{.magnitudes = 1, .lifted = 1};
        largest = bound.certain(one);
        largest_probable = bound.probable(one, lambda);
    }
    std::uint64_t beyond_bound = 0, beyond_probable = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (!outputs.counts(i)) continue;
        const OutputSize& size = operands.sizes[i];
        const double error = std::fabs(difference(out[i], operands.exact[i].sum)), certain = bound.certain(size),
                     probable = bound.probable(size, lambda);
        beyond_bound += error > certain;
        beyond_probable += error > probable;
        if (size.magnitudes == 0) continue;
        largest = std::max(largest, certain / size.magnitudes);
        largest_probable = std::max(largest_probable, probable / size.magnitudes);
    }
    // No sum of rounded terms has such a large relative error. A larger bound means that no bound is known.
    const auto known = [](double x) { return x > 0x1p20 ? std::nullopt : std::optional(x); };
    row.unit = known(bound.relative() / static_cast<double>(row.k));
    row.bound = known(largest);
    row.probable_bound = known(largest_probable);
    row.beyond_bound = beyond_bound;
    row.beyond_probable = beyond_probable;
}

/// Computes the outputs of an order of summation: sums in its format, a multiplication by the scale, and a rounding to
/// the output format.
Outputs order_outputs(ThreadPool& pool, const SumOrder& order, const GemmData& data, const Prepared& p,
                      const Format& output, std::string_view name) {
    const RngKey stream{static_cast<std::uint64_t>(data.seed), 0, site_id(name)};
    const auto size = static_cast<std::size_t>(data.m * data.n);
    Outputs out{.values = std::vector<float>(size), .saturated = std::vector<unsigned char>(size)};
    const auto k = static_cast<std::size_t>(data.k), n = static_cast<std::size_t>(data.n);
    pool.run(data.m * data.n, [&](std::int64_t element) {
        const auto at = static_cast<std::size_t>(element), i = at / n, j = at % n;
        std::vector<double> products(k);  // exact, because fp32 holds both factors
        for (std::size_t t = 0; t < k; ++t) products[t] = double{p.a.host[i * k + t]} * double{p.b.host[t * n + j]};
        bool saturates = false;
        auto sum = static_cast<float>(order.sum(products, stream, static_cast<std::uint64_t>(element), &saturates));
        if (p.out_scale != 1) sum *= p.out_scale;
        out.values[at] = decode(output, encode(output, sum, Round::nearest_even, Overflow::nonsaturate));
        out.saturated[at] =
            std::isfinite(out.values[at]) && (saturates || overflows(output, unpack(sum), Round::nearest_even)) ? 1 : 0;
    });
    return out;
}

/// Returns the machine's evidence, or `unverified` if no source documents the rule as a whole.
std::string evidence_of(const SpelledRule& spelled, const GemmData& data, const Format& output) {
    if (spelled.order) return std::string(to_string(Evidence::definition));
    const MatmulUse use = use_of(data.formats, data.scaling, output);
    if (!check_matmul_rule(spelled.rule, use, spelled.name, spelled.named).empty()) return "unverified";
    return std::string(to_string(spelled.rule.machine->evidence));
}

std::vector<float> rule_outputs(Backend& backend, const MatmulRule& rule, const GemmData& data,
                                const Prepared& operands, const Format& output) {
    const Tensor result = backend.empty({data.m, data.n});
    Matmul args{.m = data.m, .n = data.n, .k = data.k};
    args.a = {.data = operands.a.tensor.data(), .ld = data.k, .format = data.formats.a, .scales = operands.a.scales};
    args.b = {.data = operands.b.tensor.data(), .ld = data.n, .format = data.formats.b, .scales = operands.b.scales};
    args.out = result.data();
    args.ld_out = data.n;
    args.rule = rule;
    args.out_scale = operands.out_scale;
    args.out_cast.format = output;
    backend.matmul(args);
    std::vector<float> out(operands.exact.size());
    backend.download(result, out);
    return out;
}

Outputs machine_outputs(Backend& backend, const MatmulRule& rule, const GemmData& data, const Prepared& operands,
                        const Format& output) {
    Outputs out{.values = rule_outputs(backend, rule, data, operands, output),
                .saturated = std::vector<unsigned char>(operands.exact.size())};
    if (!hides_overflow(output, Round::nearest_even)) return out;
    // The machine's sums are fp32 and become Inf if they overflow. Only the cast to the output format hides an
    // overflow.
    const bool rounds_slices =
        rule.slices > 1 && (rule.join == SliceJoin::rounded_workspace || rule.join == SliceJoin::serial);
    out.is_judged = !rounds_slices;
    const std::vector<float> before = rule_outputs(backend, rule, data, operands, fp32);
    for (std::size_t i = 0; i < before.size(); ++i) {
        const bool is_infinite = std::isinf(before[i]) && std::isfinite(out.values[i]);
        out.saturated[i] = is_infinite || overflows(output, unpack(before[i]), Round::nearest_even) ? 1 : 0;
    }
    return out;
}

reports::GemmRow product_row(Backend& backend, ThreadPool& pool, const GemmGrid& grid, const GemmData& data,
                             const Prepared& operands, const SpelledRule& spelled) {
    const Format output = grid.output.value_or(spelled.result());
    const Outputs out = spelled.order ? order_outputs(pool, *spelled.order, data, operands, output, spelled.name)
                                      : machine_outputs(backend, spelled.rule, data, operands, output);
    reports::GemmRow row{.machine = spelled.name,
                         .format_a = std::string(format_name(data.formats.a)),
                         .format_b = std::string(format_name(data.formats.b)),
                         .output = std::string(format_name(output)),
                         .distribution = std::string(to_string(data.distribution)),
                         .scaling = std::string(to_string(data.scaling)),
                         .scale = data.scale,
                         .seed = data.seed,
                         .m = data.m,
                         .n = data.n,
                         .k = data.k};
    measure<float>(row, out.values, operands.exact, output, out.saturated);
    // One scale for the whole product needs one multiplication. Scales of rows and columns need two.
    const int factors = data.scaling == OperandScaling::row ? 2 : operands.out_scale != 1 ? 1 : 0;
    const ErrorBound bound = spelled.order ? error_bound(*spelled.order, data.k, output, factors)
                                           : error_bound(spelled.rule, data.k, output, factors);
    compare(row, out, operands, bound, grid.lambda);
    row.operand_sqnr_db = operands.operand_sqnr_db;
    row.evidence = evidence_of(spelled, data, output);
    return row;
}

}  // namespace

bool takes(const SpelledRule& spelled, const FormatPair& formats, OperandScaling scaling) {
    if (!spelled.order) return takes(spelled.rule, formats, scaling);
    const bool is_held = !(formats.a == fp64) && !(formats.b == fp64);
    return is_held && (scaling == OperandScaling::none || scaling == OperandScaling::tensor);
}

std::vector<GemmData> all_data(const GemmGrid& grid) {
    std::vector<GemmData> list;
    for (const FormatPair& formats : grid.formats)
        for (const Distribution distribution : grid.distributions)
            for (const OperandScaling scaling : grid.scalings)
                for (const std::int64_t seed : grid.seeds)
                    for (const double scale : grid.scales)
                        for (const std::int64_t m : grid.m)
                            for (const std::int64_t n : grid.n)
                                for (const std::int64_t k : grid.k)
                                    list.push_back({formats, distribution, scaling, scale, seed, m, n, k});
    return list;
}

void run_gemm(Backend& backend, ThreadPool& pool, const GemmGrid& grid,
              const std::function<void(const reports::GemmRow&)>& row,
              const std::function<void(const GemmProgress&)>& progress) {
    const DefaultFloatModes modes;
    const std::vector<GemmData> list = all_data(grid);
    const auto is_taken = [](const GemmData& data) {
        return [&data](const SpelledRule& machine) { return takes(machine, data.formats, data.scaling); };
    };
    std::size_t rows = 0, done = 0;
    for (const GemmData& data : list) {
        rows += static_cast<std::size_t>(std::count_if(grid.machines.begin(), grid.machines.end(), is_taken(data)));
    }
    if (rows == 0) {
        throw FieldError("formats, scalings", "no machine accepts operands with these formats and scales",
                         "use other `machines`, `formats` or `scalings`");
    }
    for (const GemmData& data : list) {
        std::optional<Prepared> operands;
        for (const SpelledRule& machine : grid.machines) {
            if (!takes(machine, data.formats, data.scaling)) continue;
            if (progress) progress({done, rows, machine.name, data});
            if (!operands) operands = prepare(backend, pool, data);
            row(product_row(backend, pool, grid, data, *operands, machine));
            ++done;
        }
    }
}

}  // namespace macheps::study
