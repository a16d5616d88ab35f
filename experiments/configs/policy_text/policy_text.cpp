// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/policy_text/policy_text.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/fp8_text.hpp"
#include "experiments/configs/policy_text/reduce_text.hpp"
#include "experiments/policy/scaler/scaler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace macheps::configs {

namespace {

/// Returns the name of the format for its letter ("fp32" for F), or an empty text if `letter` is not the letter of a
/// format.
std::string_view format_of(std::string_view letter) {
    if (letter == "F") return "fp32";
    if (letter == "T") return "tf32";
    if (letter == "H") return "fp16";
    return letter == "B" ? "bf16" : "";
}

bool is_low(std::string_view letter) { return letter == "H" || letter == "B"; }

/// Fields that determine which preset the policy extends: letters of formats, and the operation list of autocast.
struct Kinds {
    std::string_view store, compute, oplist;
    std::string_view working;  ///< format of the weights in the forward pass; with FSDP, of the gathered copies
};

/// A preset that the policy of a config can extend. The first row that applies is used.
struct Base {
    std::string_view preset_h, preset_b;  ///< for fp16 and bf16; equal if the format does not matter
    bool is_whole_model_low;  ///< activations and, unless a rule says otherwise, parameters are in the low format
    bool (*applies)(const Kinds& kinds);
};

constexpr Base bases[] = {
    {"fp32", "fp32", false, [](const Kinds& kinds) { return kinds.compute == "F" || kinds.compute.empty(); }},
    {"tf32", "tf32", false, [](const Kinds& kinds) { return kinds.compute == "T"; }},
    // If the weights in the forward pass are already in the low format, autocast changes only the loss. Operations on
    // the fp32 list of autocast read low-precision numbers, and the next matmul rounds their results again.
    {"pure-fp16", "pure-bf16", true,
     [](const Kinds& kinds) {
         return kinds.working == kinds.compute || kinds.oplist == "none" || kinds.oplist.empty();
     }},
    {"amp-fp16", "amp-bf16", false, [](const Kinds&) { return true; }},
};

/// States which values of the loss are in the low format if the forward pass computes the loss from low-precision
/// logits, as nanoGPT does. This depends on `oplist`, the operation list of autocast.
struct LossForm {
    std::string_view oplist;
    bool has_low_log_probabilities, has_low_mean;
    std::string_view reason;
    bool computes_as(const LossForm& other) const {
        return has_low_log_probabilities == other.has_low_log_probabilities && has_low_mean == other.has_low_mean;
    }
};

// Sources: ATen/autocast_mode.h and LossNLL.cpp of PyTorch 2.9.1 and 2.15.0, confirmed by runs on fake CUDA tensors and
// on a CPU; deepspeed/runtime/torch_autocast.py (the engine enters torch.autocast around the forward pass);
// apex/amp/lists/functional_overrides.py.
constexpr LossForm loss_forms[] = {
    {"torch-cuda", true, false,
     "CUDA's autocast does not list cross_entropy_loss, which passes the logits' dtype to log_softmax; nll_loss is on "
     "its "
     "fp32 list."},
    {"ds-safe-modules", true, false, "The engine enters CUDA's autocast, which does not list cross_entropy_loss."},
    {"torch-cpu", false, false, "A CPU's autocast has cross_entropy_loss on its fp32 list."},
    {"apex-o1", false, false, "Apex has cross_entropy on its list of fp32 operations."},
};
constexpr LossForm wide_logits{{}, false, false, "The loss is computed in fp32 from logits that were widened."};
constexpr LossForm without_autocast{
    {}, true, true, "Without autocast every operation of the loss keeps the logits' format."};

/// Formats of the slots of parameters in one rule, in the order of the policy language.
struct ParameterRule {
    std::string_view value = "fp32", master, grad = "fp32", accum, moments = "fp32";
    bool operator==(const ParameterRule&) const = default;
};

class PolicyWriter {
  public:
    explicit PolicyWriter(ImportContext& context) : context_(context), fields_(context.resolved()) {}

    std::string text() {
        choose_base();
        std::string head = fmt::format(
            "# The closest policy to what {} {} computes from this config.\n"
            "name        = \"{}\"\n"
            "description = \"imported from a config of {}: {}, stored in {}\"\n"
            "extends     = \"{}\"\n",
            context_.framework().title, to_string(context_.version()), name(), context_.framework().title,
            words("compute"), words("store"), preset_);
        rules_of_operations();
        if (const std::string fp8 = fp8_text(fields_); !fp8.empty()) rule("Products in fp8.", fp8);
        rules_of_parameters();
        optimizer();
        clip();
        micro_batches();
        checkpointing();
        scaler();
        body_ += reduce_text(fields_);
        report_open();
        return head + body_;
    }

  private:
    std::string name() const {
        const std::string& given = context_.options().policy_name;
        return given.empty() ? fmt::format("imported-{}", context_.framework().name) : given;
    }

    std::string words(std::string_view field) const {
        const std::string_view word = fields_.word(field);
        const std::string_view format = format_of(word);
        return std::string(!format.empty() ? format : word.empty() ? "fp32" : word);
    }

    /// Reports a part of the config that the policy language does not have, and what the policy does instead.
    void not_emulated(const std::string& statement) {
        context_.report(FindingCode::note, "not-emulated", {}, statement).not_emulated = statement;
    }

    Kinds kinds() const {
        const std::string_view store = fields_.word("store"), embed = fields_.word("embed");
        return {store, compute(), fields_.word("oplist"), embed.empty() ? store : embed};
    }

    /// Returns the format of matmuls. If the config uses fp8, returns the format of the matmuls that are not in fp8.
    std::string_view compute() const {
        const std::string_view word = fields_.word("compute");
        return word.empty() || !format_of(word).empty() ? word : format_around_fp8(fields_);
    }

    void choose_base() {
        const Kinds what = kinds();
        const auto& [store, compute, oplist, working] = what;
        for (const Base& each : bases) {
            if (!each.applies(what)) continue;
            base_ = &each;
            break;
        }
        preset_ = compute == "H" ? base_->preset_h : base_->preset_b;
        if (!has_known_recipe(fields_))
            not_emulated(fmt::format("the fp8 recipe {} is not emulated: the policy uses {}", fields_.word("fp8"),
                                     format_of(compute)));
        if (!store.empty() && format_of(store).empty())
            not_emulated(fmt::format("parameters in {} are not emulated: the policy keeps them in {}", store,
                                     config_rule().value));
        if (!base_->is_whole_model_low && is_low(working) && !is_low(store))
            not_emulated(
                fmt::format("{} values between operations are not emulated: the policy keeps the residual stream in "
                            "fp32",
                            format_of(working)));
    }

    void rule(std::string_view comment, std::string_view lines) {
        body_ += fmt::format("\n# {}\n[[rule]]\n{}", comment, lines);
    }

    const LossForm& loss_form() const {
        if (fields_.word("logits") == "F") return wide_logits;
        for (const LossForm& each : loss_forms) {
            if (each.oplist == fields_.word("oplist")) return each;
        }
        return without_autocast;
    }

    /// Writes the rule for the loss of a gpt2 model if the loss differs from that of the base preset. A llama model
    /// always computes its loss from logits.float().
    void rule_of_loss() {
        const LossForm& form = loss_form();
        // The base preset computes the loss either as autocast on CUDA (loss_forms[0]) or as a model that is entirely
        // in the low format.
        if (form.computes_as(base_->is_whole_model_low ? without_autocast : loss_forms[0])) return;
        const std::string_view low = format_of(compute());
        const auto format = [&](bool keeps_low) { return keeps_low ? low : std::string_view("fp32"); };
        rule(form.reason,
             fmt::format("model   = \"gpt2\"\nsites   = \"loss\"\nforward = {{ out = \"{}\", mean = \"{}\" }}\n",
                         format(form.has_low_log_probabilities), format(form.has_low_mean)));
    }

    void rules_of_operations() {
        const std::string_view oplist = fields_.word("oplist");
        const std::string low(format_of(compute()));
        if (is_low(compute())) rule_of_loss();
        if (base_->is_whole_model_low) {
            rules_of_low_model(oplist);
        } else if (oplist == "apex-o1" && is_low(compute())) {
            rule("Apex has GELU on its list of fp32 operations; SiLU is on no list.",
                 "model = \"gpt2\"\nsites = \"block.*.mlp.act:forward.out\"\ncast  = \"fp32\"\n");
        } else if (oplist == "torch-cpu" && is_low(compute())) {
            rule(
                "On a CPU, softmax is on no list: its output has the format of its input. The softmax of a llama "
                "requests fp32.",
                fmt::format("model = \"gpt2\"\nsites = \"block.*.attn.softmax:*\"\ncast  = \"{}\"\n", low));
        }
    }

    /// Writes the rules for operations that a model with low parameters and activations still computes in fp32.
    void rules_of_low_model(std::string_view oplist) {
        if (oplist == "torch-cuda") {
            rule("Autocast has softmax on its list of fp32 operations: its backward pass reads fp32 probabilities.",
                 "sites = \"block.*.attn.softmax:forward.out\"\ncast  = \"fp32\"\n");
        }
        if (fields_.word("buffers") == "F") {
            rule("Rotary frequencies are buffers, which keep fp32.",
                 "model = \"llama\"\nsites = \"block.*.attn.rope:forward.inv_freq\"\ncast  = \"fp32\"\n");
        }
        if (fields_.word("norm") == "F" && fields_.word("store") != "F") {
            rule("Norms with fp32 weights return fp32, which the next linear rounds.",
                 "sites = [\"*norm1:forward.out\", \"*norm2:forward.out\", \"final_norm:forward.out\"]\ncast  = "
                 "\"fp32\"\n");
            rule("The gradient of a norm with an fp32 weight is also fp32.",
                 "model = \"llama\"\nsites = \"*norm*:weight_grad.*\"\ncast  = \"fp32\"\n");
        }
    }

    /// Returns the parameter formats that the base preset sets.
    ParameterRule base_rule() const {
        ParameterRule rule;
        if (!base_->is_whole_model_low) return rule;
        const std::string_view low = format_of(compute());
        return {.value = low, .master = {}, .grad = low, .accum = {}, .moments = low};
    }

    ParameterRule config_rule() const {
        ParameterRule rule = base_rule();
        const std::string_view store = fields_.word("store"), master = fields_.word("master");
        const auto set = [&](std::string_view& to, std::string_view field) {
            if (const std::string_view format = format_of(fields_.word(field)); !format.empty()) to = format;
        };
        set(rule.value, "store");
        set(rule.grad, "grad");
        set(rule.moments, "opt_state");
        if (format_of(fields_.word("opt_state")).empty()) rule.moments = "fp32";  // such as int8; see optimizer()
        // fp32 shards with a low-precision copy for each step are written as an fp32 master and a low-precision value.
        const Kinds what = kinds();
        const std::string_view copy = is_low(what.working) ? what.working : what.compute;
        if (store == "F" && is_low(copy) && (base_->is_whole_model_low || is_low(what.working))) {
            rule.value = format_of(copy);
            rule.master = "fp32";
        }
        if (is_low(store) && !format_of(master).empty()) rule.master = format_of(master);
        const std::string_view sum = format_of(fields_.word("accum"));
        if (!sum.empty() && sum != rule.grad) rule.accum = sum;
        return rule;
    }

    static std::string lines_of(std::string_view params, const ParameterRule& rule) {
        std::string lines = fmt::format("params  = {}\nvalue   = \"{}\"\n", params, rule.value);
        if (!rule.master.empty()) lines += fmt::format("master  = \"{}\"\n", rule.master);
        if (!rule.accum.empty()) lines += fmt::format("accum   = \"{}\"\n", rule.accum);
        return lines + fmt::format("grad    = \"{}\"\nmoment1 = \"{}\"\nmoment2 = \"{}\"\n", rule.grad, rule.moments,
                                   rule.moments);
    }

    void rules_of_parameters() {
        const ParameterRule all = config_rule();
        if (all != base_rule()) {
            rule("Parameters, their gradients and the optimiser's moments.", lines_of("\"*\"", all));
        }
        struct Part {
            std::string_view field, params;
        };
        // The embedding and the output head share a rule if they have the same format. A tied head reads the weight of
        // the embedding, so it needs no rule.
        const bool is_head_alike = fields_.word("lm_head") == fields_.word("embed");
        for (const Part& part : {Part{"embed", is_head_alike ? "\"{embed,lm_head}.*\"" : "\"embed.*\""},
                                 Part{"norm", "[\"*norm1.*\", \"*norm2.*\", \"final_norm.*\"]"}}) {
            const std::string_view format = format_of(fields_.word(part.field));
            if (format.empty() || format == all.value || !all.master.empty()) continue;
            ParameterRule some = all;
            some.value = format;
            if (format == "fp32") some.grad = some.moments = "fp32";
            if (some.accum == some.grad) some.accum = {};
            rule(fmt::format("The parameters of {} keep {}.", part.field, format), lines_of(part.params, some));
        }
    }

    /// Returns the Adam kernel that updates the weights. DeepSpeed, Megatron and Apex update fp32 master weights with a
    /// fused kernel that is not part of torch.
    std::string adam_kernel() const {
        const std::string_view kernel = fields_.word("opt_kernel"), clip = fields_.word("clip");
        const bool on_cpu = fields_.word("device") == "cpu" || context_.device().kind == DeviceProfile::Kind::cpu;
        // On a GPU, the foreach kernel does the same operations as the single-tensor kernel.
        const std::string torchs =
            on_cpu ? fmt::format("{}-cpu", kernel) : std::string(kernel == "foreach" ? "single" : kernel);
        if (kernel != "fused") return torchs;
        const bool has_own =
            !format_of(fields_.word("master")).empty() || clip.starts_with("deepspeed") || clip == "megatron";
        return has_own ? "multi-tensor" : torchs;
    }

    /// Returns the name of an optimiser in messages.
    static std::string title_of(const std::string& kind) {
        const OptimiserKind* row = find_optimiser_kind(kind);
        return row == nullptr ? kind : std::string(row->title);
    }

    void optimizer() {
        const std::string_view kernel = fields_.word("opt_kernel"), state = fields_.word("opt_state");
        if (state == "int8" || state == "int4" || state == "fp8")
            not_emulated(fmt::format("{} moments are not emulated: the policy keeps them in fp32", state));
        std::string lines;
        if (base_->is_whole_model_low) {
            const bool rounds_each = kernel != "fused" && is_low(state) && config_rule().master.empty();
            lines += fmt::format("arithmetic = \"{}\"\n", rounds_each ? format_of(state) : "fp32");
        }
        if (!kernel.empty()) lines += fmt::format("kernel = \"{}\"\n", adam_kernel());
        lines += optimizer_constants();
        if (!lines.empty()) body_ += "\n[optimizer]\n" + lines;
    }

    std::string optimizer_constants() {
        const ResolvedField* field = fields_.find("optimizer");
        if (field == nullptr) return {};
        std::string lines;
        const std::string kind(fields_.word("optimizer"));
        if (kind == "adamw" || kind == "adam" || kind == "sgd")
            lines += fmt::format("kind = \"{}\"\n", kind);
        else
            not_emulated(fmt::format("the optimiser {} is not emulated: the policy uses AdamW", title_of(kind)));
        for (const auto& [part, value] : field->value.parts) {
            if (part == "lr" && !context_.options().takes_rate) continue;
            if (const bool* flag = std::get_if<bool>(&value)) {
                // Without a scaler, gradients are not checked and no step is skipped.
                if (*flag && fields_.word("scaler") != "none") lines += fmt::format("{} = true\n", part);
                continue;
            }
            lines += number_line(part, std::get<double>(value));
        }
        return lines;
    }

    void clip() {
        const ResolvedField* field = fields_.find("clip");
        if (field == nullptr) return;
        const std::string formula(fields_.word("clip"));
        if (formula == "none") {
            body_ += "\n[clip]\nmax_norm = 0.0\n";
            return;
        }
        body_ += fmt::format("\n[clip]\nformula = \"{}\"\n", formula);
        for (const auto& [part, value] : field->value.parts) {
            if (part == "max") body_ += number_line("max_norm", std::get<double>(value));
        }
    }

    void micro_batches() {
        const ResolvedField* field = fields_.find("micro_batches");
        if (field == nullptr) return;
        const double count = std::get<double>(field->value.value);
        if (count > 1 && count <= 0x1p20)
            body_ += fmt::format("\n[accumulation]\nmicro_batches = {}\n", static_cast<long long>(count));
    }

    void checkpointing() {
        const ResolvedField* field = fields_.find("ckpt");
        const bool* recomputes = field == nullptr ? nullptr : std::get_if<bool>(&field->value.value);
        if (recomputes != nullptr && *recomputes) body_ += "\n[backward]\nrecompute = true\n";
    }

    /// Returns a line that sets a TOML float. 2 is written as 2.0, because TOML reads 2 as an integer.
    static std::string number_line(std::string_view name, double number) {
        const std::string digits = fmt::format("{}", number);
        const bool is_float = digits.find_first_of(".en") != std::string::npos;
        return fmt::format("{} = {}{}\n", name, digits, is_float ? "" : ".0");
    }

    void scaler() {
        const ResolvedField* field = fields_.find("scaler");
        const std::string word(fields_.word("scaler"));
        if (field == nullptr || word.empty() || word == "none") {
            body_ += "\n[loss_scaler]\nkind = \"none\"\n";
            return;
        }
        const policy::ScalerKind* kind = policy::find_scaler(word);
        const bool is_known = kind != nullptr;
        if (!is_known) {
            not_emulated(fmt::format("the loss scaler {} is not emulated: the policy uses torch's", word));
            kind = policy::find_scaler("torch");
        }
        body_ += fmt::format("\n[loss_scaler]\nkind = \"{}\"\n", kind->name);
        for (const auto& [name, value] : field->value.parts) scaler_key(*kind, is_known, name, value);
    }

    /// Writes a key of the loss scaler. Reports a key that `kind` does not have. Reports nothing if `is_known` is
    /// false: the kind of the config is then unknown and already reported, and `kind` is only its replacement.
    void scaler_key(const policy::ScalerKind& kind, bool is_known, const std::string& name, const FieldScalar& value) {
        const auto key = std::find_if(kind.keys.begin(), kind.keys.end(),
                                      [&](const policy::ScalerKey& one) { return one.name == name; });
        if (key == kind.keys.end()) {
            // A kind that lacks a flag behaves as if the flag were off, so a flag that is off is not reported.
            const bool* is_on = std::get_if<bool>(&value);
            if (is_known && (is_on == nullptr || *is_on))
                not_emulated(fmt::format("key `{}` of the loss scaler {} is not emulated: the policy leaves it out",
                                         name, kind.name));
            return;
        }
        const double* number = std::get_if<double>(&value);
        const bool* flag = std::get_if<bool>(&value);
        if (const std::string* word = std::get_if<std::string>(&value)) {
            body_ += fmt::format("{} = \"{}\"\n", name, *word);
        } else if (key->type == policy::ScalerValue::flag) {
            body_ += fmt::format("{} = {}\n", name, flag != nullptr ? *flag : *number != 0);
        } else if (number == nullptr || !std::isfinite(*number) ||
                   (key->is_good != nullptr && !key->is_good(*number))) {
            not_emulated(fmt::format(
                "the value of key `{}` of the loss scaler {} is not emulated: the policy leaves it out; give {}", name,
                kind.name, key->wanted));
        } else if (key->type == policy::ScalerValue::count) {
            body_ += fmt::format("{} = {}\n", name, static_cast<long long>(*number));
        } else {
            body_ += number_line(name, *number);
        }
    }

    /// Reports fields that the policy language cannot express.
    void report_open() {
        const std::string_view adapter = fields_.word("adapter");
        if (!adapter.empty() && adapter != "none")
            not_emulated(
                "adapters are not emulated: the whole model is trained, so losses, lost updates and bytes per "
                "parameter are those of full fine-tuning");
    }

    ImportContext& context_;
    const ResolvedConfig& fields_;
    const Base* base_ = nullptr;
    std::string_view preset_;
    std::string body_;
};

}  // namespace

std::string policy_text(ImportContext& context) { return PolicyWriter(context).text(); }

}  // namespace macheps::configs
