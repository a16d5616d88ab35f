// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/check/reports.hpp"

#include "core/host/version.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/check.hpp"
#include "reports/ci/annotations.hpp"
#include "reports/ci/junit.hpp"
#include "reports/ci/sarif.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::cmd::checks {

using namespace reports;

using check::Checked;
using check::Outcome;
using check::Reason;

namespace {

/// A message about one input. All its sentences have the same reason code.
struct Message {
    std::string code, text;
    std::string_view level;
};

std::string_view level_of(Outcome outcome) { return outcome == Outcome::weak ? "warning" : "error"; }

std::string sentence_of(const Checked& one, const Reason& reason) {
    std::string text = reason.text;
    if (reason.test == "T3") {
        const char* figure = reason.code == check::reason_code::bias ? "mean" : "z";
        return text + fmt::format(" ({} {:.4g}, limit {:.4g})", figure, reason.got, reason.bound);
    }
    if (reason.index >= 0 && one.verdict.limits->columns > 0) {
        text += fmt::format("; at {}: got {}, exact {}", place_of(*one.verdict.limits, reason.index), reason.got,
                            reason.want);
        if (const auto multiple = check::multiple_of(reason))
            text += fmt::format(", error {} times the bound", check::multiple_text(*multiple, 4));
    }
    return text;
}

/// Returns one message for each reason code of an input, and one message for all its notes.
std::vector<Message> messages_of(const Checked& one) {
    std::vector<Message> messages;
    for (const Reason& reason : one.verdict.reasons) {
        const auto same = std::find_if(messages.begin(), messages.end(),
                                       [&](const Message& message) { return message.code == reason.code; });
        if (same == messages.end())
            messages.push_back({reason.code, sentence_of(one, reason), level_of(one.outcome)});
        else
            same->text += "\n" + sentence_of(one, reason);
    }
    if (!one.notes.empty())
        messages.push_back(
            {check::reason_code::baseline_differs, fmt::format("{}", fmt::join(one.notes, "\n")), "note"});
    return messages;
}

std::string title_of(const Checked& one) {
    return printable(one.input.empty() ? one.name : one.name + "/" + one.input);
}

/// Returns the first reason in one line, or an empty text.
std::string first_reason(const Checked& one) {
    if (one.verdict.reasons.empty()) return {};
    const Reason& reason = one.verdict.reasons.front();
    return fmt::format("{} {}", reason.code, sentence_of(one, reason));
}

/// Returns whether there are statistics to report. If no output was compared with its exact value, the statistics would
/// look like those of a perfect kernel.
bool has_figures(const Checked& one) {
    const bool was_judged =
        one.outcome == Outcome::pass || one.outcome == Outcome::fail || one.outcome == Outcome::weak;
    return was_judged && one.verdict.judgement.outputs > 0;
}

/// Returns the statistics of an input, or "exact" if each of its outputs has only one right value.
std::string figures_of(const Checked& one) {
    const check::Judgement& j = one.verdict.judgement;
    return one.is_exact() ? "exact" : fmt::format("rho {}, z {:.3g}", check::multiple_text(j.rho, 3), j.z);
}

/// Returns one line about an input. It gives the input's statistics. If the input did not pass, its first reason
/// precedes them.
std::string line_of(const Checked& one) {
    if (!has_figures(one)) return first_reason(one);
    const std::string figures = figures_of(one);
    if (one.outcome == Outcome::pass || one.verdict.reasons.empty()) return figures;
    const Reason& reason = one.verdict.reasons.front();
    if (const auto multiple = check::multiple_of(reason); multiple && *multiple > 1)
        return fmt::format("{}: {} times the limit; {}", reason.code, check::multiple_text(*multiple, 4), figures);
    if (reason.count > 0) return fmt::format("{}: {} outputs; {}", reason.code, reason.count, figures);
    return fmt::format("{}; {}", reason.code, figures);
}

/// Escapes a text for a cell of a table, so that no Markdown or HTML remains in it.
std::string cell(std::string_view text) {
    std::string out;
    for (const char c : printable(text)) {
        if (std::string_view("|`<>&*_[]\\~#!$").find(c) != std::string_view::npos)
            out += fmt::format("&#{};", static_cast<int>(c));
        else
            out += c;
    }
    return out;
}

std::string counts_of(std::span<const Checked> checks) {
    std::vector<std::string> counts;
    for (const Outcome outcome :
         {Outcome::pass, Outcome::fail, Outcome::weak, Outcome::refused, Outcome::declined, Outcome::bad_input}) {
        const auto count =
            std::count_if(checks.begin(), checks.end(), [&](const Checked& one) { return one.outcome == outcome; });
        if (count > 0) counts.push_back(fmt::format("{} {}", count, to_string(outcome)));
    }
    return fmt::format("{}", fmt::join(counts, ", "));
}

/// Returns the outcome of all inputs of a check. A weak input counts also if weak checks are allowed.
Outcome joint_outcome(std::span<const Checked> inputs) {
    const Outcome outcome = worst_of(inputs);
    const bool is_weak =
        std::any_of(inputs.begin(), inputs.end(), [](const Checked& one) { return one.outcome == Outcome::weak; });
    return outcome == Outcome::pass && is_weak ? Outcome::weak : outcome;
}

/// Returns one line with the verdict on all inputs of a check, and the place of the largest error.
std::string joint_verdict(std::span<const Checked> inputs) {
    const Checked* worst = &inputs.front();
    const Outcome outcome = joint_outcome(inputs);
    // Inputs with this outcome come first, then the input with the largest error. The rho of a right exact output says
    // nothing.
    const auto rank = [&](const Checked& one) {
        const bool has_rho = has_figures(one) && !(one.is_exact() && one.outcome == Outcome::pass);
        return std::pair(one.outcome == outcome, has_rho ? one.verdict.judgement.rho : 0);
    };
    for (const Checked& one : inputs) {
        if (rank(*worst) < rank(one)) worst = &one;
    }
    const std::string text =
        fmt::format("{}  {}, {} inputs: ", to_string(outcome), printable(inputs.front().name), inputs.size());
    if (outcome != Outcome::pass) return text + fmt::format("{}: {}\n", printable(worst->input), first_reason(*worst));
    if (worst->is_exact()) return text + "all outputs are exact\n";
    return text + fmt::format("the largest error is {} times its bound, in {}\n",
                              check::multiple_text(worst->verdict.judgement.rho, 4), printable(worst->input));
}

/// Returns the verdict on each check that has several inputs. The inputs of a check have the same name and are
/// neighbours.
std::string joint_verdicts(std::span<const Checked> checks) {
    std::string text;
    for (std::size_t first = 0, end = 0; first < checks.size(); first = end) {
        end = first + 1;
        while (end < checks.size() && checks[end].name == checks[first].name) ++end;
        if (end - first > 1) text += joint_verdict(checks.subspan(first, end - first));
    }
    return text;
}

}  // namespace

std::string check_suite_text(std::span<const Checked> checks) {
    std::size_t widest = 0;
    for (const Checked& one : checks) widest = std::max(widest, title_of(one).size());
    widest = std::min<std::size_t>(widest, 48);  // a longer title shifts the text of its own line only
    std::string text;
    for (const Checked& one : checks) {
        text += fmt::format("{:<8}  {:<{}}  {}\n", to_string(one.outcome), title_of(one), widest, line_of(one));
    }
    // A single input is reported in full. If there are several, inputs that did not pass or that have notes are
    // reported, up to most_told of them and without the details of the check.
    constexpr std::size_t most_told = 20;
    std::size_t told = 0;
    for (const Checked& one : checks) {
        if (one.outcome == Outcome::pass && one.notes.empty()) continue;
        if (told++ < most_told) text += fmt::format("\n{}\n{}", title_of(one), one.text(checks.size() == 1));
    }
    if (told > most_told)
        text += fmt::format("\nand {} more; --json and --junit report their reasons\n", told - most_told);
    return text + '\n' + joint_verdicts(checks) +
           fmt::format("{}: {}\n", checks.size() == 1 ? "1 input" : fmt::format("{} inputs", checks.size()),
                       counts_of(checks));
}

std::string check_junit(std::span<const Checked> checks) {
    std::vector<JUnitCase> cases;
    for (const Checked& one : checks) {
        JUnitCase test{.classname = one.operation, .name = title_of(one)};
        const bool is_failure =
            one.outcome == Outcome::fail || (one.outcome == Outcome::weak && !one.options.allow_weak);
        const bool is_fine = one.outcome == Outcome::pass || (one.outcome == Outcome::weak && !is_failure);
        if (!is_fine) {
            test.result = is_failure ? JUnitCase::Result::failure : JUnitCase::Result::error;
            test.type = one.verdict.reasons.empty() ? "" : one.verdict.reasons.front().code;
            test.message = first_reason(one);
            test.text = one.text();
        }
        if (has_figures(one)) {
            const check::Judgement& j = one.verdict.judgement;
            if (one.is_exact())
                test.properties = {{"exact", "true"}};
            else
                test.properties = {{"rho", fmt::format("{}", j.rho)}, {"z", fmt::format("{}", j.z)}};
            test.properties.push_back({"blind", fmt::format("{}", fmt::join(one.blind, ", "))});
        }
        cases.push_back(std::move(test));
    }
    return junit_text("macheps check", cases);
}

Json check_sarif(std::span<const Checked> checks) {
    std::vector<SarifResult> results;
    for (const Checked& one : checks) {
        const std::string declared =
            one.declaration.operation == nullptr ? one.operation : declared_json(one.declaration).dump();
        for (const Message& message : messages_of(one)) {
            SarifResult result{.rule = message.code,
                               .level = std::string(message.level),
                               .text = title_of(one) + ": " + message.text,
                               .file = one.source,
                               .line = one.line};
            result.fingerprints["macheps/check"] =
                sha256_text(one.name + '\0' + message.code + '\0' + std::string(message.level) + '\0' + declared);
            results.push_back(std::move(result));
        }
    }
    return sarif_document(macheps::version(), results, check::reason_codes());
}

std::string check_annotations(std::span<const Checked> checks) {
    std::vector<Annotation> annotations;
    for (const Checked& one : checks) {
        // Each input has only one annotation. The ten annotations that are shown are therefore about ten different
        // inputs.
        const std::vector<Message> messages = messages_of(one);
        if (messages.empty()) continue;
        Annotation annotation{.level = std::string(messages.front().level),
                              .title = messages.front().code,
                              .text = title_of(one) + ": " + messages.front().text,
                              .file = one.source,
                              .line = one.line};
        for (const Message& more : std::span(messages).subspan(1))
            annotation.text += fmt::format("\n{}: {}", more.code, more.text);
        annotations.push_back(std::move(annotation));
    }
    std::stable_sort(annotations.begin(), annotations.end(), [](const Annotation& a, const Annotation& b) {
        const auto grave = [](const Annotation& one) {
            return one.level == "error" ? 2 : one.level == "warning" ? 1 : 0;
        };
        return grave(a) > grave(b);
    });
    return annotation_lines(annotations, 10);
}

std::string check_summary(std::span<const Checked> checks) {
    std::string text = fmt::format(
        "### macheps check: {}\n\n| verdict | check | input | errors | why |\n"
        "|---|---|---|---|---|\n",
        counts_of(checks));
    for (const Checked& one : checks) {
        text += fmt::format("| {} | {} | {} | {} | {} |\n", to_string(one.outcome), cell(one.name), cell(one.input),
                            has_figures(one) ? figures_of(one) : "", cell(first_reason(one)));
    }
    return text + "\n";
}

}  // namespace macheps::cmd::checks
