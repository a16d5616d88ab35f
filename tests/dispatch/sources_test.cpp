// SPDX-License-Identifier: Apache-2.0
// Searches the sources for uses of functions of a SIMD target. Code outside the target may pass such a function to
// choose() (emulation/cpu/simd/simd.hpp) or to MACHEPS_CHOOSE_TARGET (targets.hpp), but may not name or call it in any
// other way.
#include "tests/test.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sources_test {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the text without comments. The number of lines stays the same.
std::string without_comments(std::string_view text) {
    std::string code;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i, 2) == "//") i = std::min(text.find('\n', i), text.size());
        if (i < text.size()) code += text[i];
    }
    return code;
}

/// Returns the offset after the parenthesis that matches the one at `open`.
std::size_t end_of_parentheses(std::string_view code, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < code.size(); ++i) {
        depth += code[i] == '(' ? 1 : code[i] == ')' ? -1 : 0;
        if (depth == 0) return i + 1;
    }
    return code.size();
}

/// Returns the lines that name a function of a SIMD target, unless the name is an argument of choose().
Names faults_of(std::string_view text) {
    const std::string code = without_comments(text);
    const auto is_argument = [&](std::size_t at) {
        for (std::size_t call = code.find("choose("); call < at; call = code.find("choose(", call + 1)) {
            if (at < end_of_parentheses(code, call + 6)) return true;
        }
        return false;
    };
    Names faults;
    const auto add_line_of = [&](std::size_t at) {
        const std::size_t first = code.rfind('\n', at) + 1;
        faults.push_back(code.substr(first, code.find('\n', at) - first));
    };
    // The last argument of the macro is the name of a function. The macro would also accept a call.
    constexpr std::string_view macro = "MACHEPS_CHOOSE_TARGET(";
    for (std::size_t at = code.find(macro); at != std::string::npos; at = code.find(macro, at + 1)) {
        const std::size_t end = end_of_parentheses(code, at + macro.size() - 1) - 1;
        std::size_t first = end;
        while (is_word(code[first - 1])) --first;
        if (first == end || (code[first - 1] != ' ' && code[first - 1] != '\n')) add_line_of(at);
    }
    for (const std::string_view target : {"N_AVX2::", "N_AVX3::", "HWY_STATIC_DISPATCH", "HWY_DYNAMIC_DISPATCH"}) {
        for (std::size_t at = code.find(target); at != std::string::npos; at = code.find(target, at + 1)) {
            std::size_t end = at + target.size();
            while (end < code.size() && is_word(code[end])) ++end;
            const bool is_whole_argument = end < code.size() && (code[end] == ',' || code[end] == ')');
            if (is_argument(at) && is_whole_argument) continue;
            add_line_of(at);
        }
    }
    return faults;
}

std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("code outside a SIMD target names the functions of the target only as arguments of choose()", "[dispatch]") {
    const std::set<std::string> extensions{".cpp", ".hpp", ".inl"};
    Names faults;
    int choices = 0;
    for (const char* room : {"core", "emulation", "reports", "experiments", "python", "bench", "examples", "tests"}) {
        for (const auto& entry : fs::recursive_directory_iterator(fs::path(MACHEPS_SOURCE_DIR) / room)) {
            if (!extensions.contains(entry.path().extension()) || entry.path().filename() == "sources_test.cpp")
                continue;
            const std::string text = text_of(entry.path());
            choices += text.find("MACHEPS_CHOOSE_TARGET(") != std::string::npos ? 1 : 0;
            for (const std::string& fault : faults_of(text)) faults.push_back(entry.path().string() + ": " + fault);
        }
    }
    CHECK(faults == Names{});
    CHECK(choices > 15);
}

TEST_CASE("the search of the sources finds calls that do not go through choose()", "[dispatch]") {
    for (const char* wrong :
         {"return choose(level, scalar, N_AVX2::table(), N_AVX3::table());", "return N_AVX2::has_kernel(args);",
          "static const Steps avx2 = N_AVX2::steps(), avx512 = N_AVX3::steps();",
          "auto f = level == Simd::avx512 ? N_AVX3::run : N_AVX2::run;", "choose(level, a, b, c)(N_AVX2::table());",
          "return MACHEPS_CHOOSE_TARGET(level, scalar, table());"}) {
        CAPTURE(wrong);
        CHECK(!faults_of(wrong).empty());
    }
    for (const char* right :
         {"return choose(level, scalar_table, N_AVX2::table, N_AVX3::table)();", "namespace N_AVX2 {\n}",
          "// N_AVX2::table() in a comment", "choose(level, [] { return f(); },\n N_AVX2::run, N_AVX3::run)(x);",
          "return MACHEPS_CHOOSE_TARGET(level, [] { return f(); }, run)(x);"}) {
        CAPTURE(right);
        CHECK(faults_of(right).empty());
    }
}

}  // namespace sources_test
