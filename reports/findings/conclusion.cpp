// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/conclusion.hpp"

#include "core/text/json.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/value_range.hpp"
#include "reports/findings/verdict.hpp"
#include "reports/rows/html_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace macheps::reports {

namespace {

using Policies = std::vector<const PolicySummary*>;

constexpr std::size_t max_titled = 4, max_worse = 4, max_sites = 3;

std::vector<std::string> names_of(const Policies& policies) {
    std::vector<std::string> names;
    for (const PolicySummary* policy : policies) names.push_back(policy->row.policy);
    return names;
}

/// Returns the policies with this verdict, in the order of the summary.
Policies with_verdict(const Summary& summary, std::string_view verdict) {
    Policies found;
    for (const PolicySummary& policy : summary.policies) {
        if (policy.row.verdict == verdict) found.push_back(&policy);
    }
    return found;
}

std::string counted(std::size_t n, std::string_view what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// Lists worse policies, the worst first: "pure-bf16 is worse by 1.0 % of fp32's loss, fp16-noscale by 19 %".
std::string worse_words(Policies worse) {
    std::stable_sort(worse.begin(), worse.end(), [](const PolicySummary* a, const PolicySummary* b) {
        return a->relative_gap.value_or(0) > b->relative_gap.value_or(0);
    });
    std::string out;
    for (const PolicySummary* policy : std::span(worse).first(std::min(worse.size(), max_worse))) {
        const std::string by = two_digits(100 * policy->relative_gap.value_or(NAN));
        out += out.empty() ? fmt::format("{} is worse by {} % of fp32's loss", policy->row.policy, by)
                           : fmt::format(", {} by {} %", policy->row.policy, by);
    }
    if (worse.size() > max_worse) out += fmt::format(", and {} more are worse by less", worse.size() - max_worse);
    return out;
}

/// Returns a clause with the largest of the policies' smallest detectable gaps: a gap of this size is detectable for
/// every policy in the list. Returns "" if no policy has a detectable gap.
std::string seen_words(const Policies& policies) {
    double most = 0;
    for (const PolicySummary* policy : policies) most = std::max(most, policy->row.detectable_gap.value_or(0));
    if (!(most > 0)) return {};
    return fmt::format("; smallest detectable gap {} nats per token{}", two_digits(most),
                       policies.size() > 1 ? " for all of them" : "");
}

/// Returns the summary of the runs that trained the policy of `plain` under a stress (`train --stress`). Returns null
/// if these runs do not exist, or if `plain` itself summarises stressed runs.
const PolicySummary* stressed_twin(const Summary& summary, const PolicySummary& plain) {
    for (const PolicySummary& policy : summary.policies) {
        if (!policy.row.stress || plain.row.stress) continue;
        if (policy.row.policy == stressed_name(plain.row.policy, *policy.row.stress)) return &policy;
    }
    return nullptr;
}

/// Returns true for stressed runs of a policy that was also run without the stress.
bool stress_is_of_another(const Summary& summary, const PolicySummary& stressed) {
    return std::any_of(summary.policies.begin(), summary.policies.end(),
                       [&](const PolicySummary& plain) { return stressed_twin(summary, plain) == &stressed; });
}

/// Returns true if the stressed runs of a policy diverged or ended worse than those of fp32.
bool fails_stressed(const Summary& summary, const PolicySummary& plain) {
    const PolicySummary* twin = stressed_twin(summary, plain);
    return twin != nullptr && (twin->row.verdict == verdicts::diverged || twin->row.verdict == verdicts::worse);
}

/// Returns whether fp32 was run, and ended with a finite loss, with and without a stress.
bool is_baseline_safe(const Summary& summary) {
    const Policies found = with_verdict(summary, verdicts::baseline);
    return !found.empty() && std::all_of(found.begin(), found.end(), [&](const PolicySummary* one) {
        return std::isfinite(one->row.loss) && !fails_stressed(summary, *one);
    });
}

/// Returns the texts of range_words() for the policies whose runs cannot rule out an overflow. Policies with the same
/// text share it.
std::string open_ranges(const Policies& policies) {
    std::vector<std::pair<std::string, std::vector<std::string>>> lines;
    for (const PolicySummary* policy : policies) {
        if (!is_range_open(policy->row)) continue;
        const std::string words = range_words(policy->row);
        const auto found =
            std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == words; });
        if (found == lines.end()) {
            lines.push_back({words, {policy->row.policy}});
        } else {
            found->second.push_back(policy->row.policy);
        }
    }
    std::string out;
    for (const auto& [words, names] : lines) out += fmt::format(". Range of {}: {}", listed(names), words);
    return out;
}

/// Names the policies that diverged, each with the reason if it is known.
std::string diverged_words(const Policies& policies) {
    std::vector<std::string> names;
    for (const PolicySummary* policy : policies) {
        const std::string why = failures_words(failures_in(policy->row.failures.value_or("")));
        names.push_back(policy->row.policy + (why.empty() ? "" : " (" + why + ")"));
    }
    return listed(names) + " diverged";
}

std::string which_is_safe(const Summary& summary) {
    std::vector<std::string> sentences;
    Policies alike, broken, stressed;
    for (const PolicySummary& policy : summary.policies) {
        if (!is_equivalent(policy.row.verdict)) continue;
        (policy.row.stress ? stressed : fails_stressed(summary, policy) ? broken : alike).push_back(&policy);
    }
    const Policies worse = with_verdict(summary, verdicts::worse), diverged = with_verdict(summary, verdicts::diverged),
                   undecided = with_verdict(summary, verdicts::undecided),
                   single = with_verdict(summary, verdicts::one_seed),
                   alone = with_verdict(summary, verdicts::no_baseline);
    if (!alike.empty()) {
        sentences.push_back(fmt::format("Safe in these runs: {} (no difference from fp32 that matters; {}{}){}",
                                        listed(names_of(alike)), what_was_run(*alike.front()), seen_words(alike),
                                        open_ranges(alike)));
    } else if (!broken.empty() || !worse.empty() || !diverged.empty()) {
        sentences.push_back(is_baseline_safe(summary) ? "Only fp32, the baseline, is safe in these runs"
                                                      : "None, as far as these runs show");
    }
    for (const PolicySummary* policy : broken) {
        const PolicySummary& twin = *stressed_twin(summary, *policy);
        sentences.push_back(
            fmt::format("{} shows no difference from fp32 without stress, but it is not safe: with {} it {}; {}",
                        policy->row.policy, *twin.row.stress,
                        twin.row.verdict == verdicts::diverged ? "diverged" : "is worse", range_words(twin.row)));
    }
    if (!stressed.empty()) sentences.push_back(fmt::format("{} passed the stress", listed(names_of(stressed))));
    if (!worse.empty()) sentences.push_back(worse_words(worse));
    if (!diverged.empty()) sentences.push_back(diverged_words(diverged));
    if (!undecided.empty()) {
        sentences.push_back(fmt::format("{} {} undecided: run more seeds", listed(names_of(undecided)),
                                        undecided.size() == 1 ? "is" : "are"));
    }
    if (!single.empty()) {
        sentences.push_back(
            fmt::format("{} {} run with one seed, which cannot distinguish a gap from chance: run three seeds or more",
                        listed(names_of(single)), single.size() == 1 ? "was" : "were"));
    }
    if (!alone.empty()) {
        sentences.push_back(
            fmt::format("{} cannot be compared: no fp32 run has the same seed", listed(names_of(alone))));
    }
    std::string out;
    for (const std::string& sentence : sentences) out += (out.empty() ? "" : ". ") + sentence;
    if (out.empty()) return {};
    for (const std::string& warning : warnings_of(summary)) out += ". " + capitalised(warning);
    return out + ".";
}

/// Policies whose bytes per parameter agree to two significant digits.
struct Cost {
    double kept = 0, activations = 0;
    std::vector<std::string> names;
};

std::vector<Cost> costs_of(const Summary& summary) {
    std::vector<Cost> costs;
    for (const PolicySummary& policy : summary.policies) {
        const SummaryRow& row = policy.row;
        if (!row.static_bytes || !row.activation_bytes || row.stress) continue;  // a stress does not change the memory
        const auto is_same = [&](const Cost& cost) {
            return two_digits(cost.kept) == two_digits(*row.static_bytes) &&
                   two_digits(cost.activations) == two_digits(*row.activation_bytes);
        };
        auto cost = std::find_if(costs.begin(), costs.end(), is_same);
        if (cost == costs.end()) {
            cost = costs.insert(costs.end(),
                                {.kept = *row.static_bytes, .activations = *row.activation_bytes, .names = {}});
        }
        cost->names.push_back(row.policy);
    }
    std::stable_sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) {
        return std::pair(a.kept, a.activations) < std::pair(b.kept, b.activations);
    });
    return costs;
}

std::string what_it_costs(const Summary& summary) {
    constexpr std::size_t max_costs = 5;
    const std::vector<Cost> costs = costs_of(summary);
    if (costs.empty()) return {};
    std::string out = "Bytes per parameter (kept from step to step + activations): ";
    for (std::size_t i = 0; i < std::min(max_costs, costs.size()); ++i) {
        out += fmt::format("{}{} + {} with {}", i == 0 ? "" : "; ", two_digits(costs[i].kept),
                           two_digits(costs[i].activations), listed(costs[i].names, 4));
    }
    if (costs.size() > max_costs)
        out += fmt::format("; {} other groups of policies need more", costs.size() - max_costs);
    const PolicySummary *best = nullptr, *baseline = nullptr;
    for (const PolicySummary& policy : summary.policies) {
        const SummaryRow& row = policy.row;
        if (!row.memory_ratio) continue;
        if (row.verdict == verdicts::baseline) baseline = &policy;
        if (!is_equivalent(row.verdict) || row.stress || fails_stressed(summary, policy)) continue;
        if (best == nullptr || *row.memory_ratio < *best->row.memory_ratio) best = &policy;
    }
    if (best != nullptr && baseline != nullptr && *best->row.memory_ratio < 1) {
        out += fmt::format(". The smallest policy without a difference from fp32: {}, with {:.0f} % of fp32's bytes",
                           best->row.policy, 100 * *best->row.memory_ratio);
    }
    return out + ".";
}

std::string where_it_hurts(const Summary& summary, const Verdicts& verdicts) {
    if (verdicts.policies.empty()) return {};
    const auto severity = [&](const Diagnosed& finding) {
        for (const PolicySummary& policy : summary.policies) {
            if (policy.row.policy != finding.policy) continue;
            if (policy.row.verdict == verdicts::diverged) return HUGE_VAL;
            return std::isnan(policy.relative_gap.value_or(0)) ? HUGE_VAL : policy.relative_gap.value_or(0);
        }
        return 0.0;
    };
    const auto is_alike = [&](const Diagnosed& finding) {
        return std::any_of(summary.policies.begin(), summary.policies.end(), [&](const PolicySummary& policy) {
            return policy.row.policy == finding.policy && is_equivalent(policy.row.verdict);
        });
    };
    // Take the first finding of each policy, because diagnoses are sorted from cause to effect. Ignore policies
    // whose gap lies within the margin, because their findings did no harm.
    std::vector<const Diagnosed*> first;
    std::set<std::string_view> policies;
    for (const Diagnosed& finding : verdicts.findings) {
        if (!is_alike(finding) && policies.insert(finding.policy).second) first.push_back(&finding);
    }
    std::stable_sort(first.begin(), first.end(),
                     [&](const Diagnosed* a, const Diagnosed* b) { return severity(*a) > severity(*b); });
    if (first.empty()) {
        return fmt::format("Nowhere that affects the loss{}.",
                           verdicts.findings.empty()
                               ? ""
                               : fmt::format(", although there {} below",
                                             verdicts.findings.size() == 1 ? "is a finding" : "are findings"));
    }
    std::string out;
    for (std::size_t i = 0; i < std::min(max_sites, first.size()); ++i) {
        const Diagnosed& finding = *first[i];
        std::string where = finding.seen.site;
        if (finding.seen.step) where += fmt::format("{}step {}", where.empty() ? "" : ", ", *finding.seen.step);
        out += fmt::format("{}{}: {}{}.", i == 0 ? "" : " ", finding.policy, finding.sentence(),
                           where.empty() ? "" : " (" + where + ")");
    }
    const std::size_t reported = std::min(max_sites, first.size());
    if (verdicts.findings.size() > reported) {
        out += fmt::format(" {} below.", counted(verdicts.findings.size() - reported, "more finding"));
    }
    return out;
}

std::string text_at(const Json* object, std::string_view key) {
    const Json* value = object != nullptr ? object->find(key) : nullptr;
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    if (value->is_number_integer() || value->is_number_float()) return fmt::format("{:g}", value->get<double>());
    return {};
}

/// Describes the model and the data of a manifest: "gpt2, 2 layers x 64; synthetic language, 64 tokens, ...". Returns
/// an empty string if the manifest lacks the layers or the width.
std::string model_words(const std::string& manifest) {
    const Json all = Json::parse_or_null(manifest);
    if (!all.is_object()) return {};
    const Json *model = all.find("model"), *data = all.find("data");
    const auto object = [](const Json* part) { return part != nullptr && part->is_object() ? part : nullptr; };
    model = object(model), data = object(data);
    const std::string kind = text_at(model, "kind"), layers = text_at(model, "layers"), width = text_at(model, "width"),
                      what = text_at(data, "what");
    if (layers.empty() || width.empty()) return {};
    return fmt::format("{}{} layers x {}{}", kind.empty() ? "" : kind + ", ", layers, width,
                       what.empty() ? "" : "; " + what);
}

}  // namespace

std::string listed(const std::vector<std::string>& names, std::size_t most) {
    const std::size_t shown = names.size() <= most ? names.size() : most - 1;
    std::string out;
    for (std::size_t i = 0; i < shown; ++i) {
        const bool is_last = i + 1 == names.size() && i > 0;
        out += (i == 0 ? "" : is_last ? " and " : ", ") + names[i];
    }
    return shown < names.size() ? fmt::format("{} and {} more", out, names.size() - shown) : out;
}

Conclusion conclude(const Log& log, const Summary& summary, const Verdicts& verdicts) {
    Conclusion conclusion;
    if (summary.policies.empty()) return conclusion;
    std::vector<std::string> compared;
    std::set<std::string> stresses;
    bool has_baseline = false;
    for (const PolicySummary& policy : summary.policies) {
        if (policy.row.stress) stresses.insert(*policy.row.stress);
        if (policy.row.stress && stress_is_of_another(summary, policy)) continue;
        if (policy.row.policy == baseline_policy) {
            has_baseline = true;
        } else {
            compared.push_back(policy.row.policy);
        }
    }
    if (compared.empty()) {
        conclusion.title = "fp32 only, with nothing to compare";
    } else {
        conclusion.title = listed(compared, max_titled) + (has_baseline ? " against fp32" : ", without an fp32 run");
    }
    std::set<std::string> models;
    for (const RunFolder& folder : log.folders) models.insert(model_words(folder.manifest));
    std::set<std::int64_t> seeds;
    for (const RunLog& run : log.runs) seeds.insert(run.row.seed);
    std::string model;
    if (models.size() > 1) model = fmt::format("; {} different models", models.size());
    if (models.size() == 1 && !models.begin()->empty()) model = "; " + *models.begin();
    conclusion.lead = fmt::format(
        "{} of {}, {}{}: each policy is compared with the fp32 run of the same seed, which has the same initial "
        "weights and batches.",
        counted(log.runs.size(), "run"),
        summary.policies.size() == 1 ? "one policy" : fmt::format("{} policies", summary.policies.size()),
        counted(seeds.size(), "seed"), model);
    if (!stresses.empty()) {
        conclusion.lead += fmt::format(
            " Policies with a + in their name were stressed with {}: a few values are as large as in pretrained "
            "models. fp32 computes the same bits with and without the stress.",
            fmt::join(stresses, ", "));
    }
    const std::pair<std::string_view, std::string> answers[] = {
        {"Which recipe is safe?", which_is_safe(summary)},
        {"What does it cost?", what_it_costs(summary)},
        {"Where does it hurt?", compared.empty() ? "" : where_it_hurts(summary, verdicts)}};
    for (const auto& [question, sentence] : answers) {
        if (!sentence.empty()) conclusion.answers.push_back({question, sentence});
    }
    return conclusion;
}

std::string conclusion_html(const Conclusion& conclusion) {
    if (conclusion.answers.empty()) return {};
    std::string out = "<section id=\"conclusion\" class=\"training\" aria-label=\"Conclusion\">\n<dl>\n";
    for (const Answer& answer : conclusion.answers) {
        out += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(answer.question),
                           escape_html(answer.sentence));
    }
    return out + "</dl>\n</section>\n";
}

}  // namespace macheps::reports
