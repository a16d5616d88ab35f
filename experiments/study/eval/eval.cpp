// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/eval/eval.hpp"

#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/rounding_names.hpp"
#include "core/ulp.hpp"
#include "experiments/study/eval/enclosure.hpp"
#include "experiments/study/eval/walk.hpp"
#include "experiments/study/rounder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace macheps::study {

namespace {

/// The inputs of one evaluation and its outcome.
struct Point {
    std::vector<double> inputs{};
    double result = 0;
    std::optional<FormulaReference> reference{};
    bool is_taken = false;         ///< the precondition holds
    bool has_underflowed = false;  ///< see FormatSystem
    double bits = 0;
    std::optional<double> ulps{};
};

InputRange range_of(const EvalGrid& grid, const std::string& input) {
    for (const InputRange& range : grid.ranges) {
        if (range.name == input) return range;
    }
    return {input, -HUGE_VAL, HUGE_VAL};
}

/// Returns the value of a literal or of a negated literal. Returns nothing for any other node.
std::optional<double> literal_value(const Node& node) {
    if (node.kind == Node::Kind::number) return enclosed_literal(node, fp64, Round::nearest_even, {});
    if (node.kind != Node::Kind::call || node.op != Op::neg) return std::nullopt;
    const std::optional<double> value = literal_value(node.children.front());
    return value ? std::optional(-*value) : value;
}

/// Narrows the range of the input in `slot` to the bounds that a precondition states directly, such as
/// (and (<= 1 x 2) (< y 3)). Without this, numbers drawn from the whole format would hardly ever meet a precondition on
/// several inputs.
void narrow_range(const Node& condition, int slot, InputRange& range) {
    if (condition.op == Op::both) {
        for (const Node& child : condition.children) narrow_range(child, slot, range);
        return;
    }
    const bool ascends = condition.op == Op::less || condition.op == Op::less_equal,
               descends = condition.op == Op::greater || condition.op == Op::greater_equal;
    if (!ascends && !descends) return;
    bool has_passed = false;
    for (const Node& child : condition.children) {
        has_passed = has_passed || (child.kind == Node::Kind::variable && child.slot == slot);
    }
    if (!has_passed) return;
    has_passed = false;
    for (const Node& child : condition.children) {
        if (child.kind == Node::Kind::variable && child.slot == slot) has_passed = true;
        const std::optional<double> value = literal_value(child);
        if (!value) continue;
        if (has_passed == ascends) {
            range.greatest = std::min(range.greatest, *value);
        } else {
            range.least = std::max(range.least, *value);
        }
    }
}

/// Returns the range from which an input is drawn: the requested range, narrowed by the precondition if the narrower
/// range still contains a number of the format.
InputRange drawn_range(const EvalGrid& grid, const Expression& expression, const Format& f, std::size_t input) {
    const InputRange asked = range_of(grid, expression.inputs[input]);
    InputRange range = asked;
    if (!expression.precondition.empty()) narrow_range(expression.precondition.front(), static_cast<int>(input), range);
    const double first = decode64(f, encode64(f, range.least, Round::up, Overflow::saturate));
    return first <= range.greatest ? range : asked;
}

/// Codes of one sign with consecutive magnitudes.
struct Run {
    std::uint64_t sign = 0, first = 0, count = 0;
};

/// Returns the finite numbers of a format in a range: first the positive numbers from +0 upwards, then the negative
/// numbers from -0 downwards. A range that consists of a single zero contains only the zero of the same sign.
std::vector<Run> runs_in(const Format& f, const InputRange& range) {
    const double largest = decode64(f, f.max_finite_code() << f.padding);
    const auto magnitude = [&](double x, Round mode) {
        return (encode64(f, std::min(x, largest), mode, Overflow::nonsaturate) >> f.padding) & f.magnitude_mask();
    };
    std::vector<Run> runs;
    const auto add = [&](std::uint64_t sign, double least, double greatest, bool is_zero_left_out) {
        if (greatest < 0 || least > largest) return;
        const std::uint64_t first = std::max<std::uint64_t>(least <= 0 ? 0 : magnitude(least, Round::up),
                                                            is_zero_left_out ? 1 : 0),
                            last = magnitude(greatest, Round::down);
        if (first <= last) runs.push_back({sign, first, last - first + 1});
    };
    const bool is_one_zero = range.is_one() && range.least == 0;
    if (!is_one_zero || !std::signbit(range.least) || !f.has_negative_zero())
        add(0, range.least, range.greatest, false);
    if (f.has_sign() && (!is_one_zero || runs.empty()))
        add(f.sign_bit(), -range.greatest, -range.least, !f.has_negative_zero());
    return runs;
}

std::uint64_t count_of(const std::vector<Run>& runs) {
    std::uint64_t count = 0;
    for (const Run& run : runs) count += run.count;
    return count;
}

double number_at(const Format& f, const std::vector<Run>& runs, std::uint64_t index) {
    for (const Run& run : runs) {
        if (index < run.count) return decode64(f, (run.sign | (run.first + index)) << f.padding);
        index -= run.count;
    }
    return 0;
}

/// Returns all numbers of each input if every combination of them is evaluated, or nothing if inputs are drawn. Every
/// combination is evaluated in three cases: there is only one combination; or no number of points was requested and
/// there are at most `usual_points` combinations; or no number of points was requested, the formula has at most one
/// input, and the format has up to 16 bits.
std::optional<std::vector<std::vector<Run>>> all_inputs(const EvalGrid& grid, const Expression& expression,
                                                        const Format& f) {
    std::vector<std::vector<Run>> out;
    std::uint64_t combinations = 1;
    const bool is_narrow = grid.points == 0 && expression.inputs.size() <= 1 && f.bits <= 16;
    const std::uint64_t most = is_narrow ? std::uint64_t{1} << 16 : grid.points == 0 ? usual_points : 1;
    for (const std::string& input : expression.inputs) {
        out.push_back(runs_in(f, range_of(grid, input)));
        const std::uint64_t count = count_of(out.back());
        if (count > most || combinations * count > most) return std::nullopt;
        combinations *= count;
    }
    return out;
}

/// Returns the format that the formula sets itself, or else the formats of the grid.
std::vector<Format> formats_of(const EvalGrid& grid, const Expression& expression) {
    return expression.own.format ? std::vector{*expression.own.format} : grid.formats;
}

/// Maximum number of attempts to draw inputs for one point that meet the precondition.
constexpr std::uint32_t max_attempts = 1000;

/// Draws an input from a range. All numbers of the format are equally likely (drawn by ordinal), so most drawn numbers
/// are tiny. If the first half of the attempts did not meet the precondition, the later attempts draw from a uniform
/// distribution over the range, provided that the range is bounded.
double drawn_input(const EvalGrid& grid, const Format& f, const InputRange& range, std::uint64_t index,
                   std::uint32_t attempt) {
    const auto ordinal_at = [&](double x, bool is_least) {
        const double largest = decode64(f, f.max_finite_code() << f.padding);
        const std::uint64_t code =
            encode64(f, std::clamp(x, -largest, largest), is_least ? Round::up : Round::down, Overflow::nonsaturate);
        return ordinal(f, code);
    };
    const std::int64_t first = ordinal_at(range.least, true), last = ordinal_at(range.greatest, false);
    const RngKey key{.seed = static_cast<std::uint64_t>(grid.seed), .step = attempt, .site = site_id("eval.points")};
    const std::uint64_t word = std::uint64_t{random_bits(key, 2 * index)} << 32 | random_bits(key, 2 * index + 1);
    if (attempt >= max_attempts / 2 && std::isfinite(range.greatest - range.least)) {
        const double x = range.least + (range.greatest - range.least) * (static_cast<double>(word >> 11) * 0x1p-53);
        return decode64(f, encode64(f, x, Round::nearest_even, Overflow::saturate));
    }
    return decode64(
        f, from_ordinal(f, first + static_cast<std::int64_t>(word % static_cast<std::uint64_t>(last - first + 1))));
}

/// Returns the rounding mode of the references. It is the mode of the formula, or nearest even if that mode is
/// stochastic.
Round reference_mode(const EvalGrid& grid, const Expression& expression) {
    const Round mode = expression.own.round.value_or(grid.round);
    return mode == Round::stochastic ? Round::nearest_even : mode;
}

void evaluate(const EvalGrid& grid, const Expression& expression, const Format& f, std::uint64_t index, Point& point) {
    const RngKey key{.seed = static_cast<std::uint64_t>(grid.seed),
                     .step = static_cast<std::uint32_t>(index),
                     .site = site_id("eval.round")};
    FormatSystem system(f, grid.round, grid.functions, grid.flushes, key);
    if (expression.own.format || expression.own.round) system.enter(expression.own);
    try {
        point.result = Walk(system, expression).value(point.inputs);
        point.has_underflowed = system.has_underflowed();
        if (!system.is_unresolved())
            point.reference = reference_value(expression, f, reference_mode(grid, expression), point.inputs);
    } catch (const EndlessLoop&) {  // steps may be too small to change a sum; other inputs may have a result
        point.reference.reset();
    }
    if (!point.reference || point.reference->is_nan) return;
    const FormulaReference& reference = *point.reference;
    if (point.result != point.result) {
        point.bits = f.bits;
        return;
    }
    const auto code = [&](double x) { return encode64(f, x, Round::nearest_even, Overflow::nonsaturate); };
    point.bits = std::log2(1 + static_cast<double>(code_distance(f, code(point.result), code(reference.rounded))));
    if (!std::isfinite(point.result) || !std::isfinite(reference.rounded) || !std::isfinite(reference.near)) return;
    point.ulps = std::fabs((point.result - reference.near) - reference.rest) / ulp(f, reference.rounded);
}

/// Returns whether the precondition holds in exact arithmetic: its constants are not rounded to the formula's format.
/// Returns false if enclosures cannot decide it.
bool is_accepted(const Expression& expression, const std::vector<double>& inputs) {
    return expression.precondition.empty() || is_precondition_met(expression, inputs).value_or(false);
}

std::vector<Point> points_of(const EvalGrid& grid, const Expression& expression, const Format& f) {
    const auto runs = all_inputs(grid, expression, f);
    if (!runs) return std::vector<Point>(static_cast<std::size_t>(grid.points == 0 ? usual_points : grid.points));
    std::uint64_t count = 1;
    for (const std::vector<Run>& each : *runs) count *= count_of(each);
    std::vector<Point> points(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        std::uint64_t rest = i;
        for (const std::vector<Run>& each : *runs) {
            points[i].inputs.push_back(number_at(f, each, rest % count_of(each)));
            rest /= count_of(each);
        }
    }
    return points;
}

void fill_inputs(const EvalGrid& grid, const Expression& expression, const Format& f, std::uint64_t index,
                 Point& point) {
    if (!point.inputs.empty() || expression.inputs.empty()) {
        point.is_taken = is_accepted(expression, point.inputs);
        return;
    }
    std::vector<InputRange> ranges;
    for (std::size_t i = 0; i < expression.inputs.size(); ++i) ranges.push_back(drawn_range(grid, expression, f, i));
    for (std::uint32_t attempt = 0; attempt < max_attempts && !point.is_taken; ++attempt) {
        point.inputs.clear();
        for (std::size_t i = 0; i < expression.inputs.size(); ++i) {
            const std::uint64_t word = index * expression.inputs.size() + i;
            point.inputs.push_back(drawn_input(grid, f, ranges[i], word, attempt));
        }
        point.is_taken = is_accepted(expression, point.inputs);
    }
}

std::string joined_inputs(const Format& f, const Point& point, bool with_codes) {
    std::string codes, values;
    for (const double x : point.inputs) {
        codes += fmt::format("{}{:0{}x}", codes.empty() ? "" : " ",
                             encode64(f, x, Round::nearest_even, Overflow::nonsaturate), (f.container_bits() + 3) / 4);
        values += fmt::format("{}{}", values.empty() ? "" : " ", x);
    }
    return with_codes && !codes.empty() ? codes + " " + values : values;
}

reports::FormulaRow formula_row(const EvalGrid& grid, const Expression& expression, const Format& f,
                                const std::vector<Point>& points) {
    reports::FormulaRow row{.expression = expression.text,
                            .name = expression.name,
                            .format = std::string(format_name(f)),
                            .round = std::string(name_of(expression.own.round.value_or(grid.round))),
                            .functions = grid.functions == Functions::correct ? "correct" : "macheps",
                            .variables = fmt::format("{}", fmt::join(expression.inputs, " ")),
                            .digits_lost = 0};
    double bits = 0;
    for (const Point& point : points) {
        if (!point.is_taken) continue;
        if (!point.reference) {
            ++row.unresolved;
            continue;
        }
        if (point.reference->is_nan) {
            ++row.skipped;
            continue;
        }
        ++row.inputs;
        bits += point.bits;
        row.not_correct += point.bits > 0;
        if (!row.max_bits || point.bits > *row.max_bits) {
            row.max_bits = point.bits;
            row.worst_x = joined_inputs(f, point, true);
        }
        if (point.ulps) row.max_ulp = std::max(row.max_ulp.value_or(0), *point.ulps);
        const double rounded = point.reference->rounded;
        row.nan += point.result != point.result;
        row.overflow += std::isinf(point.result) && std::isfinite(rounded);
        if (point.result == 0 && rounded != 0) ++(point.has_underflowed ? row.underflow : *row.digits_lost);
    }
    if (row.inputs > 0) row.mean_bits = bits / static_cast<double>(row.inputs);
    return row;
}

void require_own_functions(const Node& node, const Format& f) {
    if (node.kind == Node::Kind::call && !has_own_function(node.op, f)) {
        for (const OpRow& row : op_rows()) {
            if (row.op != node.op) continue;
            throw Error({.what = fmt::format("core/math.hpp does not have {}", row.name),
                         .where = "--functions macheps",
                         .fix = "use exp, log, sin, cos and tanh only, or --functions correct",
                         .exit = Exit::usage});
        }
    }
    for (const Node& child : node.children) require_own_functions(child, f);
}

Error eval_error(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

}  // namespace

void require_possible(const EvalGrid& grid) {
    require_enclosures();
    for (const Expression& expression : grid.expressions) {
        std::vector<Format> all = formats_of(grid, expression);
        for (const RoundingContext& context : expression.contexts) {
            if (context.format) all.push_back(*context.format);
        }
        for (const Format& f : all) {
            if (!is_rounded_here(f)) {
                throw eval_error(
                    fmt::format("cannot compute in {}", format_name(f)), "--format",
                    "use fp64, or a format with at most 8 exponent bits and a precision of at most 25 bits");
            }
            if (grid.functions == Functions::macheps) require_own_functions(expression.body, f);
        }
    }
    for (const InputRange& range : grid.ranges) {
        if (!(range.least <= range.greatest)) {
            throw eval_error(fmt::format("the range from {} to {} is empty", range.least, range.greatest),
                             "--" + range.name, "write the smaller number first, such as -20:20");
        }
        std::vector<Format> formats;
        for (const Expression& expression : grid.expressions) {
            if (std::find(expression.inputs.begin(), expression.inputs.end(), range.name) == expression.inputs.end())
                continue;
            const std::vector<Format> more = formats_of(grid, expression);
            formats.insert(formats.end(), more.begin(), more.end());
        }
        if (formats.empty()) {
            throw eval_error(fmt::format("no formula has an input '{}'", range.name), "--" + range.name,
                             "use the name of an input of the expression");
        }
        for (const Format& f : formats) {
            const double largest = decode64(f, f.max_finite_code() << f.padding);
            const double first =
                decode64(f, encode64(f, std::clamp(range.least, -largest, largest), Round::up, Overflow::nonsaturate));
            if (range.least <= largest && range.greatest >= -largest && first <= range.greatest) continue;
            if (range.is_one()) {
                const double near = decode64(f, encode64(f, range.least, Round::nearest_even, Overflow::saturate));
                throw eval_error(fmt::format("{} cannot be represented in {}", range.least, format_name(f)),
                                 "--" + range.name, fmt::format("use the nearest number, {}", near));
            }
            throw eval_error(fmt::format("{} has no number from {} to {}", format_name(f), range.least, range.greatest),
                             "--" + range.name, "use a wider range");
        }
    }
}

void run_eval(ThreadPool& pool, const EvalGrid& grid, const std::function<void(const reports::FormulaRow&)>& row,
              const std::function<void(const reports::FormulaPointRow&)>& point,
              const std::function<void(const std::string&)>& progress) {
    const DefaultFloatModes modes;
    for (const Expression& expression : grid.expressions) {
        for (const Format& f : formats_of(grid, expression)) {
            progress(
                fmt::format("{} in {}", expression.name.empty() ? expression.text : expression.name, format_name(f)));
            std::vector<Point> points = points_of(grid, expression, f);
            constexpr std::size_t at_once = 64;
            pool.run(static_cast<std::int64_t>((points.size() + at_once - 1) / at_once), [&](std::int64_t task) {
                const DefaultFloatModes thread_modes;
                const std::size_t first = static_cast<std::size_t>(task) * at_once;
                for (std::size_t i = first; i < std::min(first + at_once, points.size()); ++i) {
                    fill_inputs(grid, expression, f, i, points[i]);
                    if (points[i].is_taken) evaluate(grid, expression, f, i, points[i]);
                }
                free_enclosure_memory();
            });
            row(formula_row(grid, expression, f, points));
            if (!point) continue;
            for (const Point& each : points) {
                if (!each.is_taken || !each.reference || each.reference->is_nan) continue;
                point({.x = joined_inputs(f, each, false),
                       .result = each.result,
                       .reference = each.reference->rounded,
                       .ulp = each.ulps,
                       .bits = each.bits,
                       .expression = expression.text,
                       .format = std::string(format_name(f))});
            }
        }
    }
}

}  // namespace macheps::study
