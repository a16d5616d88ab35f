// SPDX-License-Identifier: Apache-2.0
// Tests `macheps scaler`: its table, its CSV and JSON, its errors, and the examples in its help.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace scaler_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

const std::string header = "step,scale,overflow,skipped,scale_after,tracker,hysteresis,raised\n";

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("scaler --csv prints the trace of a scaler and nothing else", "[program]") {
    struct Case {
        const char *arguments, *rows;
        int code;
    };
    for (const Case& c : {
             Case{"torch --window 3 --overflow-at 3 --steps 4",
                  "1,65536,0,0,65536,1,,0\n2,65536,0,0,65536,2,,0\n3,65536,1,1,32768,0,,0\n4,32768,0,0,32768,1,,0\n",
                  0},
             Case{"ds-zero --init 2 --hysteresis 1 --overflow-at 1,2,3,4", "1,2,1,1,1,0,1,0\n2,1,1,1,1,0,1,1\n", 1},
             Case{"deepspeed-zero --version 0.16.5 --window 1 --steps 2 --consecutive-hysteresis",
                  "1,65536,0,0,131072,1,2,0\n2,131072,0,0,262144,2,2,0\n", 0},
             Case{"deepspeed-fused --min-scale 0.25 --init 0.3 --overflow-at 1 --steps 1", "1,0.3,1,1,0.25,0,,0\n", 0},
             Case{"torch --init 0.1 --steps 1", "1,0.10000000149011612,0,0,0.10000000149011612,1,,0\n", 0},
             Case{"megatron --init 2e38 --window 1 --steps 2 --hysteresis 3",
                  "1,1.9999999360571385e+38,0,0,inf,0,3,0\n2,inf,0,0,inf,0,3,0\n", 0},
             Case{"apex --max-scale 8 --window 1 --steps 1", "1,8,0,0,8,0,,0\n", 0},
             Case{"apex-fp16-utils --growth 4 --overflow-at 1 --steps 1", "1,4294967296,1,1,1073741824,0,,0\n", 0},
             Case{"static --set skip=false --overflow-at 1 --steps 1", "1,65536,1,0,65536,0,,0\n", 0},
             Case{"none --overflow-at 1 --steps 1", "1,1,1,0,1,0,,0\n", 0},
         }) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("scaler --csv ") + c.arguments);
        CHECK(outcome.code == c.code);
        CHECK(outcome.out == header + c.rows);
        CHECK(outcome.err.empty() == (c.code == 0));
    }
    fs::remove_all(scratch());
}

TEST_CASE("the trace of a scaler as JSON agrees with its CSV", "[program]") {
    for (const std::string arguments :
         {"ds-zero --window 3 --overflow-at 3,4,9", "torch --window 3 --overflow-at 3,4,9",
          "ds-zero --init 2 --hysteresis 1 --overflow-at 1,2,3,4", "megatron --init 1e38 --window 1 --steps 4"}) {
        CAPTURE(arguments);
        const Outcome as_csv = run("scaler --csv " + arguments), as_json = run("scaler --json " + arguments);
        CHECK(as_json.code == as_csv.code);
        CHECK(as_json.err == as_csv.err);
        const json rows = json::parse(as_json.out);
        std::string text = header;
        for (const json& row : rows) {
            std::string line;
            for (const char* name :
                 {"step", "scale", "overflow", "skipped", "scale_after", "tracker", "hysteresis", "raised"}) {
                const json& cell = row.at(name);
                // JSON writes whole fp64 numbers with a trailing ".0", and CSV writes them without it.
                std::string number = cell.is_null() ? "" : cell.is_string() ? cell.get<std::string>() : cell.dump();
                if (number.ends_with(".0")) number.resize(number.size() - 2);
                line += (line.empty() ? "" : ",") + number;
            }
            text += line + "\n";
            CHECK(row.size() == 8);
        }
        CHECK(text == as_csv.out);
    }
    fs::remove_all(scratch());
}

TEST_CASE("the table of a scaler describes each step in words", "[program]") {
    const Outcome zero = run("scaler ds-zero --window 3 --overflow-at 3,4,9");
    CHECK(zero.code == 0);
    CHECK(zero.out.starts_with("ds-zero 0.19.6, from 65536; x2 after 3 clean steps;"));
    CHECK(holds(zero.out, "\n3     65536   overflow: skipped             65536        0        1\n"));
    CHECK(holds(zero.out, "\n4     65536   overflow: skipped, backs off  32768        0        1\n"));
    CHECK(holds(zero.out, "\n8     32768   grows, gradients halved       65536        4        2\n"));
    CHECK(std::count(zero.out.begin(), zero.out.end(), '\n') == 19);
    CHECK_FALSE(holds(run("scaler ds-zero --window 3 --set growth_step_half_grad=false").out, "halved"));
    CHECK(holds(run("scaler torch --window 3").out, "grows  "));
    CHECK(holds(run("scaler static --set skip=false --overflow-at 2").out, "overflow: taken"));
    const Outcome ends = run("scaler ds-zero --init 1 --hysteresis 1 --overflow-at 5");
    CHECK(ends.code == 1);
    CHECK(holds(ends.out, "overflow: the run ends"));
    CHECK(holds(ends.err,
                "macheps: step 5: loss scaler ds-zero: an Inf or NaN gradient while the scale is at its floor"));
    CHECK(std::count(ends.err.begin(), ends.err.end(), '\n') == 1);
    fs::remove_all(scratch());
}

TEST_CASE("a key that a scaler does not have is refused, and the error names the kinds that have it", "[program]") {
    struct Case {
        const char *arguments, *says;
    };
    for (const Case& c : {
             Case{"ds-fused --hysteresis 2",
                  "--hysteresis: the loss scaler 'ds-fused' does not have the key 'hysteresis' (leave it out, or use "
                  "ds-zero, megatron)"},
             Case{"torch --version 2.7",
                  "'torch' does not have the key 'version' (leave it out, or use ds-zero, ds-fused)"},
             Case{"torch --min-scale 1", "(leave it out, or use ds-zero, ds-fused, apex, megatron)"},
             Case{"megatron --max-scale 8", "(leave it out, or use apex)"},
             Case{"ds-zero --growth 3", "(leave it out, or use torch, torch-sharded, apex-fp16-utils, megatron)"},
             Case{"apex --backoff 0.25", "(leave it out, or use torch, torch-sharded, megatron)"},
             Case{"none --init 3", "(leave it out, or use static, torch, torch-sharded, ds-zero, ds-fused, apex, "},
             Case{"static --window 3", "(leave it out, or use torch, torch-sharded, ds-zero, ds-fused, apex, "},
             Case{"megatron --consecutive-hysteresis",
                  "--consecutive-hysteresis: the loss scaler 'megatron' does not have the key"},
             Case{"torch --set fused=true",
                  "--set: the loss scaler 'torch' does not have the key 'fused' (see `macheps policy words`"},
             Case{"torch --set init_scale", "--set: 'init_scale' does not contain = (write KEY=VALUE)"},
             Case{"torch --set unscale_by_division=1", "'unscale_by_division' is 1 (give true or false)"},
             Case{"torch --init 0", "--init: 'init_scale' is 0 (give a positive fp32 number)"},
             Case{"torch --init 1e39", "(give a positive fp32 number)"},
             Case{"torch --init nan", "--init: 'init_scale' is nan (give a positive fp32 number)"},
             Case{"torch --init many", "--init: 'init_scale' is many (give a positive fp32 number)"},
             Case{"torch --growth 1", "--growth: 'growth_factor' is 1 (give more than 1)"},
             Case{"torch --backoff 1", "--backoff: 'backoff_factor' is 1 (give more than 0, less than 1)"},
             Case{"torch --window 0", "--window: 'growth_interval' is 0 (give 1 to 2147483647)"},
             Case{"torch --window 2.5", "--window: 'growth_interval' is 2.5 (give 1 to 2147483647)"},
             Case{"megatron --hysteresis 0", "(give 1 to 2147483647)"},
             Case{"ds-zero --hysteresis -1", "(give 0 to 2147483647)"},
             Case{"ds-zero --version newest", "--version: 'version' is newest (give a version such as 0.16.5)"},
             Case{"ds-zero --min-scale -1", "(give 0 or a positive fp32 number)"},
             Case{"megatron --init 4 --min-scale 8", "megatron: min_scale 8 is above init_scale 4"},
             Case{"torch --overflow-at 3,17",
                  "--overflow-at: there is no step 17 (use steps from 1 to 16, or a larger --steps)"},
             Case{"torch --overflow-at 0", "give 1 to 1000000"},
             Case{"torch --overflow-at 17", "there is no step 17"},
             Case{"torch --overflow-at 1,x", "--overflow-at"},
             Case{"torch --steps 0", "--steps"},
             Case{"torch --csv --json", "--json"},
             Case{"tosch", "tosch"},
             Case{"", "KIND is required"},
         }) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("scaler ") + c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.out.empty() != holds(c.arguments, "--json"));  // with --json, the error is printed as JSON
        CHECK(holds(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("every example of the scaler's help runs", "[program]") {
    std::istringstream help(run("scaler --help").out);
    int examples = 0;
    for (std::string line; std::getline(help, line);) {
        if (!line.starts_with("  macheps scaler ")) continue;
        // Two spaces separate the example from its description.
        const std::string arguments = line.substr(10, line.find("  ", 10) - 10);
        CAPTURE(arguments);
        const Outcome outcome = run(arguments);
        CHECK(outcome.code == 0);
        CHECK(outcome.err.empty());
        CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') >= 7);
        ++examples;
    }
    CHECK(examples == 5);
    CHECK(holds(run("scaler torch --window 3 --overflow-at 3,4,9").out, "overflow: skipped, backs off"));
    CHECK(holds(run("scaler apex --init 2097152 --window 1 --steps 5").out, "\n5     16777216  -      16777216"));
    fs::remove_all(scratch());
}

}  // namespace scaler_test
