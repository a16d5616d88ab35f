// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/diagnose/evidence.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/logs/run_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

namespace macheps::cmd::causes {

namespace {

namespace fs = std::filesystem;
using reports::Certainty;

/// Diagnoses after which a training is lost, the gravest first. All others follow in the order of their tables.
constexpr std::array<std::string_view, 16> fatal_diagnoses{
    "nan-in-loss",         "loss-zero-filtered",       "nan-in-gradient",        "nonfinite-update",
    "division-by-zero",    "scale-at-floor",           "scale-collapse",         "no-learning",
    "scale-without-bound", "plateau-at-ln-vocabulary", "gradient-underflow",     "stagnation",
    "no-master",           "frozen-moments",           "divergence-after-spike", "jump-after-first-step"};

std::size_t gravity(const Observation& one) {
    return static_cast<std::size_t>(std::find(fatal_diagnoses.begin(), fatal_diagnoses.end(), one.diagnosis) -
                                    fatal_diagnoses.begin());
}

bool is_graver(const Observation& a, const Observation& b) {
    const std::size_t x = gravity(a), y = gravity(b);
    return x != y ? x < y : a.certainty > b.certainty;
}

bool is_run_directory(const fs::path& path) {
    std::error_code error;
    return fs::exists(path / "manifest.json", error) || fs::exists(path / "runs.csv", error);
}

/// Returns the number at the end of a name such as "checkpoint-500", or -1.
std::int64_t checkpoint_number(const std::string& name) {
    constexpr std::string_view prefix = "checkpoint-";
    std::int64_t number = -1;
    if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    return number;
}

/// Returns the log in an output directory of a trainer: in the directory, else in its last checkpoint.
std::optional<fs::path> log_in(const fs::path& folder) {
    constexpr std::array<const char*, 4> names{"trainer_state.json", "trainer_log.jsonl", "logging.jsonl",
                                               "metrics.csv"};
    std::error_code error;
    for (const char* name : names) {
        if (fs::is_regular_file(folder / name, error)) return folder / name;
    }
    std::optional<fs::path> last;
    std::int64_t highest = -1;
    for (const std::string& name : names_in(folder)) {
        const fs::path state = folder / name / names.front();
        const std::int64_t number = checkpoint_number(name);
        if (number <= highest || !fs::is_regular_file(state, error)) continue;
        highest = number;
        last = state;
    }
    return last;
}

/// Returns whether a file with the ending of a config is one. A JSON file may be a log, such as trainer_state.json.
bool is_config(const std::string& path) {
    if (!configs::is_config_name(path)) return false;
    if (!path.ends_with(".json")) return true;
    const std::string text = read_file(path);
    return text.find("\"log_history\"") == std::string::npos;
}

/// Returns whether a file names the versions of packages, by its name: requirements.txt, uv.lock.
bool is_requirements_file(const fs::path& path) {
    const std::string name = path.filename().string();
    return path.extension() == ".lock" || (name.starts_with("requirements") && path.extension() == ".txt");
}

void sort_into_kinds(const std::string& path, Evidence& evidence) {
    std::error_code error;
    if (is_requirements_file(path)) {
        evidence.import.requirements = configs::read_requirements(path);
        return;
    }
    if (fs::is_directory(path, error)) {
        if (is_run_directory(path)) {
            evidence.runs.push_back(path);
            return;
        }
        const std::optional<fs::path> log = log_in(path);
        if (!log) {
            throw Error({.what = "this folder contains no log that is recognised by its name",
                         .where = path,
                         .fix = "pass the log itself: trainer_state.json, trainer_log.jsonl, metrics.csv, or what the "
                                "training printed",
                         .exit = Exit::bad_input});
        }
        evidence.notes.push_back(fmt::format("{}: reading {}", path, log->string()));
        evidence.logs.push_back(log->string());
        return;
    }
    // The words KEY=VALUE are overrides of the config.
    const bool is_override = !fs::exists(path, error) && path.find('=') != std::string::npos;
    (is_override || is_config(path) ? evidence.configs : evidence.logs).push_back(path);
}

void observe_log(const std::string& path, const EvidenceOptions& options, std::vector<Observation>& observations) {
    const reports::TrainingLog log = reports::read_training_log(path, options.log);
    for (const reports::LogFinding& finding : reports::diagnose_log(log, options.log).findings) {
        const std::string place = reports::finding_place(log, finding);
        observations.push_back({.diagnosis = std::string(finding.diagnosis->id),
                                .certainty = finding.seen.certainty,
                                .place = place.empty() ? path : fmt::format("{}, {}", path, place),
                                .sentence = finding.seen.sentence,
                                .remedy = std::string(finding.remedy())});
    }
}

void observe_run(const std::string& path, std::vector<Observation>& observations) {
    const fs::path folders[] = {path};
    const reports::Log log = reports::read_runs(folders, reports::Keep::summary);
    for (const reports::Diagnosed& finding : reports::diagnose(log).findings) {
        std::string place = fmt::format("{}, {}", path, finding.policy);
        if (finding.seen.step) place += fmt::format(", step {}", *finding.seen.step);
        if (!finding.seen.site.empty()) place += fmt::format(", {}", finding.seen.site);
        observations.push_back({.diagnosis = std::string(finding.diagnosis->id),
                                .place = place,
                                .sentence = finding.sentence(),
                                .remedy = std::string(finding.remedy()),
                                .is_of_run = true});
    }
}

}  // namespace

Evidence read_evidence(const std::vector<std::string>& paths, const EvidenceOptions& options) {
    Evidence evidence{.import = options.import};
    for (const std::string& path : paths) sort_into_kinds(path, evidence);
    for (const std::string& path : evidence.logs) observe_log(path, options, evidence.observations);
    for (const std::string& path : evidence.runs) observe_run(path, evidence.observations);
    std::stable_sort(evidence.observations.begin(), evidence.observations.end(), is_graver);
    if (!evidence.configs.empty()) {
        evidence.config = configs::import_config(evidence.configs, evidence.import);
        evidence.remedies = configs::find_remedies(evidence.configs, evidence.import);
    }
    return evidence;
}

}  // namespace macheps::cmd::causes
