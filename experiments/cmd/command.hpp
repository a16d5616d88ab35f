// SPDX-License-Identifier: Apache-2.0
// The verbs of the program. Each adds itself: a CLI11 subcommand whose callback sets `chosen`, which main then runs. A new
// verb is a file, its declaration here and a row of `verbs`; help, completion and the man page read the parser.
#pragma once
#include "core/error.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace macheps {

/// What main runs after parsing. stdout is data, stderr is progress; failures are thrown as Error.
struct Verb : std::function<Exit()> {
    using std::function<Exit()>::operator=;
    std::vector<std::string> command_line{};  ///< as the program was called: `train` records it
};

/// `completion` and `man` describe the whole of `app`, which must outlive the verb.
using AddVerb = void(CLI::App& app, Verb& chosen);

AddVerb add_completion;
AddVerb add_convert;
AddVerb add_formats;
AddVerb add_gemm;
AddVerb add_machine;
AddVerb add_man;
AddVerb add_policy;
AddVerb add_report;
AddVerb add_reveal;
AddVerb add_show;
AddVerb add_testfloat;
AddVerb add_train;
AddVerb add_verify;
AddVerb add_version;

/// In the order of --help.
inline constexpr AddVerb* verbs[] = {
    add_train,   add_show,   add_formats,   add_convert, add_policy,  add_report,     add_gemm,
    add_machine, add_reveal, add_testfloat, add_verify,  add_version, add_completion, add_man,
};

}  // namespace macheps
