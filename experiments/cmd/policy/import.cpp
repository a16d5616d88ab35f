// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/policy/import.hpp"
#include "core/field_error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/quote.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/policy/import_output.hpp"
#include "experiments/configs/framework.hpp"
#include "experiments/configs/remedy/remedies.hpp"
#include "experiments/files/config/environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace macheps::cmd::policies {

using namespace configs;

using namespace policy;

using namespace files;

namespace {

namespace fs = std::filesystem;

constexpr const char* import_help =
    R"(Shows what a training framework's config really computes, and reports its pitfalls.

Examples:
  macheps policy import ds.json                          every format, its origin, and the pitfalls
  macheps policy import hf_args.yaml learning_rate=1e-4  one config; later values win
  macheps policy import ds.json --toml > mine.toml       only the policy, for train --policy
  macheps policy import args.yaml --framework-version transformers=4.41,deepspeed=0.16.5
  macheps policy import ds.json --diff-version 0.16.5:0.19.6  what an upgrade changes in the numbers
  macheps policy import launch.sh --line 2               the training command in line 2 of a script
  macheps policy import --each configs/                  one line per file, for pre-commit
  macheps policy import ds.json --sarif > findings.sarif  for code scanning; --github for a workflow)";

constexpr const char* import_notes = R"(Files:
  The files are JSON, YAML, TOML, options (.args), command lines and shell scripts (.sh), and Python
  files of assignments. Nothing is run. Each file is recognised by its keys; a config of a framework
  that is not read is refused by name. If one file names another, the named file is read as the value
  of that key. Files of two frameworks are refused if neither names the other; the error says how to
  join them.

Findings:
  E  the framework refuses the config
  U  the framework does not know the key
  W  the config does not do what it seems to say
  C  two keys disagree, and the framework decides
  D  a default decided
  I  the key affects no format, rounding or scale
  N  a note
  `# macheps: ignore RULE` in a file silences a rule.

JSON:
  {"framework", "version", "resolved": {FIELD: {"value", "from"}}, "policy", "findings": [{"code",
  "severity", "file", "line", "column", "key", "keys", "rule", "fault", "message", "instead",
  "not_emulated"}, ...]}
  Formats are F fp32, T tf32, H fp16, B bf16.
  With --each, an array of {"file", "code", "framework", "error", "findings"}.

Exit codes:
  0  no finding is an error
  1  a finding is an error
  3  a file is not a config)";

struct ImportArguments {
    std::vector<std::string> files;
    ImportChoice choice;
    std::string diff_version;
    bool toml = false, json = false, sarif = false, github = false, each = false, all = false;
};

/// Returns the command that prints a patch for the config, or an empty text if nothing is wrong with it or if it has
/// several files.
std::string advise_command(const ImportArguments& a, const ImportOptions& options, const ImportResult& result) {
    if (a.files.size() != 1 || std::none_of(result.findings.begin(), result.findings.end(), is_grave)) return {};
    return format_shown(
        "\n`macheps policy advise --have {}{}` prints settings that end findings, as a patch of the file\n",
        shell_word(a.files.front()), a.choice.words(options));
}

Exit exit_of(const ImportResult& result) { return result.refused() ? Exit::check_failed : Exit::ok; }

Exit import_one(const ImportArguments& a, const ImportOptions& options) {
    const ImportResult result = import_config(a.files, options);
    if (a.toml) {
        print_text(result.policy);
        // stdout contains only the policy. Errors must still be seen, so they go to stderr.
        const auto last = std::find_if(result.findings.begin(), result.findings.end(),
                                       [](const Finding& one) { return severity(one) != FindingSeverity::error; });
        const auto count = static_cast<std::size_t>(last - result.findings.begin());
        eprint_text(finding_lines(std::span(result.findings).first(count)));
    } else if (a.json) {
        print_json(import_json(result));
    } else if (a.sarif) {
        print_json(import_sarif(result.findings));
    } else if (a.github) {
        print_text(import_annotations(result.findings));
    } else {
        print_text(import_table(result, a.all ? InertKeys::each : InertKeys::in_one_line));
        print_text(advise_command(a, options, result));
    }
    return exit_of(result);
}

// --- --diff-version

/// Returns whether `result` has a finding with the same code, rule and key. The place is not compared, because both
/// versions read the same file.
bool has_finding(const ImportResult& result, const Finding& wanted) {
    return std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& one) {
        return one.code == wanted.code && one.rule == wanted.rule && one.key == wanted.key;
    });
}

std::vector<Finding> findings_only_in(const ImportResult& here, const ImportResult& there) {
    std::vector<Finding> only;
    for (const Finding& one : here.findings) {
        // Findings about defaults are left out. The comparison of fields already reports changed defaults.
        if (one.code != FindingCode::defaulted && !has_finding(there, one)) only.push_back(one);
    }
    return only;
}

struct ChangedField {
    std::string_view name;
    FieldValue a, b;
};

std::vector<ChangedField> changed_fields(const ImportResult& a, const ImportResult& b) {
    std::vector<ChangedField> changed;
    const FieldValue none{std::string("-"), {}};
    for (const FieldRow& row : field_rows()) {
        const ResolvedField *before = a.resolved.find(row.name), *after = b.resolved.find(row.name);
        const FieldValue &x = before == nullptr ? none : before->value, &y = after == nullptr ? none : after->value;
        if (!(x == y)) changed.push_back({row.name, x, y});
    }
    return changed;
}

Exit diff_versions(const ImportArguments& a, const ImportOptions& options) {
    const std::size_t colon = a.diff_version.find(':');
    if (colon == std::string::npos) {
        throw FieldError("diff_version", fmt::format("'{}' is not a pair of versions", a.diff_version),
                         "write OLD:NEW, as in 4.41:5");
    }
    const auto import_version = [&](std::string_view text) {
        ImportOptions of_version = options;
        of_version.versions[""] = parse_version(text);
        return import_config(a.files, of_version);
    };
    const ImportResult before = import_version(std::string_view(a.diff_version).substr(0, colon));
    const ImportResult after = import_version(std::string_view(a.diff_version).substr(colon + 1));
    const std::vector<ChangedField> fields = changed_fields(before, after);
    const std::vector<Finding> gone = findings_only_in(before, after), added = findings_only_in(after, before);
    if (a.json) {
        Json rows = Json::array(), old_findings = rows, new_findings = rows;
        for (const ChangedField& field : fields)
            rows.push_back({{"field", field.name}, {"a", field_json(field.a)}, {"b", field_json(field.b)}});
        for (const Finding& one : gone) old_findings.push_back(finding_json(one));
        for (const Finding& one : added) new_findings.push_back(finding_json(one));
        print_json({{"framework", after.framework->name},
                    {"a", to_string(before.version)},
                    {"b", to_string(after.version)},
                    {"fields", rows},
                    {"gone", old_findings},
                    {"new", new_findings}});
        return exit_of(after);
    }
    print("{} {} -> {}\n", after.framework->title, version_text(before), version_text(after));
    for (const ChangedField& field : fields)
        print("{}: {} -> {}\n", field.name, field_text(field.a), field_text(field.b));
    if (fields.empty()) print_text("no field changes\n");
    if (!gone.empty()) print_text("\nno longer found:\n" + finding_lines(gone));
    if (!added.empty()) print_text("\nnew:\n" + finding_lines(added));
    return exit_of(after);
}

// --- --each

/// The files that --each reads, and the number of files that it passes over, by kind.
struct FilesOfEach {
    std::vector<std::string> files;
    std::map<std::string, int> passed_over;
};

/// Returns the kind of a file that is not a config: ".txt", or "without an ending".
std::string kind_of(const fs::path& file) {
    const std::string ending = file.extension().string();
    if (ending == ".py") return ".py (programs)";
    if (ending == ".toml") return ".toml (policies and others)";
    return ending.empty() ? "without an ending" : ending;
}

/// Returns the paths that are files, and the configs below the paths that are folders. Throws Error (bad input) if a
/// folder cannot be listed or has no config.
FilesOfEach files_of_each(const std::vector<std::string>& paths) {
    FilesOfEach all;
    for (const std::string& path : paths) {
        if (!is_folder(path)) {
            all.files.push_back(path);
            continue;
        }
        const std::size_t before = all.files.size();
        for (const fs::path& file : files_below(path)) {
            if (is_config_name(file.string()))
                all.files.push_back(file.string());
            else
                ++all.passed_over[kind_of(file)];
        }
        if (all.files.size() == before) {
            throw Error({.what = "this folder contains no config",
                         .where = path,
                         .fix = fmt::format("name a folder with files that end in {}, {}",
                                            fmt::join(config_endings, ", "), fmt::join(doubtful_endings, ", "))});
        }
    }
    return all;
}

/// Returns "passed over 3 files: 2 .txt, 1 without an ending".
std::string passed_over_text(const std::map<std::string, int>& kinds) {
    int sum = 0;
    std::vector<std::string> words;
    for (const auto& [kind, count] : kinds) {
        sum += count;
        words.push_back(format_shown("{} {}", count, kind));
    }
    return fmt::format("passed over {} file{}: {}\n", sum, sum == 1 ? "" : "s", fmt::join(words, ", "));
}

Exit import_each(const ImportArguments& a, const ImportOptions& options) {
    Exit worst = Exit::ok;
    Json rows = Json::array();
    std::vector<Finding> findings;
    const bool is_text = !a.json && !a.sarif && !a.github;
    const FilesOfEach given = files_of_each(a.files);
    for (const std::string& file : given.files) {
        Exit code = Exit::ok;
        std::string line, error, framework;
        std::vector<Finding> of_file;
        try {
            ImportResult result = import_config({&file, 1}, options);
            code = exit_of(result);
            framework = result.framework->name;
            line = format_shown("{}: {} {}, {}\n", file, result.framework->name, version_text(result),
                                finding_counts(result.findings));
            of_file = std::move(result.findings);
        } catch (const Error& caught) {
            if (caught.exit() != Exit::bad_input) throw;
            code = caught.exit();
            error = caught.what();
            line = format_shown("{}: not a config: {}\n", file, error);
        }
        worst = std::max(worst, code);
        if (is_text) print_text(line);
        if (a.json) {
            Json list = Json::array();
            for (const Finding& one : of_file) list.push_back(finding_json(one));
            rows.push_back({{"file", file},
                            {"code", static_cast<int>(code)},
                            {"framework", framework},
                            {"error", error},
                            {"findings", list}});
        }
        findings.insert(findings.end(), of_file.begin(), of_file.end());
    }
    if (a.json) print_json(rows);
    if (a.sarif) print_json(import_sarif(findings));
    if (a.github) print_text(import_annotations(findings));
    if (!given.passed_over.empty()) {
        const std::string text = passed_over_text(given.passed_over);
        is_text ? print_text(text) : eprint_text(text);  // stdout of the other forms is read by programs
    }
    return worst;
}

void describe_import(Command& verb) {
    const auto a = std::make_shared<ImportArguments>();
    verb.option("FILE", a->files,
                "Files of one framework and key=value overrides, which form one config (later ones win). "
                "If a key names another of the files, that file is read as the value of the key")
        .required()
        .takes(value_kind::file);
    a->choice.add_options(verb);
    verb.flag("--all", a->all, "List each key without an effect, with its place");
    const Option toml = verb.flag("--toml", a->toml, "Print only the policy, as TOML");
    const Option json = verb.flag("--json", a->json, "Print as JSON").excludes(toml);
    const Option sarif =
        verb.flag("--sarif", a->sarif, "Print the findings as SARIF 2.1.0").excludes(toml).excludes(json);
    const Option github = verb.flag("--github", a->github, "Print the findings as annotations of a GitHub workflow")
                              .excludes(toml)
                              .excludes(json)
                              .excludes(sarif);
    const Option each =
        verb.flag("--each", a->each,
                  "Read each FILE, and each config below a folder, as a separate config, and print one line per file")
            .excludes(toml);
    verb.option("--diff-version", a->diff_version,
                "Show what changes between two versions of the framework, OLD:NEW. Default: none")
        .excludes(toml)
        .excludes(sarif)
        .excludes(github)
        .excludes(each);
    verb.runs([a, &verb] {
        const ImportOptions options = a->choice.options(verb);
        if (a->each) return import_each(*a, options);
        return a->diff_version.empty() ? import_one(*a, options) : diff_versions(*a, options);
    });
}

}  // namespace

void read_versions(const std::string& text, ImportOptions& options) {
    for (std::size_t start = 0; start <= text.size();) {
        const std::size_t comma = std::min(text.find(',', start), text.size());
        const std::string one = text.substr(start, comma - start);
        const std::size_t equals = one.find('=');
        const std::string name = equals == std::string::npos ? "" : lowered(one.substr(0, equals));
        options.versions[name] = parse_version(one.substr(equals == std::string::npos ? 0 : equals + 1));
        start = comma + 1;
    }
}

void ImportChoice::add_gpu_option(Command& verb, const char* help) {
    std::vector<std::string> devices;
    for (const std::string_view each : device_names()) devices.emplace_back(each);
    names.emplace_back("--gpu");
    verb.option("--gpu,--device-profile", device, help).one_of(devices).shows_default();
}

void ImportChoice::add_options(Command& verb) {
    add_gpu_option(verb, "GPU or other device that the config runs on");
    add_options_of_config(verb);
}

void ImportChoice::add_options_of_config(Command& verb) {
    std::vector<std::string> framework_names;
    for (const Framework* each : frameworks()) framework_names.emplace_back(each->name);
    const auto named = [this](const char* name) { return names.emplace_back(name); };
    verb.option(named("--framework"), framework,
                "Framework of the config. Default: recognised by the keys of the config")
        .one_of(framework_names);
    verb.option(named("--framework-version"), versions,
                "Version of the framework: V, or NAME=V,NAME=V for frameworks that call each other, and for "
                "packages such as peft. Default: --requirements, or the newest known version");
    verb.option(named("--requirements"), requirements,
                "File with the versions of packages: requirements.txt, the output of `pip freeze`, uv.lock or "
                "poetry.lock. Default: none")
        .takes(value_kind::file);
    verb.option(named("--despite"), despite,
                "Ids of faults in the history (`policy history`) that are no errors: a config with such a fault is "
                "used as if its framework had no fault. Default: none")
        .list();
    verb.option(named("--checkpoint-dtype"), checkpoint,
                "Format of the weights in the checkpoint that training starts from")
        .one_of({"fp32", "fp16", "bf16"})
        .shows_default();
    verb.integer(named("--line"), line, {0, 1 << 20},
                 "Line of the training command to read, if a script has several. 0: the only one")
        .shows_default();
    verb.option(named("--env"), environment,
                "File of NAME=VALUE lines: environment variables that frameworks read. Default: none")
        .takes(value_kind::file);
}

std::vector<std::string> ImportChoice::given(const Command& verb) const {
    std::vector<std::string> found = verb.given();
    std::erase_if(
        found, [this](const std::string& name) { return std::find(names.begin(), names.end(), name) == names.end(); });
    return found;
}

void refuse_without_config(const std::vector<std::string>& options) {
    if (options.empty()) return;
    throw usage_error("this option applies to a config, but no config is given", options.front(),
                      "pass a config with --config, or remove it");
}

std::string ImportChoice::words(const ImportOptions& options) const {
    std::string text;
    const auto add = [&](std::string_view name, const std::string& value) {
        if (!value.empty()) text += fmt::format(" {} {}", name, shell_word(value));
    };
    std::vector<std::string> known;
    for (const auto& [package, version] : options.requirements.versions) {
        if (find_framework(package) != nullptr) known.push_back(fmt::format("{}={}", package, to_string(version)));
    }
    if (!versions.empty()) known = {versions};
    add("--gpu", options.device_is_default ? "" : options.device);
    add("--framework", options.framework);
    if (requirements.empty() || !versions.empty()) add("--framework-version", fmt::format("{}", fmt::join(known, ",")));
    add("--requirements", requirements);
    add("--despite", fmt::format("{}", fmt::join(despite, ",")));
    add("--checkpoint-dtype", options.checkpoint_is_default ? "" : options.checkpoint_dtype);
    add("--line", line == 0 ? "" : fmt::format("{}", line));
    add("--env", environment);
    return text;
}

ImportOptions ImportChoice::options(const Command& verb) const {
    ImportOptions options;
    const std::vector<std::string> given = verb.given();
    const auto is_given = [&](std::string_view name) {
        return std::find(given.begin(), given.end(), name) != given.end();
    };
    options.framework = framework;
    options.device = device;
    options.device_is_default = !is_given("--gpu");
    options.checkpoint_dtype = checkpoint;
    options.checkpoint_is_default = !is_given("--checkpoint-dtype");
    options.line = line;
    if (!versions.empty()) read_versions(versions, options);
    if (!requirements.empty()) options.requirements = read_requirements(requirements);
    options.despite = despite;
    if (!environment.empty()) options.environment = read_environment_file(environment);
    return options;
}

std::optional<ImportResult> load_config(const std::string& name, const ImportOptions& options) {
    if (!is_config_name(name)) return {};
    ImportResult result = import_config({&name, 1}, options);
    if (!result.refused()) return result;
    const Finding& first = result.findings.front();
    throw Error({.what = fmt::format("this {} config has an error: {}", result.framework->title, first.message),
                 .where = to_string(first.place),
                 .fix = fmt::format("run `macheps policy import {}` to see all findings", name),
                 .exit = Exit::check_failed});
}

Policy load_policy_or_config(const std::string& name, const ImportOptions& options) {
    const std::optional<ImportResult> config = load_config(name, options);
    return config ? parse_policy(config->policy, name) : load_policy(name);
}

const VerbRow import_verb{"import", import_help, describe_import, import_notes};

}  // namespace macheps::cmd::policies
