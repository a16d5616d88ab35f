// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/traps.hpp"
#include "experiments/configs/history/history.hpp"
#include "experiments/configs/optimisers/optimisers.hpp"
#include "experiments/configs/policy_text/scaler_field.hpp"
#include "experiments/configs/policy_text/step_fields.hpp"
#include "experiments/configs/policy_text/storage_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace macheps::configs {

namespace {

/// Returns the letter of a field whose format is fp16 (H) or bf16 (B), or 0 for any other value.
char low_format(const ImportContext& context, std::string_view field) {
    const std::string_view word = context.resolved().word(field);
    return word == "H" || word == "B" ? word.front() : '\0';
}

struct Trap {
    std::string message;
    std::string instead{}, key{};  ///< empty if the fields do not show which key to change
};
using Found = std::optional<Trap>;

Found low_reduce(const ImportContext& context) {
    const char format = low_format(context, "reduce");
    if (format == 0) return {};
    return Trap{
        fmt::format("if several ranks train, their gradients are summed in {}, although fp32 is usually recommended",
                    format_word(format))};
}

Found low_buffers(const ImportContext& context) {
    const char format = low_format(context, "buffers");
    if (format == 0) return {};
    return Trap{
        fmt::format("buffers are {}: the frequencies of rotary embeddings are rounded, and the angles of distant "
                    "positions are wrong",
                    format_word(format))};
}

Found low_masters(const ImportContext& context) {
    const char format = low_format(context, "master");
    if (format == 0) return {};
    return Trap{fmt::format("the master weights are {}: an update below half an ulp of its weight is lost",
                            format_word(format))};
}

/// Weights of a frozen base are not updated, so they need no master weights. Frozen weights also have no gradients: if
/// gradients are wider than the stored weights, they belong to other weights.
Found no_master(const ImportContext& context) {
    const char format = low_format(context, "store");
    const std::string_view adapter = context.resolved().word("adapter");
    const bool is_frozen = (!adapter.empty() && adapter != "none") || context.resolved().word("grad") == "F";
    if (format == 0 || is_frozen || context.resolved().word("master") != "none") return {};
    return Trap{fmt::format("the optimiser updates {} weights, and without fp32 master weights small updates are lost",
                            format_word(format))};
}

/// The scaler of FSDP 1 accepts fp16 gradients, but not bf16 gradients. On a CPU, GradScaler also accepts bf16
/// gradients.
Found low_gradients(const ImportContext& context) {
    const char format = low_format(context, "grad");
    const std::string_view scaler = context.resolved().word("scaler");
    if (format == 0 || (scaler != "torch" && (scaler != "torch-sharded" || format == 'H'))) return {};
    const bool is_on_cpu = context.resolved().word("oplist") == "torch-cpu";
    if (format == 'B' && is_on_cpu) return {};
    return Trap{format == 'H' ? "GradScaler refuses fp16 gradients: \"Attempting to unscale FP16 gradients\""
                              : "GradScaler cannot unscale bf16 gradients on CUDA: \"not implemented for 'BFloat16'\""};
}

/// Returns a parameter of a field, or nothing if the field has no such number.
std::optional<double> part_of(const ImportContext& context, std::string_view field, std::string_view name) {
    const ResolvedField* found = context.resolved().find(field);
    if (found == nullptr) return {};
    for (const auto& [part, value] : found->value.parts) {
        const double* number = std::get_if<double>(&value);
        if (part == name && number != nullptr) return *number;
    }
    return {};
}

/// A scaler with a dynamic scale has a growth interval. With a backoff factor outside (0, 1), the scale does not fall
/// step by step.
Found large_initial_scale(const ImportContext& context) {
    const double power = std::log2(part_of(context, "scaler", "init_scale").value_or(0));
    const double backoff = part_of(context, "scaler", "backoff_factor").value_or(0.5);
    const bool falls = part_of(context, "scaler", "growth_interval").value_or(0) > 0 && backoff > 0 && backoff < 1;
    if (!falls || !(power > large_scale_power)) return {};
    return Trap{large_scale_text(power, backoff)};
}

/// Adam's eps is added in fp16 if the kernel rounds every operation and the moments are in fp16.
Found low_eps(const ImportContext& context, std::string (*effect)(double)) {
    const ResolvedConfig& fields = context.resolved();
    const std::string_view kind = fields.word("optimizer"), master = fields.word("master");
    if (fields.word("opt_state") != "H" || fields.word("opt_kernel") == "fused") return {};
    if ((!master.empty() && master != "none") || (!kind.empty() && kind != "adamw" && kind != "adam")) return {};
    constexpr double usual_eps = 1e-8;  // the default of every framework here
    std::string message = effect(part_of(context, "optimizer", "eps").value_or(usual_eps));
    if (message.empty()) return {};
    const std::string key = eps_key(context), instead = "fp32 master weights and moments";
    if (key.empty()) return Trap{std::move(message), instead};
    return Trap{std::move(message),
                fmt::format("{}: {}, or {}", key.substr(key.rfind('.') + 1), fp16_safe_eps, instead), key};
}
Found eps_is_zero(const ImportContext& context) { return low_eps(context, fp16_eps_is_zero); }
Found eps_is_small(const ImportContext& context) { return low_eps(context, fp16_eps_is_small); }

struct TrapRow {
    std::string_view rule;
    FindingCode code;
    Found (*said)(const ImportContext&);
    std::initializer_list<std::string_view> own_rules;     ///< rules of importers that report the trap
    std::initializer_list<std::string_view> without_it{};  ///< frameworks that do not have the trap
};

const TrapRow traps[] = {
    // kohya's scripts replace the check of GradScaler, so that it unscales fp16 gradients.
    {"low-gradients-under-scaler",
     FindingCode::error,
     low_gradients,
     {"unscale-low-gradients", "fp16-gradients", "bf16-gradients", "low-weights-under-scaler"},
     {"kohya"}},
    {"low-masters", FindingCode::warning, low_masters, {"low-masters"}},
    {"no-master",
     FindingCode::warning,
     no_master,
     {"no-master", "no-masters", "fsdp-no-master", "low-weights-under-scaler", "unscale-low-gradients",
      "bf16-section-off"}},
    // Megatron's module of rotary embeddings keeps its frequencies outside the buffers of the model. The models that
    // kohya's scripts train have no such buffers: FLUX computes the angles in fp64 in each forward pass.
    {"low-buffers", FindingCode::warning, low_buffers, {"buffers-cast"}, {"megatron", "kohya"}},
    {"low-reduce", FindingCode::note, low_reduce, {"fsdp-low-reduce", "low-hook"}},
    {"large-initial-scale",
     FindingCode::warning,
     large_initial_scale,
     {"large-initial-scale", "initial-scale-trap", "long-overflow-cascade"}},
    // The importers of kohya's scripts and of Lightning read the eps of more optimisers and have separate rules.
    {"eps-is-zero", FindingCode::warning, eps_is_zero, {"eps-is-zero"}, {"kohya", "lightning"}},
    {"eps-is-small", FindingCode::warning, eps_is_small, {"eps-is-small"}, {"kohya", "lightning"}},
};

bool contains(std::initializer_list<std::string_view> words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns whether a finding comes from one of the trap's own rules, or from a fault of the history that replaces such
/// a rule.
bool is_by_own_rule(const Finding& finding, const TrapRow& trap) {
    if (contains(trap.own_rules, std::string_view(finding.rule).substr(finding.rule.find('/') + 1))) return true;
    const FaultRow* fault = find_fault(finding.fault);
    if (fault == nullptr) return false;
    const std::string replaced = fmt::format("{} ", fault->finding);
    return std::any_of(trap.own_rules.begin(), trap.own_rules.end(), [&](std::string_view rule) {
        return replaced.find(fmt::format("/{} ", rule)) != std::string::npos;
    });
}

bool is_reported(const ImportContext& context, const TrapRow& trap) {
    return std::any_of(context.findings().begin(), context.findings().end(),
                       [&](const Finding& finding) { return is_by_own_rule(finding, trap); });
}

}  // namespace

void report_traps(ImportContext& context) {
    // A run that trains nothing has none of the traps. The key is one of Transformers' and LLaMA-Factory's arguments.
    if (!context.maybe_flag("do_train").value_or(true)) return;
    for (const TrapRow& trap : traps) {
        if (contains(trap.without_it, context.framework().name) || is_reported(context, trap)) continue;
        Found found = trap.said(context);
        if (!found) continue;
        if (found->key.empty())
            context.report(trap.code, trap.rule, {}, std::move(found->message), std::move(found->instead));
        else
            context.report(trap.code, trap.rule, {found->key}, std::move(found->message), std::move(found->instead));
    }
}

}  // namespace macheps::configs
