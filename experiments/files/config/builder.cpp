// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/builder.hpp"
#include "core/error.hpp"
#include "core/text/shown.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::files {

namespace {

struct Extent {
    std::size_t values = 1;
    int depth = 0;  // levels of nested lists and maps
};

/// Returns the number of values in `value`, including itself and all nested values, and the depth of the nesting. The
/// value may be a large tree, because an alias repeats the whole value that it names.
Extent extent_of(const ConfigValue& value) {
    Extent all;
    const auto count = [&](const ConfigValue& inner) {
        const Extent one = extent_of(inner);
        all.values += one.values;
        all.depth = std::max(all.depth, one.depth);
    };
    for (const ConfigValue& item : value.items) count(item);
    for (const ConfigValue::Entry& entry : value.entries) count(entry.value);
    if (value.is_list() || value.is_map()) ++all.depth;
    return all;
}

}  // namespace

void ConfigBuilder::open(ConfigValue::Kind kind, const ConfigPlace& place) {
    if (static_cast<int>(open_.size()) >= config_depth_limit) config_text::too_deep(place);
    Frame frame;
    frame.value.kind = kind;
    frame.value.place = place;
    if (++values_ > config_value_limit) config_text::too_many(place);
    open_.push_back(std::move(frame));
}

void ConfigBuilder::key(std::string text, const ConfigPlace& place, bool merges) {
    Frame& frame = open_.back();
    frame.key = printable(text);
    frame.key_place = place;
    frame.has_key = true;
    frame.merges = merges;
}

void ConfigBuilder::add(ConfigValue value) {
    if (value.kind == ConfigValue::Kind::text) value.written = printable_lines(value.written);
    const Extent extent = extent_of(value);
    values_ += extent.values;
    if (values_ > config_value_limit) config_text::too_many(value.place);
    if (static_cast<int>(open_.size()) + extent.depth > config_depth_limit) config_text::too_deep(value.place);
    put(std::move(value));
}

void ConfigBuilder::close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    join(frame);
    put(std::move(frame.value));
}

/// Adds the entries of the maps that are values of `<<` keys to the map of `frame`. If a map has several `<<` keys, the
/// last one has precedence, as for any repeated key. If the value of `<<` is a list of maps, earlier maps have
/// precedence.
void ConfigBuilder::join(Frame& frame) {
    const auto join_map = [&](const ConfigValue& map) {
        if (!map.is_map()) {
            throw Error({.what = "the value of '<<' is not a map",
                         .where = to_string(map.place),
                         .fix = "give an alias of a map, or a list of such aliases"});
        }
        for (const ConfigValue::Entry& entry : map.entries) {
            if (frame.index.try_emplace(entry.key, frame.value.entries.size()).second)
                frame.value.entries.push_back(entry);
        }
    };
    for (auto value = frame.merged.rbegin(); value != frame.merged.rend(); ++value) {
        if (!value->is_list()) join_map(*value);
        for (const ConfigValue& map : value->items) join_map(map);
    }
}

void ConfigBuilder::put(ConfigValue value) {
    if (open_.empty()) {
        file_.root = std::move(value);
        last_ = &file_.root;
        return;
    }
    Frame& frame = open_.back();
    if (frame.value.is_list()) {
        frame.value.items.push_back(std::move(value));
        last_ = &frame.value.items.back();
        return;
    }
    frame.has_key = false;
    if (frame.merges) {
        frame.merged.push_back(std::move(value));
        last_ = &frame.merged.back();
        return;
    }
    const auto [found, is_new] = frame.index.try_emplace(frame.key, frame.value.entries.size());
    if (is_new) {
        frame.value.entries.push_back({frame.key, frame.key_place, std::move(value)});
    } else {
        ConfigValue::Entry& before = frame.value.entries[found->second];
        file_.repeated.push_back({path(frame.key), before.place, frame.key_place});
        before.place = frame.key_place;
        before.value = std::move(value);
    }
    last_ = &frame.value.entries[found->second].value;
}

/// Returns the dotted path of a key in the innermost open map.
std::string ConfigBuilder::path(const std::string& last_key) const {
    std::string text;
    for (std::size_t i = 0; i + 1 < open_.size(); ++i) {
        text += open_[i].value.is_map() ? open_[i].key : fmt::to_string(open_[i].value.items.size());
        text += '.';
    }
    return text + last_key;
}

}  // namespace macheps::files
