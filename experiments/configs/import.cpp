// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/import.hpp"
#include "core/error.hpp"
#include "core/field_error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/checkpoint_range.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/given_files.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/policy_text/fp8_text.hpp"
#include "experiments/configs/policy_text/policy_text.hpp"
#include "experiments/configs/policy_text/step_fields.hpp"
#include "experiments/configs/recognition/recognise.hpp"
#include "experiments/configs/recognition/training_command.hpp"
#include "experiments/configs/traps.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace macheps::configs {

namespace {

template <class Rows>
std::vector<std::string_view> names_of_rows(const Rows& rows) {
    std::vector<std::string_view> names;
    for (const auto& row : rows) {
        if constexpr (requires { row.name; })
            names.push_back(row.name);
        else
            names.push_back(row->name);
    }
    return names;
}

void require_name(std::string_view name, const std::vector<std::string_view>& names, std::string_view what,
                  std::string field) {
    const auto is_name = [&](std::string_view each) { return lowered(each) == lowered(name); };
    if (std::any_of(names.begin(), names.end(), is_name)) return;
    const std::string nearest = nearest_name(name, names);
    throw FieldError(std::move(field), fmt::format("'{}' is not a {}", name, what),
                     nearest.empty()
                         ? fmt::format("use one of {}", fmt::join(names, ", "))
                         : fmt::format("did you mean '{}'? use one of {}", nearest, fmt::join(names, ", ")));
}

/// Returns the names of frameworks, and of packages whose releases have known faults.
std::vector<std::string_view> names_of_packages() {
    std::vector<std::string_view> names = names_of_rows(frameworks());
    for (const std::string_view package : fault_packages()) {
        if (std::find(names.begin(), names.end(), package) == names.end()) names.push_back(package);
    }
    return names;
}

void check_options(const ImportOptions& options) {
    const std::vector<std::string_view> known = names_of_rows(frameworks());
    if (!options.framework.empty()) require_name(options.framework, known, "framework", "framework");
    require_name(options.device, device_names(), "device profile", "device_profile");
    require_name(options.checkpoint_dtype, {"fp32", "fp16", "bf16"}, "dtype of a checkpoint", "checkpoint_dtype");
    const std::vector<std::string_view> packages = names_of_packages();
    for (const auto& [name, version] : options.versions) {
        if (!name.empty()) require_name(name, packages, "known framework or package", "framework_version");
    }
    std::vector<std::string_view> faults;
    for (const FaultRow* row : fault_rows()) faults.push_back(row->id);
    for (const std::string& id : options.despite) require_name(id, faults, "fault of the history", "despite");
}

/// Reports the files that are read because another file names them.
void report_named(ImportContext& context, const GivenFiles& given) {
    for (const NamedFile& one : given.named) {
        context
            .report(FindingCode::note, "named-file", {one.key},
                    fmt::format("`{}` of {} names {}, which was also given: it is read as the value of that key, and "
                                "is not merged as a second config",
                                one.key, one.by, one.file))
            .place = one.place;
    }
}

/// Reports that the framework was recognised by the keys of the config.
void report_recognised(ImportContext& context) {
    context.report(FindingCode::note, "recognised", {},
                   fmt::format("recognised as {} by its keys", context.framework().title));
}

/// Reports that the keys of the config also fit another framework, and the fields that this framework would have.
void report_also_fits(ImportContext& context, const ImportResult& as_other) {
    std::vector<std::string> fields;
    for (const ResolvedField* field : as_other.resolved.fields()) {
        const ResolvedField* own = context.resolved().find(field->name);
        const std::string text = field_text(field->value);
        if (own == nullptr || field_text(own->value) != text) fields.push_back(fmt::format("{} {}", field->name, text));
    }
    const std::string_view other = as_other.framework->title, own = context.framework().title;
    const std::string difference = fields.empty() ? fmt::format("the fields are the same for {}", other)
                                                  : fmt::format("for {}, {}", other, fmt::join(fields, ", "));
    context.report(FindingCode::note, "also-fits", {},
                   fmt::format("{} and the scripts of {} both have these keys, and the config is read as one of {}: {}",
                               own, other, own, difference),
                   fmt::format("--framework {}, if a script of {} reads the config", as_other.framework->name, other));
    if (context.given_version(context.framework().name)) return;
    // If a framework and its release are only assumed, the config is not refused because of the release.
    for (Finding& finding : context.findings()) {
        if (!finding.rule.starts_with(fmt::format("{}/", context.framework().name))) continue;
        if (finding.code == FindingCode::error) finding.code = FindingCode::warning;
        finding.framework_refuses = false;
    }
}

void report_repeated(ImportContext& context) {
    for (const files::RepeatedKey& one : context.repeated()) {
        Finding& finding = context.report(
            FindingCode::error, "repeated-key", {},
            fmt::format("`{}` appears twice, here and in line {}: parsers use the later value or refuse the file",
                        one.path, one.first.line),
            "remove one of them");
        finding.place = one.second;
        finding.key = one.path;
        finding.keys = {one.path};
    }
}

/// Removes findings that comments in the files suppress. Reports a comment that suppresses nothing, because its rule
/// may be misspelt.
void silence(ImportContext& context) {
    std::vector<Finding>& findings = context.findings();
    std::vector<files::IgnoredRule> unused;
    for (const files::IgnoredRule& one : context.ignored_rules()) {
        const auto is_silenced = [&](const Finding& finding) { return finding.rule == one.rule; };
        if (std::none_of(findings.begin(), findings.end(), is_silenced)) unused.push_back(one);
    }
    std::erase_if(findings, [&](const Finding& finding) {
        const auto& rules = context.ignored_rules();
        return std::any_of(rules.begin(), rules.end(),
                           [&](const files::IgnoredRule& one) { return finding.rule == one.rule; });
    });
    for (const files::IgnoredRule& one : unused) {
        context
            .report(FindingCode::note, "unused-ignore", {},
                    fmt::format("this comment silences the rule {}, but the rule has no finding", one.rule),
                    "remove the comment, or correct the name of the rule")
            .place = one.place;
    }
}

/// Sorts findings by consequence: first what makes a training fail or refuse to start, last what changes nothing.
int consequence(const Finding& finding) {
    const bool is_error = severity(finding) == FindingSeverity::error;
    if (!finding.fault.empty() && finding.code != FindingCode::note) return is_error ? 0 : 2;
    if (is_error) return 1;
    switch (finding.code) {
        case FindingCode::error:
        case FindingCode::warning:
        case FindingCode::contradiction:
            return 3;
        case FindingCode::unknown:
            return 4;
        case FindingCode::note:
            return finding.fault.empty() ? 6 : 5;
        case FindingCode::defaulted:
            return 7;
        case FindingCode::inert:
            break;
    }
    return 8;
}

void sort_findings(std::vector<Finding>& findings) {
    const auto order = [](const Finding& one) {
        return std::tuple(consequence(one), one.place.file, one.place.line, one.place.column, one.rule, one.key,
                          one.message, static_cast<char>(one.code));
    };
    std::sort(findings.begin(), findings.end(),
              [&](const Finding& a, const Finding& b) { return order(a) < order(b); });
    const auto same = [&](const Finding& a, const Finding& b) { return order(a) == order(b); };
    findings.erase(std::unique(findings.begin(), findings.end(), same), findings.end());
}

}  // namespace

bool ImportResult::refused() const {
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& one) { return severity(one) == FindingSeverity::error; });
}

std::string version_text(const ImportResult& result) {
    if (!result.unknown_version) return to_string(result.version);
    const UnknownVersion unknown{.named = *result.unknown_version, .described = result.version};
    return fmt::format("{}, {} ({} was not checked)", to_string(unknown.described), unknown.rank(),
                       to_string(unknown.named));
}

namespace {

/// Sets the limits of other packages in the release of the framework that the config runs with.
void set_limits(const Framework& framework, ImportOptions& options) {
    const FrameworkVersion version = version_in(options, framework.name).value_or(parse_version(framework.newest));
    for (const PackageLimit& limit : framework.limits) {
        if (!limit.since.empty() && version < parse_version(limit.since)) continue;
        options.limits.erase(std::string(limit.package));
        if (!limit.newest.empty()) options.limits.emplace(limit.package, parse_version(limit.newest));
    }
}

}  // namespace

ImportResult import_config(std::span<const std::string> files_and_overrides, const ImportOptions& given) {
    check_options(given);
    GivenFiles files = read_given_files(files_and_overrides, given);
    const Framework& framework = *files.framework;
    ImportOptions options = given;
    options.given_files.insert(options.given_files.end(), files.files.begin(), files.files.end());
    // A version without the name of a framework applies to the framework of this config.
    if (const auto unnamed = options.versions.find(""); unnamed != options.versions.end()) {
        options.versions.insert_or_assign(std::string(framework.name), unnamed->second);
        options.versions.erase(unnamed);
    }
    set_limits(framework, options);

    require_known_values(framework, files.config);
    const LauncherSettings launcher = apply_launcher(framework, files.config, options);
    ImportContext context(framework, files.config.root, options);
    context.add_file(files.config);
    options.trained_in_bf16 = has_bf16_weights(context);
    context.run();
    report_faults_of_named_versions(context);
    set_step_fields(context);
    report_traps(context);
    context.name_known_releases();
    report_training_command(context, files.config, launcher);
    report_named(context, files);
    report_checkpoint_range(context);
    context.report_device();
    ImportResult result;
    result.policy = policy_text(context);
    result.trained_in_bf16 = options.trained_in_bf16;
    result.has_recipe = has_known_recipe(context.resolved());
    if (options.framework.empty()) report_recognised(context);
    if (files.also != nullptr) {
        ImportOptions as_other = given;
        as_other.framework = files.also->name;
        as_other.versions.erase("");  // the version of the framework that was recognised
        report_also_fits(context, import_config(files_and_overrides, as_other));
    }
    context.report_unknown_versions();
    context.report_defaults();
    context.report_assumed();
    report_repeated(context);
    silence(context);
    sort_findings(context.findings());
    result.framework = &framework;
    result.version = context.version();
    if (const std::optional<UnknownVersion> unknown = context.unknown_version(framework.name))
        result.unknown_version = unknown->named;
    result.resolved = context.resolved();
    result.findings = std::move(context.findings());
    result.basis = context.basis();
    result.included = context.included();
    return result;
}

bool is_config_name(const std::string& path) {
    const std::string ending = std::filesystem::path(path).extension().string();
    const auto has_ending = [&](const auto& endings) {
        return std::find(endings.begin(), endings.end(), ending) != endings.end();
    };
    if (!has_ending(doubtful_endings)) return has_ending(config_endings);
    try {
        return looks_like_config(files::read_config_file(path));
    } catch (const Error&) {
        return false;  // if it is a policy, the reader of policies reports the error
    }
}

}  // namespace macheps::configs
