// SPDX-License-Identifier: Apache-2.0
// Sources of the options: torch/distributed/{run,launch}.py of PyTorch 2.9.1, 2.10.0 and 2.15.0;
// deepspeed/launcher/runner.py of DeepSpeed 0.18.5 and 0.19.8; accelerate/commands/launch.py of Accelerate 1.0.1 and
// 1.15.0; composer/cli/launcher.py of Composer 0.32.1; `python --help` of Python 3.11. `tune run` reads the options of
// torchrun (torchtune/_cli/run.py of torchtune 0.6.1). `megatron` is a command of ms-swift 4.6.0 (entry_points.txt).
#include "experiments/files/config/command_line/launcher.hpp"
#include "core/error.hpp"
#include "core/text/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace macheps::files {

namespace {

constexpr std::string_view torchrun_flags = "standalone m module no_python run_path use_env virtual_local_rank";
constexpr std::string_view torchrun_values =
    "nnodes nproc_per_node rdzv_backend rdzv_endpoint rdzv_id rdzv_conf max_restarts monitor_interval start_method "
    "event_log_handler role log_dir r redirects t tee local_ranks_filter node_rank master_addr master_port local_addr "
    "logs_specs numa_binding signals_to_handle duplicate_stdout_filters duplicate_stderr_filters "
    "log_line_prefix_template shutdown_timeout";

/// How the word after the launcher's options is used.
enum class Starts : std::uint8_t {
    script,      ///< it is the training program
    subcommand,  ///< it is a command of the launcher, which is the training program itself: `trl sft`
};

struct LauncherRow {
    std::string_view name;    ///< as typed, with a second word for a subcommand: "accelerate launch"
    std::string_view module;  ///< modules, separated by spaces, that `python -m` starts as this launcher
    Starts starts = Starts::script;
    /// Options without a value, and with one value. A dash in a name is written `_`. A name that ends in `*` matches
    /// any option that begins with the part before it.
    std::string_view flags, values;
    /// Options whose values must be known, because they decide formats, files or engines.
    std::string_view deciding{};
};

/// Options with which a launcher prints something and starts no program.
constexpr std::string_view printing_options = "h ? help* V VV version";

constexpr LauncherRow launchers[] = {
    {.name = "torchrun",
     .module = "torch.distributed.run torch.distributed.launch",
     .flags = torchrun_flags,
     .values = torchrun_values},
    {.name = "deepspeed",
     .module = "deepspeed.launcher.runner",
     .flags = "q quiet module no_python no_local_rank no_ssh_check no_ssh force_multi save_pid elastic_training "
              "bind_cores_to_rank",
     .values = "H hostfile i include e exclude num_nodes min_elastic_nodes max_elastic_nodes num_gpus num_accelerators "
               "master_port master_addr node_rank launcher launcher_args enable_each_rank_log autotuning "
               "bind_core_list ssh_port venv_script log_level"},
    {.name = "accelerate launch",
     .module = "accelerate.commands.launch",
     .flags = "q quiet cpu multi_gpu tpu ipex enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic "
              "dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm use_xpu "
              "same_network m module no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 "
              "fp8_use_autocast_during_eval debug",
     .values = "config_file mixed_precision num_processes num_machines num_cpu_threads_per_process dynamo_backend "
               "dynamo_mode gpu_ids machine_rank main_process_ip main_process_port t tee log_dir role rdzv_backend "
               "rdzv_conf max_restarts monitor_interval vm env main_training_function deepspeed_* zero_stage "
               "offload_* gradient_accumulation_steps gradient_clipping zero3_* fsdp_* megatron_lm_* fp8_* "
               "parallelism_config_* aws_* mpirun_*",
     .deciding = "config_file mixed_precision deepspeed_* zero_stage offload_* gradient_* zero3_* fsdp_* fp8_*"},
    {.name = "composer",
     .module = "composer",
     .flags = "m module_mode c command_mode v verbose",
     .values = "n nproc world_size base_rank node_rank master_addr master_port stdout stderr"},
    {.name = "tune run",
     .module = "",
     .starts = Starts::subcommand,
     .flags = torchrun_flags,
     .values = torchrun_values},
    {.name = "trl", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "swift", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "megatron", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "axolotl", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "litgpt", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "llamafactory-cli", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
};

constexpr LauncherRow python{
    .name = "python", .module = "", .flags = "u O B s S E I P q v d b i x m", .values = "X W check_hash_based_pycs"};

/// Programs that run the command that follows their own options.
constexpr std::string_view wrappers[] = {"srun", "mpirun", "mpiexec", "uv",      "poetry", "nohup", "exec",
                                         "time", "env",    "numactl", "timeout", "sudo",   "conda", "pixi"};

/// Modules of Python that are not training programs.
constexpr std::string_view other_modules[] = {"pip", "venv", "ensurepip", "http.server", "json.tool"};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_python(std::string_view word) {
    std::string_view name = base_name(word);
    if (!name.starts_with("python")) return false;
    name.remove_prefix(6);
    return name.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_script(std::string_view word) { return word.ends_with(".py"); }

/// Returns whether a word is `NAME=value`.
bool is_assignment(const ArgumentWord& word) {
    return word.has_known_key() && !word.text.starts_with('-') && word.text.find('=', 1) != std::string::npos;
}

/// Returns whether the option makes Python read its program from the input (`-`) or from the next word (`-c`).
bool takes_program_text(std::string_view option) {
    return option == "-" || (option.starts_with("-c") && !option.starts_with("--"));
}

/// Returns whether a list of names, separated by spaces, contains a name.
bool has_name(std::string_view list, std::string_view name) {
    const std::vector<std::string_view> names = listed_names(list);
    return std::any_of(names.begin(), names.end(), [&](std::string_view one) {
        return one == name || (one.ends_with('*') && name.starts_with(one.substr(0, one.size() - 1)));
    });
}

/// Returns the launcher whose name begins at a word, or nullptr.
const LauncherRow* launcher_at(const std::vector<ArgumentWord>& words, std::size_t at) {
    if (is_python(words[at].text)) return &python;
    const std::string_view name = base_name(words[at].text);
    for (const LauncherRow& row : launchers) {
        const std::size_t space = row.name.find(' ');
        if (row.name.substr(0, space) != name) continue;
        if (space == std::string_view::npos) return &row;
        if (at + 1 < words.size() && words[at + 1].text == row.name.substr(space + 1)) return &row;
    }
    return nullptr;
}

class LaunchReader {
  public:
    explicit LaunchReader(const std::vector<ArgumentWord>& words) : words_(words) {
        parts_.options.kind = ConfigValue::Kind::map;
    }

    std::optional<LaunchParts> read() {
        try {
            const LauncherRow* row = first_launcher();
            if (row == nullptr) return {};
            read_launcher(*row);
        } catch (const Error& error) {
            parts_.refusal = error;
            return std::move(parts_);
        }
        if (parts_.programs.empty()) return {};
        parts_.first_argument = at_;
        return std::move(parts_);
    }

  private:
    /// Finds the launcher, which may follow a program that runs it. A script without a launcher may also follow one.
    const LauncherRow* first_launcher() {
        if (words_.empty()) return nullptr;
        if (const LauncherRow* row = launcher_at(words_, 0)) return row;
        const std::string_view first = base_name(words_.front().text);
        if (std::find(std::begin(wrappers), std::end(wrappers), first) == std::end(wrappers)) return nullptr;
        for (at_ = 1; at_ < words_.size(); ++at_) {
            read_environment();
            if (at_ >= words_.size()) break;
            if (const LauncherRow* row = launcher_at(words_, at_)) return row;
            if (!is_script(words_[at_].text)) continue;
            --at_;  // the wrapper takes the place of the interpreter
            return &python;
        }
        return nullptr;
    }

    /// Reads the variables that the program before the launcher sets: `NAME=value` of `env`, `sudo` and `mpirun -x`, and
    /// `--export` of srun. An option of `env` may change or remove any variable.
    void read_environment() {
        const bool is_env = base_name(words_[at_ - 1].text) == "env";
        for (; at_ < words_.size() && is_assignment(words_[at_]); ++at_) parts_.variables.push_back(words_[at_]);
        if (at_ >= words_.size()) return;
        const ArgumentWord& word = words_[at_];
        if (is_env && !word.unknown.empty())
            parts_.refusal = unknown_word(word, "a variable of the environment");
        else if (is_env && word.text.starts_with('-'))
            parts_.refusal = unknown_option(word, "env");
        else if (word.text.starts_with("--export="))
            read_export(word);
    }

    /// Reads `--export=ALL,NAME=value` of srun. Without ALL, srun removes the other variables.
    void read_export(const ArgumentWord& word) {
        if (!word.unknown.empty()) {
            parts_.refusal = unknown_word(word, "a variable of the environment");
            return;
        }
        std::string_view list = word.text;
        take_until(list, '=');
        bool keeps_all = false;
        while (!list.empty()) {
            ArgumentWord one{.text = std::string(take_until(list, ',')), .place = word.place};
            keeps_all = keeps_all || one.text == "ALL";
            if (is_assignment(one)) parts_.variables.push_back(std::move(one));
        }
        if (keeps_all) return;
        parts_.refusal = Error({.what = fmt::format("'{}' removes other variables of the environment", word.text),
                                .where = to_string(word.place),
                                .fix = "write --export=ALL,NAME=VALUE, or give the command without srun"});
    }

    void read_launcher(const LauncherRow& row) {
        parts_.launcher = row.name;
        parts_.is_python = &row == &python;
        at_ += row.name.find(' ') == std::string_view::npos ? 1 : 2;
        const bool takes_module = read_options(row);
        if (at_ >= words_.size()) return;
        const std::string program = words_[at_].text;
        require_known(words_[at_], "the training program");
        ++at_;
        if (row.starts == Starts::subcommand) {
            parts_.programs.push_back(fmt::format("{} {}", row.name, program));
            return;
        }
        if (takes_module) {
            for (const LauncherRow& other : launchers) {
                if (!has_name(other.module, program)) continue;
                at_ -= other.name.find(' ') == std::string_view::npos ? 1 : 2;
                return read_launcher(other);
            }
            if (std::find(std::begin(other_modules), std::end(other_modules), program) != std::end(other_modules))
                return;
        } else if (&row == &python && !is_script(program)) {
            return;
        }
        parts_.programs.push_back(program);
    }

    /// Reads the options of the launcher. Returns whether they say that the program is a module. If they say that there
    /// is no program, no word remains.
    bool read_options(const LauncherRow& row) {
        bool takes_module = false;
        while (at_ < words_.size() && words_[at_].text.starts_with('-')) {
            const ArgumentWord& word = words_[at_++];
            const bool is_long = word.text.starts_with("--");
            const std::size_t equals = std::min(word.text.find('='), word.text.size());
            if (is_long && equals < word.text.size() && !word.has_known_key())
                throw Error(unknown_word(word, "an option of the launcher"));
            std::string name = word.text.substr(0, equals).erase(0, is_long ? 2 : 1);
            std::replace(name.begin(), name.end(), '-', '_');
            if (has_name(printing_options, name) || (&row == &python && takes_program_text(word.text))) {
                at_ = words_.size();
                return false;
            }
            if (has_name(row.values, name)) {
                add_value(row, name, word, equals);
            } else if (has_name(row.flags, name)) {
                takes_module = add_flag(name, word) || takes_module;
            } else if (is_long) {
                throw Error(unknown_option(word, row.name));
            } else {
                takes_module = read_letters(row, word) || takes_module;
            }
        }
        if (at_ < words_.size()) require_known(words_[at_], "an option of the launcher");
        return takes_module;
    }

    /// Reads options of one letter in one word: `-uB`, or `-Wignore` with a value.
    bool read_letters(const LauncherRow& row, const ArgumentWord& word) {
        bool takes_module = false;
        for (std::size_t i = 1; i < word.text.size(); ++i) {
            const std::string name = word.text.substr(i, 1);
            if (has_name(row.values, name)) {
                const bool is_last = i + 1 == word.text.size();
                add_value(row, name, word, is_last ? word.text.size() : i);
                return takes_module;
            }
            if (!has_name(row.flags, name)) throw Error(unknown_option(word, row.name));
            takes_module = add_flag(name, word) || takes_module;
        }
        return takes_module;
    }

    /// Returns whether the flag says that the program is a module.
    bool add_flag(const std::string& name, const ArgumentWord& word) {
        require_known(word, name);
        add(name, "true", word);
        return name == "m" || name == "module" || name == "module_mode";
    }

    /// Adds the value after the character at `sign` or, if there is none, the next word.
    void add_value(const LauncherRow& row, const std::string& name, const ArgumentWord& word, std::size_t sign) {
        const bool is_attached = sign < word.text.size();
        if (!is_attached && at_ >= words_.size()) return;
        const ArgumentWord& value = is_attached ? word : words_[at_++];
        if (has_name(row.deciding, name)) require_known(value, name);
        add(name, is_attached ? word.text.substr(sign + 1) : value.text, value);
    }

    void add(const std::string& name, const std::string& text, const ArgumentWord& word) {
        ConfigValue value = yaml_scalar(text, word.place);
        parts_.options.set(name, std::move(value));
    }

    static Error unknown_option(const ArgumentWord& word, std::string_view program) {
        return Error({.what = fmt::format("'{}' is not a known option of {}", word.text, program),
                      .where = to_string(word.place),
                      .fix = "remove it: it is not known whether the next word is its value"});
    }

    static Error unknown_word(const ArgumentWord& word, std::string_view what) {
        return Error({.what = fmt::format("{} depends on `{}`, which is unknown: {}", what, word.unknown, word.reason),
                      .where = to_string(word.place),
                      .fix = "write the words out"});
    }

    static void require_known(const ArgumentWord& word, std::string_view what) {
        if (!word.unknown.empty()) throw Error(unknown_word(word, what));
    }

    const std::vector<ArgumentWord>& words_;
    LaunchParts parts_;
    std::size_t at_ = 0;
};

}  // namespace

std::optional<LaunchParts> launch_parts(const std::vector<ArgumentWord>& words) { return LaunchReader(words).read(); }

bool begins_with_launcher(std::string_view text) {
    const std::string_view word = base_name(text.substr(0, text.find_first_of(" \t\r\n")));
    if (is_python(word)) return true;
    const auto is_it = [&](const LauncherRow& row) { return row.name.substr(0, row.name.find(' ')) == word; };
    return std::any_of(std::begin(launchers), std::end(launchers), is_it) ||
           std::find(std::begin(wrappers), std::end(wrappers), word) != std::end(wrappers);
}

}  // namespace macheps::files
