// SPDX-License-Identifier: Apache-2.0
// Compares every kind of loss scaler with traces recorded from the frameworks' own classes: the scale that each step
// uses, the remaining hysteresis, and the step at which the framework raises an error.
#include "core/error.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/scaler/torch.hpp"
#include "experiments/policy/scaler/trace.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace scaler_trace_test {

using namespace macheps;
using namespace macheps::policy;

namespace {

using Steps = std::vector<std::int64_t>;

constexpr double inf = std::numeric_limits<double>::infinity();

/// Parses the kind of a loss scaler and some of its keys, such as "ds-zero version=0.16.5 hysteresis=1".
LossScalerConfig config_of(const std::string& text) {
    std::istringstream words(text);
    std::string word;
    words >> word;
    REQUIRE(find_scaler(word) != nullptr);
    LossScalerConfig config(*find_scaler(word));
    while (words >> word) {
        const std::string name = word.substr(0, word.find('='));
        const auto key = std::find_if(config.kind->keys.begin(), config.kind->keys.end(),
                                      [&](const ScalerKey& each) { return each.name == name; });
        REQUIRE(key != config.kind->keys.end());
        config.set(name, parse_setting(*key, word.substr(word.find('=') + 1)));
    }
    return config;
}

std::vector<ScalerStep> trace_of(const std::string& scaler, const Steps& overflow_at, std::int64_t steps) {
    return trace(*make_loss_scaler(config_of(scaler)), overflow_at, steps);
}

/// Returns the numbers in a text that separates them by spaces.
std::vector<double> numbers(const std::string& text) {
    std::istringstream in(text);
    std::vector<double> list;
    for (double x = 0; in >> x;) list.push_back(x);
    return list;
}

template <class Field>
std::vector<double> column(const std::vector<ScalerStep>& rows, Field&& field) {
    std::vector<double> list;
    for (const ScalerStep& row : rows) list.push_back(field(row));
    return list;
}

struct Trace {
    std::string scaler;
    const char *used, *end;            // exponents of the scale: in each step (used), and after the last step (end)
    const char *tracker, *hysteresis;  // values after each step; if empty: tracker is not compared, no hysteresis
};

void check(const Trace& expected, const Steps& overflow_at) {
    CAPTURE(expected.scaler);
    const std::vector<double> used = numbers(expected.used);
    const auto rows = trace_of(expected.scaler, overflow_at, static_cast<std::int64_t>(used.size()));
    CHECK(column(rows, [](const ScalerStep& row) { return std::log2(row.scale); }) == used);
    CHECK(std::log2(rows.back().scale_after) == std::stod(expected.end));
    const std::string tracker = expected.tracker, hysteresis = expected.hysteresis;
    if (!tracker.empty()) {
        CHECK(column(rows, [](const ScalerStep& row) { return double(row.tracker); }) == numbers(tracker));
    }
    if (!hysteresis.empty()) {
        CHECK(column(rows, [](const ScalerStep& row) { return double(row.hysteresis.value()); }) ==
              numbers(hysteresis));
    }
    for (const ScalerStep& row : rows) {
        CHECK(row.hysteresis.has_value() == !hysteresis.empty());
        const bool overflow = std::find(overflow_at.begin(), overflow_at.end(), row.step) != overflow_at.end();
        CHECK(row.overflow == overflow);
        CHECK(row.skipped == overflow);
        CHECK_FALSE(row.raised);
        if (row.step > 1) CHECK(row.scale == rows[static_cast<std::size_t>(row.step) - 2].scale_after);
    }
}

/// Returns, for each step, the number of clean steps since the last overflow. This is the tracker of scalers that keep
/// no other tracker.
std::string since_overflow(const Steps& overflow_at, int steps) {
    std::string text;
    int count = 0;
    for (int step = 1; step <= steps; ++step) {
        count = std::find(overflow_at.begin(), overflow_at.end(), step) != overflow_at.end() ? 0 : count + 1;
        text += std::to_string(count) + " ";
    }
    return text;
}

}  // namespace

TEST_CASE("trace A: if steps 3, 4 and 9 overflow, every scaler has the states that were recorded from its framework",
          "[experiments][scaler]") {
    const Steps overflow_at{3, 4, 9};
    const std::string w = " growth_interval=3", zero_old = "ds-zero version=0.16.5" + w,
                      since = since_overflow({3, 4, 9}, 16);
    const char* const quick = "16 16 16 15 14 14 14 15 15 14 14 14 15 15 15 16";
    const char* const tracker = "1 2 0 0 1 2 0 1 0 1 2 0 1 2 0 1";
    for (const Trace& expected : {
             Trace{"torch" + w, quick, "16", tracker, ""},
             Trace{"torch-sharded" + w, quick, "16", tracker, ""},
             Trace{"torch-sharded on_cpu=true" + w, quick, "16", tracker, ""},
             Trace{"apex" + w, quick, "16", tracker, ""},
             Trace{"apex-fp16-utils init_scale=65536" + w, quick, "16", since.c_str(), ""},
             Trace{zero_old + " hysteresis=1", quick, "16", since.c_str(), "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"},
         }) {
        check(expected, overflow_at);
    }
    const char* const slow = "16 16 16 16 15 15 15 16 16 16 16 16 17 17 17 18";
    check({zero_old, slow, "18", since.c_str(), "2 2 1 1 1 1 2 2 1 1 1 2 2 2 2 2"}, overflow_at);
    check({zero_old + " consecutive_hysteresis=true", slow, "18", since.c_str(), "2 2 1 1 2 2 2 2 1 2 2 2 2 2 2 2"},
          overflow_at);
    for (const std::string version : {"0.17.1", "0.19.6"}) {
        const std::string zero = "deepspeed-zero version=" + version + w;
        const char* const late = "16 16 16 16 15 15 15 15 16 16 16 16 16 17 17 17";
        check({zero, late, "18", since.c_str(), "2 2 1 1 1 1 1 2 1 1 1 1 2 2 2 2"}, overflow_at);
        check({zero + " consecutive_hysteresis=true", late, "18", since.c_str(), "2 2 1 1 2 2 2 2 1 2 2 2 2 2 2 2"},
              overflow_at);
    }
    for (const std::string fused : {"ds-fused", "ds-fused version=0.16.5", "deepspeed-fused version=0.17.1"}) {
        check({fused + w, "16 16 16 15 14 14 14 14 15 14 14 14 14 15 15 15", "16", since.c_str(), ""}, overflow_at);
    }
    check({"megatron init_scale=65536" + w, slow, "18", "1 2 0 0 1 2 0 1 0 1 2 0 1 2 0 1",
           "2 2 1 0 0 0 2 2 1 1 1 2 2 2 2 2"},
          overflow_at);
}

TEST_CASE("trace B: overflows at steps 3, 5 and 7 show when the hysteresis is refilled", "[experiments][scaler]") {
    const Steps overflow_at{3, 5, 7};
    const std::string w = " growth_interval=3", zero_old = "ds-zero version=0.16.5" + w,
                      since = since_overflow({3, 5, 7}, 12);
    const char* const quick = "16 16 16 15 15 14 14 13 13 13 14 14";
    const char* const tracker = "1 2 0 1 0 1 0 1 2 0 1 2";
    for (const Trace& expected : {
             Trace{"torch" + w, quick, "14", tracker, ""},
             Trace{"torch-sharded" + w, quick, "14", tracker, ""},
             Trace{"torch-sharded on_cpu=true" + w, quick, "14", tracker, ""},
             Trace{"apex" + w, quick, "14", tracker, ""},
             Trace{"apex-fp16-utils init_scale=65536" + w, quick, "14", since.c_str(), ""},
             Trace{zero_old + " hysteresis=1", quick, "14", since.c_str(), "1 1 1 1 1 1 1 1 1 1 1 1"},
         }) {
        check(expected, overflow_at);
    }
    check({zero_old, "16 16 16 16 16 15 15 14 14 14 15 15", "15", since.c_str(), "2 2 1 1 1 1 1 1 1 2 2 2"},
          overflow_at);
    check({zero_old + " consecutive_hysteresis=true", "16 16 16 16 16 16 16 16 16 16 17 17", "17", since.c_str(),
           "2 2 1 2 1 2 1 2 2 2 2 2"},
          overflow_at);
    for (const std::string version : {"0.17.1", "0.19.6"}) {
        const std::string zero = "ds-zero version=" + version + w;
        check({zero, "16 16 16 16 16 15 15 14 14 14 14 15", "15", since.c_str(), "2 2 1 1 1 1 1 1 1 1 2 2"},
              overflow_at);
        check({zero + " consecutive_hysteresis=true", "16 16 16 16 16 16 16 16 16 16 16 17", "17", since.c_str(),
               "2 2 1 2 1 2 1 2 2 2 2 2"},
              overflow_at);
    }
    for (const std::string fused : {"ds-fused", "ds-fused version=0.16.5"}) {
        check({fused + w, "16 16 16 15 15 14 14 13 13 13 13 14", "14", since.c_str(), ""}, overflow_at);
    }
    check({"megatron init_scale=65536" + w, "16 16 16 16 16 15 15 14 14 14 15 15", "15", "1 2 0 1 0 1 0 1 2 0 1 2",
           "2 2 1 1 0 0 -1 -1 -1 2 2 2"},
          overflow_at);
}

TEST_CASE("edge traces E1 to E4: scalers agree with their frameworks at the floor, at the cap and in the first step",
          "[experiments][scaler]") {
    struct Edge {
        std::string scaler;
        bool overflows;
        std::vector<double> used, after;
        bool raises;
    };
    const std::string e1 = " init_scale=4", e2 = " init_scale=8388608 growth_interval=1",
                      e3 = " init_scale=1.7014118346046923e38 growth_interval=1",
                      e4 = " init_scale=4 growth_interval=1";
    const double p23 = 0x1p23, p24 = 0x1p24, top = 0x1p127;
    const std::vector<double> to_zero{4, 2, 1, 0.5, 0.25, 0.125}, to_one{4, 2, 1, 1, 1, 1};
    const Edge edges[] = {
        {"torch" + e1, true, to_zero, {2, 1, 0.5, 0.25, 0.125, 0.0625}, false},
        {"torch-sharded" + e1, true, to_zero, {2, 1, 0.5, 0.25, 0.125, 0.0625}, false},
        {"apex" + e1, true, to_zero, {2, 1, 0.5, 0.25, 0.125, 0.0625}, false},
        {"apex min_scale=0" + e1, true, to_zero, {2, 1, 0.5, 0.25, 0.125, 0.0625}, false},
        {"apex min_scale=1" + e1, true, to_one, {2, 1, 1, 1, 1, 1}, false},
        {"ds-zero version=0.16.5 hysteresis=1" + e1, true, {4, 2, 1}, {2, 1, 1}, true},
        {"ds-zero hysteresis=1" + e1, true, {4, 2, 1}, {2, 1, 1}, true},
        {"ds-zero hysteresis=2" + e1, true, {4, 4, 2, 1}, {4, 2, 1, 1}, true},
        {"ds-fused" + e1, true, to_one, {2, 1, 1, 1, 1, 1}, false},
        {"apex-fp16-utils" + e1, true, to_one, {2, 1, 1, 1, 1, 1}, false},
        {"megatron hysteresis=1" + e1, true, to_one, {2, 1, 1, 1, 1, 1}, false},
        // Repeated halving does not reach a floor of 3 exactly.
        {"apex min_scale=3" + e1, true, {4, 3, 3}, {3, 3, 3}, false},
        {"ds-zero hysteresis=1 min_scale=3" + e1, true, {4, 3}, {3, 3}, true},
        {"ds-fused min_scale=3" + e1, true, {4, 3, 3}, {3, 3, 3}, false},
        {"megatron hysteresis=1 min_scale=3" + e1, true, {4, 3, 3}, {3, 3, 3}, false},
        {"torch" + e2, false, {p23, p24, 2 * p24, 4 * p24}, {p24, 2 * p24, 4 * p24, 8 * p24}, false},
        {"apex" + e2, false, {p23, p24, p24, p24}, {p24, p24, p24, p24}, false},
        {"apex init_scale=33554432", false, {p24, p24}, {p24, p24}, false},
        {"torch" + e3, false, {top, top, top}, {top, top, top}, false},
        {"torch-sharded" + e3, false, {top, top, top}, {top, top, top}, false},
        {"torch-sharded on_cpu=true" + e3, false, {top, inf}, {inf, inf}, false},
        {"megatron" + e3, false, {top, inf}, {inf, inf}, false},
        {"ds-zero version=0.16.5" + e3, false, {top, 2 * top}, {2 * top, 4 * top}, false},
        {"torch" + e4, false, {4, 8}, {8, 16}, false},
        {"apex" + e4, false, {4, 8}, {8, 16}, false},
        {"ds-zero version=0.16.5" + e4, false, {4, 8}, {8, 16}, false},
        {"ds-zero version=0.17" + e4, false, {4, 8}, {8, 16}, false},
        {"ds-zero version=0.17.1" + e4, false, {4, 4, 8}, {4, 8, 16}, false},
        {"ds-zero" + e4, false, {4, 4, 8}, {4, 8, 16}, false},
        {"ds-fused version=0.16.5" + e4, false, {4, 4, 8}, {4, 8, 16}, false},
        {"ds-fused" + e4, false, {4, 4, 8}, {4, 8, 16}, false},
        {"apex-fp16-utils" + e4, false, {4, 8}, {8, 16}, false},
        {"megatron" + e4, false, {4, 8}, {8, 16}, false},
    };
    for (const Edge& edge : edges) {
        CAPTURE(edge.scaler, edge.overflows);
        const auto steps = static_cast<std::int64_t>(edge.used.size());
        // A trace ends with the step that raises, even if more steps are requested.
        Steps all;
        for (std::int64_t step = 1; edge.overflows && step <= steps + 3; ++step) all.push_back(step);
        const auto rows = trace_of(edge.scaler, all, edge.raises ? steps + 3 : steps);
        CHECK(column(rows, [](const ScalerStep& row) { return row.scale; }) == edge.used);
        CHECK(column(rows, [](const ScalerStep& row) { return row.scale_after; }) == edge.after);
        CHECK(rows.back().raised == edge.raises);
        CHECK(rows.back().error.empty() != edge.raises);
        CHECK(rows.back().skipped == edge.overflows);
    }
}

TEST_CASE("a hysteresis of 0 never lets DeepSpeed's scale back off", "[experiments][scaler]") {
    for (const std::string version : {"0.16.5", "0.19.6"}) {
        const auto rows = trace_of("ds-zero hysteresis=0 version=" + version, {1, 2, 3, 4}, 4);
        CHECK(column(rows, [](const ScalerStep& row) { return row.scale_after; }) == std::vector<double>(4, 65536.0));
        CHECK(column(rows, [](const ScalerStep& row) { return double(*row.hysteresis); }) ==
              std::vector<double>{-1, -2, -3, -4});
    }
}

TEST_CASE("the scale of DeepSpeed and Apex is a double, and the factor that unscales is fp32",
          "[experiments][scaler]") {
    for (const std::string kind : {"ds-zero hysteresis=1 min_scale=0", "ds-fused min_scale=0", "apex", "static"}) {
        const auto rows = trace_of(kind + " init_scale=0.1", {1}, 1);
        CAPTURE(kind);
        CHECK(rows[0].scale == 0.1);
        CHECK(rows[0].scale_after == (kind == "static" ? 0.1 : 0.05));
    }
    CHECK(trace_of("torch init_scale=0.1", {}, 1)[0].scale == double{0.1f});
    CHECK(trace_of("megatron init_scale=0.1 min_scale=0.01", {}, 1)[0].scale == double{0.1f});
    // Python's 1 / 0.7, rounded once to fp32, is not the reciprocal of 0.7 in fp32.
    int different = 0;
    for (int i = 1; i < 1000; ++i) {
        const double scale = i * 0.1;
        const auto row = trace_of("apex init_scale=" + std::to_string(scale), {}, 1)[0];
        CHECK(row.unscaling.factor == static_cast<float>(1 / scale));
        different += row.unscaling.factor != inverse_scale(static_cast<float>(scale));
    }
    CHECK(different > 0);
}

TEST_CASE("factors are doubles in GradScaler, and fp32 in Megatron and in FSDP's scaler on a CPU",
          "[experiments][scaler]") {
    const std::string keys = " init_scale=3 growth_factor=1.3 backoff_factor=0.7 growth_interval=1";
    const auto torch = trace_of("torch" + keys, {2, 5, 6}, 40);
    const auto megatron = trace_of("megatron hysteresis=1 min_scale=0.001" + keys, {2, 5, 6}, 40);
    const auto sharded = trace_of("torch-sharded on_cpu=true" + keys, {2, 5, 6}, 40);
    bool differs = false;
    float narrow = 3, wide = 3;
    for (std::size_t i = 0; i < torch.size(); ++i) {
        const bool overflow = torch[i].overflow;
        narrow *= overflow ? 0.7f : 1.3f;
        wide = static_cast<float>(double{wide} * (overflow ? 0.7 : 1.3));
        CHECK(torch[i].scale_after == double{wide});
        CHECK(megatron[i].scale_after == double{narrow});
        CHECK(sharded[i].scale_after == double{narrow});
        differs = differs || narrow != wide;
    }
    CHECK(differs);
}

TEST_CASE("gradients are halved when DeepSpeed's scale grows, unless growth_step_half_grad is false",
          "[experiments][scaler]") {
    const std::map<std::string, Steps> growth{{"ds-zero version=0.16.5", {7, 12, 15}},
                                              {"ds-zero version=0.17.1", {8, 13, 16}},
                                              {"ds-zero", {8, 13, 16}},
                                              {"ds-fused version=0.16.5", {8, 13, 16}},
                                              {"ds-fused", {8, 13, 16}}};
    for (const auto& [scaler, steps] : growth) {
        for (const bool halves : {true, false}) {
            const std::string text = scaler + " growth_interval=3" + (halves ? "" : " growth_step_half_grad=false");
            CAPTURE(text);
            for (const ScalerStep& row : trace_of(text, {3, 4, 9}, 16)) {
                if (row.overflow) continue;
                const bool grows = std::find(steps.begin(), steps.end(), row.step) != steps.end();
                CHECK((row.scale_after == 2 * row.scale) == grows);
                CHECK(row.unscaling.factor * row.scale == (grows && halves ? 0.5 : 1.0));
                CHECK(row.unscaling.widens);
            }
        }
    }
    for (const std::string other : {"torch", "torch-sharded", "apex", "apex-fp16-utils", "megatron", "static"}) {
        const std::string window = other == "static" ? "" : " growth_interval=3";
        for (const ScalerStep& row : trace_of(other + window, {3, 4, 9}, 16)) {
            CHECK(row.unscaling.factor * row.scale == 1.0);
        }
    }
}

TEST_CASE("a static scale never changes, and overflowing steps are skipped unless `skip` is false",
          "[experiments][scaler]") {
    for (const std::string scale : {"1", "1024", "0.1"}) {
        for (const bool skips : {true, false}) {
            const std::string text = "static init_scale=" + scale + (skips ? "" : " skip=false");
            for (const ScalerStep& row : trace_of(text, {1, 2, 5}, 8)) {
                CAPTURE(text, row.step);
                CHECK(row.scale == std::stod(scale));
                CHECK(row.scale_after == std::stod(scale));
                CHECK(row.skipped == (row.overflow && skips));
                CHECK(row.tracker == 0);
                CHECK_FALSE(row.unscaling.divides);
            }
        }
    }
    for (const ScalerStep& row : trace_of("none", {1, 2}, 3)) {
        CHECK(row.scale == 1);
        CHECK_FALSE(row.skipped);
    }
    for (const std::string kind : {"static", "torch", "torch-sharded"}) {
        const auto row = trace_of(kind + " init_scale=3 unscale_by_division=true", {}, 1)[0];
        CHECK(row.unscaling.divides);
        CHECK(row.unscaling.factor == 3.0f);
    }
}

TEST_CASE("the preset static-1024 has a scale of 1024 and does not check for Inf", "[experiments][scaler]") {
    const LossScalerConfig config = load_policy("static-1024").loss_scaler;
    CHECK(config == config_of("static init_scale=1024 skip=false unscale_by_division=true"));
    CHECK(config.kind == find_scaler("static"));
}

TEST_CASE("a version has up to three numbers, and versions can be compared", "[experiments][scaler]") {
    CHECK(version_number("0.16.5") == 16005.0);
    CHECK(version_number("0.17") == version_number("0.17.0"));
    CHECK(version_number("1") == 1000000.0);
    CHECK(*version_number("0.9.10") > *version_number("0.9.9"));
    for (const char* text :
         {"", "0.", ".1", "0.17.", "0.16.5.1", "0.1000", "-1", "0.-1", "0.16.5rc1", "v0.16", "0..1", " 1"}) {
        CAPTURE(text);
        CHECK_FALSE(version_number(text).has_value());
    }
    const LossScalerConfig config = config_of("ds-zero version=0.16");
    CHECK(to_string(config).find("ds-zero 0.16.0, ") == 0);
}

TEST_CASE("the TOML text written for a scaler is read as the same scaler", "[experiments][scaler]") {
    for (const ScalerKind* kind : scaler_kinds()) {
        CAPTURE(std::string(kind->name));
        const LossScalerConfig plain(*kind);
        CHECK(parse_policy(to_toml(plain), "mine.toml").loss_scaler == plain);
    }
    for (const std::string text : {"ds-zero version=0.16.5 hysteresis=0 consecutive_hysteresis=true min_scale=0.25",
                                   "apex min_scale=0.1 init_scale=0.3", "megatron growth_factor=1.1 init_scale=1e20",
                                   "static skip=false init_scale=1e-20"}) {
        CAPTURE(text);
        CHECK(parse_policy(to_toml(config_of(text)), "mine.toml").loss_scaler == config_of(text));
    }
    for (const std::string name : {"deepspeed-zero", "deepspeed-fused"}) {
        const LossScalerConfig config = parse_policy("[loss_scaler]\nkind = \"" + name + "\"", "mine.toml").loss_scaler;
        CHECK(config.kind == find_scaler("ds-" + name.substr(10)));
    }
    const auto error_of = [](const std::string& lines) -> std::string {
        try {
            parse_policy("[loss_scaler]\n" + lines, "mine.toml");
        } catch (const Error& error) {
            return error.what();
        }
        return "nothing was thrown";
    };
    CHECK(error_of("kind = \"ds-zero\"\nversion = 0.16") ==
          "mine.toml:3:11 (version): 'version' is a number (give a string)");
    CHECK(error_of("kind = \"ds-zero\"\nversion = \"new\"") ==
          "mine.toml:3:11 ([loss_scaler]): 'version' is new (give a version such as 0.16.5)");
    CHECK(error_of("kind = \"megatron\"\nmin_scale = 8\ninit_scale = 4") ==
          "mine.toml:1:1 ([loss_scaler]): min_scale 8 is above init_scale 4");
    CHECK(error_of("kind = \"ds-fused\"\nhysteresis = 2").find("unknown key 'hysteresis'") != std::string::npos);
}

TEST_CASE("a state that is saved and loaded in the middle of a trace does not change the rest of the trace",
          "[experiments][scaler]") {
    for (const ScalerKind* kind : scaler_kinds()) {
        for (const std::string version : {"0.16.5", "0.19.6"}) {
            LossScalerConfig config(*kind);
            for (const ScalerKey& key : kind->keys) {
                if (key.name == "growth_interval") config.set(key.name, 3);
                if (key.name == "version") config.set(key.name, version_number(version));
                if (key.name == "min_scale") config.set(key.name, 0x1p-20);
            }
            CAPTURE(to_string(config));
            const Steps overflow_at{3, 4, 9};
            const auto whole = trace(*make_loss_scaler(config), overflow_at, 16);
            for (std::int64_t stop = 0; stop <= 16; ++stop) {
                const auto first = make_loss_scaler(config);
                trace(*first, overflow_at, stop);
                const auto second = make_loss_scaler(config);
                REQUIRE(second->load(first->state()));
                CHECK(second->state() == first->state());
                Steps later;
                for (const std::int64_t step : overflow_at) later.push_back(step - stop);
                const auto rest = trace(*second, later, 16 - stop);
                for (const ScalerStep& row : rest) {
                    const ScalerStep& expected = whole[static_cast<std::size_t>(row.step + stop) - 1];
                    CHECK(row.scale == expected.scale);
                    CHECK(row.scale_after == expected.scale_after);
                    CHECK(row.tracker == expected.tracker);
                    CHECK(row.hysteresis == expected.hysteresis);
                    CHECK(row.unscaling.factor == expected.unscaling.factor);
                }
            }
            const auto scaler = make_loss_scaler(config);
            const std::vector<double> state = scaler->state();
            CHECK_FALSE(scaler->load(std::vector<double>(7)));
            if (state.empty()) continue;
            std::vector<double> broken = state;
            broken.back() = 0.5;
            CHECK_FALSE(scaler->load(broken));
            broken.back() = std::nan("");
            CHECK_FALSE(scaler->load(broken));
            CHECK(scaler->state() == state);
        }
    }
}

}  // namespace scaler_trace_test
