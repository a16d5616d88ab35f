// SPDX-License-Identifier: Apache-2.0
// The diagnoses of training logs as text for a terminal, and as JSON.
#include "core/text/shown.hpp"
#include "reports/rows/rows_json.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace macheps::reports {

std::vector<std::string_view> columns_of(const TrainingLog& log) {
    std::vector<std::string_view> names = quantity_names();
    std::erase_if(names, [&log](std::string_view name) { return !log.has(find_quantity(name)); });
    return names;
}

std::string reading_words(const TrainingLog& log) {
    const std::vector<std::string_view> columns = columns_of(log);
    return fmt::format(
        "{}; {} rows, {} to {}; columns: {}{}", log.form->name, log.rows.size(), log.place(log.rows.front().step),
        log.rows.back().step, columns.empty() ? "none is known" : fmt::format("{}", fmt::join(columns, ", ")),
        log.other_lines == 0 ? "" : fmt::format("; {} other line{}", log.other_lines, log.other_lines == 1 ? "" : "s"));
}

std::vector<std::pair<std::string, std::string>> gaps_by_reason(const LogVerdicts& verdicts) {
    std::vector<std::pair<std::string, std::string>> reasons;
    for (const LogGap& gap : verdicts.gaps) {
        auto found =
            std::find_if(reasons.begin(), reasons.end(), [&](const auto& one) { return one.first == gap.why; });
        if (found == reasons.end()) found = reasons.insert(found, {gap.why, ""});
        found->second += fmt::format("{}{}", found->second.empty() ? "" : ", ", gap.diagnosis->id);
    }
    return reasons;
}

std::string finding_place(const TrainingLog& log, const LogFinding& finding) {
    return finding.seen.step ? log.place(*finding.seen.step) : "the whole log";
}

std::string training_log_text(const TrainingLog& log, const LogVerdicts& verdicts) {
    std::string out = fmt::format("{}\n  {}\n", printable(log.path.string()), printable(reading_words(log)));
    for (const std::string& note : log.notes) out += fmt::format("  note: {}\n", printable(note));
    if (verdicts.findings.empty()) out += "No findings\n";
    for (const LogFinding& finding : verdicts.findings) {
        out += fmt::format("{} ({}, {}): {}.\n  Try: {}.\n", finding.diagnosis->id, word_of(finding.seen.certainty),
                           finding_place(log, finding), finding.seen.sentence, finding.remedy());
        for (const std::string& remark : finding.remarks) out += fmt::format("  {}.\n", printable(remark));
    }
    for (const auto& [why, ids] : gaps_by_reason(verdicts)) out += fmt::format("Not looked for: {}: {}\n", ids, why);
    return out;
}

Json training_log_json(const TrainingLog& log, const LogVerdicts& verdicts) {
    Json findings = Json::array(), gaps = Json::array(), columns = Json::array(), notes = Json::array();
    for (const std::string_view name : columns_of(log)) columns.push_back(name);
    for (const std::string& note : log.notes) notes.push_back(note);
    for (const LogFinding& finding : verdicts.findings) {
        const std::optional<std::int64_t>& step = finding.seen.step;
        findings.push_back({{"id", finding.diagnosis->id},
                            {"certainty", word_of(finding.seen.certainty)},
                            {"step", step ? Json(*step) : Json()},
                            {"sentence", finding.seen.sentence},
                            {"remedy", finding.remedy()},
                            {"remarks", finding.remarks}});
    }
    for (const LogGap& gap : verdicts.gaps) gaps.push_back({{"id", gap.diagnosis->id}, {"why", gap.why}});
    return {{"file", log.path.string()},
            {"kind", log.form->name},
            {"counts", log.unit()},
            {"rows", log.rows.size()},
            {"first_step", log.rows.front().step},
            {"last_step", log.rows.back().step},
            {"other_lines", log.other_lines},
            {"columns", std::move(columns)},
            {"notes", std::move(notes)},
            {"findings", std::move(findings)},
            {"not_looked_for", std::move(gaps)},
            {"steps", rows_of_json(std::span<const TrainingRow>(log.rows))}};
}

}  // namespace macheps::reports
