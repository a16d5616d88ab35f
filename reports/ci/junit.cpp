// SPDX-License-Identifier: Apache-2.0
#include "reports/ci/junit.hpp"

#include "core/text/shown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace macheps::reports {

namespace {

using Result = JUnitCase::Result;

/// Escapes text for an element or for an attribute in double quotes. Line ends and tabs are escaped as well, because
/// parsers turn them into spaces in attributes.
std::string xml_text(std::string_view text) {
    std::string escaped;
    for (const char c : printable_lines(text)) {
        if (std::string_view("<>&\"\t\n").find(c) == std::string_view::npos)
            escaped += c;
        else
            escaped += c == '<'   ? "&lt;"
                       : c == '>' ? "&gt;"
                       : c == '&' ? "&amp;"
                       : c == '"' ? "&quot;"
                                  : fmt::format("&#{};", static_cast<int>(c));
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

}  // namespace macheps::reports
