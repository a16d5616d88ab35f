// SPDX-License-Identifier: Apache-2.0
// Tests examples/check/action.yml. A program from the cache must suit the runner that restores it, and actions from
// other repositories must be pinned to commits.
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <set>
#include <string>

namespace action_test {

using namespace macheps::test;

namespace {

const fs::path root = MACHEPS_SOURCE_DIR;

/// Runs examples/check/cache-key on a source tree in the scratch folder. The script reads the files cpuinfo and
/// os-release of this folder instead of /proc/cpuinfo and /etc/os-release.
std::string cache_key() {
    const std::string command = "cd '" + scratch().string() + "' && bash '" +
                                (root / "examples/check/cache-key").string() + "' tree cpuinfo os-release >key.txt";
    REQUIRE(std::system(command.c_str()) == 0);
    return contents(scratch() / "key.txt");
}

}  // namespace

TEST_CASE("the key of the action's cache changes with the sources, the system and the CPU", "[dispatch]") {
    fs::create_directories(scratch() / "tree/scripts");
    fs::create_directories(scratch() / "tree/build");
    write("tree/scripts/setup", "packages=()\n");
    write("cpuinfo",
          "processor\t: 0\nflags\t\t: fpu sse2 avx2 avx512f\n\nprocessor\t: 1\nflags\t\t: fpu sse2 avx2 avx512f\n");
    write("os-release", "ID=ubuntu\nVERSION_ID=\"24.04\"\nBUG_REPORT_URL=\"first\"\n");
    const std::string first = cache_key();
    CHECK(finds(first, "^macheps-[a-z0-9_]+-[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}\n$"));
    std::set<std::string> keys{first};
    const auto is_same = [&] { return !keys.insert(cache_key()).second; };
    CHECK(is_same());
    write("tree/build/log", "the build folder is not part of the sources");
    write("cpuinfo", "model name\t: another\nflags\t\t: avx512f avx2 fpu sse2\n");
    CHECK(is_same());
    write("cpuinfo", "flags\t\t: fpu sse2 avx2\n");
    CHECK(!is_same());
    write("cpuinfo", "Features\t: fp asimd\n");
    CHECK(!is_same());
    write("tree/scripts/setup", "packages=(g++)\n");
    CHECK(!is_same());
    write("tree/new.toml", "");
    CHECK(!is_same());
    write("os-release", "ID=ubuntu\nVERSION_ID=\"26.04\"\n");
    CHECK(!is_same());
    fs::remove_all(scratch());
}

TEST_CASE("the action's only cache key is the output of examples/check/cache-key", "[dispatch]") {
    const std::string action = contents(root / "examples/check/action.yml");
    CHECK(all_matches(action, "\n +key: (.*)").size() == 1);
    CHECK(finds(action, "\n +key: \\$\\{\\{ steps\\.key\\.outputs\\.key \\}\\}\n"));
    CHECK(finds(action, "- id: key\n[^-]*key=\\$\\(bash \"\\$ACTION/cache-key\"\\)\n"));
    CHECK(!finds(action, "hashFiles|restore-keys"));
}

TEST_CASE("actions from other repositories are pinned to a commit and name its version", "[dispatch]") {
    for (const char* page : {"examples/check/action.yml", "docs/check.md"}) {
        const std::string text = contents(root / page);
        int pinned = 0;
        for (const Match& use : all_matches(text, "uses: ([^\n]*)")) {
            CAPTURE(page, use[1]);
            if (use[1].starts_with("OWNER/macheps/")) continue;
            CHECK(matches(use[1], "[a-z-]+/[a-z/-]+@[0-9a-f]{40} # v[0-9]+\\.[0-9]+\\.[0-9]+").has_value());
            ++pinned;
        }
        CHECK(pinned >= 3);
    }
}

}  // namespace action_test
