// SPDX-License-Identifier: Apache-2.0
// Compares the importers and the history of faults with steps of real releases. scripts/release-steps has run each
// release with known gradients and has written the tables of its results in tests/configs/steps. gpus.csv names the GPUs
// that gave the same table as a CPU.
#include "core/host/read_file.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/files/config/value.hpp"
#include "reports/rows/sha256.hpp"
#include "tests/configs/import_case.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

namespace release_steps_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

namespace fs = std::filesystem;
using Row = std::map<std::string, std::string, std::less<>>;

const fs::path steps_folder = fs::path(MACHEPS_SOURCE_DIR) / "tests/configs/steps";

/// Returns the cells of a line of CSV.
std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> cells(1);
    bool quoted = false;
    for (const char c : line) {
        if (c == '"')
            quoted = !quoted;
        else if (c == ',' && !quoted)
            cells.emplace_back();
        else
            cells.back() += c;
    }
    return cells;
}

std::vector<Row> read_table(const std::string& name) {
    std::istringstream text(read_file(steps_folder / name));
    std::string line;
    std::getline(text, line);
    const std::vector<std::string> header = cells_of(line);
    std::vector<Row> rows;
    while (std::getline(text, line)) {
        const std::vector<std::string> cells = cells_of(line);
        REQUIRE(cells.size() == header.size());
        Row& row = rows.emplace_back();
        for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    }
    return rows;
}

std::vector<std::string> releases_of(const std::vector<Row>& rows) {
    std::vector<std::string> releases;
    for (const Row& row : rows) {
        if (releases.empty() || releases.back() != row.at("release")) releases.push_back(row.at("release"));
    }
    return releases;
}

/// The importer reads each config with the two micro-batches of the step.
std::string config_text(const std::string& name) {
    const files::ConfigFile all = files::read_config_file((steps_folder / "deepspeed.json").string());
    const files::ConfigValue* config = all.root.find(name);
    REQUIRE(config != nullptr);
    const std::string text = read_file(steps_folder / "deepspeed.json");
    const std::string key = "\"" + name + "\": {";
    const std::size_t start = text.find(key) + key.size(), end = text.find('\n', start);
    std::string inner = text.substr(start, end - start);
    inner = inner.substr(0, inner.rfind('}'));
    const bool has_clipping = inner.find("gradient_clipping") != std::string::npos;
    return fmt::format(R"({{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2, {}{}}})",
                       has_clipping ? "" : R"("gradient_clipping": 0.0, )", inner);
}

bool moves_right(const std::string& moved) {
    constexpr double wanted = 0.25, tolerance = 1e-3;
    return !moved.empty() && std::fabs(std::stod(moved) - wanted) <= tolerance;
}

/// Returns whether the weights move as the gradients say. A first step that overflows and is skipped is also right.
bool is_right(const Row& row) {
    const bool skips = row.at("moved_1") == "0.0" && row.at("infinite_step") == "skipped";
    return (skips || moves_right(row.at("moved_1"))) && moves_right(row.at("moved_2"));
}

/// Returns the findings that say that the release has a fault or refuses the config.
std::string grave_findings(const ImportResult& result) {
    std::string text;
    for (const Finding& one : result.findings) {
        if (severity(one) == FindingSeverity::error) text += fmt::format("{} {}\n", one.rule, one.message);
    }
    return text;
}

}  // namespace

TEST_CASE("an import of DeepSpeed is refused at the releases whose step is wrong, and at no other", "[import][steps]") {
    const std::vector<Row> rows = read_table("deepspeed.csv");
    REQUIRE(rows.size() > 100);
    std::size_t wrong = 0;
    const Framework& deepspeed = *find_framework("deepspeed");
    for (const Row& row : rows) {
        const std::string &release = row.at("release"), &config = row.at("config");
        if (parse_version(release) < parse_version(deepspeed.oldest)) continue;
        const ImportResult result = import_text(
            config_text(config), {.framework = "deepspeed", .versions = "deepspeed=" + release, .device = "h100"});
        CAPTURE(release, config, row.at("moved_1"), row.at("moved_2"), row.at("error"), grave_findings(result));
        CHECK(result.refused() == !is_right(row));
        wrong += is_right(row) ? 0 : 1;
    }
    INFO(wrong);
    CHECK(wrong >= 20);
}

TEST_CASE("an imported scaler of DeepSpeed skips a step with an infinite loss where the release does",
          "[import][steps]") {
    for (const Row& row : read_table("deepspeed.csv")) {
        const std::string &release = row.at("release"), &config = row.at("config"), &step = row.at("infinite_step");
        if (parse_version(release) < parse_version(find_framework("deepspeed")->oldest)) continue;
        const ImportResult result = import_text(
            config_text(config), {.framework = "deepspeed", .versions = "deepspeed=" + release, .device = "h100"});
        CAPTURE(release, config, step, field_of(result, "scaler"));
        if (result.refused() || (step != "skipped" && step != "weights are lost")) continue;
        CHECK((field_of(result, "scaler") != "none") == (step == "skipped"));
    }
}

TEST_CASE("the tables of steps have every release that the importers claim, and docs/systems.md counts them",
          "[import][steps]") {
    std::string page = read_file(fs::path(MACHEPS_SOURCE_DIR) / "docs/systems.md");
    std::replace(page.begin(), page.end(), '\n', ' ');
    for (const char* name : {"deepspeed", "transformers"}) {
        const std::vector<std::string> releases = releases_of(read_table(fmt::format("{}.csv", name)));
        const Framework& framework = *find_framework(name);
        CAPTURE(name, releases.front(), releases.back());
        CHECK(std::any_of(releases.begin(), releases.end(), [&](const std::string& release) {
            return parse_version(release) == parse_version(framework.oldest);
        }));
        CHECK(releases.back() == framework.newest);
        CHECK(page.find(fmt::format("or {} releases of {} ({} to {})", releases.size(), framework.title,
                                    releases.front(), releases.back())) != std::string::npos);
    }
    const std::size_t configs = files::read_config_file((steps_folder / "deepspeed.json").string()).root.entries.size();
    CHECK(page.find(fmt::format("{} configs were run", configs)) != std::string::npos);
}

TEST_CASE("docs/systems.md names the GPUs that gave the same table of steps as a CPU", "[import][steps]") {
    std::string page = read_file(fs::path(MACHEPS_SOURCE_DIR) / "docs/systems.md");
    std::replace(page.begin(), page.end(), '\n', ' ');
    for (const Row& gpu : read_table("gpus.csv")) {
        const std::string table = read_file(steps_folder / (gpu.at("table") + ".csv"));
        CAPTURE(gpu.at("table"), gpu.at("gpu"));
        // Rows of newer releases may follow those that the GPU gave.
        std::size_t end = 0;
        for (int line = 0; line <= std::stoi(gpu.at("rows")); ++line) end = table.find('\n', end) + 1;
        CHECK(reports::sha256_text(table.substr(0, end)) == gpu.at("sha256"));
        const std::string name = gpu.at("gpu").substr(0, gpu.at("gpu").find(" 80GB"));
        CHECK(page.find(fmt::format("An {} (driver {}, PyTorch {}, CUDA {}) gave the same {} rows on {}", name,
                                    gpu.at("driver"), gpu.at("torch"), gpu.at("cuda"), gpu.at("rows"),
                                    gpu.at("date"))) != std::string::npos);
    }
}

TEST_CASE("the faults of Transformers with accumulated gradients predict the steps of its releases",
          "[import][steps]") {
    const auto has = [](const char* id, const std::string& release) {
        return has_fault(*find_fault(id), parse_version(release));
    };
    constexpr double micro_batches = 4;
    std::size_t count = 0;
    for (const Row& row : read_table("transformers.csv")) {
        const std::string &release = row.at("release"), &model = row.at("config"), &ratio = row.at("ratio");
        CAPTURE(release, model, ratio, row.at("error"));
        if (ratio.empty()) continue;  // the release does not run with this version of torch
        double factor = 1;
        if (has("tf-ga-divided-twice", release)) factor /= micro_batches;
        if (model != "llama" && model != "llama-own-loss" && has("tf-ga-times-gas", release)) factor *= micro_batches;
        const bool is_withheld = has("tf-count-withheld-4.47", release) || has("tf-count-withheld", release);
        if (model.starts_with("llama") && is_withheld) factor = micro_batches;
        if (model == "t5" && has("tf-kwargs-without-items", release)) factor *= micro_batches;
        if (model == "llama-own-loss" && !is_withheld && has("tf-own-compute-loss", release)) factor *= micro_batches;
        CHECK(std::stod(ratio) == Approx(factor).epsilon(0.01));
        ++count;
    }
    CHECK(count >= 60);
}

}  // namespace release_steps_test
