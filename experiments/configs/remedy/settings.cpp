// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/remedy/settings.hpp"

#include <fmt/format.h>

#include <regex>

namespace macheps::configs {

namespace {

/// Returns the path of a key that the advice of a finding names.
std::string path_of(const Finding& finding, const std::string& name) {
    for (const std::string& key : finding.keys) {
        if (key == name || key.ends_with("." + name)) return key;
    }
    // A setting with its section belongs to the config of DeepSpeed, which may be a part of this config.
    const bool has_section = name.find('.') != std::string::npos;
    if (has_section && finding.key.substr(0, finding.key.find('.')) == "deepspeed") return "deepspeed." + name;
    const std::size_t dot = finding.key.rfind('.');
    return dot != std::string::npos && !has_section ? finding.key.substr(0, dot + 1) + name : name;
}

}  // namespace

std::vector<Setting> settings_in(std::string_view advice, bool has_options) {
    static const std::regex yaml(R"re(^"?([\w.]+)"?: ("[^"]*"|\[[^\]]*\]|[\w.+-]+)(?![\w{]))re");
    static const std::regex option(R"re(^--([\w-]+)(?: ([\w.+-]+))?(?=$|,| or | --))re");
    static const std::regex section(R"re(^"?(\w+)"?: \{"?(\w+)"?: ("[^"]*"|[\w.+-]+)\})re");
    std::string rest(advice);
    std::vector<Setting> settings;
    for (;;) {
        std::smatch found;
        if (std::regex_search(rest, found, section))
            settings.push_back({fmt::format("{}.{}", found[1].str(), found[2].str()), found[3]});
        else if (std::regex_search(rest, found, yaml))
            settings.push_back({found[1], found[2]});
        else if (has_options && std::regex_search(rest, found, option))
            settings.push_back({found[1], found[2].matched ? found[2].str() : "true"});
        else
            return {};
        rest = found.suffix();
        if (rest.starts_with(" with "))
            rest.erase(0, 6);
        else if (rest.starts_with(" --"))
            rest.erase(0, 1);
        else
            return settings;
    }
}

std::vector<Setting> settings_of(const Finding& finding) {
    std::vector<Setting> settings = settings_in(finding.instead, finding.rule.starts_with("megatron/"));
    for (Setting& setting : settings) setting.path = path_of(finding, setting.path);
    return settings;
}

}  // namespace macheps::configs
