// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/summary_table.hpp"

#include "core/host/publish.hpp"
#include "core/text/json.hpp"
#include "core/text/shown.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/rows/csv.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace macheps::reports {

namespace {

struct Heading {
    std::string_view text;
    std::string SummaryCells::*cell;
    bool right;
};

constexpr std::array<Heading, 11> headings{{{"policy", &SummaryCells::policy, false},
                                            {"seeds", &SummaryCells::seeds, true},
                                            {"loss", &SummaryCells::loss, true},
                                            {"gap to fp32", &SummaryCells::gap, true},
                                            {"verdict", &SummaryCells::verdict, false},
                                            {"skipped", &SummaryCells::skipped, true},
                                            {"underflow", &SummaryCells::underflow, true},
                                            {"lost updates", &SummaryCells::lost_updates, true},
                                            {"bytes/param", &SummaryCells::static_bytes, true},
                                            {"activations", &SummaryCells::activation_bytes, true},
                                            {"peak", &SummaryCells::peak, true}}};

/// Returns the number of code points. For the texts of macheps and for most names, this is the width on a terminal.
std::size_t width_of(std::string_view text) {
    return std::size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string percent(double rate) {
    const double p = 100 * rate;
    if (p == 0) return "0 %";
    if (p < 0.001) return "<0.001 %";
    return fmt::format("{:.{}f} %", p, p < 1 ? 3 : p < 10 ? 2 : 1);
}

std::string_view colour_of(std::string_view verdict) {
    const std::string_view tone = tone_of(verdict);
    if (tone == "good") return "\x1b[32m";
    if (tone == "warn") return "\x1b[33m";
    if (tone == "bad") return "\x1b[31m";
    return "\x1b[2m";
}

template <class Value>
Json json_of(const Value& value) {
    if constexpr (std::is_floating_point_v<Value>) {
        if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    }
    return value;
}
template <class Value>
Json json_of(const std::optional<Value>& value) {
    return value ? json_of(*value) : Json(nullptr);
}

}  // namespace

Colour colour_for(int descriptor) {
    const char* no_color = std::getenv("NO_COLOR");
    return isatty(descriptor) && (!no_color || !*no_color) ? Colour::always : Colour::never;
}

SummaryCells summary_cells(const PolicySummary& policy) {
    const SummaryRow& row = policy.row;
    SummaryCells cells{.policy = printable(row.policy),
                       .seeds = fmt::format("{}", row.seeds),
                       .loss = fmt::format("{:.4f}", row.loss),
                       .gap = gap_words(row),
                       .verdict = row.verdict,
                       .skipped = percent(row.skipped_rate),
                       .underflow = row.underflow_rate ? percent(*row.underflow_rate) : "-",
                       .lost_updates = policy.lost_updates_per_step == 0
                                           ? "0"
                                           : fmt::format("{:.{}f}/step", policy.lost_updates_per_step,
                                                         policy.lost_updates_per_step < 10 ? 1 : 0),
                       .static_bytes = row.static_bytes ? fmt::format("{:.1f}", *row.static_bytes) : "-",
                       .activation_bytes = row.activation_bytes ? fmt::format("{:.1f}", *row.activation_bytes) : "-",
                       .peak = row.relative_peak ? fmt::format("{:.2f}x", *row.relative_peak) : "-"};
    return cells;
}

std::string summary_table(const Summary& summary, Colour colour) {
    std::vector<SummaryCells> lines;
    for (const PolicySummary& policy : summary.policies) lines.push_back(summary_cells(policy));
    std::string out;
    const auto put = [&](const auto& text_of, std::string_view verdict) {
        std::string line;
        for (const Heading& heading : headings) {
            std::size_t width = heading.text.size();
            for (const SummaryCells& cells : lines) width = std::max(width, width_of(cells.*heading.cell));
            const std::string text{text_of(heading)};
            const std::string pad(width - width_of(text), ' ');
            const bool is_coloured = colour == Colour::always && heading.text == "verdict" && !verdict.empty();
            line += heading.right ? pad : "";
            line += is_coloured ? fmt::format("{}{}\x1b[0m", colour_of(verdict), text) : text;
            line += heading.right ? "" : pad;
            line += "  ";
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + '\n';
    };
    put([](const Heading& heading) { return heading.text; }, "");
    for (std::size_t i = 0; i < lines.size(); ++i) {
        put([&](const Heading& heading) { return lines[i].*heading.cell; }, summary.policies[i].row.verdict);
    }
    for (const std::string& note : table_notes(summary)) out += note + "\n";
    for (const PolicySummary& policy : summary.policies) {
        const std::string sentence = verdict_sentence(policy);
        if (!sentence.empty()) {
            out += fmt::format("  {}: {}.\n    {}.\n", printable(policy.row.policy), sentence,
                               printable(range_line(policy)));
        }
    }
    for (const std::string& warning : warnings_of(summary)) out += "warning: " + warning + ".\n";
    return out;
}

std::vector<std::string> table_notes(const Summary& summary) {
    const bool has_intervals =
        std::any_of(summary.policies.begin(), summary.policies.end(),
                    [](const PolicySummary& policy) { return policy.row.gap_ci_low.has_value(); });
    std::vector<std::string> notes{
        fmt::format("loss and gap in nats per token: means of the last {}, paired by seed{}.", window_words(summary),
                    has_intervals ? "; ± is the 95 % t interval" : "")};
    if (!summary.setup.empty()) notes.push_back(summary.setup + ".");
    const bool has_failed = std::any_of(summary.policies.begin(), summary.policies.end(),
                                        [](const PolicySummary& policy) { return has_failed_runs(policy.row); });
    if (has_failed) notes.push_back("diverged: " + diverged_note(window_words(summary)) + ".");
    const auto any = [&](const auto& cell) {
        return std::any_of(summary.policies.begin(), summary.policies.end(),
                           [&](const PolicySummary& policy) { return (policy.row.*cell).has_value(); });
    };
    if (any(&SummaryRow::static_bytes)) {
        notes.emplace_back(
            "bytes/param: weights, gradients, master copies and optimiser state; activations: those of one "
            "micro-batch, also per parameter.");
    }
    if (any(&SummaryRow::relative_peak)) {
        notes.push_back("peak: maximum speed of the formats that the policy's matmuls multiply, " +
                        peak_words(summary));
    }
    if (const std::string words = gradient_underflow_words(summary); !words.empty()) {
        notes.push_back(
            "underflow: share of all values that are cast, forward and backward; of gradients only: " + words + ".");
    }
    return notes;
}

std::string peak_words(const Summary& summary) {
    std::vector<std::pair<std::string, std::string>> policies_of;  // by the name of a GPU
    for (const PolicySummary& policy : summary.policies) {
        if (!policy.row.peak_gpu) continue;
        const auto found = std::find_if(policies_of.begin(), policies_of.end(),
                                        [&](const auto& one) { return one.first == *policy.row.peak_gpu; });
        if (found == policies_of.end()) {
            policies_of.emplace_back(*policy.row.peak_gpu, printable(policy.row.policy));
        } else {
            found->second += ", " + printable(policy.row.policy);
        }
    }
    std::string gpus;
    for (const auto& [name, policies] : policies_of) {
        const VendorGpu* gpu = find_vendor_gpu(name);
        gpus += fmt::format("on {}, dense, {} = 1x", gpu != nullptr ? gpu->title : name, unit_kind(name));
        if (policies_of.size() > 1) gpus += fmt::format(" ({})", policies);
        gpus += "; ";
    }
    if (policies_of.size() == 1) gpus.replace(gpus.size() - 2, 2, ": ");
    std::string text = gpus + "the vendor's figures, not a measurement.";
    for (const PolicySummary& policy : summary.policies) {
        if (!policy.no_peak.empty())
            text += fmt::format(" {} has no peak: {}, so software has to emulate it.", printable(policy.row.policy),
                                policy.no_peak);
    }
    return text;
}

std::string gradient_underflow_words(const Summary& summary) {
    std::string words;
    for (const PolicySummary& policy : summary.policies) {
        if (policy.gradient_underflow_rate.value_or(0) == 0) continue;
        words += fmt::format("{}{} {}", words.empty() ? "" : ", ", printable(policy.row.policy),
                             percent(*policy.gradient_underflow_rate));
    }
    return words;
}

std::string window_words(const Summary& summary) {
    using Window = std::pair<std::int64_t, std::int64_t>;
    const auto window_of = [](const PolicySummary& policy) { return Window(policy.window, policy.longest_window); };
    const auto words_of = [](Window window) {
        return window.first == window.second ? fmt::format("{}", window.first)
                                             : fmt::format("{} to {}", window.first, window.second);
    };
    Window common{};
    std::ptrdiff_t rows = 0;
    for (const PolicySummary& policy : summary.policies) {
        const auto alike = std::count_if(summary.policies.begin(), summary.policies.end(),
                                         [&](const auto& other) { return window_of(other) == window_of(policy); });
        if (alike > rows) rows = alike, common = window_of(policy);
    }
    std::string others;
    for (const PolicySummary& policy : summary.policies) {
        if (window_of(policy) == common) continue;
        others += fmt::format("{}{}: {}", others.empty() ? "" : "; ", printable(policy.row.policy),
                              words_of(window_of(policy)));
    }
    return fmt::format("{} step{}{}", words_of(common), common == Window(1, 1) ? "" : "s",
                       others.empty() ? "" : fmt::format(" ({})", others));
}

std::string summary_csv(const Summary& summary) {
    std::string text = csv::header<SummaryRow>() + '\n';
    for (const PolicySummary& policy : summary.policies) csv::append_line(text, policy.row);
    return text;
}

void write_summary(const Summary& summary, const std::filesystem::path& path) {
    check_is_replaceable(path);  // a page may be written to a pipe, but summary.csv may not
    publish(path, summary_csv(summary));
}

std::string summary_json(const Summary& summary) {
    Json policies = Json::array();
    for (const PolicySummary& policy : summary.policies) {
        Json object;
        const auto put = [&](const auto& c) { object[std::string(c.name)] = json_of(policy.row.*c.field); };
        for_each_column<SummaryRow>(put);
        object["sentence"] = verdict_sentence(policy);
        object["range"] = range_line(policy);
        policies.push_back(std::move(object));
    }
    const Json all{{"schema", schema_version},
                   {"policies", policies},
                   {"notes", summary.notes},
                   {"warnings", warnings_of(summary)}};
    return all.dump(2, Json::BadUtf8::is_replaced) + '\n';
}

}  // namespace macheps::reports
