// SPDX-License-Identifier: Apache-2.0
#include "core/text/shown.hpp"
#include "experiments/cmd/policy/import_output.hpp"
#include "experiments/configs/framework.hpp"
#include "reports/ci/annotations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace macheps::cmd::policies {

using namespace reports;

using namespace configs;

namespace {

std::string_view word_of(FindingCode code) {
    switch (code) {
        case FindingCode::error:
            return "error";
        case FindingCode::unknown:
            return "unknown key";
        case FindingCode::warning:
            return "warning";
        case FindingCode::contradiction:
            return "contradiction";
        case FindingCode::defaulted:
            return "default";
        case FindingCode::inert:
            return "no effect";
        case FindingCode::note:
            break;
    }
    return "note";
}

std::string finding_line(const Finding& one) {
    std::string line =
        fmt::format("{} {}: {} [{}]\n", static_cast<char>(one.code), to_string(one.place), one.message, one.rule);
    if (!one.instead.empty()) line += fmt::format("    instead: {}\n", one.instead);
    return line;
}

}  // namespace

std::string finding_counts(std::span<const Finding> findings) {
    std::vector<std::string> counts;
    for (const char code : std::string_view("EUWCDIN")) {
        const auto count = std::count_if(findings.begin(), findings.end(),
                                         [&](const Finding& one) { return static_cast<char>(one.code) == code; });
        if (count > 0) counts.push_back(fmt::format("{} {}", code, count));
    }
    return counts.empty() ? "no findings" : fmt::format("{}", fmt::join(counts, ", "));
}

std::string finding_lines(std::span<const Finding> findings, InertKeys inert_keys) {
    std::string text;
    std::vector<std::string> inert;
    for (const Finding& one : findings) {
        if (inert_keys == InertKeys::in_one_line && one.rule.ends_with("/inert-key"))
            inert.push_back(one.key);
        else
            text += finding_line(one);
    }
    if (!inert.empty())
        text += fmt::format("I {} no format, rounding or scale: {}\n",
                            inert.size() == 1 ? "1 key affects" : fmt::format("{} keys affect", inert.size()),
                            shown_list(inert, 5));
    return text;
}

std::string import_table(const ImportResult& result, InertKeys inert_keys) {
    const std::vector<const ResolvedField*> fields = result.resolved.fields();
    std::size_t name = 5, value = 5;
    std::vector<std::string> values;
    constexpr std::size_t widest = 44;  // a longer value shifts only its own line
    for (const ResolvedField* field : fields) {
        values.push_back(shown(field_text(field->value), 2000));
        name = std::max(name, field->name.size());
        value = std::max(value, std::min(values.back().size(), widest));
    }
    std::string text =
        fmt::format("{} {}: {}\n", result.framework->title, version_text(result), finding_counts(result.findings));
    text += finding_lines(result.findings, inert_keys);
    text += fmt::format("\n{:<{}}  {:<{}}  FROM\n", "FIELD", name, "VALUE", value);
    for (std::size_t i = 0; i < fields.size(); ++i)
        text +=
            fmt::format("{:<{}}  {:<{}}  {}\n", fields[i]->name, name, values[i], value, printable(fields[i]->from));
    return text;
}

std::string import_annotations(std::span<const Finding> findings) {
    std::vector<Annotation> annotations;
    for (const Finding& one : findings) {
        Annotation annotation{.level = std::string(to_string(severity(one))),
                              .title = one.rule,
                              .text = fmt::format("{}: {}", word_of(one.code), one.message)};
        if (!one.instead.empty()) annotation.text += fmt::format("\nInstead: {}", one.instead);
        annotation.file = one.place.file;
        annotation.line = one.place.line;
        annotation.column = one.place.column;
        annotations.push_back(std::move(annotation));
    }
    return annotation_lines(annotations);
}

}  // namespace macheps::cmd::policies
