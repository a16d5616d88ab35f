// SPDX-License-Identifier: Apache-2.0
// A published table says which recipe reveals which wrong kernel. It was made by running and judging wrong kernels
// (fp16, k = 500, 64 x 64 outputs, fp32 accumulation on sm_80). This test compares the table with the wrong kernels
// that checks simulate. A row of the table is tested only if checks simulate a wrong kernel with the name in that row.
#include "experiments/check/inputs.hpp"
#include "tests/check/problems.hpp"
#include "tests/check/recipe_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace power_table_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;

namespace {

/// A row of the table. `seen` has one character for each column. '1': the inputs must reveal the wrong kernel. '-': the
/// inputs must not reveal it. '.': the inputs of the published table did not reveal it, but the recipes of macheps may.
/// ' ': the wrong kernel does not exist for outputs of this format.
struct Line {
    const char *mutant, *seen;
};
constexpr Line lines[] = {
    {"zeros", "111111111111"},
    {"a tile shifted by a column", "111111111111"},
    {"a tile transposed", "111111111111"},
    {"accumulator not cleared", "111111111111"},
    {"last term dropped", "111111.11111"},
    {"last 20 terms dropped (K mod 32)", "111111.11111"},
    {"fp16 accumulator", "111-1.--111."},
    {"split-K 4, partial sums rounded to bf16", " 1   1      "},
    {"operands rounded to bf16", "111-.11-111."},
    {"one element stale", "11111111.111"},
    {"one row larger by 0.001", "1.111.11.111"},
    {"subnormals flushed", "----------1-"},
    {"NaN swallowed", "-----------1"},
    {"output truncated", " 1   1      "},
    {"ties away from zero", " -   1      "},
};

}  // namespace

TEST_CASE("recipes reveal the wrong kernels that the published table lists, with every seed", "[check][recipes]") {
    for (const std::uint64_t seed : {7u, 8u, 9u}) {
        std::vector<MadeInputs> all;
        for (const Column& column : columns) {
            const InputPlan plan =
                parse_plans(fmt::format("[recipe]\nop = 'gemm'\na = 'fp16'\nb = 'fp16'\nmachine = 'sm80.mma.fp16'\n"
                                        "m = 64\nn = 64\nk = 500\nout = '{}'\nseed = {}\n",
                                        column.out, seed),
                            "table")
                    .front();
            for (MadeInputs& inputs : all_inputs(plan)) {
                if (inputs.name == column.recipe) all.push_back(std::move(inputs));
            }
        }
        REQUIRE(all.size() == std::size(columns));
        const Coverage coverage = coverage_of(all, 1e-9, pool());
        std::size_t found = 0;
        for (const Line& line : lines) {
            const auto at = std::find_if(coverage.lines.begin(), coverage.lines.end(),
                                         [&](const Coverage::Line& each) { return each.mutant == line.mutant; });
            if (at == coverage.lines.end()) continue;
            ++found;
            for (std::size_t i = 0; i < std::size(columns); ++i) {
                CAPTURE(seed, line.mutant, columns[i].recipe, columns[i].out);
                const Detection sight = at->detections[i];
                if (line.seen[i] == '1') CHECK(sight >= Detection::caught);
                if (line.seen[i] == '-') CHECK(sight == Detection::missed);
                if (line.seen[i] == ' ') CHECK(sight == Detection::none);
            }
        }
        CHECK(found >= 12);
    }
}

TEST_CASE("a least set of inputs catches the same wrong kernels as all inputs, and needs each of its inputs",
          "[check][recipes]") {
    const InputPlan plan =
        parse_plans(
            "[recipe]\nop = 'gemm'\na = 'fp16'\nb = 'fp16'\nout = 'bf16'\nmachine = 'sm80.mma.fp16'\n"
            "m = 64\nn = 64\nk = 500\n",
            "table")
            .front();
    const Coverage all = coverage_of(all_inputs(plan), 1e-9, pool());
    const std::vector<std::size_t> least = least_set(all);
    CHECK(least.size() <= 5);  // the published set: normal, resolution, ties, subnormal, specials
    const auto caught_by = [&](const std::vector<std::size_t>& inputs) {
        std::set<std::string> names;
        for (const Coverage::Line& line : all.lines) {
            for (const std::size_t i : inputs) {
                if (line.detections[i] >= Detection::caught) names.insert(line.mutant);
            }
        }
        return names;
    };
    std::set<std::string> everything;
    for (const Coverage::Line& line : all.lines) {
        CAPTURE(line.mutant);
        CHECK(all.is_caught(line));
        everything.insert(line.mutant);
    }
    CHECK(caught_by(least) == everything);
    CHECK(all.blind(Power::all).empty());
    for (std::size_t i = 0; i < least.size(); ++i) {
        std::vector<std::size_t> fewer = least;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        CHECK(caught_by(fewer).size() < everything.size());
    }
    // blind() lists a wrong kernel that no input reveals.
    Coverage blind;
    blind.inputs = {"x"};
    blind.lines = {{"seen", "null", Power::null, {Detection::caught}},
                   {"not", "structure", Power::structure, {Detection::missed}}};
    CHECK(blind.blind(Power::structure).size() == 1);
    CHECK(blind.blind(Power::null).empty());
    CHECK(least_set(blind) == std::vector<std::size_t>{0});
    // Each step chooses the input that reveals the most new wrong kernels. If several inputs reveal equally many, the
    // step chooses the first of them. An input that reveals nothing new is never chosen.
    Coverage three;
    three.inputs = {"one", "most", "others", "as many"};
    const Detection no = Detection::missed, yes = Detection::certified;
    three.lines = {{"1", "null", Power::null, {yes, yes, no, no}},
                   {"2", "null", Power::null, {no, yes, no, no}},
                   {"3", "null", Power::null, {no, yes, yes, yes}},
                   {"4", "null", Power::null, {no, no, yes, yes}}};
    CHECK(least_set(three) == std::vector<std::size_t>{1, 2});
    // A kernel with a fault of structure or scale must be refused with certainty, whatever other errors it has. The set
    // therefore gets an input that makes the refusal certain. Other faults do not need this input.
    Coverage certain;
    certain.inputs = {"sees", "knows"};
    certain.lines = {{"1", "structure", Power::structure, {Detection::caught, Detection::certified}},
                     {"2", "null", Power::null, {Detection::caught, Detection::none}}};
    CHECK(least_set(certain) == std::vector<std::size_t>{0, 1});
    certain.lines.front().kind = "precision";
    CHECK(least_set(certain) == std::vector<std::size_t>{0});
}

TEST_CASE("the recipes of an operation reveal its wrong kernels", "[check][recipes]") {
    const std::pair<const char*, const char*> declarations[] = {
        {"gemm",
         "a = 'fp16'\nb = 'fp16'\na_scale = 'fp32'\nb_scale = 'fp32'\nbias = 'fp16'\nm = 40\nn = 36\nk = 250\n"},
        {"sum", "x = 'fp16'\n"},
        {"mean", "x = 'fp16'\n"},
        {"softmax", "x = 'fp16'\n"},
        {"log_softmax", "x = 'fp16'\n"},
        {"rmsnorm", "x = 'fp16'\ngain = 'fp16'\neps = 1e-5\n"},
        {"layernorm", "x = 'fp16'\ngain = 'fp16'\nshift = 'fp16'\neps = 1e-5\n"},
    };
    for (const auto& [name, own] : declarations) {
        const Operation& operation = find_operation(name);
        std::string keys = std::string("[recipe]\nop = '") + name + "'\nout = 'bf16'\n" + own;
        if (!operation.is_product) keys += "rows = 40\ncolumns = 130\n";
        const Coverage coverage = coverage_of(all_inputs(parse_plans(keys, "all").front()), 1e-9, pool());
        CAPTURE(operation.name);
        for (const Coverage::Line* line : coverage.blind(Power::structure))
            FAIL_CHECK("no input reveals " << line->mutant);
        // A kernel with a fault of structure or scale is refused by at least one input, whatever other errors it has.
        for (const Coverage::Line& line : coverage.lines) {
            if (line.kind != "structure" && line.kind != "scale") continue;
            CAPTURE(line.mutant);
            CHECK(std::count(line.detections.begin(), line.detections.end(), Detection::certified) > 0);
        }
    }
}

}  // namespace power_table_test
