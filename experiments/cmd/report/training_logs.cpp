// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/training_logs.hpp"

#include "core/host/publish.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/quote.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/symptoms/causes.hpp"
#include "experiments/configs/symptoms/symptoms.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/studies/training_log_page.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

namespace macheps::cmd::report {

using namespace reports;

using namespace configs;

namespace {

bool is_training_log(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error) || std::filesystem::is_directory(path, error)) return false;
    // The first bytes of a pipe can be read only once. CSV files of macheps must therefore be regular files.
    return !std::filesystem::is_regular_file(path, error) || !has_measured_rows(path);
}

/// The packages whose faults may show in logs of a form, by the beginning of its name.
struct PackagesOfForm {
    std::string_view form, packages;
};
constexpr std::string_view packages_of_trainers =
    "transformers accelerate deepspeed trl axolotl llamafactory peft liger-kernel bitsandbytes";
constexpr std::array packages_of_forms{PackagesOfForm{"Transformers", packages_of_trainers},
                                       PackagesOfForm{"JSON lines", packages_of_trainers},
                                       PackagesOfForm{"DeepSpeed", packages_of_trainers},
                                       PackagesOfForm{"Megatron-LM", "megatron transformer-engine"},
                                       PackagesOfForm{"torchtitan", "torchtitan torchao"},
                                       PackagesOfForm{"torchtune", "torchtune torchao"},
                                       PackagesOfForm{"nanoGPT", "torch"},
                                       PackagesOfForm{"Lightning", "lightning deepspeed"}};

bool may_show_faults_of(std::string_view package, const TrainingLog& log) {
    const auto row = std::find_if(packages_of_forms.begin(), packages_of_forms.end(),
                                  [&](const PackagesOfForm& one) { return log.form->name.starts_with(one.form); });
    if (row == packages_of_forms.end()) return false;
    const std::vector<std::string> packages = macheps::words_of(row->packages);
    return std::find(packages.begin(), packages.end(), package) != packages.end();
}

/// Returns the causes that a diagnosis can report. Entries for printed messages are left out, because a log shows them
/// only if it contains the message.
std::vector<const SymptomCause*> causes_of(std::string_view diagnosis) {
    std::vector<const SymptomCause*> causes;
    for (const SymptomRow* row : symptom_rows()) {
        if (!row->source.empty()) continue;
        for (const SymptomCause& cause : row->causes()) {
            const std::vector<std::string> diagnoses = macheps::words_of(cause.diagnoses);
            if (std::find(diagnoses.begin(), diagnoses.end(), diagnosis) != diagnoses.end()) causes.push_back(&cause);
        }
    }
    return causes;
}

/// Returns the causes of a diagnosis that the config has, each with the reason.
std::vector<std::string> causes_in_config(std::string_view diagnosis, const CauseJudge& config) {
    std::vector<std::string> remarks;
    for (const SymptomCause* cause : causes_of(diagnosis)) {
        const JudgedCause judged = config.judge(*cause);
        if (judged.verdict != CauseVerdict::applies) continue;
        std::string remark = fmt::format("The config has a known cause: {} ({})", cause->text, judged.reason);
        if (std::find(remarks.begin(), remarks.end(), remark) == remarks.end()) remarks.push_back(std::move(remark));
    }
    return remarks;
}

/// Returns the faults of releases that a diagnosis reports. A package whose version is known has the fault, or the fault
/// is left out.
std::vector<std::string> known_faults(std::string_view diagnosis, const TrainingLog& log,
                                      const ImportOptions& options) {
    std::vector<std::string> installed, possible;
    for (const SymptomCause* cause : causes_of(diagnosis)) {
        for (const std::string& id : macheps::words_of(cause->faults)) {
            const FaultRow* row = find_fault(id);
            if (row == nullptr || !may_show_faults_of(row->package, log)) continue;
            const std::optional<FrameworkVersion> version = version_in(options, row->package);
            std::vector<std::string>& list = version ? installed : possible;
            if (version && !has_fault(*row, *version)) continue;
            const std::string text = fault_text(id);
            if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
        }
    }
    std::vector<std::string> remarks;
    if (!installed.empty())
        remarks.push_back(fmt::format("The named versions have these faults: {}", fmt::join(installed, ", ")));
    if (!possible.empty()) {
        remarks.push_back(fmt::format(
            "Faults of releases that can cause this: {}; --requirements says whether your versions have them",
            fmt::join(possible, ", ")));
    }
    return remarks;
}

}  // namespace

bool are_training_logs(const std::vector<std::filesystem::path>& paths) {
    const auto count = std::count_if(paths.begin(), paths.end(), is_training_log);
    if (count == 0) return false;
    if (count == std::ptrdiff_t(paths.size())) return true;
    const auto log = std::find_if(paths.begin(), paths.end(), is_training_log);
    throw usage_error(
        "a log of another program cannot be reported together with run directories or CSV files of "
        "macheps",
        log->string(), "start one report for the logs and one for the other paths");
}

void add_columns(const std::vector<std::string>& words, TrainingLogOptions& options) {
    for (const std::string& word : words) {
        const std::size_t equals = word.find('=');
        const std::string quantity = word.substr(0, equals);
        if (equals == std::string::npos || equals + 1 == word.size()) {
            throw usage_error(fmt::format("'{}' has no name of a column", word), "--column",
                              "pass a quantity and a name, such as loss=train/loss");
        }
        if (find_quantity(quantity) == nullptr) {
            throw usage_error(fmt::format("'{}' is not a quantity", quantity), "--column",
                              suggestion(quantity, quantity_names()));
        }
        options.columns[quantity] = word.substr(equals + 1);
    }
}

void report_training_logs(const LogReport& report) {
    std::vector<TrainingLog> logs;
    std::vector<LogVerdicts> verdicts;
    std::optional<CauseJudge> config;
    if (!report.config.empty()) config.emplace(report.config, report.config_options);
    for (const std::filesystem::path& file : report.files) {
        logs.push_back(read_training_log(file, report.options));
        verdicts.push_back(diagnose_log(logs.back(), report.options));
        for (LogFinding& finding : verdicts.back().findings) {
            finding.remarks = config ? causes_in_config(finding.diagnosis->id, *config)
                                     : known_faults(finding.diagnosis->id, logs.back(), report.config_options);
        }
    }
    publish(report.page, training_logs_page(logs, verdicts));
    if (report.csv) {
        print_text(training_logs_csv(logs));
    } else if (report.json) {
        Json list = Json::array();
        for (std::size_t i = 0; i < logs.size(); ++i) list.push_back(training_log_json(logs[i], verdicts[i]));
        print_json({{"schema", schema_version}, {"logs", std::move(list)}});
    } else {
        std::string text;
        for (std::size_t i = 0; i < logs.size(); ++i)
            text += (i == 0 ? "" : "\n") + training_log_text(logs[i], verdicts[i]);
        print_text(text);
    }
    eprint("wrote {}\n", report.page.string());
}

}  // namespace macheps::cmd::report
