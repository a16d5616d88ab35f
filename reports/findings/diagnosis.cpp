// SPDX-License-Identifier: Apache-2.0
#include "reports/findings/diagnosis.hpp"

#include "core/host/float_environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace macheps::reports {

namespace {

/// The manifests of all folders, each parsed once.
class Manifests {
  public:
    explicit Manifests(const Log& log) {
        for (const RunFolder& folder : log.folders) parsed_.push_back(Json::parse_or_null(folder.manifest));
        samples_.resize(log.folders.size());
        for (const RunLog& run : log.runs) {
            if (run.site_figures ? run.site_figures->count > 0 : !run.sites.empty()) samples_[run.folder] = true;
        }
    }
    const Json* part(std::size_t folder, std::string_view name) const {
        const Json* found = parsed_[folder].find(name);
        return found != nullptr && found->is_object() ? found : nullptr;
    }
    /// Returns whether the runs in this folder sample their sites. That is the case if a run has rows of sites, or if
    /// `probe_every` in the manifest is positive.
    bool samples(std::size_t folder) const {
        const Json* train = part(folder, "train");
        const Json* every = train != nullptr ? train->find("probe_every") : nullptr;
        return samples_[folder] || (every != nullptr && every->is_number_integer() && every->get<double>() > 0);
    }

  private:
    std::vector<Json> parsed_;
    std::vector<bool> samples_;
};

RunView view_of(const Log& log, const RunLog& run, const Manifests& manifests) {
    const bool is_baseline = run.baseline && &log.runs[*run.baseline] == &run;
    const Json* policies = manifests.part(run.folder, "policies");
    const Json* policy = policies != nullptr ? policies->find(run.row.policy) : nullptr;
    return {.run = run,
            .baseline = run.baseline && !is_baseline ? &log.runs[*run.baseline] : nullptr,
            .train = manifests.part(run.folder, "train"),
            .policy = policy != nullptr && policy->is_object() ? policy : nullptr,
            .micro_batches = manifests.part(run.folder, "micro_batches"),
            .sites = run.site_figures ? *run.site_figures : site_figures(run.sites),
            .samples_sites = manifests.samples(run.folder)};
}

/// Returns the reason why a diagnosis cannot be checked in a run, or an empty string if it can.
std::string missing(const RunView& view, Reads reads) {
    if (view.run.steps.empty()) return "no rows in steps.csv";
    const bool is_fp32 = view.run.row.policy == baseline_policy;
    const bool has_rounded = std::any_of(view.run.steps.begin(), view.run.steps.end(),
                                         [](const StepRow& step) { return step.loss_rounded.has_value(); });
    const bool has_moments = std::any_of(view.run.steps.begin(), view.run.steps.end(), [](const StepRow& step) {
        return step.skipped || step.moment_stagnation.has_value();
    });
    const auto has_bytes = [](const RunLog& run) { return run.row.bytes_params > 0; };
    switch (reads) {
        case Reads::steps:
            return "";
        case Reads::baseline:
            return is_fp32 || view.baseline != nullptr ? "" : "no fp32 run of the same seed";
        case Reads::memory:
            if (is_fp32) return "";
            if (view.baseline == nullptr) return "no fp32 run of the same seed";
            return has_bytes(view.run) && has_bytes(*view.baseline) ? "" : "runs.csv has no row for this run yet";
        case Reads::moments:
            return has_moments ? "" : "rows of an older version have no moment_stagnation";
        case Reads::loss_rounded:
            return has_rounded ? "" : "rows of schema 1 have no loss_rounded";
        case Reads::sites:
            return view.samples_sites ? "" : "no rows in sites.csv: no step was sampled (--probe-every)";
        case Reads::manifest:
            return view.train != nullptr && view.policy != nullptr ? ""
                                                                   : "no manifest.json with the settings and policy";
    }
    return "";
}

/// Looks for every diagnosis in the runs of one policy.
void diagnose_policy(const std::vector<RunView>& views, const std::string& policy, Verdicts& verdicts) {
    for (const Diagnosis& diagnosis : diagnoses()) {
        Diagnosed finding{.diagnosis = &diagnosis, .policy = policy, .of_seeds = std::int64_t(views.size())};
        std::string why;
        for (const RunView& view : views) {
            if (std::string reason = missing(view, diagnosis.reads); !reason.empty()) {
                if (why.empty()) why = std::move(reason);
                continue;
            }
            std::optional<Sighting> seen = diagnosis.find(view);
            if (!seen) continue;
            const bool is_earlier = finding.seeds == 0 || seen->step.value_or(0) < finding.seen.step.value_or(0);
            ++finding.seeds;
            if (is_earlier) finding.seen = *std::move(seen), finding.seed = view.run.row.seed;
        }
        if (finding.seeds > 0) verdicts.findings.push_back(std::move(finding));
        if (!why.empty()) verdicts.unseen.push_back({.diagnosis = &diagnosis, .policy = policy, .why = std::move(why)});
    }
}

}  // namespace

const Diagnosis& find_diagnosis(std::string_view id) {
    const auto all = diagnoses();
    return *std::find_if(all.begin(), all.end(), [id](const Diagnosis& one) { return one.id == id; });
}

std::string figure_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    int exponent = 0;
    const bool is_power = value > 0 && std::frexp(value, &exponent) == 0.5;
    if (is_power && (exponent > 17 || exponent < -3)) return fmt::format("2^{}", exponent - 1);
    if (value == std::trunc(value) && std::abs(value) < 1e6) return fmt::format("{:.0f}", value);
    return std::abs(value) >= 1000 && std::abs(value) < 1e6 ? fmt::format("{:.0f}", value)
                                                            : fmt::format("{:.3g}", value);
}

std::string capitalised(std::string text) {
    if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
    return text;
}

namespace {

/// Returns the text of `{name}` or `{name?one|many}` in a sentence, given without the braces.
std::string filled_in(std::string_view slot, std::span<const Figure> figures) {
    const std::size_t choice = slot.find('?');
    const std::string_view name = slot.substr(0, choice);
    const auto figure =
        std::find_if(figures.begin(), figures.end(), [name](const Figure& one) { return one.name == name; });
    const std::string number = figure != figures.end() ? figure_text(figure->value) : "?";
    if (choice == std::string_view::npos) return number;
    const std::size_t bar = slot.find('|', choice);
    return std::string(number == "1" ? slot.substr(choice + 1, bar - choice - 1) : slot.substr(bar + 1));
}

}  // namespace

std::string Diagnosed::sentence() const {
    std::string out;
    std::string_view text = diagnosis->sentence;
    while (true) {
        const std::size_t open = text.find('{');
        out += text.substr(0, open);
        if (open == std::string_view::npos) return out;
        const std::size_t close = text.find('}', open);
        out += filled_in(text.substr(open + 1, close - open - 1), seen.figures);
        text.remove_prefix(close + 1);
    }
}

Verdicts diagnose(const Log& log) {
    const DefaultFloatModes modes;
    Verdicts verdicts{.policies = log.policies(), .findings = {}, .unseen = {}};
    const Manifests manifests(log);
    for (const std::string& policy : verdicts.policies) {
        std::vector<RunView> views;
        for (const RunLog& run : log.runs) {
            if (run.policy == policy) views.push_back(view_of(log, run, manifests));
        }
        diagnose_policy(views, policy, verdicts);
    }
    return verdicts;
}

}  // namespace macheps::reports
