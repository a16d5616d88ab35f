// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/diagnose/evidence.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "experiments/cmd/diagnose/run_folder.hpp"
#include "experiments/configs/framework.hpp"
#include "reports/findings/diagnosis.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/training_logs/line_forms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <system_error>
#include <utility>

namespace macheps::cmd::causes {

namespace {

namespace fs = std::filesystem;
using reports::Certainty;

/// Diagnoses after which a training is lost, the gravest first. All others follow in the order of their tables.
constexpr std::array<std::string_view, 20> fatal_diagnoses{"nan-in-loss",
                                                           "loss-zero-filtered",
                                                           "nan-in-gradient",
                                                           "nonfinite-update",
                                                           "division-by-zero",
                                                           "scale-at-floor",
                                                           "scale-collapse",
                                                           "zero-rate",
                                                           "zero-loss",
                                                           "zero-gradient",
                                                           "nan-in-eval",
                                                           "no-learning",
                                                           "scale-without-bound",
                                                           "plateau-at-ln-vocabulary",
                                                           "gradient-underflow",
                                                           "stagnation",
                                                           "no-master",
                                                           "frozen-moments",
                                                           "divergence-after-spike",
                                                           "jump-after-first-step"};

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

/// Adds the files that were read in an output directory.
void take_run(RunFolder run, Evidence& evidence, std::vector<RunFolder>& folders) {
    if (run.log) evidence.logs.push_back(run.log->string());
    evidence.read.insert(evidence.read.end(), run.read.begin(), run.read.end());
    evidence.unread.insert(evidence.unread.end(), run.unread.begin(), run.unread.end());
    folders.push_back(std::move(run));
}

/// Reads an output directory. Throws Error (bad input) for a folder without a log and without settings.
void take_folder(const std::string& path, Evidence& evidence, std::vector<RunFolder>& folders) {
    RunFolder run = read_run_folder(path);
    if (!run.log && run.configs.empty() && run.settings.empty()) {
        throw Error({.what = "this folder contains no log that is recognised by its name or by its content",
                     .where = path,
                     .fix = "pass the log itself: trainer_state.json, trainer_log.jsonl, metrics.csv, or what the "
                            "training printed",
                     .exit = Exit::bad_input});
    }
    take_run(std::move(run), evidence, folders);
}

/// Uses the settings of an output directory as the config. Settings that cannot be imported are listed as not read.
void take_settings(const RunFolder& run, Evidence& evidence) {
    // DeepSpeed's file and the settings of a Trainer are configs of two frameworks, which no third file joins.
    const bool is_card = run.configs.empty();
    const std::vector<std::string>& settings = is_card ? run.settings : run.configs;
    if (settings.empty()) return;
    configs::ImportOptions import = evidence.import;
    if (is_card && import.framework.empty()) import.framework = "transformers";
    try {
        configs::import_config(settings, import);
    } catch (const Error& problem) {
        evidence.unread.emplace_back(problem.what());
        return;
    }
    evidence.configs = settings;
    evidence.import = std::move(import);
    if (is_card) evidence.card = run.card;
}

/// Uses the contents of output directories for everything that the user did not give: versions, the vocabulary, the
/// format of the weights, and settings.
void complete_from(const std::vector<RunFolder>& folders, Evidence& evidence, reports::TrainingLogOptions& log) {
    for (const RunFolder& run : folders) {
        for (const auto& [package, version] : run.requirements.versions)
            evidence.import.requirements.versions.emplace(package, version);
        if (!log.vocabulary) log.vocabulary = run.vocabulary;
        if (evidence.import.model.type.empty()) evidence.import.model = run.model;
        if (evidence.import.checkpoint_is_default && !run.weights_dtype.empty()) {
            evidence.import.checkpoint_dtype = run.weights_dtype;
            evidence.import.checkpoint_file = run.model_file;
            evidence.import.checkpoint_is_default = false;
        }
    }
    for (const RunFolder& run : folders) {
        if (evidence.configs.empty()) take_settings(run, evidence);
    }
}

void sort_into_kinds(const std::string& path, Evidence& evidence, std::vector<RunFolder>& folders) {
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
        take_folder(path, evidence, folders);
        return;
    }
    if (fs::is_regular_file(path, error)) {
        if (std::optional<RunFolder> run = read_run_file(path)) {
            take_run(*std::move(run), evidence, folders);
            return;
        }
    }
    // The words KEY=VALUE are overrides of the config.
    const bool is_override = !fs::exists(path, error) && path.find('=') != std::string::npos;
    (is_override || is_config(path) ? evidence.configs : evidence.logs).push_back(path);
}

/// Returns a tenth of the highest learning rate, or nothing if no row has a rate above 0.
std::optional<double> lower_rate_of(const reports::TrainingLog& log) {
    double highest = 0;
    for (const reports::TrainingRow& row : log.rows) {
        if (row.lr && std::isfinite(*row.lr)) highest = std::max(highest, *row.lr);
    }
    return highest > 0 ? std::optional(highest / 10) : std::nullopt;
}

/// Chooses the program whose lines the checks have. If several are found, the earliest in the table is chosen, because
/// a Trainer runs DeepSpeed, which runs torch.
void choose_stack(const configs::CheckStack* stack, Evidence& evidence) {
    if (stack != nullptr && (evidence.stack == nullptr || stack < evidence.stack)) evidence.stack = stack;
}

void observe_log(const std::string& path, const EvidenceOptions& options, Evidence& evidence) {
    const reports::TrainingLog log = reports::read_training_log(path, options.log);
    if (const std::optional<double> rate = lower_rate_of(log)) evidence.lower_rate = *rate;
    // Every program can export a CSV file; only Lightning calls its own one metrics.csv.
    const bool is_export = path.ends_with(".csv") && fs::path(path).filename() != "metrics.csv";
    if (!is_export) choose_stack(configs::stack_of_log(log.form->name), evidence);
    for (const reports::LogFinding& finding : reports::diagnose_log(log, options.log).findings) {
        const std::string place = reports::finding_place(log, finding);
        evidence.observations.push_back({.diagnosis = std::string(finding.diagnosis->id),
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

Evidence read_evidence(const std::vector<std::string>& paths, const EvidenceOptions& given) {
    Evidence evidence{.import = given.import};
    EvidenceOptions options = given;
    std::vector<RunFolder> folders;
    for (const std::string& path : paths) sort_into_kinds(path, evidence, folders);
    complete_from(folders, evidence, options.log);
    for (const std::string& path : evidence.logs) observe_log(path, options, evidence);
    for (const std::string& path : evidence.runs) observe_run(path, evidence.observations);
    std::stable_sort(evidence.observations.begin(), evidence.observations.end(), is_graver);
    if (!evidence.configs.empty()) {
        evidence.config = configs::import_config(evidence.configs, evidence.import);
        choose_stack(configs::stack_of_framework(evidence.config->framework->name), evidence);
        evidence.remedies = configs::find_remedies(evidence.configs, evidence.import);
    }
    return evidence;
}

}  // namespace macheps::cmd::causes
