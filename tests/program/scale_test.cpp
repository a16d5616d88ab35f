// SPDX-License-Identifier: Apache-2.0
// Tests the rows and the errors of `macheps scale`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <string>

namespace scale_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("scale prints a row for each step", "[program][scaling]") {
    const Outcome csv = run("scale te_delayed --amax 1,2,0,inf,nan,3 --csv");
    CAPTURE(csv.err);
    CHECK(csv.code == 0);
    CHECK(csv.out ==
          "step,amax,scale,scale_inv\n1,1,1,1\n2,2,448,0.0022321429569274187\n3,0,224,0.004464285913854837\n"
          "4,inf,224,0.004464285913854837\n5,nan,224,0.004464285913854837\n6,3,224,0.004464285913854837\n");
    const Outcome recent =
        run("scale te_delayed --amax 1,500,1,1 --history 2 --margin 1 --algorithm most_recent --csv");
    CHECK(recent.out ==
          "step,amax,scale,scale_inv\n1,1,1,1\n2,500,224,0.004464285913854837\n"
          "3,1,0.4480000138282776,2.232142686843872\n4,1,224,0.004464285913854837\n");
    const json rows = json::parse(run("scale ao_fp8 --amax 448,nan --json").out);
    CHECK(rows[0] == json{{"step", 1}, {"amax", 448}, {"scale", 1}, {"scale_inv", 1}});
    CHECK(rows[1]["scale"] == "nan");
    CHECK(holds(run("scale te_mxfp8 --amax 1.75 ").out, "step  amax"));
}

TEST_CASE("scale refuses invalid options, and the error names the option", "[program][scaling]") {
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c :
         {Case{"scale te_delayed --amax 1 --history 0", "--history: '0' is out of range (give 1 to 65536)"},
          Case{"scale te_delayde --amax 1", "did you mean 'te_delayed'?"},
          Case{"scale te_delayed --amax 1,x", "--amax: 'x' is not a number"},
          Case{"scale te_delayed --amax -1", "-1 is not a valid maximum magnitude"},
          Case{"scale te_block --amax 1 --algorithm max", "--algorithm: 'te_block' does not use this option"},
          Case{"scale te_block --amax 1 --tensor-amax 1", "leave it out, or use te_nvfp4"},
          Case{"scale te_delayed", "--amax"}}) {
        const Outcome outcome = run(c.arguments);
        CAPTURE(c.arguments, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(holds(outcome.err, c.says));
        CHECK(outcome.out.empty());
    }
}

}  // namespace scale_test
