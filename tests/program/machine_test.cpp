// SPDX-License-Identifier: Apache-2.0
// Tests `macheps machine`, and `macheps reveal` on machines.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace machine_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

json document(const Outcome& outcome) {
    CAPTURE(outcome.out, outcome.err);
    const json parsed = json::parse(outcome.out, nullptr, false);
    CHECK_FALSE(parsed.is_discarded());
    return parsed;
}

std::size_t lines(const std::string& text) {
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

/// Returns a worked example as a line for `machine eval`. The fp8 wgmma instruction keeps 13 fraction bits. The first
/// two products are 2.25 and -0.0791015625, C is 100.0009765625, and the other 30 products are zero.
json example() {
    json line{{"arch", "sm_90"},
              {"instr", "wgmma"},
              {"qual", "m64n8k32.f32.e4m3.e4m3"},
              {"cls", "example"},
              {"a", std::vector<std::string>(32, "00")},
              {"b", std::vector<std::string>(32, "00")},
              {"c", "42c80080"},
              {"d", "42cc5800"}};
    line["a"][0] = "3c", line["b"][0] = "3c";
    line["a"][1] = "b9", line["b"][1] = "19";
    return line;
}

}  // namespace

TEST_CASE("machine trace prints the kept part of each product, and refuses machines without steps",
          "[program][machine]") {
    const Outcome table = run("machine trace sm90.wgmma.fp8 -a 1,0.25 -b 1,0.25 -c 1024");
    CAPTURE(table.out, table.err);
    CHECK(table.code == 0);
    CHECK(table.out.find("step 1: largest exponent 10, unit 2^-3\n") != std::string::npos);
    CHECK(table.out.find("\n1     0.25  0.25   0.0625     0\n") != std::string::npos);
    CHECK(table.out.find("\nD        -     -        -  1025\n") != std::string::npos);
    for (const char* wrong : {"sm100.tcgen05.nvfp4", "fp32.kahan", "sm90.wgmma.fp7", "sm90.wgmma.fp8 -a x",
                              "sm90.wgmma.fp8 -f fp16", "sm90.wgmma.fp8 -f e4m3fn,e5m2,e5m2"}) {
        CAPTURE(wrong);
        CHECK(run(std::string("machine trace ") + wrong).code == 2);
    }
    CHECK(run("machine trace fp32.chain -a 1,2,3 -b 1,1,1 --json").out.find("\"unit_exponent\": null") !=
          std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("machine list and machine show print the table of machines", "[program]") {
    const std::string table = run("machine list").out;
    CHECK(table.starts_with("machine "));
    CHECK(says(table, "\nsm90.wgmma.fp8 "));
    CHECK(says(table, "hardware: H100, H200 (C = 0)"));
    const json all = document(run("machine list --json"));
    REQUIRE(all.size() > 70);
    CHECK(lines(table) == all.size() + 1);
    const std::string csv = run("machine list --csv").out;
    CHECK(lines(csv) == all.size() + 1);
    CHECK(csv.starts_with("machine,arch,instruction,operands,c,d,k,small_k,terms,fraction_bits,"));
    CHECK(says(csv, "\nsm80.mma.bf16,sm_80 sm_86,mma,bf16,fp32,fp32,16,8,8,24,truncated,"));
    std::set<std::string> names;
    for (const json& machine : all) {
        const std::string name = machine["machine"];
        CAPTURE(name);
        CHECK(names.insert(name).second);
        CHECK(machine["evidence"].is_string());
        CHECK(machine["operands"].is_array());
        CHECK_FALSE(machine["source"].get<std::string>().empty());
    }
    // `machine show` accepts every machine. The test shows only a few, because each needs its own process.
    for (const char* name : {"fp32.chain", "exact", "sm70.mma.fp16.c16", "sm90.mma.fp8", "sm100.tcgen05.nvfp4",
                             "sm120.mma.f8f6f4", "cdna1.mfma.bf16", "cdna2.mfma.fp16", "cdna3.mfma.fp8"}) {
        CAPTURE(name);
        const Outcome shown = run(std::string("machine show ") + name);
        CHECK(shown.code == 0);
        CHECK(shown.out.starts_with(std::string(name) + "\n"));
        for (const char* word : {"\noperands ", "\nsteps ", "\nmodel ", "\nrounding ", "\nevidence ", "\nsource "})
            CHECK(says(shown.out, word));
        const json object = document(run(std::string("machine show --json ") + name));
        CHECK(object["machine"] == name);
        const bool is_traced = std::string(name).starts_with("sm90.");  // tests/traces has traces of an H100
        CHECK(object["unverified"] == (object["evidence"] != "definition" && !is_traced));
        CHECK(says(shown.out, "\nverified ") == is_traced);
        CHECK(says(shown.out, "\nunverified ") == object["unverified"].get<bool>());
        CHECK(says(shown.out, "\ndisputed ") == !object["disputed"].empty());
        std::istringstream text(shown.out);
        for (std::string line; std::getline(text, line);) CHECK(line.size() <= 120);
    }
    const Outcome wgmma = run("machine show sm90.wgmma.fp8");
    for (const char* words : {"13 fraction bits", "E8M13", "1 step of 32",
                              "reproduces published captures of hardware: "
                              "H100, H200"})
        CHECK(says(wgmma.out, words));
    // Each device has eight traces: one dense and one sparse instruction for each pair of operand types.
    for (const char* words :
         {"\nverified      on NVIDIA H100 80GB HBM3, 2026-11-26: 8 traces, ",
          "\nverified      on NVIDIA H200, 2026-11-26: 8 traces, ", "wgmma.sp.m64n8k64.f32.e5m2.e5m2",
          "\nnot refuted   no output in these traces refutes underflow_keeps_sign, "})
        CHECK(says(wgmma.out, words));
    const json verified = document(run("machine show --json sm90.wgmma.fp8"));
    REQUIRE(verified["verified"].size() == 2);
    CHECK(verified["verified"][1]["device"] == "NVIDIA H200");
    CHECK(verified["verified"][1]["last_date"] == "2026-11-26");
    CHECK(verified["verified"][1]["traces"].size() == 8);
    CHECK(verified["not_refuted"].size() == 3);
    const Outcome unknown = run("machine show sm90.wgmma.fp9");
    CHECK(unknown.code == 2);
    CHECK(says(unknown.err, "did you mean 'sm90.wgmma.fp8'"));
    fs::remove_all(scratch());
}

TEST_CASE("machine eval accepts a line with a right result, and shows a wrong result in bits and values", "[program]") {
    json line = example();
    write("right.jsonl", line.dump() + "\n\n" + line.dump() + "\n");
    const Outcome right = run("machine eval right.jsonl");
    CAPTURE(right.out, right.err);
    CHECK(right.code == 0);
    CHECK(says(right.out, "2 lines of 1 instructions: 2 agree, 0 do not"));
    line["d"] = "42cc5400";  // the result if terms were rounded down
    write("wrong.jsonl", example().dump() + "\n" + line.dump() + "\n");
    const Outcome wrong = run("machine eval wrong.jsonl --engine scalar");
    CHECK(wrong.code == 1);
    for (const char* words :
         {"mismatch  wrong.jsonl:2  sm_90 wgmma m64n8k32.f32.e4m3.e4m3  (example)  on scalar", "b9  -1.125",
          "19  0.0703125", "c  42c80080  100.0009765625", "want  42cc5400  102.1640625", "got  42cc5800  102.171875"})
        CHECK(says(wrong.out, words));
    const Outcome printed = run("machine eval --json wrong.jsonl");
    CHECK(printed.code == 1);
    const json object = document(printed);
    CHECK(object["lines"] == 2);
    CHECK(object["wrong"] == 1);
    CHECK(object["instructions"][0]["machine"] == "sm90.wgmma.fp8");
    CHECK(object["instructions"][0]["engines"]["scalar"] == 1);
    REQUIRE(object["mismatches"].size() == object["engines"].size());
    const json& mismatch = object["mismatches"].back();
    CHECK(mismatch["line"] == 2);
    CHECK(mismatch["a"][1] == json({{"bits", "b9"}, {"value", -1.125}}));
    CHECK(mismatch["got"] == json({{"bits", "42cc5800"}, {"value", 102.171875}}));
    CHECK(document(run("machine eval --json --limit 0 wrong.jsonl"))["mismatches"].empty());
    // The expected result `d` may also be one of the words `nan` and `zero`, or have upper-case hexadecimal digits. In
    // `alt`, a line may give the results of other sources.
    struct Case {
        const char *d, *alt;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{{"nan", nullptr, 1, "the result is a number"},
                                                     {"zero", nullptr, 1, "the result is not zero"},
                                                     {"42CC5800", nullptr, 0, "capital digits"},
                                                     {"42cc5400", "42cc5800", 0, "the result of another source"},
                                                     {"42cc5800", "42cc5400", 0, "sources disagree, and d is right"},
                                                     {"42cc5400", "42cc5000", 1, "neither source is right"}}) {
        CAPTURE(c.why);
        json other = example();
        other["d"] = c.d;
        if (c.alt != nullptr) other["alt"] = {{"floors", c.alt}};
        write("other.jsonl", other.dump());
        const Outcome outcome = run("machine eval other.jsonl");
        CHECK(outcome.code == c.code);
        if (c.alt != nullptr && c.code == 0) {
            CHECK(says(outcome.out, std::string(c.d) == "42cc5800" ? ": took d" : ": took alternative floors"));
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("machine eval names a line that it cannot read", "[program]") {
    struct Case {
        const char *key, *value, *says;
    };
    for (const Case& c :
         std::initializer_list<Case>{{"arch", "\"sm_91\"", "did you mean 'sm_90'"},
                                     {"qual", "\"m64n8k32.f32.e4m3.e4m4\"", "did you mean 'm64n8k32.f32.e4m3.e4m3'"},
                                     {"a", "[\"00\"]", "write 32 codes for this instruction"},
                                     {"a", "7", "write 32 codes for this instruction"},
                                     {"c", "\"x\"", "is not a valid code of fp32"},
                                     {"c", "\"142c80080\"", "32 bits in hexadecimal"},
                                     {"c", "5", "is not a string"},
                                     {"d", "\"\"", "is not a valid code of fp32"},
                                     {"d", "null", "is not a string"},
                                     {"alt", "[]", "is not an object"},
                                     {"instr", nullptr, "\"instr\" is missing"},
                                     {"b", nullptr, "\"b\" is missing"}}) {
        json line = example();
        if (c.value == nullptr) {
            line.erase(c.key);
        } else {
            line[c.key] = json::parse(c.value);
        }
        write("bad.jsonl", example().dump() + "\n" + line.dump() + "\n");
        const Outcome outcome = run("machine eval bad.jsonl");
        CAPTURE(c.key, outcome.err);
        CHECK(outcome.code == 3);
        CHECK(says(outcome.err, "bad.jsonl:2: "));
        CHECK(says(outcome.err, c.says));
        CHECK(lines(outcome.err) == 1);
        CHECK(outcome.out.empty());
    }
    write("bad.jsonl", example().dump().substr(0, 40));
    CHECK(says(run("machine eval bad.jsonl").err, "bad.jsonl:1: the line is not valid JSON at byte"));
    write("bad.jsonl", "[1]\n");
    CHECK(says(run("machine eval bad.jsonl").err, "not a JSON object"));
    write("bad.jsonl", "\n");
    CHECK(run("machine eval bad.jsonl").code == 3);
    CHECK(run("machine eval -").code == 3);  // stdin is empty here
    CHECK(run("machine eval missing.jsonl").code == 3);
    CHECK(run("machine eval bad.jsonl --engine abacus").code == 2);
    fs::remove_all(scratch());
}

TEST_CASE("machine eval reproduces every shared vector with every engine", "[program]") {
    const fs::path folder = shared_folder() / "vectors";
    if (!fs::exists(folder / "tc_hw_captures.jsonl")) SKIP_TEST("no shared vectors");
    for (const auto& [file, count] : {std::pair{"tc_vectors_public.jsonl", 1972}, {"tc_hw_captures.jsonl", 1980}}) {
        CAPTURE(file);
        const Outcome outcome = run("machine eval --json '" + (folder / file).string() + "'");
        CHECK(outcome.code == 0);
        const json object = document(outcome);
        CHECK(object["lines"] == count);
        CHECK(object["wrong"] == 0);
        for (const json& instruction : object["instructions"]) CHECK(instruction["agree"] == instruction["lines"]);
        // If sources disagree, macheps gives the main result d. The only exception is the sign of an underflow: macheps
        // gives the alternative, which is the result of an H100.
        for (const json& disputed : object["disputed"])
            CHECK((disputed["took"] == "d" || disputed["took"] == "neg_underflow_+0"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("reveal prints the tree of a machine", "[program]") {
    const Outcome steps = run("reveal -k 96");
    CAPTURE(steps.out, steps.err);
    CHECK(steps.code == 0);
    CHECK(says(steps.out, "96 terms in 3 sums (1 of 32, 2 of 33), depth 3: a chain"));
    CHECK(says(steps.out, "\ns1 = 0-31\ns2 = s1 + 32-63\ns3 = s2 + 64-95\n"));
    CHECK(run("reveal --machine fp32.pairwise -k 8 --brackets").out == "(((0 1) (2 3)) ((4 5) (6 7)))\n");
    CHECK(says(run("reveal --machine sm80.mma.fp16 -k 16 --tree").out, "+ 9 ways\n  + 8 ways\n    0-7\n  8-15\n"));
    CHECK(run("reveal --machine sm80.mma.fp16 -k 16 --dot").out.starts_with("digraph sum {\n"));
    const json object = document(run("reveal --machine sm90.wgmma.fp8+promote128 -k 256 --json"));
    CHECK(object["ways"] == json({{"2", 1}, {"32", 2}, {"33", 6}}));
    CHECK(object["sums"].back() == json({256 + 3, 256 + 7}));
    CHECK(object["format_a"] == "e4m3fn");
    CHECK(object["unverified"] == "");
    CHECK(says(run("reveal --machine sm120.mma.f8f6f4 -f e5m2:e2m1fn -k 64").out, "unverified: "));
    struct Case {
        const char *arguments, *says;
        int code;
    };
    for (const Case& c :
         std::initializer_list<Case>{{"--machine sm90.wgmma.fp9", "did you mean 'sm90.wgmma.fp8'", 2},
                                     {"--machine sm80.mma.fp64", "fp64", 2},
                                     {"--machine exact -f fp16 -k 16", "it has no tree if it is exact", 1},
                                     {"--machine sm80.mma.fp16 -f e5m2 -k 16", "cannot read operand", 2},
                                     {"-f e4m3fn -k 16384 --machine fp32.chain", "too many", 2},
                                     {"-k 0", "give 1 to 16384", 2},
                                     {"--tree --dot", "excludes", 2},
                                     {"-f fp16 -k 4096 --emit-operands x.npy", "fewer terms", 2},
                                     {"--emit-operands x.npy", "--format", 2},
                                     {"-f fp16 --results missing.npy", "missing.npy", 3}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("reveal ") + c.arguments);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(says(outcome.err, c.says));
        CHECK(outcome.out.empty());
        CHECK(lines(outcome.err) == 1);
    }
    fs::remove_all(scratch());
}

}  // namespace machine_test
