// SPDX-License-Identifier: Apache-2.0
// The `macheps` program: parses the command line, runs one verb, and turns an Error into one line and an exit code.
#include "core/host/version.hpp"
#include "experiments/cmd/about/help_text.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/option_names.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/process.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>

namespace macheps::cmd {

namespace {

constexpr const char* purpose =
    R"(Shows what a number becomes on given hardware under a given policy, and what that does to training.

Examples:
  macheps train                        the demo: eight policies, one small transformer, a report
  macheps show 0.1                     one number in every format
  macheps policy explain amp-bf16      what a policy rounds, and where
  macheps policy diff tf32 amp-bf16    what two policies do differently
  macheps gemm --sweep k=16..65536     the error of a matrix product on GPU matrix units
  macheps check out.npz --op gemm      whether a kernel's outputs are as accurate as its formats allow
  macheps machine show sm90.wgmma.fp8  what a matrix unit computes, and how that is known
  macheps verify --quick               the emulators compared with the GPU, bit for bit
  macheps report runs/001              tables and one HTML page from a run directory
)";

constexpr const char* notes =
    R"(Data goes to stdout, progress to stderr. With --json, a verb prints one JSON document: numbers in the shortest
decimals that read back the same, NaN and infinities as strings. An error is printed on stderr, and also as
{"error": {"what", "where", "fix"}} on stdout.
Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input or out of memory, 4 no such device, 5 cannot write,
70 a defect of macheps, 75 stopped and resumable.
`macheps help VERB` explains a verb.
)";

/// Returns whether everything printed on stdout has been written. If an earlier block could not be written, only
/// ferror() reports it, because the last flush may have had nothing left to write.
bool is_written() {
    const bool flushed = std::fflush(stdout) == 0;
    return flushed && std::ferror(stdout) == 0;
}

int cannot_write() {
    eprint_text("macheps: standard output: cannot write (check the free space)\n");
    return static_cast<int>(Exit::cannot_write);
}

/// Prints an Error as JSON on stdout, for programs that asked for JSON, unless a verb has already printed its document.
void print_json_error(const Error& error) {
    if (has_printed()) return;
    const Error::Parts& parts = error.parts();
    print_json(Json{{"error", {{"what", parts.what}, {"where", parts.where}, {"fix", parts.fix}}}});
    std::fflush(stdout);
}

/// Runs the chosen verb. Reports an Error in one line that uses the names of the verb's options, and returns its exit
/// code.
int run(const CommandLine& line, bool wants_json) {
    try {
        const Exit code = line.run();
        return is_written() ? static_cast<int>(code) : cannot_write();
    } catch (const Error& error) {
        eprint("macheps: {}\n", shown(in_options(*line.verb(), error), longest_error));
        if (wants_json) print_json_error(error);
        return static_cast<int>(error.exit());
    } catch (const std::system_error&) {
        if (std::ferror(stdout) != 0) return cannot_write();  // fmt::print throws in this case
        throw;
    }
}

void describe(Command& command) {
    command.version_flag(fmt::format("macheps {} ({})", macheps::version(), git_revision()));
    command.verbs(verbs);
}

}  // namespace

const VerbRow program{"macheps", purpose, describe, notes};

}  // namespace macheps::cmd

int main(int argc, char** argv) {
    using namespace macheps;
    using namespace macheps::cmd;
    settle_process();
    begin_printing();
    const bool wants_json = std::find(argv, argv + argc, std::string_view("--json")) != argv + argc;
    try {
        const CommandLine line(program, {argv, argv + argc});
        if (line.verb() != nullptr) return run(line, wants_json);
        const std::string text = line.help() != nullptr ? help_text(*line.help()) : line.version() + "\n";
        print_text(text);
        return is_written() ? static_cast<int>(Exit::ok) : cannot_write();
    } catch (const Error& error) {
        const int code = explain_current_exception();
        if (wants_json) print_json_error(error);
        return code;
    } catch (...) {
        return explain_current_exception();
    }
}
