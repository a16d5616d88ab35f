// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/step_fields.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

namespace macheps::configs {

namespace {

/// A config key that determines the setting `part` of the optimiser step. If a config contains the keys of several rows
/// with the same setting, the last of these rows applies. The rows of DeepSpeed are last, so the DeepSpeed section of a
/// config takes priority over the arguments outside it.
struct StepKey {
    std::string_view framework, part, path;  ///< `path` is empty if no key sets the part
    std::optional<double> standard{};        ///< default of the framework; empty: `macheps train` uses its own setting
    int index = -1;                          ///< index in a list
};

// clang-format off
constexpr StepKey step_keys[] = {
    {"transformers", "kind", "optim"},
    {"transformers", "lr", "learning_rate"},
    {"transformers", "beta1", "adam_beta1", 0.9},
    {"transformers", "beta2", "adam_beta2", 0.999},
    {"transformers", "eps", "adam_epsilon", 1e-8},
    {"transformers", "weight_decay", "weight_decay", 0.0},
    {"transformers", "momentum", "", 0.0},
    {"transformers", "micro_batches", "gradient_accumulation_steps"},
    {"axolotl", "kind", "optimizer"},
    {"axolotl", "lr", "learning_rate"},
    {"axolotl", "beta1", "adam_beta1", 0.9},
    {"axolotl", "beta2", "adam_beta2", 0.999},
    {"axolotl", "eps", "adam_epsilon", 1e-8},
    {"axolotl", "weight_decay", "weight_decay", 0.0},
    {"axolotl", "momentum", "", 0.0},
    {"axolotl", "micro_batches", "gradient_accumulation_steps"},
    {"nanogpt", "lr", "learning_rate"},
    {"nanogpt", "beta1", "beta1", 0.9},
    {"nanogpt", "beta2", "beta2", 0.95},
    {"nanogpt", "weight_decay", "weight_decay", 0.1},
    {"nanogpt", "micro_batches", "gradient_accumulation_steps", 40},
    {"megatron", "kind", "optimizer"},
    {"megatron", "lr", "lr"},
    {"megatron", "beta1", "adam-beta1", 0.9},
    {"megatron", "beta2", "adam-beta2", 0.999},
    {"megatron", "eps", "adam-eps", 1e-8},
    {"megatron", "weight_decay", "weight-decay", 0.01},
    {"megatron", "momentum", "sgd-momentum", 0.9},
    {"lightning", "kind", "optimizer.class_path"},
    {"lightning", "lr", "optimizer.init_args.lr"},
    {"lightning", "beta1", "optimizer.init_args.betas", {}, 0},
    {"lightning", "beta2", "optimizer.init_args.betas", {}, 1},
    {"lightning", "eps", "optimizer.init_args.eps"},
    {"lightning", "weight_decay", "optimizer.init_args.weight_decay"},
    {"lightning", "momentum", "optimizer.init_args.momentum", 0.0},
    {"lightning", "micro_batches", "trainer.accumulate_grad_batches"},
    {"composer", "kind", "optimizer.name"},
    {"composer", "lr", "optimizer.lr"},
    {"composer", "beta1", "optimizer.betas", {}, 0},
    {"composer", "beta2", "optimizer.betas", {}, 1},
    {"composer", "eps", "optimizer.eps"},
    {"composer", "weight_decay", "optimizer.weight_decay"},
    {"composer", "momentum", "optimizer.momentum", 0.0},
    {"torchtitan", "kind", "optimizer.name"},
    {"torchtitan", "lr", "optimizer.lr"},
    {"torchtitan", "beta1", "optimizer.beta1", 0.9},
    {"torchtitan", "beta2", "optimizer.beta2", 0.95},
    {"torchtitan", "eps", "optimizer.eps", 1e-8},
    {"torchtitan", "weight_decay", "optimizer.weight_decay", 0.1},
    {"torchtune", "kind", "optimizer._component_"},
    {"torchtune", "lr", "optimizer.lr"},
    {"torchtune", "beta1", "optimizer.betas", {}, 0},
    {"torchtune", "beta2", "optimizer.betas", {}, 1},
    {"torchtune", "eps", "optimizer.eps"},
    {"torchtune", "weight_decay", "optimizer.weight_decay"},
    {"torchtune", "momentum", "optimizer.momentum", 0.0},
    {"torchtune", "micro_batches", "gradient_accumulation_steps"},
    {"longspec", "lr", "learning_rate"},
    {"longspec", "micro_batches", "gradient_accumulation_steps"},
    {"deepspeed", "kind", "optimizer.type"},
    {"deepspeed", "lr", "optimizer.params.lr"},
    {"deepspeed", "beta1", "optimizer.params.betas", {}, 0},
    {"deepspeed", "beta2", "optimizer.params.betas", {}, 1},
    {"deepspeed", "eps", "optimizer.params.eps"},
    {"deepspeed", "weight_decay", "optimizer.params.weight_decay"},
    {"deepspeed", "momentum", "optimizer.params.momentum", 0.0},
    {"deepspeed", "micro_batches", "gradient_accumulation_steps"},
};

/// For the configs of `framework`: the framework whose rows in step_keys apply (`keys_of`), and the path of the
/// DeepSpeed section ("-" if there is none).
struct Owner {
    std::string_view framework, keys_of, deepspeed_at;
    bool rate_waits;  ///< the learning-rate schedule does not advance in skipped steps
};
constexpr Owner owners[] = {
    {"transformers",  "transformers", "deepspeed",        true},
    {"llamafactory",  "transformers", "deepspeed",        true},
    {"axolotl",       "axolotl",      "deepspeed",        true},
    {"accelerate",    "",             "deepspeed_config", true},
    {"deepspeed",     "",             "",                 true},
    {"longspec",      "longspec",     "ds_cfg",           true},
    {"megatron",      "megatron",     "-",                true},
    {"nanogpt",       "nanogpt",      "-",                false},
    {"lightning",     "lightning",    "-",                false},
    {"composer",      "composer",     "-",                true},
    {"torchtitan",    "torchtitan",   "-",                true},
    {"trl",           "transformers", "deepspeed",        true},
    {"torchtune",     "torchtune",    "-",                true},
    {"gpt-neox",      "",             "",                 true},
};

/// Keys of settings that `macheps train` chooses itself. They may be at the root of the config or in a section.
constexpr std::string_view harness_keys[] = {
    "learning_rate", "lr", "min_lr", "optimizer.params.lr", "scheduler", "lr_scheduler", "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_steps",
    "warmup_ratio", "warmup_proportion", "warmup_iters", "lr_decay_iters", "decay_lr", "max_steps", "max_iters", "num_train_epochs", "num_epochs",
    "per_device_train_batch_size", "train_micro_batch_size_per_gpu", "train_batch_size", "micro_batch_size", "batch_size", "block_size", "sequence_len",
    "cutoff_len", "n_layer", "n_head", "n_embd", "model_name_or_path", "base_model", "micro-batch-size", "global-batch-size", "num-layers",
    "hidden-size", "num-attention-heads", "seq-length", "train-iters", "lr-decay-style", "min-lr",
};
// clang-format on

const Owner* owner_of(std::string_view framework) {
    const auto found = std::find_if(std::begin(owners), std::end(owners),
                                    [&](const Owner& one) { return one.framework == framework; });
    return found == std::end(owners) ? nullptr : found;
}

/// Returns the number at a path. With an index, returns that element of the list at the path.
std::optional<double> number_at(const ImportContext& context, const std::string& path, int index) {
    const files::ConfigValue* value = context.value(path);
    if (value == nullptr) return {};
    if (index >= 0) {
        if (!value->is_list() || static_cast<std::size_t>(index) >= value->items.size()) return {};
        value = &value->items[static_cast<std::size_t>(index)];
    }
    const std::optional<double> number = files::written_number(*value);
    return number && std::isfinite(*number) ? number : std::nullopt;
}

/// Returns the path of the key at the root and inside the section of DeepSpeed, if the owner reads it there.
std::vector<std::string> paths_of(const Owner& owner, const StepKey& key) {
    std::vector<std::string> paths;
    if (key.framework == owner.keys_of) paths.emplace_back(key.path);
    if (key.framework == "deepspeed" && owner.deepspeed_at != "-")
        paths.push_back(owner.deepspeed_at.empty() ? std::string(key.path)
                                                   : fmt::format("{}.{}", owner.deepspeed_at, key.path));
    return paths;
}

/// Constants of a step: those of SGD, and those of every other optimiser.
constexpr std::string_view sgd_parts[] = {"lr", "momentum", "weight_decay"};
constexpr std::string_view adam_parts[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};

class StepFields {
  public:
    StepFields(ImportContext& context, const Owner& owner) : context_(context), owner_(owner) {}

    void run() {
        read("", owner_.keys_of);
        if (owner_.deepspeed_at != "-") read(owner_.deepspeed_at, "deepspeed");
        if (owner_.framework == "llamafactory") {
            if (const OptimiserRow* row = llamafactory_optimiser(context_)) kind_ = row->kind;
        }
        std::vector<std::pair<std::string, FieldScalar>> parts;
        const auto names = kind_ == "sgd" ? std::span<const std::string_view>(sgd_parts) : adam_parts;
        for (const std::string_view part : names) {
            if (const auto found = numbers_.find(part); found != numbers_.end())
                parts.emplace_back(part, found->second);
        }
        const auto momentum = numbers_.find("momentum");
        if (kind_ == "sgd" && momentum != numbers_.end() && momentum->second == 0)
            context_.infer("opt_state", {.value = std::string("none"), .parts = {}}, "SGD without momentum");
        parts.emplace_back("rate_waits", owner_.rate_waits && !hides_skips());
        context_.infer("optimizer", {.value = kind_.empty() ? "adamw" : kind_, .parts = std::move(parts)},
                       from_.empty() ? fmt::format("defaults of {}", context_.framework().title) : from_);
        if (const auto found = numbers_.find("micro_batches"); found != numbers_.end()) {
            context_.infer(
                "micro_batches", {.value = std::max(1.0, std::floor(found->second)), .parts = {}},
                micro_from_.empty() ? fmt::format("default of {}", context_.framework().title) : micro_from_);
        }
        tell_inert();
    }

  private:
    void read(std::string_view at, std::string_view framework) {
        const bool has_section = at.empty() || context_.value(at) != nullptr;
        for (const StepKey& key : step_keys) {
            if (framework.empty() || key.framework != framework || !has_section) continue;
            const std::string path = at.empty() ? std::string(key.path) : fmt::format("{}.{}", at, key.path);
            if (key.part == "kind") {
                if (!context_.has(path)) continue;
                set_kind(framework, at, context_.text(path));
                take(path);
                continue;
            }
            std::optional<double> number = key.path.empty() ? std::nullopt : number_at(context_, path, key.index);
            if (number) take(path);
            if (number && key.part == "micro_batches") micro_from_ = context_.from(path);
            if (!number && !numbers_.contains(key.part)) number = key.standard;
            if (number) numbers_.insert_or_assign(key.part, *number);
        }
    }

    /// Sets the kind of an optimiser that the config names. A name that is not in the table becomes its own kind.
    void set_kind(std::string_view framework, std::string_view at, const std::string& name) {
        // A class has the name of its module in front of it.
        const std::string own_name = lowered(name.substr(name.rfind('.') + 1));
        const OptimiserRow* row = find_optimiser(context_, framework, name);
        if (row == nullptr) row = find_optimiser(context_, framework, own_name);
        kind_ = row != nullptr ? std::string(row->kind) : algorithm_of(name);
        const std::string mode = fmt::format("{}{}optimizer.params.adam_w_mode", at, at.empty() ? "" : ".");
        const bool is_adam = framework == "deepspeed" && row != nullptr && row->name == "adam";
        if (is_adam && context_.maybe_flag(mode) == false) {
            kind_ = "adam";
            taken_.push_back(mode);
        }
    }

    void take(const std::string& path) {
        taken_.push_back(path);
        if (from_.empty() || path.ends_with(".type")) from_ = context_.from(path);
    }

    /// Returns whether the learning rate advances even in skipped steps, because the code that should pause its
    /// schedule cannot see them: a fused optimiser of torch skips a step inside its kernel.
    bool hides_skips() const {
        return context_.resolved().word("opt_kernel") == "fused" && context_.resolved().word("scaler") == "torch";
    }

    /// check_keys has reported some keys as inert that this class uses. Removes those findings. If the config is
    /// imported for `macheps train`, also reports as inert each key whose setting the run chooses itself, even if the
    /// framework reads the key.
    void tell_inert() {
        std::vector<Finding>& findings = context_.findings();
        const auto is_taken = [&](const std::string& key) {
            const bool stays = is_harness(key) && !(context_.options().takes_rate && is_rate(key));
            return std::find(taken_.begin(), taken_.end(), key) != taken_.end() && !stays;
        };
        std::erase_if(findings, [&](const Finding& one) {
            return one.code == FindingCode::inert && one.rule.ends_with("/inert-key") && is_taken(one.key);
        });
        if (!context_.options().for_training) return;
        for (const std::string_view key : harness_keys) {
            for (const std::string& path : {std::string(key), fmt::format("{}.{}", owner_.deepspeed_at, key)}) {
                if (context_.has(path) && !(context_.options().takes_rate && is_rate(path))) report(path);
            }
        }
    }

    void report(const std::string& path) {
        std::erase_if(context_.findings(), [&](const Finding& one) {
            return one.code == FindingCode::inert && one.rule.ends_with("/inert-key") && one.key == path;
        });
        context_.report(FindingCode::inert, "harness-setting", {path},
                        is_rate(path)
                            ? "the experiment sets its own learning rate; use --take lr to train with this one"
                            : "the experiment sets its own rates, steps, sizes and models");
    }

    static bool is_rate(std::string_view path) {
        return path == "learning_rate" || path == "lr" || path.ends_with("optimizer.params.lr");
    }

    static bool is_harness(std::string_view path) {
        return std::any_of(std::begin(harness_keys), std::end(harness_keys), [&](std::string_view key) {
            return path == key ||
                   (path.size() > key.size() && path.ends_with(key) && path[path.size() - key.size() - 1] == '.');
        });
    }

    ImportContext& context_;
    const Owner& owner_;
    std::map<std::string_view, double> numbers_;
    std::string kind_, from_, micro_from_;
    std::vector<std::string> taken_;
};

}  // namespace

void set_step_fields(ImportContext& context) {
    if (const Owner* owner = owner_of(context.framework().name)) StepFields(context, *owner).run();
}

std::string eps_key(const ImportContext& context) {
    const Owner* owner = owner_of(context.framework().name);
    std::string found;
    for (const StepKey& key : step_keys) {
        if (owner == nullptr || key.part != "eps") continue;
        for (const std::string& path : paths_of(*owner, key)) {
            if (number_at(context, path, key.index)) found = path;
        }
    }
    return found;
}

}  // namespace macheps::configs
