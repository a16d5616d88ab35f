// SPDX-License-Identifier: Apache-2.0
// Diagnoses as text for a terminal, as JSON, and as HTML for the page.
#include "core/text/shown.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace macheps::reports {

namespace {

/// Describes the place of a finding: "step 12, block.0.mlp.up:grad.in, 2 of 3 seeds (seed 1)". Without a step, it
/// begins with "the whole run".
std::string where_of(const Diagnosed& finding) {
    std::string where = finding.seen.step ? fmt::format("step {}", *finding.seen.step) : "the whole run";
    if (!finding.seen.site.empty()) where += ", " + finding.seen.site;
    if (finding.of_seeds > 1) {
        where += fmt::format(", {} of {} seeds (seed {})", finding.seeds, finding.of_seeds, finding.seed);
    }
    return where;
}

/// A reason why some diagnoses could not be checked in some policies, with the diagnoses and the policies.
struct Gap {
    std::string why;
    std::vector<std::string> ids, policies;
};
std::vector<Gap> gaps_of(const Verdicts& verdicts) {
    std::vector<Gap> gaps;
    const auto add = [](std::vector<std::string>& list, std::string_view name) {
        if (std::find(list.begin(), list.end(), name) == list.end()) list.emplace_back(name);
    };
    for (const Unseen& one : verdicts.unseen) {
        auto gap = std::find_if(gaps.begin(), gaps.end(), [&one](const Gap& each) { return each.why == one.why; });
        if (gap == gaps.end()) gap = gaps.insert(gaps.end(), {.why = one.why, .ids = {}, .policies = {}});
        add(gap->ids, one.diagnosis->id);
        add(gap->policies, one.policy);
    }
    return gaps;
}

std::string joined(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
    return out;
}

std::vector<std::string> without_findings(const Verdicts& verdicts) {
    std::vector<std::string> names;
    for (const std::string& policy : verdicts.policies) {
        const bool has_one = std::any_of(verdicts.findings.begin(), verdicts.findings.end(),
                                         [&policy](const Diagnosed& finding) { return finding.policy == policy; });
        if (!has_one) names.push_back(policy);
    }
    return names;
}

Verdicts restricted(const Verdicts& all, std::span<const std::string> policies) {
    const auto is_shown = [&policies](const auto& one) {
        return std::find(policies.begin(), policies.end(), one.policy) != policies.end();
    };
    Verdicts verdicts{.policies = {policies.begin(), policies.end()}, .findings = {}, .unseen = {}};
    std::copy_if(all.findings.begin(), all.findings.end(), std::back_inserter(verdicts.findings), is_shown);
    std::copy_if(all.unseen.begin(), all.unseen.end(), std::back_inserter(verdicts.unseen), is_shown);
    return verdicts;
}

Json json_of(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

}  // namespace

std::string diagnosis_text(const Verdicts& verdicts) {
    std::string out = fmt::format("Findings of {} diagnoses in these runs:\n", diagnoses().size());
    const std::string* policy = nullptr;
    for (const Diagnosed& finding : verdicts.findings) {
        if (policy == nullptr || *policy != finding.policy) out += printable(finding.policy) + "\n";
        policy = &finding.policy;
        out += fmt::format("  {} ({}): {}.\n    {}.\n", finding.diagnosis->id, printable(where_of(finding)),
                           finding.sentence(), capitalised(std::string(finding.remedy())));
    }
    if (const auto names = without_findings(verdicts); !names.empty()) {
        out += fmt::format("No findings: {}\n", printable(joined(names)));
    }
    for (const Gap& gap : gaps_of(verdicts)) {
        out += fmt::format("Not checked: {} in {}: {}\n", joined(gap.ids), printable(joined(gap.policies)), gap.why);
    }
    return out;
}

Json diagnosis_json(const Verdicts& verdicts) {
    Json looked_for = Json::array(), findings = Json::array(), unseen = Json::array();
    for (const Diagnosis& diagnosis : diagnoses()) looked_for.push_back(diagnosis.id);
    for (const Diagnosed& finding : verdicts.findings) {
        Json figures = Json::object();
        for (const Figure& figure : finding.seen.figures) figures[figure.name] = json_of(figure.value);
        Json object;
        object["id"] = finding.diagnosis->id;
        object["policy"] = finding.policy;
        object["seed"] = finding.seed;
        object["seeds"] = finding.seeds;
        object["of_seeds"] = finding.of_seeds;
        object["step"] = finding.seen.step ? Json(*finding.seen.step) : Json();
        object["site"] = finding.seen.site.empty() ? Json() : Json(finding.seen.site);
        object["figures"] = std::move(figures);
        object["sentence"] = finding.sentence();
        object["remedy"] = finding.remedy();
        findings.push_back(std::move(object));
    }
    for (const Unseen& one : verdicts.unseen) {
        Json object;
        object["id"] = one.diagnosis->id;
        object["policy"] = one.policy;
        object["why"] = one.why;
        unseen.push_back(std::move(object));
    }
    Json all;
    all["looked_for"] = std::move(looked_for);
    all["findings"] = std::move(findings);
    all["not_looked_for"] = std::move(unseen);
    return all;
}

std::string diagnosis_html(const Verdicts& all, std::span<const std::string> policies) {
    if (policies.empty()) return {};
    const Verdicts verdicts = restricted(all, policies);
    std::string rows, rules, gaps;
    for (const Diagnosed& finding : verdicts.findings) {
        rows += fmt::format(
            "<tr><th scope=\"row\">{}</th><td><code>{}</code></td><td>{}</td><td>{}.</td><td>{}.</td></tr>\n",
            escape_html(finding.policy), finding.diagnosis->id, escape_html(where_of(finding)),
            escape_html(capitalised(finding.sentence())), escape_html(capitalised(std::string(finding.remedy()))));
    }
    for (const Diagnosis& diagnosis : diagnoses()) {
        rules += fmt::format("<dt>{}</dt><dd>{}</dd>", diagnosis.id, escape_html(diagnosis.condition));
    }
    for (const Gap& gap : gaps_of(verdicts)) {
        gaps += fmt::format("<p>Not checked: {} in {}: {}.</p>\n", joined(gap.ids), escape_html(joined(gap.policies)),
                            escape_html(gap.why));
    }
    std::string out = "<section id=\"diagnosis\" class=\"training\">\n<h2>Findings</h2>\n";
    if (rows.empty()) {
        out += fmt::format("<p>None of the {} diagnoses applies.</p>\n", diagnoses().size());
    } else {
        out +=
            "<div "
            "class=\"table\"><table><thead><tr><th>policy</th><th>diagnosis</th><th>where</th><th>finding</th><th>what "
            "to change</th></tr></thead><tbody>\n" +
            rows + "</tbody></table></div>\n";
    }
    return out + gaps + "<details><summary>All diagnoses and their conditions</summary><dl>" + rules +
           "</dl></details>\n</section>\n";
}

}  // namespace macheps::reports
