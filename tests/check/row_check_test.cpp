// SPDX-License-Identifier: Apache-2.0
// Tests checks of operations on rows: legal kernels pass, wrong kernels fail, and bounds agree with values computed by
// hand.
#include "tests/check/problems.hpp"

namespace row_check_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;
using kernels::Functions;
using kernels::Way;
using kernels::Wrong;

namespace {

constexpr float eps = 1e-5f;

struct Rows {
    std::int64_t rows, columns;
    Floats x, gain, shift;
};

Rows random_rows(std::int64_t rows, std::int64_t columns, std::mt19937& random, Store in, float mean, float sigma) {
    const auto n = static_cast<std::size_t>(columns);
    return {rows, columns, normal(n * static_cast<std::size_t>(rows), random, mean, sigma, in),
            normal(n, random, 1, 0.2f), normal(n, random)};
}

Floats run_kernel(const std::string& op, const Rows& r, Store store, const Way& way, const Functions& f,
                  const Wrong& wrong = {}) {
    Floats out;
    for (std::int64_t i = 0; i < r.rows; ++i) {
        const Floats x(r.x.begin() + i * r.columns, r.x.begin() + (i + 1) * r.columns);
        Floats y;
        if (op == "softmax") y = kernels::softmax(x, way, f, wrong);
        if (op == "log_softmax") y = kernels::log_softmax(x, way, f, wrong);
        if (op == "rmsnorm") y = kernels::rms_norm(x, r.gain, eps, way, f, wrong);
        if (op == "layernorm") y = kernels::layer_norm(x, r.gain, r.shift, eps, way, f, wrong);
        if (op == "sum") y = {kernels::total(x, way, wrong)};
        if (op == "mean") y = {kernels::mean(x, way, wrong)};
        for (const float each : y) out.push_back(kernels::stored(store, each));
    }
    return out;
}

check::Verdict verdict_on(const std::string& op, const Rows& r, const Floats& out, Store in, Store store,
                          const check::Options& options = {}) {
    check::Declaration d = declare(op.c_str(), store, in);
    std::vector<std::int64_t> shape{r.rows};
    if (op != "sum" && op != "mean") shape.push_back(r.columns);
    std::vector<StoredArray> arrays{array("x", {r.rows, r.columns}, r.x, in), array("out", shape, out, store)};
    if (op.ends_with("norm")) {
        d.eps = 1e-5;
        arrays.push_back(array("gain", {r.columns}, r.gain));
    }
    if (op == "layernorm") arrays.push_back(array("shift", {r.columns}, r.shift));
    return judge_arrays(d, arrays, options);
}

const char* const names[] = {"sum", "mean", "softmax", "log_softmax", "rmsnorm", "layernorm"};

}  // namespace

TEST_CASE("none of 600 legal kernels on rows is refused", "[check]") {
    std::mt19937 random(777);
    const Functions f{&random};
    const auto orders = kernels::orders();
    double z = 0;
    int declined = 0;
    for (int trial = 0; trial < 600; ++trial) {
        const std::string op = names[trial % 6];
        const std::int64_t rows = 2 + random() % 30, columns = 1 + random() % 600;
        const Store in = static_cast<Store>(random() % 3), out = static_cast<Store>(random() % 3);
        const float mean = random() % 3 == 0 ? 100.0f : 0.0f, sigma = random() % 4 == 0   ? 0x1p-9f
                                                                      : random() % 4 == 0 ? 8.0f
                                                                                          : 1.0f;
        const Rows r = random_rows(rows, columns, random, in, mean, sigma);
        const Way way{orders[random() % orders.size()], random() % 2 == 0, random() % 2 == 0};
        const check::Verdict v = verdict_on(op, r, run_kernel(op, r, out, way, f), in, out);
        CAPTURE(trial, op, rows, columns, static_cast<int>(in), static_cast<int>(out), mean, sigma, way.order.name,
                codes(v));
        REQUIRE(v.outcome != Outcome::fail);
        REQUIRE(v.judgement.rho <= 1);
        // A row has no bound if its variance is smaller than the error bound of the variance. The check is then
        // declined.
        declined += v.outcome == Outcome::declined ? 1 : 0;
        z = std::max({z, v.judgement.z, v.judgement.z_part});
    }
    CHECK(z < 6);
    CHECK(declined < 20);
}

TEST_CASE("wrong kernels on rows fail", "[check]") {
    struct Case {
        const char *op, *what;
        Store out;
        float mean, sigma;
        std::int64_t columns;
        Wrong wrong;
        const char* code;
    };
    for (const Case& c : {
             Case{"sum", "dropped tail", Store::bf16, 0, 1, 1000, {.dropped = 3}, "KC020"},
             Case{"mean", "divides by n - 1", Store::fp32, 1, 1, 1000, {.less = 1}, "KC020"},
             Case{"mean", "sum in bf16", Store::bf16, 1, 1, 1000, {.narrow_inside = true}, "KC020"},
             Case{"softmax", "last element left out of the sum", Store::bf16, 0, 1, 4096, {.dropped = 1}, "KC020"},
             Case{"softmax", "sum in bf16", Store::bf16, 0, 1, 4096, {.narrow_inside = true}, "KC020"},
             Case{"log_softmax", "dropped tail", Store::fp32, 0, 1, 1000, {.dropped = 8}, "KC02"},
             Case{
                 "rmsnorm", "eps 1e-6 for 1e-5 where it shows", Store::bf16, 0, 0x1p-9f, 1024, {.eps = 1e-6f}, "KC020"},
             Case{"rmsnorm", "divides by n - 1", Store::fp32, 0, 1, 4096, {.less = 1}, "KC021"},
             Case{"rmsnorm", "x r in bf16 before the gain", Store::bf16, 0, 1, 4096, {.narrow_inside = true}, "KC020"},
             Case{"layernorm", "one pass at mean 100", Store::fp32, 100, 1, 4096, {.one_pass = true}, "KC02"},
             Case{"layernorm", "eps", Store::bf16, 0, 0x1p-9f, 512, {.eps = 1e-6f}, "KC020"},
             Case{"layernorm", "inner step in bf16", Store::fp32, 0, 1, 512, {.narrow_inside = true}, "KC020"},
         }) {
        for (unsigned seed = 1000; seed < 1003; ++seed) {
            std::mt19937 random(seed);
            const Functions f{&random};
            const Rows r =
                random_rows(16, c.columns, random,
                            c.op == std::string("layernorm") && c.mean == 100 ? Store::fp32 : c.out, c.mean, c.sigma);
            const Store in = c.op == std::string("layernorm") && c.mean == 100 ? Store::fp32 : c.out;
            // A chain has the largest errors, so a one-pass variance that is summed by a chain is detected most easily.
            const Way way{kernels::orders()[c.wrong.one_pass ? 0 : 4]};
            CAPTURE(c.op, c.what, seed);
            const check::Verdict right = verdict_on(c.op, r, run_kernel(c.op, r, c.out, way, f), in, c.out);
            CHECK(right.outcome != Outcome::fail);
            const check::Verdict wrong = verdict_on(c.op, r, run_kernel(c.op, r, c.out, way, f, c.wrong), in, c.out);
            CAPTURE(codes(wrong), wrong.judgement.rho);
            CHECK(wrong.outcome == Outcome::fail);
            CHECK(codes(wrong).find(c.code) != std::string::npos);
        }
    }
}

TEST_CASE("an output with two exchanged elements fails, and the index of one of them is reported", "[check]") {
    std::mt19937 random(8);
    const Functions f{&random};
    for (const std::string op : {"softmax", "log_softmax", "rmsnorm", "layernorm"}) {
        const Rows r = random_rows(20, 300, random, Store::fp32, 0, 1);
        Floats out = run_kernel(op, r, Store::bf16, {kernels::orders()[0]}, f);
        std::swap(out[1234], out[1235]);
        const check::Verdict v = verdict_on(op, r, out, Store::fp32, Store::bf16);
        CAPTURE(op, codes(v));
        REQUIRE(!v.reasons.empty());
        CHECK(v.reasons.front().code == "KC020");
        CHECK((v.reasons.front().index == 1234 || v.reasons.front().index == 1235));
    }
}

TEST_CASE("a check is weak if its inputs do not reveal a wrong eps, and small inputs reveal it", "[check]") {
    std::mt19937 random(12);
    const Functions f{&random};
    const auto blind = [&](float sigma) {
        const Rows r = random_rows(32, 1024, random, Store::bf16, 0, sigma);
        return verdict_on("rmsnorm", r, run_kernel("rmsnorm", r, Store::bf16, {kernels::orders()[2]}, f), Store::bf16,
                          Store::bf16);
    };
    const check::Verdict usual = blind(1), small = blind(0x1p-9f);
    REQUIRE(usual.outcome == Outcome::weak);
    CHECK(usual.reasons.front().text.starts_with(
        "this check could not have caught a wrong kernel: eps 1e-06 for 1e-05 (operation; its largest effect is 0.00"));
    for (const auto* mutant : small.blind(check::Power::structure))
        CHECK(mutant->name.find("eps") == std::string::npos);
}

TEST_CASE("bounds of softmax and RMSNorm equal those in the table of the specification", "[check]") {
    // The table lists relative bounds for two examples: a softmax of (0, 1, 2, 3) with exp within 4 ulp, and an RMSNorm
    // of (1, 2, 3, 4) with rsqrt within 2 ulp.
    check::Nodes n;
    const check::Value x = n.input(0, check::Axis::each), e = n.exponential(n.subtract(x, n.greatest(x)));
    n.divide(e, n.sum(e), 4);
    const std::vector<check::Input> inputs{{"x", check::Axis::each, {0, 1, 2, 3}}};
    const check::Row row{.columns = 4, .count = 4, .inputs = &inputs};
    check::Columns<check::Wide> values;
    check::Columns<double> bounds;
    check::reference(n.list(), row, values);
    check::bound(n.list(), row, values, check::kernel_arithmetic(check::find_functions("cuda,exp=4")), bounds);
    const double wanted[] = {2.000e-6, 1.821e-6, 1.642e-6, 1.463e-6};
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(bounds.back()[i] / values.back()[i].high == Approx(wanted[i]).epsilon(0.01));

    check::Nodes norm;
    const check::Value v = norm.input(0, check::Axis::each);
    const check::Value mean = norm.divide(norm.sum(norm.multiply(v, v)), norm.constant(4), 2);
    const check::Value r = norm.multiply(v, norm.inverse_root(norm.add(mean, norm.constant(1e-5))));
    norm.multiply(r, norm.constant(1));
    const std::vector<check::Input> four{{"x", check::Axis::each, {1, 2, 3, 4}}};
    const check::Row at{.columns = 4, .count = 4, .inputs = &four};
    check::reference(norm.list(), at, values);
    check::bound(norm.list(), at, values, check::kernel_arithmetic(check::find_functions("cuda")), bounds);
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(bounds.back()[i] / values.back()[i].high == Approx(5.67e-7).epsilon(0.01));
}

TEST_CASE("the reference results of layernorm, softmax and log_softmax agree with long double to 14 digits",
          "[check]") {
    std::mt19937 random(31);
    for (int trial = 0; trial < 200; ++trial) {
        const std::int64_t columns = 1 + random() % 200;
        const Rows r = random_rows(1, columns, random, Store::fp32, trial % 2 ? 100.0f : 0.0f, 3);
        check::Declaration d = declare("layernorm", Store::fp32);
        d.eps = 1e-5;
        const auto verdict = [&](const char* op) {
            d.operation = &check::find_operation(op);
            return *judge_arrays(d, {array("x", {1, columns}, r.x), array("out", {1, columns}, r.x)}).limits;
        };
        long double sum = 0, variance = 0, exponentials = 0;
        const float most = *std::max_element(r.x.begin(), r.x.end());
        for (const float x : r.x) sum += x, exponentials += std::exp(static_cast<long double>(x) - most);
        const long double mean = sum / columns;
        for (const float x : r.x) variance += (x - mean) * (x - mean) / columns;
        const check::Limits norm = verdict("layernorm"), soft = verdict("softmax"), log = verdict("log_softmax");
        for (std::size_t i = 0; i < r.x.size(); ++i) {
            const long double y = (r.x[i] - mean) / std::sqrt(variance + 1e-5L),
                              p = std::exp(static_cast<long double>(r.x[i]) - most) / exponentials;
            CHECK(norm.exact[i] == Approx(static_cast<double>(y)).epsilon(1e-14).margin(1e-15));
            CHECK(soft.exact[i] == Approx(static_cast<double>(p)).epsilon(1e-14));
            CHECK(log.exact[i] == Approx(static_cast<double>(std::log(p))).epsilon(1e-14).margin(1e-15));
        }
    }
}

}  // namespace row_check_test
