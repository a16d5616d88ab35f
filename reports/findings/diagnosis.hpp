// SPDX-License-Identifier: Apache-2.0
// Diagnoses: known training problems that can be recognised in the CSV files of a run. A diagnosis reports the place of
// the problem, figures and a remedy. It is a row of the table diagnoses(), with at most one search function. The
// text, JSON and HTML reports are generated from this table.
#pragma once
#include "core/text/json.hpp"
#include "reports/logs/run_log.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

/// Limits in the conditions of the diagnoses. The HTML page and docs/diagnosis.md state the conditions in words.
struct DiagnosisRules {
    static constexpr std::int64_t cascade_steps = 4;     ///< minimum number of consecutive steps skipped in a cascade
    static constexpr std::int64_t floor_steps = 4;       ///< minimum number of overflows in a row at the lowest scale
    static constexpr double schedule_share = 0.01;       ///< share of the sum of all lr that falls on skipped steps
    static constexpr double stagnant_efficiency = 0.98;  ///< weights stagnate if the mean of update_eff is smaller
    static constexpr double frozen_share = 0.2;          ///< share of second moments that did not change
    static constexpr double notable_spike = 0.5;         ///< loss minus its moving average before the step, in nats
    static constexpr double lasting_rise = 0.25;         ///< final average minus minimum before the spike, in nats
    static constexpr double clip_scale = 256;            ///< minimum loss scale whose effect exceeds the noise
    static constexpr double clip_tolerance = 3;          ///< maximum of ||log2(norm ratio)| - log2(loss scale)|
    static constexpr std::size_t min_steps = 8;          ///< steps needed for a median or to count distinct losses
    static constexpr std::size_t min_growths = 2;        ///< steps needed just before the loss scale grows
};

/// The data that a diagnosis needs.
enum class Reads : std::uint8_t {
    steps,         ///< rows of steps.csv
    baseline,      ///< rows of steps.csv of this run and of the fp32 run with the same seed
    memory,        ///< bytes in runs.csv of this run and of the fp32 run with the same seed
    moments,       ///< rows of steps.csv with the column `moment_stagnation`, which older files lack
    loss_rounded,  ///< rows of steps.csv with the column `loss_rounded`, which was added in schema 2
    sites,         ///< rows of sites.csv
    manifest,      ///< the settings and the resolved policy
};

/// A number that replaces `{name}` in the sentence of a diagnosis.
struct Figure {
    std::string_view name;
    double value = 0;
};

/// Place and figures of a diagnosis that applies to a run.
struct Sighting {
    std::optional<std::int64_t> step{};
    std::string site{};
    std::vector<Figure> figures{};
    std::string_view remedy{};  ///< replaces the remedy of the diagnosis if it is not empty
};

/// The data of one run, as input of the functions that look for a diagnosis.
struct RunView {
    const RunLog& run;
    const RunLog* baseline = nullptr;     ///< fp32 run of the same seed; null if this run is fp32 or there is none
    const Json* train = nullptr;          ///< the manifest's settings; null if unknown
    const Json* policy = nullptr;         ///< the manifest's policy; null if unknown
    const Json* micro_batches = nullptr;  ///< {policy: number} for policies that override `train`; null if none does
    SiteFigures sites{};
    bool samples_sites = false;  ///< whether the runs of this folder sample their sites
};

struct Diagnosis {
    std::string_view id;
    Reads reads;
    std::string_view condition;  ///< when the diagnosis applies: in words, with all limits
    /// With `{name}` for each figure, and `{name?step|steps}` for the singular and the plural of a word. Does not mention
    /// the step or the site.
    std::string_view sentence;
    std::string_view remedy;
    std::optional<Sighting> (*find)(const RunView&);
};

/// Returns every diagnosis, in the order in which they are reported.
std::span<const Diagnosis> diagnoses();
/// Returns the diagnosis with this id, which must exist.
const Diagnosis& find_diagnosis(std::string_view id);

/// Formats a number for a sentence. Powers of two of at least 2^17 or at most 2^-5 are written as powers. Apart from
/// these, whole numbers below 1e6 are written in full, and fractional numbers from 1000 to 1e6 are rounded to whole
/// numbers. All remaining numbers have three significant digits.
std::string figure_text(double value);
/// Returns a sentence with a capital letter at its beginning.
std::string capitalised(std::string text);

/// A diagnosis that applies to runs of one policy. `seed` and `seen` describe the run in which the problem occurs at
/// the earliest step.
struct Diagnosed {
    const Diagnosis* diagnosis = nullptr;
    std::string policy{};
    std::int64_t seed = 0, seeds = 0, of_seeds = 0;  ///< the problem occurs in `seeds` of `of_seeds` runs
    Sighting seen{};

    /// Returns the sentence of the diagnosis with its figures filled in.
    std::string sentence() const;
    std::string_view remedy() const { return seen.remedy.empty() ? diagnosis->remedy : seen.remedy; }
};

/// A diagnosis that could not be checked in some run of a policy.
struct Unseen {
    const Diagnosis* diagnosis = nullptr;
    std::string policy{};
    std::string why{};
};

struct Verdicts {
    std::vector<std::string> policies{};  ///< the baseline first
    std::vector<Diagnosed> findings{};    ///< by policy, then in the order of diagnoses()
    std::vector<Unseen> unseen{};         ///< in the same order as the findings
};

/// Looks for every diagnosis in every run. The log may have been read with either value of Keep.
Verdicts diagnose(const Log& log);

/// Returns text for a terminal: a paragraph for each policy, then the diagnoses that could not be checked.
std::string diagnosis_text(const Verdicts& verdicts);
/// Returns {"looked_for": [...], "findings": [{"id", "policy", "seed", "seeds", "of_seeds", "step", "site", "figures",
/// "sentence", "remedy"}], "not_looked_for": [{"id", "policy", "why"}]}. `step` and `site` may be null.
Json diagnosis_json(const Verdicts& verdicts);
/// Returns the section of the HTML page with the findings for the given policies.
std::string diagnosis_html(const Verdicts& verdicts, std::span<const std::string> policies);

}  // namespace macheps::reports
