// SPDX-License-Identifier: Apache-2.0
// Tests checks of operations on rows: arrays that fit, arrays that are refused, and results for NaN and infinities.
#include "tests/check/row_kernels.hpp"

namespace pose_rows_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

Floats zeros(std::size_t n) { return Floats(n); }

struct Refused {
    const char* what;
    check::Declaration declaration;
    std::vector<StoredArray> arrays;
    const char* text;
    Exit exit;
};

check::Declaration with(const char* op, void (*set)(check::Declaration&) = nullptr) {
    check::Declaration d = declare(op, Store::fp32);
    if (set != nullptr) set(d);
    return d;
}

}  // namespace

TEST_CASE("arrays that do not fit an operation on rows are refused", "[check]") {
    const auto x = [](std::vector<std::int64_t> shape) {
        std::size_t n = 1;
        for (const std::int64_t each : shape) n *= static_cast<std::size_t>(each);
        return array("x", shape, zeros(n));
    };
    const auto named = [&](const char* name, std::vector<std::int64_t> shape) {
        StoredArray a = x(std::move(shape));
        a.name = name;
        return a;
    };
    const Refused cases[] = {
        {"no such array", with("relu"), {named("out", {3})}, "there is no array 'x'", Exit::bad_input},
        {"another shape",
         with("relu"),
         {x({3, 4}), named("out", {4, 3})},
         "the shape [4, 3] does not fit x [3, 4]",
         Exit::bad_input},
        {"x of odd width", with("swiglu"), {x({2, 5}), named("out", {2, 2})}, "no halves", Exit::bad_input},
        {"both x and gate",
         with("swiglu"),
         {x({2, 4}), named("gate", {2, 2}), named("up", {2, 2}), named("out", {2, 2})},
         "x cannot be combined with gate",
         Exit::bad_input},
        {"gate alone", with("geglu"), {named("gate", {2, 2}), named("out", {2, 2})}, "no array 'up'", Exit::bad_input},
        {"a table of another width",
         with("rope"),
         {x({2, 8}), named("cos", {2, 3}), named("sin", {2, 3}), named("out", {2, 8})},
         "last axis has 4 or 8",
         Exit::bad_input},
        {"a table of other rows",
         with("rope"),
         {x({2, 8}), named("cos", {3, 4}), named("sin", {3, 4}), named("out", {2, 8})},
         "the shape [3, 4] does not fit x [2, 8]",
         Exit::bad_input},
        {"an index beyond the table",
         with("embedding"),
         {named("table", {3, 2}), integers("index", {1}, {3}), named("out", {1, 2})},
         "the index 3 is outside a table of 3 rows",
         Exit::bad_input},
        {"a negative index",
         with("embedding"),
         {named("table", {3, 2}), integers("index", {1}, {-1}), named("out", {1, 2})},
         "the index -1 is outside",
         Exit::bad_input},
        {"an index in floats",
         with("embedding"),
         {named("table", {3, 2}), named("index", {1}), named("out", {1, 2})},
         "is not an integer type",
         Exit::bad_input},
        {"a target beyond the classes",
         with("cross_entropy"),
         {x({2, 3}), integers("target", {2}, {0, -100}), named("out", {2})},
         "the target -100 is not one of 3 classes",
         Exit::bad_input},
        {"one loss for two rows",
         with("cross_entropy"),
         {x({2, 3}), integers("target", {2}, {0, 1}), named("out", {1})},
         "the shape [1] does not fit x [2, 3]",
         Exit::bad_input},
        {"two losses for a mean",
         with("cross_entropy", [](check::Declaration& d) { d.reduction = check::Reduction::mean; }),
         {x({2, 3}), integers("target", {2}, {0, 1}), named("out", {2})},
         "the loss of all rows",
         Exit::bad_input},
        {"a divisor of 0",
         with("cross_entropy", [](check::Declaration& d) { d.reduction = check::Reduction::mean; }),
         {x({2, 3}), integers("target", {2}, {0, 1}), integers("divisor", {1}, {0}), named("out", {1})},
         "one positive integer",
         Exit::bad_input},
        {"argmax in floats", with("argmax"), {x({2, 3}), named("out", {2})}, "is not an integer type", Exit::bad_input},
        {"a quantiser without groups",
         with("quantize"),
         {x({2, 3}), named("out", {2, 3})},
         "--granularity",
         Exit::usage},
        {"an unknown rule",
         with("quantize",
              [](check::Declaration& d) {
                  d.granularity = "tensor";
                  d.scale_rule = "best";
              }),
         {x({2, 3}), named("out", {2, 3})},
         "unknown scale rule 'best'",
         Exit::usage},
        {"a rule of another kind",
         with("quantize",
              [](check::Declaration& d) {
                  d.granularity = "mx32";
                  d.scale_rule = "ao_fp8";
              }),
         {x({2, 3}), named("out", {2, 3})},
         "scales of a different kind",
         Exit::usage},
        {"too many scales",
         with("quantize", [](check::Declaration& d) { d.granularity = "tensor"; }),
         {x({2, 3}), named("scale", {2}), named("out", {2, 3})},
         "save 1 elements",
         Exit::bad_input},
    };
    for (const Refused& row : cases) {
        CAPTURE(row.what);
        try {
            check::pose(row.declaration, row.arrays, pool());
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            const std::string text = error.what();
            CAPTURE(text);
            CHECK(text.find(row.text) != std::string::npos);
            CHECK(error.exit() == row.exit);
        }
    }
}

TEST_CASE("tables of a rotary embedding are broadcast over the axes that they lack", "[check]") {
    // x has shape [batch, heads, time, 4], cos has shape [time, 2], and sin has shape [1, time, 2].
    std::mt19937 random(11);
    const Floats x = normal(2 * 3 * 5 * 4, random);
    Floats cos, sin, out(x.size());
    for (int t = 0; t < 5; ++t) {
        for (int i = 0; i < 2; ++i) {
            cos.push_back(std::cos(static_cast<float>(t) / (i + 1)));
            sin.push_back(std::sin(static_cast<float>(t) / (i + 1)));
        }
    }
    for (std::size_t row = 0; row < 30; ++row) {
        const std::size_t t = row % 5;
        for (std::size_t i = 0; i < 2; ++i) {
            const float a = x[row * 4 + i], b = x[row * 4 + i + 2], c = cos[t * 2 + i], s = sin[t * 2 + i];
            out[row * 4 + i] = a * c - b * s;
            out[row * 4 + i + 2] = b * c + a * s;
        }
    }
    const std::vector<StoredArray> arrays{array("x", {2, 3, 5, 4}, x), array("cos", {5, 2}, cos),
                                          array("sin", {1, 5, 2}, sin), array("out", {2, 3, 5, 4}, out)};
    CHECK(is_accepted(judge_arrays(declare("rope", Store::fp32), arrays)));
    check::Declaration pairs = declare("rope", Store::fp32);
    pairs.has_pairs = true;
    CHECK(judge_arrays(pairs, arrays).outcome == Outcome::fail);
}

TEST_CASE("the first half of a gated activation's input is the gate, unless the declaration puts up first", "[check]") {
    std::mt19937 random(12);
    const Floats x = normal(10 * 12, random);
    Floats out;
    for (std::size_t r = 0; r < 10; ++r) {
        for (std::size_t i = 0; i < 6; ++i) {
            const float gate = x[r * 12 + i];
            out.push_back(gate / (1 + std::exp(-gate)) * x[r * 12 + 6 + i]);
        }
    }
    check::Declaration d = declare("swiglu", Store::fp32);
    const std::vector<StoredArray> arrays{array("x", {10, 12}, x), array("out", {10, 6}, out)};
    CHECK(is_accepted(judge_arrays(d, arrays)));
    d.has_up_first = true;
    CHECK(judge_arrays(d, arrays).outcome == Outcome::fail);
}

TEST_CASE("a mean of losses is divided by the given divisor", "[check]") {
    std::mt19937 random(13);
    RowCase c = row_case("cross_entropy", random, 9, 50, Store::fp32, Store::fp32);
    c.declaration.reduction = check::Reduction::mean;
    c.declaration.ignored.reset();
    for (std::int64_t& target : c.indices) target = std::max<std::int64_t>(0, target);
    c.arrays.back() = integers("target", {9}, c.indices);
    c.out_shape = {};
    Kernel k = random_kernel(random);
    k.fault.less = 2;
    CHECK(judge_arrays(c.declaration, stored_case("cross_entropy", c, k)).outcome == Outcome::fail);
    c.arrays.push_back(integers("divisor", {}, {7}));
    CHECK(is_accepted(judge_arrays(c.declaration, stored_case("cross_entropy", c, k))));
}

TEST_CASE("argmax may return the index of any of several equal maxima", "[check]") {
    const Floats x{1, 5, 5, 0, -3, -3, -3, -3, NAN, 1, 2, 0};
    const check::Declaration d = declare("argmax", Store::fp32);
    const auto codes_of = [&](std::vector<std::int64_t> places) {
        return codes(
            judge_arrays(d, {array("x", {2, 4}, Floats(x.begin(), x.begin() + 8)), integers("out", {2}, places)}));
    };
    for (const std::int64_t first : {1, 2}) {
        for (const std::int64_t second : {0, 3}) CHECK(codes_of({first, second}).find("KC04") == std::string::npos);
    }
    CHECK(codes_of({0, 0}).find("KC041") != std::string::npos);
    CHECK(codes_of({1, 4}).find("KC010") != std::string::npos);
    CHECK(codes_of({-1, 0}).find("KC010") != std::string::npos);
}

TEST_CASE("a kernel passes only if its results for NaN, infinities, masks and overflow are right", "[check]") {
    const float inf = INFINITY, nan = NAN;
    struct Case {
        const char *op, *what;
        Floats x, out;
        bool is_right;
    };
    for (const Case& row : {
             Case{"softmax", "masked", {1, -inf, 1, -inf}, {0.5f, 0, 0.5f, 0}, true},
             Case{"softmax", "masked, and not zero", {1, -inf, 1, -inf}, {0.5f, 0, 0.5f, 1e-20f}, false},
             Case{"softmax", "all masked", {-inf, -inf}, {nan, nan}, true},
             Case{"softmax", "all masked, called uniform", {-inf, -inf}, {0.5f, 0.5f}, false},
             Case{"softmax", "one element", {7}, {1}, true},
             Case{"logsumexp", "all masked", {-inf, -inf}, {-inf}, true},
             Case{"logsumexp", "all masked, -inf less itself", {-inf, -inf}, {nan}, false},
             Case{"logsumexp", "masked", {-inf, 1, -inf}, {1}, true},
             Case{"logsumexp", "an infinity", {1, inf, -inf}, {inf}, true},
             Case{"logsumexp", "an infinity less itself", {1, inf, -inf}, {nan}, false},
             Case{"logsumexp", "NaN", {nan, -inf}, {nan}, true},
             Case{"log_softmax", "masked", {0, -inf}, {0, -inf}, true},
             Case{"sum", "inf - inf", {inf, -inf, 1}, {nan}, true},
             Case{"sum", "an infinity", {inf, 2, 1}, {inf}, true},
             Case{"max", "NaN stays", {nan, 2, 1}, {nan}, true},
             Case{"max", "NaN swallowed", {nan, 2, 1}, {2}, false},
             Case{"relu", "NaN stays", {nan, -inf, inf}, {nan, 0, inf}, true},
             Case{"relu", "NaN swallowed", {nan, -1, 1}, {0, 0, 1}, false},
             Case{"silu", "far left", {-200, -88, 200}, {-0.0f, -5.3319725e-37f, 200}, true},
             Case{"sigmoid", "far left", {-200, -inf, inf}, {0, 0, 1}, true},
             Case{"tanh", "infinities", {-inf, inf, 0}, {-1, 1, 0}, true},
             Case{"exp", "infinities", {-inf, inf, 0}, {0, inf, 1}, true},
             Case{"gelu", "far left", {-40, 40, inf}, {-0.0f, 40, inf}, true},
         }) {
        const auto n = static_cast<std::int64_t>(row.x.size());
        std::vector<std::int64_t> shape{1};
        if (!check::find_operation(row.op).is_one_per_row) shape.push_back(n);
        const check::Verdict v =
            judge_arrays(declare(row.op, Store::fp32), {array("x", {1, n}, row.x), array("out", shape, row.out)});
        CAPTURE(row.op, row.what, codes(v), static_cast<int>(v.outcome), v.judgement.rho);
        CHECK((v.outcome == Outcome::pass || v.outcome == Outcome::weak) == row.is_right);
    }
}

}  // namespace pose_rows_test
