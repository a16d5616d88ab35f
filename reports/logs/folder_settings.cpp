// SPDX-License-Identifier: Apache-2.0
#include "reports/logs/folder_settings.hpp"

#include "core/error.hpp"
#include "core/text/json.hpp"
#include "reports/logs/manifest_text.hpp"
#include "reports/rows/checksum.hpp"
#include "reports/rows/event.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::reports {

namespace {

namespace fs = std::filesystem;

/// Manifest keys that do not count as settings. Their values follow from other keys, or are paths of files.
constexpr std::string_view no_settings[] = {"parameters", "file", "found_at"};

std::string setting_text(const Json& value) {
    if (value.is_string()) return value.string();
    if (value.is_number_float()) return fmt::format("{}", value.get<double>());
    return value.dump(-1, Json::BadUtf8::is_replaced);
}

void append_settings(FolderSettings& settings, const std::string& prefix, const Json& group) {
    if (!group.is_object()) return;
    for (const auto& [key, value] : group.items()) {
        if (std::find(std::begin(no_settings), std::end(no_settings), key) != std::end(no_settings)) continue;
        if (value.is_object()) {
            append_settings(settings, prefix + key + ".", value);
        } else {
            settings.emplace_back(prefix + key, setting_text(value));
        }
    }
}

/// Returns the value of a named option, or an empty string if the setting does not have it.
const std::string& value_in(const FolderSettings& setting, const std::string& name) {
    static const std::string none;
    const auto found = std::find_if(setting.begin(), setting.end(), [&](const auto& one) { return one.first == name; });
    return found == setting.end() ? none : found->second;
}

/// Returns whether `to` is a function of `from`: equal values of `from` always come with equal values of `to`.
bool follows(const std::vector<std::string>& from, const std::vector<std::string>& to) {
    std::map<std::string_view, std::string_view> seen;
    for (std::size_t i = 0; i < from.size(); ++i) {
        if (seen.emplace(from[i], to[i]).first->second != to[i]) return false;
    }
    return true;
}

/// Returns a checksum of the TOML texts of a policy and of all policies that it extends.
std::uint64_t checksum_of_policy(const Json& policy) {
    Checksum sum;
    const auto add = [&sum](const Json& source) {
        const Json* text = source.find("toml");
        if (text != nullptr && text->is_string()) sum.update(text->string());
        sum.update("\n");
    };
    add(policy);
    if (const Json* bases = policy.find("extends"); bases != nullptr && bases->is_array()) {
        for (const Json& base : *bases) add(base);
    }
    return sum.value();
}

}  // namespace

FolderSettings folder_settings(const Json& manifest) {
    FolderSettings settings;
    constexpr std::pair<const char*, const char*> groups[] = {{"model", ""}, {"data", "data."}, {"train", ""}};
    for (const auto& [group, prefix] : groups) {
        if (const Json* found = manifest.find(group)) append_settings(settings, prefix, *found);
    }
    return settings;
}

SettingAxes setting_axes(const std::vector<FolderSettings>& settings) {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const FolderSettings& setting : settings) {
        for (const auto& [name, value] : setting) {
            if (seen.insert(name).second) names.push_back(name);
        }
    }
    struct Axis {
        std::string name;
        std::vector<std::string> values;
        const Axis* followed = nullptr;
    };
    std::vector<Axis> axes;
    for (const std::string& name : names) {
        Axis axis{.name = name, .values = {}};
        for (const FolderSettings& setting : settings) axis.values.push_back(value_in(setting, name));
        const bool differs = std::any_of(axis.values.begin(), axis.values.end(),
                                         [&](const std::string& value) { return value != axis.values.front(); });
        if (differs) axes.push_back(std::move(axis));
    }
    // An axis is left out only if an earlier axis in `order` determines it. The learning rate is first, so it is kept.
    std::vector<Axis*> order;
    for (Axis& axis : axes) order.push_back(&axis);
    std::stable_partition(order.begin(), order.end(), [](const Axis* axis) { return axis->name == "lr"; });
    for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t k = 0; k < i && order[i]->followed == nullptr; ++k) {
            if (order[k]->followed == nullptr && follows(order[k]->values, order[i]->values))
                order[i]->followed = order[k];
        }
    }
    SettingAxes out;
    std::map<std::string, std::vector<std::string>> left_out;
    out.values.resize(settings.size());
    for (const Axis& axis : axes) {
        if (axis.followed != nullptr) {
            left_out[axis.followed->name].push_back(axis.name);
            continue;
        }
        out.names.push_back(axis.name);
        for (std::size_t i = 0; i < settings.size(); ++i) out.values[i].push_back(axis.values[i]);
    }
    for (const auto& [name, followers] : left_out) {
        out.notes.push_back(fmt::format("{}: not shown, because {} determines {}", fmt::join(followers, ", "), name,
                                        followers.size() == 1 ? "it" : "them"));
    }
    return out;
}

std::string last_name(const fs::path& folder) {
    return (folder.filename().empty() ? folder.parent_path() : folder).filename().string();
}

void FolderManifests::add(const fs::path& folder) {
    const fs::path path = folder / "manifest.json";
    const std::string text = fs::exists(path) ? read_manifest_text(path) : std::string{};
    const Json manifest = Json::parse_or_null(text);
    if (text.empty()) {
        ++without_manifest_;
    } else if (!manifest.is_object()) {
        throw Error(
            {.what = "the file is not a JSON object", .where = path.string(), .fix = "restore or delete the file"});
    }
    if (const Json* schema = manifest.find("schema");
        schema != nullptr && schema->is_number_integer() && schema->get<double>() > schema_version) {
        throw Error({.what = fmt::format("the file has schema {}, but this program supports only schemas up to {}",
                                         schema->get<double>(), schema_version),
                     .where = path.string(),
                     .fix = "use a newer version of macheps"});
    }
    const std::size_t number = setting_of_.size();
    FolderSettings settings = folder_settings(manifest);
    const auto [at, is_new] = index_of_.try_emplace({settings.begin(), settings.end()}, settings_.size());
    if (is_new) settings_.push_back(std::move(settings));
    setting_of_.push_back(at->second);
    ManifestFacts facts = manifest_facts(manifest);
    facts.seeds.clear();  // so that directories that differ only in their seeds share one entry
    const auto known = std::find(facts_.begin(), facts_.end(), facts);
    facts_of_.push_back(static_cast<std::size_t>(known - facts_.begin()));
    if (known == facts_.end()) facts_.push_back(std::move(facts));
    const Json *program = manifest.find("created_by"), *git = manifest.find("git");
    if (program != nullptr && git != nullptr) programs_.insert(setting_text(*program) + " " + setting_text(*git));
    if (const Json* policies = manifest.find("policies"); policies != nullptr && policies->is_object())
        add_policies(number, folder, manifest, *policies);
    if (manifest.is_object()) methods_.add(manifest);
}

void FolderManifests::add_policies(std::size_t number, const fs::path& folder, const Json& manifest,
                                   const Json& policies) {
    for (const auto& [policy, json] : policies.items()) {
        std::map<std::uint64_t, std::string>& texts = texts_[policy];
        const auto [text, is_new] = texts.try_emplace(checksum_of_policy(json), policy);
        if (is_new && texts.size() > 1) text->second = fmt::format("{}@{}", policy, last_name(folder));
        // Two directories in different folders may have the same name.
        const auto is_same = [&shown = text->second](const auto& other) { return other.second == shown; };
        if (is_new && std::count_if(texts.begin(), texts.end(), is_same) > 1)
            text->second = fmt::format("{}@{}", policy, folder.string());
        if (text->second != policy) renamed_[{number, policy}] = text->second;
    }
    for (const auto& [policy, json] : policies.items()) methods_.add_policy(shown(number, policy), policy, manifest);
}

std::string FolderManifests::shown(std::size_t folder, const std::string& policy) const {
    const auto found = renamed_.find({folder, policy});
    return found == renamed_.end() ? policy : found->second;
}

}  // namespace macheps::reports
