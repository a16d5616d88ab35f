// SPDX-License-Identifier: Apache-2.0
// Compares references (the exact results that a check computes) with MPFR at 200 bits. The errors must not exceed the
// certificates, which are error bounds for the references and far below the limits of a check.
#include "experiments/check/truth/wide.hpp"
#include "tests/check/big.hpp"
#include "tests/check/row_kernels.hpp"

#include <cstdio>

namespace reference_test {

using namespace macheps;
using namespace macheps::test;

namespace {

using Bigs = std::vector<Big>;

Big gelu(const Big& x) { return x * (Big(1) + erf(x / sqrt(Big(2)))) / Big(2); }
Big gelu_tanh(const Big& x) {
    return x * (Big(1) + tanh(sqrt(Big(2) / Big::pi()) * (x + Big("0.044715") * x * x * x))) / Big(2);
}
Big silu(const Big& x) { return x / (Big(1) + exp(-x)); }

Big total(const Bigs& x) {
    Big s;
    for (const Big& t : x) s = s + t;
    return s;
}

std::optional<Big> element(const std::string& op, const Big& x) {
    if (op == "relu") return x < Big(0) ? Big(0) : x;
    if (op == "gelu") return gelu(x);
    if (op == "gelu_tanh") return gelu_tanh(x);
    if (op == "silu") return silu(x);
    if (op == "sigmoid") return Big(1) / (Big(1) + exp(-x));
    if (op == "tanh") return tanh(x);
    if (op == "exp") return exp(x);
    if (op == "cast") return x;
    return {};
}

/// Returns the results of one row for an operation with a reduction.
Bigs reduced(const std::string& op, const RowCase& c, const Bigs& x) {
    const Big n(static_cast<double>(x.size()));
    Big most = x.front(), least = x.front();
    Bigs exponentials, squares, y;
    for (const Big& t : x) {
        most = most < t ? t : most, least = t < least ? t : least;
        exponentials.push_back(exp(t)), squares.push_back(t * t);
    }
    if (op == "sum") return {total(x)};
    if (op == "mean") return {total(x) / n};
    if (op == "max" || op == "argmax") return {most};
    if (op == "min") return {least};
    if (op == "amax") return {abs(least) < abs(most) ? abs(most) : abs(least)};
    if (op == "norm2") return {sqrt(total(squares))};
    const Big sum = total(exponentials);
    if (op == "logsumexp") return {log(sum)};
    const Big mean = op == "layernorm" ? total(x) / n : Big(0);
    Bigs deviations;
    for (const Big& t : x) deviations.push_back((t - mean) * (t - mean));
    const Big deviation = sqrt(total(deviations) / n + Big(c.declaration.eps.value_or(0)));
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (op == "softmax") y.push_back(exponentials[i] / sum);
        if (op == "log_softmax") y.push_back(x[i] - log(sum));
        if (op == "rmsnorm") y.push_back(x[i] / deviation * Big(c.second[i]));
        if (op == "layernorm") y.push_back((x[i] - mean) / deviation * Big(c.second[i]) + Big(c.third[i]));
    }
    return y;
}

/// Returns the results of one row, without a reduction across rows.
Bigs oracle(const std::string& op, const RowCase& c, std::int64_t row) {
    const auto n = static_cast<std::size_t>(c.columns), from = static_cast<std::size_t>(row) * n;
    Bigs x, y;
    for (std::size_t i = 0; i < n; ++i)
        x.emplace_back(op == "embedding"
                           ? c.x[static_cast<std::size_t>(c.indices[static_cast<std::size_t>(row)]) * n + i]
                           : c.x[from + i]);
    for (std::size_t i = 0; i < n; ++i) {
        if (const auto one = element(op, x[i])) y.push_back(*one);
        if (op == "embedding") y.push_back(x[i]);
        if (op == "swiglu") y.push_back(silu(x[i]) * Big(c.second[from + i]));
        if (op == "geglu") y.push_back(gelu(x[i]) * Big(c.second[from + i]));
        if (op == "geglu_tanh") y.push_back(gelu_tanh(x[i]) * Big(c.second[from + i]));
        if (op != "rope") continue;
        const bool pairs = c.declaration.has_pairs, first = pairs ? i % 2 == 0 : i < n / 2;
        const std::size_t at = static_cast<std::size_t>(row) * (n / 2) + (pairs ? i / 2 : i % (n / 2));
        const Big other = x[pairs ? (i ^ 1) : first ? i + n / 2 : i - n / 2];
        y.push_back(x[i] * Big(c.second[at]) + (first ? -other : other) * Big(c.third[at]));
    }
    if (op == "cross_entropy") {
        const std::int64_t target = c.indices[static_cast<std::size_t>(row)];
        return {c.declaration.ignored == target
                    ? Big(0)
                    : reduced("logsumexp", c, x).front() - x[static_cast<std::size_t>(target)]};
    }
    return y.empty() ? reduced(op, c, x) : y;
}

/// Compares at least `cases` outputs of every operation with the oracle. Prints the largest errors if `is_told`.
void compare_references(int cases, bool is_told) {
    for (const std::string& op : row_operations()) {
        std::mt19937 random(200);
        double most = 0, certificate_share = 0;
        int judged = 0;
        while (judged < cases) {
            const float sigmas[] = {1, 1, 8, 0x1p-9f, 30};
            const RowCase c = row_case(op, random, 4, 1 + random() % 64, Store::fp32, Store::fp32,
                                       random() % 4 == 0 ? 100.0f : 0.0f, sigmas[random() % 5]);
            check::Posed posed = check::pose(c.declaration, stored_case(op, c, random_kernel(random)), pool());
            const check::Defect none{};
            check::Listing listing{.declaration = posed.problem.declaration,
                                   .inputs = posed.problem.inputs,
                                   .defect = none,
                                   .columns = posed.problem.columns};
            c.declaration.operation->list(listing);
            const check::Arithmetic own = check::reference_arithmetic(),
                                    kernel = check::kernel_arithmetic(check::find_functions("cuda"));
            check::Columns<check::Wide> values;
            check::Columns<double> certificates, bounds;
            for (std::int64_t r = 0; r < c.rows; ++r) {
                const check::Row row{
                    .row = r, .columns = c.columns, .count = c.columns, .inputs = &posed.problem.inputs};
                check::reference(listing.nodes.list(), row, values);
                check::bound(listing.nodes.list(), row, values, own, certificates);
                check::bound(listing.nodes.list(), row, values, kernel, bounds);
                const Bigs exact = oracle(op, c, r);
                REQUIRE(exact.size() == values.back().size());
                for (std::size_t i = 0; i < exact.size(); ++i, ++judged) {
                    const check::Wide y = values.back()[i];
                    const double error = std::fabs((exact[i] - Big(y.high) - Big(y.low)).value()),
                                 certificate = certificates.back()[i];
                    CAPTURE(op, r, i, y.high, y.low, exact[i].value(), error, certificate);
                    REQUIRE(error <= certificate);
                    if (certificate > 0) most = std::max(most, error / certificate);
                    if (bounds.back()[i] > 0)
                        certificate_share = std::max(certificate_share, certificate / bounds.back()[i]);
                }
            }
        }
        if (is_told)
            std::printf("%-14s %6d outputs, error at most %.3f certificates, certificates at most %.1e bounds\n",
                        op.c_str(), judged, most, certificate_share);
        CAPTURE(op, most, certificate_share);
        // The specification of the checks requires certificates below 2^-10 of the bound.
        CHECK(certificate_share < 0x1p-10);
    }
}

}  // namespace

TEST_CASE("references of operations on rows differ from MPFR by at most their certified error", "[check]") {
    compare_references(500, false);
}

TEST_CASE("ten thousand outputs of each reference differ from MPFR by at most their certified error", "[check][slow]") {
    compare_references(10000, true);
}

TEST_CASE("erf and tanh in the references have relative errors below 2^-47 and 2^-49", "[check]") {
    std::mt19937_64 random(17);
    double erf_error = 0, tanh_error = 0;
    const auto compare = [&](double x) {
        const Big e = erf(Big(x)), t = tanh(Big(x));
        if (x == 0) return;
        erf_error = std::max(erf_error, abs((Big(check::error_function(x)) - e) / e).value());
        tanh_error = std::max(tanh_error, abs((Big(check::hyperbolic_tangent(x)) - t) / t).value());
    };
    std::uniform_real_distribution<double> near(-7, 7), exponent(-140, 5);
    for (int i = 0; i < 40000; ++i) compare(near(random));
    for (int i = 0; i < 10000; ++i) compare(std::exp2(exponent(random)) * (i % 2 == 0 ? 1 : -1));
    CAPTURE(erf_error * 0x1p47, tanh_error * 0x1p49);
    CHECK(erf_error < 0x1p-47);
    CHECK(tanh_error < 0x1p-49);
    CHECK(check::error_function(0.0) == 0);
    CHECK(check::hyperbolic_tangent(-1e300) == -1);
}

}  // namespace reference_test
