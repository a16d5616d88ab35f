// SPDX-License-Identifier: Apache-2.0
// Tests the statements of a failed check about the cause: the declaration under which the kernel would pass, whether a matrix
// unit could have made the errors, and the wrong kernels with which the outputs agree.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "experiments/check/checked.hpp"
#include "experiments/check/declare/operations.hpp"
#include "tests/check/problems.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace hints_test {

using namespace macheps;
using namespace macheps::check;
using namespace macheps::files;

namespace {

constexpr std::int64_t rows = 24, columns = 300;

double rounded(double x, const Format& format, Round mode = Round::nearest_even) {
    return decode64(format, encode64(format, x, mode, Overflow::nonsaturate));
}

std::vector<double> random_numbers(std::int64_t count, double sigma, const Format& format, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> x(static_cast<std::size_t>(count));
    for (double& each : x) each = rounded(sigma * normal(random), format);
    return x;
}

StoredArray array_of(const std::string& name, const Format& format, std::vector<std::int64_t> shape,
                     const std::vector<double>& values) {
    if (format == fp32) return stored_array(name, std::move(shape), std::vector<float>(values.begin(), values.end()));
    std::vector<std::uint16_t> codes;
    for (const double x : values)
        codes.push_back(static_cast<std::uint16_t>(encode64(format, x, Round::nearest_even, Overflow::nonsaturate)));
    return stored_array(name, format, std::move(shape), std::as_bytes(std::span(codes)));
}

/// An RMSNorm with its gain, in fp64 except for the rounding `inner` before the gain and the last rounding.
struct Norm {
    double eps = 1e-5, sigma = 1;
    std::int64_t dropped = 0;  ///< terms that are missing in the sum of squares
    double factor = 1;
    std::function<double(double)> inner = [](double x) { return x; };
    Round mode = Round::nearest_even;
};

Checked check_norm(const Norm& kernel, const Options& options = {}) {
    const std::vector<double> x = random_numbers(rows * columns, kernel.sigma, fp16, 7),
                              gain = random_numbers(columns, 1, fp16, 8);
    std::vector<double> out(x.size());
    for (std::int64_t r = 0; r < rows; ++r) {
        const double* row = &x[static_cast<std::size_t>(r * columns)];
        double squares = 0;
        for (std::int64_t c = 0; c < columns - kernel.dropped; ++c) squares += row[c] * row[c];
        for (std::int64_t c = 0; c < columns; ++c) {
            const double y = kernel.factor * row[c] / std::sqrt(squares / columns + kernel.eps);
            out[static_cast<std::size_t>(r * columns + c)] =
                rounded(kernel.inner(y) * gain[static_cast<std::size_t>(c)], fp16, kernel.mode);
        }
    }
    Declaration d{.operation = &find_operation("rmsnorm")};
    check::declare(d, "eps", "1e-5");
    return check_arrays(d,
                        {array_of("x", fp16, {rows, columns}, x), array_of("gain", fp16, {columns}, gain),
                         array_of("out", fp16, {rows, columns}, out)},
                        options, test::pool());
}

constexpr std::int64_t m = 20, n = 256, k = 256;

/// Checks a product whose outputs have an error of `error` times the sum of |a b|, with alternating signs.
Checked check_product(const Format& format, double error, bool is_transposed = false) {
    const std::vector<double> a = random_numbers(m * k, 1, format, 3), b = random_numbers(k * n, 1, format, 4);
    std::vector<double> out;
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0, magnitudes = 0;
            for (std::int64_t q = 0; q < k; ++q) {
                const double product = a[static_cast<std::size_t>(i * k + q)] *
                                       b[static_cast<std::size_t>(is_transposed ? j * k + q : q * n + j)];
                sum += product;
                magnitudes += std::fabs(product);
            }
            out.push_back(sum + ((i + j) % 2 == 0 ? error : -error) * magnitudes);
        }
    }
    return check_arrays(
        {.operation = &find_operation("gemm")},
        {array_of("a", format, {m, k}, a), array_of("b", format, {k, n}, b), array_of("out", fp32, {m, n}, out)}, {},
        test::pool());
}

}  // namespace

TEST_CASE("a failed check names the tightest declaration under which the kernel passes", "[check]") {
    struct Case {
        std::function<Checked()> run;
        const char* hint;
        const char* why;
    };
    const auto to = [](const Format& format) { return [format](double x) { return rounded(x, format); }; };
    const std::vector<Case> cases{
        {[&] { return check_norm({.inner = to(fp16)}); }, "--inner fp16", "bf16 would pass, too, but has wider bounds"},
        {[&] { return check_norm({.inner = to(bf16)}); }, "--inner bf16", "fp16 would not pass"},
        {[&] { return check_norm({.mode = Round::toward_zero}); }, "--rounding toward_zero", "outputs are truncated"},
        {[&] { return check_norm({.factor = 1.05}); }, "", "no declaration explains a wrong factor"},
        {[&] { return check_product(bf16, 0, true); }, "--b-layout nk", "b is transposed"},
    };
    for (const Case& each : cases) {
        CAPTURE(each.hint, each.why);
        const Checked checked = each.run();
        CHECK(checked.outcome == Outcome::fail);
        CHECK(checked.explaining == each.hint);
    }
    const Checked checked = cases.front().run();
    CHECK(checked.text().find("would pass with --inner fp16.") != std::string::npos);
    CHECK(checked.text(true, Spelling::python).find("would pass with inner=\"fp16\".") != std::string::npos);
    CHECK(checked.text(true, Spelling::python).find("--") == std::string::npos);
}

// The errors are derived from the widest units for 256 terms. A unit for bf16 cuts each of the terms below 2^-23 of S,
// and rounds at most 64 sums by 2^-23 of S: less than 2^-14 S in all. A unit for fp16 that accumulates in fp16 rounds
// at least 16 sums by 2^-11 S. A unit for tf32 truncates each operand, by less than 2^-10 of it.
TEST_CASE("matrix units are mentioned only if the errors are within the bounds of one of them", "[check]") {
    struct Case {
        Format format;
        double error;  ///< relative to the sum of |a b|
        bool is_mentioned;
    };
    for (const Case& each :
         {Case{bf16, 4e-6, true}, Case{bf16, 1e-3, false}, Case{fp16, 4e-6, true}, Case{fp16, 4e-3, true},
          Case{fp16, 0.5, false}, Case{fp32, 1e-3, true}, Case{fp32, 1e-2, false}}) {
        CAPTURE(format_name(each.format), each.error);
        const Checked checked = check_product(each.format, each.error);
        CHECK(checked.outcome == Outcome::fail);
        CHECK((checked.text().find("declare --machine (macheps machine list)") != std::string::npos) ==
              each.is_mentioned);
        CHECK((checked.text(true, Spelling::python).find("declare machine (macheps machine list)") !=
               std::string::npos) == each.is_mentioned);
    }
}

TEST_CASE("a failed check names the wrong kernels with which all outputs agree", "[check]") {
    struct Case {
        Norm kernel;
        std::vector<std::string> names;
        const char* why;
    };
    const auto halved = [](double x) { return rounded(x, e5m2); };
    for (const Case& each :
         {Case{{.eps = 1e-6, .sigma = 1e-3}, {"eps 1e-06 for 1e-05"}, "x is small, so the outputs show the eps"},
          Case{{.dropped = 12}, {"last 12 terms dropped (K mod 16)"}, "300 mod 16 is 12"},
          Case{{.dropped = 11}, {}, "no simulated kernel drops 11 terms"},
          Case{{.eps = 1e-6, .sigma = 1e-3, .dropped = 12}, {}, "two faults at once"},
          Case{{.eps = 1e-6, .sigma = 1e-3, .inner = halved}, {}, "the roundings are too coarse for the wrong kernel"},
          Case{{.factor = 1.05}, {}, "no simulated kernel has this factor"}}) {
        CAPTURE(each.why);
        const Checked checked = check_norm(each.kernel);
        CHECK(checked.outcome == Outcome::fail);
        CHECK(checked.agrees_with == each.names);
        const std::string first = checked.text().substr(checked.text().find('\n') + 1);
        CHECK(first.starts_with("  the outputs agree with the wrong kernel `") != each.names.empty());
        CHECK(checked.json().at("agrees_with").size() == each.names.size());
    }
    const Checked right = check_norm({.sigma = 1e-3});
    CHECK(right.outcome != Outcome::fail);
    CHECK(right.agrees_with.empty());
    // If x is about 1, the outputs do not depend on the eps. The check fails because of its tolerance, so the outputs
    // are those of a right kernel.
    const Checked intolerant = check_norm({}, {.rtol = 1e-9});
    CHECK(intolerant.outcome == Outcome::fail);
    CHECK(intolerant.agrees_with.empty());
}

}  // namespace hints_test
