// SPDX-License-Identifier: Apache-2.0
// Tests results beyond the range of their format and intermediate results beyond the range of fp32. Legal kernels pass.
// Kernels that return a finite number instead of infinity, or infinity instead of a finite number, fail. The kernels
// are plain float loops that overflow as the hardware does.
#include "tests/check/product_checks.hpp"
#include "tests/check/row_kernels.hpp"

#include "core/format_table.hpp"

namespace overflow_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

/// A format of outputs, with or without saturation.
struct Output {
    Format format;
    bool saturates;
};
std::vector<Output> outputs() {
    std::vector<Output> all;
    for (const NamedFormat& named : all_formats) {
        const Format& format = named.format;
        if (format.precision > fp32.precision || !format.has_sign() || format.encoding != Encoding::binary) continue;
        all.push_back({format, true});
        if (format.has_inf() || format.has_nan()) all.push_back({format, false});
    }
    return all;
}

Floats in_format(const Output& out, Floats values) {
    for (float& y : values)
        y = decode(out.format, encode(out.format, y, Round::nearest_even,
                                      out.saturates ? Overflow::saturate : Overflow::nonsaturate));
    return values;
}

check::Judgement judged(const check::Declaration& d, const std::vector<StoredArray>& arrays, bool& is_declined) {
    const check::Posed posed = check::pose(d, arrays, pool());
    const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
    is_declined = limits.declined >= 0;
    return is_declined ? check::Judgement{} : check::judge(limits, posed.out);
}

std::string codes_of(const check::Judgement& j) {
    std::string all;
    for (const check::Reason& reason : j.reasons) all += reason.code + " at " + std::to_string(reason.index) + " ";
    return all;
}

struct Count {
    int judged = 0, declined = 0, infinite = 0;
};

/// Judges correct kernels of an operation for every output format. x is normal with the given mean and standard
/// deviation.
Count judge_sizes(const std::string& op, float mean, float sigma, unsigned seed) {
    Count count;
    std::mt19937 random(seed);
    for (const Output& out : outputs()) {
        RowCase c = row_case(op, random, 3, 33, Store::fp32, Store::fp32, mean, sigma);
        if (op == "cast") c.declaration.functions = "cuda";
        c.declaration.formats["out"] = {out.format, false};
        c.declaration.saturates = out.saturates;
        Kernel k = random_kernel(random);
        const Floats y = in_format(out, run_case(op, c, k));
        for (const float each : y) count.infinite += std::isfinite(each) ? 0 : 1;
        std::vector<StoredArray> arrays = c.arrays;
        arrays.push_back(coded("out", c.out_shape, y, out.format));
        bool is_declined = false;
        const check::Judgement j = judged(c.declaration, arrays, is_declined);
        CAPTURE(op, mean, sigma, out.format.bits, out.format.precision, out.saturates, k.order.name, codes_of(j));
        CHECK(j.reasons.empty());
        ++(is_declined ? count.declined : count.judged);
    }
    return count;
}

}  // namespace

TEST_CASE("correct results that overflow their format pass, for every operation and format", "[check][overflow]") {
    unsigned seed = 1;
    for (const std::string& op : row_operations()) {
        if (op == "argmax" || op == "embedding") continue;  // outputs are indices, or copies from a table
        Count all;
        for (const float sigma : {0x1p-126f, 1e-30f, 1e-19f, 60.0f, 1e4f, 1e10f, 3e18f, 1e25f, 3e37f}) {
            for (const float mean : {0.0f, 2 * sigma}) {
                const Count one = judge_sizes(op, mean, sigma, seed++);
                all.judged += one.judged;
                all.declined += one.declined;
                all.infinite += one.infinite;
            }
        }
        CAPTURE(op, all.judged, all.declined, all.infinite);
        CHECK(all.declined == 0);
        CHECK(all.judged > 0);
    }
}

TEST_CASE("an exponential that exceeds the largest number is infinite, and an exponential that underflows is zero",
          "[check][overflow]") {
    const Floats x{88, 89, 100, 1, -87, -100, -104, -1000};
    RowCase c{.declaration = declare("exp", Store::fp32), .out_shape = {1, 8}};
    Floats y;
    for (const float each : x) y.push_back(static_cast<float>(std::exp(static_cast<double>(each))));
    const auto verdict = [&](const Floats& out) {
        return judge_arrays(c.declaration, {array("x", {1, 8}, x), array("out", {1, 8}, out)},
                            {.require = check::Power::null});
    };
    CHECK(codes(verdict(y)).empty());
    CHECK(verdict(y).outcome == check::Outcome::pass);
    for (const std::size_t i : {1u, 2u}) {
        Floats wrong = y;
        wrong[i] = 0x1.fffffep127f;
        CHECK(codes(verdict(wrong)).find("KC010") != std::string::npos);
        wrong[i] = NAN;
        CHECK(codes(verdict(wrong)).find("KC010") != std::string::npos);
    }
    for (const std::size_t i : {0u, 3u, 4u, 7u}) {
        Floats wrong = y;
        wrong[i] = INFINITY;
        CHECK(codes(verdict(wrong)).find("KC010") != std::string::npos);
    }
    c.declaration.saturates = true;
    Floats saturated = y;
    saturated[1] = saturated[2] = 0x1.fffffep127f;
    CHECK(codes(verdict(saturated)).empty());
    CHECK(codes(verdict(y)).find("KC010") != std::string::npos);
}

TEST_CASE("correct matrix products that overflow their format or accumulator pass", "[check][overflow][gemm]") {
    std::mt19937 random(5);
    const auto orders = kernels::orders();
    int declined = 0, infinite = 0;
    for (const float size : {1e-30f, 1e-19f, 100.0f, 1e10f, 1e18f, 1.8e19f, 1e25f}) {
        for (const bool is_positive : {false, true}) {
            for (const Output& out : outputs()) {
                ProductCheck c;
                c.g = {.m = 5,
                       .n = 9,
                       .k = 24,
                       .a = normal(5 * 24, random, 0, size),
                       .b = normal(24 * 9, random, 0, size)};
                if (is_positive) {
                    for (Floats* each : {&c.g.a, &c.g.b})
                        for (float& x : *each) x = std::fabs(x);
                }
                c.out = out.format;
                if (random() % 2) c.bias = normal(9, random);
                if (random() % 2) c.a_scale = normal(5, random, 1, 0.1f);
                const std::size_t way = random() % (orders.size() + 1);
                kernels::Gemm plain{.m = 5, .n = 9, .k = 24, .a = c.g.a, .b = c.g.b};
                const Floats y = in_format(
                    out, c.epilogue(plain.run(kernels::Store::fp32, way == orders.size() ? nullptr : &orders[way])));
                for (const float each : y) infinite += std::isfinite(each) ? 0 : 1;
                std::vector<StoredArray> arrays = c.arrays(y);
                check::Declaration d = c.declaration();
                d.saturates = out.saturates;
                bool is_declined = false;
                const check::Judgement j = judged(d, arrays, is_declined);
                CAPTURE(size, is_positive, out.format.bits, out.format.precision, out.saturates, way, codes_of(j));
                CHECK(j.reasons.empty());
                declined += is_declined ? 1 : 0;
            }
        }
    }
    CHECK(declined == 0);
    CHECK(infinite > 1000);
}

TEST_CASE("infinite outputs are legal if an fp16 accumulator overflows", "[check][overflow][gemm]") {
    std::mt19937 random(9);
    const MatmulRule rule = parse_machine("sm80.mma.fp16.acc16").rule;
    for (const float size : {1.0f, 30.0f, 60.0f, 200.0f}) {
        for (const bool is_positive : {false, true}) {
            ProductCheck c;
            c.machine = "sm80.mma.fp16.acc16";
            c.g = machine_gemm(16, 16, 64, fp16, fp16, is_positive ? Draw::positive : Draw::normal, random);
            for (float& x : c.g.a) x = rounded_to(fp16, x * size);
            for (float& x : c.g.b) x = rounded_to(fp16, x * size);
            const check::Verdict v = c.judge(c.g.run(rule), {.require = check::Power::null});
            CAPTURE(size, is_positive, codes(v));
            CHECK(v.outcome != check::Outcome::fail);
            CHECK(v.outcome != check::Outcome::declined);
        }
    }
}

TEST_CASE("infinite and NaN outputs fail if no step of the operation can overflow", "[check][overflow]") {
    std::mt19937 random(3);
    for (const std::string& op : row_operations()) {
        if (op == "argmax" || op == "embedding" || op == "cast") continue;
        RowCase c = row_case(op, random, 3, 32, Store::fp32, Store::fp32);
        Kernel k = random_kernel(random);
        Floats y = run_case(op, c, k);
        for (const float wrong : {INFINITY, -INFINITY, NAN}) {
            Floats out = y;
            out[out.size() / 2] = wrong;
            std::vector<StoredArray> arrays = c.arrays;
            arrays.push_back(array("out", c.out_shape, out));
            bool is_declined = false;
            const check::Judgement j = judged(c.declaration, arrays, is_declined);
            CAPTURE(op, wrong);
            REQUIRE(!j.reasons.empty());
            CHECK(j.reasons.front().code == "KC010");
        }
    }
}

}  // namespace overflow_test
