// SPDX-License-Identifier: Apache-2.0
// Tests that a patch turns the old text into the new one. The patch is applied by a function that shares no code with
// unified_diff().
#include "core/text/unified_diff.hpp"
#include "tests/patched.hpp"
#include "tests/test.hpp"

#include <random>
#include <string>

namespace unified_diff_test {

using namespace macheps;
using namespace macheps::test;

TEST_CASE("a patch turns the old text into the new one", "[text]") {
    std::mt19937 random(1);
    const auto below = [&](unsigned limit) { return random() % limit; };
    for (int round = 0; round < 2000; ++round) {
        std::string before, after;
        for (unsigned i = below(40); i > 0; --i) {
            const std::string line = std::string(1, static_cast<char>('a' + below(5))) + "\n";
            if (below(8) != 0) before += line;
            if (below(8) != 0) after += line;
        }
        if (!before.empty() && below(4) == 0) before.pop_back();
        if (!after.empty() && below(4) == 0) after.pop_back();
        const std::string patch = unified_diff(before, after, "f");
        CAPTURE(before, after, patch);
        CHECK(patch.empty() == (before == after));
        if (!patch.empty()) CHECK(patched(before, patch) == after);
    }
}

TEST_CASE("a patch has three lines of context and joins hunks that overlap", "[text]") {
    CHECK(unified_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n", "f") ==
          "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
    const std::string gap = "a\nb\nc\nd\ne\nf\n";  // six unchanged lines stay in one hunk, seven do not
    const auto hunks = [](const std::string& patch) {
        std::size_t count = 0;
        for (const std::string& line : lines_of(patch)) count += line.starts_with("@@");
        return count;
    };
    CHECK(hunks(unified_diff("1\n" + gap + "2\n", "x\n" + gap + "y\n", "f")) == 1);
    CHECK(hunks(unified_diff("1\n" + gap + "g\n2\n", "x\n" + gap + "g\ny\n", "f")) == 2);
    CHECK(unified_diff("", "a\n", "f") == "--- f\n+++ f\n@@ -0,0 +1 @@\n+a\n");
    CHECK(unified_diff("a", "a\n", "f") == "--- f\n+++ f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

}  // namespace unified_diff_test
