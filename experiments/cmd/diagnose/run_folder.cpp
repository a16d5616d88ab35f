// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/diagnose/run_folder.hpp"
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "core/text/trimmed.hpp"
#include "experiments/files/config/value.hpp"
#include "reports/training_logs/training_log.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace macheps::cmd::causes {

namespace {

namespace fs = std::filesystem;
using files::ConfigValue;

constexpr std::uint64_t file_limit = std::uint64_t{16} << 20;

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
    return result;
}

/// Returns the number at the end of a name such as "checkpoint-500", or -1.
std::int64_t checkpoint_number(const std::string& name) {
    constexpr std::string_view prefix = "checkpoint-";
    std::int64_t number = -1;
    if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
    return number;
}

void add_read(RunFolder& run, const fs::path& path, std::string_view words) {
    run.read.push_back(fmt::format("{} ({})", path.string(), words));
}

/// Returns whether a model of Transformers has an encoder and a decoder. A config.json may leave out
/// is_encoder_decoder if it has the default of its model type.
bool is_seq2seq(const ConfigValue& root, std::string_view type) {
    constexpr std::array types{"bart",       "bigbird_pegasus",
                               "blenderbot", "led",
                               "longt5",     "m2m_100",
                               "marian",     "mbart",
                               "mt5",        "mvp",
                               "nllb-moe",   "pegasus",
                               "pegasus_x",  "plbart",
                               "prophetnet", "switch_transformers",
                               "t5",         "umt5",
                               "whisper"};
    const ConfigValue* said = root.find("is_encoder_decoder");
    if (said != nullptr && said->is_boolean()) return said->boolean;
    return std::find(types.begin(), types.end(), type) != types.end();
}

/// Reads the config.json of a model of Transformers. Its dtype is that of the weights when they were saved.
void read_model_config(const fs::path& path, RunFolder& run) {
    const ConfigValue root = files::read_json_config(read_file(path, file_limit), path.string()).root;
    constexpr std::array<std::pair<std::string_view, std::string_view>, 3> dtypes{
        {{"float32", "fp32"}, {"float16", "fp16"}, {"bfloat16", "bf16"}}};
    const ConfigValue* dtype = root.find("dtype");
    if (dtype == nullptr) dtype = root.find("torch_dtype");
    for (const auto& [name, word] : dtypes) {
        if (dtype != nullptr && dtype->written == name) run.weights_dtype = word;
    }
    const ConfigValue* vocabulary = root.find("vocab_size");
    if (vocabulary != nullptr && vocabulary->is_number() && vocabulary->number > 1)
        run.vocabulary = std::llround(vocabulary->number);
    const ConfigValue* kind = root.find("model_type");
    run.model_file = path.string();
    if (kind != nullptr) run.model.type = kind->written;
    run.model.is_seq2seq = is_seq2seq(root, run.model.type);
    add_read(run, path,
             fmt::format("model {}; weights {}; vocabulary {}", kind == nullptr ? "unknown" : shown(kind->written),
                         run.weights_dtype.empty() ? "of an unknown format" : run.weights_dtype,
                         run.vocabulary ? fmt::format("{}", *run.vocabulary) : "unknown"));
}

void read_adapter_config(const fs::path& path, RunFolder& run) {
    const ConfigValue root = files::read_json_config(read_file(path, file_limit), path.string()).root;
    const ConfigValue *kind = root.find("peft_type"), *base = root.find("base_model_name_or_path");
    add_read(run, path,
             fmt::format("adapter {} of {}; pass the dtype of that model as --checkpoint-dtype",
                         kind == nullptr ? "of an unknown kind" : shown(kind->written),
                         base == nullptr ? "an unknown model" : shown(base->written)));
}

/// A hyperparameter that a model card of the Trainer lists, and the field of TrainingArguments.
struct CardRow {
    std::string_view card, field;
};
constexpr std::array card_rows{CardRow{"learning_rate", "learning_rate"},
                               CardRow{"gradient_accumulation_steps", "gradient_accumulation_steps"},
                               CardRow{"label_smoothing_factor", "label_smoothing_factor"}};

/// Reads the model card that the Trainer writes: hyperparameters, and versions of packages. A card names mixed
/// precision only for fp16, so its settings are used only if they name it.
void read_model_card(const fs::path& path, RunFolder& run) {
    std::istringstream text(read_file(path, file_limit));
    std::vector<std::string> settings, versions;
    bool is_fp16 = false;
    for (std::string line; std::getline(text, line);) {
        std::string_view item = trimmed(line);
        if (!item.starts_with("- ")) continue;
        item.remove_prefix(2);
        const std::size_t colon = item.find(": ");
        const std::string_view name = item.substr(0, colon == std::string_view::npos ? item.find(' ') : colon);
        if (name.size() == item.size()) continue;
        const std::string_view value = trimmed(item.substr(name.size() + (colon == std::string_view::npos ? 1 : 2)));
        if (name == "mixed_precision_training") is_fp16 = true;  // "Native AMP", or "Apex, opt level O1"
        for (const CardRow& row : card_rows) {
            if (row.card == name) settings.push_back(fmt::format("{}={}", row.field, value));
        }
        const std::string package = name == "Pytorch" ? "torch" : lower(name);
        constexpr std::array packages{"transformers", "torch", "peft", "trl", "datasets", "tokenizers"};
        if (std::find(packages.begin(), packages.end(), package) == packages.end()) continue;
        try {
            run.requirements.versions[configs::package_of_distribution(package)] = configs::parse_version(value);
            versions.push_back(fmt::format("{} {}", package, value));
        } catch (const Error&) {
            continue;  // not a version: "tokenizers: ..." as a list item of the text
        }
    }
    if (settings.empty() && versions.empty()) {
        run.unread.push_back(fmt::format("{}: it is not a model card of the Trainer", path.string()));
        return;
    }
    if (is_fp16) {
        run.card = path.string();
        run.settings = settings;
        run.settings.emplace_back("fp16=true");
    }
    add_read(run, path,
             fmt::format("{}; {}", versions.empty() ? "no versions" : fmt::format("{}", fmt::join(versions, ", ")),
                         is_fp16 ? fmt::format("settings {}", fmt::join(run.settings, ", "))
                                 : "no mixed precision in fp16; a card does not say whether bf16 was on"));
}

/// Reads the metrics at the end of a training, and reports those that are not finite.
void read_results(const fs::path& path, RunFolder& run) {
    const std::string text = read_file(path, file_limit);
    std::vector<std::string> bad;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos) continue;
        const std::string_view value = trimmed(std::string_view(line).substr(colon + 1));
        if (value.starts_with("NaN") || value.starts_with("Infinity") || value.starts_with("-Infinity"))
            bad.push_back(shown(trimmed(std::string_view(line).substr(0, colon))));
    }
    add_read(run, path, bad.empty() ? "all metrics are finite" : fmt::format("not finite: {}", fmt::join(bad, ", ")));
}

void read_packages(const fs::path& path, RunFolder& run) {
    run.requirements = configs::read_requirements(path.string());
    add_read(run, path, "versions of packages");
}

void take_config(const fs::path& path, RunFolder& run) {
    run.configs.push_back(path.string());
    add_read(run, path, "settings");
}

void leave_pickle(const fs::path& path, RunFolder& run) {
    run.unread.push_back(
        fmt::format("{}: a pickle, which can run code when it is loaded; pass its settings, such as "
                    "fp16=true --framework transformers",
                    path.string()));
}

/// A file that an output directory may contain, in the directory or in its newest checkpoint.
struct KnownFile {
    std::string_view name;
    void (*read)(const fs::path&, RunFolder&);
    bool is_given_as_config = false;  ///< a user who names this file passes a config or a list of versions
};
constexpr std::array known_files{KnownFile{"config.json", read_model_config},
                                 KnownFile{"adapter_config.json", read_adapter_config},
                                 KnownFile{"ds_config.json", take_config, true},
                                 KnownFile{"deepspeed_config.json", take_config, true},
                                 KnownFile{"training_args.yaml", take_config, true},
                                 KnownFile{"requirements.txt", read_packages, true},
                                 KnownFile{"README.md", read_model_card},
                                 KnownFile{"all_results.json", read_results},
                                 KnownFile{"training_args.bin", leave_pickle}};

/// Reads a file. If it is not valid, it is listed as not read.
void read_known(const KnownFile& file, const fs::path& path, RunFolder& run) {
    try {
        file.read(path, run);
    } catch (const Error& problem) {
        run.unread.push_back(fmt::format("{}: {}", path.string(), problem.parts().what));
    }
}

/// Returns the files with the ending .log or .out, the newest first.
std::vector<fs::path> console_outputs(const fs::path& folder, const std::vector<std::string>& names) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (const std::string& name : names) {
        if (name.ends_with(".log") || name.ends_with(".out"))
            found.emplace_back(fs::last_write_time(folder / name, error), folder / name);
    }
    std::sort(found.rbegin(), found.rend());
    std::vector<fs::path> paths;
    for (const auto& [time, path] : found) paths.push_back(path);
    return paths;
}

/// Finds the log in the folders, of which the first is the output directory.
void find_log(const std::vector<fs::path>& folders, const std::vector<std::string>& names, RunFolder& run) {
    constexpr std::array<const char*, 4> logs{"trainer_state.json", "trainer_log.jsonl", "logging.jsonl",
                                              "metrics.csv"};
    std::error_code error;
    for (const fs::path& folder : folders) {
        for (const char* name : logs) {
            if (!run.log && fs::is_regular_file(folder / name, error)) run.log = folder / name;
        }
    }
    for (const fs::path& path : console_outputs(folders.front(), names)) {
        if (run.log) {
            run.unread.push_back(fmt::format("{}: another log is read", path.string()));
            continue;
        }
        try {
            reports::read_training_log(path);
            run.log = path;
        } catch (const Error&) {
            run.unread.push_back(fmt::format("{}: it has no rows of a training log", path.string()));
        }
    }
    if (run.log) add_read(run, *run.log, "log");
}

}  // namespace

RunFolder read_run_folder(const fs::path& folder) {
    const std::vector<std::string> names = names_in(folder);
    std::vector<fs::path> folders{folder};
    std::error_code error;
    std::int64_t highest = -1;
    for (const std::string& name : names) {
        // A checkpoint that was not saved completely has no state.
        const std::int64_t number = checkpoint_number(name);
        if (number <= highest || !fs::is_regular_file(folder / name / "trainer_state.json", error)) continue;
        highest = number;
        folders.resize(1);
        folders.push_back(folder / name);
    }
    RunFolder run;
    find_log(folders, names, run);
    for (const KnownFile& file : known_files) {
        const auto holder = std::find_if(folders.begin(), folders.end(), [&](const fs::path& one) {
            return fs::is_regular_file(one / file.name, error);
        });
        if (holder == folders.end()) continue;
        read_known(file, *holder / file.name, run);
    }
    return run;
}

std::optional<RunFolder> read_run_file(const fs::path& path) {
    const std::string name = path.filename().string();
    const auto known = std::find_if(known_files.begin(), known_files.end(),
                                    [&](const KnownFile& one) { return one.name == name && !one.is_given_as_config; });
    if (known == known_files.end()) return {};
    // DeepSpeed's config may have the same name as that of a model.
    if (name == "config.json" && read_file(path, file_limit).find("\"model_type\"") == std::string::npos) return {};
    RunFolder run;
    read_known(*known, path, run);
    return run;
}

}  // namespace macheps::cmd::causes
