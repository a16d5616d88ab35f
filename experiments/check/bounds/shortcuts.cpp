// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/shortcuts.hpp"

#include "core/codec.hpp"
#include "experiments/check/bounds/interpret.hpp"
#include "experiments/check/declare/listings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace macheps::check {

namespace {

bool lacks_inner(const Problem& problem, const Defect& defect) {
    const Declaration& d = problem.declaration;
    const auto is_same = [&](const MutantRow& row) { return row.defect.inner == defect.inner; };
    return d.operation->has_inner && !d.inner &&
           std::none_of(d.operation->mutants.begin(), d.operation->mutants.end(), is_same);
}

double greatest_x(const Declaration& d) {
    const auto x = d.formats.find("x");
    const Format format = x == d.formats.end() || x->second.format.bits == 0 ? fp32 : x->second.format;
    return decode64(format, format.max_finite_code() << format.padding);
}

/// Returns true if exponentials of x itself, without its maximum subtracted, may overflow. In fp32, e^x overflows from
/// x = 88.8 on. But if the largest number of the format of x is at most 64 (e2m1fn, e2m3fn and e3m2fn), the sum of n
/// terms stays below n e^64 < 2^93 n, and no row is long enough to overflow. The unshifted form then has the same
/// roundings as the shifted form.
bool may_overflow_unshifted(const Problem& problem, const Defect&) {
    const Declaration& d = problem.declaration;
    return d.operation->has_softmax && d.subtracts_max && greatest_x(d) > 64;
}

bool has_two_passes(const Problem& problem, const Defect&) {
    const Declaration& d = problem.declaration;
    return d.operation->has_variance && !d.has_one_pass_variance;
}
bool has_no_updates(const Problem& problem, const Defect& defect) {
    return has_two_passes(problem, defect) && !problem.declaration.has_running_variance;
}

/// Returns the declared form, or null if the operation has only one form.
const Form* declared_form(const Declaration& d) {
    const std::span<const Form> forms = listing::forms_of(d);
    if (forms.empty()) return nullptr;
    const auto at = std::find_if(forms.begin(), forms.end(), [&](const Form& form) { return form.name == d.form; });
    return at == forms.end() ? &forms.front() : &*at;
}

/// Returns true if kernels of form `form` exceed the limits of the declared form on some input. The reasoning is:
/// - If the declared form cancels, other forms are more accurate, and `alternatives` proposes to declare them.
/// - Forms that do not cancel differ by one rounding of fp32. The limits of the quotient x / (1 + e^-x) allow 3 u and
///   the error of the exponential. A sigmoid followed by a product loses no more than that.
/// - The form m + log s has an error of half an ulp of fp32. Numbers of e2m1fn and e2m3fn are at most 7.5. Therefore m
///   + log s is
///   below 16 for any row of fewer than 4900 elements, and half an ulp is at most 8 u. The limits of the forms without
///   m + log s are just as wide: 4 u for the exponential, 1 u for each addition, and the error of the division or the
///   logarithm.
bool loses_more(const Declaration& d, const Form& form) {
    const Form* declared = declared_form(d);
    if (declared == nullptr || declared->cancels || !form.cancels) return false;
    return !d.operation->has_softmax || (d.subtracts_max && greatest_x(d) > 8);
}
bool is_undeclared_form(const Problem& problem, const Defect& defect) {
    const std::span<const Form> forms = listing::forms_of(problem.declaration);
    return std::any_of(forms.begin(), forms.end(), [&](const Form& form) {
        return form.name == defect.form && loses_more(problem.declaration, form);
    });
}

/// Returns true if this array of scales has a number that is not a power of two. A product with a power of two or with
/// its inverse is exact, so the form of the scaling then makes no difference.
template <const std::string_view& array>
bool has_inexact_scales(const Problem& problem, const Defect&) {
    const auto is_inexact = [](double x) {
        int exponent = 0;
        return std::isfinite(x) && x != 0 && std::fabs(std::frexp(x, &exponent)) != 0.5;
    };
    return std::any_of(problem.inputs.begin(), problem.inputs.end(), [&](const Input& input) {
        return input.name == array && std::any_of(input.values.begin(), input.values.end(), is_inexact);
    });
}
constexpr std::string_view multiplied = "group_scale", divided = "group_divisor";

constexpr Defect fast_functions{.functions = "cuda.fast"};
/// Returns true if a function of the operation is less accurate in cuda.fast than in the declared table. Otherwise the
/// result is the same with both tables.
bool has_slower_functions(const Problem& problem, const Defect&) {
    const Listing listing = listing_of(problem, problem.inputs, fast_functions);
    const std::vector<Node>& nodes = listing.nodes.list();
    return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.off.ulps > 0; });
}

const ShortcutRow fixed_rows[] = {
    {"variance as E[x^2] - mean^2", "variance", {.has_one_pass_variance = true}, has_two_passes},
    {"variance by Welford's updates", "variance", {.has_running_variance = true}, has_no_updates},
    {"exponentials of x itself", "unshifted", {.is_unshifted = true}, may_overflow_unshifted},
    {"rounded to bf16 on the way", "inner", {.inner = bf16}, lacks_inner},
    {"rounded to fp16 on the way", "inner", {.inner = fp16}, lacks_inner},
    {"x divided by the inverse of the encode scale",
     "scaling",
     {.has_other_form = true},
     has_inexact_scales<multiplied>},
    {"x times the inverse of the decode scale", "scaling", {.has_other_form = true}, has_inexact_scales<divided>},
    {"functions of cuda.fast", "functions", fast_functions, has_slower_functions},
};

std::vector<ShortcutRow> all_rows() {
    std::vector<ShortcutRow> rows(std::begin(fixed_rows), std::end(fixed_rows));
    for (const Operation& operation : all_operations()) {
        for (const Form& form : operation.forms) {
            const auto is_same = [&](const ShortcutRow& row) { return row.defect.form == form.name; };
            if (std::any_of(rows.begin(), rows.end(), is_same)) continue;
            rows.push_back(
                {fmt::format("computed in the form {}", form.name), "form", {.form = form.name}, is_undeclared_form});
        }
    }
    return rows;
}

}  // namespace

std::span<const ShortcutRow> shortcuts() {
    static const std::vector<ShortcutRow> rows = all_rows();
    return rows;
}

std::vector<std::string_view> legal_forms(const Declaration& declaration) {
    std::vector<std::string_view> names;
    const Form* declared = declared_form(declaration);
    if (declared == nullptr) return names;
    names.push_back(declared->name);
    for (const Form& form : listing::forms_of(declaration)) {
        if (&form != declared && !declared->cancels && !loses_more(declaration, form)) names.push_back(form.name);
    }
    return names;
}

}  // namespace macheps::check
