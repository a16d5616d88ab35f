// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/alternatives.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/bounds/fitness.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/declare/listings.hpp"
#include "experiments/check/declare/operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace macheps::check {

namespace {

/// A key of a declaration, and the values to try for it. An empty value removes the key.
struct Candidate {
    std::string_view key;
    std::vector<std::string> (*values)(const Declaration& d);
    void (*unset)(Declaration& d) = nullptr;
};

bool is_plain_product(const Declaration& d) { return d.operation->is_product && !d.machine && !d.bits; }

/// Declarations that people often forget.
const Candidate forgotten[] = {
    {"inner",
     [](const Declaration& d) {
         return d.operation->has_inner && !d.inner ? std::vector<std::string>{"bf16", "fp16"}
                                                   : std::vector<std::string>{};
     }},
    {"form",
     [](const Declaration& d) {
         std::vector<std::string> names;
         const std::span<const Form> forms = listing::forms_of(d);
         for (std::size_t i = 1; d.form.empty() && i < forms.size(); ++i) names.emplace_back(forms[i].name);
         return names;
     }},
    {"variance",
     [](const Declaration& d) {
         const bool is_open = d.operation->has_variance && !d.has_one_pass_variance && !d.has_running_variance;
         return is_open ? std::vector<std::string>{"welford", "one_pass"} : std::vector<std::string>{};
     }},
    {"scaling",
     [](const Declaration& d) {
         const bool is_open = d.operation->layout == Layout::quantised && d.granularity != "none";
         return is_open ? std::vector<std::string>{d.divides ? "multiply" : "divide"} : std::vector<std::string>{};
     }},
    {"operands",
     [](const Declaration& d) {
         std::vector<std::string> names;
         for (const OperandConversion& row : operand_conversions) {
             if (d.operation->is_product && d.operands == "stored" && row.rounding) names.emplace_back(row.name);
         }
         return names;
     }},
    {"machine",
     [](const Declaration& d) {
         return d.operation->is_product && machine_name_of(d) == "sliced" ? std::vector<std::string>{"any"}
                                                                          : std::vector<std::string>{};
     }},
    {"b_layout",
     [](const Declaration& d) {
         return d.operation->is_product ? std::vector<std::string>{d.b_layout == "kn" ? "nk" : "kn"}
                                        : std::vector<std::string>{};
     }},
    {"a_layout",
     [](const Declaration& d) {
         return d.operation->is_product ? std::vector<std::string>{d.a_layout == "mk" ? "km" : "mk"}
                                        : std::vector<std::string>{};
     }},
    {"rounding",
     [](const Declaration& d) {
         return d.rounding == Round::nearest_even ? std::vector<std::string>{"nearest_away", "toward_zero"}
                                                  : std::vector<std::string>{};
     }},
};

/// Declarations that may be looser than the kernel needs. The tightest values come first.
const Candidate unneeded[] = {
    {"machine",
     [](const Declaration& d) {
         if (!is_plain_product(d)) return std::vector<std::string>{};
         std::vector<std::string> names{"fp32.pairwise", "fp32.chain"};
         if (machine_name_of(d) == "any") names.emplace_back("sliced");
         return names;
     }},
    {"partials",
     [](const Declaration& d) { return d.partials ? std::vector<std::string>{""} : std::vector<std::string>{}; },
     [](Declaration& d) { d.partials.reset(); }},
    {"inner", [](const Declaration& d) { return d.inner ? std::vector<std::string>{""} : std::vector<std::string>{}; },
     [](Declaration& d) { d.inner.reset(); }},
    {"variance",
     [](const Declaration& d) {
         return d.has_one_pass_variance || d.has_running_variance ? std::vector<std::string>{"two_pass"}
                                                                  : std::vector<std::string>{};
     }},
    {"form",
     [](const Declaration& d) { return d.form.empty() ? std::vector<std::string>{} : std::vector<std::string>{""}; },
     [](Declaration& d) { d.form.clear(); }},
    {"functions",
     [](const Declaration& d) {
         return d.functions == "cuda.fast" ? std::vector<std::string>{"cuda"} : std::vector<std::string>{};
     }},
    {"sum",
     [](const Declaration& d) {
         const bool is_open = d.operation->has_reduction && !d.operation->is_product;
         if (is_open && d.sum_order == "any") return std::vector<std::string>{"pairwise"};
         return is_open && parse_sum_order(d.sum_order).is_narrow() ? std::vector<std::string>{"any"}
                                                                    : std::vector<std::string>{};
     }},
};

std::string option_of(std::string_view key, std::string_view value) {
    std::string name(key);
    std::replace(name.begin(), name.end(), '_', '-');
    return value.empty() ? fmt::format("no --{}", name) : fmt::format("--{} {}", name, value);
}

/// Returns the limits of the declaration `d` if `out` satisfies them. Returns nothing if `out` does not satisfy them,
/// or if the declaration does not fit the arrays. If `must_guarantee` is set, it also returns nothing if the limits are
/// larger than most of the outputs: any output would satisfy such limits.
std::optional<Limits> accepting(const Declaration& d, const std::vector<files::StoredArray>& arrays,
                                const Sampling& sampling, ThreadPool& pool, bool must_guarantee) {
    try {
        const Posed posed = pose(d, arrays, pool, sampling);
        if (posed.problem.changed_canary || posed.problem.changed_padding || !posed.problem.findings.empty()) return {};
        Limits limits = limits_of(posed.problem, sampling.delta, pool);
        if (limits.declined >= 0) return {};
        if (must_guarantee && fitness_of(posed.problem, limits).lost_share > 0.5) return {};
        Premise premise(posed.problem, limits);
        if (!judge(limits, posed.out, {.premise = &premise, .stops_at_first = true, .pool = &pool}).reasons.empty())
            return {};
        return limits;
    } catch (const Error&) {
        return {};
    }
}

/// Returns the median ratio of the certain bounds of `wide` to those of `narrow`.
double times_narrower(const Limits& wide, const Limits& narrow) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < wide.certain.size() && i < narrow.certain.size(); ++i) {
        const double ratio = wide.certain[i] / narrow.certain[i];
        if (std::isfinite(ratio)) ratios.push_back(ratio);
    }
    if (ratios.empty()) return 1;
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end());
    return *middle;
}

/// Returns the error bound that holds for every order in which the machine may sum the products, or nothing if the
/// machine is not a matrix unit that reads these operands. A unit for tf32 may round or truncate fp32 operands.
std::optional<study::ErrorBound> bound_of(const Machine& machine, const ProductOperands& of) {
    if (is_order_of_summation(machine) || !reads(machine, of.a_format) || !reads(machine, of.b_format)) return {};
    study::ErrorBound bound = order_free_bound(of, MatmulRule{.machine = &machine});
    for (const Format& format : {of.a_format, of.b_format}) {
        if (format == fp32 && decoded_format(machine, format) == tf32)
            bound.add({1, Format::power_of_two(1 - tf32.precision)});
    }
    return bound;
}

/// Returns whether each error is at most the declared bound, plus the machine's bound in units of the output. An
/// epilogue multiplies the error of a sum by the same factor as the declared bound of the sum.
bool has_errors_of(const Machine& machine, const Problem& problem, const Limits& limits, NumberView out) {
    const std::optional<study::ErrorBound> bound = bound_of(machine, problem.products->operands());
    if (!bound) return false;
    std::vector<ProductSum> sums;
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto column = static_cast<std::int64_t>(i) % limits.columns;
        if (column == 0) problem.products->row(static_cast<std::int64_t>(i) / limits.columns, 0, sums);
        const double declared = sums[static_cast<std::size_t>(column)].certain,
                     size = problem.products->magnitudes(static_cast<std::int64_t>(i)),
                     factor = declared > 0 ? limits.before[i] / declared : std::fabs(problem.declaration.alpha),
                     allowed = limits.certain[i] + factor * bound->certain({.magnitudes = size, .lifted = size});
        if (std::isfinite(limits.exact[i]) && !(std::fabs(out[i] - limits.exact[i]) <= allowed)) return false;
    }
    return true;
}

/// Calls use(declaration, option) for each value of each candidate. `declaration` is `d` with this value, and `option`
/// is the command-line option that declares the value.
template <class Use>
void for_each_candidate(std::span<const Candidate> candidates, const Declaration& d, Use use) {
    for (const Candidate& row : candidates) {
        for (const std::string& value : row.values(d)) {
            Declaration other = d;
            other.conversion.clear();
            if (value.empty())
                row.unset(other);
            else
                declare(other, *find_declare_key(row.key), value, "");
            use(other, option_of(row.key, value));
        }
    }
}

}  // namespace

Alternative explaining(const Declaration& d, const std::vector<files::StoredArray>& arrays, const Sampling& sampling,
                       ThreadPool& pool) {
    Alternative found;
    std::optional<Limits> narrowest;
    if (d.bits) return found;
    for_each_candidate(forgotten, d, [&](const Declaration& other, std::string option) {
        std::optional<Limits> limits = accepting(other, arrays, sampling, pool, true);
        // If two declarations have the same bounds, the first one is kept.
        if (!limits || (narrowest && times_narrower(*narrowest, *limits) <= 1)) return;
        found.option = std::move(option);
        narrowest = std::move(limits);
    });
    return found;
}

bool may_be_a_matrix_unit(const Problem& problem, const Limits& limits, NumberView out) {
    if (!problem.products || problem.declaration.machine) return false;
    return std::any_of(all_machines.begin(), all_machines.end(),
                       [&](const Machine* machine) { return has_errors_of(*machine, problem, limits, out); });
}

std::vector<Alternative> tighter(const Declaration& d, const Limits& limits,
                                 const std::vector<files::StoredArray>& arrays, const Sampling& sampling,
                                 ThreadPool& pool) {
    std::vector<Alternative> all;
    if (d.bits) return all;
    for_each_candidate(unneeded, d, [&](const Declaration& other, std::string option) {
        constexpr double least = 1.5;
        if (const std::optional<Limits> found = accepting(other, arrays, sampling, pool, false)) {
            const double narrower = times_narrower(limits, *found);
            if (narrower >= least) all.push_back({std::move(option), narrower});
        }
    });
    std::sort(all.begin(), all.end(),
              [](const Alternative& a, const Alternative& b) { return a.narrower > b.narrower; });
    return all;
}

}  // namespace macheps::check
