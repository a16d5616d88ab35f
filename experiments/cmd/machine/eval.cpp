// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/machine/eval.hpp"

#include "core/host/memory_limit.hpp"
#include "core/host/read_file.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/machine/eval_output.hpp"
#include "experiments/study/machine/eval.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <sstream>

namespace macheps::cmd::machine {

using namespace study;

namespace {

std::vector<const InstructionEngine*> engines_of(const std::vector<std::string>& names) {
    const std::vector<const InstructionEngine*> here = instruction_engines();
    std::vector<const InstructionEngine*> chosen;
    for (const std::string& name : names) {
        const auto found =
            std::find_if(here.begin(), here.end(), [&](const auto* engine) { return engine->name == name; });
        if (found == here.end()) {
            throw Error({.what = fmt::format("this CPU does not have the engine '{}'", name),
                         .where = "--engine",
                         .fix = fmt::format("use one of {}", fmt::join(instruction_engine_names(), ", ")),
                         .exit = Exit::usage});
        }
        chosen.push_back(*found);
    }
    return chosen;
}

}  // namespace

std::vector<std::string> instruction_engine_names() {
    std::vector<std::string> names;
    for (const InstructionEngine* engine : instruction_engines()) names.emplace_back(engine->name);
    return names;
}

Exit machine_eval(const EvalOptions& options) {
    const std::vector<const InstructionEngine*> engines = engines_of(options.engines);
    const bool from_stdin = options.path == "-";
    const std::string path = from_stdin ? "stdin" : options.path;
    std::istringstream file(from_stdin ? std::string() : read_file(options.path, reading_budget()));
    const MachineEvaluation evaluation =
        evaluate_machine_lines(from_stdin ? std::cin : file, path, engines, options.shown);
    if (evaluation.lines == 0 && evaluation.refused.empty()) {
        throw Error({.what = "there are no lines",
                     .where = path,
                     .fix = "write one JSON object per line, see `macheps machine eval --help`"});
    }
    if (options.json) {
        print_machine_eval_json(evaluation, path);
    } else {
        const std::string text = machine_eval_text(evaluation, path);
        print_text(text);
    }
    return evaluation.wrong == 0 ? Exit::ok : Exit::check_failed;
}

}  // namespace macheps::cmd::machine
