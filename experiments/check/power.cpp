// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power.hpp"

#include "core/codec.hpp"
#include "experiments/check/power_products.hpp"
#include "experiments/check/special_mutants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

constexpr std::int64_t tile = 16;

struct Trial {
    const Limits& limits;
    std::vector<Mutant>& mutants;
    bool claims_bits = false;  ///< then a changed code is noticed

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
        mutant.caught = mutant.certified || changes_code(exact, outputs) ||
                        !judge(limits, outputs, {.certain_only = false, .stops_at_first = true}).reasons.empty();
        mutants.push_back(std::move(mutant));
    }
    bool is_certified(const std::vector<double>& exact) const {
        for (std::size_t i = 0; i < exact.size(); ++i) {
            if (std::fabs(exact[i] - limits.exact[i]) > 2 * limits.certain[i]) return true;
        }
        return false;
    }
    void add(std::string name, std::string_view kind, const std::vector<double>& exact, Power by = Power::structure) {
        // What an element's bound refuses whatever is stored need not be stored.
        std::vector<double> outputs(is_certified(exact) ? 0 : exact.size());
        std::transform(exact.begin(), exact.begin() + static_cast<std::ptrdiff_t>(outputs.size()), outputs.begin(),
                       [&](double x) { return stored(limits, x); });
        add(std::move(name), kind, kind == "precision" ? Power::precision : by, exact, outputs);
    }
    /// True where the kernel without this fault would have stored another code, and that is claimed.
    bool changes_code(const std::vector<double>& exact, const std::vector<double>& outputs) const {
        if (!claims_bits) return false;
        for (std::size_t i = 0; i < exact.size(); ++i) {
            if (exact[i] != limits.exact[i] && outputs[i] != stored(limits, limits.exact[i])) return true;
        }
        return false;
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
    // The first group that has rows behind another that has some.
    const std::vector<std::int64_t> starts = group_starts_of(t.limits);
    std::int64_t before = -1;
    for (std::size_t group = 0; group + 1 < starts.size(); ++group) {
        const std::int64_t rows = starts[group + 1] - starts[group];
        if (rows == 0) continue;
        if (before >= 0) {
            t.move("a group holds the one before it", starts[group], 0, rows, t.columns(), [&](auto r, auto c) {
                return Place{before + (r - starts[group]), c};
            });
            break;
        }
        before = starts[group];
    }
}

/// Outputs of a kernel whose only fault is its last rounding: of the exact results, or of the claimed machine's.
void add_rounding(Trial& t, const MachineOutputs* bits) {
    if (!t.limits.is_narrow) return;
    const Overflow overflow = t.limits.saturates ? Overflow::saturate : Overflow::nonsaturate;
    const auto add = [&](const char* name, auto round) {
        std::vector<double> outputs(t.limits.exact.size());
        bool is_other = false;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            outputs[i] = round(bits == nullptr ? t.limits.exact[i] : static_cast<double>(bits->before[i]));
            is_other = is_other || (bits != nullptr && outputs[i] != bits->outputs[i] && outputs[i] == outputs[i]);
        }
        t.add(name, "precision", Power::precision, t.limits.exact, outputs);
        t.mutants.back().caught = t.mutants.back().caught || is_other;
    };
    const auto to = [&](const Format& format, double x, Round mode) {
        return decode64(format, encode64(format, x, mode, overflow));
    };
    add("output truncated", [&](double x) { return to(t.limits.format, x, Round::toward_zero); });
    add("ties away from zero", [&](double x) { return to(t.limits.format, x, Round::nearest_away); });
    // Through the other 16-bit format, or one that is wider than the output's.
    if (t.limits.format == fp16) return;
    add("rounded twice, by way of fp16", [&](double x) {
        return to(t.limits.format, decode64(fp16, encode64(fp16, x, Round::nearest_even, Overflow::nonsaturate)),
                  Round::nearest_even);
    });
}

/// One number for all of a times one number for all of b is the same either way.
bool has_two_scales(const Problem& problem) {
    int arrays = 0, many = 0;
    for (const Input& input : problem.inputs) {
        if (input.name != "a_scale" && input.name != "b_scale") continue;
        ++arrays;
        many += input.values.size() > 1 ? 1 : 0;
    }
    return arrays == 2 && many > 0;
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
    if (operation.has_eps) add(fmt::format("eps {:g} for {:g}", *d.eps / 10, *d.eps), "operation", {.eps_factor = 0.1});
    if (operation.has_mean && terms > 1) add("mean over n - 1", "operation", {.divisor_less = 1});
    for (const MutantRow& row : operation.mutants) {
        const auto shifted = std::find_if(problem.inputs.begin(), problem.inputs.end(),
                                          [&](const Input& i) { return i.name == row.defect.shifted; });
        if (shifted != problem.inputs.end() && shifted->values.size() == 1) continue;  // it has no neighbour
        if (row.applies == nullptr || row.applies(d)) add(row.name, row.kind, row.defect);
    }
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
        // What is only cast may be right as it came.
        if (input.axis == Axis::each && input.values.size() == size && !problem.declaration.operation->is_bitwise)
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

std::vector<Mutant> run_mutants(const Problem& problem, const Limits& limits, const MachineOutputs* bits,
                                ThreadPool& pool) {
    std::vector<Mutant> mutants;
    Trial trial{limits, mutants, bits != nullptr};
    for (const NullOutput& output : null_outputs(problem, limits))
        trial.add(output.name, "null", Power::null, output.values, output.values);
    add_structure(trial);
    for (const auto& [mutant, defect] : defects_of(problem))
        trial.add(mutant.name, mutant.kind, mutated(problem, defect, pool));
    if (problem.products != nullptr) {
        if (const std::vector<double> other = with_other_b(problem, limits, pool); !other.empty())
            trial.add("a group with the b of the one before it", "structure", other);
        const Limits part = first_rows(limits, simulated_rows(problem));
        Trial first{part, mutants, bits != nullptr};
        for (const WrongProduct& wrong : wrong_products(problem, pool)) {
            first.add(wrong.name, wrong.kind, wrong.exact, wrong.required_by);
            mutants.back().certified = mutants.back().certified && !wrong.is_simulated;
        }
    }
    add_rounding(trial, bits);
    for_special_mutants(problem, limits, pool, [&](const char* name, const auto& exact, const auto& outputs) {
        if (exact.empty()) {
            mutants.push_back({.name = name, .kind = "specials", .required_by = Power::all});
        } else {
            trial.add(name, "specials", Power::all, exact, outputs);
        }
    });
    return mutants;
}

}  // namespace macheps::check
