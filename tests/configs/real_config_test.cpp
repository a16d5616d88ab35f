// SPDX-License-Identifier: Apache-2.0
// Tests imports of configs that projects have published. Each config must be read, and its framework must be recognised
// by the keys. A file that is not a config must be refused with a line and column. The files are not part of this
// source tree; the test reads them from a shared folder (test::shared_folder).
#include "core/error.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/policy/policy.hpp"
#include "tests/regex.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace real_config_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> config_files(const fs::path& folder) {
    static const std::set<std::string> endings{".json", ".yaml", ".yml"};
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        // The folder `more` contains configs of frameworks without an importer.
        if (fs::relative(entry.path(), folder).begin()->string() == "more") continue;
        if (entry.is_regular_file() && endings.contains(entry.path().extension().string()))
            files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

/// Returns true if a published file is not valid JSON or YAML, because its placeholders are not quoted.
bool is_broken(const fs::path& file) {
    const std::string path = file.string();
    return path.find("TEMPLATE.json") != std::string::npos || path.find("longspec/exp/") != std::string::npos;
}

/// Returns true if a file is a fragment without keys of a framework: a list of tokens, or settings of Hydra's log
/// folder.
bool is_fragment(const fs::path& file) {
    const std::string path = file.string();
    return path.find("multi_tokens") != std::string::npos || path.find("longspec/hydra/") != std::string::npos;
}

}  // namespace

TEST_CASE("published configs are read, recognised and resolved, each in less than 50 ms of processor time",
          "[import][real]") {
    const fs::path shared = test::shared_folder();
    if (shared.empty() || !fs::is_directory(shared / "configs")) SKIP_TEST("no folder of published configs");
    std::map<std::string, int> recognised;
    int count = 0, refused = 0, fragments = 0;
    double slowest = 0;
    for (const fs::path& file : config_files(shared / "configs")) {
        CAPTURE(file.string());
        ++count;
        const std::string folder = fs::relative(file, shared / "configs").begin()->string();
        const std::string name = file.string();
        const std::clock_t start = std::clock();  // processor time of this program only
        try {
            const ImportResult result = import_config({&name, 1}, {});
            CHECK_FALSE(is_broken(file));
            ++recognised[folder];
            // Files of LongSpec's folder `deepspeed` are configs of DeepSpeed.
            const bool is_part = folder == "longspec" && result.framework->name == "deepspeed";
            CHECK((result.framework->name == folder || is_part));
            CHECK_FALSE(result.resolved.fields().empty());
            for (const Finding& one : result.findings) {
                CAPTURE(one.rule, one.message);
                CHECK_FALSE(one.place.file.empty());
                if (one.code == FindingCode::error || one.code == FindingCode::unknown) CHECK(one.place.line > 0);
            }
            CHECK_NOTHROW(parse_policy(result.policy, "imported.toml"));
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(error.exit() == Exit::bad_input);
            CHECK(test::finds(error.what(), ":[0-9]+:[0-9]+: "));
            CHECK((is_broken(file) || is_fragment(file)));
            (is_broken(file) ? refused : fragments) += 1;
        }
        slowest = std::max(slowest, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    std::string told;
    for (const auto& [folder, number] : recognised) told += " " + folder + " " + std::to_string(number);
    std::cout << "published configs: " << count << ", recognised" << told << ", fragments " << fragments
              << ", no JSON or YAML " << refused << ", slowest " << slowest * 1e3 << " ms" << std::endl;
    CHECK(count >= 312);
    CHECK(refused == 10);
    CHECK(fragments <= 2);
    CHECK(slowest < 0.05);
}

TEST_CASE("published configs of TRL, verl, torchtune and GPT-NeoX are recognised, and their keys are known",
          "[import][real]") {
    const fs::path shared = test::shared_folder();
    if (shared.empty() || !fs::is_directory(shared / "configs/more")) SKIP_TEST("no folder of published configs");
    const std::set<std::string> names{"trl", "verl", "torchtune", "gpt-neox"};
    std::map<std::string, int> recognised;
    for (const auto& entry : fs::directory_iterator(shared / "configs/more")) {
        const std::string path = entry.path().string(), file = entry.path().filename().string();
        const std::string name = file.substr(0, file.find("__"));
        if (!names.contains(name) || entry.path().extension() == ".sh") continue;
        CAPTURE(path);
        const ImportResult result = import_config({&path, 1}, {});
        CHECK(result.framework->name == name);
        CHECK(result.resolved.fields().size() >= 20);
        for (const Finding& one : result.findings) {
            CAPTURE(one.rule, one.key, one.message);
            // TRL's recipes of 2024 have keys that newer versions of Transformers removed.
            CHECK((one.code != FindingCode::unknown || one.rule == "transformers/key-of-other-version"));
        }
        CHECK_NOTHROW(parse_policy(result.policy, "imported.toml"));
        ++recognised[name];
    }
    CHECK(recognised == std::map<std::string, int>{{"trl", 5}, {"verl", 1}, {"torchtune", 3}, {"gpt-neox", 3}});
}

}  // namespace real_config_test
