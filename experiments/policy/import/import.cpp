// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/import/import.hpp"
#include "core/error.hpp"
#include "core/nearest_name.hpp"
#include "experiments/field_error.hpp"
#include "experiments/policy/import/fp8_text.hpp"
#include "experiments/policy/import/framework.hpp"
#include "experiments/policy/import/policy_text.hpp"
#include "experiments/policy/import/step_fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace macheps {

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
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const std::string nearest = nearest_name(name, names);
    throw FieldError(std::move(field), fmt::format("'{}' is no {}", name, what),
                     nearest.empty() ? fmt::format("one of {}", fmt::join(names, ", "))
                                     : fmt::format("did you mean '{}'? one of {}", nearest, fmt::join(names, ", ")));
}

void check_options(const ImportOptions& options) {
    const std::vector<std::string_view> known = names_of_rows(frameworks());
    if (!options.framework.empty()) require_name(options.framework, known, "framework", "framework");
    require_name(options.device, names_of_rows(device_profiles()), "device profile", "device_profile");
    require_name(options.checkpoint_dtype, {"fp32", "fp16", "bf16"}, "dtype of a checkpoint", "checkpoint_dtype");
    for (const auto& [name, version] : options.versions) {
        if (!name.empty()) require_name(name, known, "framework", "framework_version");
    }
}

/// An override is what holds `=` and is no file.
bool is_override(const std::string& text) {
    std::error_code failed;
    return text.find('=') != std::string::npos && !std::filesystem::exists(text, failed);
}

/// The files and overrides as one tree, and what the readers noticed beside it.
ConfigFile read_all(std::span<const std::string> arguments) {
    if (arguments.empty()) throw Error({.what = "no file was given", .where = "FILE", .exit = Exit::usage});
    ConfigFile all;
    bool is_first = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (is_override(arguments[i])) {
            const std::string name = fmt::format("argument {}", i + 1);
            if (is_first) {
                all.root.kind = ConfigValue::Kind::map;
                all.root.place = {name, 0, 0};
            }
            apply_override(all.root, arguments[i], name);
            is_first = false;
            continue;
        }
        ConfigFile file = read_config_file(arguments[i]);
        if (!file.root.is_map()) {
            throw Error({.what = "it holds no keys",
                         .where = to_string(file.root.place),
                         .fix = "a config is a map: KEY: VALUE in YAML, {\"KEY\": VALUE} in JSON"});
        }
        if (is_first || all.root.place.line == 0) all.root.place = file.root.place;
        if (is_first)
            all.root = std::move(file.root);
        else
            merge_config(all.root, file.root);
        all.repeated.insert(all.repeated.end(), file.repeated.begin(), file.repeated.end());
        all.ignored_rules.insert(all.ignored_rules.end(), file.ignored_rules.begin(), file.ignored_rules.end());
        is_first = false;
    }
    return all;
}

struct Recognised {
    const Framework* framework;
    int score;
};

/// What each framework says of the tree, the surest first.
std::vector<Recognised> recognise(const ConfigValue& root) {
    std::vector<Recognised> all;
    for (const Framework* framework : frameworks()) {
        const int score = framework->recognises == nullptr ? 0 : framework->recognises(root);
        if (score > 0) all.push_back({framework, score});
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Recognised& a, const Recognised& b) { return a.score > b.score; });
    return all;
}

const Framework& framework_of(const ConfigValue& root, const ImportOptions& options) {
    if (!options.framework.empty()) return *find_framework(options.framework);
    const std::vector<Recognised> all = recognise(root);
    const std::string fix =
        fmt::format("name it: --framework with one of {}", fmt::join(names_of_rows(frameworks()), ", "));
    if (all.empty()) {
        throw Error({.what = "no framework is known by these keys", .where = to_string(root.place), .fix = fix});
    }
    if (all.size() > 1 && all[0].score == all[1].score) {
        throw Error({.what = fmt::format("its keys are those of {} as well as of {}", all[0].framework->title,
                                         all[1].framework->title),
                     .where = to_string(root.place),
                     .fix = fix});
    }
    return *all.front().framework;
}

/// Findings about the config as a whole: what its framework is, and whether the tables know its version.
void report_framework(ImportContext& context, const ImportOptions& options) {
    const Framework& framework = context.framework();
    if (options.framework.empty()) {
        context.report(FindingCode::note, "recognised", {}, fmt::format("its keys are those of {}", framework.title));
    }
    const FrameworkVersion version = context.version();
    if (version < parse_version(framework.oldest) || version > parse_version(framework.newest)) {
        context.report(FindingCode::note, "unknown-version", {},
                       fmt::format("the tables describe {} {} to {}, not {}: what is said follows the nearest one",
                                   framework.title, framework.oldest, framework.newest, to_string(version)),
                       fmt::format("a version from {} to {}", framework.oldest, framework.newest));
    }
}

void report_repeated(ImportContext& context) {
    for (const RepeatedKey& one : context.repeated()) {
        Finding& finding = context.report(
            FindingCode::error, "repeated-key", {},
            fmt::format("`{}` stands twice, here and in line {}: the later one counts, or the file is refused",
                        one.path, one.first.line),
            "remove one of them");
        finding.place = one.second;
        finding.key = one.path;
        finding.keys = {one.path};
    }
}

/// Takes out what comments silence. A comment that silences nothing is worth a note: its rule may be misspelt.
void silence(ImportContext& context) {
    std::vector<Finding>& findings = context.findings();
    std::vector<IgnoredRule> unused;
    for (const IgnoredRule& one : context.ignored_rules()) {
        const auto is_silenced = [&](const Finding& finding) { return finding.rule == one.rule; };
        if (std::none_of(findings.begin(), findings.end(), is_silenced)) unused.push_back(one);
    }
    std::erase_if(findings, [&](const Finding& finding) {
        const auto& rules = context.ignored_rules();
        return std::any_of(rules.begin(), rules.end(),
                           [&](const IgnoredRule& one) { return finding.rule == one.rule; });
    });
    for (const IgnoredRule& one : unused) {
        context
            .report(FindingCode::note, "unused-ignore", {},
                    fmt::format("nothing is found by the rule {} that is ignored here", one.rule),
                    "remove the comment, or mend the rule's name")
            .place = one.place;
    }
}

void sort_findings(std::vector<Finding>& findings) {
    const auto code_order = [](FindingCode code) { return std::string_view("EUWCDIN").find(static_cast<char>(code)); };
    const auto order = [&](const Finding& one) {
        return std::tuple(severity(one), code_order(one.code), one.place.file, one.place.line, one.place.column,
                          one.rule, one.key, one.message);
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

ImportResult import_config(std::span<const std::string> files_and_overrides, const ImportOptions& given) {
    check_options(given);
    ConfigFile file = read_all(files_and_overrides);
    const Framework& framework = framework_of(file.root, given);
    ImportOptions options = given;
    // A version without a name is that of the framework whose config this is.
    if (const auto unnamed = options.versions.find(""); unnamed != options.versions.end()) {
        options.versions.insert_or_assign(std::string(framework.name), unnamed->second);
        options.versions.erase(unnamed);
    }

    ImportContext context(framework, std::move(file.root), options);
    context.add_file(file);
    context.run();
    set_step_fields(context);
    context.report_device();
    ImportResult result;
    result.policy = policy_text(context);
    result.has_recipe = has_known_recipe(context.resolved());
    report_framework(context, options);
    context.report_defaults();
    report_repeated(context);
    silence(context);
    sort_findings(context.findings());
    result.framework = &framework;
    result.version = context.version();
    result.resolved = context.resolved();
    result.findings = std::move(context.findings());
    result.included = context.included();
    return result;
}

}  // namespace macheps
