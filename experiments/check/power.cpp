// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power.hpp"

#include "core/codec.hpp"
#include "experiments/check/special_mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr std::int64_t tile = 16;

struct Trial {
    const Limits& limits;
    std::vector<Mutant>& mutants;

    std::int64_t rows() const { return limits.rows; }
    std::int64_t columns() const { return limits.columns; }

    /// `outputs` as a kernel stores them; `exact` before their rounding.
    void add(std::string name, std::string_view kind, Power by, const std::vector<double>& exact,
             const std::vector<double>& outputs) {
        Mutant mutant{.name = std::move(name), .kind = kind, .required_by = by};
        for (std::size_t i = 0; i < exact.size(); ++i) {
            const double change = std::fabs(exact[i] - limits.exact[i]);
            if (change == 0 || std::isnan(change)) continue;
            mutant.largest = std::max(mutant.largest, change / limits.certain[i]);
        }
        mutant.certified = mutant.largest > 2;
        mutant.caught = mutant.certified ||
                        !judge(limits, outputs, {.certain_only = false, .stops_at_first = true}).reasons.empty();
        mutants.push_back(std::move(mutant));
    }
    void add(std::string name, std::string_view kind, const std::vector<double>& exact) {
        std::vector<double> outputs(exact.size());
        std::transform(exact.begin(), exact.end(), outputs.begin(), [&](double x) { return stored(limits, x); });
        add(std::move(name), kind, Power::structure, exact, outputs);
    }
    /// The exact results, with those of one 16x16 tile (the middle one) or a part of them taken from elsewhere.
    template <class From>
    void move(const char* name, std::int64_t row, std::int64_t column, std::int64_t height, std::int64_t width,
              From from) {
        std::vector<double> moved = limits.exact;
        for (std::int64_t r = row; r < row + height; ++r) {
            for (std::int64_t c = column; c < column + width; ++c) {
                const auto [i, j] = from(r, c);
                moved[static_cast<std::size_t>(r * columns() + c)] =
                    limits.exact[static_cast<std::size_t>(i % rows() * columns() + j % columns())];
            }
        }
        add(name, "structure", moved);
    }
};

void add_structure(Trial& t) {
    using Place = std::pair<std::int64_t, std::int64_t>;
    if (t.rows() > 1) {
        std::vector<double> unwritten = t.limits.exact;
        std::fill(unwritten.end() - t.columns(), unwritten.end(), 0.0);
        t.add("last row unwritten", "structure", unwritten);
    }
    if (t.columns() > 1) {
        std::vector<double> unwritten = t.limits.exact;
        for (std::int64_t r = 0; r < t.rows(); ++r) unwritten[static_cast<std::size_t>((r + 1) * t.columns() - 1)] = 0;
        t.add("last column unwritten", "structure", unwritten);
    }
    const std::int64_t height = std::min(tile, t.rows()), width = std::min(tile, t.columns());
    const std::int64_t row = (t.rows() / tile) / 2 * tile, column = (t.columns() / tile) / 2 * tile;
    const std::int64_t r0 = std::min(row, t.rows() - height), c0 = std::min(column, t.columns() - width);
    if (t.columns() > 1)
        t.move("a tile shifted by a column", r0, c0, height, width, [](auto r, auto c) { return Place{r, c + 1}; });
    if (t.columns() > tile)
        t.move("a tile shifted by a tile", r0, c0, height, width, [](auto r, auto c) { return Place{r, c + tile}; });
    if (t.rows() > 1)
        t.move("a tile shifted by a row", r0, c0, height, width, [](auto r, auto c) { return Place{r + 1, c}; });
    const std::int64_t side = std::min(height, width);
    if (side > 1)
        t.move("a tile transposed", r0, c0, side, side, [&](auto r, auto c) {
            return Place{r0 + (c - c0), c0 + (r - r0)};
        });
    if (t.limits.group_rows < t.rows()) {
        const std::int64_t group = t.limits.group_rows;
        t.move("batch 1 holds batch 0", group, 0, group, t.columns(), [&](auto r, auto c) {
            return Place{r - group, c};
        });
    }
}

/// Outputs of a kernel whose only fault is its last rounding.
void add_rounding(Trial& t) {
    if (!t.limits.is_narrow) return;
    const auto rounded = [&](Round mode) {
        std::vector<double> outputs(t.limits.exact.size());
        std::transform(t.limits.exact.begin(), t.limits.exact.end(), outputs.begin(), [&](double x) {
            return decode64(t.limits.format, encode64(t.limits.format, x, mode,
                                                      t.limits.saturates ? Overflow::saturate : Overflow::nonsaturate));
        });
        return outputs;
    };
    for (const auto& [name, mode] :
         {std::pair{"output truncated", Round::toward_zero}, std::pair{"ties away from zero", Round::nearest_away}}) {
        t.add(name, "precision", Power::precision, t.limits.exact, rounded(mode));
    }
}

/// Wrong lists of nodes, as far as the operation has what they lack.
std::vector<std::pair<Mutant, Defect>> defects_of(const Problem& problem) {
    const Declaration& d = problem.declaration;
    const Operation& operation = *d.operation;
    std::vector<std::pair<Mutant, Defect>> all;
    const auto add = [&](std::string name, std::string_view kind, const Defect& defect) {
        all.emplace_back(Mutant{.name = std::move(name), .kind = kind}, defect);
    };
    const std::int64_t terms = problem.products ? problem.products->operands().k : problem.columns;
    if (operation.has_reduction && terms > 1) {
        add("last term dropped", "structure", {.dropped = 1});
        if (terms > 32 && terms % 32 > 1)
            add(fmt::format("last {} terms dropped (K mod 32)", terms % 32), "structure", {.dropped = terms % 32});
    }
    if (d.alpha != 1) add("alpha missing", "scale", {.missing = "alpha"});
    for (const ArrayRole& role : operation.arrays) {
        const auto input = std::find_if(problem.inputs.begin(), problem.inputs.end(),
                                        [&](const Input& i) { return i.name == role.name; });
        if (role.is_required || input == problem.inputs.end()) continue;
        add(fmt::format("{} missing", role.name), "scale", {.missing = role.name});
        if (role.axis != Axis::each && input->values.size() > 1)
            add(fmt::format("{} from the neighbour", role.name), "scale", {.shifted = role.name});
    }
    if (operation.has_eps) add(fmt::format("eps {:g} for {:g}", *d.eps / 10, *d.eps), "operation", {.eps_factor = 0.1});
    if (operation.has_mean && terms > 1) add("mean over n - 1", "operation", {.divisor_less = 1});
    return all;
}

}  // namespace

std::vector<NullOutput> null_outputs(const Problem& problem, const Limits& limits) {
    std::vector<NullOutput> all;
    const std::size_t size = limits.exact.size();
    all.push_back({"zeros", std::vector<double>(size)});
    double total = 0, count = 0;
    for (const double y : limits.exact) {
        if (std::isfinite(y)) total += y, ++count;
    }
    if (size > 1 && count > 0)
        all.push_back({"constant mean", std::vector<double>(size, stored(limits, total / count))});
    for (const Input& input : problem.inputs) {
        if (input.axis == Axis::each && input.values.size() == size)
            all.push_back({fmt::format("copy of {}", input.name), input.values});
    }
    if (limits.rows > tile || limits.columns > tile) {
        std::vector<double> last(size);
        std::transform(limits.exact.begin(), limits.exact.end(), last.begin(),
                       [&](double x) { return stored(limits, x); });
        for (std::int64_t r = (limits.rows - 1) / tile * tile; r < limits.rows; ++r) {
            for (std::int64_t c = (limits.columns - 1) / tile * tile; c < limits.columns; ++c)
                last[static_cast<std::size_t>(r * limits.columns + c)] = 0;
        }
        all.push_back({"last tile of zeros", std::move(last)});
    }
    return all;
}

std::vector<Mutant> run_mutants(const Problem& problem, const Limits& limits, ThreadPool& pool) {
    std::vector<Mutant> mutants;
    Trial trial{limits, mutants};
    for (const NullOutput& output : null_outputs(problem, limits))
        trial.add(output.name, "null", Power::null, output.values, output.values);
    add_structure(trial);
    for (const auto& [mutant, defect] : defects_of(problem))
        trial.add(mutant.name, mutant.kind, mutated(problem, defect, pool));
    add_rounding(trial);
    for_special_mutants(problem, limits, pool, [&](const char* name, const auto& exact, const auto& outputs) {
        if (exact.empty()) {
            mutants.push_back({.name = name, .kind = "specials", .required_by = Power::all});
        } else {
            trial.add(name, "specials", Power::all, exact, outputs);
        }
    });
    return mutants;
}

Sharpness sharpness_of(const Problem& problem, const Limits& limits, const Judgement& judgement, ThreadPool& pool) {
    Sharpness s{.scale_of_all = infinite};
    double squares = 0, count = 0;
    std::int64_t stale = 0;
    for (std::int64_t r = 0; r < limits.rows; ++r) {
        double of_row = infinite;
        for (std::int64_t c = 0; c < limits.columns; ++c) {
            const auto i = static_cast<std::size_t>(r * limits.columns + c);
            const double y = limits.exact[i];
            if (!std::isfinite(y)) continue;
            // A legal kernel's own error may hide as much as a bound.
            if (y != 0) of_row = std::min(of_row, 2 * limits.certain[i] / std::fabs(y));
            if (limits.deviation[i] > 0) {
                squares += y / limits.deviation[i] * (y / limits.deviation[i]);
                ++count;
            }
            const double before = limits.exact[i == 0 ? limits.exact.size() - 1 : i - 1];
            stale += std::fabs(before - y) > 2 * limits.certain[i];
        }
        s.scale_of_all = std::min(s.scale_of_all, of_row);
        s.scale_of_row = std::max(s.scale_of_row, of_row);
    }
    if (count >= 64 && squares > 0) {
        // What these outputs' mean square lacks of the limit; a common factor adds its own square to it.
        const double room = 1 + 6 * std::sqrt(8 / count) - judgement.mean_square;
        if (room > 0) s.scale_of_all = std::min(s.scale_of_all, std::sqrt(room / (squares / count)));
    }
    s.stale_share = static_cast<double>(stale) / static_cast<double>(limits.size());
    const std::int64_t terms = problem.products ? problem.products->operands().k : problem.columns;
    for (std::int64_t dropped = 1; dropped < terms && s.dropped_terms == 0; dropped *= 2) {
        const std::vector<double> exact = mutated(problem, {.dropped = dropped}, pool);
        for (std::size_t i = 0; i < exact.size() && s.dropped_terms == 0; ++i) {
            if (std::fabs(exact[i] - limits.exact[i]) > 2 * limits.certain[i]) s.dropped_terms = dropped;
        }
    }
    return s;
}

}  // namespace macheps::check
