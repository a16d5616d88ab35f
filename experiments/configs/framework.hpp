// SPDX-License-Identifier: Apache-2.0
// Interface of a framework whose configs can be imported. A framework consists of a table of its config keys and of
// code for its special cases. To add a key, add a row to the framework's table. To add a framework, create a folder for
// it and add a row to frameworks.cpp.
//
// A config is processed in three steps. First, its files are merged into one tree (files/config/value.hpp). Then
// `check_keys` compares the tree with the key table and reports unknown keys, wrong types, invalid choices, keys of
// other versions and keys without effect. Finally, `resolve` reads values through ImportContext, sets fields and
// reports findings.
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

/// A default value and the first framework version that has it. For a given version, the last row whose `since` is not
/// newer applies.
struct VersionedDefault {
    std::string_view since;  ///< "" means from the oldest version on
    std::string_view value;  ///< as written in a file; "unset" if the key has no default
};

/// Whether a key affects numerical results.
enum class KeyEffect : std::uint8_t {
    numeric,  ///< read by resolve()
    inert,    ///< affects no format, rounding or scale; reported as FindingCode::inert
};

/// A key of a framework's config.
struct KeyRow {
    std::string_view
        path;  ///< dotted, from the root of the framework's config: "fp16.loss_scale"; a part `*` matches any key
    KeyType type = KeyType::any;
    std::initializer_list<VersionedDefault> defaults{};
    KeyEffect effect = KeyEffect::numeric;
    std::string_view choices{};         ///< for a choice: words separated by spaces, compared case-sensitively
    std::string_view since{}, until{};  ///< the key exists from version `since` up to, but not including, `until`
    std::string_view sets{};            ///< fields that the key determines: "store compute"
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
    std::string path;                ///< path with which this file was opened
    std::string key;                 ///< key that names this file
    files::ConfigPlace place;        ///< place of the value of `key`
};

/// The newest release of another package that a framework accepts, according to the requirements of its own package.
struct PackageLimit {
    std::string_view since;    ///< first release of the framework with this limit; "" means the oldest
    std::string_view package;  ///< "transformers", "peft"
    std::string_view newest;   ///< "" means that there is no limit any more
};

/// The releases of a package that the rules of the importers describe.
struct KnownReleases {
    std::string_view title, oldest, newest;
};

/// A version that no rule describes. The import describes the nearest known release instead.
struct UnknownVersion {
    FrameworkVersion named;      ///< the version that the config runs with
    FrameworkVersion described;  ///< the oldest known release, or the newest one
    bool is_older() const { return named < described; }
    std::string_view rank() const { return is_older() ? "the oldest known release" : "the newest known release"; }
};

class ImportContext;

struct Framework {
    std::string_view name;            ///< "deepspeed"
    std::string_view title;           ///< "DeepSpeed"
    std::string_view newest, oldest;  ///< versions that the tables describe; the newest is the default
    std::span<const KeyRow> keys;
    /// Names, separated by spaces, of keys that do not affect numerical results. keys/NAME.txt lists more of these keys
    /// (framework_keys.hpp). If a key also has a row in `keys`, the row applies.
    std::string_view inert_keys{};
    /// Names, separated by spaces, of keys that belong only to classes of this framework from which no other framework
    /// derives its own. A config with such a key is not one of a framework that shares its root with this one.
    std::string_view own_class_keys{};
    /// Names, separated by spaces, of frameworks whose keys may also be at the root of the config. For example, files
    /// of LLaMA-Factory contain keys of Transformers. resolve() delegates the root to these frameworks, and each of
    /// them checks its own keys.
    std::string_view shares_root_with{};
    /// Returns the default of a key of a framework that shares the root, if this framework changes the default. For
    /// example, TRL turns bf16 on. May be null.
    std::optional<std::string_view> (*changed_default)(const ImportContext&, std::string_view path) = nullptr;
    /// Whether the framework reads the keys of every section as if they were at the root.
    bool ignores_sections = false;
    /// Kind of model that the framework trains, such as `llama`. Empty if the framework trains any kind of model.
    std::string_view model{};
    /// Limits of other packages. If the user gives no version of such a package, the limit is assumed and not the
    /// newest release. Later rows replace earlier ones.
    std::initializer_list<PackageLimit> limits{};
    /// Keys that name config files of other frameworks. Those files are read as parts of this config.
    std::initializer_list<FileKey> file_keys{};
    /// Lists of keys, separated by spaces. `model_keys` name the model, and `dtype_keys` give the dtype in which it is
    /// loaded.
    std::string_view model_keys{}, dtype_keys{};
    /// Conditions, separated by spaces, that only configs of this framework fulfil: keys, values, names of programs and
    /// forms of files (recognition/marks.hpp).
    std::string_view marks{};
    /// Whether programs that read this config from their command line usually have options of their own. An unknown
    /// option of a command line is then a note.
    bool scripts_add_options = false;
    /// Returns how likely it is that a config with these keys belongs to this framework: from 0 (it does not belong to
    /// it) to 100 (it cannot belong to any other framework).
    int (*recognises)(const files::ConfigValue& root) = nullptr;
    /// Returns whether the framework refuses a config with an unknown key at this path.
    bool (*refuses_unknown)(const ImportContext&, std::string_view path) = nullptr;
    /// Advice in the finding about an unknown key, if no known key has a similar name.
    std::string_view unknown_remedy = "remove it";
    /// Returns whether the framework reads a quoted boolean ("false") as a boolean. If this function is null or returns
    /// false, a quoted boolean is a non-empty text and therefore true.
    bool (*reads_quoted_booleans)(const ImportContext&) = nullptr;
    /// Returns the code of the finding for a value of the wrong type, or nothing if resolve() reports the value. If
    /// this function is null, the code is `error`.
    std::optional<FindingCode> (*judges_type)(const ImportContext&, const KeyRow&, const files::ConfigValue&) = nullptr;
    /// Reads environment variables and the files that the config names or includes. Called before check_keys. May be
    /// null.
    void (*prepare)(ImportContext&) = nullptr;
    /// Sets all fields and reports all findings except those of check_keys.
    void (*resolve)(ImportContext&) = nullptr;
};

std::span<const Framework* const> frameworks();
const Framework* find_framework(std::string_view name);
/// Returns the frameworks of `shares_root_with`.
std::vector<const Framework*> sharing_frameworks(const Framework& framework);
/// Returns the known releases of a framework or of another package, or nothing if no rule asks for its version.
std::optional<KnownReleases> known_releases(std::string_view package);

/// The state of the import of one config, and the functions with which a framework reads keys, sets fields and reports
/// findings. Mistakes in the config become findings and do not cause exceptions.
class ImportContext {
  public:
    ImportContext(const Framework& framework, files::ConfigValue root, const ImportOptions& options);

    const Framework& framework() const { return *framework_; }
    /// Returns the release of this framework that the import describes, or that of a framework that it calls
    /// ("transformers" for llamafactory). This is the version that the config runs with or, if that version is older or
    /// newer than all known releases, the nearest known release.
    FrameworkVersion version() const { return version(framework_->name); }
    FrameworkVersion version(std::string_view framework) const;
    /// Returns the version of a package, or nothing if it is unknown: the user gave none, no limit of the config's
    /// framework names it, and it is not a framework. The version may be older or newer than all known releases. The
    /// call does not make report_assumed() name the version.
    std::optional<FrameworkVersion> assumed_version(std::string_view package) const;
    /// Returns the release of a package that the import describes, or nothing if assumed_version() returns nothing. The
    /// call makes report_assumed() and report_unknown_versions() name the version.
    std::optional<FrameworkVersion> known_version(std::string_view package) const;
    /// Returns the version of a package that the user named, in an option or in a requirements file.
    std::optional<FrameworkVersion> given_version(std::string_view package) const;
    /// Returns the version of a package if it is older or newer than all known releases, otherwise nothing.
    std::optional<UnknownVersion> unknown_version(std::string_view package) const;
    /// Returns whether the release that the import describes is at least `first`.
    bool since(std::string_view framework, std::string_view first) const {
        return version(framework) >= parse_version(first);
    }
    bool since(std::string_view first) const { return since(framework_->name, first); }
    /// Return the device and the dtype of the checkpoint. If the user gave none, calling the function makes
    /// report_assumed() name the default.
    const DeviceProfile& device() const;
    std::string_view checkpoint_dtype() const;  ///< fp32, fp16 or bf16
    const ImportOptions& options() const { return *options_; }
    /// Returns the value of an environment variable. The value is empty if the variable is not set. Throws Error (exit
    /// 3) if a script sets the variable to an unknown value.
    std::string_view environment(std::string_view name) const;

    files::ConfigValue& root() { return root_; }
    const files::ConfigValue& root() const { return root_; }

    // Functions that read the key at a dotted path. If the key is missing, null or of a wrong type, or if this version
    // does not know it, they return its default in this version, or nothing if it has no default. check_keys reports
    // wrong types and keys of other versions.
    /// Returns whether a file or an override sets the key to a value other than null.
    bool has(std::string_view path) const;
    bool flag(std::string_view path) const;
    std::optional<bool> maybe_flag(std::string_view path) const;  ///< nothing for "auto", a list or a map
    std::optional<double> number(std::string_view path) const;
    std::string text(std::string_view path) const;  ///< booleans and numbers as written; the default if missing
    /// Returns 'F', 'H' or 'B' for the name of a dtype ("bfloat16", "torch.float16", "half"), or 0 for any other text
    /// or if the key is missing.
    char dtype(std::string_view path) const;
    /// Returns the value of a key as a file or an override sets it, even if this version does not know the key.
    const files::ConfigValue* value(std::string_view path) const { return root_.find(path); }
    /// Returns the source of a field that this key determines: "ds.json:3:5 fp16.loss_scale", or "default of deepspeed
    /// 0.19.6" if the key is not set.
    std::string from(std::string_view path) const;
    Origin origin(std::string_view path) const { return has(path) ? Origin::file : Origin::standard; }

    // Functions that set results.
    ResolvedConfig& resolved() { return resolved_; }
    const ResolvedConfig& resolved() const { return resolved_; }
    /// Sets a field to a value that a key determines. The origin and source of the field depend on whether the key is
    /// set.
    void set(std::string_view field, FieldValue value, std::string_view from_path);
    /// Set a field that follows from other fields ("from compute") or from the device.
    void infer(std::string_view field, FieldValue value, std::string from);
    void by_device(std::string_view field, FieldValue value);

    /// Reports a finding. `keys` are the keys that it concerns. The first of them is the key to change, and its place
    /// is the place of the finding. If no file sets this key, the place is that of the nearest enclosing map. `rule` is
    /// the name of the rule ("initial-scale-trap"). This function puts the name of the framework in front.
    Finding& report(FindingCode code, std::string_view rule, std::initializer_list<std::string_view> keys,
                    std::string message, std::string instead = {});
    const std::vector<Finding>& findings() const { return findings_; }
    std::vector<Finding>& findings() { return findings_; }
    /// Removes the findings of these rules. For findings of another importer that this framework makes wrong or reports
    /// itself. A name of a rule contains the name of its framework: "transformers/no-master".
    void remove_findings(std::span<const std::string_view> rules);

    /// Runs the importer of another framework on a part of this config. Used for a part that this framework passes on
    /// to the other one, for example a DeepSpeed config inside a config of Transformers. The fields and findings of the
    /// other importer are added to this context. `at` is the path of the part and becomes the prefix of the paths in
    /// these findings. If `at` is empty, the part is the whole config. The other importer then assumes that keys
    /// outside its tables belong to this framework.
    void delegate(const Framework& other, std::string_view at);
    /// Reads another file as a part of this config. For use in prepare(). Places in the result refer to the file that
    /// was read. Its repeated keys are reported, and its suppressions apply. `at` is the place where `key` names the
    /// file. A relative path is looked up first in the folder of the file that contains `at`, then in the working
    /// folder. If the file is in neither folder, a file with the same name that the user gave is used. If the file is
    /// missing, unreadable or includes itself, a finding is reported at `at`, and nothing is returned.
    std::optional<files::ConfigValue> read_file(std::string_view key, const files::ConfigPlace& at,
                                                const std::string& path);
    /// Returns the place of the key or, if no file has the key, of the nearest enclosing map.
    const files::ConfigPlace& place_of(std::string_view path) const;

    /// Records that the defaults of keys are in a config file that is not read. Fields that no key of the config
    /// decides are then left out of the result. So are errors, warnings and contradictions about keys that are not set.
    void leave_defaults_open() { defaults_are_open_ = true; }
    bool defaults_are_open() const { return defaults_are_open_; }

    // Functions for import_config().
    /// Runs prepare, check_keys and resolve.
    void run();
    void report_device();  ///< sets the field `device`, if resolve() has not set it
    /// Reports each default that determined a field. Call this function after all fields have their final values.
    void report_defaults();
    /// Reports, in one finding, the device, the dtype of the checkpoint and the versions that no option gives.
    void report_assumed();
    /// Returns ImportResult::basis.
    std::string basis() const;
    /// Makes each finding name the release that it describes if the version of the package is unknown. The tables of
    /// keys cannot show that such a version refuses a config, so their errors become warnings.
    void name_known_releases();
    /// Reports each package whose version is older or newer than all known releases.
    void report_unknown_versions();
    void add_file(files::ConfigFile& file);  ///< records the repeated keys and suppressions of a file
    const std::vector<files::RepeatedKey>& repeated() const { return repeated_; }
    const std::vector<files::IgnoredRule>& ignored_rules() const { return ignored_rules_; }
    std::vector<std::string> included() const;  ///< paths of the files that read_file() has read
    std::span<const IncludedFile> included_files() const { return included_; }
    /// Returns whether another framework delegated its whole config to this one. Keys that are unknown here are then
    /// assumed to belong to that framework.
    bool root_is_shared() const { return shared_by_ != nullptr; }
    /// Returns the framework that delegated its whole config to this one, or null if there is none.
    const Framework* shared_by() const { return shared_by_; }

  private:
    std::optional<std::string_view> changed_default(std::string_view path) const;
    std::optional<std::string_view> default_value(std::string_view path) const;
    /// A field that a default determined. set() records it, and report_defaults() reports it.
    struct DefaultUsed {
        std::string field, path, from;
    };
    void forget_default(std::string_view field);
    void remove_open_defaults();
    std::string full_path(std::string_view path) const;
    bool as_flag(const files::ConfigValue& value) const;
    /// Returns the value of a key, or null if no file sets it or if this version does not know it.
    const files::ConfigValue* known_value(std::string_view path) const;
    /// Returns the packages with an unknown version that an importer asked for or that an option names.
    std::vector<std::string> packages_of_unknown_version() const;

    const Framework* framework_;
    files::ConfigValue root_;
    const ImportOptions* options_;
    DeviceProfile device_;  // of the options, as the config's version of torch describes it
    ResolvedConfig resolved_;
    std::vector<Finding> findings_;
    std::vector<DefaultUsed> defaults_used_;
    std::vector<files::RepeatedKey> repeated_;
    std::vector<files::IgnoredRule> ignored_rules_;
    std::vector<IncludedFile> included_;
    std::string prefix_;  // path of this part in the whole config; empty if it is the whole config
    const Framework* shared_by_ = nullptr;
    bool defaults_are_open_ = false;
    mutable bool asked_device_ = false, asked_checkpoint_ = false;
    mutable std::vector<std::string> asked_versions_;  // frameworks whose version decided something
};

/// Returns 'F', 'H' or 'B' for the name of a dtype ("bfloat16", "torch.float16", "half"), or 0 for any other text.
char dtype_letter(std::string_view name);

/// Returns whether the name of a key suggests that it may affect precision: whether it contains a word such as dtype, fp16,
/// half or scale.
bool names_precision(std::string_view key);

/// Converts a number to an int by dropping its fraction. A number outside the range of int becomes the nearest int, and
/// NaN becomes 0, because a config may contain any number.
int to_int(double number);

/// Moves the keys of sections to the root. A later key replaces an earlier key of the same name.
void drop_sections(files::ConfigValue& root);

/// Returns the default of a key in a version, or nothing if the key has no default.
std::optional<std::string_view> default_of(const Framework& framework, std::string_view path, FrameworkVersion version);
/// Reports unknown keys, wrong types, words that are not valid choices, keys of other versions, and keys without
/// effect.
void check_keys(ImportContext& context);

}  // namespace macheps::configs
