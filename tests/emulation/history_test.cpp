// SPDX-License-Identifier: Apache-2.0
#include "emulation/scaling/history.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>
#include <vector>

namespace history_test {

using namespace macheps;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Returns the scale of each step if the tensor has `amaxes[i]` in step i.
std::vector<float> scales(const std::vector<float>& amaxes, DelayedScaling how, const char* rule = "te_delayed",
                          const Format& format = e4m3fn) {
    AmaxHistory history(*find_scale_rule(rule), format, how);
    std::vector<float> all;
    for (const float amax : amaxes) {
        all.push_back(history.scale());
        history.observe(amax);
        history.update();
    }
    return all;
}

}  // namespace

TEST_CASE("delayed scaling uses the amaxes of earlier steps", "[emulation][scale]") {
    using All = std::vector<float>;
    constexpr auto recent = AmaxChoice::most_recent;
    // The first step has no history, so its scale is 1.
    CHECK(scales({7, 14, 3.5f, 3.5f}, {}) == All{1, 64, 32, 32});
    CHECK(scales({7, 14, 3.5f, 3.5f}, {.choice = recent}) == All{1, 64, 32, 128});
    CHECK(scales({7, 14, 3.5f}, {.margin = 2}) == All{1, 16, 8});
    CHECK(scales({57344, 1}, {}, "te_delayed", e5m2) == All{1, 1});
    // A spike leaves the window after exactly `length` updates.
    CHECK(scales({7, 14, 7, 7, 7}, {.length = 2}) == All{1, 64, 32, 32, 64});
    CHECK(scales({7, 14, 7, 7, 7}, {.length = 3}) == All{1, 64, 32, 32, 32});
    // A step whose tensor is all zeros or all NaN adds nothing to the history. The 14 stays in the window of two.
    CHECK(scales({7, 14, 0, 0, not_a_number, 7, 7}, {.length = 2}) == All{1, 64, 32, 32, 32, 32, 32});
    CHECK(scales({14, 0, 7}, {.choice = recent}) == All{1, 32, 32});
    // An infinity freezes the scale while it is in the window.
    CHECK(scales({7, infinity, 14, 14, 14, 14}, {.length = 3}) == All{1, 64, 64, 64, 64, 32});
    CHECK(scales({7, infinity, 14, 14}, {.choice = recent}) == All{1, 64, 64, 32});
}

TEST_CASE("unfused delayed scaling keeps amaxes of zero and NaN in its history, and fused delayed scaling does not",
          "[emulation][scale]") {
    using All = std::vector<float>;
    const auto unfused = [](const std::vector<float>& amaxes, DelayedScaling how) {
        return scales(amaxes, how, "te_delayed_unfused");
    };
    // The amaxes are powers of two, so their reciprocals are exact. The 8 leaves a window of two although
    // only zeros follow.
    const DelayedScaling two{.length = 2};
    CHECK(unfused({8, 0, 0, 4, 4}, two) == All{1, 56, 56, 56, 112});
    CHECK(scales({8, 0, 0, 4, 4}, two) == All{1, 56, 56, 56, 56});
    // In the unfused kernel, a NaN freezes the scale until the NaN leaves the window. The fused kernel ignores a NaN.
    CHECK(unfused({8, not_a_number, 4, 4, 4}, two) == All{1, 56, 56, 56, 112});
    CHECK(scales({8, not_a_number, 4, 4, 4}, two) == All{1, 56, 56, 56, 112});
    CHECK(unfused({8, 4, not_a_number, 2, 2, 2}, {.length = 3}) == All{1, 56, 56, 56, 56, 56});
    CHECK(scales({8, 4, not_a_number, 2, 2, 2}, {.length = 3}) == All{1, 56, 56, 56, 56, 112});
    CHECK(unfused({8, not_a_number, 4}, {.choice = AmaxChoice::most_recent}) == All{1, 56, 56});
    CHECK(unfused({8, 0, 4, 2}, {.choice = AmaxChoice::most_recent}) == All{1, 56, 56, 112});

    // If one of several tensors of a step has NaN, the amax is NaN, whatever their order.
    for (const bool is_first : {true, false}) {
        AmaxHistory history(*find_scale_rule("te_delayed_unfused"), e4m3fn, {});
        history.observe(is_first ? not_a_number : 8);
        history.observe(is_first ? 8 : not_a_number);
        const float amax = history.update();
        CHECK(amax != amax);
        CHECK(history.scale() == 1);
    }
    // A history that is loaded from a state continues like the original history. This also holds for amaxes of zero and
    // NaN.
    AmaxHistory one(*find_scale_rule("te_delayed_unfused"), e4m3fn, {.length = 3});
    for (const float amax : {8.0f, 0.0f, not_a_number, 0.0f, 4.0f, 0.0f, 0.0f, 2.0f, 1.0f}) {
        AmaxHistory other(*find_scale_rule("te_delayed_unfused"), e4m3fn, {.length = 3});
        other.load(one.state());
        for (AmaxHistory* each : {&one, &other}) {
            each->observe(amax);
            each->update();
        }
        CHECK(other.scale() == one.scale());
    }
    CHECK(one.scale() == 224);
}

TEST_CASE("the unfused scale is the format's largest number times the rounded reciprocal of amax",
          "[emulation][scale]") {
    // A computation in rational arithmetic shows that fl(fl(1 / 3) * 448) is one ulp above fl(448 / 3).
    const float fused = scale_function::te_delayed(3, 448, 0, 1),
                unfused = scale_function::te_delayed_unfused(3, 448, 0, 1);
    CHECK(fused == 448.0f / 3.0f);
    CHECK(unfused == (1.0f / 3.0f) * 448.0f);
    int different = 0;
    for (int i = 1; i <= 60'003; ++i) {
        const float amax = 1e-3f * static_cast<float>(i);
        const float a = scale_function::te_delayed(amax, 448, 0, 1);
        const float b = scale_function::te_delayed_unfused(amax, 448, 0, 1);
        CHECK(std::abs(bit_cast<std::int32_t>(a) - bit_cast<std::int32_t>(b)) <= 1);
        different += a != b ? 1 : 0;
    }
    // According to the specification, the fused and the unfused scale differ for 30 % of the amaxes.
    CHECK(different > 60'003 / 4);
    CHECK(different < 60'003 * 35 / 100);
}

TEST_CASE("a history that is loaded from a state continues as the original does", "[emulation][scale]") {
    const DelayedScaling how{.length = 4, .margin = 1};
    const ScaleRule& rule = *find_scale_rule("te_delayed");
    AmaxHistory one(rule, e4m3fn, how);
    for (int step = 0; step < 23; ++step) {
        const std::vector<float> state = one.state();
        CHECK(state.size() == AmaxHistory::state_size(how));
        AmaxHistory other(rule, e4m3fn, how);
        other.load(state);
        CHECK(other.state() == state);
        // If a step has several tensors, the largest amax counts.
        for (AmaxHistory* each : {&one, &other}) {
            each->observe(static_cast<float>(step * 7 % 5));
            each->observe(0.5f);
            each->update();
        }
        CHECK(other.scale() == one.scale());
        CHECK(other.state() == one.state());
    }
}

TEST_CASE("for a number just below a power of two, floor_power_by_log2 returns that power", "[emulation][scale]") {
    using scale_function::floor_power;
    using scale_function::floor_power_by_log2;
    // `ulps` is the largest distance below 2^k, in ulps, at which the fp32 logarithm still rounds to k. The logarithm
    // of 2^k (1 - d) is about k - d / ln 2. It rounds to k if d / ln 2 is at most half the distance from k to the next
    // smaller float. If that half distance is 2^j * 2^-24, then `ulps` is floor(ln 2 * 2^j). The values of ln 2 * 2^j
    // are 0.69, 1.39, 2.77, 5.55, 11.09, 22.18.
    struct Row {
        int k, ulps;
    };
    for (const Row& row : {Row{1, 0}, {2, 0},   {3, 1},   {4, 1},   {5, 2},    {7, 2},    {8, 2},    {9, 5},
                           {16, 5},   {17, 11}, {32, 11}, {33, 22}, {64, 22},  {65, 44},  {0, 0},    {-1, 0},
                           {-2, 1},   {-3, 1},  {-4, 2},  {-8, 5},  {-16, 11}, {-32, 22}, {-64, 44}, {-125, 44}}) {
        CAPTURE(row.k, row.ulps);
        const float power = std::ldexp(1.0f, row.k);
        const auto below = [&](int ulps) { return bit_cast<float>(bit_cast<std::int32_t>(power) - ulps); };
        for (int ulps = 0; ulps < 60; ++ulps) {
            CHECK(floor_power_by_log2(below(ulps)) == (ulps <= row.ulps ? power : power / 2));
        }
        CHECK(floor_power_by_log2(1.5f * power) == floor_power(1.5f * power));
    }
}

}  // namespace history_test
