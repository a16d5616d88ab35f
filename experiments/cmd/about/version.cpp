// SPDX-License-Identifier: Apache-2.0
// `macheps version`: describes this build, and the device that it uses on this machine.
#include "core/host/version.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "reports/rows/event.hpp"

#include <fmt/format.h>

#include <memory>

namespace macheps::cmd::version {

using namespace reports;

namespace {

constexpr const char* help = R"(Prints the version, the source revision, the compiler, and the device that computes.

Examples:
  macheps version
  macheps version --json)";

constexpr const char* notes = R"(JSON:
  {"version", "git", "compiler", "schema", "device"})";

#ifdef __clang__
constexpr const char* compiler = "clang " __clang_version__;
#else
constexpr const char* compiler = "gcc " __VERSION__;
#endif

Exit run(bool json) {
    const std::string device = CpuBackend(0).name();
    if (json) {
        print_json({{"version", macheps::version()},
                    {"git", git_revision()},
                    {"compiler", compiler},
                    {"schema", schema_version},
                    {"device", device}});
    } else {
        print("macheps {} ({})\ncompiler  {}\ndevice    {}\n", macheps::version(), git_revision(), compiler, device);
    }
    return Exit::ok;
}

void describe(Command& verb) {
    const auto json = std::make_shared<bool>(false);
    verb.flag("--json", *json, "Print one JSON object");
    verb.runs([json] { return run(*json); });
}

}  // namespace

const VerbRow verb{"version", help, describe, notes};

}  // namespace macheps::cmd::version
