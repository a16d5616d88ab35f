// SPDX-License-Identifier: Apache-2.0
// Checks the properties of every config that a reader accepts, and of the import of the config.
#pragma once
#include "core/error.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/policy_text/policy_text.hpp"
#include "experiments/files/config/value.hpp"
#include "experiments/policy/policy.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace macheps::fuzz {

inline void check_tree(const files::ConfigValue& value, std::uint32_t lines, int depth, std::size_t& values) {
    require(depth <= files::config_depth_limit, "a tree is within the limit of depth");
    require(++values <= files::config_value_limit, "a tree is within the limit of values");
    require(value.place.line >= 1 && value.place.line <= lines && value.place.column >= 1,
            "the place of a value is in the text");
    require(value.is_map() || value.entries.empty(), "only a map has keys");
    require(value.is_list() || value.items.empty(), "only a list has items");
    require(!value.quoted || value.is_text(), "only a text has quotes");
    for (const files::ConfigValue& item : value.items) check_tree(item, lines, depth + 1, values);
    for (const files::ConfigValue::Entry& entry : value.entries) {
        require(entry.place.line >= 1 && entry.place.line <= lines, "the place of a key is in the text");
        check_tree(entry.value, lines, depth + 1, values);
    }
}

/// Checks that an importer accepts any map, that its findings are complete, and that its policy loads. The bytes of the
/// input choose the importer, so that an input costs only one import.
inline void import_by_one(const files::ConfigValue& root, std::string_view text) {
    std::size_t sum = 0;
    for (const char c : text) sum = sum * 31 + static_cast<unsigned char>(c);
    const configs::Framework& framework = *configs::frameworks()[sum % configs::frameworks().size()];
    if (framework.recognises != nullptr) {
        const int score = framework.recognises(root);
        require(score >= 0 && score <= 100, "recognition is between 0 and 100");
    }
    const configs::ImportOptions options;
    configs::ImportContext context(framework, root, options);
    context.run();
    context.name_known_releases();
    const std::string policy = configs::policy_text(context);
    context.report_defaults();
    context.report_assumed();
    context.report_unknown_versions();
    for (const configs::Finding& one : context.findings()) {
        require(!one.message.empty() && one.rule.find('/') != std::string::npos, "a finding has a rule and a message");
    }
    try {
        policy::parse_policy(policy, "imported.toml");
    } catch (const Error& error) {
        require(false, std::string("an imported policy loads: ") + error.what() + "\n" + policy);
    }
}

/// Reads `text` with the reader `read`. Checks the config and one import of it, or the error of the reader.
template <class Read>
void read_config(std::string_view text, Read read) {
    files::ConfigFile file;
    try {
        file = read(text);
    } catch (const Error& error) {
        require(error.exit() == Exit::bad_input,
                std::string("text that is not a config is a bad input file: ") + error.what());
        require(std::string_view(error.what()).starts_with("fuzz:"),
                std::string("an error names the file: ") + error.what());
        return;
    }
    std::size_t values = 0;
    check_tree(file.root, static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n') + 1), 0, values);
    // A text with a '/' is not imported, because it may contain a path, and an importer could open that file. A config
    // with many values is not imported either, because that would take too long.
    if (file.root.is_map() && text.find('/') == std::string_view::npos && values < 500) import_by_one(file.root, text);
}

}  // namespace macheps::fuzz
