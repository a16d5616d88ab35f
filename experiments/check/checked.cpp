// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/checked.hpp"

#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/check/alternatives.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/inputs/recorded_recipe.hpp"
#include "experiments/check/judge/grid.hpp"
#include "experiments/check/memory.hpp"
#include "experiments/check/pose/canary.hpp"
#include "experiments/check/power/agreement.hpp"
#include "experiments/check/verdicts/advice.hpp"
#include "experiments/check/verdicts/words.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace macheps::check {

namespace {

/// Returns the index of x in the sequence of the format's values. The indices of neighbouring values differ by one.
std::int64_t ordinal_of(const Limits& limits, double x) {
    const Overflow overflow = limits.saturates ? Overflow::saturate : Overflow::nonsaturate;
    const Format magnitude = limits.format;
    const auto code = static_cast<std::int64_t>(encode64(magnitude, std::fabs(x), Round::nearest_even, overflow) >>
                                                magnitude.padding);
    return std::signbit(x) ? -code : code;
}

std::vector<std::int64_t> distances_of(const Limits& limits, NumberView got, ThreadPool& pool) {
    const Storing stored(limits);
    const NearestNormal nearest(limits.format);
    std::array<std::int64_t, 66> all{};
    in_parts(
        static_cast<std::int64_t>(got.size()), pool,
        [&](std::size_t first, std::size_t last) {
            std::array<std::int64_t, 66> counts{};
            for (std::size_t i = first; i < last; ++i) {
                const double want = stored(limits.exact[i]);
                if (!std::isfinite(got[i]) || !std::isfinite(want)) continue;
                const bool is_plain = nearest.is_normal(got[i]) && nearest.is_normal(want) && want * got[i] > 0;
                const std::uint64_t distance =
                    want == got[i] ? 0
                    : is_plain
                        ? nearest.distance(got[i], want)
                        : static_cast<std::uint64_t>(std::abs(ordinal_of(limits, got[i]) - ordinal_of(limits, want)));
                ++counts[static_cast<std::size_t>(std::bit_width(distance))];
            }
            return counts;
        },
        [&](const std::array<std::int64_t, 66>& counts) {
            for (std::size_t bin = 0; bin < all.size(); ++bin) all[bin] += counts[bin];
        });
    const auto end = std::find_if(all.rbegin(), all.rend(), [](std::int64_t n) { return n > 0; }).base();
    return {all.begin(), end};
}

double omega_of(const Problem& problem, const Limits& limits, NumberView got) {
    const Declaration& d = problem.declaration;
    const bool is_plain =
        problem.products != nullptr && problem.inputs.empty() && d.alpha == 1 && d.activation == "none";
    if (!is_plain) return std::numeric_limits<double>::quiet_NaN();
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double off = std::fabs(got[i] - limits.exact[i]);
        if (off > 0 && std::isfinite(off))
            most = std::max(most, off / problem.products->magnitudes(static_cast<std::int64_t>(i)));
    }
    return most;
}

std::size_t count_of(const std::vector<std::int64_t>& shape) {
    std::size_t count = 1;
    for (const std::int64_t n : shape) count *= static_cast<std::size_t>(std::max<std::int64_t>(n, 0));
    return count;
}

/// Returns whether each element of `out` is the canary that make-inputs wrote there.
bool holds_canaries(const std::vector<files::StoredArray>& arrays, const Format& format) {
    const auto out =
        std::find_if(arrays.begin(), arrays.end(), [](const files::StoredArray& each) { return each.name == "out"; });
    if (out == arrays.end() || out->count() == 0) return false;
    return out->bytes.starts_with(canary_bytes(format, 1)) && out->bytes == canary_bytes(format, out->count());
}

/// Returns true if another declaration can be tried within seconds.
bool is_small(const Problem& problem) {
    const double terms = problem.products ? static_cast<double>(problem.products->operands().k) : 1,
                 elements = static_cast<double>(problem.rows) * static_cast<double>(problem.columns);
    return problem.products ? elements * terms <= 0x1p27 : elements <= 0x1p24;
}

}  // namespace

Checked check_arrays(const Declaration& declaration, const std::vector<files::StoredArray>& arrays,
                     const Options& options, ThreadPool& pool) {
    Checked checked{.name = std::string(declaration.operation->name),
                    .operation = std::string(declaration.operation->name),
                    .declaration = declaration,
                    .options = options};
    const std::vector<std::string> roles = array_roles(*declaration.operation);
    for (const files::StoredArray& array : arrays) {
        const bool is_used =
            array.name == recipe_array || std::find(roles.begin(), roles.end(), array.name) != roles.end();
        if (!is_used) checked.unused.push_back(array.name);
    }
    Sampling sampling = options.sampling;
    sampling.delta = options.delta;
    sampling.max_limit_bytes = plan_memory(declaration, arrays, options);
    sampling.reads_in_place = !options.holds_limits;
    const Posed posed = pose(declaration, arrays, pool, sampling);
    checked.declaration = posed.problem.declaration;
    checked.out_shape = posed.out_shape;
    checked.row_elements = posed.problem.products ? posed.problem.products->operands().k : posed.problem.columns;
    checked.problem = problem_text(posed.problem);
    checked.assumed = assumptions_of(posed.problem);
    checked.verdict = check(posed.problem, posed.out, options, pool);
    checked.outcome = checked.verdict.outcome;
    const bool has_figures = checked.verdict.judgement.outputs > 0 && is_small(posed.problem);
    if (checked.outcome == Outcome::fail && has_figures)
        checked.explaining = explaining(declaration, arrays, sampling, pool).option;
    if (checked.outcome == Outcome::fail && checked.verdict.judgement.outputs > 0)
        checked.may_be_a_matrix_unit = may_be_a_matrix_unit(posed.problem, *checked.verdict.limits, posed.out);
    // A check may also fail for another reason, such as wrong bits, although the outputs are those of a legal kernel.
    const bool has_wrong_outputs = has_figures && !checked.verdict.judgement.reasons.empty();
    if (has_wrong_outputs && posed.problem.rows * posed.problem.columns <= 1 << 20)
        checked.agrees_with = agreeing_kernels(posed.problem, posed.out, options.delta, pool);
    if ((checked.outcome == Outcome::pass || checked.outcome == Outcome::weak) && has_figures)
        checked.tighter = tighter(declaration, *checked.verdict.limits, arrays, sampling, pool);
    for (const Mutant& mutant : checked.verdict.mutants) {
        if (!mutant.caught) checked.blind.push_back(mutant.name);
    }
    checked.is_untouched = holds_canaries(arrays, posed.problem.output);
    checked.code_distances = distances_of(*checked.verdict.limits, posed.out, pool);
    checked.omega = omega_of(posed.problem, *checked.verdict.limits, posed.out);
    if (checked.verdict.limits->panels)
        checked.verdict.limits->drop();  // panels read the arrays, which the verdict may outlive
    return checked;
}

void digest(Checked& checked, const std::vector<files::StoredArray>& arrays) {
    std::string inputs, output;
    for (const std::string& role :
         array_roles(*checked.declaration.operation)) {  // a fixed order, whatever the order in the file
        for (const files::StoredArray& array : arrays) {
            if (array.name != role) continue;
            std::string head = array.name + ' ' + array.type;
            for (const std::int64_t n : array.shape) head += fmt::format(" {}", n);
            const std::string one = head + ' ' + reports::sha256_text(array.bytes);
            (role == "out" ? output : inputs) += one + '\n';
        }
    }
    checked.output_sha256 = reports::sha256_text(output);
    checked.inputs_sha256 = reports::sha256_text(inputs);
}

files::StoredArray stored_array(std::string name, const Format& format, std::vector<std::int64_t> shape,
                                std::span<const std::byte> bytes) {
    files::StoredArray one{.name = std::move(name), .where = "memory", .type = "codes", .format = format};
    one.width = static_cast<std::size_t>(format.bits + format.padding + 7) / 8;
    if (count_of(shape) * one.width != bytes.size())
        throw Error({.what = fmt::format("{} bytes do not match {} elements", bytes.size(), count_of(shape)),
                     .where = one.name,
                     .fix = fmt::format("pass {} bytes", count_of(shape) * one.width),
                     .exit = Exit::usage});
    one.shape = std::move(shape);
    one.bytes.resize(bytes.size());
    if (!bytes.empty()) std::memcpy(one.bytes.data(), bytes.data(), bytes.size());
    return one;
}

files::StoredArray stored_array(std::string name, std::vector<std::int64_t> shape, std::span<const float> values) {
    return stored_array(std::move(name), fp32, std::move(shape), std::as_bytes(values));
}

void declare(Declaration& declaration, std::string_view name, const std::string& text) {
    if (const DeclareKey* key = find_declare_key(name)) return declare(declaration, *key, text, std::string(name));
    std::vector<std::string> names;
    for (const DeclareKey& key : declare_keys()) names.push_back(key.name);
    const std::string near = nearest_name(name, names);
    throw Error({.what = fmt::format("a declaration has no key '{}'", name),
                 .where = "declare",
                 .fix = near.empty() ? "use a key that declare_keys() lists" : fmt::format("did you mean '{}'?", near),
                 .exit = Exit::usage});
}

Outcome worst_of(std::span<const Checked> checks) {
    // The outcomes are in the order of their exit codes (1, 3, 2, 0), and within a code in the order of severity.
    for (const Outcome outcome :
         {Outcome::fail, Outcome::weak, Outcome::bad_input, Outcome::refused, Outcome::declined}) {
        for (const Checked& one : checks) {
            if (one.outcome == outcome && !(outcome == Outcome::weak && one.options.allow_weak)) return outcome;
        }
    }
    return Outcome::pass;
}

Exit exit_of(std::span<const Checked> checks) { return exit_of(worst_of(checks)); }

}  // namespace macheps::check
