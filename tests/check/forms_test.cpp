// SPDX-License-Identifier: Apache-2.0
// Tests of forms, which are common ways to compute one operation with different roundings. A kernel passes if its form
// is declared. Without this declaration, a kernel in a less accurate form fails. The kernels are plain float loops.
#include "experiments/check/checked.hpp"
#include "tests/check/problems.hpp"

#include <cmath>

namespace forms_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

float exp32(float x) { return static_cast<float>(std::exp(static_cast<double>(x))); }
float log32(float x) { return static_cast<float>(std::log(static_cast<double>(x))); }
float tanh32(float x) { return static_cast<float>(std::tanh(static_cast<double>(x))); }

/// The maximum and the sum of exponentials of a row of logits.
struct LogitRow {
    float most = 0, sum = 0;
};
LogitRow row_of(const Floats& x, std::size_t at, std::size_t n) {
    LogitRow row{.most = *std::max_element(x.begin() + static_cast<std::ptrdiff_t>(at),
                                           x.begin() + static_cast<std::ptrdiff_t>(at + n))};
    for (std::size_t i = 0; i < n; ++i) row.sum += exp32(x[at + i] - row.most);
    return row;
}

constexpr std::size_t rows = 40, n = 200;

struct Case {
    std::vector<StoredArray> arrays{};
    Floats out{};
};
/// Makes logits with mean `offset` and runs a loss kernel on them. The kernel gets the maximum and the sum of a row,
/// and the logit of the row's target.
template <class Kernel>
Case losses(float offset, Kernel kernel) {
    std::mt19937 random(21);
    const Floats x = normal(rows * n, random, offset, 2);
    Case c;
    std::string targets;
    for (std::size_t r = 0; r < rows; ++r) {
        const std::int64_t target = static_cast<std::int64_t>(random() % n);
        targets.append(reinterpret_cast<const char*>(&target), 8);
        c.out.push_back(kernel(row_of(x, r * n, n), x[r * n + static_cast<std::size_t>(target)]));
    }
    c.arrays = {array("x", {rows, n}, x),
                {.name = "target", .where = "test", .type = "<i8", .width = 8, .shape = {rows}, .bytes = targets},
                array("out", {rows}, c.out)};
    return c;
}
template <class Kernel>
std::vector<StoredArray> rows_of_logits(float offset, Kernel kernel) {
    std::mt19937 random(22);
    const Floats x = normal(rows * n, random, offset, 2);
    Floats out;
    for (std::size_t i = 0; i < rows * n; ++i) out.push_back(kernel(row_of(x, i / n * n, n), x[i]));
    return {array("x", {rows, n}, x), array("out", {rows, n}, out)};
}

check::Declaration declared(const char* op, const std::string& form) {
    check::Declaration d = declare(op, Store::fp32);
    if (!form.empty()) check::declare(d, "form", form);
    return d;
}
bool passes(const char* op, const std::string& form, const std::vector<StoredArray>& arrays) {
    const check::Verdict verdict = judge_arrays(declared(op, form), arrays);
    CAPTURE(op, form, codes(verdict));
    CHECK(verdict.outcome != Outcome::declined);
    return is_accepted(verdict);
}

}  // namespace

TEST_CASE(
    "a loss in the form 'lse', log-sum-exp minus logit, fails on logits with an offset unless the form is declared",
    "[check][forms]") {
    for (const float offset : {0.0f, 1e3f, 1e5f}) {
        CAPTURE(offset);
        const auto stable =
            losses(offset, [](LogitRow row, float at) { return log32(row.sum) - (at - row.most); }).arrays;
        const auto joined =
            losses(offset, [](LogitRow row, float at) { return (row.most + log32(row.sum)) - at; }).arrays;
        CHECK(passes("cross_entropy", "", stable));
        CHECK(passes("cross_entropy", "shifted", stable));
        CHECK(passes("cross_entropy", "lse", joined));
        CHECK(passes("cross_entropy", "", joined) == (offset == 0));
    }
}

TEST_CASE(
    "softmax and log_softmax through log-sum-exp (form 'lse') fail on logits with an offset unless this is declared",
    "[check][forms]") {
    for (const float offset : {1e3f, 1e5f}) {
        CAPTURE(offset);
        const auto log_stable =
            rows_of_logits(offset, [](LogitRow row, float x) { return (x - row.most) - log32(row.sum); });
        const auto log_joined =
            rows_of_logits(offset, [](LogitRow row, float x) { return x - (row.most + log32(row.sum)); });
        CHECK(passes("log_softmax", "", log_stable));
        CHECK_FALSE(passes("log_softmax", "", log_joined));
        CHECK(passes("log_softmax", "lse", log_joined));
        const auto stable = rows_of_logits(offset, [](LogitRow row, float x) { return exp32(x - row.most) / row.sum; });
        const auto joined =
            rows_of_logits(offset, [](LogitRow row, float x) { return exp32(x - (row.most + log32(row.sum))); });
        CHECK(passes("softmax", "", stable));
        CHECK_FALSE(passes("softmax", "", joined));
        CHECK(passes("softmax", "lse", joined));
    }
}

TEST_CASE("activations pass if their form is declared, and the less accurate forms fail without it", "[check][forms]") {
    struct Way {
        const char *op, *form;
        float (*kernel)(float);
        bool is_first;  ///< the form needs no declaration: it is at least as accurate as the default form
    };
    const auto argument = [](float x) { return 0.79788456f * (x + 0.044715f * x * x * x); };
    static const auto gelu_argument = argument;
    const Way ways[] = {
        {"tanh", "direct", tanh32, true},
        {"tanh", "exp",
         [](float x) {
             const float e = exp32(2 * x);
             return (e - 1) / (e + 1);
         },
         false},
        {"tanh", "exp", [](float x) { return 1 - 2 / (1 + exp32(2 * x)); }, false},
        {"tanh", "exp", [](float x) { return 2 / (1 + exp32(-2 * x)) - 1; }, false},
        {"sigmoid", "exp", [](float x) { return 1 / (1 + exp32(-x)); }, true},
        {"sigmoid", "tanh", [](float x) { return 0.5f * (1 + tanh32(0.5f * x)); }, false},
        {"silu", "sigmoid", [](float x) { return x * (1 / (1 + exp32(-x))); }, true},
        {"silu", "sigmoid", [](float x) { return x / (1 + exp32(-x)); }, true},
        {"silu", "quotient", [](float x) { return x / (1 + exp32(-x)); }, true},
        {"silu", "tanh", [](float x) { return 0.5f * x * (1 + tanh32(0.5f * x)); }, false},
        {"gelu_tanh", "tanh", [](float x) { return 0.5f * x * (1 + tanh32(gelu_argument(x))); }, true},
        {"gelu_tanh", "sigmoid", [](float x) { return x / (1 + exp32(-2 * gelu_argument(x))); }, false},
    };
    for (const Way& way : ways) {
        // The arguments are small and large, of either sign.
        Floats x, out;
        std::mt19937 random(23);
        for (int i = 0; i < 6000; ++i) {
            const double size = std::exp2(std::uniform_real_distribution<double>(-12, 3.5)(random));
            x.push_back(static_cast<float>(random() % 2 ? size : -size));
            out.push_back(way.kernel(x.back()));
        }
        const std::vector<StoredArray> arrays{array("x", {60, 100}, x), array("out", {60, 100}, out)};
        CAPTURE(way.op, way.form);
        CHECK(passes(way.op, way.form, arrays));
        if (way.op != std::string("gelu_tanh")) CHECK(passes(way.op, "", arrays) == way.is_first);
    }
}

TEST_CASE("if silu is computed as a product, it stays within the limits for silu as a quotient, and vice versa",
          "[check][forms]") {
    // A check cannot distinguish the forms `sigmoid` and `quotient` of silu. The arguments go from -80 to 80. Their
    // step is not a power of two, so most arguments have many significant bits.
    Floats x, product, quotient;
    for (int i = 0; i < 60000; ++i) {
        x.push_back(-80 + 0.0026667f * static_cast<float>(i));
        product.push_back(x.back() * (1 / (1 + exp32(-x.back()))));
        quotient.push_back(x.back() / (1 + exp32(-x.back())));
    }
    for (const char* form : {"sigmoid", "quotient"}) {
        for (const Floats* out : {&product, &quotient}) {
            const check::Verdict v =
                judge_arrays(declared("silu", form), {array("x", {60, 1000}, x), array("out", {60, 1000}, *out)});
            CAPTURE(form, codes(v), v.judgement.rho);
            CHECK(is_accepted(v));
        }
    }
}

TEST_CASE("the form of an activation can also be declared inside a gate (swiglu) and after a product (gemm)",
          "[check][forms]") {
    std::mt19937 random(24);
    const Floats gate = normal(3000, random, 0, 4), up = normal(3000, random);
    Floats out;
    for (std::size_t i = 0; i < 3000; ++i) out.push_back(0.5f * gate[i] * (1 + tanh32(0.5f * gate[i])) * up[i]);
    const std::vector<StoredArray> gated{array("gate", {30, 100}, gate), array("up", {30, 100}, up),
                                         array("out", {30, 100}, out)};
    CHECK(passes("swiglu", "tanh", gated));
    CHECK_FALSE(passes("swiglu", "", gated));
    // k is 1, so each output is a single product, without a sum.
    const Floats a = normal(60, random, 0, 4), b = normal(50, random);
    Floats y;
    for (const float left : a) {
        for (const float right : b) y.push_back(0.5f * (left * right) * (1 + tanh32(0.5f * (left * right))));
    }
    const std::vector<StoredArray> product{array("a", {60, 1}, a), array("b", {1, 50}, b), array("out", {60, 50}, y)};
    check::Declaration d = declared("gemm", "tanh");
    d.activation = "silu";
    CHECK(is_accepted(judge_arrays(d, product)));
    d.form = "";
    CHECK_FALSE(is_accepted(judge_arrays(d, product)));
    d.form = "tanh";
    d.activation = "relu";
    CHECK_THROWS_WITH(judge_arrays(d, product), Catch::Contains("relu has no form 'tanh'"));
    CHECK_THROWS_WITH(declared("silu", "exp"), Catch::Contains("quotient (only x / (1 + e^-x))"));
}

TEST_CASE("kernels that round a sum of exponentials and its logarithm to bf16 pass only if this is declared",
          "[check][forms]") {
    using kernels::to_bf16;
    const auto log_softmax =
        rows_of_logits(0, [](LogitRow row, float x) { return (x - row.most) - to_bf16(log32(to_bf16(row.sum))); });
    check::Declaration d = declare("log_softmax", Store::fp32);
    CHECK_FALSE(is_accepted(judge_arrays(d, log_softmax)));
    check::declare(d, "inner", "bf16");
    CHECK(is_accepted(judge_arrays(d, log_softmax)));

    std::vector<StoredArray> sums =
        losses(0, [](LogitRow row, float) { return row.most + to_bf16(log32(to_bf16(row.sum))); }).arrays;
    sums.erase(sums.begin() + 1);
    check::Declaration lse = declare("logsumexp", Store::fp32);
    CHECK_FALSE(is_accepted(judge_arrays(lse, sums)));
    check::declare(lse, "inner", "bf16");
    CHECK(is_accepted(judge_arrays(lse, sums)));
}

}  // namespace forms_test
