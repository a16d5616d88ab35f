// SPDX-License-Identifier: Apache-2.0
// Diagnoses of training logs that another program wrote. A diagnosis is a row of the table log_diagnoses(), with at
// most one search function. It states how certain it is: a log has few columns, so several causes may fit.
#pragma once
#include "core/text/json.hpp"
#include "reports/training_logs/training_log.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::reports {

/// Limits in the conditions of the diagnoses. docs/diagnosis.md states the conditions in words.
struct LogRules {
    static constexpr std::size_t window = 20;         ///< rows of a mean, and minimum number of rows of a trend
    static constexpr double flat_range = 0.01;        ///< maximum range of a loss that does not fall, relative
    static constexpr double slope_errors = 3;         ///< a slope of fewer standard errors is noise
    static constexpr double plateau_distance = 0.05;  ///< maximum |mean - ln V| of a plateau, in nats
    static constexpr double sharp_plateau = 0.01;     ///< the same, if V is not given and the word is `likely`
    static constexpr double gas_tolerance = 0.03;     ///< relative distance of the first loss from k ln V
    static constexpr std::int64_t max_gas = 128;      ///< largest k that is tried
    static constexpr double far_loss = 1.25;          ///< a first loss of more than far_loss * ln V is far from ln V
    static constexpr std::int64_t min_vocabulary = 8192;  ///< usual vocabularies, if V is not given
    static constexpr std::int64_t max_vocabulary = 262144;
    static constexpr double first_jump = 2;             ///< minimum ratio of the second loss to the first
    static constexpr double least_of_ln_v = 0.9;        ///< minimum of the second loss, relative to ln V
    static constexpr std::size_t rows_after_jump = 3;   ///< following rows in which the loss does not return
    static constexpr double notable_jump = 0.5;         ///< loss minus the median of the rows before it, in nats
    static constexpr double jump_deviations = 6;        ///< the same, in deviations of the noise
    static constexpr double lasting_rise = 0.25;        ///< last mean minus the mean before the jump, in nats
    static constexpr double jump_errors = 3;            ///< the same, in standard errors
    static constexpr double unbounded_scale = 0x1p100;  ///< minimum loss scale without a bound
    static constexpr double carried_factor = 4;         ///< maximum ratio of the largest to the smallest norm / scale
    static constexpr double carried_change = 64;        ///< minimum change of the scale and of the norm meanwhile
    static constexpr double huge_norm = 1e4;            ///< median norm of gradients that were not unscaled
    static constexpr double half_low = 0.4, half_high = 0.6;  ///< ratio of a norm to its neighbours
    static constexpr std::size_t min_growths = 2;
    static constexpr double code_width = 0.005;  ///< norms this close to 1 show how often 1.0 is a coincidence
    static constexpr std::size_t min_distinct_norms = 10;
    static constexpr int rounded_bits = 8;
    static constexpr double learned_loss = 0.01;    ///< a loss that falls to 0 from below this value was learned
    static constexpr double constant_range = 1e-3;  ///< maximum distance of a clipped norm from the limit, relative
    static constexpr double epoch_drop = 0.05;      ///< minimum drop of the loss at the end of an epoch, relative
};

enum class Certainty : std::uint8_t {
    possible,  ///< several causes fit; the sentence names them
    likely,    ///< one cause fits, and the usual other causes do not
    certain,   ///< a number of the log says so
};
std::string_view word_of(Certainty certainty);

struct LogSighting {
    Certainty certainty = Certainty::certain;
    std::optional<std::int64_t> step{};
    std::string sentence{};
    std::string_view remedy{};  ///< replaces the remedy of the diagnosis if it is not empty
};

/// A log, and the options of the user.
struct LogView {
    const TrainingLog& log;
    TrainingLogOptions options{};
};

/// The columns that a diagnosis needs.
enum class Needs : std::uint8_t {
    loss,
    norm,
    rate,
    eval,
    loss_and_norm,
    loss_and_epoch,
    scale,
    norm_and_scale,
    skips,  ///< the column `skipped`, or the loss scale, which falls after a skipped step
    skips_and_lr,
    other_data,  ///< data that logs of other programs do not contain
};

struct LogDiagnosis {
    std::string_view id;
    Needs needs;
    Certainty strongest;  ///< the strongest word that the columns allow
    std::string_view condition;
    std::string_view remedy;
    std::optional<LogSighting> (*find)(const LogView&);  ///< null with Needs::other_data
    bool needs_step_numbers = false;                     ///< whether the search counts steps, and not only rows
};

/// Returns every diagnosis, in the order in which they are reported.
std::span<const LogDiagnosis> log_diagnoses();

struct LogFinding {
    const LogDiagnosis* diagnosis = nullptr;
    LogSighting seen{};
    std::vector<std::string> remarks{};  ///< what a config or the versions of packages say about the finding

    std::string_view remedy() const { return seen.remedy.empty() ? diagnosis->remedy : seen.remedy; }
};

/// A diagnosis that could not be made.
struct LogGap {
    const LogDiagnosis* diagnosis = nullptr;
    std::string why{};
};

struct LogVerdicts {
    std::vector<LogFinding> findings{};
    std::vector<LogGap> gaps{};
};

LogVerdicts diagnose_log(const TrainingLog& log, const TrainingLogOptions& options);

/// Returns the names of the quantities that any row has.
std::vector<std::string_view> columns_of(const TrainingLog& log);
/// Describes a log in words: its kind, rows and columns.
std::string reading_words(const TrainingLog& log);
/// Returns the position of a finding in words: "step 12".
std::string finding_place(const TrainingLog& log, const LogFinding& finding);
/// Returns the reasons why diagnoses could not be made, each with the names of these diagnoses.
std::vector<std::pair<std::string, std::string>> gaps_by_reason(const LogVerdicts& verdicts);

/// Returns text for a terminal: a description of the log, the findings, and the diagnoses that could not be made.
std::string training_log_text(const TrainingLog& log, const LogVerdicts& verdicts);
/// Returns {"file", "kind", "counts", "rows", "first_step", "last_step", "other_lines", "columns", "notes", "findings":
/// [{"id", "certainty", "step", "sentence", "remedy", "remarks"}], "not_looked_for": [{"id", "why"}], "steps": [one object per
/// row]}.
Json training_log_json(const TrainingLog& log, const LogVerdicts& verdicts);

}  // namespace macheps::reports
