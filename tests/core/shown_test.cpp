// SPDX-License-Identifier: Apache-2.0
// Tests how text from inputs is escaped and shortened before it is shown.
#include "core/text/shown.hpp"
#include "core/text/colour_codes.hpp"
#include "core/text/json.hpp"
#include "tests/test.hpp"

#include <string>
#include <vector>

namespace shown_test {

using namespace macheps;

TEST_CASE("colour codes are removed, and no other character", "[core][shown]") {
    CHECK(without_colour_codes("a\x1b[31mb\x1b[0m c") == "ab c");
    CHECK(without_colour_codes("\x1b[1;38;5;208mbold\x1b[K\x1b[?25h.") == "bold.");
    CHECK(without_colour_codes("\x1b[12\nline\x1b[") == "\nline");
    CHECK(without_colour_codes("[31m\x1b]m\x1b") == "[31m\x1b]m\x1b");
    CHECK(without_colour_codes("") == "");
}

TEST_CASE("shown text is one line of visible characters", "[core][shown]") {
    struct Case {
        std::string text, shown;
        const char* why;
    };
    const std::vector<Case> cases{
        {"block.0.mlp.up:forward.a", "block.0.mlp.up:forward.a", "a usual name stays"},
        {"M\xc3\xbcller \xe2\x86\x92 \xf0\x9f\x98\x80", "M\xc3\xbcller \xe2\x86\x92 \xf0\x9f\x98\x80",
         "other scripts stay"},
        {"a\nb\r\tc", "a\\nb\\r\\tc", "line ends"},
        {"\x1b[31m\x07\x7f", "\\x1b[31m\\x07\\x7f", "control characters of a terminal"},
        {std::string("a\0b", 3), "a\\x00b", "NUL"},
        {"\xc2\x9b"
         "31m",
         "\\u009b31m", "C1 control characters"},
        {"\xe2\x80\xaexe.txt", "\\u202exe.txt", "reverses the direction of the text"},
        {"a\xe2\x80\x8b\xef\xbb\xbf", "a\\u200b\\ufeff", "invisible characters"},
        {"\xf3\xa0\x81\x81", "\\U000e0041", "a tag character"},
        {"\xff\xc3(", "\\xff\\xc3(", "not UTF-8"},
        {"\xed\xa0\x80", "\\xed\\xa0\\x80", "a surrogate"},
        {"\xc0\xaf", "\\xc0\\xaf", "overlong"},
        {"::error::x", "\\::error::x", "a log command at the start of a line"},
        {"  ::error::x", "  \\::error::x", "a log command after leading blanks"},
        {"a::b", "a::b", "two colons inside a line stay"},
        {"x ##[error]y ##vso[z]", "x #\\#[error]y #\\#vso[z]", "log commands anywhere in a line"},
        {"a\\nb", "a\\nb", "a backslash stays"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.text, std::string(one.why));
        CHECK(printable(one.text) == one.shown);
        CHECK(printable(printable(one.text)) == one.shown);
        CHECK(is_printable_lines(printable(one.text)));
        CHECK(is_printable_lines(one.text) == (printable_lines(one.text) == one.text));
    }
    CHECK(printable_lines("a\n\tb\x1b") == "a\n\tb\\x1b");
    CHECK(format_shown("{}\n{:>3}|{}\n", std::string("a\nb"), 7, "\x1b") == "a\\nb\n  7|\\x1b\n");
}

TEST_CASE("long names and long lists are shortened", "[core][shown]") {
    CHECK(shown("short") == "short");
    const std::string text = shown(std::string(1000, 'x'));
    CHECK(text.size() < 125);
    CHECK(text.find("xx[...]xx") != std::string::npos);
    std::string umlauts;
    for (int i = 0; i < 500; ++i) umlauts += "\xc3\xbc";
    CHECK(is_printable_lines(shown(umlauts)));  // no character is cut in half
    CHECK(shown_list(std::vector<std::string>{"a", "b\n"}) == "a, b\\n");
    const std::vector<std::string> many(16000, "name");
    CHECK(shown_list(many) == "name, name, name, name, name, name, name, name and 15992 more");
}

TEST_CASE("JSON escapes every invisible character", "[core][shown]") {
    const std::vector<std::string> texts{
        "\xe2\x80\xae"
        "x",
        "\xc2\x9b",
        "\xf3\xa0\x81\x81",
        "##[error]x",
        "\x7f",
        "\n\t\x01"};
    for (const std::string& text : texts) {
        const std::string json = Json(text).dump();
        CAPTURE(json);
        CHECK(is_printable_lines(json));
        CHECK(Json::parse(json).string() == text);
    }
    try {
        Json::parse("{oops");
        FAIL("accepted");
    } catch (const JsonError& error) {
        CHECK(std::string(error.what()).find("json.exception") == std::string::npos);
    }
}

}  // namespace shown_test
