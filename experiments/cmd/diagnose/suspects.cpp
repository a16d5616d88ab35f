// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/diagnose/suspects.hpp"
#include "core/text/quote.hpp"
#include "experiments/configs/symptoms/causes.hpp"
#include "experiments/configs/symptoms/symptoms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <tuple>
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

/// Collects the checks of one cause, the best first.
class Checks {
  public:
    explicit Checks(const Evidence& evidence) : evidence_(evidence) {}

    /// Adds a check unless the list is full or has it.
    void add(configs::Check check) {
        const bool is_known = std::any_of(checks_.begin(), checks_.end(),
                                          [&](const configs::Check& one) { return one.text == check.text; });
        if (!check.text.empty() && checks_.size() < max_checks && !is_known) checks_.push_back(std::move(check));
    }
    void add(std::string_view words) { add(configs::Check{.text = std::string(words)}); }
    /// Adds the lines of a check for the program that trained. Returns false if there are none.
    bool add_lines(std::string_view id) {
        if (evidence_.stack == nullptr) return false;
        std::optional<configs::Check> check = configs::find_check(id, *evidence_.stack, evidence_.lower_rate);
        if (check) add(*std::move(check));
        return check.has_value();
    }
    std::vector<configs::Check> take() && { return std::move(checks_); }

  private:
    const Evidence& evidence_;
    std::vector<configs::Check> checks_{};
};

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

std::string place_of(const Finding& finding, const Evidence& evidence) {
    const bool is_of_card = !evidence.card.empty() && finding.place.file.starts_with("argument");
    const std::string place = is_of_card ? "settings of " + evidence.card : to_string(finding.place);
    return fmt::format("{}{}[{}]", place, place.empty() ? "" : " ", finding.rule);
}

/// Returns the rank of an entry for a diagnosis, the best first: 0 if its most frequent cause reports the diagnosis, 1 if
/// one of the next two causes does, 2 if a later one does. Returns nothing if no cause reports it.
std::optional<int> rank_of(const SymptomRow& row, std::string_view diagnosis) {
    const auto causes = row.causes();
    const auto found = std::find_if(causes.begin(), causes.end(),
                                    [&](const SymptomCause& cause) { return has_word(cause.diagnoses, diagnosis); });
    if (found == causes.end()) return {};
    const auto index = found - causes.begin();
    return index == 0 ? 0 : index <= 2 ? 1 : 2;
}

/// Returns the entries with a cause that an observed diagnosis reports. Entries in the words of users come before entries
/// about printed messages. Among them, the best rank is first, and then the entry with most causes.
std::vector<const SymptomRow*> entries_of(std::string_view diagnosis) {
    std::vector<const SymptomRow*> entries = configs::symptom_rows();
    std::erase_if(entries, [&](const SymptomRow* row) { return !rank_of(*row, diagnosis); });
    const auto key = [&](const SymptomRow* row) {
        return std::tuple(!row->source.empty(), *rank_of(*row, diagnosis), -std::ssize(row->causes()));
    };
    std::stable_sort(entries.begin(), entries.end(),
                     [&](const SymptomRow* a, const SymptomRow* b) { return key(a) < key(b); });
    return entries;
}

/// An entry, and one of its causes.
struct Entry {
    const SymptomRow* row = nullptr;
    const SymptomCause* cause = nullptr;
};

/// Returns the first entry with a cause that a finding reports, or nothing.
Entry entry_of(const Finding& finding) {
    for (const SymptomRow* row : configs::symptom_rows()) {
        for (const SymptomCause& cause : row->causes()) {
            const std::vector<std::string> rules = macheps::words_of(cause.rules);
            const bool has_rule = std::any_of(rules.begin(), rules.end(), [&](const std::string& rule) {
                return configs::is_rule(finding.rule, rule);
            });
            if (has_rule || (!finding.fault.empty() && has_word(cause.faults, finding.fault))) return {row, &cause};
        }
    }
    return {};
}

/// A check that always applies: the id of its lines, and its words for programs without lines.
struct UsualCheck {
    std::string_view id, words;
};
constexpr UsualCheck usual_checks[] = {
    {"run-fp32", "train the same steps in fp32: if they go wrong too, precision is not the cause"},
    {"lower-rate", "train with the learning rate divided by ten: rounding errors stay, a divergence does not"},
    {"", "import the config with --requirements: faults of releases need the versions that you run"}};

/// Returns checks: the given words, the lines of the cause, the remedies of the entry, the remedy of a diagnosis, and
/// checks that always apply.
std::vector<configs::Check> checks_with(const Evidence& evidence, std::string_view words, const Entry& entry,
                                        std::string_view remedy) {
    Checks checks(evidence);
    checks.add(words);
    if (entry.cause != nullptr) {
        for (const std::string& id : macheps::words_of(entry.cause->checks)) checks.add_lines(id);
    }
    if (entry.row != nullptr) {
        for (const std::string_view each : entry.row->remedies()) checks.add(each);
    }
    checks.add(remedy);
    for (const UsualCheck& usual : usual_checks) {
        if (!checks.add_lines(usual.id)) checks.add(usual.words);
    }
    return std::move(checks).take();
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

/// Returns the observation of a run directory that reports a cause of another observation, or null. The diagnoses of
/// logs name symptoms, and no causes.
const Observation* observation_of(const SymptomCause& cause, const Observation& seen, const Evidence& evidence) {
    const auto found =
        std::find_if(evidence.observations.begin(), evidence.observations.end(), [&](const Observation& one) {
            return one.is_of_run && one.diagnosis != seen.diagnosis && has_word(cause.diagnoses, one.diagnosis);
        });
    return found == evidence.observations.end() ? nullptr : &*found;
}

bool needs_fp16(const SymptomCause& cause) {
    return cause.text.starts_with("fp16") || cause.text.ends_with(" in fp16");
}
/// Returns whether a cause needs fp16, which the config does not use.
bool needs_other_format(const SymptomCause& cause, const Evidence& evidence) {
    return needs_fp16(cause) && evidence.config && evidence.config->resolved.word("compute") != "H";
}
/// Returns whether a finding is about what a log shows. It explains a shown value, and not why a training goes wrong.
bool is_about_log(const Finding& finding) { return configs::is_rule(finding.rule, "*/nan-filter"); }

/// Collects the causes of observations.
class Suspicion {
  public:
    Suspicion(const Evidence& evidence, const configs::CauseJudge* config) : evidence_(evidence), config_(config) {}

    /// Adds the causes of an entry that the config or a run directory shows and, if `with_usual`, its usual causes.
    void add(const Observation& seen, const SymptomRow& entry, bool with_usual) {
        for (const SymptomCause& cause : entry.causes()) {
            const configs::JudgedCause judged =
                config_ == nullptr ? configs::JudgedCause{.cause = &cause} : config_->judge(cause);
            if (judged.verdict == CauseVerdict::excluded || needs_other_format(cause, evidence_)) continue;
            Suspect suspect{.text = std::string(cause.text),
                            .checks = checks_with(evidence_, {}, {&entry, &cause}, seen.remedy),
                            .needs_fp16 = needs_fp16(cause)};
            const Finding* finding =
                judged.verdict == CauseVerdict::applies ? finding_of(cause, *evidence_.config) : nullptr;
            const Observation* other = observation_of(cause, seen, evidence_);
            if (finding != nullptr) {
                if (!reported_.insert(finding).second) continue;
                suspect.text = fmt::format("{}: {}", cause.text, finding->message);
                suspect.evidence = place_of(*finding, evidence_);
                suspect.rule = finding->rule;
                take_advice(*finding, evidence_.remedies, suspect);
            } else if (other != nullptr) {
                suspect.evidence = fmt::format("{} [{}]", other->place, other->diagnosis);
                suspect.instead = other->remedy;
            }
            const bool is_shown = finding != nullptr || other != nullptr;
            if (is_shown) suspect.certainty = Certainty::likely;
            if ((!is_shown && !with_usual) || !texts_.insert(suspect.text).second) continue;
            const bool is_log = finding != nullptr && is_about_log(*finding);
            (is_log ? about_log_ : is_shown ? shown_ : usual_).push_back(std::move(suspect));
        }
    }

    /// Returns all causes, followed by grave findings of the config that no cause of an observation names.
    std::vector<Suspect> suspects() && {
        std::move(usual_.begin(), usual_.end(), std::back_inserter(shown_));
        std::move(about_log_.begin(), about_log_.end(), std::back_inserter(shown_));
        if (!evidence_.config) return std::move(shown_);
        for (const Finding& finding : evidence_.config->findings) {
            if (!configs::is_grave(finding) || reported_.contains(&finding)) continue;
            Suspect suspect{.text = finding.message,
                            .evidence = place_of(finding, evidence_),
                            .checks = checks_with(evidence_, {}, entry_of(finding), {}),
                            .rule = finding.rule};
            take_advice(finding, evidence_.remedies, suspect);
            shown_.push_back(std::move(suspect));
        }
        return std::move(shown_);
    }

  private:
    const Evidence& evidence_;
    const configs::CauseJudge* config_;
    std::vector<Suspect> shown_{}, usual_{}, about_log_{};
    std::set<const Finding*> reported_{};
    std::set<std::string> texts_{};
};

/// Returns the causes of the observations. All entries of every observation are searched for causes that the files show.
/// The usual causes are those of the first entry of the gravest observation, the most frequent first.
std::vector<Suspect> suspects_of(const Evidence& evidence, const configs::CauseJudge* config) {
    Suspicion suspicion(evidence, config);
    bool with_usual = true;
    for (const Observation& seen : evidence.observations) {
        for (const SymptomRow* entry : entries_of(seen.diagnosis)) {
            suspicion.add(seen, *entry, with_usual);
            with_usual = false;
        }
    }
    std::vector<Suspect> suspects = std::move(suspicion).suspects();
    if (suspects.empty()) {
        suspects.push_back({.text = "unknown: no entry explains these findings, or the config excludes their causes",
                            .checks = checks_with(evidence, {}, {}, evidence.observations.front().remedy)});
    }
    return suspects;
}

/// Returns the causes that a config shows without any log.
std::vector<Suspect> suspects_of_config(const Evidence& evidence) {
    std::vector<Suspect> suspects;
    for (const Finding& finding : evidence.config->findings) {
        if (!configs::is_grave(finding)) continue;
        Suspect suspect{
            .text = finding.message,
            .evidence = place_of(finding, evidence),
            .checks = checks_with(evidence, "pass the log of the training, too: it shows whether this happens",
                                  entry_of(finding), {}),
            .rule = finding.rule};
        // A release has its fault, and a framework refuses the config, in every training.
        if (severity(finding) == configs::FindingSeverity::error) suspect.certainty = Certainty::certain;
        take_advice(finding, evidence.remedies, suspect);
        suspects.push_back(std::move(suspect));
    }
    return suspects;
}

}  // namespace

std::vector<Suspect> find_suspects(const Evidence& evidence) {
    if (evidence.observations.empty()) return evidence.config ? suspects_of_config(evidence) : std::vector<Suspect>{};
    std::optional<configs::CauseJudge> config;
    if (evidence.config) config.emplace(evidence.configs, evidence.import);
    return suspects_of(evidence, config ? &*config : nullptr);
}

}  // namespace macheps::cmd::causes
