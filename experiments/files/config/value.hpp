// SPDX-License-Identifier: Apache-2.0
// A configuration file of somebody else's program as a tree of values, each with the place where it stands. Readers of
// JSON, YAML, argument files and `key=value` overrides make it; importers of framework configs read it. What a scalar means is the
// framework's affair (to one YAML loader `1e-5` is a number, to another a text), so a value keeps the characters that were written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::files {

/// Where something stands: line and column count from 1, columns in bytes; line 0 when the value stands in no file (an
/// override on the command line has the file name `argument N`).
struct ConfigPlace {
    std::string file;
    std::uint32_t line = 0, column = 0;
    bool operator==(const ConfigPlace&) const = default;
};

/// "ds.json:3:12".
std::string to_string(const ConfigPlace& place);

/// A value of a configuration.
struct ConfigValue {
    enum class Kind : std::uint8_t { null, boolean, number, text, list, map };
    struct Entry;  // a key of a map and its value, defined below

    Kind kind = Kind::null;
    std::string written;  ///< a scalar's characters, without quotes; empty for lists and maps
    bool quoted = false;  ///< a scalar between quotes (always a text), so that "false" can be told from false
    bool boolean = false;
    double number = 0;  ///< valid where kind is number, and where written_number() says that a text reads as one
    std::vector<ConfigValue> items;  ///< of a list
    std::vector<Entry> entries;      ///< of a map, in the order of the file; a key occurs once
    ConfigPlace place;

    bool is_null() const { return kind == Kind::null; }
    bool is_map() const { return kind == Kind::map; }
    bool is_list() const { return kind == Kind::list; }
    bool is_number() const { return kind == Kind::number; }
    bool is_boolean() const { return kind == Kind::boolean; }
    bool is_text() const { return kind == Kind::text; }

    /// The entry of that key in this map; nullptr where there is none, or where this is no map.
    const Entry* entry(std::string_view key) const;
    /// The value at a dotted path ("fp16.loss_scale"), from this map down; nullptr where there is none. Keys that hold dots
    /// themselves are found by entry() only.
    const ConfigValue* find(std::string_view path) const;
    ConfigValue* find(std::string_view path);
    /// Sets the value at a dotted path, making the maps on the way.
    void set(std::string_view path, ConfigValue value);
    void erase(std::string_view key);
};

struct ConfigValue::Entry {
    std::string key;
    ConfigPlace place;  ///< of the key; the value has its own
    ConfigValue value;
};

/// The number that a text spells (`1e-5`, `0x10`, `1_000`), for loaders that take it for a text and programs that convert it.
std::optional<double> written_number(const ConfigValue& value);

/// A key that stands twice in one map. Readers keep the later value, as loaders do.
struct RepeatedKey {
    std::string path;
    ConfigPlace first, second;
};

/// A comment `# macheps: ignore RULE`, which silences findings of that rule.
struct IgnoredRule {
    std::string rule;
    ConfigPlace place;
};

/// A file as it was read.
struct ConfigFile {
    ConfigValue root;
    std::vector<RepeatedKey> repeated;
    std::vector<IgnoredRule> ignored_rules;
};

/// Largest file, deepest nesting and most values that a reader takes (aliases of YAML can make much of little).
inline constexpr std::size_t config_size_limit = std::size_t{1} << 20;
inline constexpr int config_depth_limit = 256;
inline constexpr std::size_t config_value_limit = 20'000;

/// Each throws Error (exit 3) with line and column where the text is none of its language. `name` is the file's name in
/// places and errors.
ConfigFile read_json_config(std::string_view text, const std::string& name);
ConfigFile read_yaml_config(std::string_view text, const std::string& name);
/// `--bf16 --loss-scale-window 1000`, over several lines, `#` comments, `\` at an end of line: a map of keys without their
/// leading dashes (`loss-scale-window`); a flag without value is true, one with several a list, and of a repeated one the
/// last counts.
ConfigFile read_argument_config(std::string_view text, const std::string& name);
/// The value of a scalar without quotes by the rules of YAML 1.1 as PyYAML has them: `yes` and `off` are booleans, `1e-5`
/// is a text, `1.0e-5` and `0x10` are numbers.
ConfigValue yaml_scalar(std::string_view written, ConfigPlace place);
/// `fp16.loss_scale=128`: one override of a dotted path. The value is read as YAML reads it, but `1e-5` is a number: no
/// framework reads its command line with YAML 1.1.
void apply_override(ConfigValue& root, std::string_view override_text, const std::string& name);
/// Reads a file: JSON, YAML or arguments by its name, and by its first character where the name says nothing.
ConfigFile read_config_file(const std::string& path);

/// Lays `over` on `base`: maps are joined key by key, anything else is replaced.
void merge_config(ConfigValue& base, const ConfigValue& over);

}  // namespace macheps::files
