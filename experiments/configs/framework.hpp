// SPDX-License-Identifier: Apache-2.0
// A framework whose configs are read: a table of its keys, and as little code as its special cases need. To add a key,
// add a row to the framework's table. To add a framework, write its folder and add its row to frameworks.cpp.
//
// A config is processed in three steps. The files are merged (files/config/value.hpp). `check_keys` compares the tree
// with the rows (unknown keys, types, choices, version ranges, keys without effect). `resolve` reads values through
// ImportContext and sets fields and findings.
#pragma once
#include "experiments/configs/import.hpp"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// Type of the value of a key, which check_keys checks.
enum class KeyType : std::uint8_t { flag, number, count, text, choice, dtype, list, map, any };

/// A default value and the first version that has it. The last row that is not newer than the version applies.
struct VersionedDefault {
    std::string_view since;  ///< "" means from the oldest version on
    std::string_view value;  ///< as a file would contain it; "unset" if the key has no default
};

/// Effect of a key on numbers.
enum class KeyEffect : std::uint8_t {
    numeric,  ///< read by resolve()
    inert,    ///< known, but decides no format, rounding or scale: reported as FindingCode::inert
};

/// A key of a framework's config.
struct KeyRow {
    std::string_view
        path;  ///< dotted, from the root of the framework's config: "fp16.loss_scale"; a part `*` matches any key
    KeyType type = KeyType::any;
    std::initializer_list<VersionedDefault> defaults{};
    KeyEffect effect = KeyEffect::numeric;
    std::string_view choices{};         ///< for a choice: words separated by spaces, compared case-sensitively
    std::string_view since{}, until{};  ///< versions that know the key: since <= version < until
    std::string_view sets{};            ///< the fields that the key decides: "store compute"
    std::string_view summary{};
};

/// A key that names a config file of another framework.
struct FileKey {
    std::string_view key;        ///< dotted: "deepspeed"
    std::string_view framework;  ///< "deepspeed"
};

/// A file that was read as a part of a config.
struct IncludedFile {
    std::string identity, includer;  ///< canonical paths of this file and of the file that names it
    std::string path;                ///< the path that was opened
    std::string key;                 ///< the key that names it
    files::ConfigPlace place;        ///< place of the value of that key
};

class ImportContext;

struct Framework {
    std::string_view name;            ///< "deepspeed"
    std::string_view title;           ///< "DeepSpeed"
    std::string_view newest, oldest;  ///< versions that the tables describe; the newest is the default
    std::span<const KeyRow> keys;
    /// Names, separated by spaces, of keys without effect on numbers, in addition to keys/NAME.txt
    /// (framework_keys.hpp). If a key also has a row, the row applies.
    std::string_view inert_keys{};
    /// Names, separated by spaces, of frameworks whose keys may also be at the root, as Transformers' keys are in
    /// LLaMA-Factory's files. resolve() delegates the root to these frameworks, and they check those keys.
    std::string_view shares_root_with{};
    /// Kind of model that the framework trains: `llama`. Empty if it can be any kind.
    std::string_view model{};
    /// Keys that name configs of other frameworks. Those files are read as parts of this config.
    std::initializer_list<FileKey> file_keys{};
    /// Keys that name the model, and keys that give the dtype in which it is loaded, separated by spaces.
    std::string_view model_keys{}, dtype_keys{};
    /// Returns, judged by the keys alone, how certain it is that a tree belongs to this framework: from 0 (it does not)
    /// to 100 (no other framework is possible).
    int (*recognises)(const files::ConfigValue& root) = nullptr;
    /// Returns whether the framework refuses a config with an unknown key at this path.
    bool (*refuses_unknown)(const ImportContext&, std::string_view path) = nullptr;
    /// Advice for an unknown key that resembles no known key.
    std::string_view unknown_remedy = "remove it";
    /// Returns whether a quoted boolean ("false") is read as that boolean. If this is null or returns false, the
    /// boolean is a non-empty text and therefore true.
    bool (*reads_quoted_booleans)(const ImportContext&) = nullptr;
    /// Returns the code of the finding for a value of the wrong type, or nothing if resolve() reports it. If this is
    /// null, the code is `error`.
    std::optional<FindingCode> (*judges_type)(const ImportContext&, const KeyRow&, const files::ConfigValue&) = nullptr;
    /// Reads the files that the config names, includes and environment variables. Called before check_keys. May be
    /// null.
    void (*prepare)(ImportContext&) = nullptr;
    /// Sets every field and reports every finding that is not about the spelling of a single key.
    void (*resolve)(ImportContext&) = nullptr;
};

std::span<const Framework* const> frameworks();
const Framework* find_framework(std::string_view name);

/// The state of one import. Findings are collected. Nothing here throws if a config is merely wrong.
class ImportContext {
  public:
    ImportContext(const Framework& framework, files::ConfigValue root, const ImportOptions& options);

    const Framework& framework() const { return *framework_; }
    /// Returns the version of this framework, or of another one that it calls ("transformers" under llamafactory).
    FrameworkVersion version() const { return version(framework_->name); }
    FrameworkVersion version(std::string_view framework) const;
    /// Returns whether the version is at least `first`.
    bool since(std::string_view framework, std::string_view first) const {
        return version(framework) >= parse_version(first);
    }
    bool since(std::string_view first) const { return since(framework_->name, first); }
    /// The device, or the dtype of the checkpoint. If it was assumed, reading it causes a finding with the code
    /// `defaulted`.
    const DeviceProfile& device() const;
    std::string_view checkpoint_dtype() const;  ///< fp32, fp16 or bf16
    const ImportOptions& options() const { return *options_; }
    std::string_view environment(std::string_view name) const;  ///< empty if the variable is not set

    files::ConfigValue& root() { return root_; }
    const files::ConfigValue& root() const { return root_; }

    // Readers. Each takes a dotted path. If the key is absent or null, or if check_keys reports its type, they return
    // the default of this version, or nothing if there is none.
    /// Returns whether a file or an override sets the key to a value other than null.
    bool has(std::string_view path) const;
    bool flag(std::string_view path) const;
    std::optional<bool> maybe_flag(std::string_view path) const;  ///< nothing for "auto", a list or a map
    std::optional<double> number(std::string_view path) const;
    std::string text(std::string_view path) const;  ///< also of booleans and numbers, as written; the default if absent
    /// Returns 'F', 'H' or 'B' for the name of a dtype ("bfloat16", "torch.float16", "half"), or 0 for another text or
    /// none.
    char dtype(std::string_view path) const;
    const files::ConfigValue* value(std::string_view path) const { return root_.find(path); }
    /// Returns the text for `from` of a field that this key decides: "ds.json:3:5 fp16.loss_scale" or "default of
    /// deepspeed 0.19.6".
    std::string from(std::string_view path) const;
    Origin origin(std::string_view path) const { return has(path) ? Origin::file : Origin::standard; }

    // Results.
    ResolvedConfig& resolved() { return resolved_; }
    const ResolvedConfig& resolved() const { return resolved_; }
    /// Sets a field from a key. Its origin and `from` depend on whether the key is in a file.
    void set(std::string_view field, FieldValue value, std::string_view from_path);
    /// Sets a field that follows from other fields ("from compute") or from the device.
    void infer(std::string_view field, FieldValue value, std::string from);
    void by_device(std::string_view field, FieldValue value);

    /// Reports a finding at the first key. Its place is that of the key or, if no file has the key, that of the nearest
    /// enclosing map. `rule` does not have the framework's name, which is added in front ("initial-scale-trap").
    Finding& report(FindingCode code, std::string_view rule, std::initializer_list<std::string_view> keys,
                    std::string message, std::string instead = {});
    const std::vector<Finding>& findings() const { return findings_; }
    std::vector<Finding>& findings() { return findings_; }

    /// Runs another framework on a subtree, as the framework itself passes its options on (DeepSpeed's JSON in HF
    /// arguments, HF arguments in LLaMA-Factory's). Its fields and findings are added to this context, and their paths
    /// are prefixed by `at`. If `at` is "", the other framework gets the whole root. It then takes keys that are not in
    /// its tables for keys of the caller.
    void delegate(const Framework& other, std::string_view at);
    /// Reads another file as a part of this config, for prepare(). The file keeps its own places, and its repeated keys
    /// and suppressions count. `at` is the place where `key` names the file. A relative path is first looked up in the
    /// folder of that place's file, then in the working folder. If neither has it, a given file with the same name is
    /// used. If the file is missing, unreadable or leads back to itself, reports a finding at `at` and returns nothing.
    std::optional<files::ConfigValue> read_file(std::string_view key, const files::ConfigPlace& at,
                                                const std::string& path);
    /// Returns the place of the key or, if no file has the key, of the nearest enclosing map.
    const files::ConfigPlace& place_of(std::string_view path) const;

    // For the importer itself.
    /// Runs prepare, check_keys and resolve.
    void run();
    void report_device();  ///< sets the field `device`, if resolve() has not set it
    /// Reports each default that decided a field. Call it when no field can change any more.
    void report_defaults();
    void add_file(files::ConfigFile& file);  ///< keeps the repeated keys and suppressions of a file
    const std::vector<files::RepeatedKey>& repeated() const { return repeated_; }
    const std::vector<files::IgnoredRule>& ignored_rules() const { return ignored_rules_; }
    std::vector<std::string> included() const;  ///< paths of the files that read_file() has read
    std::span<const IncludedFile> included_files() const { return included_; }
    /// Returns whether the root belongs to another framework that delegated it. Keys that are unknown here then belong
    /// to that framework.
    bool root_is_shared() const { return shared_by_ != nullptr; }
    /// Returns that framework, or null if the root belongs to this one.
    const Framework* shared_by() const { return shared_by_; }

  private:
    /// A field that a default decided. set() records it, and report_defaults() reports it.
    struct DefaultUsed {
        std::string field, path, from;
    };
    void forget_default(std::string_view field);
    std::string full_path(std::string_view path) const;
    bool as_flag(const files::ConfigValue& value) const;

    const Framework* framework_;
    files::ConfigValue root_;
    const ImportOptions* options_;
    const DeviceProfile* device_;
    ResolvedConfig resolved_;
    std::vector<Finding> findings_;
    std::vector<DefaultUsed> defaults_used_;
    std::vector<files::RepeatedKey> repeated_;
    std::vector<files::IgnoredRule> ignored_rules_;
    std::vector<IncludedFile> included_;
    std::string prefix_;  // prefix of the paths in a delegated part
    const Framework* shared_by_ = nullptr;
    mutable bool asked_device_ = false, asked_checkpoint_ = false;
};

/// Returns 'F', 'H' or 'B' for the name of a dtype ("bfloat16", "torch.float16", "half"), or 0 for any other text.
char dtype_letter(std::string_view name);

/// Returns the number without its fraction. Returns the nearest int if the number is too large for one, and 0 for NaN,
/// because a config may contain any number.
int to_int(double number);

/// Returns the default of a key in a version, or nothing if the rows have none.
std::optional<std::string_view> default_of(const Framework& framework, std::string_view path, FrameworkVersion version);
/// Reports unknown keys, wrong types, words that are not valid choices, keys of other versions, and keys without
/// effect.
void check_keys(ImportContext& context);

}  // namespace macheps::configs
