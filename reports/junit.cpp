// SPDX-License-Identifier: Apache-2.0
#include "reports/junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace macheps {

namespace {

using Result = JUnitCase::Result;

constexpr std::string_view replacement = "\xEF\xBF\xBD";

/// Bytes of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7) that XML 1.0 can hold; 0 where there is
/// none.
std::size_t character_bytes(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(0);
    if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
    const std::size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                               : first >= 0xE0 && first <= 0xEF ? 3
                               : first >= 0xF0 && first <= 0xF4 ? 4
                                                                : 0;
    for (std::size_t i = 1; i < length; ++i) {
        if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
    }
    const bool is_overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
    const bool is_surrogate = first == 0xED && byte(1) > 0x9F, is_beyond = first == 0xF4 && byte(1) > 0x8F;
    const bool is_no_character = first == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE;  // U+FFFE, U+FFFF
    return is_overlong || is_surrogate || is_beyond || is_no_character ? 0 : length;
}

/// Text for an element or for an attribute in double quotes; line ends and tabs of attributes would become spaces.
std::string xml_text(std::string_view text) {
    std::string escaped;
    while (!text.empty()) {
        const std::size_t length = character_bytes(text);
        const char c = text[0];
        if (length == 0)
            escaped += replacement;
        else if (std::string_view("<>&\"\t\n\r").find(c) != std::string_view::npos)
            escaped += c == '<'   ? "&lt;"
                       : c == '>' ? "&gt;"
                       : c == '&' ? "&amp;"
                       : c == '"' ? "&quot;"
                                  : fmt::format("&#{};", static_cast<int>(c));
        else
            escaped += text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return escaped;
}

std::string time_text(std::optional<double> seconds) {
    return seconds ? fmt::format(" time=\"{:.3f}\"", *seconds) : "";
}

std::string outcome_text(const JUnitCase& one) {
    if (one.result == Result::passed) return {};
    const char* element = one.result == Result::failure ? "failure" : one.result == Result::error ? "error" : "skipped";
    std::string text = fmt::format("<{}", element);
    if (!one.type.empty()) text += fmt::format(" type=\"{}\"", xml_text(one.type));
    text += fmt::format(" message=\"{}\"", xml_text(one.message));
    return one.text.empty() ? text + "/>" : text + fmt::format(">{}</{}>", xml_text(one.text), element);
}

}  // namespace

std::string junit_text(std::string_view suite, std::span<const JUnitCase> cases) {
    const auto count = [&](Result result) {
        return std::count_if(cases.begin(), cases.end(), [&](const JUnitCase& one) { return one.result == result; });
    };
    std::optional<double> seconds;
    for (const JUnitCase& one : cases) {
        if (one.seconds) seconds = seconds.value_or(0) + *one.seconds;
    }
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites>\n<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\"{}>\n",
        xml_text(suite), cases.size(), count(Result::failure), count(Result::error), count(Result::skipped),
        time_text(seconds));
    for (const JUnitCase& one : cases) {
        text += fmt::format("<testcase classname=\"{}\" name=\"{}\"{}", xml_text(one.classname), xml_text(one.name),
                            time_text(one.seconds));
        std::string inside;
        for (const auto& [name, value] : one.properties)
            inside += fmt::format("<property name=\"{}\" value=\"{}\"/>", xml_text(name), xml_text(value));
        if (!inside.empty()) inside = "<properties>" + inside + "</properties>";
        inside += outcome_text(one);
        text += inside.empty() ? "/>\n" : ">" + inside + "</testcase>\n";
    }
    return text + "</testsuite>\n</testsuites>\n";
}

}  // namespace macheps
