// SPDX-License-Identifier: Apache-2.0
// Tests of quantisers whose scale is given. A kernel may multiply x by the encode scale, or divide x by the decode
// scale. The kernels are float loops. As in the other tests of quantisers, their fp8 codes come from core's codec.
#include "core/codec.hpp"
#include "experiments/check/checked.hpp"
#include "tests/check/problems.hpp"

namespace given_scale_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

using Keys = std::vector<std::pair<const char*, std::string>>;

StoredArray fp8(const std::string& name, std::vector<std::int64_t> shape, const Floats& values) {
    StoredArray out{.name = name, .where = "test", .type = "|u1", .width = 1, .shape = std::move(shape)};
    for (const float x : values)
        out.bytes +=
            static_cast<char>(encode64(e4m3fn, static_cast<double>(x), Round::nearest_even, Overflow::saturate));
    return out;
}

constexpr std::int64_t rows = 24, row_length = 256;

/// Groups of `height` rows and `width` columns of x. Each group has its own decode scale.
struct Groups {
    std::int64_t height, width;
    std::int64_t across() const { return (row_length + width - 1) / width; }
    std::int64_t count() const { return (rows + height - 1) / height * across(); }
    std::int64_t of(std::int64_t i) const { return i / row_length / height * across() + i % row_length / width; }
};

Floats draw(unsigned seed) {
    std::mt19937 random(seed);
    return normal(static_cast<std::size_t>(rows * row_length), random, 0, 3);
}
template <class Scaled>
Floats each(const Floats& x, Scaled scaled) {
    Floats out;
    for (std::size_t i = 0; i < x.size(); ++i) out.push_back(scaled(x[i], static_cast<std::int64_t>(i)));
    return out;
}
check::Verdict judge(const std::vector<StoredArray>& arrays, const Keys& keys) {
    check::Declaration d = declare("quantize", Store::fp32);
    d.formats["out"] = {e4m3fn, false};
    for (const auto& [key, value] : keys) check::declare(d, key, value);
    return judge_arrays(d, arrays);
}

}  // namespace

TEST_CASE("a quantiser with given scales is judged correctly for every granularity", "[check][quantise]") {
    const Floats x = draw(51);
    std::mt19937 random(52);
    for (const auto& [name, shape] : {std::pair{"tensor", Groups{rows, row_length}},
                                      {"row", Groups{1, row_length}},
                                      {"column", Groups{rows, 1}},
                                      {"1x128", Groups{1, 128}}}) {
        const Groups groups = shape;  // in Clang 14, lambdas cannot capture structured bindings
        CAPTURE(name);
        Floats decode, encode;
        for (std::int64_t g = 0; g < groups.count(); ++g) {
            decode.push_back(std::uniform_real_distribution<float>(0.01f, 0.05f)(random));
            encode.push_back(1 / decode.back());
        }
        const auto of = [&](const Floats& scales, std::int64_t i) {
            return scales[static_cast<std::size_t>(groups.of(i))];
        };
        const StoredArray scale = array("scale", {groups.count()}, decode),
                          inverse = array("encode_scale", {groups.count()}, encode),
                          given = array("x", {rows, row_length}, x);
        const StoredArray multiplied = fp8("out", {rows, row_length},
                                           each(x, [&](float v, std::int64_t i) { return v * of(encode, i); })),
                          divided = fp8("out", {rows, row_length},
                                        each(x, [&](float v, std::int64_t i) { return v / of(decode, i); })),
                          shifted =
                              fp8("out", {rows, row_length}, each(x, [&](float v, std::int64_t i) {
                                      return v * encode[static_cast<std::size_t>((groups.of(i) + 1) % groups.count())] *
                                             1.001f;
                                  }));
        const Keys by_decode{{"granularity", name}, {"given_scale", "scale"}},
            by_encode{{"granularity", name}, {"given_scale", "encode_scale"}},
            by_quotient{{"granularity", name}, {"given_scale", "scale"}, {"scaling", "divide"}};
        for (const auto& [arrays, keys] : {std::pair{std::vector{given, multiplied, scale}, by_decode},
                                           {std::vector{given, multiplied, inverse}, by_encode},
                                           {std::vector{given, divided, scale}, by_quotient}}) {
            const check::Verdict v = judge(arrays, keys);
            CAPTURE(codes(v));
            CHECK(v.outcome == Outcome::pass);
            CHECK(v.judgement.exact_outputs == rows * row_length);
        }
        CHECK_FALSE(is_accepted(judge({given, shifted, scale}, by_decode)));
        CHECK_FALSE(is_accepted(judge({given, shifted, scale}, by_quotient)));
        CHECK_THROWS_WITH(judge({given, multiplied}, by_decode), Catch::Contains("there is no array 'scale'"));
    }
}

TEST_CASE("the given scale of a whole tensor may be a number in the declaration", "[check][quantise]") {
    const Floats x = draw(53);
    const StoredArray given = array("x", {rows, row_length}, x);
    const StoredArray out = fp8("out", {rows, row_length}, each(x, [](float v, std::int64_t) { return v / 0.02f; })),
                      product = fp8("out", {rows, row_length},
                                    each(x, [](float v, std::int64_t) { return v * (1 / 0.02f); }));
    CHECK(judge({given, out}, {{"given_scale", "0.02"}, {"scaling", "divide"}}).outcome == Outcome::pass);
    CHECK(judge({given, product}, {{"given_scale", "0.02"}}).outcome == Outcome::pass);
    CHECK_FALSE(is_accepted(judge({given, out}, {{"given_scale", "0.021"}, {"scaling", "divide"}})));
    const StoredArray scale = array("scale", {1}, {0.02f});
    CHECK(judge({given, product, scale}, {{"given_scale", "scale"}}).outcome == Outcome::pass);
    CHECK_THROWS_WITH(judge({given, out}, {{"given_scale", "0.02"}, {"granularity", "1x128"}}),
                      Catch::Contains("one number was given for 48 groups"));
    CHECK_THROWS_WITH(judge({given, out}, {{"given_scale", "0.02"}, {"scale_rule", "te_current"}}),
                      Catch::Contains("a given scale cannot be combined with a scale rule"));
    CHECK_THROWS_WITH(judge({given, out}, {{"given_scale", "static"}}),
                      Catch::Contains("is not a number in the allowed range"));
}

TEST_CASE("a quantiser must declare whether it computes x / (amax / max) or x * (max / amax)", "[check][quantise]") {
    Floats x = draw(54);
    // The decode scale 49 / 448 is 7 / 64, and 2.734375 divided by 7 / 64 is 25, the midpoint of two codes. The encode
    // scale 448 / 49 is not an fp32 number, and 2.734375 times its rounded value is larger than 25. Rows differ by
    // powers of two.
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t column = i % row_length;
        const float power = 1 / static_cast<float>(1 << (i / row_length % 4));
        x[i] = (column == 0 ? 49.0f : column == 1 ? 2.734375f : std::clamp(x[i], -40.0f, 40.0f)) * power;
    }
    const StoredArray given = array("x", {rows, row_length}, x);
    Floats amax(rows), decode;
    for (std::size_t i = 0; i < x.size(); ++i) amax[i / row_length] = std::max(amax[i / row_length], std::fabs(x[i]));
    for (const float largest : amax) decode.push_back(largest / 448);
    const auto row = [](std::int64_t i) { return static_cast<std::size_t>(i / row_length); };
    const Floats divided = each(x, [&](float v, std::int64_t i) { return v / (amax[row(i)] / 448); }),
                 multiplied = each(x, [&](float v, std::int64_t i) { return v * (448 / amax[row(i)]); }),
                 by_reciprocal = each(x, [&](float v, std::int64_t i) { return v * (1 / (amax[row(i)] / 448)); });
    const auto outcome = [&](const Floats& out, const char* rule, const char* scaling) {
        const check::Verdict v = judge({given, fp8("out", {rows, row_length}, out)},
                                       {{"granularity", "row"}, {"scale_rule", rule}, {"scaling", scaling}});
        return v.outcome;
    };
    CHECK(outcome(divided, "amax_over_max", "divide") == Outcome::pass);
    CHECK(outcome(by_reciprocal, "amax_over_max", "multiply") == Outcome::pass);
    CHECK(outcome(multiplied, "te_current", "multiply") == Outcome::pass);
    CHECK(outcome(divided, "te_current", "multiply") == Outcome::fail);
    CHECK(outcome(multiplied, "amax_over_max", "divide") == Outcome::fail);
    // The kernel must write the scale that the rule gives.
    const Keys keys{{"granularity", "row"}, {"scale_rule", "amax_over_max"}, {"scaling", "divide"}};
    const StoredArray out = fp8("out", {rows, row_length}, divided);
    CHECK(judge({given, out, array("scale", {rows}, decode)}, keys).outcome == Outcome::pass);
    decode[3] *= 1.5f;
    CHECK(codes(judge({given, out, array("scale", {rows}, decode)}, keys)).find("KC042") != std::string::npos);
}

TEST_CASE("for a quantiser that has no scales, a check is not weak, because no wrong kernel can omit a scale",
          "[check][quantise]") {
    const Floats x = draw(55);
    const check::Verdict v =
        judge({array("x", {rows, row_length}, x), fp8("out", {rows, row_length}, x)}, {{"granularity", "none"}});
    CAPTURE(codes(v));
    CHECK(v.outcome == Outcome::pass);
}

}  // namespace given_scale_test
