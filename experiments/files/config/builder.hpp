// SPDX-License-Identifier: Apache-2.0
// Makes the tree of a config out of a parser's events, within the limits of size and depth. For the files of this folder.
#pragma once
#include "experiments/files/config/value.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace macheps::files {

/// Keys and texts are kept in visible characters (core/text/shown.hpp), a key in one line: no framework gives a meaning to any
/// other character of those that are read here.
class ConfigBuilder {
  public:
    void open(ConfigValue::Kind kind, const ConfigPlace& place);
    void close();
    /// The key of the next value. One that merges (YAML's `<<`) joins the maps that are its value to the map that it
    /// stands in, whose own keys go before theirs.
    void key(std::string text, const ConfigPlace& place, bool merges = false);
    void add(ConfigValue value);

    /// True when the innermost open container is a map.
    bool in_map() const { return !open_.empty() && open_.back().value.is_map(); }
    /// True when the next thing in an open map is a key.
    bool wants_key() const { return in_map() && !open_.back().has_key; }
    /// The container that has just been closed, or the scalar added last.
    const ConfigValue& last() const { return *last_; }
    /// Valid once everything is closed.
    ConfigFile take() { return std::move(file_); }

  private:
    struct Frame {
        ConfigValue value;
        std::unordered_map<std::string, std::size_t> index;  // of value.entries
        std::string key;
        ConfigPlace key_place;
        bool has_key = false, merges = false;
        std::vector<ConfigValue> merged;  // values of `<<`, in the order of the file
    };
    void put(ConfigValue value);
    static void join(Frame& frame);
    std::string path(const std::string& last_key) const;

    std::vector<Frame> open_;
    ConfigFile file_;
    const ConfigValue* last_ = nullptr;
    std::size_t values_ = 0;
};

}  // namespace macheps::files
