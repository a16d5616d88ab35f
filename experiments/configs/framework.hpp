// SPDX-License-Identifier: Apache-2.0
// A framework whose configs are read: a table of its keys and as little code as its own tricks need. To add a key, add
// a row to the framework's table; to add a framework, write a file and name its row in frameworks.cpp.
//
// How a config goes through: the files are merged (files/config/value.hpp), `check_keys` walks the tree along the rows (unknown
// keys, types, choices, version ranges, keys without effect), and `resolve` reads values through Section and sets fields and findings.
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

/// What a key takes. check_keys judges it.
enum class KeyType : std::uint8_t { flag, number, count, text, choice, dtype, list, map, any };

/// A default and the first version that has it; the last row that is not newer than the version holds.
struct VersionedDefault {
    std::string_view since;  ///< "" is the oldest version
    std::string_view value;  ///< as it would be written; "unset" where the key has none
};

/// What a key does to numbers.
enum class KeyEffect : std::uint8_t {
    numeric,  ///< read by resolve()
    inert,    ///< known, decides no format, rounding or scale: an I
};

/// A key of a framework's config.
struct KeyRow {
    std::string_view
        path;  ///< dotted, from the root of the framework's config: "fp16.loss_scale"; a part `*` stands for any key
    KeyType type = KeyType::any;
    std::initializer_list<VersionedDefault> defaults{};
    KeyEffect effect = KeyEffect::numeric;
    std::string_view choices{};         ///< of a choice: words with spaces between them, compared case-sensitively
    std::string_view since{}, until{};  ///< versions that know the key: since <= version < until
    std::string_view sets{};            ///< the fields that it decides: "store compute"
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
    files::ConfigPlace place;        ///< where that key has its value
};

class ImportContext;

struct Framework {
    std::string_view name;            ///< "deepspeed"
    std::string_view title;           ///< "DeepSpeed"
    std::string_view newest, oldest;  ///< versions that the tables describe; newest is the default
    std::span<const KeyRow> keys;
    /// Keys without effect on numbers beside those of keys/NAME.txt (framework_keys.hpp): names with spaces between them.
    /// A key that also has a row is what the row says.
    std::string_view inert_keys{};
    /// Frameworks, with spaces between them, whose keys may stand beside its own at the root, as Transformers' do in
    /// LLaMA-Factory's files: its resolve() delegates the root to them, and they check those keys.
    std::string_view shares_root_with{};
    /// The kind of model that it trains, `llama`; empty where any may be meant.
    std::string_view model{};
    /// Keys that name configs of other frameworks. Those files are read as parts of this config.
    std::initializer_list<FileKey> file_keys{};
    /// Keys that name the model, and keys that give the dtype in which it is loaded, each with spaces between them.
    std::string_view model_keys{}, dtype_keys{};
    /// How sure it is from its keys alone that a tree is of this framework: 0, not; 100, nothing else can be meant.
    int (*recognises)(const files::ConfigValue& root) = nullptr;
    /// Whether an unknown key at this path makes the framework itself refuse the config.
    bool (*refuses_unknown)(const ImportContext&, std::string_view path) = nullptr;
    /// What to do about an unknown key that no known one resembles.
    std::string_view unknown_remedy = "remove it";
    /// Whether a boolean between quotes ("false") is read as that boolean; where this is null or says no, it is a text that
    /// is not empty, and so true.
    bool (*reads_quoted_booleans)(const ImportContext&) = nullptr;
    /// What a value of a type that the key does not take is: an error unless this says otherwise, and nothing where it
    /// gives nothing (the framework's resolve() then reports it).
    std::optional<FindingCode> (*judges_type)(const ImportContext&, const KeyRow&, const files::ConfigValue&) = nullptr;
    /// Follows pointers to other files, includes and environment variables; may be null. Called before check_keys.
    void (*prepare)(ImportContext&) = nullptr;
    /// Sets every field and reports every finding that is not about a single key's spelling.
    void (*resolve)(ImportContext&) = nullptr;
};

std::span<const Framework* const> frameworks();
const Framework* find_framework(std::string_view name);

/// The state of one import. Findings are collected; nothing here throws for a config that is merely wrong.
class ImportContext {
  public:
    ImportContext(const Framework& framework, files::ConfigValue root, const ImportOptions& options);

    const Framework& framework() const { return *framework_; }
    /// The version of this framework, or of another that it calls ("transformers" under llamafactory).
    FrameworkVersion version() const { return version(framework_->name); }
    FrameworkVersion version(std::string_view framework) const;
    /// Whether that version is this one or a later one.
    bool since(std::string_view framework, std::string_view first) const {
        return version(framework) >= parse_version(first);
    }
    bool since(std::string_view first) const { return since(framework_->name, first); }
    /// Reading the device or the checkpoint's dtype is what makes an assumed one a D.
    const DeviceProfile& device() const;
    std::string_view checkpoint_dtype() const;  ///< fp32, fp16 or bf16
    const ImportOptions& options() const { return *options_; }
    std::string_view environment(std::string_view name) const;  ///< empty where the variable is not set

    files::ConfigValue& root() { return root_; }
    const files::ConfigValue& root() const { return root_; }

    // Reading. Each looks at a dotted path; a key that is absent, null or of the wrong type (which check_keys reports) gives its
    // default of this version, and nothing where it has none.
    /// Whether the key stands in a file or an override, with another value than null.
    bool has(std::string_view path) const;
    bool flag(std::string_view path) const;
    std::optional<bool> maybe_flag(std::string_view path) const;  ///< nothing also for "auto" and null
    std::optional<double> number(std::string_view path) const;
    std::string text(
        std::string_view path) const;  ///< also of booleans and numbers, as written; the default where absent
    /// 'F', 'H' or 'B' for a dtype's name ("bfloat16", "torch.float16", "half"); 0 where absent or unknown.
    char dtype(std::string_view path) const;
    const files::ConfigValue* value(std::string_view path) const { return root_.find(path); }
    /// "ds.json:3:5 fp16.loss_scale", or "default of deepspeed 0.19.6": what `from` of a field says of this key.
    std::string from(std::string_view path) const;
    Origin origin(std::string_view path) const { return has(path) ? Origin::file : Origin::standard; }

    // Results.
    ResolvedConfig& resolved() { return resolved_; }
    const ResolvedConfig& resolved() const { return resolved_; }
    /// Sets a field from a key: its origin and `from` follow from whether the key is in a file.
    void set(std::string_view field, FieldValue value, std::string_view from_path);
    /// Sets a field that follows from others ("from compute") or from the device.
    void infer(std::string_view field, FieldValue value, std::string from);
    void by_device(std::string_view field, FieldValue value);

    /// A finding at a key: its place is that of the key, or of the nearest map above it that stands in a file.
    /// `rule` without the framework's name, which is put before it ("initial-scale-trap").
    Finding& report(FindingCode code, std::string_view rule, std::initializer_list<std::string_view> keys,
                    std::string message, std::string instead = {});
    const std::vector<Finding>& findings() const { return findings_; }
    std::vector<Finding>& findings() { return findings_; }

    /// Runs another framework's table over a subtree, as the framework itself hands its options on (DeepSpeed's JSON in HF
    /// arguments; HF arguments in LLaMA-Factory's). Its fields and findings come into this context; paths are prefixed by `at`
    /// ("" for the root itself, whose other keys it then takes for the caller's).
    void delegate(const Framework& other, std::string_view at);
    /// Reads another file as a part of this config, for prepare(): its places are its own, and its repeated keys and its
    /// suppressions count. `at` is where `key` names it: a relative path is looked for beside that file, then from the
    /// working folder. A file that is missing or unreadable is a finding there, and nothing is returned; so is a circle.
    std::optional<files::ConfigValue> read_file(std::string_view key, const files::ConfigPlace& at,
                                                const std::string& path);
    /// Where the key stands, or the nearest map above it that stands in a file.
    const files::ConfigPlace& place_of(std::string_view path) const;

    // For the importer itself.
    /// prepare, check_keys, resolve.
    void run();
    void report_device();  ///< the field `device`, where resolve() has not set it
    /// A D for each default that decided a field, once nothing can change the fields any more.
    void report_defaults();
    void add_file(files::ConfigFile& file);  ///< keeps the repeated keys and suppressions of a file
    const std::vector<files::RepeatedKey>& repeated() const { return repeated_; }
    const std::vector<files::IgnoredRule>& ignored_rules() const { return ignored_rules_; }
    std::vector<std::string> included() const;  ///< the files that read_file() has read
    std::span<const IncludedFile> included_files() const { return included_; }
    /// True where the root is another framework's, which has handed it on: keys that are not known are that one's.
    bool root_is_shared() const { return shared_by_ != nullptr; }
    /// That framework; null where the root is this one's own.
    const Framework* shared_by() const { return shared_by_; }

  private:
    /// What a default has decided: found by set(), told by report_defaults().
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
    std::string prefix_;  // of the paths of a part that was handed on
    const Framework* shared_by_ = nullptr;
    mutable bool asked_device_ = false, asked_checkpoint_ = false;
};

/// 'F', 'H' or 'B' for a dtype's name ("bfloat16", "torch.float16", "half"), 0 for any other text.
char dtype_letter(std::string_view name);

/// The number without its fraction, the nearest int where it is too large for one, 0 for NaN: a config may say anything.
int to_int(double number);

/// The default of a key in a version; nothing where the rows have none.
std::optional<std::string_view> default_of(const Framework& framework, std::string_view path, FrameworkVersion version);
/// Reports unknown keys, wrong types, words that are no choice, keys of other versions, and keys without effect.
void check_keys(ImportContext& context);

}  // namespace macheps::configs
