// SPDX-License-Identifier: Apache-2.0
// The configuration file of another program as a tree of values, each with its place in the file. The readers of JSON,
// YAML, TOML, Python assignments, command lines and `key=value` overrides build the tree, and the importers of
// framework configs read it. The meaning of a scalar depends on the framework (for one YAML loader `1e-5` is a number,
// for another a text), so a value keeps the characters as they were written.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::files {

/// Place of a value or key. Lines and columns count from 1, columns in bytes. Line 0 means that the value is not in a
/// file. An override on the command line has the file name `argument N`.
struct ConfigPlace {
    std::string file;
    std::uint32_t line = 0, column = 0;
    bool operator==(const ConfigPlace&) const = default;
};

/// Returns the place as text: "ds.json:3:12".
std::string to_string(const ConfigPlace& place);

/// A value of a configuration.
struct ConfigValue {
    enum class Kind : std::uint8_t { null, boolean, number, text, list, map };
    struct Entry;  // a key of a map and its value, defined below

    Kind kind = Kind::null;
    std::string written;  ///< characters of a scalar, without quotes; empty for lists and maps
    bool quoted = false;  ///< the scalar is in quotes and therefore a text: "false" is not false
    bool boolean = false;
    double number = 0;               ///< valid if kind is number; written_number() also reads texts
    std::vector<ConfigValue> items;  ///< elements of a list
    std::vector<Entry> entries;      ///< entries of a map, in the order of the file; each key occurs once
    ConfigPlace place;

    bool is_null() const { return kind == Kind::null; }
    bool is_map() const { return kind == Kind::map; }
    bool is_list() const { return kind == Kind::list; }
    bool is_number() const { return kind == Kind::number; }
    bool is_boolean() const { return kind == Kind::boolean; }
    bool is_text() const { return kind == Kind::text; }

    /// Returns the entry with this key. Returns nullptr if the entry does not exist or this value is not a map.
    const Entry* entry(std::string_view key) const;
    /// Returns the value at a dotted path ("fp16.loss_scale") that starts at this map, or nullptr if it does not exist.
    /// To find a key that itself contains dots, use entry().
    const ConfigValue* find(std::string_view path) const;
    ConfigValue* find(std::string_view path);
    /// Sets the value at a dotted path. Creates the maps on the path that do not exist.
    void set(std::string_view path, ConfigValue value);
    void erase(std::string_view key);
};

struct ConfigValue::Entry {
    std::string key;
    ConfigPlace place;  ///< place of the key; the value has its own place
    ConfigValue value;
};

/// Returns the number that a value contains. The value may be a number, or a text that spells a number, such as `1e-5`,
/// `0x10` or `1_000`. Some loaders return these as texts, and programs convert them later. Returns nothing for any
/// other value.
std::optional<double> written_number(const ConfigValue& value);

/// A key that occurs twice in one map. Readers keep the later value, as loaders do.
struct RepeatedKey {
    std::string path;
    ConfigPlace first, second;
};

/// A comment `# macheps: ignore RULE`, which silences findings of that rule.
struct IgnoredRule {
    std::string rule;
    ConfigPlace place;
};

/// The language of a config file. `arguments` is a file of options (`--bf16`), `command` a command line or shell script
/// that starts a training program.
enum class ConfigLanguage : std::uint8_t { json, yaml, toml, python, arguments, command };

/// A key whose value is computed when the file runs, such as `--learning_rate $(python lr.py)`. Nothing is run here, so
/// the value is unknown. The key is in the tree with a null value. If `path` is empty, `written` is not the value of a
/// key: it is left out.
struct UnknownValue {
    std::string path;
    std::string written;  ///< as written: "$(python lr.py)"
    std::string reason;   ///< "it is the output of a command"
    ConfigPlace place;
};

/// A command that starts a training program.
struct TrainingCommand {
    std::string launcher;               ///< the program that starts the training program: "accelerate launch", "python"
    ConfigValue launcher_options;       ///< a map; names have underscores: "mixed_precision"
    std::vector<std::string> programs;  ///< the training program: "train.py", "verl.trainer.main_ppo", "swift sft"
    std::vector<ConfigValue> positional;  ///< arguments that are neither options nor values of options
    std::map<std::string, std::string, std::less<>> environment;  ///< variables that the script sets for the command
    std::vector<UnknownValue> unknown_environment;  ///< such variables with an unknown value; `path` is the name
    ConfigPlace place;
};

/// A file that a script writes.
struct WrittenFile {
    std::string text{};     ///< begins with as many line ends as there are lines before it in the script
    std::string unknown{};  ///< why the text is unknown; empty if it is known
    ConfigPlace place{};    ///< the command that wrote to the file last
};

/// Files by their normal paths.
using WrittenFiles = std::map<std::string, WrittenFile, std::less<>>;

/// Returns the path without parts such as `./`.
std::string normal_path(std::string_view path);
/// Returns the file with this path, or nullptr. The path need not be normal.
const WrittenFile* find_written_file(const WrittenFiles& files, std::string_view path);

/// A config file that has been read.
struct ConfigFile {
    ConfigValue root{};
    std::vector<RepeatedKey> repeated{};
    std::vector<std::string> new_keys{};  ///< paths that overrides of Hydra add to its config: `+a.b=1`
    std::vector<IgnoredRule> ignored_rules{};
    ConfigLanguage language = ConfigLanguage::yaml;
    std::vector<UnknownValue> unknown_values{};
    std::optional<TrainingCommand> command{};   ///< only for a command
    WrittenFiles written_files{};               ///< only for a command
    std::vector<std::string> python_modules{};  ///< modules that a Python file imports
    /// The place of the first statement of a Python file that is not an assignment or an import. Such a file is a
    /// program, and its tree is empty.
    std::optional<ConfigPlace> python_statement{};
};

/// Limits for the size in bytes, the nesting depth and the number of values of a config. A limit on the size alone
/// would not suffice, because YAML aliases can turn a small file into many values.
inline constexpr std::size_t config_size_limit = std::size_t{1} << 20;
inline constexpr int config_depth_limit = 256;
inline constexpr std::size_t config_value_limit = 20'000;

/// Reads a JSON or YAML text. Throws Error (exit 3) with line and column if it is not valid in its language. `name` is
/// the file's name in places and errors.
ConfigFile read_json_config(std::string_view text, const std::string& name);
ConfigFile read_yaml_config(std::string_view text, const std::string& name);
/// Reads command-line arguments such as `--bf16 --loss-scale-window 1000`. They may be on several lines, with `#`
/// comments and with `\` at the end of a line. Returns a map whose keys have no leading dashes (`loss-scale-window`).
/// An option without a value is true, and an option with several values is a list. If an option is repeated, the last
/// occurrence counts.
ConfigFile read_argument_config(std::string_view text, const std::string& name);
/// Reads TOML 1.0. The entries of a map are in the order of the file.
ConfigFile read_toml_config(std::string_view text, const std::string& name);
/// Reads a Python file of assignments, as nanoGPT's configs are: `batch_size = 5 * 8`. A value may be a literal, a
/// list, tuple or dict of literals, or arithmetic of literals and of names that were assigned before. Any other value
/// is unknown. Imports are recorded. Nothing is executed.
ConfigFile read_python_config(std::string_view text, const std::string& name);
/// Reads a command line or shell script that starts a training program: `torchrun train.py --bf16 True`. Its options
/// become keys as for read_argument_config, and words such as `trainer.lr=1` become overrides. Nothing is executed.
/// Variables, arrays, defaults (`${A:-1}`), here-documents and arithmetic of integers are expanded. Loops, functions
/// and other commands that can change the words are refused. If the text contains several training commands, `line`
/// must be the line of one of them; 0 selects the only one.
ConfigFile read_command_config(std::string_view text, const std::string& name, std::uint32_t line = 0);
/// Returns the value of a scalar without quotes by the rules of YAML 1.1 as PyYAML implements them: `yes` and `off` are
/// booleans, `1e-5` is a text, `1.0e-5` and `0x10` are numbers.
ConfigValue yaml_scalar(std::string_view written, ConfigPlace place);
/// Applies one override of a dotted path: `fp16.loss_scale=128`. The value is read as YAML, except that `1e-5` is a
/// number, because no framework reads its command line with YAML 1.1.
void apply_override(ConfigValue& root, std::string_view override_text, const std::string& name);
/// Reads a file in any of these languages. The extension of the file name determines the language. If the extension is
/// unknown, the first words of the text determine it. `line` selects a command of a script (read_command_config).
ConfigFile read_config_file(const std::string& path, std::uint32_t line = 0);
/// Does the same for a text. `path` determines the language, and `name` is the file's name in places and errors.
ConfigFile read_config_text(std::string_view text, const std::string& path, const std::string& name,
                            std::uint32_t line = 0);

/// Reads a file that a script writes. `path` determines the language. Throws Error (exit 3) if its text is unknown.
ConfigFile read_written_file(const WrittenFile& file, const std::string& path);

/// Merges the file `over` into the file `base`, so that the result has the command of `over`, if it has one. An unknown
/// value of `base` that `over` replaces is forgotten.
void merge_config_file(ConfigFile& base, const ConfigFile& over);
/// Merges `over` into `base`. Maps are merged key by key. Any other value in `over` replaces the value in `base`.
void merge_config(ConfigValue& base, const ConfigValue& over);

}  // namespace macheps::files
