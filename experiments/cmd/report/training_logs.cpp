// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/report/training_logs.hpp"

#include "core/host/publish.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/studies/training_log_page.hpp"
#include "reports/training_logs/log_diagnosis.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::cmd::report {

using namespace reports;

namespace {

bool is_training_log(const std::filesystem::path& path) {
    std::error_code error;
    if (!std::filesystem::exists(path, error) || std::filesystem::is_directory(path, error)) return false;
    // The first bytes of a pipe can be read only once. CSV files of macheps must therefore be regular files.
    return !std::filesystem::is_regular_file(path, error) || !has_measured_rows(path);
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
    for (const std::filesystem::path& file : report.files) {
        logs.push_back(read_training_log(file, report.options));
        verdicts.push_back(diagnose_log(logs.back(), report.options));
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
