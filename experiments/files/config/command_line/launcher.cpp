// SPDX-License-Identifier: Apache-2.0
// Sources of the options: torch/distributed/{run,launch}.py of PyTorch 2.9.1, 2.10.0 and 2.15.0;
// deepspeed/launcher/runner.py of DeepSpeed 0.18.5 and 0.19.8; accelerate/commands/launch.py of Accelerate 1.0.1 and
// 1.15.0; composer/cli/launcher.py of Composer 0.32.1; `python --help` of Python 3.11. `tune run` reads the options of
// torchrun (torchtune/_cli/run.py of torchtune 0.6.1).
#include "experiments/files/config/command_line/launcher.hpp"
#include "core/error.hpp"

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
};

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
               "parallelism_config_* aws_* mpirun_*"},
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
    {.name = "axolotl", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "litgpt", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
    {.name = "llamafactory-cli", .module = "", .starts = Starts::subcommand, .flags = "", .values = ""},
};

constexpr LauncherRow python{.name = "python",
                             .module = "",
                             .flags = "u O OO B s S E I P q v d b bb i x m",
                             .values = "X W check_hash_based_pycs"};

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

/// Returns whether a list of names, separated by spaces, contains a name.
bool has_name(std::string_view list, std::string_view name) {
    while (!list.empty()) {
        const std::size_t length = std::min(list.find(' '), list.size());
        const std::string_view one = list.substr(0, length);
        list.remove_prefix(std::min(length + 1, list.size()));
        if (one == name || (one.ends_with('*') && name.starts_with(one.substr(0, one.size() - 1)))) return true;
    }
    return false;
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
        const LauncherRow* row = first_launcher();
        if (row == nullptr) return {};
        read_launcher(*row);
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
            if (const LauncherRow* row = launcher_at(words_, at_)) return row;
            if (!is_script(words_[at_].text)) continue;
            --at_;  // the wrapper takes the place of the interpreter
            return &python;
        }
        return nullptr;
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

    /// Reads the options of the launcher. Returns whether they say that the program is a module.
    bool read_options(const LauncherRow& row) {
        bool takes_module = false;
        while (at_ < words_.size() && words_[at_].text.starts_with('-')) {
            const ArgumentWord& word = words_[at_];
            const std::size_t equals = std::min(word.text.find('='), word.text.size());
            const std::size_t dashes = word.text.starts_with("--") ? 2 : 1;
            std::string name = word.text.substr(std::min(dashes, equals), equals - std::min(dashes, equals));
            std::replace(name.begin(), name.end(), '-', '_');
            if (&row == &python && name == "c") {
                at_ = words_.size();  // the program is a text
                return false;
            }
            ++at_;
            if (has_name(row.flags, name)) {
                takes_module = takes_module || name == "m" || name == "module" || name == "module_mode";
                add(name, "true", word);
            } else if (has_name(row.values, name)) {
                add_value(name, word, equals);
            } else {
                throw Error({.what = fmt::format("'{}' is not a known option of {}", word.text, row.name),
                             .where = to_string(word.place),
                             .fix = "remove it: it is not known whether the next word is its value"});
            }
        }
        if (at_ < words_.size() && !words_[at_].unknown.empty())
            require_known(words_[at_], "an option of the launcher");
        return takes_module;
    }

    void add_value(const std::string& name, const ArgumentWord& word, std::size_t equals) {
        if (equals < word.text.size()) return add(name, word.text.substr(equals + 1), word);
        if (at_ >= words_.size()) return;
        const ArgumentWord& value = words_[at_++];
        if (name == "mixed_precision" || name == "config_file") require_known(value, name);
        add(name, value.text, value);
    }

    void add(const std::string& name, const std::string& text, const ArgumentWord& word) {
        ConfigValue value = yaml_scalar(text, word.place);
        parts_.options.set(name, std::move(value));
    }

    static void require_known(const ArgumentWord& word, std::string_view what) {
        if (word.unknown.empty()) return;
        throw Error({.what = fmt::format("{} depends on `{}`, which is unknown: {}", what, word.unknown, word.reason),
                     .where = to_string(word.place),
                     .fix = "write the words out"});
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
