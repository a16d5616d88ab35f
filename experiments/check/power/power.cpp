// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/power.hpp"

#include "core/codec.hpp"
#include "core/rounding_names.hpp"
#include "experiments/check/bounds/shortcuts.hpp"
#include "experiments/check/judge/grid.hpp"
#include "experiments/check/power/extreme_starts.hpp"
#include "experiments/check/power/power_products.hpp"
#include "experiments/check/power/special_mutants.hpp"
#include "experiments/check/power/trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace macheps::check {

namespace {

/// Copies the correct results of a range of outputs to `exact`.
void copy_right(const Limits& limits, const OutputRange& range, std::span<double> exact) {
    std::copy_n(limits.exact.begin() + range.first, range.size(), exact.begin());
}

/// Adds a wrong kernel whose outputs are correct except in one rectangle, such as the middle tile. In the rectangle,
/// output (r, c) gets the correct result of another output, whose row and column from(r, c) returns.
template <class From>
void add_moved(Trial& t, const char* name, std::int64_t row, std::int64_t column, std::int64_t height,
               std::int64_t width, From from) {
    const Limits& limits = t.limits();
    t.add({.name = name,
           .kind = "structure",
           .results =
               [&, from](const OutputRange& range, std::span<double> exact) {
                   copy_right(limits, range, exact);
                   for (std::int64_t r = row; r < row + height; ++r) {
                       for (std::int64_t c = column; c < column + width; ++c) {
                           const std::int64_t to = r * t.columns() + c;
                           if (to < range.first || to >= range.last) continue;
                           const auto [i, j] = from(r, c);
                           exact[static_cast<std::size_t>(to - range.first)] =
                               limits.exact[static_cast<std::size_t>(i % t.rows() * t.columns() + j % t.columns())];
                       }
                   }
               },
           .changes = {row * t.columns() + column, (row + height - 1) * t.columns() + column + width}});
}

void add_unwritten(Trial& t) {
    const Limits& limits = t.limits();
    const std::int64_t columns = t.columns(), last = limits.size() - columns;
    if (t.rows() > 1)
        t.add({.name = "last row unwritten",
               .kind = "structure",
               .results =
                   [&, last](const OutputRange& range, std::span<double> exact) {
                       copy_right(limits, range, exact);
                       if (range.last > last)
                           std::fill(exact.begin() + std::max<std::int64_t>(last - range.first, 0), exact.end(), 0.0);
                   },
               .changes = {last, limits.size()}});
    if (columns > 1)
        t.add({.name = "last column unwritten",
               .kind = "structure",
               .results = [&, columns](const OutputRange& range, std::span<double> exact) {
                   copy_right(limits, range, exact);
                   for (std::size_t j = 0; j < exact.size(); ++j) {
                       if ((range.first + static_cast<std::int64_t>(j) + 1) % columns == 0) exact[j] = 0;
                   }
               }});
}

void add_structure(Trial& t) {
    using Place = std::pair<std::int64_t, std::int64_t>;
    const std::int64_t tile = t.limits().tile();
    add_unwritten(t);
    const std::int64_t height = std::min(tile, t.rows()), width = std::min(tile, t.columns());
    const std::int64_t row = (t.rows() / tile) / 2 * tile, column = (t.columns() / tile) / 2 * tile;
    const std::int64_t r0 = std::min(row, t.rows() - height), c0 = std::min(column, t.columns() - width);
    if (t.columns() > 1)
        add_moved(t, "a tile shifted by a column", r0, c0, height, width, [](auto r, auto c) {
            return Place{r, c + 1};
        });
    if (t.columns() > tile)
        add_moved(t, "a tile shifted by a tile", r0, c0, height, width, [tile](auto r, auto c) {
            return Place{r, c + tile};
        });
    if (t.rows() > 1)
        add_moved(t, "a tile shifted by a row", r0, c0, height, width, [](auto r, auto c) { return Place{r + 1, c}; });
    const std::int64_t side = std::min(height, width);
    if (side > 1)
        add_moved(t, "a tile transposed", r0, c0, side, side, [&](auto r, auto c) {
            return Place{r0 + (c - c0), c0 + (r - r0)};
        });
    // Find the first group that is not empty and follows another group that is not empty.
    const std::vector<std::int64_t> starts = group_starts_of(t.limits());
    const auto parts = static_cast<std::size_t>(t.limits().sample ? t.limits().sample->every() : 1);
    std::int64_t before = -1;
    for (std::size_t group = 0; group + parts < starts.size(); group += parts) {
        const std::int64_t first = starts[group], rows = starts[group + 1] - first;
        if (rows == 0) continue;
        if (before >= 0) {
            add_moved(t, "a group holds the one before it", first, 0, rows, t.columns(), [&](auto r, auto c) {
                return Place{before + (r - first), c};
            });
            break;
        }
        before = first;
    }
}

/// Adds wrong kernels whose only fault is the final rounding. They round the exact results or, if the kernel claims
/// bits, the results of the claimed machine.
void add_rounding(Trial& t, const MachineOutputs* bits) {
    const Limits& limits = t.limits();
    if (!limits.is_narrow) return;
    const Overflow overflow = limits.saturates ? Overflow::saturate : Overflow::nonsaturate;
    const auto add = [&](const char* name, auto round) {
        t.add({.name = name,
               .kind = "precision",
               .required_by = Power::precision,
               .results = [&](const OutputRange& range, std::span<double> exact) { copy_right(limits, range, exact); },
               .store =
                   [&limits, bits, round](std::size_t i, double) {
                       return round(bits == nullptr ? limits.exact[i] : static_cast<double>(bits->before[i]));
                   },
               .has_other_bits = true});
    };
    const NearestNormal nearest(limits.format), through(fp16);
    const auto to = [&](double x, Round mode) {
        return decode64(limits.format, encode64(limits.format, x, mode, overflow));
    };
    // If the declared rounding is not to nearest even, the limits allow an error of one ulp in each output. Truncation
    // is then the only wrong rounding that the tests can refuse, because of its mean error.
    const bool is_nearest = limits.rounding == Round::nearest_even;
    for (const auto& [mode, name] : {std::pair{Round::toward_zero, "output truncated"},
                                     {Round::nearest_away, "ties away from zero"},
                                     {Round::up, "output rounded up"},
                                     {Round::down, "output rounded down"},
                                     {Round::to_odd, "output rounded to odd"},
                                     {Round::stochastic, "output rounded by chance"}}) {
        if (mode == limits.rounding || (!is_nearest && mode != Round::toward_zero)) continue;
        add(name, [&, mode = mode](double x) {
            double y = 0;
            if (mode == Round::nearest_away && !nearest.is_tie(x) && nearest.round(x, y)) return y;
            // For stochastic rounding, the top bit of a hash of x decides instead of random bits, so that the result is
            // the same on every machine.
            const bool is_up = (bit_cast<std::uint64_t>(x) * 0x9e3779b97f4a7c15u) >> 63 != 0;
            return to(x, mode != Round::stochastic ? mode : is_up ? Round::up : Round::down);
        });
    }
    // Rounds twice, first to fp16. fp16 is wider than the output's format, except that bf16 also has 16 bits.
    if (!is_nearest || limits.format == fp16) return;
    add("rounded twice, by way of fp16", [&](double x) {
        double half = 0, y = 0;
        if (!through.round(x, half))
            half = decode64(fp16, encode64(fp16, x, Round::nearest_even, Overflow::nonsaturate));
        return nearest.round(half, y) ? y : to(half, Round::nearest_even);
    });
}

/// Returns true if a and b both have scales, and if exchanging the two arrays of scales would change a product. If each
/// array has a single scale, the product does not change.
bool has_two_scales(const Problem& problem) {
    int arrays = 0, many = 0;
    for (const Input& input : problem.inputs) {
        if (input.name != "a_scale" && input.name != "b_scale") continue;
        ++arrays;
        many += input.values.size() > 1 ? 1 : 0;
    }
    return arrays == 2 && many > 0;
}

void keep_specials(const Limits& limits, const OutputRange& range, std::span<double> exact) {
    for (std::size_t j = 0; j < exact.size(); ++j) {
        const double right = limits.exact[static_cast<std::size_t>(range.first) + j];
        if (!std::isfinite(right)) exact[j] = right;
    }
}

/// Returns true if the defect would read the neighbour of an element or row in an array that has only one element or
/// row.
bool has_no_neighbour(const Problem& problem, const Defect& defect) {
    return std::any_of(problem.inputs.begin(), problem.inputs.end(), [&](const Input& input) {
        const bool has_one_row =
            !input.rows.empty() && static_cast<std::int64_t>(input.values.size()) <= problem.columns;
        return (input.name == defect.shifted && input.values.size() == 1) || (input.name == defect.next && has_one_row);
    });
}

}  // namespace

std::vector<WrongList> wrong_lists(const Problem& problem) {
    const Declaration& d = problem.declaration;
    const Operation& operation = *d.operation;
    std::vector<WrongList> all;
    const auto add = [&](std::string name, std::string_view kind, const Defect& defect) {
        all.push_back({std::move(name), kind, defect});
    };
    const std::int64_t terms = problem.products ? problem.products->operands().k : problem.columns;
    if (operation.has_reduction && terms > 1) {
        add("last term dropped", "structure", {.dropped = 1});
        std::int64_t before = 1;
        for (const std::int64_t width : {8, 16, 32, 64, 128}) {
            const std::int64_t tail = terms % width;
            if (terms <= width || tail <= before) continue;
            add(fmt::format("last {} terms dropped (K mod {})", tail, width), "structure", {.dropped = tail});
            before = tail;
        }
    }
    if (d.activation != "none") add(d.activation + " missing", "operation", {.missing = "activation"});
    if (d.beta != 1) add("beta missing", "scale", {.missing = "beta"});
    if (has_two_scales(problem)) add("scales of a and b exchanged", "scale", {.exchanges_scales = true});
    if (d.alpha != 1) add("alpha missing", "scale", {.missing = "alpha"});
    for (const ArrayRole& role : operation.arrays) {
        const auto input = std::find_if(problem.inputs.begin(), problem.inputs.end(),
                                        [&](const Input& i) { return i.name == role.name; });
        const bool is_factor = operation.layout == Layout::product || operation.layout == Layout::rows;
        if (!is_factor || role.is_required || input == problem.inputs.end()) continue;
        add(fmt::format("{} missing", role.name), "scale", {.missing = role.name});
        if (role.axis != Axis::each && input->values.size() > 1)
            add(fmt::format("{} from the neighbour", role.name), "scale", {.shifted = role.name});
    }
    if (operation.has_eps && *d.eps > 0)
        add(fmt::format("eps {:g} for {:g}", *d.eps / 10, *d.eps), "operation", {.eps_factor = 0.1});
    if (operation.has_mean && terms > 1) add("mean over n - 1", "operation", {.divisor_less = 1});
    for (const MutantRow& row : operation.mutants) {
        if (has_no_neighbour(problem, row.defect)) continue;
        if (row.applies == nullptr || row.applies(d)) add(row.name, row.kind, row.defect);
    }
    for (const MutantRow& row : extreme_starts(d)) add(row.name, row.kind, row.defect);
    for (const ShortcutRow& row : shortcuts()) {
        if (row.applies(problem, row.defect)) all.push_back({row.mutant, "precision", row.defect, true});
    }
    return all;
}

std::vector<NullOutput> null_outputs(const Problem& problem, const Limits& limits, ThreadPool& pool) {
    std::vector<NullOutput> all;
    const std::size_t size = limits.exact.size();
    all.push_back({"zeros", [](std::size_t) { return 0.0; }});
    double total = 0, count = 0;
    in_parts(
        limits.size(), pool,
        [&](std::size_t first, std::size_t last) {
            std::pair<double, double> part{};
            for (std::size_t i = first; i < last; ++i) {
                if (std::isfinite(limits.exact[i])) part.first += limits.exact[i], ++part.second;
            }
            return part;
        },
        [&](const std::pair<double, double>& part) {
            total += part.first;
            count += part.second;
        });
    if (size > 1 && count > 0)
        all.push_back({"constant mean", [mean = stored(limits, total / count)](std::size_t) { return mean; }});
    for (const Input& input : problem.inputs) {
        // A cast, or an operation on rows of one element, may return its input unchanged.
        const bool may_be_right =
            problem.declaration.operation->is_bitwise || (problem.is_one_per_row() && problem.columns == 1);
        if (input.axis == Axis::each && input.values.size() == size && !may_be_right)
            all.push_back({fmt::format("copy of {}", input.name), [&](std::size_t i) { return input.values[i]; }});
    }
    const std::int64_t tile = limits.tile();
    if (limits.rows > tile || limits.columns > tile) {
        const auto columns = static_cast<std::size_t>(limits.columns);
        const std::size_t row = static_cast<std::size_t>(limits.rows - 1) / tile * tile,
                          column = (columns - 1) / tile * tile;
        all.push_back({"last tile of zeros",
                       [&limits, columns, row, column, stored = Storing(limits)](std::size_t i) {
                           return i / columns >= row && i % columns >= column ? 0 : stored(limits.exact[i]);
                       },
                       {static_cast<std::int64_t>(row * columns), limits.size()}});
    }
    return all;
}

std::vector<double> values_of(const NullOutput& output, const Limits& limits) {
    std::vector<double> values(limits.exact.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = output.value(i);
    return values;
}

namespace {

void add_null_outputs(Trial& trial, const Problem& problem) {
    for (const NullOutput& output : null_outputs(problem, trial.limits(), trial.pool())) {
        trial.add({.name = output.name,
                   .kind = "null",
                   .required_by = Power::null,
                   .results =
                       [&](const OutputRange& range, std::span<double> exact) {
                           for (std::size_t j = 0; j < exact.size(); ++j)
                               exact[j] = output.value(static_cast<std::size_t>(range.first) + j);
                       },
                   .store = [](std::size_t, double exact) { return exact; },
                   .changes = output.changes});
    }
}

}  // namespace

std::vector<Mutant> run_mutants(const Problem& problem, const Limits& limits, const MachineOutputs* bits,
                                ThreadPool& pool, Premise* premise) {
    std::vector<Mutant> mutants;
    Premise own(problem, limits);
    if (premise == nullptr) premise = &own;
    Trial trial(limits, growing_parts(problem), bits, pool, mutants, premise);
    add_null_outputs(trial, problem);
    add_structure(trial);
    for (const WrongList& wrong : wrong_lists(problem)) {
        if (wrong.defect.start && !has_row_beyond(problem, *wrong.defect.start)) {
            trial.add_unseen(wrong.name, wrong.kind, Power::all);
            continue;
        }
        const Mutated mutated(problem, wrong.defect);
        trial.add({.name = wrong.name,
                   .kind = wrong.kind,
                   .required_by = wrong.kind == "precision" ? Power::precision
                                  : wrong.kind == "range"   ? Power::all
                                                            : Power::structure,
                   .results =
                       [&](const OutputRange& range, std::span<double> exact) {
                           mutated.results(range, exact, pool);
                           if (wrong.is_shortcut) keep_specials(limits, range, exact);
                       },
                   .parts = wrong.is_shortcut ? std::size_t{2} : 0});
    }
    if (problem.products != nullptr) {
        add_other_b(trial, problem);
        const Limits part = first_rows(limits, simulated_rows(problem));
        Premise of_part(problem, part);
        Trial first(part, {{0, part.size()}}, bits, pool, mutants, &of_part);
        for (const WrongProduct& wrong : wrong_products(problem, pool))
            first.add(wrong.name, wrong.kind, wrong.required_by, wrong.exact, wrong.is_simulated);
    }
    add_rounding(trial, bits);
    add_special_mutants(trial, problem);
    return mutants;
}

InputPower power_of(const Problem& problem, const Limits& limits, const MachineOutputs* bits, ThreadPool& pool,
                    Premise* premise) {
    return {.fitness = fitness_of(problem, limits), .mutants = run_mutants(problem, limits, bits, pool, premise)};
}

std::string line_name(std::string_view name) {
    constexpr std::string_view begin = "last ", end = " terms dropped";
    if (!name.starts_with(begin)) return std::string(name);
    const std::string_view count = name.substr(begin.size(), std::min(name.find(end), name.size()) - begin.size());
    const bool is_count = !count.empty() && count.find_first_not_of("0123456789") == std::string_view::npos;
    return is_count ? std::string("last") + std::string(name.substr(begin.size() + count.size())) : std::string(name);
}

bool Weakness::has(std::string_view mutant) const {
    return std::find(missed.begin(), missed.end(), line_name(mutant)) != missed.end();
}

Weakness weakness_of(std::span<const InputPower* const> inputs, Power require) {
    Weakness weakness;
    std::set<std::string> caught;
    double counted = 0, lost = 0;
    for (const InputPower* input : inputs) {
        counted += input->fitness.counted;
        lost += input->fitness.lost_share * input->fitness.counted;
        for (const Mutant& mutant : input->mutants) {
            if (mutant.caught) caught.insert(line_name(mutant.name));
        }
    }
    weakness.is_unguaranteed = lost > 0.5 * counted;
    for (const InputPower* input : inputs) {
        for (const Mutant& mutant : input->mutants) {
            if (mutant.required_by > require || caught.contains(line_name(mutant.name)) || weakness.has(mutant.name))
                continue;
            weakness.missed.push_back(line_name(mutant.name));
        }
    }
    return weakness;
}

}  // namespace macheps::check
