// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/recognition/recognise.hpp"
#include "core/error.hpp"
#include "core/text/split.hpp"
#include "experiments/configs/framework_keys.hpp"
#include "experiments/configs/recognition/marks.hpp"
#include "experiments/files/config/command_line/hydra_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace macheps::configs {

namespace {

// A framework knows at least this share of the top-level keys of its configs. Among published configs, frameworks know
// 0.64 to 1 of the keys of the configs that belong to them, and at most 0.33 of those of others, or 0.54 of the options
// of scripts.
constexpr double min_share = 0.6;
constexpr double min_share_of_few = 0.5;
constexpr std::size_t few_keys = 4;
// Without a mark, the share must be this much larger than that of any other framework.
constexpr double min_lead = 0.2;

using Names = std::set<std::string_view>;

Names names_of(const Framework& framework) {
    Names names;
    for (const KeyRow& row : framework.keys) names.insert(row.path.substr(0, row.path.find('.')));
    for (const std::string_view key : listed_names(framework.inert_keys)) names.insert(key.substr(0, key.find('.')));
    for (const FrameworkKey& key : framework_keys(framework_key_text(framework.name)))
        names.insert(key.path.substr(0, key.path.find('.')));
    for (const Framework* other : sharing_frameworks(framework)) names.merge(names_of(*other));
    return names;
}

/// Returns the top-level keys that a framework knows in any version.
const Names& known_names(const Framework& framework) {
    static std::map<const Framework*, Names> all;
    const auto found = all.find(&framework);
    return found != all.end() ? found->second : all.emplace(&framework, names_of(framework)).first->second;
}

struct Evidence {
    const Framework* framework;
    bool has_mark = false;
    int score = 0;
    std::size_t known = 0;
    double share = 0;

    bool is_plausible(std::size_t keys) const {
        return (has_mark || score > 0) && share >= (keys <= few_keys ? min_share_of_few : min_share);
    }
};

Evidence evidence_for(const Framework& framework, const files::ConfigFile& config) {
    Evidence evidence{.framework = &framework};
    evidence.has_mark = !marks_of(framework.marks, config).empty();
    evidence.score = framework.recognises == nullptr ? 0 : framework.recognises(config.root);
    const Names& names = known_names(framework);
    files::ConfigValue without_sections;
    if (framework.ignores_sections) {
        without_sections = config.root;
        drop_sections(without_sections);
    }
    std::vector<files::ConfigValue::Entry> entries =
        framework.ignores_sections ? without_sections.entries : config.root.entries;
    if (config.command) {
        std::erase_if(entries, [](const auto& entry) { return files::find_hydra_option(entry.key) != nullptr; });
    }
    const auto is_known = [&](const files::ConfigValue::Entry& entry) { return names.contains(entry.key); };
    evidence.known = static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), is_known));
    if (!entries.empty()) evidence.share = static_cast<double>(evidence.known) / static_cast<double>(entries.size());
    return evidence;
}

/// Replaces plausible frameworks that do not know a key by those that know all keys. A framework with a mark stays.
void prefer_complete(std::vector<Evidence>& plausible, const std::vector<Evidence>& all) {
    const auto is_complete = [](const Evidence& one) { return one.share == 1; };
    const auto has_mark = [](const Evidence& one) { return one.has_mark; };
    if (plausible.empty() || std::any_of(plausible.begin(), plausible.end(), has_mark)) return;
    if (std::none_of(all.begin(), all.end(), is_complete)) return;
    if (std::none_of(plausible.begin(), plausible.end(), is_complete)) plausible = all;
    std::erase_if(plausible, [&](const Evidence& one) { return !is_complete(one); });
}

/// Returns the frameworks of the plausible evidence that are most likely, best first. A mark counts more than the share
/// of known keys, and the share more than the score.
std::vector<const Framework*> likeliest(std::vector<Evidence> all) {
    const bool any_mark = std::any_of(all.begin(), all.end(), [](const Evidence& one) { return one.has_mark; });
    if (any_mark) std::erase_if(all, [](const Evidence& one) { return !one.has_mark; });
    const auto better = [](const Evidence& a, const Evidence& b) {
        return a.share != b.share ? a.share > b.share : a.score > b.score;
    };
    std::stable_sort(all.begin(), all.end(), better);
    std::vector<const Framework*> owners;
    for (const Evidence& one : all) {
        const Evidence& best = all.front();
        const bool is_equal =
            any_mark ? one.share == best.share && one.score == best.score : best.share - one.share < min_lead;
        if (is_equal) owners.push_back(one.framework);
    }
    return owners;
}

bool names_program(const Framework& framework, const files::ConfigFile& config) {
    const std::vector<std::string_view> marks = listed_names(framework.marks);
    return std::any_of(marks.begin(), marks.end(),
                       [&](std::string_view mark) { return mark.starts_with('@') && !marks_of(mark, config).empty(); });
}

/// See Recognition::also.
const Framework* also_fits(const Framework& owner, const std::vector<Evidence>& all, const files::ConfigFile& config) {
    const auto evidence = [&](const Framework& one) -> const Evidence& {
        return *std::find_if(all.begin(), all.end(), [&](const Evidence& each) { return each.framework == &one; });
    };
    if (evidence(owner).score > 0 || names_program(owner, config)) return nullptr;
    for (const Framework* other : sharing_frameworks(owner)) {
        if (evidence(*other).known == evidence(owner).known) return other;
    }
    return nullptr;
}

/// Returns the names that only `other` knows, such as the arguments of its scripts. Frameworks whose keys may be at the
/// root of a config of `owner` do not count as `owner`.
Names only_of(const Framework& other, const Framework& owner) {
    Names names;
    for (const std::string_view key : listed_names(other.inert_keys)) names.insert(key);
    for (const std::string_view key : listed_names(other.own_class_keys)) names.insert(key);
    for (const KeyRow& row : owner.keys) names.erase(row.path);
    for (const std::string_view key : listed_names(owner.inert_keys)) names.erase(key);
    for (const FrameworkKey& key : framework_keys(framework_key_text(owner.name))) names.erase(key.path);
    return names;
}

std::string nearest_of(const std::vector<Evidence>& all, std::size_t keys) {
    const Evidence* best = nullptr;
    for (const Evidence& one : all) {
        if ((one.has_mark || one.score > 0) && (best == nullptr || one.share > best->share)) best = &one;
    }
    if (best == nullptr) return {};
    return fmt::format("{} knows only {} of the {} top-level keys", best->framework->title, best->known, keys);
}

}  // namespace

Recognition recognise(const files::ConfigFile& config) {
    Recognition result;
    for (const RefusedFramework& row : refused_frameworks()) {
        std::vector<std::string> marks = marks_of(row.marks, config);
        if (marks.empty()) continue;
        result.refused = &row;
        result.marks = std::move(marks);
        return result;
    }
    std::vector<Evidence> all;
    for (const Framework* framework : frameworks()) all.push_back(evidence_for(*framework, config));
    const std::size_t keys = config.root.entries.size();
    std::vector<Evidence> plausible = all;
    std::erase_if(plausible, [&](const Evidence& one) { return !one.is_plausible(keys); });
    prefer_complete(plausible, all);
    result.owners = likeliest(std::move(plausible));
    if (result.owners.empty()) result.nearest = nearest_of(all, keys);
    if (result.owners.size() == 1) result.also = also_fits(*result.owners.front(), all, config);
    if (result.also != nullptr) {
        const Names names = only_of(*result.also, *result.owners.front());
        const auto& entries = config.root.entries;
        if (std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return names.contains(entry.key); }))
            result.owners = {std::exchange(result.also, nullptr)};
    }
    return result;
}

bool looks_like_config(const files::ConfigFile& config) {
    if (config.python_statement) return false;
    const Recognition found = recognise(config);
    return !found.owners.empty() || found.refused != nullptr;
}

void refuse_by_name(const Recognition& recognition, const files::ConfigFile& config) {
    const RefusedFramework& row = *recognition.refused;
    std::vector<std::string> marks = recognition.marks;
    std::erase_if(marks, [](const std::string& mark) { return mark.empty(); });
    constexpr std::size_t max_marks = 3;
    if (marks.size() > max_marks) marks.resize(max_marks);
    const std::string found = marks.empty() ? "" : fmt::format(" ({})", fmt::join(marks, "; "));
    const files::ConfigPlace& place = config.python_statement ? *config.python_statement : config.root.place;
    throw Error({.what = fmt::format("this looks like {}{}, which is not read", row.title, found),
                 .where = to_string(place),
                 .fix = row.remedy.empty() ? "pass --framework NAME if it is a config of another framework"
                                           : std::string(row.remedy)});
}

}  // namespace macheps::configs
