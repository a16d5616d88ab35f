// SPDX-License-Identifier: Apache-2.0
// Two types of one name in one namespace, defined in two files, are one type to the linker: it keeps the constructors and
// destructors of either, and the other's objects are destroyed by the wrong ones. No compiler sees it, so this test does.
#include "tests/test.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// `text` without comments, literals and lines of the preprocessor: what is left are names, signs and braces that pair.
std::string bare(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
        if (text.compare(i, 2, "//") == 0) {
            i = text.find('\n', i);
            if (i == std::string::npos) break;
        } else if (text.compare(i, 2, "/*") == 0) {
            i = text.find("*/", i) + 2;
        } else if (text.compare(i, 2, "R\"") == 0) {
            const std::size_t open = text.find('(', i);
            const std::string end = ")" + text.substr(i + 2, open - i - 2) + "\"";
            i = text.find(end, open) + end.size();
        } else if (text[i] == '"' ||
                   (text[i] == '\'' && !(i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1]))))) {
            const char quote = text[i];
            for (++i; i < text.size() && text[i] != quote; ++i) i += text[i] == '\\';
            ++i;
            out += '0';
        } else if (text[i] == '#' && (out.empty() || out.back() == '\n')) {
            while (i < text.size() && text[i] != '\n') i += text[i] == '\\' ? 2 : 1;
        } else {
            out += text[i++];
        }
    }
    return out;
}

/// The classes and enumerations that `text` defines in namespaces with a name, each with its namespaces before it.
std::set<std::string> types_in(const std::string& text) {
    static const std::regex opens_namespace(R"(\bnamespace\s*([\w:]*)\s*$)");
    // A specialisation, `struct hash<X>`, is no definition of a name.
    static const std::regex defines(
        R"((?:^|[>\s])(?:struct|class|enum|enum class)\s+(?:alignas\(\w+\)\s*)?(\w+)(?:\s+final)?\s*(?::[^:][^;]*)?$)");
    constexpr const char* other = "{}";  // the body of a class or a function, or a namespace without a name
    std::set<std::string> found;
    std::vector<std::string> open;
    std::string head;
    for (const char c : bare(text)) {
        if (c == '{') {
            std::smatch match;
            while (!head.empty() && std::isspace(static_cast<unsigned char>(head.back()))) head.pop_back();
            if (head.size() > 400) head.erase(0, head.size() - 400);
            const bool is_named = std::find(open.begin(), open.end(), other) == open.end();
            if (std::regex_search(head, match, opens_namespace)) {
                open.push_back(match[1].length() == 0 ? other : match[1].str());
            } else {
                if (is_named && std::regex_search(head, match, defines)) {
                    std::string name;
                    for (const std::string& space : open) name += space + "::";
                    found.insert(name + match[1].str());
                }
                open.push_back(other);
            }
            head.clear();
        } else if (c == '}' || c == ';') {
            if (c == '}' && !open.empty()) open.pop_back();
            head.clear();
        } else {
            head += c;
        }
    }
    return found;
}

using Types = std::set<std::string>;

}  // namespace

TEST_CASE("types are found by their namespaces", "[architecture]") {
    CHECK(
        types_in(
            "namespace a {\nstruct B { struct C {}; };\nnamespace { class D {}; }\nenum class E : int { f };\n"
            "template <class T> struct G final : H<T> {};\ntemplate <> struct hash<B> {};\nvoid i() { struct J {}; }\n"
            "const char* k = \"struct L {\"; // struct M {\n}  // namespace a\nclass N {};\n") ==
        Types{"a::B", "a::E", "a::G", "N"});
    CHECK(types_in("namespace a::b {\n#define X {\nstruct C {};\nconst char* r = R\"x(})x\";\nconstexpr char d = '{', "
                   "e = '\"';\n"
                   "int f = 1'000;\nstruct D {};\n}\n") == Types{"a::b::C", "a::b::D"});
}

TEST_CASE("no type is defined in two files", "[architecture]") {
    const fs::path root = MACHEPS_SOURCE_DIR;
    std::map<std::string, std::vector<std::string>> files;
    for (const char* room : {"core", "emulation", "reports", "experiments", "python"}) {
        for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
            static const Types endings{".hpp", ".cpp", ".cu", ".inl"};
            if (!endings.contains(entry.path().extension().string())) continue;
            std::ifstream in(entry.path(), std::ios::binary);
            for (const std::string& type : types_in({std::istreambuf_iterator<char>(in), {}})) {
                files[type].push_back(fs::relative(entry.path(), root).string());
            }
        }
    }
    CHECK(files.size() > 500);
    for (const auto& [type, defined_in] : files) {
        CAPTURE(type, defined_in);
        CHECK(defined_in.size() == 1);
    }
}
