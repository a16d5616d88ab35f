// SPDX-License-Identifier: Apache-2.0
// Runs commands on emulated CPUs with fewer vector instructions than this machine's CPU, using
// tests/dispatch/on_cpu.sh.
#pragma once
#include "tests/program/program.hpp"

#include <string>

namespace macheps::test {

/// A CPU that on_cpu.sh emulates. `level` is the instruction set that macheps uses on this CPU, provided that the build
/// contains code for it.
struct OtherCpu {
    const char *name, *level;
};
inline constexpr OtherCpu other_cpus[] = {{"without-avx512", "avx2"}, {"without-avx2", "scalar"}};
inline constexpr OtherCpu baseline_cpu{"baseline", "scalar"};
inline constexpr OtherCpu this_cpu{"", ""};

inline bool has_emulator() { return std::system("command -v qemu-x86_64 >/dev/null 2>&1") == 0; }

/// Runs a shell script in a folder. In the script, the command `macheps` runs the program on the given CPU.
inline Outcome run_on(const OtherCpu& cpu, const fs::path& folder, const std::string& script) {
    const std::string emulated =
        *cpu.name == '\0' ? "" : std::string("bash '" MACHEPS_SOURCE_DIR "/tests/dispatch/on_cpu.sh' ") + cpu.name;
    std::ofstream(folder / "script.sh") << "macheps() { " << emulated << " '" MACHEPS_PROGRAM "' \"$@\"; }\n"
                                        << script << '\n';
    const std::string line =
        "cd '" + folder.string() + "' && GITHUB_ACTIONS= sh script.sh >out.txt 2>err.txt </dev/null";
    const int status = std::system(line.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(folder / "out.txt"),
            contents(folder / "err.txt")};
}

}  // namespace macheps::test
