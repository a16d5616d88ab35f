// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/shown.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/history/history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

namespace macheps::configs {

namespace {

namespace fs = std::filesystem;

/// Returns the boolean that YAML 1.1 and argument parsers read from a text, or nothing.
std::optional<bool> spelled_flag(std::string_view text) {
    const std::string word = lowered(text);
    for (const std::string_view yes : {"true", "yes", "on", "y", "t", "1"}) {
        if (word == yes) return true;
    }
    for (const std::string_view no : {"false", "no", "off", "n", "f", "0"}) {
        if (word == no) return false;
    }
    return {};
}

/// Rules, without the names of their frameworks, that compare a config with a table of keys or of their values.
constexpr std::string_view table_rules[] = {"unknown-key",
                                            "key-of-other-version",
                                            "wrong-type",
                                            "no-such-choice",
                                            "no-such-dtype",
                                            "unknown-optimiser",
                                            "optimiser-raises",
                                            "dtype-too-new",
                                            "torch-dtype-removed",
                                            "communication-dtype",
                                            "sequence-communication-dtype"};

/// A release that the import describes instead of an unknown version.
class DescribedRelease {
  public:
    DescribedRelease(std::string_view package, const UnknownVersion& version)
        : package_(package), title_(known_releases(package)->title), version_(version) {}

    /// Makes a finding about the package name the release. A row of the history is compared with the named version, so
    /// only its text changes, if the text contains the described release.
    void apply(Finding& finding) const {
        const bool is_own = finding.rule.starts_with(fmt::format("{}/", package_));
        const std::size_t end = end_of_release(finding.message);
        if (end != std::string::npos)
            finding.message.insert(end, fmt::format(" ({})", version_.rank()));
        else if (is_own && finding.fault.empty())
            finding.message += fmt::format(" ({}, {})", name(title_), version_.rank());
        if ((is_own || end != std::string::npos) && finding.fault.empty()) weaken(finding);
    }

  private:
    std::string name(std::string_view package) const {
        return fmt::format("{} {}", package, to_string(version_.described));
    }

    /// Returns the end of the release's name in a text, or npos if the text does not contain it.
    std::size_t end_of_release(const std::string& text) const {
        for (const std::string& words : {name(title_), name(package_)}) {
            for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
                const std::string_view rest = std::string_view(text).substr(at + words.size());
                const bool goes_on =
                    !rest.empty() && (is_digit(rest[0]) || (rest[0] == '.' && rest.size() > 1 && is_digit(rest[1])));
                if (!goes_on) return at + words.size();
            }
        }
        return std::string::npos;
    }

    static bool is_digit(char letter) { return '0' <= letter && letter <= '9'; }

    void weaken(Finding& finding) const {
        const std::string_view rule = std::string_view(finding.rule).substr(finding.rule.find('/') + 1);
        if (std::find(std::begin(table_rules), std::end(table_rules), rule) == std::end(table_rules)) {
            if (!finding.instead.empty()) finding.instead += fmt::format(" (for {})", name(title_));
            return;
        }
        if (finding.code == FindingCode::error) finding.code = FindingCode::warning;
        finding.framework_refuses = false;
        finding.instead = fmt::format("check it in the source of {} {}", title_, to_string(version_.named));
    }

    std::string_view package_, title_;
    UnknownVersion version_;
};

}  // namespace

char dtype_letter(std::string_view name) {
    if (name.starts_with("torch.")) name.remove_prefix(6);
    for (const std::string_view word : {"fp32", "float32", "float"}) {
        if (name == word) return 'F';
    }
    for (const std::string_view word : {"fp16", "float16", "half"}) {
        if (name == word) return 'H';
    }
    return name == "bf16" || name == "bfloat16" ? 'B' : '\0';
}

void drop_sections(files::ConfigValue& root) {
    std::vector<files::ConfigValue::Entry> entries = std::move(root.entries);
    root.entries.clear();
    const auto add = [&](files::ConfigValue::Entry& entry) {
        std::erase_if(root.entries, [&](const files::ConfigValue::Entry& one) { return one.key == entry.key; });
        root.entries.push_back(std::move(entry));
    };
    for (files::ConfigValue::Entry& entry : entries) {
        if (!entry.value.is_map()) {
            add(entry);
            continue;
        }
        for (files::ConfigValue::Entry& inner : entry.value.entries) add(inner);
    }
}

int to_int(double number) {
    if (std::isnan(number)) return 0;
    return static_cast<int>(
        std::clamp<double>(number, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

std::optional<std::string_view> default_of(const Framework& framework, std::string_view path,
                                           FrameworkVersion version) {
    std::optional<std::string_view> value;
    for (const KeyRow& row : framework.keys) {
        if (row.path != path) continue;
        for (const VersionedDefault& each : row.defaults) {
            if (each.since.empty() || parse_version(each.since) <= version) value = each.value;
        }
    }
    if (value == "unset") return {};
    return value;
}

ImportContext::ImportContext(const Framework& framework, files::ConfigValue root, const ImportOptions& options)
    : framework_(&framework), root_(std::move(root)), options_(&options) {
    const DeviceProfile* device = find_device_profile(options.device);
    if (device == nullptr) throw Error({.what = fmt::format("'{}' is not a device profile", options.device)});
    device_ = *device;
    // Since torch 2.3, is_bf16_supported() counts emulation. Before that, it required compute capability 8.0.
    const bool counts_emulation = *assumed_version("torch") >= parse_version("2.3");
    if (device_.kind == DeviceProfile::Kind::cuda && !device_.bf16 && !counts_emulation)
        device_.torch_says_bf16 = false;
    if (framework.ignores_sections) drop_sections(root_);
}

FrameworkVersion ImportContext::version(std::string_view framework) const {
    if (const std::optional<FrameworkVersion> known = known_version(framework)) return *known;
    throw Error({.what = fmt::format("'{}' is not a known framework", framework)});
}

std::optional<FrameworkVersion> ImportContext::known_version(std::string_view package) const {
    const std::optional<FrameworkVersion> assumed = assumed_version(package);
    if (assumed && std::find(asked_versions_.begin(), asked_versions_.end(), package) == asked_versions_.end())
        asked_versions_.emplace_back(package);
    const std::optional<UnknownVersion> unknown = unknown_version(package);
    return unknown ? unknown->described : assumed;
}

std::optional<UnknownVersion> ImportContext::unknown_version(std::string_view package) const {
    const std::optional<FrameworkVersion> version = assumed_version(package);
    const std::optional<KnownReleases> known = known_releases(package);
    if (!version || !known) return {};
    const FrameworkVersion oldest = parse_version(known->oldest), newest = parse_version(known->newest);
    if (oldest <= *version && *version <= newest) return {};
    return UnknownVersion{.named = *version, .described = *version < oldest ? oldest : newest};
}

std::optional<FrameworkVersion> ImportContext::assumed_version(std::string_view package) const {
    if (const std::optional<FrameworkVersion> given = given_version(package)) return given;
    const auto& limits = options_->limits;
    if (const auto limit = limits.find(package); limit != limits.end()) return limit->second;
    const Framework* row = find_framework(package);
    return row == nullptr ? std::nullopt : std::optional(parse_version(row->newest));
}

std::optional<FrameworkVersion> version_in(const ImportOptions& options, std::string_view package) {
    for (const auto* versions : {&options.versions, &options.requirements.versions}) {
        if (const auto found = versions->find(package); found != versions->end()) return found->second;
    }
    return {};
}

std::optional<FrameworkVersion> ImportContext::given_version(std::string_view package) const {
    return version_in(*options_, package);
}

const DeviceProfile& ImportContext::device() const {
    asked_device_ = true;
    return device_;
}

std::string_view ImportContext::checkpoint_dtype() const {
    asked_checkpoint_ = true;
    return options_->checkpoint_dtype;
}

std::string_view ImportContext::environment(std::string_view name) const {
    for (const files::UnknownValue& one : options_->unknown_environment) {
        if (one.path != name) continue;
        const std::string written = one.written.empty() ? "" : fmt::format("`{}`, which is ", one.written);
        throw Error(
            {.what = fmt::format("the value of the variable {} is {}unknown: {}", name, written, one.reason),
             .where = to_string(one.place),
             .fix = fmt::format("write the value out, or pass --env with a file that has a line {}=VALUE", name)});
    }
    const auto found = options_->environment.find(name);
    return found == options_->environment.end() ? std::string_view{} : std::string_view(found->second);
}

/// Returns the default of a key if the framework of the whole config changes it, otherwise nothing.
std::optional<std::string_view> ImportContext::changed_default(std::string_view path) const {
    const Framework& owner = shared_by_ != nullptr ? *shared_by_ : *framework_;
    return owner.changed_default == nullptr ? std::nullopt : owner.changed_default(*this, path);
}

std::optional<std::string_view> ImportContext::default_value(std::string_view path) const {
    const std::optional<std::string_view> changed = changed_default(path);
    return changed ? changed : default_of(*framework_, path, version());
}

const files::ConfigValue* ImportContext::known_value(std::string_view path) const {
    bool has_row = false;
    for (const KeyRow& row : framework_->keys) {
        if (row.path != path) continue;
        has_row = true;
        const bool is_of_version = (row.since.empty() || since(row.since)) && (row.until.empty() || !since(row.until));
        if (is_of_version) return root_.find(path);
    }
    return has_row ? nullptr : root_.find(path);
}

bool ImportContext::has(std::string_view path) const {
    const files::ConfigValue* found = known_value(path);
    return found != nullptr && !found->is_null();
}

bool ImportContext::as_flag(const files::ConfigValue& value) const {
    if (value.is_boolean()) return value.boolean;
    if (value.is_number()) return value.number != 0;
    const bool is_read =
        !value.quoted || (framework_->reads_quoted_booleans != nullptr && framework_->reads_quoted_booleans(*this));
    const std::optional<bool> spelled = spelled_flag(value.written);
    return is_read && spelled ? *spelled : !value.written.empty();
}

std::optional<bool> ImportContext::maybe_flag(std::string_view path) const {
    const files::ConfigValue* found = known_value(path);
    if (found != nullptr && !found->is_null()) {
        if (found->is_list() || found->is_map() || found->written == "auto") return {};
        return as_flag(*found);
    }
    const std::optional<std::string_view> standard = default_value(path);
    return standard ? spelled_flag(*standard) : std::nullopt;
}

bool ImportContext::flag(std::string_view path) const { return maybe_flag(path).value_or(false); }

std::optional<double> ImportContext::number(std::string_view path) const {
    const files::ConfigValue* found = known_value(path);
    if (found != nullptr) {
        if (const std::optional<double> said = files::written_number(*found)) return said;
    }
    const std::optional<std::string_view> standard = default_value(path);
    if (!standard) return {};
    files::ConfigValue value;
    value.kind = files::ConfigValue::Kind::text;
    value.written = *standard;
    return files::written_number(value);
}

std::string ImportContext::text(std::string_view path) const {
    const files::ConfigValue* found = known_value(path);
    if (found != nullptr && !found->is_null() && !found->is_list() && !found->is_map()) return found->written;
    return std::string(default_value(path).value_or(""));
}

char ImportContext::dtype(std::string_view path) const { return dtype_letter(text(path)); }

std::string ImportContext::full_path(std::string_view path) const {
    if (prefix_.empty() || path.empty()) return prefix_ + std::string(path);
    return fmt::format("{}.{}", prefix_, path);
}

std::string ImportContext::from(std::string_view path) const {
    if (!has(path)) {
        const std::string_view owner =
            shared_by_ != nullptr && changed_default(path) ? shared_by_->name : framework_->name;
        return fmt::format("default of {} {}", owner, to_string(version(owner)));
    }
    return fmt::format("{} {}", to_string(place_of(path)), full_path(path));
}

const files::ConfigPlace& ImportContext::place_of(std::string_view path) const {
    const files::ConfigPlace* place = &root_.place;
    const files::ConfigValue* map = &root_;
    while (map != nullptr && !path.empty()) {
        const std::size_t dot = std::min(path.find('.'), path.size());
        const files::ConfigValue::Entry* entry = map->entry(path.substr(0, dot));
        if (entry == nullptr) break;
        place = &entry->place;
        map = &entry->value;
        path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return *place;
}

void ImportContext::forget_default(std::string_view field) {
    std::erase_if(defaults_used_, [&](const DefaultUsed& one) { return one.field == field; });
}

void ImportContext::set(std::string_view field, FieldValue value, std::string_view from_path) {
    forget_default(field);
    if (!has(from_path)) defaults_used_.push_back({std::string(field), full_path(from_path), from(from_path)});
    resolved_.set(field, std::move(value), origin(from_path), from(from_path));
}

void ImportContext::infer(std::string_view field, FieldValue value, std::string from_text) {
    forget_default(field);
    resolved_.set(field, std::move(value), Origin::inferred, std::move(from_text));
}

void ImportContext::by_device(std::string_view field, FieldValue value) {
    forget_default(field);
    resolved_.set(field, std::move(value), Origin::device, fmt::format("device {}", device().name));
}

Finding& ImportContext::report(FindingCode code, std::string_view rule, std::initializer_list<std::string_view> keys,
                               std::string message, std::string instead) {
    Finding finding;
    finding.code = code;
    finding.rule = fmt::format("{}/{}", framework_->name, rule);
    finding.message = printable(message);  // the message may contain a file name with control characters
    finding.instead = printable(instead);
    for (const std::string_view key : keys) finding.keys.push_back(full_path(key));
    if (keys.size() > 0) finding.key = finding.keys.front();
    finding.place = place_of(keys.size() > 0 ? *keys.begin() : std::string_view{});
    findings_.push_back(std::move(finding));
    return findings_.back();
}

void ImportContext::remove_findings(std::span<const std::string_view> rules) {
    std::erase_if(findings_, [&](const Finding& finding) {
        return std::find(rules.begin(), rules.end(), finding.rule) != rules.end();
    });
}

void ImportContext::run() {
    if (framework_->prepare != nullptr) framework_->prepare(*this);
    check_keys(*this);
    if (framework_->resolve != nullptr) framework_->resolve(*this);
    report_history(*this);
    if (defaults_are_open_) remove_open_defaults();
}

/// Removes fields and findings that follow from defaults which are not known.
void ImportContext::remove_open_defaults() {
    std::vector<std::string_view> fields;
    for (const ResolvedField* field : resolved_.fields()) {
        if (field->origin == Origin::standard || field->origin == Origin::inferred) fields.push_back(field->name);
    }
    for (const std::string_view field : fields) resolved_.erase(field);
    std::erase_if(findings_, [&](const Finding& finding) {
        const bool is_claim = finding.code == FindingCode::error || finding.code == FindingCode::warning ||
                              finding.code == FindingCode::contradiction;
        return is_claim && std::any_of(finding.keys.begin(), finding.keys.end(),
                                       [&](const std::string& key) { return value(key) == nullptr; });
    });
}

void ImportContext::delegate(const Framework& other, std::string_view at) {
    files::ConfigValue part;
    part.kind = files::ConfigValue::Kind::map;
    part.place = place_of(at);
    if (at.empty()) {
        part = root_;
    } else if (const files::ConfigValue* found = root_.find(at); found != nullptr && found->is_map()) {
        part = *found;
    }
    // If the part is another file, the paths in findings begin at the root of that file.
    const bool is_same_file = part.place.file == root_.place.file;
    ImportContext inner(other, std::move(part), *options_);
    inner.prefix_ = is_same_file ? full_path(at) : std::string{};
    inner.included_ = included_;
    inner.shared_by_ = at.empty() ? framework_ : nullptr;
    inner.run();
    for (const ResolvedField* field : inner.resolved_.fields()) {
        forget_default(field->name);
        resolved_.set(field->name, field->value, field->origin, field->from);
    }
    const auto append = [](auto& all, auto& more) { all.insert(all.end(), more.begin(), more.end()); };
    append(findings_, inner.findings_);
    append(defaults_used_, inner.defaults_used_);
    append(repeated_, inner.repeated_);
    append(ignored_rules_, inner.ignored_rules_);
    included_ = inner.included_;
    asked_device_ = asked_device_ || inner.asked_device_;
    asked_checkpoint_ = asked_checkpoint_ || inner.asked_checkpoint_;
    for (const std::string& name : inner.asked_versions_) version(name);
}

void ImportContext::add_file(files::ConfigFile& file) {
    repeated_.insert(repeated_.end(), file.repeated.begin(), file.repeated.end());
    ignored_rules_.insert(ignored_rules_.end(), file.ignored_rules.begin(), file.ignored_rules.end());
}

std::optional<files::ConfigValue> ImportContext::read_file(std::string_view key, const files::ConfigPlace& at,
                                                           const std::string& path) {
    const auto refuse = [&](std::string_view rule, std::string message, std::string instead) {
        report(FindingCode::error, rule, {key}, std::move(message), std::move(instead)).place = at;
        return std::nullopt;
    };
    if (const files::WrittenFile* written = files::find_written_file(options_->written_files, path)) {
        try {
            files::ConfigFile read = files::read_written_file(*written, path);
            add_file(read);
            return std::move(read.root);
        } catch (const Error& error) {
            return refuse("unreadable-file", error.what(), error.parts().fix);
        }
    }
    std::error_code failed;
    fs::path file = fs::path(at.file).parent_path() / path;
    if (!is_there(file)) file = path;
    if (!is_there(file)) {
        // The path may be valid only on another machine. If the user gave a file with the same name, that file is used.
        const auto has_its_name = [&](const std::string& one) {
            return fs::path(one).filename() == file.filename() && !fs::equivalent(one, at.file, failed);
        };
        const auto& given = options_->given_files;
        if (const auto found = std::find_if(given.begin(), given.end(), has_its_name); found != given.end()) {
            report(FindingCode::note, "file-by-name", {key},
                   fmt::format(
                       "the file '{}' does not exist; {}, which was also given, has the same name and is read instead",
                       path, *found))
                .place = at;
            file = *found;
        }
    }
    if (!is_there(file) && options_->is_command) {
        // The command may run on another machine, or another step may write the file.
        report(FindingCode::warning, "missing-file", {key},
               fmt::format("the file '{}' does not exist here: the fields that it decides are unknown", path),
               fmt::format("a path relative to {} or to the working folder", at.file))
            .place = at;
        return {};
    }
    if (!is_there(file)) {
        return refuse("missing-file", fmt::format("the file '{}' does not exist", path),
                      fmt::format("a path relative to {} or to the working folder", at.file));
    }
    const std::string name = file.lexically_normal().string();
    const auto identity = [&](const fs::path& one) { return fs::weakly_canonical(one, failed).string(); };
    const std::string wanted = identity(file);
    std::string includer = identity(at.file);
    constexpr std::size_t max_files = 64;
    bool is_circle = includer == wanted || included_.size() >= max_files;
    for (std::size_t i = included_.size(); i-- > 0 && !is_circle;) {
        if (included_[i].identity != includer) continue;
        includer = included_[i].includer;
        is_circle = includer == wanted;
    }
    if (is_circle)
        return refuse("circle-of-files", fmt::format("'{}' includes itself through other files", path),
                      "remove one of the references");
    included_.push_back(
        {.identity = wanted, .includer = identity(at.file), .path = name, .key = full_path(key), .place = at});
    try {
        files::ConfigFile read = files::read_config_file(name);
        add_file(read);
        return std::move(read.root);
    } catch (const Error& error) {
        return refuse("unreadable-file", error.what(), error.parts().fix);
    }
}

std::vector<std::string> ImportContext::included() const {
    std::vector<std::string> paths;
    for (const IncludedFile& file : included_) {
        if (std::find(paths.begin(), paths.end(), file.path) == paths.end()) paths.push_back(file.path);
    }
    return paths;
}

void ImportContext::report_device() {
    if (resolved_.find("device") != nullptr) return;
    const std::string from = options_->device_is_default ? "default of --gpu" : "--gpu";
    resolved_.set("device", {std::string(device_.name), {}}, Origin::device, from);
}

void ImportContext::report_defaults() {
    // One key may determine several fields. Its default is reported only once, together with all of these fields.
    std::map<std::pair<std::string, std::string>, std::string> fields_of;  // key: path, source of the default
    for (const DefaultUsed& one : defaults_used_) {
        const ResolvedField* field = resolved_.find(one.field);
        if (field == nullptr) continue;
        std::string& fields = fields_of[{one.path, one.from}];
        fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", one.field, scalar_text(field->value.value));
        // If a field has one parameter, the message contains the parameter ("clip torch 1"). Several parameters are
        // shown only in the table of fields.
        if (field->value.parts.size() == 1) fields += " " + scalar_text(field->value.parts.front().second);
    }
    for (const auto& [default_used, fields] : fields_of) {
        const auto& [path, from_text] = default_used;
        Finding& finding = report(FindingCode::defaulted, "default", {},
                                  fmt::format("`{}` is not set: {} ({})", path, fields, from_text));
        finding.key = path;
        finding.keys = {path};
    }
}

void ImportContext::report_assumed() {
    std::vector<std::string> assumed, options, versions;
    if (asked_device_ && options_->device_is_default) {
        assumed.push_back(fmt::format("device {}", device_.name));
        options.emplace_back("--gpu NAME");
    }
    if (asked_checkpoint_ && options_->checkpoint_is_default) {
        assumed.push_back(fmt::format("a checkpoint in {}", options_->checkpoint_dtype));
        options.emplace_back("--checkpoint-dtype DTYPE");
    }
    for (const std::string& name : asked_versions_) {
        if (given_version(name)) continue;
        const Framework* row = find_framework(name);
        std::string text = fmt::format("{} {}", row == nullptr ? name : row->title, to_string(version(name)));
        const auto& inexact = options_->requirements.inexact;
        if (const auto said = inexact.find(name); said != inexact.end())
            text += fmt::format(" (the requirements say '{}', which is not one version)", said->second);
        assumed.push_back(std::move(text));
        versions.push_back(fmt::format("{}=V", name));
    }
    if (!versions.empty())
        options.push_back(fmt::format("--framework-version {} or --requirements FILE", fmt::join(versions, ",")));
    if (assumed.empty()) return;
    report(FindingCode::defaulted, "assumed", {},
           fmt::format("assumed, because no option says it: {}", fmt::join(assumed, ", ")),
           fmt::format("{}", fmt::join(options, ", ")));
}

std::string ImportContext::basis() const {
    const auto marked = [](std::string text, bool is_assumed) { return text + (is_assumed ? " (assumed)" : ""); };
    std::vector<std::string> packages{std::string(framework_->name)}, parts;
    for (const std::string& name : asked_versions_) {
        if (name != framework_->name) packages.push_back(name);
    }
    for (const std::string& name : packages) {
        const Framework* row = find_framework(name);
        parts.push_back(
            marked(fmt::format("{} {}", row == nullptr ? name : row->title, to_string(*assumed_version(name))),
                   !given_version(name)));
    }
    const std::string weights = fmt::format("weights in {}", options_->checkpoint_dtype);
    if (!options_->checkpoint_file.empty())
        parts.push_back(fmt::format("{} ({})", weights, options_->checkpoint_file));
    else if (asked_checkpoint_ || !options_->checkpoint_is_default)
        parts.push_back(marked(weights, options_->checkpoint_is_default));
    parts.push_back(marked(fmt::format("on {}", options_->device), options_->device_is_default));
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::string> ImportContext::packages_of_unknown_version() const {
    std::vector<std::string> packages = asked_versions_;
    for (const auto& [name, version] : options_->versions) {
        if (std::find(packages.begin(), packages.end(), name) == packages.end()) packages.push_back(name);
    }
    std::erase_if(packages, [&](const std::string& name) { return !unknown_version(name); });
    return packages;
}

void ImportContext::name_known_releases() {
    for (const std::string& package : packages_of_unknown_version()) {
        const DescribedRelease release(package, *unknown_version(package));
        for (Finding& finding : findings_) release.apply(finding);
    }
}

void ImportContext::report_unknown_versions() {
    for (const std::string& package : packages_of_unknown_version()) {
        const UnknownVersion unknown = *unknown_version(package);
        const KnownReleases known = *known_releases(package);
        const std::string named = to_string(unknown.named), described = to_string(unknown.described);
        report(FindingCode::warning, "unknown-version", {},
               fmt::format("{} {} was not checked: it is {} {} than {}, {}. Fields and findings describe {}, and may "
                           "be false for {}. Only the history of faults judges {} itself",
                           known.title, named, distance_text(unknown.named, unknown.described),
                           unknown.is_older() ? "older" : "newer", described, unknown.rank(), described, named, named),
               fmt::format("a version from {} to {}, or a check of the findings in the source of {}", known.oldest,
                           known.newest, named))
            .rule = fmt::format("{}/unknown-version", package);
    }
}

}  // namespace macheps::configs
