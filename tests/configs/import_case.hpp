// SPDX-License-Identifier: Apache-2.0
// Functions that import configs which a test gives as text, and return the results as text.
#pragma once
#include "experiments/configs/framework.hpp"
#include "experiments/configs/import.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::test {

/// A temporary folder for config files. The destructor removes it.
class ConfigFolder {
  public:
    ConfigFolder() : path_(memory_folder() / "configs") { std::filesystem::create_directories(path_); }
    ~ConfigFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string write(const std::string& name, std::string_view text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
        return (path_ / name).string();
    }

  private:
    std::filesystem::path path_;
};

/// Options of an import. Versions are written as on the command line: "deepspeed=0.16.5,transformers=4.41".
struct Told {
    std::string framework{}, versions{}, device = "h100", checkpoint = "fp32";
};

inline configs::ImportResult import_files(const std::vector<std::string>& files, const Told& told) {
    configs::ImportOptions options;
    options.framework = told.framework;
    options.device = told.device;
    options.checkpoint_dtype = told.checkpoint;
    options.device_is_default = options.checkpoint_is_default = false;
    std::string_view rest = told.versions;
    while (!rest.empty()) {
        const std::string_view one = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
        const std::size_t sign = one.find('=');
        options.versions[std::string(one.substr(0, sign))] = configs::parse_version(one.substr(sign + 1));
    }
    return configs::import_config(files, options);
}

inline configs::ImportResult import_text(std::string_view text, const Told& told) {
    const ConfigFolder folder;
    return import_files({folder.write("config.yaml", text)}, told);  // JSON is YAML
}

inline const configs::Finding* find_rule(const configs::ImportResult& result, std::string_view rule, char code = 0) {
    for (const configs::Finding& one : result.findings) {
        if (one.rule == rule && (code == 0 || static_cast<char>(one.code) == code)) return &one;
    }
    return nullptr;
}

inline std::string words_of(const configs::FieldScalar& value) {
    if (const std::string* word = std::get_if<std::string>(&value)) return *word;
    if (const double* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
    return std::get<bool>(value) ? "true" : "false";
}

/// Returns a field with its parts, such as "ds-zero init_scale=65536 hysteresis=2", or "unset" if nothing set it.
inline std::string field_of(const configs::ImportResult& result, std::string_view field) {
    const configs::ResolvedField* found = result.resolved.find(field);
    if (found == nullptr) return "unset";
    std::string text = words_of(found->value.value);
    for (const auto& [name, value] : found->value.parts) text += fmt::format(" {}={}", name, words_of(value));
    return text;
}

/// Returns some fields with their values, such as "store=F compute=B".
inline std::string fields_of(const configs::ImportResult& result, const std::vector<std::string_view>& fields) {
    std::string text;
    for (std::string_view field : fields) {
        const configs::ResolvedField* found = result.resolved.find(field);
        text += fmt::format("{}{}={}", text.empty() ? "" : " ", field, found ? words_of(found->value.value) : "unset");
    }
    return text;
}

/// A test case for one finding. An import of the config `text` must report a finding with this rule and this code if
/// `speaks` is true, and must not report it otherwise.
struct Trigger {
    const char *text, *versions, *device, *rule;
    char code;
    bool speaks;
    const char* why;
};

inline void check_triggers(std::string_view framework, const std::vector<Trigger>& triggers) {
    for (const Trigger& one : triggers) {
        CAPTURE(one.text, one.versions, one.device, one.rule, one.code, one.why);
        const configs::ImportResult result = import_text(
            one.text, {.framework = std::string(framework), .versions = one.versions, .device = one.device});
        std::string said;
        for (const configs::Finding& finding : result.findings)
            said += fmt::format("{} {} [{}] {}\n", static_cast<char>(finding.code), finding.rule, finding.key,
                                finding.message);
        CAPTURE(said);
        const configs::Finding* found = find_rule(result, one.rule, one.code);
        CHECK((found != nullptr) == one.speaks);
        if (found != nullptr) CHECK_FALSE(found->message.empty());
        if (one.speaks && one.code == 'E') CHECK(result.refused());
    }
}

}  // namespace macheps::test
