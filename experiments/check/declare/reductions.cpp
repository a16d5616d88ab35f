// SPDX-License-Identifier: Apache-2.0
// Operations that reduce rows.
#include "experiments/check/declare/listings.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace macheps::check::listing {

namespace {

/// The exponentials e^(x - m) of a row, or e^x if the kernel does not subtract the maximum; their sum; and the maximum
/// m.
struct Exponentials {
    Value each, sum, greatest;
};
/// Lists the exponentials. With `has_limits`, the maximum is clamped to the finite numbers of fp32. The result m +
/// log(sum) is then -inf for a row of -inf, and inf for a row that contains inf, as it should be. Without the clamp,
/// such rows would have NaN for x - m.
Exponentials exponentials(Listing& l, Value x, bool has_limits = false) {
    Nodes& n = l.nodes;
    const Declaration& d = l.declaration;
    Value greatest = n.greatest(x, 0, l.defect.start);
    if (has_limits) {
        const Value minus = n.constant(-1), least = n.constant(-0x1.fffffep127);
        const Value negative = n.multiply(n.larger(greatest, least), minus, 0);
        greatest = n.multiply(n.larger(negative, least), minus, 0);
    }
    if (l.defect.is_unshifted) {
        // The reference arithmetic has a wider range than fp32. Numbers that overflow fp32 become infinite only by the
        // conversion.
        const Value e = n.convert(n.exponential(x), fp32);
        return {e, n.convert(l.sum(e), fp32), n.constant(0)};
    }
    const Value e = n.exponential(d.subtracts_max ? n.subtract(x, greatest) : x);
    double rescaled = 0;
    if (d.block > 0) {
        // At every block, an online softmax multiplies the partial sum by e^(old maximum - new maximum).
        const double k = find_functions(d.functions).of(Function::exponential).ulps;
        rescaled = static_cast<double>((l.columns + d.block - 1) / d.block) * 2 * (k + 1);
    }
    return {e, l.sum(e, rescaled), greatest};
}

Value gained(Listing& l, Value y) {
    if (const auto gain = l.input("gain")) y = l.nodes.multiply(l.inner(y), *gain);
    if (const auto shift = l.input("shift")) y = l.nodes.add(y, *shift);
    return y;
}

/// Lists m + log s, where m is the maximum and s is the sum of the exponentials. Lists only log s if the kernel does
/// not subtract the maximum. Some kernels keep a row's sum and its logarithm in the format of their input.
Value shifted_log(Listing& l, const Exponentials& e) {
    const Value log = l.inner(l.nodes.logarithm(l.inner(e.sum)));
    return l.declaration.subtracts_max ? l.nodes.add(e.greatest, log) : log;
}

constexpr Form of_softmax[] = {{"quotient", "e^(x - m) / s"}, {"lse", "e^(x - (m + log s))", true}};
constexpr Form of_log_softmax[] = {{"shifted", "(x - m) - log s"},
                                   {"lse", "x - (m + log s), whose error grows with the magnitude of x", true}};
constexpr Form of_loss[] = {{"shifted", "log s - (x - m) of the target"},
                            {"lse", "(m + log s) - x of the target, whose error grows with the magnitude of x", true}};

bool is_wide_sum(const Declaration& d) { return !parse_sum_order(d.sum_order).is_narrow(); }
bool has_mean(const Declaration& d) { return d.reduction == Reduction::mean; }

const MutantRow bf16_sum{"sum in bf16", "precision", {.accumulator = bf16}, is_wide_sum};

}  // namespace

Value sum(Listing& l) { return l.sum(*l.input("x")); }
Value mean(Listing& l) { return l.mean(*l.input("x")); }
// The wrong kernel of a maximum computes the minimum, and vice versa.
Value greatest(Listing& l) {
    const Value x = *l.input("x");
    return l.defect.has_other_form ? l.nodes.least(x) : l.greatest(x);
}
Value least(Listing& l) {
    const Value x = *l.input("x");
    return l.defect.has_other_form ? l.nodes.greatest(x) : l.least(x);
}
Value amax(Listing& l) {
    const Value x = *l.input("x");
    return l.greatest(l.defect.has_other_form ? x : l.nodes.absolute(x));
}
Value norm(Listing& l) {
    const Value x = *l.input("x"), squares = l.sum(l.nodes.multiply(x, x));
    return l.defect.has_other_form ? squares : l.nodes.root(squares);
}

Value log_sum_exp(Listing& l) { return shifted_log(l, exponentials(l, *l.input("x"), true)); }

Value softmax(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    const Exponentials e = exponentials(l, x);
    if (l.has_form("lse")) return n.exponential(n.subtract(x, shifted_log(l, e)));
    // Instead of dividing, kernels may multiply by the rounded reciprocal. The division for this reciprocal need not be
    // correctly rounded.
    return l.nodes.divide(e.each, e.sum, 4);
}

Value log_softmax(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    const Exponentials e = exponentials(l, x);
    if (l.has_form("lse") || !l.declaration.subtracts_max) return n.subtract(x, shifted_log(l, e));
    return n.subtract(n.subtract(x, e.greatest), l.inner(n.logarithm(l.inner(e.sum))));
}

Value rms_norm(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    return gained(l, n.multiply(x, n.inverse_root(n.add(l.mean(n.multiply(x, x)), l.eps()))));
}

namespace {

/// Returns a bound on the error of the running means of Welford's method, in unit roundoffs. Let m be the running mean,
/// d the step x - m, and u the unit roundoff. The k-th update, m + d / k, makes an error of at most u |m| + 4 u |d| /
/// k. Therefore k times the error of the k-th mean grows by at most u |x_1 + ... + x_k| + 4 u |d|. In total, the error
/// is at most u times the sum of |x|, plus 4 u times the mean of |d|, which is at most 2 max |x|.
Value running_mean_error(Listing& l, Value x) {
    Nodes& n = l.nodes;
    const Value size = n.absolute(x);
    return n.add(n.sum(size), n.multiply(n.constant(8), n.greatest(size)));
}

/// Returns the variance v with the error bound of Welford's method. Let e be the error of the running means. Each
/// update adds a square d (x - m'), where d is the step x - m and m' is the new mean. This square is off by 2 e |d|. By
/// Cauchy and Schwarz, the mean of these errors is at most 2 e sqrt(2 v), since the squares of the steps d add up to at
/// most twice the sum of squares. Merging two parts of a row (Chan, Golub and LeVeque, 1983) adds 4 e |d| n1 n2 / (n1 +
/// n2), where d is the difference of the means of the parts, and n1 and n2 are their lengths. For any tree of merges,
/// these errors add up to at most 2 e sqrt(v log2 n).
Value running_variance(Listing& l, Value variance, Value mean_error) {
    Nodes& n = l.nodes;
    const double merges = 2 * std::sqrt(std::log2(static_cast<double>(std::max<std::int64_t>(l.columns, 2))));
    const Value first = n.slack(variance, n.multiply(mean_error, n.root(variance)), 3 + merges);
    return n.slack(first, n.multiply(mean_error, mean_error), fp32.unit_roundoff() * 1.01);
}

Value normal_of(Listing& l, Value x, Value mean, Value variance) {
    Nodes& n = l.nodes;
    return gained(l, n.multiply(n.subtract(x, mean), n.inverse_root(n.add(variance, l.eps()))));
}

/// Lists the most accurate one-pass result that fp32 can give: each sum and each step is rounded once. Inputs that
/// expose this variant therefore expose it for every order of summation.
Value layer_norm_in_one_pass(Listing& l, Value x) {
    Nodes& n = l.nodes;
    const Value count = n.constant(static_cast<double>(l.columns));
    const auto mean = [&](Value of) { return n.convert(n.divide(n.convert(n.sum(of), fp32), count), fp32); };
    const Value mu = mean(x), square = n.convert(n.multiply(mu, mu), fp32);
    return normal_of(l, x, mu, n.convert(n.subtract(mean(n.convert(n.multiply(x, x), fp32)), square), fp32));
}

}  // namespace

Value layer_norm(Listing& l) {
    Nodes& n = l.nodes;
    const bool is_running = l.declaration.has_running_variance;
    const Value x = *l.input("x");
    if (l.defect.has_running_variance) return normal_of(l, x, n.welford_mean(x), n.welford_variance(x));
    if (l.defect.has_one_pass_variance) return layer_norm_in_one_pass(l, x);
    const Value error = is_running ? running_mean_error(l, x) : x;
    const Value mean = is_running ? n.slack(l.mean(x), error, 1) : l.mean(x);
    const Value d = n.subtract(x, mean);
    Value variance = l.mean(n.multiply(d, d));
    if (is_running) variance = running_variance(l, variance, error);
    if (l.declaration.has_one_pass_variance)
        variance = n.either(variance, n.subtract(l.mean(n.multiply(x, x)), n.multiply(mean, mean)));
    return gained(l, n.multiply(d, n.inverse_root(n.add(variance, l.eps()))));
}

/// Lists the loss of a row: log(sum of e^x) - x[target], or 0 if the row's target is ignored.
Value cross_entropy(Listing& l) {
    Nodes& n = l.nodes;
    const Value x = *l.input("x");
    const Exponentials e = exponentials(l, x);
    const int targets = l.array("target");
    const Value target = n.select(x, targets);
    const bool is_joined = l.has_form("lse") || !l.declaration.subtracts_max;
    const Value loss = is_joined ? n.subtract(shifted_log(l, e), target)
                                 : n.subtract(l.inner(n.logarithm(l.inner(e.sum))), n.subtract(target, e.greatest));
    return l.declaration.ignored ? n.keep(loss, targets, static_cast<double>(*l.declaration.ignored)) : loss;
}

Value reduced_loss(Listing& l) {
    Nodes& n = l.nodes;
    const Value total = l.sum(n.product());
    if (l.declaration.reduction == Reduction::sum) return total;
    const double rows = l.defect.counts_ignored ? static_cast<double>(l.columns) : l.number("divisor");
    return n.divide(total, n.constant(rows - static_cast<double>(l.defect.divisor_less)), 2);
}

std::span<const Form> softmax_forms() { return of_softmax; }
std::span<const Form> log_softmax_forms() { return of_log_softmax; }
std::span<const Form> loss_forms() { return of_loss; }

std::span<const MutantRow> sum_mutants() {
    static const std::vector<MutantRow> rows{bf16_sum};
    return rows;
}
std::span<const MutantRow> norm_mutants() {
    static const std::vector<MutantRow> rows{
        bf16_sum, {"rounded to bf16 before the gain", "precision", {.inner = bf16}, has_no_inner}};
    return rows;
}
std::span<const MutantRow> extreme_mutants() {
    static const std::vector<MutantRow> rows{{"the extreme at the other end", "operation", {.has_other_form = true}}};
    return rows;
}
std::span<const MutantRow> amax_mutants() {
    static const std::vector<MutantRow> rows{{"signs kept", "operation", {.has_other_form = true}}};
    return rows;
}
std::span<const MutantRow> norm2_mutants() {
    static const std::vector<MutantRow> rows{{"root left out", "operation", {.has_other_form = true}}, bf16_sum};
    return rows;
}
std::span<const MutantRow> loss_mutants() {
    static const std::vector<MutantRow> rows{
        {"target + 1", "operation", {.next = "target"}},
        {"mean over N - 1", "operation", {.divisor_less = 1}, has_mean},
        {"ignored rows counted",
         "operation",
         {.counts_ignored = true},
         [](const Declaration& d) { return has_mean(d) && d.ignored.has_value(); }},
        bf16_sum,
    };
    return rows;
}

}  // namespace macheps::check::listing
