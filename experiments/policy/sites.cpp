// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/sites.hpp"

#include "core/text/nesting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace macheps::policy {

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

constexpr std::size_t max_pattern_bytes = 4096;

/// Returns one index for each character of the pattern: for an opening brace, the index of its closing brace. The index
/// is npos for a brace that is not closed and for all other characters. Sets `deepest` to the maximum depth of nesting.
std::vector<std::size_t> closing_braces(std::string_view pattern, std::size_t& deepest) {
    std::vector<std::size_t> closes(pattern.size(), std::string_view::npos), open;
    deepest = 0;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (pattern[i] == '{') open.push_back(i);
        deepest = std::max(deepest, open.size());
        if (pattern[i] != '}' || open.empty()) continue;
        closes[open.back()] = i;
        open.pop_back();
    }
    return closes;
}

/// Matches a pattern against one name. Reads each character of the pattern once and keeps the set of all positions in
/// the name that the pattern can have reached. The time is thus at most proportional to the product of both lengths.
class Glob {
  public:
    Glob(std::string_view pattern, std::string_view name) : pattern_(pattern), name_(name) {}

    bool matches() const {
        const Reached ends = advance(0, pattern_.size(), {0});
        return !ends.empty() && ends.back() == name_.size();
    }

  private:
    /// Positions in the name that the pattern read so far can have reached, in ascending order.
    using Reached = std::vector<std::size_t>;

    /// Matches the characters [from, to) of the pattern from each position in `reached`. Returns the positions after
    /// them.
    Reached advance(std::size_t from, std::size_t to, Reached reached) const {
        for (std::size_t p = from; p < to && !reached.empty(); ++p) {
            const char c = pattern_[p];
            if (closes_[p] != std::string_view::npos) {
                reached = through_alternatives(p, reached);
                p = closes_[p];
            } else if (c == '*') {
                const std::size_t first = reached.front();
                reached.resize(name_.size() + 1 - first);
                std::iota(reached.begin(), reached.end(), first);
            } else {
                std::size_t kept = 0;
                for (const std::size_t i : reached) {
                    if (i < name_.size() && (c == '?' || c == name_[i])) reached[kept++] = i + 1;
                }
                reached.resize(kept);
            }
        }
        return reached;
    }

    /// Matches the alternatives inside the braces that open at `open`.
    Reached through_alternatives(std::size_t open, const Reached& reached) const {
        Reached next;
        for (std::size_t i = open + 1, start = i; i <= closes_[open]; ++i) {
            if (i == closes_[open] || pattern_[i] == ',') {
                const Reached ends = advance(start, i, reached);
                next.insert(next.end(), ends.begin(), ends.end());
                start = i + 1;
            } else if (closes_[i] != std::string_view::npos) {
                i = closes_[i];  // commas inside belong to the inner braces
            }
        }
        std::sort(next.begin(), next.end());
        next.erase(std::unique(next.begin(), next.end()), next.end());
        return next;
    }

    std::string_view pattern_, name_;
    std::size_t deepest_ = 0;
    std::vector<std::size_t> closes_ = closing_braces(pattern_, deepest_);
};

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
    // Most patterns do not match. Comparing the text before the first special character is usually enough to reject
    // them.
    const std::size_t plain = std::min(pattern.find_first_of("*?{"), pattern.size());
    if (!name.starts_with(pattern.substr(0, plain))) return false;
    return plain == pattern.size() ? name.size() == plain : Glob(pattern, name).matches();
}

std::string problem_of_pattern(std::string_view pattern) {
    if (pattern.size() > max_pattern_bytes) {
        return fmt::format("the pattern has {} bytes, more than {}", pattern.size(), max_pattern_bytes);
    }
    std::size_t deepest = 0;
    closing_braces(pattern, deepest);
    if (deepest > max_levels) return fmt::format("its braces nest deeper than {} levels", max_levels);
    return {};
}

bool braces_match(std::string_view pattern) {
    int depth = 0;
    for (const char c : pattern) {
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (depth < 0) return false;
    }
    return depth == 0;
}

}  // namespace macheps::policy
