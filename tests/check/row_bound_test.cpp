// SPDX-License-Identifier: Apache-2.0
// Compares the error bounds of operations on rows with values worked out by hand: a table in the specification of the
// checks, and a closed form for each operation.
#include "tests/check/row_kernels.hpp"

namespace row_bound_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

constexpr double u = 0x1p-24, k = 2;  // exp, rsqrt, tanh and erf are within k ulp, and log is within k / 2 ulp

struct Bounded {
    std::vector<double> y, bound, input;  ///< `bound` is the error bound before the last rounding
};

/// Returns the bounds that the check computes for a case in fp32.
Bounded bounded(const RowCase& c) {
    std::vector<StoredArray> arrays = c.arrays;
    std::size_t size = 1;
    for (const std::int64_t n : c.out_shape) size *= static_cast<std::size_t>(n);
    arrays.push_back(array("out", c.out_shape, Floats(size)));
    const check::Posed posed = check::pose(c.declaration, arrays, pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    return {limits.exact, limits.before, std::vector<double>(c.x.begin(), c.x.end())};
}

RowCase fixed(const std::string& op, std::int64_t columns, float mean, float sigma, unsigned seed) {
    std::mt19937 random(seed);
    return row_case(op, random, 1, columns, Store::fp32, Store::fp32, mean, sigma);
}

double sum_of(const std::vector<double>& x, double (*f)(double)) {
    double s = 0;
    for (const double t : x) s += f(t);
    return s;
}
double magnitude(double x) { return std::fabs(x); }

/// Checks that every bound agrees with the closed form to within one per cent.
void compare(const std::string& op, const Bounded& b, const std::vector<double>& form) {
    REQUIRE(b.bound.size() == form.size());
    for (std::size_t i = 0; i < form.size(); ++i) {
        const double x = b.input.size() == form.size() ? b.input[i] : 0;
        CAPTURE(op, i, x, b.y[i], b.bound[i], form[i], b.bound[i] / form[i]);
        CHECK(b.bound[i] <= form[i] * 1.01);
        CHECK(b.bound[i] >= form[i] * 0.99);
    }
}
/// Checks that no bound exceeds the bound in the specification, which counts some roundings that do not occur.
void compare_above(const std::string& op, const Bounded& b, const std::vector<double>& form) {
    for (std::size_t i = 0; i < form.size(); ++i) {
        CAPTURE(op, i, b.bound[i], form[i]);
        CHECK(b.bound[i] <= form[i] * 1.01);
    }
}

/// Returns the relative error bound of e^x. In 2^(x log2 e), the product x log2 e has two roundings. If x is itself a
/// rounded difference from a maximum, it has `subtractions` more.
double of_exponential(double x, double subtractions) { return (2 * k + (2 + subtractions) * std::fabs(x)) * u; }

/// Returns the error bound of log s, where s is the sum of exp(t - m) over the elements t of a row with the maximum m.
/// Sets `most` to m and `log` to log s.
double of_log_sum(const std::vector<double>& x, double& most, double& log) {
    most = *std::max_element(x.begin(), x.end());
    double sum = 0, errors = 0;
    for (const double t : x) {
        sum += std::exp(t - most);
        errors += std::exp(t - most) * of_exponential(t - most, 1);
    }
    log = std::log(sum);
    return errors / sum + (static_cast<double>(x.size()) - 1) * u + 2 * u * std::fabs(log);
}
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

RowCase single(const std::string& op, const Floats& x) {
    RowCase c{.declaration = declare(op.c_str(), Store::fp32)};
    c.rows = 1, c.columns = static_cast<std::int64_t>(x.size());
    c.x = x, c.out_shape = {1, c.columns};
    c.arrays.push_back(array("x", c.out_shape, x));
    return c;
}

}  // namespace

TEST_CASE("bounds of GELU equal those in the table of the specification", "[check]") {
    const Bounded b = bounded(single("gelu", {-3, -1, 0.5f, 2}));
    const double table[] = {4.54e-7, 1.83e-7, 1.15e-7, 6.75e-7};
    for (std::size_t i = 0; i < 4; ++i) CHECK(b.bound[i] == Approx(table[i]).epsilon(0.01));
}

TEST_CASE("bounds of a softmax in bf16 equal those in the table of the specification", "[check]") {
    RowCase c = single("softmax", {0, 1, 2, 3});
    c.declaration = declare("softmax", Store::bf16);
    c.declaration.functions = "cuda,exp=4";
    c.arrays.push_back(array("out", c.out_shape, Floats(4), Store::bf16));
    const check::Posed posed = check::pose(c.declaration, c.arrays, pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    const double table[] = {1.221e-4, 2.443e-4, 4.887e-4, 1.954e-3};
    for (std::size_t i = 0; i < 4; ++i) CHECK(limits.certain[i] == Approx(table[i]).epsilon(0.001));
}

TEST_CASE("bounds of reductions agree with their closed forms", "[check]") {
    for (const std::int64_t columns : {7, 100, 4096}) {
        const auto n = static_cast<double>(columns);
        for (const std::string op : {"sum", "mean", "norm2"}) {
            const RowCase c = fixed(op, columns, 0.3f, 1, 5);
            const Bounded b = bounded(c);
            const double s = sum_of(b.input, magnitude), y = std::fabs(b.y[0]);
            CAPTURE(op, columns);
            if (op == "sum") compare(op, b, {(n - 1) * u * s});
            // A mean may multiply by the rounded reciprocal of n instead of dividing by n. This costs 2u instead of u.
            if (op == "mean") compare(op, b, {(n - 1) * u * s / n + 2 * u * y});
            // The root halves the relative error of the sum of squares. The product x rsqrt(x) adds its own error.
            if (op == "norm2") compare(op, b, {(0.5 * n + 2 * k + 1) * u * y});
        }
        for (const auto& [order, height] : {std::pair{"pairwise", std::ceil(std::log2(n))},
                                            {"lanes32", std::ceil(n / 32) - 1 + std::log2(std::min(n, 32.0))}}) {
            RowCase c = fixed("sum", columns, 0.3f, 1, 5);
            c.declaration.sum_order = order;
            const Bounded b = bounded(c);
            CAPTURE(order, columns);
            compare(order, b, {std::ceil(height) * u * sum_of(b.input, magnitude)});
        }
        RowCase narrow = fixed("sum", columns, 0.3f, 1, 5);
        narrow.declaration.sum_order = "bf16";
        const Bounded b = bounded(narrow);
        compare("bf16", b, {n * 0x1p-8 * sum_of(b.input, magnitude)});
    }
}

TEST_CASE("bounds of softmax agree with their closed forms", "[check]") {
    for (const std::int64_t columns : {8, 1000}) {
        const RowCase c = fixed("softmax", columns, 0, 3, 9);
        const Bounded b = bounded(c);
        const double n = static_cast<double>(columns), m = *std::max_element(b.input.begin(), b.input.end());
        std::vector<double> e(b.input.size()), form(b.input.size());
        double mean = 0;
        for (std::size_t i = 0; i < e.size(); ++i) {
            e[i] = 3 * u * std::fabs(b.input[i] - m) + 2 * k * u;
            mean += b.y[i] * e[i];
        }
        for (std::size_t i = 0; i < e.size(); ++i) form[i] = b.y[i] * (e[i] + mean + (n - 1) * u + 4 * u);
        compare("softmax", b, form);
        // In an online softmax, every block of 8 elements adds an error of 2 (k + 1) u relative to the sum.
        RowCase online = c;
        online.declaration.block = 8;
        for (std::size_t i = 0; i < e.size(); ++i) form[i] += b.y[i] * std::ceil(n / 8) * 2 * (k + 1) * u;
        compare("online", bounded(online), form);
        // If the maximum m is not subtracted, the bound of an exponential depends on |x| instead of |x - m|, and its
        // argument is rounded twice instead of three times.
        RowCase plain = c;
        plain.declaration.subtracts_max = false;
        mean = 0;
        for (std::size_t i = 0; i < e.size(); ++i) {
            e[i] = 2 * u * std::fabs(b.input[i]) + 2 * k * u;
            mean += b.y[i] * e[i];
        }
        for (std::size_t i = 0; i < e.size(); ++i) form[i] = b.y[i] * (e[i] + mean + (n - 1) * u + 4 * u);
        compare("unshifted", bounded(plain), form);
    }
}

TEST_CASE("bounds of norms agree with their closed forms", "[check]") {
    for (const std::int64_t columns : {16, 1000}) {
        for (const float mean : {0.0f, 100.0f}) {
            const double n = static_cast<double>(columns);
            RowCase c = fixed("rmsnorm", columns, mean, 1, 11);
            std::vector<double> form;
            // The multiplication by the gain rounds once. The table of the specification lacks this rounding, because
            // its gain is 1. The division by n in the mean may round twice.
            const Bounded rms = bounded(c);
            for (const double y : rms.y) form.push_back(std::fabs(y) * (0.5 * (n + 3) + 2 * k + 2) * u);
            compare("rmsnorm", rms, form);
            // LayerNorm: neither the bound nor the closed form uses the fact that the deviations add up to zero.
            c = fixed("layernorm", columns, mean, 1, 11);
            const Bounded b = bounded(c);
            double mu = 0, v = 0, magnitudes = 0;
            for (const double x : b.input) mu += x / n, magnitudes += std::fabs(x) / n;
            for (const double x : b.input) v += (x - mu) * (x - mu) / n;
            // For the last two roundings of the mean, the specification uses the mean of magnitudes instead of |mean|.
            for (const bool is_published : {false, true}) {
                const double e_mu =
                    is_published ? (n + 1) * u * magnitudes : (n - 1) * u * magnitudes + 2 * u * std::fabs(mu);
                double e_v = (n + 3) * u * v;
                for (const double x : b.input) e_v += 2 * std::fabs(x - mu) * (e_mu + u * std::fabs(x - mu)) / n;
                form.clear();
                for (std::size_t i = 0; i < b.y.size(); ++i) {
                    const double d = b.input[i] - mu, r = 1 / std::sqrt(v + 1e-5), normal = d * r,
                                 gain = static_cast<double>(c.second[i]);
                    const double e_d = e_mu + u * std::fabs(d);
                    form.push_back(std::fabs(gain) * (e_d * r * (1 + e_v / v) +
                                                      std::fabs(normal) * (e_v / (2 * v) + 2 * k * u + 2 * u)) +
                                   u * std::fabs(b.y[i]));
                }
                is_published ? compare_above("layernorm", b, form) : compare("layernorm", b, form);
            }
        }
    }
}

TEST_CASE("bounds of activations agree with their closed forms", "[check]") {
    std::mt19937 random(3);
    Floats x = normal(200, random, 0, 3);
    x.insert(x.end(), {-20, -8, -1e-3f, 1e-3f, 8, 30});
    const Bounded gelu = bounded(single("gelu", x)), silu = bounded(single("silu", x)),
                  sigmoid = bounded(single("sigmoid", x)), tanh = bounded(single("tanh", x)),
                  exp = bounded(single("exp", x));
    std::vector<double> gelu_form, silu_form, silu_published, sigmoid_form, tanh_form, exp_form;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double v = static_cast<double>(x[i]), size = std::fabs(v), e = std::erf(v / std::sqrt(2.0));
        gelu_form.push_back(0.5 * size *
                                (2 * k * u * std::fabs(e) + u * size * std::exp(-v * v / 2) * 2.4 + u * (1 + e) + u) +
                            2 * u * std::fabs(gelu.y[i]));
        // The relative error of e^-x is multiplied by the share of e^-x in 1 + e^-x. The sum, the quotient and the
        // operations after them add roundings.
        const double share = (1 - sigmoid_of(v)) * of_exponential(v, 0);
        sigmoid_form.push_back(sigmoid_of(v) * (share + 3 * u));
        silu_form.push_back(std::fabs(silu.y[i]) * (share + 4 * u));
        silu_published.push_back(std::fabs(silu.y[i]) * (2 * k + 4 + size) * u);
        tanh_form.push_back(std::fabs(tanh.y[i]) * 2 * k * u);
        exp_form.push_back(exp.y[i] * of_exponential(v, 0));
    }
    compare("gelu", gelu, gelu_form);
    compare("silu", silu, silu_form);
    compare("sigmoid", sigmoid, sigmoid_form);
    compare("tanh", tanh, tanh_form);
    compare("exp", exp, exp_form);
    // If e^x is computed as 2^(x log2 e), the argument is rounded twice, as in softmax. The specification counts only
    // one of these roundings. For x < -2, the computed bound is therefore larger than the bound in the specification.
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (x[i] > -1) CHECK(silu.bound[i] <= silu_published[i] * 1.01);
        if (x[i] < -2) CHECK(silu.bound[i] > silu_published[i]);
    }
    const Bounded relu = bounded(single("relu", x));
    for (const double bound : relu.bound) CHECK(bound == 0);
}

TEST_CASE("bounds of gates and rotary embeddings agree with their closed forms", "[check]") {
    std::mt19937 random(13);
    const RowCase gated = row_case("swiglu", random, 4, 100, Store::fp32, Store::fp32, 0, 3);
    const Bounded b = bounded(gated);
    std::vector<double> form;
    for (std::size_t i = 0; i < b.y.size(); ++i) {
        const double v = static_cast<double>(gated.x[i]);
        form.push_back(std::fabs(b.y[i]) * ((1 - sigmoid_of(v)) * of_exponential(v, 0) + 5 * u));
    }
    compare("swiglu", b, form);
    RowCase turned = row_case("rope", random, 4, 64, Store::fp32, Store::fp32);
    turned.declaration.has_pairs = false;
    const Bounded r = bounded(turned);
    form.clear();
    for (std::size_t i = 0; i < r.y.size(); ++i) {
        const std::size_t row = i / 64, at = i % 64, other = at < 32 ? i + 32 : i - 32, angle = row * 32 + at % 32;
        form.push_back(u * (std::fabs(static_cast<double>(turned.x[i]) * turned.second[angle]) +
                            std::fabs(static_cast<double>(turned.x[other]) * turned.third[angle]) + std::fabs(r.y[i])));
    }
    compare("rope", r, form);
    for (const std::string op : {"embedding", "cast", "max", "min", "amax"}) {
        CAPTURE(op);
        for (const double bound : bounded(row_case(op, random, 3, 40, Store::fp32, Store::fp32)).bound)
            CHECK(bound == 0);
    }
}

TEST_CASE("bounds of logarithms of sums agree with their closed forms", "[check]") {
    for (const std::int64_t columns : {8, 1000}) {
        double most = 0, log = 0;
        const RowCase sum = fixed("logsumexp", columns, 0, 3, 17);
        const Bounded b = bounded(sum);
        const double error = of_log_sum(b.input, most, log);
        compare("logsumexp", b, {error + u * std::fabs(most + log)});
        // log_softmax is (x - m) - log s.
        const Bounded each = bounded(fixed("log_softmax", columns, 0, 3, 17));
        std::vector<double> form;
        for (std::size_t i = 0; i < each.y.size(); ++i)
            form.push_back(error + u * std::fabs(each.input[i] - most) + u * std::fabs(each.y[i]));
        compare("log_softmax", each, form);
    }
}

TEST_CASE("bounds of losses agree with their closed forms", "[check]") {
    std::mt19937 random(21);
    RowCase c = row_case("cross_entropy", random, 50, 300, Store::fp32, Store::fp32, 0, 2);
    c.declaration.ignored.reset();
    for (std::int64_t& target : c.indices) target = std::max<std::int64_t>(target, 0);
    c.arrays.back() = integers("target", {50}, c.indices);
    c.declaration.reduction = check::Reduction::none;
    c.out_shape = {50};
    const Bounded each = bounded(c);
    const double n = 300;
    double errors = 0, losses = 0;
    std::vector<double> form, published;
    for (std::size_t r = 0; r < 50; ++r) {
        const std::vector<double> x(c.x.begin() + static_cast<std::ptrdiff_t>(r * 300),
                                    c.x.begin() + static_cast<std::ptrdiff_t>(r * 300 + 300));
        double most = 0, log = 0, largest = 0;
        const double error = of_log_sum(x, most, log), target = x[static_cast<std::size_t>(c.indices[r])];
        form.push_back(error + u * std::fabs(target - most) + u * std::fabs(each.y[r]));
        for (const double t : x) largest = std::max(largest, std::fabs(t));
        // The specification omits the last term. It is the error 3u |x - m| of the exponentials, with |x - m| at most 2
        // max|x|.
        published.push_back((n + 2 * k + 4) * u + 2 * u * 8 + 4 * u * largest + 3 * u * 2 * largest);
        errors += each.bound[r];
        losses += each.y[r];
    }
    compare("cross_entropy", each, form);
    compare_above("cross_entropy", each, published);
    c.declaration.reduction = check::Reduction::mean;
    c.out_shape = {};
    const Bounded mean = bounded(c);
    compare("mean", mean, {errors / 50 + (50 - 1 + 2) * u * losses / 50});
    compare_above("mean", mean, {errors / 50 + (50 + 2) * u * losses / 50});
}

}  // namespace row_bound_test
