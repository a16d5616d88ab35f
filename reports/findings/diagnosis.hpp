// SPDX-License-Identifier: Apache-2.0
// What a run's rows show that people would call trouble: its name, where, the figures, and what to change. A diagnosis
// is a row of diagnoses() and at most one function; text, JSON and the page are made of the rows.
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

/// The limits that conditions speak of. `macheps report --diagnose` and docs/diagnosis.md state them in words.
struct DiagnosisRules {
    static constexpr std::int64_t cascade_steps = 4;     ///< skipped in a row, while the scale falls
    static constexpr std::int64_t floor_steps = 4;       ///< skipped in a row at the least scale
    static constexpr double schedule_share = 0.01;       ///< of the learning rates of all steps
    static constexpr double stagnant_efficiency = 0.98;  ///< mean of update_eff
    static constexpr double frozen_share = 0.2;          ///< of second moments, in the second half of the steps
    static constexpr double notable_spike = 0.5;         ///< nats above the moving average
    static constexpr double lasting_rise = 0.25;         ///< nats above the least moving average, in the end
    static constexpr double clip_scale = 256;            ///< the least loss scale whose traces are told from noise
    static constexpr double clip_tolerance = 3;          ///< powers of two
    static constexpr std::size_t least_steps = 8;        ///< that a median, or a count of distinct losses, is made of
    static constexpr std::size_t least_growths = 2;
};

/// What a diagnosis needs to see.
enum class Reads : std::uint8_t {
    steps,         ///< rows of steps.csv
    baseline,      ///< and those of the fp32 run of the same seed
    memory,        ///< the bytes in runs.csv, and those of the fp32 run
    moments,       ///< and their column `moment_stagnation`, which came later
    loss_rounded,  ///< and their column `loss_rounded`, which came with schema 2
    sites,         ///< rows of sites.csv
    manifest,      ///< the settings and the resolved policy
};

/// One number of a sentence: `{name}` there.
struct Figure {
    std::string_view name;
    double value = 0;
};

/// What a function saw in one run.
struct Sighting {
    std::optional<std::int64_t> step{};
    std::string site{};
    std::vector<Figure> figures{};
};

/// A run, as the functions see it.
struct RunView {
    const RunLog& run;
    const RunLog* baseline = nullptr;  ///< null for fp32 itself, and where there is none
    const Json* train = nullptr;       ///< the manifest's settings; null where unknown
    const Json* policy = nullptr;      ///< the manifest's policy; null where unknown
    const Json* micro_batches =
        nullptr;  ///< by policy, of those that divide a step otherwise than `train` says; null: none
    SiteFigures sites{};
    bool samples_sites = false;  ///< a site that casts would have a row
};

struct Diagnosis {
    std::string_view id;
    Reads reads;
    std::string_view condition;  ///< in words, with its limits
    std::string_view sentence;   ///< `{figure}` stands for one; the step and the site are told beside it
    std::string_view remedy;
    std::optional<Sighting> (*find)(const RunView&);
};

/// Every diagnosis, in the order in which they are told.
std::span<const Diagnosis> diagnoses();

/// What was seen of one policy: of its seeds, the one that showed it first.
struct Diagnosed {
    const Diagnosis* diagnosis = nullptr;
    std::string policy{};
    std::int64_t seed = 0, seeds = 0, of_seeds = 0;  ///< how many of its runs showed it
    Sighting seen{};

    /// The diagnosis' sentence with its figures.
    std::string sentence() const;
};

/// What could not be looked for.
struct Unseen {
    const Diagnosis* diagnosis = nullptr;
    std::string policy{};
    std::string why{};
};

struct Verdicts {
    std::vector<std::string> policies{};  ///< the baseline first
    std::vector<Diagnosed> findings{};    ///< by policy, then in the order of diagnoses()
    std::vector<Unseen> unseen{};         ///< the same
};

/// Looks for every diagnosis in every run. Either kind of Keep will do.
Verdicts diagnose(const Log& log);

/// For a terminal: a paragraph for each policy, then what could not be looked for.
std::string diagnosis_text(const Verdicts& verdicts);
/// {"looked_for": [...], "findings": [{"id", "policy", "seed", "seeds", "of_seeds", "step", "site", "figures",
/// "sentence", "remedy"}], "not_looked_for": [{"id", "policy", "why"}]}; null: there is no step or site.
Json diagnosis_json(const Verdicts& verdicts);
/// A section of the page, of the policies named.
std::string diagnosis_html(const Verdicts& verdicts, std::span<const std::string> policies);

}  // namespace macheps::reports
