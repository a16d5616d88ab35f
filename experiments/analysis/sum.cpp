// SPDX-License-Identifier: Apache-2.0
#include "experiments/analysis/sum.hpp"

#include "core/error.hpp"
#include "core/float_environment.hpp"
#include "core/format_table.hpp"
#include "core/print.hpp"
#include "core/rounding_names.hpp"
#include "emulation/machine/exact_sum.hpp"
#include "experiments/analysis/gallery.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

namespace macheps::analysis {

namespace {

Error sum_usage(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

double nearest(const Format& format, double x) {
    return decode64(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

/// The exact sum as two fp64 numbers: its value rounded once, and what that leaves, rounded once.
struct ExactTotal {
    double high = 0, low = 0, magnitudes = 0;
};

void add_exactly(ExactSum& sum, double x, bool negated = false) {
    const Unpacked u = unpack(x);
    if (u.significand == 0) return;
    const int zeros = std::countr_zero(u.significand);
    sum.add(u.negative != negated, u.significand >> zeros, u.exponent + zeros);
}

double rounded_total(const ExactSum& sum) {
    return decode64(fp64, detail::encode_unpacked(fp64, sum.value(), Round::nearest_even, Overflow::nonsaturate, {}));
}

/// Products of two numbers of up to 25 digits are exact in fp64.
ExactTotal exact_total(const SumOperands& operands) {
    ExactSum sum;
    ExactTotal total;
    double special = 0;
    for (std::size_t i = 0; i < operands.x.size(); ++i) {
        const double term = operands.y.empty() ? operands.x[i] : operands.x[i] * operands.y[i];
        total.magnitudes += std::fabs(term);
        if (std::isfinite(term)) {
            add_exactly(sum, term);
        } else {
            special += term;
        }
    }
    if (special != 0) {
        total.high = special;
        return total;
    }
    total.high = rounded_total(sum);
    add_exactly(sum, total.high, true);
    total.low = rounded_total(sum);
    return total;
}

/// The first term from which on none moved a running sum.
std::optional<std::int64_t> stagnation(SumNumbers in, std::span<const double> x) {
    double s = 0;
    std::size_t moved = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double next = in.add(s, x[i]);
        if (next != s) moved = i + 1;
        s = next;
    }
    if (moved >= x.size()) return std::nullopt;
    return static_cast<std::int64_t>(moved);
}

void add_bounds(SumRow& row, const SumMethod& method, const Format& format, Round round, double lambda, const ExactTotal& exact) {
    const std::int64_t height = method.row->height(row.n, method.number) + (row.dot && method.row->dot == nullptr ? 1 : 0);
    const bool is_nearest = round == Round::nearest_even || round == Round::nearest_away;
    const double units = is_nearest ? 1 : 2, u = format.unit_roundoff();
    if (method.row->height(row.n, method.number) > 0) {
        row.height = height;
        row.bound_unit = units * static_cast<double>(height);
        // Cuts have a mean, which the square root of the height knows nothing of.
        if (is_nearest || round == Round::stochastic) {
            row.probable_unit = units * lambda * std::sqrt(static_cast<double>(height));
        }
    } else if (const bool is_twice = method.row->name == "sum2" || method.row->name == "neumaier" || method.row->name == "dot2";
               is_twice && is_nearest && static_cast<double>(row.n) * u < 1) {
        // u |s| + gamma(n-1)^2 S (Ogita, Rump, Oishi 2005); of products gamma(n).
        const double m = static_cast<double>(row.dot ? row.n : row.n - 1), gamma = m * u / (1 - m * u);
        row.bound_unit = std::fabs(exact.high) / exact.magnitudes + gamma * gamma / u;
    }
}

struct SumCase {
    const SumMethod* method = nullptr;
    Round round{};
};

SumRow sum_row(const SumGrid& grid, const SumCase& each, const Format& format, const SumData& data, std::int64_t seed,
               const SumOperands& operands, const ExactTotal& exact) {
    const DefaultFloatModes modes;
    const bool is_random = each.round == Round::stochastic;
    SumRow row{.method = each.method->text,
               .format = std::string(format_name(format)),
               .data = data.text,
               .seed = seed,
               .trials = is_random ? grid.trials : 1,
               .n = static_cast<std::int64_t>(operands.x.size()),
               .exact = exact.high,
               .lambda = grid.lambda,
               .dot = grid.dot};
    for (const RoundName& name : round_names) {
        if (name.value == each.round) row.round = name.name;
    }
    row.cond = (grid.dot ? 2 : 1) * exact.magnitudes / std::fabs(exact.high);
    const double unit = format.unit_roundoff() * exact.magnitudes;
    const auto numbers = [&](std::int64_t trial) {
        return SumNumbers(format, each.round,
                          {static_cast<std::uint64_t>(seed), static_cast<std::uint32_t>(trial), site_id("sum.round")});
    };
    double squares = 0, sum = 0;
    for (std::int64_t trial = 0; trial < row.trials; ++trial) {
        SumNumbers in = numbers(trial);
        const double value = sum_by(*each.method, in, operands.x, operands.y);
        const bool is_finite = std::isfinite(value);
        const double error = (value - exact.high) - exact.low;
        if (trial == 0) {
            row.value = value;
            const std::uint64_t code = encode64(format, value, Round::nearest_even, Overflow::nonsaturate);
            row.result = hex_code(format, code).substr(2);
            if (is_finite) row.abs_error = std::fabs(error);
            if (is_finite && unit > 0) row.error_unit = std::fabs(error) / unit;
        }
        row.nonfinite += is_finite ? 0 : 1;
        if (!is_finite) continue;
        squares += error * error;
        sum += error;
    }
    if (const std::int64_t finite = row.trials - row.nonfinite; finite > 0 && unit > 0) {
        row.rms_unit = std::sqrt(squares / static_cast<double>(finite)) / unit;
        row.mean_unit = sum / static_cast<double>(finite) / unit;
    }
    add_bounds(row, *each.method, format, each.round, grid.lambda, exact);
    if (each.method->row->name == "recursive" && operands.y.empty()) row.stagnated_at = stagnation(numbers(0), operands.x);
    return row;
}

}  // namespace

SumData parse_sum_data(std::string_view text) {
    SumData data{.text = std::string(text), .drawn = find_distribution(text)};
    if (data.drawn || text == "harmonic") return data;
    constexpr std::string_view word = "cancel:";
    if (text.starts_with(word)) {
        const std::string_view digits = text.substr(word.size());
        const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), data.cancel);
        if (error == std::errc{} && last == digits.data() + digits.size() && data.cancel >= 0 && data.cancel <= 100) return data;
    }
    std::vector<std::string_view> names;
    for (const NamedDistribution& row : all_distributions) names.push_back(row.name);
    throw sum_usage(fmt::format("no data '{}'", text), "--data",
                    fmt::format("one of {}, harmonic, cancel:C with C from 0 to 100", fmt::join(names, ", ")));
}

SumOperands sum_operands(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n, bool dot) {
    const auto size = static_cast<std::size_t>(n);
    SumOperands operands{.x = std::vector<double>(size), .y = std::vector<double>(dot ? size : 0)};
    if (data.cancel >= 0) {
        const std::size_t half = size / 2;
        for (std::size_t i = 0; i < half; ++i) {
            const double u = unit_draw(Operand::a, seed, 0, static_cast<std::int64_t>(i)),
                         w = unit_draw(Operand::b, seed, 0, static_cast<std::int64_t>(i));
            const double x = 0.5 + 0.5 * std::fabs(2 * u - 1);
            operands.x[i] = nearest(format, u < 0.5 ? -x : x);
            operands.y[i] = operands.y[half + i] = nearest(format, 0.5 + 0.5 * w);
            operands.x[half + i] = -operands.x[i];
        }
        const double small = std::ldexp(1.0, -((data.cancel + 1) / 2));
        operands.x[half - 1] = nearest(format, small);
        operands.x[size - 1] = nearest(format, 1.25 * small);
        operands.y[half - 1] = operands.y[size - 1] = nearest(format, std::ldexp(1.0, -(data.cancel / 2)));
        return operands;
    }
    for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const auto drawn = [&](Operand operand) {
            return data.drawn ? double{drawn_element(*data.drawn, operand, seed, 0, i, 1)} : 1 / static_cast<double>(i + 1);
        };
        operands.x[at] = nearest(format, drawn(Operand::a));
        if (dot) operands.y[at] = nearest(format, drawn(Operand::b));
    }
    return operands;
}

void require_possible(const SumGrid& grid) {
    for (const Format& format : grid.formats) {
        if (is_rounded_here(format) && !(format == fp64)) continue;
        throw sum_usage(fmt::format("sums in {} are not made here", format_name(format)), "--format",
                        "take a format with sign, exponent and fraction of up to 25 digits");
    }
    for (const SumMethod& method : grid.methods) {
        if (method.row->dot == nullptr || grid.dot) continue;
        throw sum_usage(fmt::format("{} is of products", method.text), "--method", "add --dot");
    }
    for (const SumData& data : grid.data) {
        if (data.cancel < 0) continue;
        if (!grid.dot) throw sum_usage("cancel is data of products", "--data", "add --dot");
        for (const std::int64_t n : grid.sizes) {
            if (n % 2 != 0) throw sum_usage("cancel wants an even n", "-n", "take one more");
        }
    }
}

void run_sum(ThreadPool& pool, const SumGrid& grid, const std::function<void(const SumRow&)>& row,
             const std::function<void(const std::string&)>& before) {
    const DefaultFloatModes modes;
    std::vector<SumCase> cases;
    for (const Round round : grid.rounds) {
        for (const SumMethod& method : grid.methods) cases.push_back({&method, round});
    }
    for (const SumData& data : grid.data) {
        for (const std::int64_t n : grid.sizes) {
            for (const std::int64_t seed : grid.seeds) {
                for (const Format& format : grid.formats) {
                    if (before) before(fmt::format("{}, n = {}, {}, seed {}", data.text, n, format_name(format), seed));
                    const SumOperands operands = sum_operands(data, format, static_cast<std::uint64_t>(seed), n, grid.dot);
                    const ExactTotal exact = exact_total(operands);
                    std::vector<SumRow> rows(cases.size());
                    pool.run(static_cast<std::int64_t>(cases.size()), [&](std::int64_t i) {
                        rows[static_cast<std::size_t>(i)] =
                            sum_row(grid, cases[static_cast<std::size_t>(i)], format, data, seed, operands, exact);
                    });
                    for (const SumRow& one : rows) row(one);
                }
            }
        }
    }
}

}  // namespace macheps::analysis
