// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/diagnose/suspects.hpp"
#include "core/text/quote.hpp"
#include "experiments/configs/symptoms/causes.hpp"
#include "experiments/configs/symptoms/symptoms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace macheps::cmd::causes {

using configs::CauseVerdict;
using configs::Finding;
using configs::SymptomCause;
using configs::SymptomRow;
using reports::Certainty;

namespace {

constexpr std::size_t max_checks = 3;

bool has_word(std::string_view list, std::string_view word) {
    const std::vector<std::string> words = macheps::words_of(list);
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Adds a check unless the list is full or has it.
void add_check(std::vector<std::string>& checks, std::string_view check) {
    const bool is_known = std::find(checks.begin(), checks.end(), check) != checks.end();
    if (!check.empty() && checks.size() < max_checks && !is_known) checks.emplace_back(check);
}

const configs::Remedy* remedy_for(const Finding& finding, const configs::Remedies& all) {
    const auto found = std::find_if(all.remedies.begin(), all.remedies.end(), [&](const configs::Remedy& one) {
        return one.finding.rule == finding.rule && one.finding.key == finding.key;
    });
    return found == all.remedies.end() ? nullptr : &*found;
}

/// Takes the advice of a finding: tested settings, else its words.
void take_advice(const Finding& finding, const configs::Remedies& all, Suspect& suspect) {
    if (const configs::Remedy* remedy = remedy_for(finding, all))
        suspect.settings = remedy->settings;
    else
        suspect.instead = finding.instead;
}

std::string place_of(const Finding& finding) {
    const std::string place = to_string(finding.place);
    return fmt::format("{}{}[{}]", place, place.empty() ? "" : " ", finding.rule);
}

/// Returns the entry about an observed diagnosis. An entry in the words of users comes before one about a printed
/// message. Of several entries, it is the first in which a cause applies to the config, else the first.
const SymptomRow* entry_of(std::string_view diagnosis, const configs::CauseJudge* config) {
    std::vector<const SymptomRow*> entries = configs::symptom_rows();
    std::erase_if(entries, [&](const SymptomRow* row) {
        return std::none_of(row->causes().begin(), row->causes().end(),
                            [&](const SymptomCause& cause) { return has_word(cause.diagnoses, diagnosis); });
    });
    std::stable_partition(entries.begin(), entries.end(), [](const SymptomRow* row) { return row->source.empty(); });
    if (entries.empty()) return nullptr;
    if (config == nullptr) return entries.front();
    const auto applies = [&](const SymptomCause& cause) {
        return config->judge(cause).verdict == CauseVerdict::applies;
    };
    const auto found = std::find_if(entries.begin(), entries.end(), [&](const SymptomRow* row) {
        return std::any_of(row->causes().begin(), row->causes().end(), applies);
    });
    return found == entries.end() ? entries.front() : *found;
}

/// Returns the first entry with a cause that a finding reports, or null.
const SymptomRow* entry_of(const Finding& finding) {
    for (const SymptomRow* row : configs::symptom_rows()) {
        for (const SymptomCause& cause : row->causes()) {
            const std::vector<std::string> rules = macheps::words_of(cause.rules);
            const bool has_rule = std::any_of(rules.begin(), rules.end(), [&](const std::string& rule) {
                return configs::is_rule(finding.rule, rule);
            });
            if (has_rule || (!finding.fault.empty() && has_word(cause.faults, finding.fault))) return row;
        }
    }
    return nullptr;
}

/// Returns the checks of an entry, after those that are given.
std::vector<std::string> checks_with(std::vector<std::string> checks, const SymptomRow* entry) {
    if (entry != nullptr) {
        for (const std::string_view remedy : entry->remedies()) add_check(checks, remedy);
    }
    add_check(checks, "train the same steps in fp32: if they go wrong too, precision is not the cause");
    add_check(checks, "train with the learning rate divided by ten: rounding errors stay, a divergence does not");
    add_check(checks, "import the config with --requirements: faults of releases need the versions that you run");
    return checks;
}

/// Returns the finding of the config that reports a cause, or null.
const Finding* finding_of(const SymptomCause& cause, const configs::ImportResult& config) {
    const std::vector<std::string> rules = macheps::words_of(cause.rules);
    const auto found = std::find_if(config.findings.begin(), config.findings.end(), [&](const Finding& finding) {
        return (!finding.fault.empty() && has_word(cause.faults, finding.fault)) ||
               std::any_of(rules.begin(), rules.end(),
                           [&](const std::string& rule) { return configs::is_rule(finding.rule, rule); });
    });
    return found == config.findings.end() ? nullptr : &*found;
}

/// Returns the causes of an observation.
std::vector<Suspect> suspects_of(const Observation& seen, const Evidence& evidence, const configs::CauseJudge* config) {
    const SymptomRow* entry = entry_of(seen.diagnosis, config);
    const std::vector<std::string> checks = checks_with({seen.remedy}, entry);
    std::vector<Suspect> present, of_diagnosis, others;
    for (const SymptomCause& cause : entry == nullptr ? std::span<const SymptomCause>{} : entry->causes()) {
        const configs::JudgedCause judged =
            config == nullptr ? configs::JudgedCause{.cause = &cause} : config->judge(cause);
        if (judged.verdict == CauseVerdict::excluded) continue;
        Suspect suspect{.text = std::string(cause.text), .checks = checks};
        const Finding* finding =
            judged.verdict == CauseVerdict::applies ? finding_of(cause, *evidence.config) : nullptr;
        if (finding == nullptr) {
            (has_word(cause.diagnoses, seen.diagnosis) ? of_diagnosis : others).push_back(std::move(suspect));
            continue;
        }
        suspect.certainty = Certainty::likely;
        suspect.text = fmt::format("{}: {}", cause.text, finding->message);
        suspect.evidence = place_of(*finding);
        take_advice(*finding, evidence.remedies, suspect);
        present.push_back(std::move(suspect));
    }
    for (std::vector<Suspect>* rest : {&of_diagnosis, &others})
        std::move(rest->begin(), rest->end(), std::back_inserter(present));
    if (present.empty()) {
        present.push_back(
            {.text = "unknown: no entry explains this finding, or the config excludes its causes", .checks = checks});
    }
    return present;
}

/// Returns the causes that a config shows without any log.
std::vector<Suspect> suspects_of_config(const Evidence& evidence) {
    std::vector<Suspect> suspects;
    for (const Finding& finding : evidence.config->findings) {
        if (!configs::is_grave(finding)) continue;
        Suspect suspect{.text = finding.message,
                        .evidence = place_of(finding),
                        .checks = checks_with({"pass the log of the training, too: it shows whether this happens"},
                                              entry_of(finding))};
        // A release has its fault, and a framework refuses the config, in every training.
        if (severity(finding) == configs::FindingSeverity::error) suspect.certainty = Certainty::certain;
        take_advice(finding, evidence.remedies, suspect);
        suspects.push_back(std::move(suspect));
    }
    return suspects;
}

}  // namespace

std::vector<Suspect> find_suspects(const Evidence& evidence, const configs::ImportOptions& options) {
    if (evidence.observations.empty()) return evidence.config ? suspects_of_config(evidence) : std::vector<Suspect>{};
    std::optional<configs::CauseJudge> config;
    if (evidence.config) config.emplace(evidence.configs, options);
    return suspects_of(evidence.observations.front(), evidence, config ? &*config : nullptr);
}

}  // namespace macheps::cmd::causes
