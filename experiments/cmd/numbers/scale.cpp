// SPDX-License-Identifier: Apache-2.0
// `macheps scale`: prints the scales that a rule computes from a sequence of largest magnitudes.
#include "core/text/print.hpp"
#include "emulation/scaling/history.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/row_table.hpp"
#include "experiments/study/scale/scale_trace.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::scale {

using namespace study;

namespace {

constexpr const char* help =
    R"(Prints the scales that a rule computes from a sequence of largest magnitudes (amaxes), step by step.

Examples:
  macheps scale te_delayed --amax 1,2,0,inf,3            the first step casts with 1
  macheps scale te_delayed --amax 1,500,1,1,1 --history 2 --algorithm most_recent --csv
  macheps scale ao_fp8 --amax 448,0,nan --format e5m2    no history: a scale for each amax
  macheps scale te_mxfp8 --amax 1.75,1.8 --json          a power of two: 2^(127 - byte)
  macheps scale te_nvfp4 --amax 1,6,0.001 --tensor-amax 6     blocks of one tensor)";

constexpr const char* notes =
    R"(With te_delayed, no step uses its own amax. An amax is the largest magnitude of a tensor, a row or
a block before its cast. `scale` multiplies the tensor of that step, and `scale_inv` multiplies
its codes. Under NVFP4, `scale_inv` includes the scale of the whole tensor.

CSV:
  Columns step (from 1), amax, scale and scale_inv. Each fp32 number is converted to double, and
  written with the fewest digits that read back exactly.

JSON:
  [{the same names: numbers, "inf", "nan"}, ...])";

struct Arguments {
    ScaleQuestion question;
    std::vector<std::string> amaxes;
    std::int64_t history = 0, margin = 0;
    std::string tensor_amax;
    bool csv = false, json = false;
};

float amax_of(const std::string& text, const char* option) {
    if (const auto value = parse_number(text)) return static_cast<float>(*value);
    throw Error({.what = fmt::format("'{}' is not a number", text),
                 .where = option,
                 .fix = "use a number of 0 or more, inf or nan",
                 .exit = Exit::usage});
}

/// Returns the column of an fp32 number. JSON and CSV print the number as a double, with as many digits as a double
/// needs. The table prints the shortest decimal that identifies the fp32 number.
RowColumn<ScaleTraceStep> fp32_column(const char* name, float ScaleTraceStep::*member, Align align) {
    return {name,
            [=](const ScaleTraceStep& step) { return double{step.*member}; },
            name,
            {.table = [=](const ScaleTraceStep& step) { return decimal(step.*member); }, .align = align}};
}

RowTable<ScaleTraceStep> step_table() {
    return {{{"step", &ScaleTraceStep::step, "step", {.align = Align::right}},
             fp32_column("amax", &ScaleTraceStep::amax, Align::right),
             fp32_column("scale", &ScaleTraceStep::scale, Align::right),
             fp32_column("scale_inv", &ScaleTraceStep::scale_inv, Align::left)}};
}

Exit run(const Command& verb, const Arguments& a) {
    ScaleQuestion question = a.question;
    for (const std::string& text : a.amaxes) question.amax.push_back(amax_of(text, "--amax"));
    for (const std::string& option : verb.given()) {
        if (option == "--history") question.history = a.history;
        if (option == "--margin") question.margin = a.margin;
        if (option == "--tensor-amax") question.tensor_amax = amax_of(a.tensor_amax, "--tensor-amax");
    }
    const std::vector<ScaleTraceStep> steps = scale_trace(question);
    const RowTable<ScaleTraceStep> table = step_table();
    print_text(a.json ? json_text(table.json(steps)) : a.csv ? table.csv(steps) : table.text(steps));
    return Exit::ok;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("RULE", a->question.rule, "Scale rule, as in policies (see macheps policy words)").required();
    verb.option("--amax", a->amaxes, "Largest magnitudes, one for each step, separated by commas: numbers, inf, nan")
        .list()
        .required()
        .takes("X,X...");
    verb.option("--format", a->question.format, "Format of the elements. Default: e4m3fn, or e2m1fn for NVFP4")
        .takes(value_kind::format);
    verb.integer("--history", a->history, {1, DelayedScaling::longest},
                 "te_delayed only: number of amaxes in the history, at least 1. Default: 1024")
        .takes("N");
    verb.integer("--margin", a->margin, {0, DelayedScaling::widest},
                 "te_delayed only: divide the scale by 2^M. Default: 0")
        .takes("M");
    verb.option("--algorithm", a->question.algorithm,
                "te_delayed only: max (the largest amax of the history) or most_recent. Default: max")
        .takes("ALGORITHM");
    verb.option("--tensor-amax", a->tensor_amax,
                "NVFP4 only: amax of the tensor whose blocks have the amaxes of --amax. Default: the largest of these")
        .takes("X");
    Option csv = verb.flag("--csv", a->csv, "Print CSV");
    verb.flag("--json", a->json, "Print JSON").excludes(csv);
    verb.runs([a, &verb] { return run(verb, *a); });
}

}  // namespace

const VerbRow verb{"scale", help, describe, notes};

}  // namespace macheps::cmd::scale
