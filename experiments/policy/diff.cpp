// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace macheps::policy {

namespace {

constexpr std::string_view block_word = "block.";

/// Splits `block.3.mlp.up` into (`3`, `mlp.up`). The first part is empty if the site is outside the blocks.
std::pair<std::string, std::string> split_block(const std::string& site) {
    if (!site.starts_with(block_word)) return {"", site};
    const std::size_t dot = site.find('.', block_word.size());
    return {site.substr(block_word.size(), dot - block_word.size()), site.substr(dot + 1)};
}

struct Cells {
    std::string cast, machine;
};

/// Returns the cast and the machine of each `site:slot`. The machine is `-` if the slot has none.
std::map<std::string, Cells> cells_of(const ResolvedPolicy& policy) {
    std::map<std::string, Cells> cells;
    for (const ResolvedPolicy::Row& row : policy.table()) {
        cells[row.site + ":" + row.slot] = {row.cast, row.machine.empty() ? "-" : row.machine};
    }
    return cells;
}

/// Adds a difference for each linear that one policy leaves out and the other does not.
void compare_left_out(const ResolvedPolicy& a, const ResolvedPolicy& b, std::vector<Difference>& list) {
    const std::vector<std::string> left_a = a.left_out_sites(), left_b = b.left_out_sites();
    const std::set<std::string> in_a(left_a.begin(), left_a.end()), in_b(left_b.begin(), left_b.end());
    std::set<std::string> all = in_a;
    all.insert(in_b.begin(), in_b.end());
    for (const std::string& site : all) {
        if (in_a.contains(site) != in_b.contains(site))
            list.push_back(
                {"left_out", site, "", in_a.contains(site) ? "yes" : "no", in_b.contains(site) ? "yes" : "no"});
    }
}

/// Merges differences that are equal except for the number of the block. The keys of `blocks_of` are names of sites
/// without the block, such as `mlp.up`. Each value is the number of blocks with this site.
std::vector<Difference> folded(const std::vector<Difference>& list,
                               const std::map<std::string, std::size_t>& blocks_of) {
    struct Group {
        Difference first;
        std::vector<std::string> blocks;
    };
    std::vector<Group> groups;
    for (const Difference& each : list) {
        const std::pair<std::string, std::string> place = split_block(each.site);
        const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
            Difference moved = group.first;
            moved.site = each.site;
            return !place.first.empty() && moved == each && split_block(group.first.site).second == place.second;
        });
        if (same == groups.end()) {
            groups.push_back({each, {place.first}});
        } else {
            same->blocks.push_back(place.first);
        }
    }
    std::vector<Difference> result;
    for (Group& group : groups) {
        const auto [block, rest] = split_block(group.first.site);
        if (!block.empty()) {
            const std::size_t all = blocks_of.at(rest);
            const bool is_everywhere = group.blocks.size() == all && all > 1;
            const std::string which = is_everywhere              ? "*"
                                      : group.blocks.size() == 1 ? block
                                                                 : fmt::format("{{{}}}", fmt::join(group.blocks, ","));
            group.first.site = fmt::format("{}{}.{}", block_word, which, rest);
        }
        result.push_back(std::move(group.first));
    }
    return result;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

/// Adds a difference for each setting (the kind and the keys) that differs between two loss scalers. If only one of the
/// two kinds of scaler has a key, this also counts as a difference. The keys of `a` come first.
void compare_scalers(const LossScalerConfig& a, const LossScalerConfig& b, std::vector<Difference>& list) {
    const Settings of_a = settings_of(a), of_b = settings_of(b);
    const auto find = [](const Settings& settings, const std::string& name) {
        return std::find_if(settings.begin(), settings.end(), [&](const auto& each) { return each.first == name; });
    };
    for (const auto& [name, text] : of_a) {
        const auto other = find(of_b, name);
        const std::string theirs = other == of_b.end() ? "-" : other->second;
        if (theirs != text) list.push_back({"loss_scaler", "", name, text, theirs});
    }
    for (const auto& [name, text] : of_b) {
        if (find(of_a, name) == of_a.end()) list.push_back({"loss_scaler", "", name, "-", text});
    }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> settings_of(const LossScalerConfig& config) {
    Settings settings{{"kind", std::string(config.kind->name)}};
    for (const ScalerKey& key : config.kind->keys) {
        settings.emplace_back(key.name, to_string(key, config.find(key.name)));
    }
    return settings;
}

std::vector<Difference> differences(const ResolvedPolicy& a, const ResolvedPolicy& b) {
    std::vector<Difference> settings, sites;
    compare_scalers(a.loss_scaler, b.loss_scaler, settings);
    const Settings reduce_a = settings_of(a.reduce), reduce_b = settings_of(b.reduce);
    for (std::size_t i = 0; i < reduce_a.size(); ++i) {
        const auto& [name, text] = reduce_a[i];
        if (reduce_b[i].second != text) settings.push_back({"reduce", "", name, text, reduce_b[i].second});
    }
    const auto arithmetic = [](const ResolvedPolicy& p) {
        return to_string(CastRule{.format = p.optimizer_arithmetic});
    };
    if (arithmetic(a) != arithmetic(b))
        settings.push_back({"optimizer", "", "arithmetic", arithmetic(a), arithmetic(b)});
    for (const TrainingKey& key : training_keys()) {
        const std::string of_a = key.text(a.training).value_or("-"), of_b = key.text(b.training).value_or("-");
        if (of_a != of_b) settings.push_back({std::string(key.table), "", std::string(key.name), of_a, of_b});
    }
    compare_left_out(a, b, sites);

    const auto cells_a = cells_of(a), cells_b = cells_of(b);
    std::map<std::string, std::set<std::string>> blocks;
    for (const auto& [site, slot] : a.order) {
        const auto [block, rest] = split_block(site);
        blocks[rest].insert(block);
        const Cells &x = cells_a.at(site + ":" + slot), &y = cells_b.at(site + ":" + slot);
        if (x.cast != y.cast) sites.push_back({"cast", site, slot, x.cast, y.cast});
        if (x.machine != y.machine) sites.push_back({"machine", site, slot, x.machine, y.machine});
    }
    std::map<std::string, std::size_t> blocks_of;
    for (const auto& [rest, names] : blocks) blocks_of[rest] = names.size();
    for (Difference& each : folded(sites, blocks_of)) settings.push_back(std::move(each));
    return settings;
}

std::string difference_table(const std::vector<Difference>& list, const std::string& name_a,
                             const std::string& name_b) {
    // Slots of one site that change in the same way share a line.
    struct Line {
        Difference first;
        std::string slots;
    };
    std::vector<Line> lines;
    for (const Difference& each : list) {
        const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
            return !each.site.empty() && line.first.what == each.what && line.first.site == each.site &&
                   line.first.a == each.a && line.first.b == each.b;
        });
        if (same == lines.end()) {
            lines.push_back({each, each.slot});
        } else {
            same->slots += " " + each.slot;
        }
    }
    const auto place = [](const Difference& d) { return d.site.empty() ? d.what : d.site; };
    std::size_t place_width = 4, a_width = name_a.size(), b_width = name_b.size();
    for (const Line& line : lines) {
        place_width = std::max(place_width, place(line.first).size());
        a_width = std::max(a_width, line.first.a.size());
        b_width = std::max(b_width, line.first.b.size());
    }
    std::string text =
        fmt::format("{:<{}}  {:<{}}  {:<{}}  SLOTS\n", "SITE", place_width, name_a, a_width, name_b, b_width);
    for (const Line& line : lines) {
        const bool has_word = line.first.what == "machine" || line.first.what == "left_out";
        text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}{}\n", place(line.first), place_width, line.first.a, a_width,
                            line.first.b, b_width, has_word ? "(" + line.first.what + ") " : "", line.slots);
    }
    return text;
}

}  // namespace macheps::policy
