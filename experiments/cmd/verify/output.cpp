// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/verify/output.hpp"

#include "experiments/cmd/frame/json.hpp"
#include "reports/ci/junit.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::cmd::verify {

using namespace reports;

using evidence::ProbeResult;

namespace {

/// Range of consecutive rows that belong to one instruction.
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

RowTable<ProbeResult> verify_rows() {
    const auto trials = [](const ProbeResult& row) { return trials_text(row.trials); };
    const auto seconds = [](const ProbeResult& row) { return fmt::format("{:.3f}", row.seconds); };
    return {{{"kind", &ProbeResult::kind, "kind"},
             {"instruction", &ProbeResult::instruction, "instruction"},
             {"class", &ProbeResult::operands, "class"},
             {"model", &ProbeResult::model, "model"},
             {"trials", &ProbeResult::trials, "trials", {.table = trials, .align = Align::right}},
             {"mismatches", &ProbeResult::mismatches, "mismatches", {.align = Align::right}},
             {"verdict", [](const ProbeResult& row) { return verdict_name(row.verdict); }, "verdict"},
             {"seconds", &ProbeResult::seconds, "", {.csv = seconds}},
             {"note", &ProbeResult::note}}};
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
    // Rows of the table. If the verdict `equal` holds for all classes of operands of an instruction, the instruction
    // becomes one row. A note is printed below its row.
    std::vector<ProbeResult> shown;
    std::vector<std::string> notes{""};  // no note for the first line, which has the headings
    const auto add = [&](ProbeResult row, bool noted) {
        std::string note = noted ? row.note : "";
        if (row.kind == "question") {
            // Rows of this kind have a question about a GPU instead of operands. It is too long for a column, so it
            // becomes part of the note.
            if (!row.operands.empty()) note = row.operands + "? " + note;
            row.operands.clear();
        }
        shown.push_back(std::move(row));
        notes.push_back(std::move(note));
    };
    for (const Span& span : instructions(rows)) {
        ProbeResult all = rows[span.first];
        all.operands = fmt::format("{} classes", span.end - span.first);
        all.trials = 0;
        bool all_equal = span.end - span.first > 1;
        for (std::size_t i = span.first; i < span.end; ++i) {
            all.trials += rows[i].trials;
            all_equal = all_equal && rows[i].verdict == evidence::Verdict::equal && rows[i].model == all.model;
        }
        if (all_equal) {
            add(std::move(all), false);
            continue;
        }
        for (std::size_t i = span.first; i < span.end; ++i)
            add(rows[i], rows[i].verdict != evidence::Verdict::equal || rows[i].kind == "question");
    }
    std::string text;
    const std::vector<std::string> lines = verify_rows().lines(shown);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += lines[i] + '\n';
        if (!notes[i].empty()) text += "    " + notes[i] + '\n';
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
            one.message = "it did not run to its end";
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
    print_json({{"device", device},
                {"rows", verify_rows().json(rows)},
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
