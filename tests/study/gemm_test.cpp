// SPDX-License-Identifier: Apache-2.0
// Compares matrix products on the emulated machines with exact sums. Tests the exact sums, the error bounds, the stall
// of fp8 sums, and the error statistics of a row.
#include "experiments/study/product/gemm.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/study/product/error_bound.hpp"
#include "experiments/study/product/exact_product.hpp"
#include "experiments/study/sweep_axis.hpp"
#include "tests/test.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

namespace gemm_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;
using boost::multiprecision::cpp_int;

namespace {

/// Returns x * 2^800 as an integer. The last bit of x must be at least 2^-800.
cpp_int scaled_integer(double x) {
    int exponent = 0;
    const double fraction = std::frexp(x, &exponent);
    const cpp_int digits = static_cast<std::int64_t>(std::ldexp(fraction, 53));
    const int shift = exponent - 53 + 800;
    REQUIRE((shift >= 0 || digits == 0));
    return digits == 0 ? digits : digits << shift;
}

std::vector<GemmRow> rows_of(const GemmGrid& grid, int threads = 1) {
    CpuBackend backend(threads);
    ThreadPool pool(threads);
    std::vector<GemmRow> rows;
    run_gemm(backend, pool, grid, [&rows](const GemmRow& row) { rows.push_back(row); });
    return rows;
}

GemmRow row_of(const char* machine, GemmGrid grid) {
    grid.machines = {parse_machine(machine)};
    const std::vector<GemmRow> rows = rows_of(grid);
    REQUIRE(rows.size() == 1);
    return rows.front();
}

/// Returns the message of the error that `call` throws, or an empty text if it throws none.
template <class Call>
std::string error_of(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("exact sums are exact, over all of fp32 and through cancellation", "[experiments][gemm]") {
    struct Case {
        std::uint32_t exponents;  ///< exponent fields are drawn from 0 to exponents - 1
        bool cancels;
        const char* why;
    };
    const auto [exponents, cancels, why] =
        GENERATE(table<std::uint32_t, bool, const char*>({{255, false, "every exponent, subnormal numbers among them"},
                                                          {255, true, "all products except the last cancel"},
                                                          {8, false, "subnormal and small normal numbers only"},
                                                          {1, true, "subnormal numbers only"}}));
    CAPTURE(exponents, cancels, why);
    const std::uint32_t fields = exponents;  // a lambda cannot capture a structured binding
    for (std::uint64_t trial = 0; trial < 200; ++trial) {
        ExactAccumulator sum;
        cpp_int expected = 0;
        const int terms = 1 + static_cast<int>(trial % 40);
        const auto number = [&](std::uint64_t element) {
            const std::uint32_t bits = random_bits({.seed = trial, .site = site_id("test")}, element);
            return bit_cast<float>((bits & 0x807fffffu) | ((bits >> 9) % fields) << 23);
        };
        for (int t = 0; t <= terms; ++t) {
            // If `cancels`, each product except the last is added again with the opposite sign.
            const float a = number(std::uint64_t(2 * t)), b = number(std::uint64_t(2 * t + 1));
            const int times = cancels && t < terms ? 2 : 1;
            for (int twice = 0; twice < times; ++twice) {
                const float x = twice == 0 ? a : -a;
                sum.add_product(ExactAccumulator::split(x), ExactAccumulator::split(b));
                // The last bit of a product of two floats is at least 2^-298, so the shift is exact.
                expected += scaled_integer(double{x}) * scaled_integer(double{b}) >> 800;
            }
        }
        const WideValue value = sum.value();
        const cpp_int difference = abs(scaled_integer(value.high) + scaled_integer(value.low) - expected);
        CHECK((difference << 105) <= abs(expected));
        const bool fits = expected == 0 || msb(abs(expected)) - lsb(abs(expected)) < 106;
        if (fits) CHECK(difference == 0);
    }
    ExactAccumulator none;
    CHECK(none.value().high == 0);
}

TEST_CASE("an exact sum is rounded only once to the nearest fp64 number, even near and below 2^-1022",
          "[experiments][gemm]") {
    struct Case {
        std::vector<int> ones;  ///< exponents of the powers of two whose sum is the value
        double high, low;
    };
    for (const Case& c :
         {Case{{-1075}, 0, 0}, Case{{-1075, -1135}, 0x1p-1074, 0}, Case{{-2148}, 0, 0},
          Case{{-1074, -1075}, 0x1p-1073, 0}, Case{{-1073, -1075}, 0x1p-1073, 0},
          Case{{-1073, -1075, -2148}, 0x1.8p-1073, 0}, Case{{-1022, -1075, -1200}, 0x1.0000000000001p-1022, 0},
          Case{{-1021, -1074}, 0x1p-1021, 0x1p-1074}, Case{{-1021, -1074, -1100}, 0x1.0000000000001p-1021, -0x1p-1074},
          Case{{0, -53}, 1, 0x1p-53}, Case{{0, -53, -200}, 0x1.0000000000001p0, -0x1p-53}}) {
        CAPTURE(c.ones, c.high);
        for (const int sign : {1, -1}) {
            std::vector<std::int64_t> digits(80);
            for (const int one : c.ones)
                digits[static_cast<std::size_t>((one + 2148) / 32)] += sign * (std::int64_t{1} << ((one + 2148) % 32));
            const WideValue value = fixed_point_value(digits, -2148);
            CHECK(value.high == sign * c.high);
            CHECK(std::fabs(value.low - sign * c.low) <= 0x1p-52 * std::fabs(c.low));
        }
    }
}

TEST_CASE("an exact sum of 100,000 products with the same sign loses no carries", "[experiments][gemm]") {
    const float largest = std::numeric_limits<float>::max();
    ExactAccumulator sum;
    for (int i = 0; i < 100000; ++i)
        sum.add_product(ExactAccumulator::split(largest), ExactAccumulator::split(-largest));
    const WideValue value = sum.value();
    const cpp_int one = scaled_integer(double{largest}) * scaled_integer(double{largest}) >> 800;
    CHECK(scaled_integer(value.high) + scaled_integer(value.low) == -100000 * one);
}

TEST_CASE("the sum of wgmma fp8 stalls at 64 if every factor is 1/16, and promotion prevents the stall",
          "[experiments][gemm]") {
    GemmGrid grid{.formats = {{e4m3fn, e4m3fn}},
                  .distributions = {Distribution::equal},
                  .scales = {0.0625},
                  .m = {1},
                  .n = {1},
                  .k = {8192, 16352, 16384, 16416, 65536}};
    struct Case {
        const char* machine;
        float stops_at;
        const char* why;
    };
    const auto [machine, stops_at, why] = GENERATE(table<const char*, float, const char*>(
        {{"sm90.wgmma.fp8", 64, "512 instructions add 0.125 each; then 2^-8 is below the unit 2^(6 - 13)"},
         {"sm89.mma.fp8", 64, "the same 13 bits"},
         {"sm90.wgmma.fp8+promote128", 1e9f, "partial sums of 0.5 join an fp32 accumulator"},
         {"cutlass.fp8.default", 1e9f, "CUTLASS adds partial sums of 0.5 in the same way"},
         {"sm90.mma.fp8", 1e9f, "fp16 instructions of 25 bits"},
         {"sm100.tcgen05.fp8", 1e9f, "25 bits"},
         {"fp32.chain", 1e9f, "24 bits"}}));
    CAPTURE(machine, why);
    grid.machines = {parse_machine(machine)};
    for (const GemmRow& row : rows_of(grid)) {
        CAPTURE(row.k);
        CHECK(row.first_exact == double(row.k) / 256);
        CHECK(row.first == std::min(stops_at, float(row.k) / 256));
        CHECK(row.bias == row.drift);
        CHECK(row.max_error <= row.bound);
    }
}

namespace {

/// The number of outputs, the number of those whose errors exceed the certain bound, and the number of those whose
/// errors exceed the probable bound.
struct Judged {
    std::uint64_t outputs = 0, beyond_bound = 0, beyond_probable = 0;

    void add(const GemmRow& row) {
        CAPTURE(row.machine, row.format_a, row.distribution, row.scaling, row.scale, row.k, row.output);
        REQUIRE(row.beyond_bound.has_value());
        REQUIRE(row.beyond_probable.has_value());
        // max_error leaves out outputs whose products are all zero.
        CHECK(row.max_error <= row.bound);
        CHECK(*row.beyond_bound == 0);
        CHECK(row.probable_bound <= row.bound);
        outputs += row.outputs;
        beyond_bound += *row.beyond_bound;
        // If all numbers are equal, so are their rounding errors, and the probable bound does not hold.
        if (row.distribution != "equal") beyond_probable += *row.beyond_probable;
    }
};

constexpr Distribution every_distribution[] = {Distribution::normal,    Distribution::uniform, Distribution::positive,
                                               Distribution::lognormal, Distribution::equal,   Distribution::outliers};

/// Shape of an output: `m` rows of a times `n` columns of b.
struct OutputShape {
    std::int64_t m = 3, n = 5;
};

/// Compares the errors of every machine with their bounds, in every format that the machine accepts. Also compares
/// variants of the instructions that promote their sums or add slices of k. In one format, all machines get the same
/// operands.
Judged judge_machines(const std::vector<double>& scales, const std::vector<std::int64_t>& k, double lambda,
                      OutputShape shape = {}) {
    Judged judged;
    for (const Format& format : FormatSet::known) {
        GemmGrid grid{
            .formats = {{format, format}}, .scales = scales, .m = {shape.m}, .n = {shape.n}, .k = k, .lambda = lambda};
        grid.distributions.assign(std::begin(every_distribution), std::end(every_distribution));
        for (const Machine* machine : all_machines) {
            if (machine->result == fp64 || !takes(*machine, {format, format})) continue;
            const std::string name(machine->name);
            grid.machines.push_back(parse_machine(name));
            if (machine->instruction.empty() || machine->has_scales()) continue;
            grid.machines.push_back(parse_machine(name + "+promote64"));
            grid.machines.push_back(parse_machine(name + "+slices3"));
        }
        if (grid.machines.empty()) continue;
        for (const GemmRow& row : rows_of(grid)) judged.add(row);
    }
    return judged;
}

/// Computes products in the way of libraries, and compares their errors with their bounds. Covers scaled operands, the
/// libraries' rules for partial sums and slices, and output formats with a smaller range than the sums.
Judged judge_scalings(const std::vector<double>& scales, const std::vector<std::int64_t>& k, OutputShape shape = {}) {
    struct Case {
        const char* machine;
        Format format, output;
        OperandScaling scaling;
    };
    Judged judged;
    for (const Case& c : {Case{"fp32.chain", e4m3fn, bf16, OperandScaling::row},
                          {"cdna2.mfma.fp16", fp16, fp16, OperandScaling::row},
                          {"cdna2.mfma.fp16", fp16, fp32, OperandScaling::tensor},
                          {"sm90.wgmma.fp8", e4m3fn, fp16, OperandScaling::tensor},
                          {"torch.rowwise.sm90", e4m3fn, bf16, OperandScaling::row},
                          {"deepgemm.sm90.1d2d", e4m3fn, bf16, OperandScaling::deepgemm},
                          {"cutlass.fp8.blockwise", e4m3fn, fp32, OperandScaling::deepgemm},
                          {"sm100.tcgen05.mxfp8", e5m2, fp32, OperandScaling::mx32},
                          {"sm100.tcgen05.mxfp8", e4m3fn, fp16, OperandScaling::mx32},
                          {"sm100.tcgen05.mxfp4", e2m1fn, fp32, OperandScaling::mx32},
                          {"sm100.tcgen05.nvfp4", e2m1fn, bf16, OperandScaling::nvfp4},
                          {"sm80.mma.fp16+cutlass2.splitk.serial+slices3", fp16, fp16, OperandScaling::none},
                          {"sm90.mma.bf16+slices4", bf16, fp16, OperandScaling::none}}) {
        GemmGrid grid{.machines = {parse_machine(c.machine)},
                      .formats = {{c.format, c.format}},
                      .scalings = {c.scaling},
                      .scales = scales,
                      .m = {shape.m},
                      .n = {shape.n},
                      .k = k,
                      .output = c.output};
        grid.distributions.assign(std::begin(every_distribution), std::end(every_distribution));
        for (const GemmRow& row : rows_of(grid)) judged.add(row);
    }
    return judged;
}

/// Returns an upper bound for the probability that an output exceeds the probable bound.
double stated_probability(double lambda) { return 2 * std::exp(-lambda * lambda / 2); }

}  // namespace

TEST_CASE("no output exceeds its certain bound, and few exceed their probable bound", "[experiments][gemm]") {
    // The operands are multiplied by these scales. After that, they are in the middle of the range of the formats,
    // subnormal, or so large that they saturate.
    const Judged machines = judge_machines({0x1p-16, 0x1p-9, 0x1p-5, 1, 0x1p16}, {32, 700}, 4);
    CHECK(machines.outputs > 200000);
    CHECK(machines.beyond_bound == 0);
    CHECK(double(machines.beyond_probable) <= stated_probability(4) * double(machines.outputs));
    const Judged scalings = judge_scalings({0x1p-16, 0x1p-5, 1, 0x1p16}, {300});
    CHECK(scalings.outputs > 4000);
    CHECK(scalings.beyond_bound == 0);
    CHECK(double(scalings.beyond_probable) <= stated_probability(4) * double(scalings.outputs));
}

TEST_CASE("no output exceeds its certain bound, over every scale from 2^-16 to 2^16", "[experiments][gemm][slow]") {
    std::vector<double> scales;
    for (int e = -16; e <= 16; ++e) scales.push_back(std::ldexp(1.0, e));
    for (const double lambda : {2.0, 4.0}) {
        const Judged machines = judge_machines(scales, {32, 700, 4096}, lambda);
        const Judged scalings = judge_scalings(scales, {32, 700, 4096});
        std::cout << "lambda " << lambda << ": " << machines.outputs << " and " << scalings.outputs << " outputs, "
                  << machines.beyond_bound + scalings.beyond_bound << " beyond the certain bound, "
                  << machines.beyond_probable << " and " << scalings.beyond_probable << " beyond the probable one\n";
        CHECK(machines.outputs > 2000000);
        CHECK(double(machines.beyond_probable) <= stated_probability(lambda) * double(machines.outputs));
        CHECK(double(scalings.beyond_probable) <= stated_probability(4) * double(scalings.outputs));
    }
}

namespace {

/// Checks that truncation errors accumulate on positive data. Their mean must be many standard deviations from zero,
/// but all errors must be within the probable bound.
void check_mean_of_cutting(std::int64_t k) {
    for (const char* name : {"sm70.mma.fp16", "sm80.mma.fp16", "sm90.mma.fp16", "fp16.chain"}) {
        CAPTURE(name, k);
        const GemmRow row = row_of(
            name, {.formats = {{fp16, fp16}}, .distributions = {Distribution::positive}, .m = {4}, .n = {4}, .k = {k}});
        CHECK(row.beyond_probable == 0);
        CHECK(row.max_error <= row.probable_bound);
        CHECK(row.drift < -4 * std::sqrt(double(row.k)) * *row.unit / 2);
    }
}

}  // namespace

TEST_CASE("the probable bound includes the non-zero mean of truncation errors", "[experiments][gemm]") {
    check_mean_of_cutting(1 << 14);
}

TEST_CASE("sums of up to 2^17 terms stay within both bounds on every machine", "[experiments][gemm][slow]") {
    const std::vector<double> scales{0x1p-9, 0x1p-5, 1};
    const std::vector<std::int64_t> k{1 << 13, 1 << 15, 1 << 17};
    const Judged machines = judge_machines(scales, k, 4, {2, 2}), scalings = judge_scalings(scales, k, {2, 2});
    std::cout << machines.outputs << " and " << scalings.outputs << " outputs, " << machines.beyond_bound << " and "
              << scalings.beyond_bound << " beyond the certain bound, " << machines.beyond_probable << " and "
              << scalings.beyond_probable << " beyond the probable one\n";
    CHECK(machines.outputs > 80000);
    CHECK(machines.beyond_bound == 0);
    CHECK(double(machines.beyond_probable) <= stated_probability(4) * double(machines.outputs));
    CHECK(scalings.outputs > 2000);
    CHECK(scalings.beyond_bound == 0);
    CHECK(double(scalings.beyond_probable) <= stated_probability(4) * double(scalings.outputs));
    check_mean_of_cutting(1 << 17);
}

TEST_CASE("the certain bound includes underflow and flushed operands", "[experiments][gemm]") {
    struct Case {
        const char* machine;
        double scale;
        const char* why;
    };
    for (const Case& c : {Case{"cdna2.mfma.fp16", 0x1p-5, "reads subnormal operands as zero"},
                          Case{"fp16.chain", 0x1p-9, "sums below 2^-14 lose half of 2^-24"},
                          Case{"sm80.mma.fp16.acc16", 0x1p-9, "fp16 accumulators as well"},
                          Case{"sm90.mma.fp16.acc16", 0x1p-11, "fp16 accumulators as well"}}) {
        CAPTURE(c.machine, c.why);
        const GemmRow row =
            row_of(c.machine, {.formats = {{fp16, fp16}}, .scales = {c.scale}, .m = {8}, .n = {8}, .k = {1024}});
        CHECK(row.beyond_bound == 0);
        CHECK(row.bound > 1.02 * *row.unit * double(row.k));  // underflow makes the bound more than 2 % larger
        CHECK(row.max_error > error_bound(parse_machine("exact").rule, row.k, fp32, 0).relative());
    }
    // Computed by hand. A product of 2^-30 underflows completely in fp16, and any result in fp16 can lose up to 2^-25.
    const ErrorBound bound = error_bound(parse_machine("fp16.chain").rule, 1, fp16, 0);
    CHECK(bound.certain({.magnitudes = 0x1p-30, .lifted = 0x1p-30}) ==
          Approx(0x1p-41 + (1 + 0x1p-11) * 0x1p-25).epsilon(1e-9));
    // CDNA2 loses products with subnormal factors completely, which adds their magnitudes to the bound.
    const ErrorBound flushed = error_bound(parse_machine("cdna2.mfma.fp16").rule, 4, fp32, 0);
    CHECK(flushed.certain({.magnitudes = 1, .lifted = 2, .flushed = 0x1p-10}) ==
          Approx(flushed.relative() + (1 + flushed.relative()) * 0x1p-10).epsilon(1e-9));
    // An instruction truncates its terms at a unit that depends on their exponents. A subnormal factor then counts as
    // the smallest normal number.
    const ErrorBound cut = error_bound(parse_machine("sm80.mma.fp16").rule, 8, fp32, 0);
    CHECK(cut.certain({.magnitudes = 1, .lifted = 3}) == Approx(8 * 3 * 0x1p-24 + 0x1p-23).epsilon(1e-9));
}

TEST_CASE("the certain bound of a machine follows from its row in the table of machines", "[experiments][gemm]") {
    struct Case {
        const char* machine;
        std::int64_t k;
        double bound;
        const char* why;
    };
    const double grown = (1 + 0x1p-11) * (1 + 0x1p-11);
    const auto [machine, k, bound, why] = GENERATE_COPY(table<const char*, std::int64_t, double, const char*>(
        {{"fp32.chain", 1000, 1000 * 0x1p-24, "one rounding to nearest per term"},
         {"bf16.chain", 10, 10 * 0x1p-8, "the same in bf16"},
         {"fp32.pairwise", 1000, 11 * 0x1p-24 * (1 + 11 * 0x1p-24), "the product, and ten levels"},
         {"fp32.kahan", 1000, 4 * 0x1p-24 + 4012 * 0x1p-48, "four roundings, and their second-order terms"},
         {"exact", 1000, 0x1p-24, "one rounding"},
         {"sm80.mma.fp16", 1600, 1600 * 0x1p-24 + 200 * 0x1p-23, "F = 24, steps of 8 cut to 24 bits"},
         {"sm90.mma.fp16", 1600, 1600 * 0x1p-25 + 100 * 0x1p-23, "F = 25, steps of 16"},
         {"sm90.wgmma.fp8", 320, 320 * 0x1p-13 + 10 * 0x1p-13, "F = 13, steps of 32 cut to 14 bits"},
         {"sm90.wgmma.fp8+promote128", 1280, 132 * 0x1p-13 + 10 * 0x1p-24 * (1 + 132 * 0x1p-13),
          "the bound of one block, and ten additions of such sums"},
         {"sm90.wgmma.fp8.acc16", 64, grown * (64 * 0x1p-13 + 2 * 0x1p-11),
          "rounded to fp16 to nearest, which can lift two sums"},
         {"sm100.tcgen05.nvfp4", 128, 8 * 0x1p-35 + 2 * 0x1p-23, "groups of 16 cut at 35 bits"},
         {"cdna1.mfma.fp16", 400, 100 * 0x1p-24, "exact steps of 4"}}));
    CAPTURE(machine, k, why);
    const SpelledRule spelled = parse_machine(machine);
    CHECK(error_bound(spelled.rule, k, spelled.rule.machine->result, 0).relative() == Approx(bound).epsilon(1e-12));
    // Rounding to bf16 adds one rounding, and undoing a scale adds another. Each is relative to the number that it
    // rounds.
    CHECK(error_bound(spelled.rule, k, bf16, 1).relative() ==
          Approx((1 + bound) * (1 + 0x1p-24) * (1 + 0x1p-8) - 1).epsilon(1e-12));
}

TEST_CASE("the probable bound is the mean of the truncation errors plus a multiple of their deviation",
          "[experiments][gemm]") {
    // Bounds from the literature. The probable bound is the mean error plus lambda times the root of the sum of the
    // squared half-widths of the errors, with lambda = 7.
    struct Case {
        const char* machine;
        std::int64_t k;
        double certain, probable;
    };
    const OutputSize one{.magnitudes = 1, .lifted = 1};
    for (const Case& c :
         {Case{"fp32.chain", 128, 7.63e-6, 4.7e-6}, Case{"fp32.chain", 1024, 6.10e-5, 1.3e-5},
          Case{"fp32.chain", 4096, 2.44e-4, 2.7e-5}, Case{"sm70.mma.fp16", 1024, 1.53e-4, 9.1e-5},
          Case{"sm70.mma.fp16", 4096, 6.10e-4, 3.4e-4}, Case{"sm80.mma.fp16", 1024, 7.63e-5, 4.6e-5},
          Case{"sm80.mma.bf16", 4096, 3.05e-4, 1.7e-4}, Case{"sm90.mma.fp16", 1024, 3.81e-5, 2.4e-5},
          Case{"sm90.mma.bf16", 4096, 1.53e-4, 8.6e-5}, Case{"sm90.wgmma.fp8", 1024, 0.129, 7.8e-2},
          Case{"sm90.wgmma.fp8", 4096, 0.516, 0.29}, Case{"sm90.wgmma.fp8+promote128", 4096, 1.61e-2, 1.3e-2},
          Case{"sm100.tcgen05.fp8", 1024, 3.43e-5, 2.1e-5}, Case{"sm100.tcgen05.fp8", 4096, 1.37e-4, 7.7e-5}}) {
        CAPTURE(c.machine, c.k);
        const ErrorBound bound = error_bound(parse_machine(c.machine).rule, c.k, fp32, 0);
        CHECK(bound.certain(one) == Approx(c.certain).epsilon(0.005));
        CHECK(bound.probable(one, 7) == Approx(c.probable).epsilon(0.04));
    }
    const auto at = [&](const char* name, std::int64_t k, double lambda) {
        return error_bound(parse_machine(name).rule, k, fp32, 0).probable(one, lambda);
    };
    // With rounding to nearest, the bound is proportional to sqrt(k) and to lambda. If truncation errors dominate, it
    // is proportional to k.
    CHECK(at("fp32.chain", 1 << 12, 4) == Approx(4 * at("fp32.chain", 1 << 8, 4)).epsilon(0.01));
    CHECK(at("fp32.chain", 1 << 12, 2) == Approx(at("fp32.chain", 1 << 12, 4) / 2).epsilon(0.01));
    CHECK(at("sm90.wgmma.fp8", 1 << 20, 4) == Approx(16 * at("sm90.wgmma.fp8", 1 << 16, 4)).epsilon(0.05));
    // If an accumulator can stall, the probable bound equals the certain bound. fp16 can stall after 2^12 terms.
    const ErrorBound stalled = error_bound(parse_machine("fp16.chain").rule, 1 << 12, fp16, 0);
    CHECK(stalled.probable(one, 4) == stalled.certain(one));
    CHECK(at("fp32.chain", 1, 4) <= error_bound(parse_machine("fp32.chain").rule, 1, fp32, 0).certain(one));
}

TEST_CASE("the error statistics of a row agree with statistics that are computed from its outputs",
          "[experiments][gemm]") {
    constexpr std::int64_t m = 5, n = 7, k = 300;
    const GemmRow row =
        row_of("sm90.wgmma.fp8", {.formats = {{e4m3fn, e5m2}}, .seeds = {3}, .m = {m}, .n = {n}, .k = {k}});
    CpuBackend backend(1);
    const auto operand = [&](Operand which, Shape shape, std::int64_t outer, Format format) {
        const Tensor x = backend.empty(shape);
        backend.upload(drawn_operand(Distribution::normal, which, 3, outer, k, 1), x);
        backend.cast(x, x, {.format = format, .overflow = Overflow::saturate});
        return x;
    };
    const Tensor a = operand(Operand::a, {m, k}, m, e4m3fn), b = operand(Operand::b, {k, n}, n, e5m2);
    const Tensor out = backend.empty({m, n});
    Matmul args{.m = m, .n = n, .k = k};
    args.a = {.data = a.data(), .ld = k, .format = e4m3fn};
    args.b = {.data = b.data(), .ld = n, .format = e5m2};
    args.out = out.data(), args.ld_out = n;
    args.rule.machine = find_machine("sm90.wgmma.fp8");
    backend.matmul(args);
    double max_rel = 0, sum_rel = 0, square_rel = 0, max_ulp = 0, max_error = 0, bias = 0, drift = 0, signal = 0,
           noise = 0;
    for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
            // Sums of these fp8 products are multiples of 2^-25 and less than 2^20, so they are exact in fp64.
            double exact = 0, magnitudes = 0;
            for (std::int64_t p = 0; p < k; ++p) {
                const double product = double{a.data()[i * k + p]} * double{b.data()[p * n + j]};
                exact += product, magnitudes += std::fabs(product);
            }
            const double e = out.data()[i * n + j] - exact;
            max_rel = std::max(max_rel, std::fabs(e / exact)), sum_rel += std::fabs(e / exact);
            square_rel += e / exact * (e / exact);
            max_ulp = std::max(max_ulp, std::fabs(e) / std::ldexp(1.0, std::ilogb(exact) - 23));
            max_error = std::max(max_error, std::fabs(e) / magnitudes);
            bias += e / magnitudes, drift += std::copysign(1.0, exact) * e / magnitudes;
            signal += exact * exact, noise += e * e;
        }
    }
    CHECK(row.outputs == m * n);
    CHECK(row.nonfinite == 0);
    CHECK(row.max_rel.value() == Approx(max_rel));
    CHECK(row.mean_rel.value() == Approx(sum_rel / (m * n)));
    CHECK(row.rms_rel.value() == Approx(std::sqrt(square_rel / (m * n))));
    CHECK(row.max_ulp == Approx(max_ulp));
    CHECK(row.max_error == Approx(max_error));
    CHECK(row.bias == Approx(bias / (m * n)));
    CHECK(row.drift == Approx(drift / (m * n)));
    CHECK(row.sqnr_db.value() == Approx(10 * std::log10(signal / noise)));
    CHECK(row.first == out.data()[0]);
    CHECK(row.output == "fp32");
    CHECK(row.evidence == "hardware");
    CHECK(max_error > 0);
}

TEST_CASE("fp8 sums keep 14 bits on Hopper, are more accurate with promotion, and still more accurate on Blackwell",
          "[experiments][gemm]") {
    GemmGrid grid{.formats = {{e4m3fn, e4m3fn}}, .m = {4}, .n = {4}, .k = {1 << 14}};
    for (const char* name : {"sm90.wgmma.fp8", "sm90.wgmma.fp8+promote128", "sm100.tcgen05.fp8"})
        grid.machines.push_back(parse_machine(name));
    const std::vector<GemmRow> rows = rows_of(grid);
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].rms_error > 8 * rows[1].rms_error);
    CHECK(rows[1].rms_error > 8 * rows[2].rms_error);
    CHECK(rows[0].first_exact == rows[2].first_exact);
    CHECK(rows[0].operand_sqnr_db == rows[2].operand_sqnr_db);
    // The ten lowest bits of Hopper's fp32 results are zero. With promotion they are not.
    CHECK((bit_cast<std::uint32_t>(static_cast<float>(rows[0].first)) & 0x3ff) == 0);
    CHECK((bit_cast<std::uint32_t>(static_cast<float>(rows[1].first)) & 0x3ff) != 0);
}

TEST_CASE("the generated operands for a larger m or k contain the operands for a smaller m and k",
          "[experiments][gemm]") {
    for (const NamedDistribution& row : all_distributions) {
        CAPTURE(row.name);
        const auto x = drawn_operand(row.distribution, Operand::a, 1, 2, 8, 1);
        const auto longer = drawn_operand(row.distribution, Operand::a, 1, 3, 20, 1);
        const auto columns = drawn_operand(row.distribution, Operand::b, 1, 3, 20, 0.5);
        for (std::int64_t o = 0; o < 2; ++o) {
            for (std::int64_t p = 0; p < 8; ++p) {
                CHECK(x[o * 8 + p] == longer[o * 20 + p]);
                CHECK(columns[p * 3 + o] == drawn_element(row.distribution, Operand::b, 1, o, p, 0.5));
            }
        }
        if (row.distribution != Distribution::equal) {
            CHECK(x[0] != x[1]);
            CHECK(drawn_operand(row.distribution, Operand::a, 2, 2, 8, 1) != x);
        }
    }
}

TEST_CASE("each distribution has the expected mean and standard deviation", "[experiments][gemm]") {
    constexpr std::int64_t count = 20000;
    struct Case {
        Distribution distribution;
        double mean, deviation;
    };
    // The standard error of a mean of 20000 draws is deviation / 141. The test allows five standard errors.
    for (const Case& c : {Case{Distribution::normal, 0, 1}, Case{Distribution::uniform, 0, 1 / std::sqrt(3)},
                          Case{Distribution::positive, 0.5, 1 / std::sqrt(12)}, Case{Distribution::equal, 1, 0},
                          Case{Distribution::outliers, 0, std::sqrt(1 + 4095.0 / 128)}}) {
        CAPTURE(to_string(c.distribution));
        double sum = 0, squares = 0;
        for (const float x : drawn_operand(c.distribution, Operand::a, 0, 1, count, 1)) {
            sum += x;
            squares += (x - c.mean) * (x - c.mean);
        }
        CHECK(std::fabs(sum / count - c.mean) <= 5 * c.deviation / std::sqrt(double(count)));
        CHECK(std::sqrt(squares / count) == Approx(c.deviation).epsilon(0.15));
    }
    int above = 0, positive = 0;
    for (const float x : drawn_operand(Distribution::lognormal, Operand::a, 0, 1, count, 1)) {
        above += std::fabs(x) > 1 ? 1 : 0;
        positive += x > 0 ? 1 : 0;
    }
    for (const int half : {above, positive}) CHECK(std::abs(half - count / 2) < 5 * std::sqrt(count / 4.0));
}

TEST_CASE("tensor scaling uses the full range of the format for operands of any magnitude", "[experiments][gemm]") {
    GemmGrid grid{.formats = {{e4m3fn, e4m3fn}}, .scalings = {OperandScaling::tensor}, .m = {4}, .n = {4}, .k = {256}};
    const GemmRow plain = row_of("sm100.tcgen05.fp8", grid);
    grid.scales = {0x1p-12};
    const GemmRow small = row_of("sm100.tcgen05.fp8", grid);
    // If the operands are multiplied by a power of two, only the scales change, and they change by exactly this factor.
    CHECK(small.first == plain.first * 0x1p-24f);
    CHECK(small.max_rel == plain.max_rel);
    CHECK(small.operand_sqnr_db.value() == Approx(plain.operand_sqnr_db.value()));
    CHECK(plain.operand_sqnr_db.value() > 25);
    grid.scalings = {OperandScaling::none};
    CHECK(row_of("sm100.tcgen05.fp8", grid).outputs == 16);
    CHECK(row_of("sm100.tcgen05.fp8", grid).first == 0);  // 2^-12 is below half of e4m3fn's smallest number
}

TEST_CASE("the sum is divided by the scales of its operands, for every kind of scaling", "[experiments][gemm]") {
    struct Case {
        const char* machine;
        Format format;
        OperandScaling scaling;
        double min_sqnr, greatest_sqnr;  ///< dB, for the rounding of the operands
        const char* why;
    };
    const auto [machine, format, scaling, least, greatest, why] =
        GENERATE(table<const char*, Format, OperandScaling, double, double, const char*>({
            {"fp32.chain", e4m3fn, OperandScaling::row, 26, 32, "e4m3 keeps 4 bits: 31.5 dB, a product of two 28.5"},
            {"torch.rowwise.sm90", e4m3fn, OperandScaling::row, 26, 32, "one factor after the other"},
            {"deepgemm.sm90.1d2d", e4m3fn, OperandScaling::deepgemm, 26, 32, "scales change every 128 terms"},
            {"cutlass.fp8.blockwise", e4m3fn, OperandScaling::deepgemm, 26, 32, "the other association"},
            {"sm100.tcgen05.mxfp8", e4m3fn, OperandScaling::mx32, 26, 32, "scales of 32 terms in the machine"},
            {"sm100.tcgen05.mxfp8", e5m2, OperandScaling::mx32, 20, 26, "one bit less, 6 dB"},
            {"sm100.tcgen05.mxfp4", e2m1fn, OperandScaling::mx32, 11, 17, "fp4 with powers of two"},
            {"sm100.tcgen05.nvfp4", e2m1fn, OperandScaling::nvfp4, 14, 21, "fp4 with scales of 4 bits: 17.6 dB"},
        }));
    CAPTURE(machine, why);
    // With 300 terms, the last block of each row is incomplete. The operands have magnitudes near 2^-6, and the scales
    // move them into the range of the format.
    GemmGrid grid{
        .formats = {{format, format}}, .scalings = {scaling}, .scales = {0x1p-6}, .m = {5}, .n = {7}, .k = {300}};
    const GemmRow row = row_of(machine, grid);
    CHECK(row.outputs == 35);
    CHECK(row.max_error <= row.bound);
    CHECK(row.operand_sqnr_db.value() > least);
    CHECK(row.operand_sqnr_db.value() < greatest);
    CHECK(row.scaling == to_string(scaling));
    CHECK(find_scaling(row.scaling) == scaling);
    // If the scales were not undone, the sum would have a different magnitude than the product without scales.
    grid.machines = {parse_machine("exact")};
    grid.formats = {{fp32, fp32}}, grid.scalings = {OperandScaling::none};
    const GemmRow drawn = rows_of(grid).front();
    CHECK(std::fabs(row.first_exact / drawn.first_exact - 1) < 0.5);
}

TEST_CASE("the tensor scales of two NVFP4 operands are one factor, computed from both amaxes", "[experiments][gemm]") {
    // All elements are equal to the amax. The codes are therefore 6 and the block scales 448. Each of the 16 products
    // is 36 * 448^2.
    GemmGrid grid{.formats = {{e2m1fn, e2m1fn}},
                  .distributions = {Distribution::equal},
                  .scalings = {OperandScaling::nvfp4},
                  .scales = {1.1},
                  .m = {1},
                  .n = {1},
                  .k = {16}};
    const float factor = (1.1f * 1.1f) * static_cast<float>(1 / (2688.0 * 2688.0)), one = 1.0f / (2688.0f / 1.1f);
    REQUIRE(factor != one * one);
    CHECK(row_of("sm100.tcgen05.nvfp4", grid).first == 16 * 36 * 448.0f * 448.0f * factor);
}

TEST_CASE("a machine is left out if it cannot apply the scales", "[experiments][gemm]") {
    struct Case {
        const char* machine;
        OperandScaling scaling;
        bool taken;
    };
    for (const Case& c :
         {Case{"fp32.chain", OperandScaling::mx32, false}, Case{"sm90.wgmma.fp8", OperandScaling::deepgemm, false},
          Case{"sm90.wgmma.fp8+promote128", OperandScaling::deepgemm, false},
          Case{"deepgemm.sm90.1d2d", OperandScaling::deepgemm, true},
          Case{"deepgemm.sm90.1d2d", OperandScaling::tensor, true},
          Case{"sm100.tcgen05.mxfp8", OperandScaling::row, false},
          Case{"sm100.tcgen05.mxfp8", OperandScaling::mx32, true},
          Case{"sm100.tcgen05.mxfp8", OperandScaling::nvfp4, false},
          Case{"sm90.wgmma.fp8", OperandScaling::row, true}}) {
        CAPTURE(c.machine, to_string(c.scaling));
        CHECK(takes(parse_machine(c.machine).rule, {e4m3fn, e4m3fn}, c.scaling) == c.taken);
    }
    CHECK_FALSE(takes(parse_machine("sm90.wgmma.fp8").rule, {fp16, fp16}, OperandScaling::none));
    GemmGrid grid{
        .machines = {parse_machine("fp32.chain")}, .formats = {{fp16, fp16}}, .scalings = {OperandScaling::mx32}};
    CHECK(error_of([&grid] { rows_of(grid); }).find("formats, scalings: ") == 0);
}

TEST_CASE("the exact product multiplies the exact sum of each block by the factors of the block",
          "[experiments][gemm]") {
    // The first block has two terms and the second has one, so the sum is 2^31 * 0.3f + 0.3f * 0.3f. Its digits do not
    // fit in fp64.
    ThreadPool pool(1);
    const std::vector<float> a{1, 1, 1}, b{1, 1, 1};
    const BlockFactors factors{.block = 2, .a = {0x1p30f, 0.3f}, .b = {0.3f, 0.3f}};
    const ExactOutput out = exact_product(a, b, 1, 1, 3, pool, factors).front();
    const cpp_int factor = scaled_integer(double{0.3f});
    const cpp_int expected = (factor << 31) + (factor * factor >> 800);
    CHECK(scaled_integer(out.sum.high) + scaled_integer(out.sum.low) == expected);
    CHECK(out.magnitudes == Approx(0x1p31 * 0.3f));
}

TEST_CASE("outputs that overflow are counted and left out of the statistics", "[experiments][gemm]") {
    const GemmRow row = row_of("sm90.mma.fp16.acc16", {.formats = {{fp16, fp16}},
                                                       .distributions = {Distribution::positive},
                                                       .scales = {16},
                                                       .m = {8},
                                                       .n = {8},
                                                       .k = {1024}});
    CHECK(row.nonfinite > 0);
    CHECK(row.outputs > 0);
    CHECK(row.nonfinite + row.outputs == 64);
    CHECK(std::isfinite(row.max_error));
}

TEST_CASE("the rows of gemm do not depend on the number of threads", "[experiments][gemm]") {
    GemmGrid grid{.formats = {{e4m3fn, e4m3fn}, {e5m2, e4m3fn}}, .m = {9}, .n = {33}, .k = {64, 500}};
    grid.machines = {parse_machine("sm90.wgmma.fp8"), parse_machine("fp32.chain"), parse_machine("sm80.mma.fp16")};
    const std::vector<GemmRow> rows = rows_of(grid, 1);
    CHECK(rows.size() == 8);  // fp16 instructions do not accept fp8
    CHECK(rows_of(grid, 3) == rows);
}

TEST_CASE("a sweep is written as a range, whose values double, or as a list", "[experiments][gemm]") {
    CHECK(parse_sweep("k=16..128").integers() == std::vector<std::int64_t>{16, 32, 64, 128});
    CHECK(parse_sweep("k=16..100").integers() == std::vector<std::int64_t>{16, 32, 64});
    CHECK(parse_sweep("n=1,7,2^6").integers() == std::vector<std::int64_t>{1, 7, 64});
    CHECK(parse_sweep("scale=2^-2..1").values == std::vector<double>{0.25, 0.5, 1});
    CHECK(parse_sweep("scale=0.1,-3").values == std::vector<double>{0.1, -3});
    const SweepRule steps[] = {{.name = "c", .step = 1}};
    CHECK(parse_sweep("c=0..999", steps, "an example").values.size() == 1000);
    CHECK(error_of([&] { parse_sweep("c=0..1000", steps, "an example"); }).find("at most 1000 values") !=
          std::string::npos);
    for (const char* bad :
         {"k", "k=", "q=1", "k=0..4", "k=8..4", "k=1.5", "k=-1", "k=1,,2", "scale=x", "scale=2^x", "m=inf"}) {
        CAPTURE(bad);
        CHECK(error_of([bad] { parse_sweep(bad); }).find(std::string("sweep ") + bad) == 0);
    }
}

TEST_CASE("a machine is given by its name and by suffixes that say how its sums are joined", "[experiments][gemm]") {
    CHECK(parse_machine("sm90.wgmma.fp8").rule == MatmulRule{.machine = find_machine("sm90.wgmma.fp8")});
    const MatmulRule promoted = parse_machine("sm90.wgmma.fp8+promote128").rule;
    CHECK(promoted.promotion == Promotion::add);
    CHECK(promoted.promotion_interval == 128);
    CHECK(parse_machine("sm90.wgmma.fp8+promote128+slices4").rule.slices == 4);
    CHECK(parse_machine("cutlass.fp8.default").rule == find_matmul_rule("cutlass.fp8.default")->rule);
    CHECK(parse_machine("sm80.mma.fp16+cutlass2.splitk.serial+slices2").rule.join == SliceJoin::serial);
    struct Case {
        const char *text, *says;
    };
    for (const Case& c : std::initializer_list<Case>{{"sm90.wgmma.fp9", "did you mean 'sm90.wgmma.fp8'"},
                                                     {"sm90.wgmma.fp8+promote100", "multiple of 32"},
                                                     {"sm90.wgmma.fp8+promote", "unknown suffix"},
                                                     {"sm90.wgmma.fp8+", "unknown suffix"},
                                                     {"sm90.wgmma.fp8+slices0", "unknown suffix"},
                                                     {"cutlass2.splitk.serial", "needs a machine"},
                                                     {"sm80.mma.fp16+cutlass2.splitk.serial", "slices4"},
                                                     {"", "unknown machine"}}) {
        CAPTURE(c.text);
        CHECK(error_of([&c] { parse_machine(c.text); }).find(c.says) != std::string::npos);
    }
}

}  // namespace gemm_test
