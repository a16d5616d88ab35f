// SPDX-License-Identifier: Apache-2.0
// A class that imports a config given as text, with short accessors for the results.
#pragma once
#include "tests/configs/import_case.hpp"

#include <map>

namespace macheps::test {

struct Asked {
    std::string framework{}, version{}, device = "a100", checkpoint = "fp32", file = "config.yaml";
    std::map<std::string, configs::FrameworkVersion, std::less<>> versions{};
    std::map<std::string, std::string, std::less<>> environment{};
};

/// Returns a folder for files that configs name.
inline std::filesystem::path import_folder() {
    std::filesystem::path folder = memory_folder() / "imported";
    std::filesystem::create_directories(folder);
    return folder;
}

class Imported {
  public:
    explicit Imported(const std::string& text, const Asked& asked = {}) {
        const std::filesystem::path path = import_folder() / asked.file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
        configs::ImportOptions options;
        options.framework = asked.framework;
        options.device = asked.device;
        options.checkpoint_dtype = asked.checkpoint;
        options.versions = asked.versions;
        if (!asked.version.empty()) options.versions.insert_or_assign("", configs::parse_version(asked.version));
        options.environment = asked.environment;
        const std::string files[] = {path.string()};
        result_ = configs::import_config(files, options);
    }

    const configs::ImportResult& result() const { return result_; }
    /// Returns the value of a field, such as "H", "ds-zero" or "true", or an empty text if nothing set the field.
    std::string field(std::string_view name) const {
        const configs::ResolvedField* found = result_.resolved.find(name);
        return found == nullptr ? std::string{} : words_of(found->value.value);
    }
    std::string part(std::string_view name, std::string_view of_part) const {
        const configs::ResolvedField* found = result_.resolved.find(name);
        if (found == nullptr) return {};
        for (const auto& [part_name, value] : found->value.parts) {
            if (part_name == of_part) return words_of(value);
        }
        return {};
    }
    /// Returns the code and the rule, such as "E axolotl/bf16-full", of each finding whose code is one of `codes`.
    std::vector<std::string> findings(std::string_view codes = "EUWCDIN") const {
        std::vector<std::string> found;
        for (const configs::Finding& one : result_.findings) {
            const char code = static_cast<char>(one.code);
            if (codes.find(code) != std::string_view::npos) found.push_back(fmt::format("{} {}", code, one.rule));
        }
        return found;
    }
    bool has(std::string_view code_and_rule) const {
        for (const std::string& one : findings()) {
            if (one == code_and_rule) return true;
        }
        return false;
    }

  private:
    configs::ImportResult result_;
};

}  // namespace macheps::test
