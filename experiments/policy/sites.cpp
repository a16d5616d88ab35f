// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/sites.hpp"

#include <algorithm>
#include <array>

namespace macheps {

namespace {

using namespace std::string_view_literals;

constexpr std::array all_model_names{"gpt2"sv, "llama"sv};

void add_once(std::vector<std::string_view>& list, std::string_view name) {
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
}

/// Calls visit(group, name) for every slot of every kind of site: (`forward`, `a`) for `forward.a`.
template <class Visitor>
void for_each_slot(Visitor&& visit) {
    for (const SiteKind* kind : all_site_kinds) {
        for (const SlotRow& slot : kind->slots) {
            const std::size_t dot = slot.name.find('.');
            visit(slot.name.substr(0, dot), slot.name.substr(dot + 1));
        }
    }
}

/// Where the brace at `open` closes, or npos.
std::size_t closing_brace(std::string_view pattern, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < pattern.size(); ++i) {
        depth += pattern[i] == '{' ? 1 : pattern[i] == '}' ? -1 : 0;
        if (depth == 0) return i;
    }
    return std::string_view::npos;
}

/// [i] is true when the pattern so far can have consumed the first i characters of the name.
using Reached = std::vector<bool>;

/// Carries the whole set of positions through the pattern at once, so that no pattern takes exponential time.
Reached advance(std::string_view pattern, std::string_view name, Reached reached) {
    for (std::size_t p = 0; p < pattern.size(); ++p) {
        Reached next(name.size() + 1, false);
        const char c = pattern[p];
        const std::size_t close = c == '{' ? closing_brace(pattern, p) : std::string_view::npos;
        if (c == '*') {
            bool any = false;
            for (std::size_t i = 0; i <= name.size(); ++i) next[i] = any = any || reached[i];
        } else if (close != std::string_view::npos) {
            int depth = 0;
            for (std::size_t i = p + 1, start = i; i <= close; ++i) {
                if (i == close || (pattern[i] == ',' && depth == 0)) {
                    const Reached ends = advance(pattern.substr(start, i - start), name, reached);
                    for (std::size_t k = 0; k < ends.size(); ++k) next[k] = next[k] || ends[k];
                    start = i + 1;
                } else {
                    depth += pattern[i] == '{' ? 1 : pattern[i] == '}' ? -1 : 0;
                }
            }
            p = close;
        } else {
            for (std::size_t i = 0; i < name.size(); ++i) next[i + 1] = reached[i] && (c == '?' || c == name[i]);
        }
        reached = std::move(next);
    }
    return reached;
}

}  // namespace

std::vector<std::string_view> slots_of(const Site& site) {
    std::vector<std::string_view> slots;
    for (const SlotRow& slot : site.kind.slots) {
        if (slot.only == nullptr || site.*slot.only) slots.push_back(slot.name);
    }
    return slots;
}

std::vector<std::string_view> matmuls_of(const Site& site) {
    return {site.kind.matmuls.begin(), site.kind.matmuls.end()};
}

std::vector<std::string_view> slot_groups() {
    std::vector<std::string_view> groups;
    for_each_slot([&](std::string_view group, std::string_view) { add_once(groups, group); });
    return groups;
}

std::vector<std::string_view> slots_in_group(std::string_view group) {
    std::vector<std::string_view> names;
    for_each_slot([&](std::string_view of, std::string_view name) {
        if (of == group) add_once(names, name);
    });
    return names;
}

bool is_matmul_group(std::string_view group) {
    return std::any_of(std::begin(all_site_kinds), std::end(all_site_kinds), [&](const SiteKind* kind) {
        return std::find(kind->matmuls.begin(), kind->matmuls.end(), group) != kind->matmuls.end();
    });
}

std::span<const std::string_view> model_names() { return all_model_names; }

bool glob_match(std::string_view pattern, std::string_view name) {
    Reached start(name.size() + 1, false);
    start[0] = true;
    return advance(pattern, name, std::move(start)).back();
}

bool braces_match(std::string_view pattern) {
    int depth = 0;
    for (const char c : pattern) {
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (depth < 0) return false;
    }
    return depth == 0;
}

}  // namespace macheps
