// SPDX-License-Identifier: Apache-2.0
// Tests the licence notices of third parties. Everything that CMake finds for the program, the libraries and the wheel
// must have an entry in THIRD_PARTY_NOTICES. Also tests that Python tools are pinned by hashes.
#include "scripts/gf2x.c"
#include "tests/test.hpp"

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace notices_test {

namespace {

namespace fs = std::filesystem;

const fs::path root = MACHEPS_SOURCE_DIR;

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the words that follow a field name, such as "CMake", in all entries of THIRD_PARTY_NOTICES.
std::set<std::string> words_of(const std::string& field) {
    const std::string text = text_of(root / "THIRD_PARTY_NOTICES");
    std::set<std::string> words;
    const std::regex line("\n" + field + ": ([^\n]*)");
    for (std::sregex_iterator at(text.begin(), text.end(), line); at != std::sregex_iterator(); ++at) {
        std::istringstream in((*at)[1].str());
        for (std::string word; in >> word;) words.insert(word);
    }
    return words;
}

}  // namespace

TEST_CASE("every library that CMake finds has a licence notice", "[notices]") {
    // These are build tools or parts of the system. They are not distributed, so they need no notice.
    const std::set<std::string> tools{"Python", "Python3", "Git", "Threads", "CUDAToolkit"};
    const std::set<std::string> noticed = words_of("CMake");
    const std::regex call(R"(find_(package|library|path|file)\(\s*([A-Za-z0-9_-]+))");
    std::size_t seen = 0;
    for (const char* room : {"core", "emulation", "reports", "experiments", "python", "cmake"}) {
        for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
            const fs::path& file = entry.path();
            if (file.filename() != "CMakeLists.txt" && file.extension() != ".cmake") continue;
            const std::string text = text_of(file);
            for (std::sregex_iterator at(text.begin(), text.end(), call); at != std::sregex_iterator(); ++at) {
                const std::string name = (*at)[2];
                if (tools.contains(name)) continue;
                ++seen;
                CAPTURE(file, name);
                CHECK(noticed.contains(name));
            }
        }
    }
    CHECK(seen > 12);
}

TEST_CASE("the Python package and the demo page contain the third-party notices", "[notices]") {
    CHECK(text_of(root / "pyproject.toml").find("\"THIRD_PARTY_NOTICES\"") != std::string::npos);
    CHECK(text_of(root / "docs/demo.html").find("<summary>Third-party notices</summary>") != std::string::npos);
}

TEST_CASE("Python tools are pinned by the hashes of their files", "[notices]") {
    const std::regex package(R"((^|\n)[a-z][^\n]*==[^\n]*)"), pinned(R"(\\\n    --hash=sha256:[0-9a-f]{64})");
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(root / "scripts/requirements")) {
        if (entry.path().extension() != ".txt") continue;
        ++files;
        const std::string text = text_of(entry.path());
        for (std::sregex_iterator at(text.begin(), text.end(), package); at != std::sregex_iterator(); ++at) {
            CAPTURE(entry.path(), at->str());
            const std::string rest = text.substr(static_cast<std::size_t>(at->position() + at->length()) - 1);
            CHECK(std::regex_search(rest, pinned, std::regex_constants::match_continuous));
        }
    }
    CHECK(files == 5);
    // Scripts install only from these files. scripts/peers is an exception: it installs the programs for comparisons.
    const std::regex install(R"(pip[^\n]* install [^\n]*)");
    for (const auto& entry : fs::recursive_directory_iterator(root / "scripts")) {
        if (!entry.is_regular_file() || entry.path().filename() == "peers") continue;
        const std::string text = text_of(entry.path());
        if (!text.starts_with("#!/usr/bin/env bash")) continue;
        for (std::sregex_iterator at(text.begin(), text.end(), install); at != std::sregex_iterator(); ++at) {
            CAPTURE(entry.path(), at->str());
            CHECK(
                (at->str().find("--require-hashes") != std::string::npos || at->str().find('`') != std::string::npos));
        }
    }
}

TEST_CASE("the library that replaces gf2x in the wheel multiplies polynomials over GF(2)", "[notices]") {
    constexpr unsigned long n = 3, m = 2, bits = 8 * sizeof(unsigned long);
    const std::array<unsigned long, n> a{0x8000000000000001ul, 0x123456789abcdef0ul, 0xf00dul};
    const std::array<unsigned long, m> b{0xfedcba9876543211ul, 0x8000000000000003ul};
    std::array<unsigned long, n + m> c{~0ul, ~0ul, ~0ul, ~0ul, ~0ul};
    CHECK(gf2x_mul(c.data(), a.data(), n, b.data(), m) == 0);
    const auto coefficient = [&](const unsigned long* of, unsigned long i) { return of[i / bits] >> i % bits & 1; };
    for (unsigned long k = 0; k < (n + m) * bits; ++k) {
        unsigned long sum = 0;  // of a_i b_(k-i), modulo 2
        for (unsigned long i = 0; i < n * bits && i <= k; ++i) {
            if (k - i < m * bits) sum ^= coefficient(a.data(), i) & coefficient(b.data(), k - i);
        }
        CAPTURE(k);
        CHECK(coefficient(c.data(), k) == sum);
    }
}

}  // namespace notices_test
