// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/shortcuts.hpp"

#include "core/codec.hpp"
#include "experiments/check/interpret.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

bool has_inner_mutant(const Operation& operation, const Format& format) {
    return std::any_of(operation.mutants.begin(), operation.mutants.end(),
                       [&](const MutantRow& row) { return row.defect.inner == format; });
}
template <const Format& format>
bool lacks_inner(const Problem& problem) {
    const Declaration& d = problem.declaration;
    return d.operation->has_inner && !d.inner && !has_inner_mutant(*d.operation, format);
}

/// Returns true if exponentials of x may overflow. In fp32, e^x overflows from x = 88.8 on. If the largest number of the format is
/// at most 64, the sum of n terms stays below n e^64 < 2^93 n, and no row is long enough to overflow. The unshifted form then has
/// the same roundings as the shifted one. Such formats are e2m1fn, e2m3fn and e3m2fn.
bool may_overflow_unshifted(const Problem& problem) {
    const Declaration& d = problem.declaration;
    const auto x = d.formats.find("x");
    const Format format = x == d.formats.end() || x->second.format.bits == 0 ? fp32 : x->second.format;
    const double most = decode64(format, format.max_finite_code() << format.padding);
    return d.operation->has_softmax && d.subtracts_max && most > 64;
}

bool has_two_passes(const Problem& problem) {
    const Declaration& d = problem.declaration;
    return d.operation->has_variance && !d.has_one_pass_variance;
}
bool has_no_updates(const Problem& problem) {
    return has_two_passes(problem) && !problem.declaration.has_running_variance;
}

constexpr Defect fast_functions{.functions = "cuda.fast"};
/// Returns false if no function of the operation is less accurate in cuda.fast than in the declared table. The result is then the
/// same with both tables.
bool has_slower_functions(const Problem& problem) {
    const Listing listing = listing_of(problem, problem.inputs, fast_functions);
    const std::vector<Node>& nodes = listing.nodes.list();
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.off.ulps > 0; });
}

const ShortcutRow rows[] = {
    {"variance as E[x^2] - mean^2", "variance", {.has_one_pass_variance = true}, has_two_passes},
    {"variance by Welford's updates", "variance", {.has_running_variance = true}, has_no_updates},
    {"exponentials of x itself", "unshifted", {.is_unshifted = true}, may_overflow_unshifted},
    {"rounded to bf16 on the way", "inner", {.inner = bf16}, lacks_inner<bf16>},
    {"rounded to fp16 on the way", "inner", {.inner = fp16}, lacks_inner<fp16>},
    {"functions of cuda.fast", "functions", fast_functions, has_slower_functions},
};

}  // namespace

std::span<const ShortcutRow> shortcuts() { return rows; }

}  // namespace macheps::check
