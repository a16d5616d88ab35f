// SPDX-License-Identifier: Apache-2.0
// Compares traces of scale rules with the shared test vectors, and checks the error messages.
#include "experiments/study/scale/scale_trace.hpp"
#include "core/error.hpp"
#include "core/text/print.hpp"
#include "tests/study/recipe_vectors.hpp"

#include <sstream>

namespace scale_trace_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::study;

namespace {

/// Translates a command line of `macheps scale` into the corresponding ScaleQuestion.
ScaleQuestion question_of(const std::string& args) {
    ScaleQuestion question;
    std::istringstream in(args);
    std::string word, value;
    in >> word >> question.rule;
    REQUIRE(word == "scale");
    while (in >> word) {
        if (word == "--csv") continue;
        REQUIRE(static_cast<bool>(in >> value));
        if (word == "--amax") {
            std::istringstream amaxes(value);
            for (std::string one; std::getline(amaxes, one, ',');)
                question.amax.push_back(static_cast<float>(parse_number(one).value()));
        } else if (word == "--format") {
            question.format = value;
        } else if (word == "--history") {
            question.history = std::stoll(value);
        } else if (word == "--margin") {
            question.margin = std::stoll(value);
        } else {
            REQUIRE(word == "--algorithm");
            question.algorithm = value;
        }
    }
    return question;
}

}  // namespace

TEST_CASE("traces of scale rules agree with the shared vectors", "[scaling][shared]") {
    if (vectors().empty() || !std::filesystem::exists(vectors())) SKIP_TEST("no shared vectors");
    int count = 0;
    for (const json& line : lines_of_kind(vectors(), "scale")) {
        std::string args;
        for (const json& word : line.at("args")) args += word.get<std::string>() + " ";
        CAPTURE(args, ++count);
        std::vector<float> amaxes, scales, inverses;
        for (const ScaleTraceStep& step : scale_trace(question_of(args))) {
            CHECK(step.step == static_cast<std::int64_t>(scales.size()) + 1);
            amaxes.push_back(step.amax);
            scales.push_back(step.scale);
            inverses.push_back(step.scale_inv);
        }
        CHECK(same(amaxes, floats_of(line.at("amax"))));
        CHECK(same(scales, floats_of(line.at("scale"))));
        CHECK(same(inverses, floats_of(line.at("scale_inv"))));
    }
    CHECK(count >= 155);
}

TEST_CASE("the scales in a trace of NVFP4 blocks include the scale of the tensor", "[scaling]") {
    // The scale of a tensor with an amax of 6 maps this amax to 6 x 448. A block with an amax of 6 then has the block
    // scale 448. The two scales cancel, so the elements of the block do not change.
    const auto steps = scale_trace({.rule = "te_nvfp4", .amax = {6, 3, 0}, .tensor_amax = 6.0f});
    CHECK(steps[0].scale == 1);
    CHECK(steps[0].scale_inv == 1);
    CHECK(steps[1].scale == 2);
    CHECK(steps[1].scale_inv == 0.5f);
    CHECK(steps[2].scale_inv == 0);
    const auto largest = scale_trace({.rule = "te_nvfp4", .amax = {3, 6, 0}});
    CHECK(largest[1].scale == steps[0].scale);
    CHECK(largest[0].scale == steps[1].scale);
    // A block whose amax exceeds the given amax of the tensor needs a block scale above 448, which e4m3fn does not
    // have.
    const auto beyond = scale_trace({.rule = "te_nvfp4", .amax = {6, 24}, .tensor_amax = 6.0f});
    CHECK(beyond[0].scale == 1);
    CHECK(beyond[1].scale == 1);
    CHECK(scale_trace({.rule = "te_nvfp4", .amax = {6, 24}})[1].scale == 0.25f);
}

TEST_CASE("invalid requests for a trace are refused, and the error suggests the nearest valid word", "[scaling]") {
    struct Case {
        ScaleQuestion question;
        const char* says;
    };
    for (const Case& c : std::vector<Case>{
             {{.rule = "te_delay", .amax = {1}}, "did you mean 'te_delayed'?"},
             {{.rule = "te_delayed", .amax = {1}, .history = 0}, "history: 0 is out of range"},
             {{.rule = "te_delayed", .amax = {1}, .margin = 200}, "margin: 200 is out of range"},
             {{.rule = "te_delayed", .amax = {1}, .algorithm = "most_recnt"}, "did you mean 'most_recent'?"},
             {{.rule = "te_delayed", .amax = {-1}}, "-1 is not a valid maximum magnitude"},
             {{.rule = "te_delayed", .amax = {}}, "amax: there are no values"},
             {{.rule = "te_current", .amax = {1}, .history = 4}, "leave it out, or use te_delayed"},
             {{.rule = "te_current", .amax = {1}, .tensor_amax = 4.0f}, "leave it out, or use te_nvfp4"},
             {{.rule = "te_nvfp4", .amax = {1}, .format = "e4m3fn"}, "scales only e2m1fn elements"},
             {{.rule = "ao_fp8", .amax = {1}, .format = "e4m3nf"}, "did you mean 'e4m3fn'?"},
             {{.rule = "ao_fp8", .amax = {1}, .format = "e8m0fnu"}, "cannot be the format of scaled elements"}}) {
        CAPTURE(c.says);
        try {
            scale_trace(c.question);
            FAIL("nothing was refused");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find(c.says) != std::string::npos);
            CHECK(error.exit() == Exit::usage);
        }
    }
}

}  // namespace scale_trace_test
