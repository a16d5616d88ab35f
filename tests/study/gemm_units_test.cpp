// SPDX-License-Identifier: Apache-2.0
// Compares every error statistic of `macheps gemm` and `macheps gemm --via` with exact rational arithmetic. Errors in
// ulps must count ulps of the output format.
#include "core/format_table.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/study/product/gemm.hpp"
#include "experiments/study/product/via.hpp"
#include "tests/study/rational.hpp"
#include "tests/test.hpp"

#include <map>
#include <string>
#include <vector>

namespace gemm_units_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::test;
using namespace macheps::reports;

namespace {

/// Exact values of one output, computed only from its operands.
struct Truth {
    Rational exact = 0, magnitudes = 0;
};

Truth truth_of(const std::vector<double>& a, const std::vector<double>& b) {
    Truth t;
    for (std::size_t p = 0; p < a.size(); ++p) {
        const Rational product = rational(a[p]) * rational(b[p]);
        t.exact += product;
        t.magnitudes += abs(product);
    }
    return t;
}

/// Checks the error statistics of a row whose only output is `out` against the exact values. Roundings in fp64 change a
/// statistic by at most 2^-45 of its value.
void check_figures(const GemmRow& row, double out, const Truth& t, const Format& output) {
    constexpr double tolerance = 0x1p-45;
    const Rational error = rational(out) - t.exact, size = abs(error);
    const Rational largest = rational(decode64(output, output.max_finite_code() << output.padding));
    const auto is = [&](double got, const Rational& expected) {
        return std::fabs(got - to_double(expected)) <= tolerance * to_double(abs(expected));
    };
    CHECK(row.outputs == 1);
    CHECK(row.first_exact == to_double(t.exact));
    CHECK(is(row.max_ulp, size / unit_in_last_place(output, t.exact, largest)));
    CHECK(is(row.mean_ulp, size / unit_in_last_place(output, t.exact, largest)));
    CHECK(is(row.max_error, size / t.magnitudes));
    CHECK(is(row.rms_error, size / t.magnitudes));
    CHECK(is(row.bias, error / t.magnitudes));
    CHECK(is(row.drift, (t.exact < 0 ? -error : error) / t.magnitudes));
    for (const auto& relative : {row.max_rel, row.mean_rel, row.rms_rel}) {
        REQUIRE(relative.has_value());
        CHECK(is(*relative, size / abs(t.exact)));
    }
    REQUIRE(row.sqnr_db.has_value());
    if (error == 0) {
        CHECK(std::isinf(*row.sqnr_db));
    } else {
        CHECK(*row.sqnr_db == Approx(20 * std::log10(std::fabs(to_double(t.exact / error)))).margin(1e-9));
    }
    if (row.bound) CHECK(row.max_error <= *row.bound);
    if (row.unit) CHECK(*row.unit > 0);
}

double rounded_by_table(const Format& format, double x) {
    const double largest = decode64(format, format.max_finite_code() << format.padding);
    const double near = to_double(nearest(rational(x), format.precision, 1 - format.exponent_bias));
    return std::max(-largest, std::min(largest, near));
}

}  // namespace

TEST_CASE("error statistics of a product are in ulps of its output format, for all machines and formats",
          "[experiments][gemm]") {
    CpuBackend backend(1);
    ThreadPool pool(1);
    std::size_t rows = 0, saturated = 0;
    std::map<std::string, int> of_output;
    for (const NamedFormat& output : all_formats) {
        if (output.format == fp64 || !output.format.has_sign()) continue;
        for (const auto& [machines, format] :
             {std::pair{
                  std::vector{"fp32.chain", "exact", "sm90.wgmma.fp8", "sm90.wgmma.fp8+promote64", "chain:bf16",
                              "chain:e2m1fn", "pairwise:fp16", "kahan:bf16", "exact:e3m2fn", "chain:fp16:toward_zero"},
                  e4m3fn},
              std::pair{std::vector{"sm80.mma.fp16", "sm70.mma.fp16", "fp32.pairwise", "chain:e3m2fn:down"}, fp16}}) {
            GemmGrid grid{.formats = {{format, format}},
                          .distributions = {Distribution::normal, Distribution::outliers},
                          .seeds = {0, 1},
                          .m = {1},
                          .n = {1},
                          .k = {23},
                          .output = output.format};
            for (const char* name : machines) grid.machines.push_back(parse_machine(name));
            run_gemm(backend, pool, grid, [&](const GemmRow& row) {
                CAPTURE(row.machine, row.output, row.distribution, row.seed, row.first, row.first_exact);
                std::vector<double> a, b;
                const Distribution data = *find_distribution(row.distribution);
                const auto seed = static_cast<std::uint64_t>(row.seed);
                for (std::int64_t p = 0; p < 23; ++p) {
                    a.push_back(rounded_by_table(format, drawn_element(data, Operand::a, seed, 0, p, 1)));
                    b.push_back(rounded_by_table(format, drawn_element(data, Operand::b, seed, 0, p, 1)));
                }
                const Truth t = truth_of(a, b);
                ++rows;
                ++of_output[row.output];
                REQUIRE(row.saturated.has_value());
                if (row.nonfinite == 1 || *row.saturated == 1) {
                    saturated += *row.saturated;
                    CHECK(row.max_ulp == 0);
                    CHECK_FALSE(row.max_rel.has_value());
                    CHECK(row.first_exact == to_double(t.exact));
                    return;
                }
                check_figures(row, row.first, t, output.format);
                // The error of an fp32 sum of 23 terms is at most 2^-12 times the sum of magnitudes. If an output did
                // not saturate, its exact value exceeds the range by no more than this error and a rounding.
                if (row.machine == "fp32.chain" || row.machine == "exact") {
                    const Rational largest =
                        rational(decode64(output.format, output.format.max_finite_code() << output.format.padding));
                    const Rational half = unit_in_last_place(output.format, largest, largest) / 2;
                    CHECK(abs(t.exact) <= largest + half + t.magnitudes / 4096);
                }
            });
        }
    }
    CHECK(rows == of_output.size() * (10 + 4) * 2 * 2);
    CHECK(saturated > 20);
}

TEST_CASE("certain bounds of gemm hold in formats that saturate, and saturated outputs are counted",
          "[experiments][gemm]") {
    CpuBackend backend(1);
    ThreadPool pool(1);
    std::uint64_t saturated = 0, beyond = 0;
    for (const Format& output : {e2m1fn, e2m3fn, e3m2fn, mxint8, e4m3fn, fp16}) {
        GemmGrid grid{.formats = {{e4m3fn, e4m3fn}, {e2m1fn, e2m1fn}},
                      .distributions = {Distribution::normal, Distribution::uniform, Distribution::positive},
                      .m = {8},
                      .n = {8},
                      .k = {16, 200},
                      .output = output};
        for (const char* name : {"sm90.wgmma.fp8", "fp32.chain", "chain:e2m1fn", "pairwise:e2m3fn", "chain:e3m2fn:up",
                                 "chain:bf16:toward_zero", "exact:e2m1fn"}) {
            grid.machines.push_back(parse_machine(name));
        }
        run_gemm(backend, pool, grid, [&](const GemmRow& row) {
            CAPTURE(row.machine, row.format_a, row.output, row.distribution, row.k, row.seed);
            if (row.bound) CHECK(row.max_error <= *row.bound);
            CHECK(row.beyond_bound.value_or(0) == 0);
            saturated += row.saturated.value_or(0);
            beyond += row.beyond_bound.value_or(0);
        });
    }
    CHECK(saturated > 500);
    CHECK(beyond == 0);
}

TEST_CASE("error statistics of gemm --via and of the plain product are in ulps of the output format",
          "[analysis][via]") {
    CpuBackend backend(1);
    ThreadPool pool(1);
    struct Way {
        const char *via, *machine;
        Format data, output;
        bool has_fp64_digits;
    };
    const Way ways[] = {
        {"bf16x9", "sm80.mma.bf16", fp32, fp32, false},       {"tf32x3", "sm80.mma.tf32", fp32, fp32, false},
        {"fp16x2", "sm80.mma.fp16", fp32, fp32, false},       {"ozaki1:6", "sm90.wgmma.fp16", fp64, fp64, true},
        {"ozaki1:2", "sm100.tcgen05.fp8", fp32, fp64, false},  // only two digits of 5 bits each
        {"ozaki1:auto", "exact.int32", fp64, fp64, true},     {"ozaki2:15", "exact.int32", fp64, fp64, true}};
    for (const Way& way : ways) {
        ViaGrid grid{.via = parse_via(way.via),
                     .machines = {parse_via_machine(way.machine)},
                     .formats = {way.data},
                     .distributions = {Distribution::normal, Distribution::positive, Distribution::lognormal},
                     .seeds = {0, 1, 2},
                     .m = {1},
                     .n = {1},
                     .k = {37}};
        bool has_all_digits = false;
        run_via(backend, pool, grid, [&](const GemmRow& row) {
            CAPTURE(row.via.value_or(""), row.distribution, row.seed, row.first, row.first_exact);
            CHECK(row.output == format_name(way.output));
            const WideOperands x = wide_operands(way.data, *find_distribution(row.distribution), row.seed, 1, 1, 1, 37);
            const Truth t = truth_of(x.a, x.b);
            check_figures(row, row.first, t, way.output);
            has_all_digits = has_all_digits || row.first != double{static_cast<float>(row.first)};
            // The plain product rounds the exact a * b + sum once for each term.
            Rational plain = 0;
            const int emin = way.output == fp64 ? -1022 : -126;
            for (std::size_t p = 0; p < x.a.size(); ++p)
                plain = nearest(rational(x.a[p]) * rational(x.b[p]) + plain, way.output.precision, emin);
            const Rational error = abs(Rational(plain - t.exact)),
                           place = power_of_two(last_place(t.exact, way.output.precision, emin));
            REQUIRE(row.plain_error.has_value());
            CHECK(*row.plain_error == Approx(to_double(error / t.magnitudes)).epsilon(1e-12).margin(0));
            CHECK(*row.plain_max_ulp == Approx(to_double(error / place)).epsilon(1e-12).margin(0));
            CHECK(*row.plain_mean_ulp == *row.plain_max_ulp);
            if (way.output == fp64) CHECK(row.plain_error == row.fp64_error);
            CHECK_FALSE(row.bound.has_value());
            CHECK_FALSE(row.probable_bound.has_value());
            CHECK_FALSE(row.unit.has_value());
            // Nine products of bf16 parts are about as accurate as fp32, so the error is a few ulps of fp32. In ulps of
            // fp64, it would be 2^29 times as large.
            if (way.output == fp32) CHECK(row.max_ulp < 64 * (1 + *row.plain_max_ulp));
        });
        CAPTURE(way.via);
        CHECK(has_all_digits == way.has_fp64_digits);
    }
}

TEST_CASE("exact sums of fp64 products keep every digit, even if large terms cancel", "[analysis][via]") {
    // The first and the third product cancel. The fourth product is 2^-900, far below the last digits of the others.
    const WideOperands x{.m = 1,
                         .n = 1,
                         .k = 4,
                         .a = {0x1p1000, 1 + 0x1p-52, -0x1p1000, 0x1p-500},
                         .b = {0x1.8p20, 1 + 0x1p-52, 0x1.8p20, 0x1p-400}};
    const WideErrors errors = wide_errors(x, {1 + 0x1p-51});
    // The exact sum is 1 + 2^-51 + 2^-104 + 2^-900.
    CHECK(errors.not_correct == 0);
    CHECK(wide_errors(x, {1.0}).not_correct == 1);
}

}  // namespace gemm_units_test
