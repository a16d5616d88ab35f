// SPDX-License-Identifier: Apache-2.0
// Builds the tree of a config from the events of a parser, and checks the limits of size and depth. Used only in this
// folder.
#pragma once
#include "experiments/files/config/value.hpp"

#include <string>
#include <unordered_map>
#include <vector>

namespace macheps::files {

/// Builds the tree of one config from calls that follow the order of its text. Invisible characters in keys and texts
/// are replaced (core/text/shown.hpp), and each key becomes one line. This loses nothing: in the configs that macheps
/// reads, no framework gives a meaning to invisible characters.
class ConfigBuilder {
  public:
    void open(ConfigValue::Kind kind, const ConfigPlace& place);
    void close();
    /// Sets the key of the next value. If `merges` is true, the key is YAML's `<<`: its value is a map or a list of
    /// maps, and their entries are added to the open map. Keys that the open map itself contains have precedence.
    void key(std::string text, const ConfigPlace& place, bool merges = false);
    void add(ConfigValue value);

    /// Returns whether the innermost open container is a map.
    bool in_map() const { return !open_.empty() && open_.back().value.is_map(); }
    /// Returns whether the next item of an open map is a key.
    bool wants_key() const { return in_map() && !open_.back().has_key; }
    /// Returns the value that was completed last: a scalar that was added, or a list or map that was closed.
    const ConfigValue& last() const { return *last_; }
    /// Returns the finished file. Call this only after every container is closed.
    ConfigFile take() { return std::move(file_); }

  private:
    struct Frame {
        ConfigValue value;
        std::unordered_map<std::string, std::size_t> index;  // index of each key in value.entries
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
