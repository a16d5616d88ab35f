// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/verify/output.hpp"

#include "experiments/cmd/frame/json.hpp"
#include "reports/ci/junit.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace macheps::cmd::verify {

using namespace reports;

using evidence::ProbeResult;

namespace {

/// Rows of one instruction that stand next to each other.
struct Span {
    std::size_t first = 0, end = 0;
};
std::vector<Span> instructions(const std::vector<ProbeResult>& rows) {
    std::vector<Span> spans;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const bool is_same = !spans.empty() && rows[i].kind == rows[spans.back().first].kind &&
                             rows[i].instruction == rows[spans.back().first].instruction;
        if (!is_same) spans.push_back({i, i});
        spans.back().end = i + 1;
    }
    return spans;
}

std::string trials_text(std::uint64_t trials) {
    return trials < 1'000'000 ? std::to_string(trials) : fmt::format("{:.3g}", static_cast<double>(trials));
}

std::string csv_cell(std::string_view text) {
    std::string cell;
    reports::csv::append_cell(cell, text);
    return cell;
}

std::string seconds_text(double seconds) { return fmt::format("{:.3f}", seconds); }

}  // namespace

const char* verdict_name(evidence::Verdict verdict) {
    switch (verdict) {
        case evidence::Verdict::equal:
            return "equal";
        case evidence::Verdict::differs:
            return "differs";
        case evidence::Verdict::recorded:
            return "recorded";
        case evidence::Verdict::declined:
            return "declined";
        case evidence::Verdict::absent:
            return "absent";
        default:
            return "failed";
    }
}

VerifyCounts count_rows(const std::vector<ProbeResult>& rows) {
    VerifyCounts counts;
    for (const ProbeResult& row : rows) {
        ++counts.rows;
        counts.trials += row.trials;
        counts.mismatches += row.mismatches;
        counts.equal += row.verdict == evidence::Verdict::equal ? 1 : 0;
        counts.differ += row.verdict == evidence::Verdict::differs ? 1 : 0;
        counts.recorded += row.verdict == evidence::Verdict::recorded ? 1 : 0;
        counts.declined += row.verdict == evidence::Verdict::declined ? 1 : 0;
        counts.absent += row.verdict == evidence::Verdict::absent ? 1 : 0;
        counts.failed += row.verdict == evidence::Verdict::failed ? 1 : 0;
    }
    return counts;
}

std::string verify_table(const std::vector<ProbeResult>& rows) {
    struct Line {
        std::array<std::string, 7> cells;
        std::string note;
    };
    std::vector<Line> lines{{{"kind", "instruction", "class", "model", "trials", "mismatches", "verdict"}, ""}};
    const auto add = [&](const ProbeResult& row, const std::string& cls, std::uint64_t trials, bool noted) {
        // What a question asks is long: it goes below.
        const bool asks = row.kind == "question";
        std::string note = noted ? row.note : "";
        if (asks && !cls.empty()) note = cls + "? " + note;
        lines.push_back({{row.kind, row.instruction, asks ? "" : cls, row.model, trials_text(trials),
                          std::to_string(row.mismatches), verdict_name(row.verdict)},
                         note});
    };
    for (const Span& span : instructions(rows)) {
        const ProbeResult& first = rows[span.first];
        std::uint64_t trials = 0;
        bool all_equal = span.end - span.first > 1;
        for (std::size_t i = span.first; i < span.end; ++i) {
            trials += rows[i].trials;
            all_equal = all_equal && rows[i].verdict == evidence::Verdict::equal && rows[i].model == first.model;
        }
        if (all_equal) {
            add(first, fmt::format("{} classes", span.end - span.first), trials, false);
            continue;
        }
        for (std::size_t i = span.first; i < span.end; ++i)
            add(rows[i], rows[i].operands, rows[i].trials,
                rows[i].verdict != evidence::Verdict::equal || rows[i].kind == "question");
    }
    std::array<std::size_t, 7> widths{};
    for (const Line& line : lines) {
        for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line.cells[i].size());
    }
    std::string text;
    for (const Line& line : lines) {
        std::string row;
        for (std::size_t i = 0; i < widths.size(); ++i) {
            const std::string cell = line.cells[i].empty() ? "-" : line.cells[i];
            const bool is_number = i == 4 || i == 5;
            row += is_number ? fmt::format("{:>{}}  ", cell, widths[i]) : fmt::format("{:<{}}  ", cell, widths[i]);
        }
        text += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
        if (!line.note.empty()) text += "    " + line.note + '\n';
    }
    return text;
}

std::string verify_csv(const std::vector<ProbeResult>& rows) {
    std::string text;
    for (const ProbeResult& row : rows) {
        text += fmt::format("{},{},{},{},{},{},{},{},{}\n", csv_cell(row.kind), csv_cell(row.instruction),
                            csv_cell(row.operands), csv_cell(row.model), row.trials, row.mismatches,
                            verdict_name(row.verdict), seconds_text(row.seconds), csv_cell(row.note));
    }
    return text;
}

std::string verify_junit(const std::vector<ProbeResult>& rows) {
    std::vector<JUnitCase> cases;
    for (const ProbeResult& row : rows) {
        JUnitCase one{.classname = fmt::format("{}.{}", row.kind, row.instruction),
                      .name = row.operands.empty() ? "all" : row.operands};
        one.seconds = row.seconds;
        if (row.verdict == evidence::Verdict::differs) {
            one.result = JUnitCase::Result::failure;
            one.message = fmt::format("{} of {} differ from {}", row.mismatches, row.trials, row.model);
            one.text = row.note;
        } else if (row.verdict == evidence::Verdict::failed) {
            one.result = JUnitCase::Result::error;
            one.message = "did not run to its end";
            one.text = row.note;
        } else if (row.verdict == evidence::Verdict::declined || row.verdict == evidence::Verdict::absent) {
            one.result = JUnitCase::Result::skipped;
            one.message = row.note;
        }
        cases.push_back(std::move(one));
    }
    return junit_text("macheps verify", cases);
}

void print_verify_json(const std::vector<ProbeResult>& rows, const std::string& device,
                       const std::vector<std::string>& traces) {
    const VerifyCounts counts = count_rows(rows);
    Json list = Json::array();
    for (const ProbeResult& row : rows) {
        list.push_back({{"kind", row.kind},
                        {"instruction", row.instruction},
                        {"class", row.operands},
                        {"model", row.model},
                        {"trials", row.trials},
                        {"mismatches", row.mismatches},
                        {"verdict", verdict_name(row.verdict)},
                        {"seconds", json_number(row.seconds)},
                        {"note", row.note}});
    }
    print_json({{"device", device},
                {"rows", list},
                {"equal", counts.equal},
                {"differ", counts.differ},
                {"recorded", counts.recorded},
                {"declined", counts.declined},
                {"absent", counts.absent},
                {"failed", counts.failed},
                {"trials", counts.trials},
                {"mismatches", counts.mismatches},
                {"traces", traces}});
}

}  // namespace macheps::cmd::verify
