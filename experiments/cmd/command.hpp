// SPDX-License-Identifier: Apache-2.0
// Each verb adds itself to the program: a CLI11 subcommand whose callback sets `chosen`, which main then runs.
#pragma once
#include "core/error.hpp"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

namespace macheps {

/// What main runs after parsing. stdout is data, stderr is progress; failures are thrown as Error.
using Verb = std::function<Exit()>;

void add_show(CLI::App& app, Verb& chosen);
void add_formats(CLI::App& app, Verb& chosen);
void add_convert(CLI::App& app, Verb& chosen);
/// `command_line` is recorded in the manifest.
void add_train(CLI::App& app, Verb& chosen, std::vector<std::string> command_line);
void add_policy(CLI::App& app, Verb& chosen);
void add_report(CLI::App& app, Verb& chosen);
void add_gemm(CLI::App& app, Verb& chosen);
void add_machine(CLI::App& app, Verb& chosen);
void add_reveal(CLI::App& app, Verb& chosen);
void add_testfloat(CLI::App& app, Verb& chosen);
void add_verify(CLI::App& app, Verb& chosen);
void add_version(CLI::App& app, Verb& chosen);
/// `completion` and `man` describe the whole of `app`, which must outlive the verb.
void add_completion(CLI::App& app, Verb& chosen);
void add_man(CLI::App& app, Verb& chosen);

}  // namespace macheps
