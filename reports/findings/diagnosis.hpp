// SPDX-License-Identifier: Apache-2.0
// Diagnoses: known problems that the rows of a run reveal, each with its place, its figures and a remedy. A diagnosis
// is a row of diagnoses() and at most one function. Text, JSON and the page are generated from the rows.
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

/// The limits in the conditions. `macheps report --diagnose` and docs/diagnosis.md state them in words.
struct DiagnosisRules {
    static constexpr std::int64_t cascade_steps = 4;     ///< skipped in a row, while the scale falls
    static constexpr std::int64_t floor_steps = 4;       ///< skipped in a row at the lowest scale
    static constexpr double schedule_share = 0.01;       ///< of the sum of all learning rates
    static constexpr double stagnant_efficiency = 0.98;  ///< mean of update_eff
    static constexpr double frozen_share = 0.2;          ///< of second moments, in the second half of the steps
    static constexpr double notable_spike = 0.5;         ///< nats above the moving average
    static constexpr double lasting_rise = 0.25;         ///< nats above the lowest moving average, at the end
    static constexpr double clip_scale = 256;            ///< minimum loss scale whose effect stands out from noise
    static constexpr double clip_tolerance = 3;          ///< powers of two
    static constexpr std::size_t min_steps = 8;          ///< minimum for a median or for a count of distinct losses
    static constexpr std::size_t min_growths = 2;
};

/// The data that a diagnosis needs.
enum class Reads : std::uint8_t {
    steps,         ///< rows of steps.csv
    baseline,      ///< rows of steps.csv, also of the fp32 run of the same seed
    memory,        ///< the bytes in runs.csv, also of the fp32 run
    moments,       ///< rows of steps.csv with the column `moment_stagnation`, which older files lack
    loss_rounded,  ///< rows of steps.csv with the column `loss_rounded`, which was added in schema 2
    sites,         ///< rows of sites.csv
    manifest,      ///< the settings and the resolved policy
};

/// A number that replaces `{name}` in a sentence.
struct Figure {
    std::string_view name;
    double value = 0;
};

/// The result of a diagnosis in one run.
struct Sighting {
    std::optional<std::int64_t> step{};
    std::string site{};
    std::vector<Figure> figures{};
};

/// The data of a run that the functions read.
struct RunView {
    const RunLog& run;
    const RunLog* baseline = nullptr;     ///< null for fp32 itself, and if there is none
    const Json* train = nullptr;          ///< the manifest's settings; null if unknown
    const Json* policy = nullptr;         ///< the manifest's policy; null if unknown
    const Json* micro_batches = nullptr;  ///< micro-batches of the policies that override `train`; null if none does
    SiteFigures sites{};
    bool samples_sites = false;  ///< whether the runs of this folder sample their sites
};

struct Diagnosis {
    std::string_view id;
    Reads reads;
    std::string_view condition;  ///< in words, with its limits
    std::string_view sentence;   ///< with `{name}` for each figure; step and site are reported separately
    std::string_view remedy;
    std::optional<Sighting> (*find)(const RunView&);
};

/// Returns every diagnosis, in the order in which they are reported.
std::span<const Diagnosis> diagnoses();

/// A diagnosis that was found in the runs of one policy. `seed` and `seen` belong to the run that shows it at the
/// earliest step.
struct Diagnosed {
    const Diagnosis* diagnosis = nullptr;
    std::string policy{};
    std::int64_t seed = 0, seeds = 0, of_seeds = 0;  ///< `seeds` of its `of_seeds` runs show it
    Sighting seen{};

    /// Returns the sentence of the diagnosis with its figures filled in.
    std::string sentence() const;
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
    std::vector<Unseen> unseen{};         ///< in the same order
};

/// Looks for every diagnosis in every run. The log may have been read with either value of Keep.
Verdicts diagnose(const Log& log);

/// Returns text for a terminal: a paragraph for each policy, then the diagnoses that could not be checked.
std::string diagnosis_text(const Verdicts& verdicts);
/// Returns {"looked_for": [...], "findings": [{"id", "policy", "seed", "seeds", "of_seeds", "step", "site", "figures",
/// "sentence", "remedy"}], "not_looked_for": [{"id", "policy", "why"}]}. `step` and `site` are null if there is none.
Json diagnosis_json(const Verdicts& verdicts);
/// Returns the section of the page for the given policies.
std::string diagnosis_html(const Verdicts& verdicts, std::span<const std::string> policies);

}  // namespace macheps::reports
