// SPDX-License-Identifier: Apache-2.0
// Sources: accelerate/commands/launch.py and accelerate/utils/launch.py of Accelerate 1.15.0 (options have precedence
// over the file, and the launcher sets ACCELERATE_* variables), and training_args.py of Transformers 4.57.6 and 5.24.0
// (an argument that is set has precedence over ACCELERATE_MIXED_PRECISION).
#include "experiments/configs/recognition/training_command.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

namespace macheps::configs {

namespace {

namespace fs = std::filesystem;
using files::ConfigFile;
using files::ConfigValue;

/// Reads a file that the command names: a file that its script writes, or one whose path is relative to the script's
/// folder or to the working folder. Returns nothing if the file does not exist.
std::optional<ConfigFile> read_named_file(const ConfigFile& file, const ConfigValue& name) {
    if (const files::WrittenFile* written = files::find_written_file(file.written_files, name.written))
        return files::read_written_file(*written, name.written);
    for (const fs::path& path : {fs::path(name.place.file).parent_path() / name.written, fs::path(name.written)}) {
        if (is_there(path)) return files::read_config_file(path.lexically_normal().string());
    }
    return {};
}

bool has_config_ending(const ConfigValue& value) {
    if (!value.is_text()) return false;
    const std::string ending = fs::path(value.written).extension().string();
    return ending == ".json" || ending == ".yaml" || ending == ".yml" || ending == ".toml" || ending == ".py";
}

bool is_before(const files::ConfigPlace& a, const files::ConfigPlace& b) {
    return a.file == b.file && (a.line < b.line || (a.line == b.line && a.column < b.column));
}

/// Merges a file below the options of the command, which have precedence. nanoGPT runs Python files in the order of the
/// command line, so that such a file has precedence over the options before it.
void merge_file(ConfigFile& file, const ConfigValue& name) {
    std::optional<ConfigFile> base = read_named_file(file, name);
    if (!base) {
        throw Error({.what = fmt::format("the command reads '{}', which does not exist", name.written),
                     .where = to_string(name.place),
                     .fix = "give the file a path relative to the script or to the working folder"});
    }
    if (!base->root.is_map()) return;
    if (base->language == files::ConfigLanguage::python) {
        for (const ConfigValue::Entry& entry : base->root.entries) {
            const ConfigValue::Entry* option = file.root.entry(entry.key);
            if (option == nullptr || !is_before(option->place, name.place)) continue;
            std::erase_if(file.unknown_values, [&](const files::UnknownValue& one) { return one.path == entry.key; });
            file.root.erase(entry.key);
        }
    }
    const files::ConfigPlace place = file.root.place;
    files::merge_config_file(*base, file);
    file = std::move(*base);
    file.root.place = place;
}

/// Returns whether a key or, for a section, a key below it affects numerical results, so that an unknown value makes
/// the result unknown.
bool decides_numbers(const Framework& framework, std::string_view path) {
    bool is_known = false;
    for (const KeyRow& row : framework.keys) {
        const bool is_below = row.path.starts_with(path) && row.path.substr(path.size()).starts_with('.');
        if (row.path != path && !is_below) continue;
        is_known = true;
        const bool is_quantity = row.type == KeyType::number || row.type == KeyType::count;
        if (row.effect == KeyEffect::numeric && (!row.sets.empty() || !is_quantity)) return true;
    }
    const auto& files = framework.file_keys;
    if (std::any_of(files.begin(), files.end(), [&](const FileKey& one) { return one.key == path; })) return true;
    for (const Framework* other : sharing_frameworks(framework)) {
        if (decides_numbers(*other, path)) return true;
    }
    return !is_known && names_precision(path.substr(path.rfind('.') + 1));
}

[[noreturn]] void refuse_unknown(const files::UnknownValue& one) {
    throw Error(
        {.what = fmt::format("the value of `{}` is `{}`, which is unknown: {}", one.path, one.written, one.reason),
         .where = to_string(one.place),
         .fix = fmt::format("write the value out, or pass it as an override: {}=VALUE", one.path)});
}

struct EngineRow {
    std::string_view flag, distributed_type, title;
};
constexpr EngineRow engines[] = {
    {"use_deepspeed", "DEEPSPEED", "DeepSpeed"},
    {"use_fsdp", "FSDP", "FSDP"},
    {"use_megatron_lm", "MEGATRON_LM", "Megatron-LM"},
};

void read_launcher_keys(LauncherSettings& launcher, const ConfigValue& keys) {
    if (const ConfigValue* precision = keys.find("mixed_precision"); precision != nullptr) {
        // YAML reads a bare `no` as false. The launcher accepts capital letters.
        launcher.precision = precision->is_boolean() ? "no" : lowered(precision->written);
    }
    const ConfigValue* type = keys.find("distributed_type");
    for (const EngineRow& row : engines) {
        const ConfigValue* flag = keys.find(row.flag);
        const bool is_type = type != nullptr && type->written == row.distributed_type;
        if (flag == nullptr && !is_type) continue;
        launcher.engine = row.title;
        launcher.place_of = is_type ? *type : *flag;
    }
    for (const std::string_view path : {"deepspeed_config_file", "deepspeed_config.deepspeed_config_file"}) {
        if (const ConfigValue* file = keys.find(path)) launcher.engine_file = file->written;
    }
}

LauncherSettings launcher_of(const ConfigFile& config) {
    const files::TrainingCommand& command = *config.command;
    LauncherSettings launcher;
    if (command.launcher != "accelerate launch") return launcher;
    if (const ConfigValue* file = command.launcher_options.find("config_file")) {
        launcher.place_of = *file;
        if (const std::optional<ConfigFile> settings = read_named_file(config, *file)) {
            read_launcher_keys(launcher, settings->root);
        } else {
            launcher.missing = file->written;
        }
    }
    read_launcher_keys(launcher, command.launcher_options);  // options have precedence over the file
    return launcher;
}

/// Adds the variables of the script and of the launcher to those that the user gave, which have precedence.
/// `accelerate launch` always replaces its own variable.
void set_environment(const files::TrainingCommand& command, const LauncherSettings& launcher, ImportOptions& options) {
    constexpr std::string_view precision = "ACCELERATE_MIXED_PRECISION";
    const bool replaces = command.launcher == "accelerate launch";
    std::map<std::string, std::string, std::less<>> given = options.environment;
    for (const auto& [name, value] : command.environment) {
        if (!replaces || name != precision) options.environment.try_emplace(name, value);
    }
    for (const files::UnknownValue& one : command.unknown_environment) {
        if ((!replaces || one.path != precision) && !given.contains(one.path))
            options.unknown_environment.push_back(one);
    }
    if (!replaces || given.contains(precision)) return;
    if (launcher.precision.empty() && !launcher.missing.empty()) {
        options.unknown_environment.push_back({std::string(precision), launcher.missing,
                                               "this file of the launcher does not exist", launcher.place_of.place});
    } else if (!launcher.precision.empty()) {  // without an option, the launcher sets `no`, which is the default
        options.environment.emplace(precision, launcher.precision);
    }
}

bool takes_deepspeed_file(const Framework& framework) {
    const auto& keys = framework.file_keys;
    return std::any_of(keys.begin(), keys.end(), [](const FileKey& one) { return one.key == "deepspeed"; });
}

/// Fields that an engine decides. Only the format of operations is known without it.
constexpr std::string_view engine_fields[] = {"store",     "master", "grad",       "accum",    "reduce",
                                              "opt_state", "norm",   "embed",      "lm_head",  "buffers",
                                              "scaler",    "clip",   "opt_kernel", "predivide"};

void report_unknown_values(ImportContext& context, const ConfigFile& file) {
    for (const files::UnknownValue& one : file.unknown_values) {
        if (one.path.empty()) {
            context
                .report(FindingCode::note, "left-out", {}, fmt::format("`{}` is left out: {}", one.written, one.reason))
                .place = one.place;
            continue;
        }
        context.report(FindingCode::note, "unknown-value", {one.path},
                       fmt::format("the value of `{}` is `{}`, which is unknown: {}. The key decides no format",
                                   one.path, one.written, one.reason));
    }
}

/// Reports that the launcher starts an engine whose settings are not part of the config.
void report_launcher(ImportContext& context, const LauncherSettings& launcher) {
    if (context.root().find("deepspeed") != nullptr || context.root().find("fsdp") != nullptr) return;
    const std::string what =
        launcher.missing.empty()
            ? fmt::format("the launcher starts {} with its own settings", launcher.engine)
            : fmt::format("the launcher's file '{}' does not exist, and may start DeepSpeed or FSDP", launcher.missing);
    Finding& finding = context.report(
        FindingCode::warning, "launcher-settings", {},
        what + ": the formats of weights, gradients, sums and the optimiser's state are unknown, and are not listed",
        launcher.missing.empty() ? "import the launcher's file as a config of Accelerate"
                                 : "give the file a path relative to the script or to the working folder");
    finding.place = launcher.place_of.place;
    finding.not_emulated = "the launcher's settings are not known: weights are trained as without DeepSpeed and FSDP";
}

/// Sections of Accelerate's config file, and the options of `accelerate launch` that belong to them. A name that ends
/// in `_` is the beginning of several options.
struct SectionRow {
    std::string_view option, section;
    bool drops_prefix = false;
};
constexpr SectionRow sections[] = {
    {"zero", "deepspeed_config."},       {"offload_", "deepspeed_config."}, {"gradient_", "deepspeed_config."},
    {"deepspeed_", "deepspeed_config."}, {"fsdp_", "fsdp_config."},         {"fp8_", "fp8_config.", true},
};

/// Returns the config file of Accelerate that has the effect of the launcher's options.
ConfigValue accelerate_config(const ConfigFile& config) {
    const files::TrainingCommand& command = *config.command;
    ConfigValue root;
    root.kind = ConfigValue::Kind::map;
    root.place = command.place;
    if (const ConfigValue* file = command.launcher_options.find("config_file")) {
        if (std::optional<ConfigFile> settings = read_named_file(config, *file)) root = std::move(settings->root);
    }
    for (const ConfigValue::Entry& option : command.launcher_options.entries) {
        if (option.key == "mixed_precision") root.set(option.key, option.value);
        for (const EngineRow& row : engines) {
            if (option.key != row.flag) continue;
            ConfigValue type = files::yaml_scalar(row.distributed_type, option.value.place);
            root.set("distributed_type", std::move(type));
        }
        for (const SectionRow& row : sections) {
            if (!option.key.starts_with(row.option)) continue;
            const std::string name = row.drops_prefix ? option.key.substr(row.option.size()) : option.key;
            root.set(fmt::format("{}{}", row.section, name), option.value);
        }
    }
    return root;
}

}  // namespace

void merge_config_files(ConfigFile& file) {
    if (!file.command) return;
    // If the program has no options, only the launcher's settings are known.
    if (file.command->launcher == "accelerate launch" && file.root.entries.empty() &&
        file.command->positional.empty()) {
        file.root = accelerate_config(file);
        file.command->launcher_options.entries.clear();
        return;
    }
    // The last file has precedence over the files before it.
    const std::vector<ConfigValue> positional = file.command->positional;
    for (auto word = positional.rbegin(); word != positional.rend(); ++word) {
        if (has_config_ending(*word)) merge_file(file, *word);
    }
    for (const files::UnknownValue& one : file.unknown_values) {
        if (one.path == "config") refuse_unknown(one);  // any key may be in the file
    }
    if (const ConfigValue* config = file.root.find("config"); config != nullptr && has_config_ending(*config)) {
        const ConfigValue name = *config;
        file.root.erase("config");
        merge_file(file, name);
    }
}

void require_known_values(const Framework& framework, const ConfigFile& file) {
    for (const files::UnknownValue& one : file.unknown_values) {
        if (one.path.empty() || !decides_numbers(framework, one.path)) continue;
        refuse_unknown(one);
    }
}

LauncherSettings apply_launcher(const Framework& framework, ConfigFile& file, ImportOptions& options) {
    options.written_files = file.written_files;
    if (!file.command) return {};
    options.is_command = true;
    options.new_keys = file.new_keys;
    options.has_script_options = framework.scripts_add_options;
    LauncherSettings launcher = launcher_of(file);
    set_environment(*file.command, launcher, options);
    if (launcher.engine_file.empty() || !takes_deepspeed_file(framework) || file.root.find("deepspeed"))
        return launcher;
    ConfigValue name = launcher.place_of;
    name.kind = ConfigValue::Kind::text;
    name.written = launcher.engine_file;
    file.root.set("deepspeed", std::move(name));
    return launcher;
}

void report_training_command(ImportContext& context, const ConfigFile& file, const LauncherSettings& launcher) {
    report_unknown_values(context, file);
    if (file.command && (!launcher.engine.empty() || !launcher.missing.empty())) report_launcher(context, launcher);
    const auto& findings = context.findings();
    const auto hides_fields = [](const Finding& one) {
        return one.rule.ends_with("/launcher-settings") || one.rule.ends_with("/missing-file");
    };
    if (std::none_of(findings.begin(), findings.end(), hides_fields)) return;
    for (const std::string_view field : engine_fields) context.resolved().erase(field);
}

}  // namespace macheps::configs
