// SPDX-License-Identifier: Apache-2.0
// A policy is an ordered list of rules, each of which maps a site pattern to a cast or matmul. Later rules win. A
// policy is resolved once against the sites of a model.
#pragma once
#include "core/format.hpp"
#include "core/rounding.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/scaling/history.hpp"
#include "emulation/scaling/scaling.hpp"
#include "experiments/policy/reduce.hpp"
#include "experiments/policy/scaler/scaler.hpp"
#include "experiments/policy/sites.hpp"
#include "experiments/policy/training.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace macheps::policy {

/// The cast of the values at one slot.
struct CastRule {
    Format format = fp32;
    Round round = Round::nearest_even;
    Overflow overflow = Overflow::nonsaturate;
    const Granularity* granularity = no_scale;
    const ScaleRule* scale_rule = usual_rule(*no_scale);
    int random_bits = 32;
    DelayedScaling delayed{};  ///< only used by a scale rule with a history
    Format via = fp32;         ///< values are first rounded to this format
    bool hadamard = false;     ///< each group of 16 terms of the contraction is first mixed by a Hadamard matrix

    bool operator==(const CastRule&) const = default;
    bool has_scale() const { return granularity->is_scaled(); }
    bool is_identity() const { return format == fp32 && !has_scale(); }
    bool has_history() const { return has_scale() && scale_rule->has_history(); }
    /// Returns whether the values are changed before the cast: rounded to `via`, or mixed by a Hadamard matrix.
    bool is_prepared() const { return !(via == fp32) || hadamard; }
};

/// Returns a text that parse_cast reads: "e4m3fn/tensor", "bf16:stochastic", "fp16:saturate", "tf32:nearest_away".
std::string to_string(const CastRule& rule);

/// How a matmul of a linear or product computes its sums and adds the bias. The casts of its operands and its output
/// are not in this struct, but at its slots.
struct MatmulChoice {
    MatmulRule rule{};
    bool bias_after = false;  ///< the bias is added after the output's rounding, and the sum is rounded again
    /// The library kernel that `rule` describes. Null if no policy rule names a kernel, or if a policy rule has changed
    /// an option that the kernel's caller cannot choose.
    const NamedMatmulRule* named = nullptr;
    std::string unverified;  ///< why the bits may differ from the hardware's; empty if no reason is known
    bool operator==(const MatmulChoice&) const = default;
};

/// Returns a text such as "fp32.chain" or "sm90.wgmma.fp8, cublaslt.fp8.split, bias after, unverified".
std::string to_string(const MatmulChoice& choice);

/// How data-parallel ranks combine their gradients. Used only if there are several ranks.
struct ReduceConfig {
    std::optional<CastRule> wire{};  ///< cast of the gradients before they are sent, without a scale; empty: no cast
    const ReduceOrder* order = &reduce_orders[0];
    const Averaging* average = &averagings[0];
    const Bucketing* bucket = &bucketings[0];
    std::int64_t start = 1;  ///< for a ring: the sum of chunk c begins with the gradients of rank c + start
    bool accumulates_in_wire = false;
    double predivide = 1;
    bool divides = false;

    bool operator==(const ReduceConfig&) const = default;
};
/// Returns the keys and values of [reduce] as a policy file writes them.
std::vector<std::pair<std::string, std::string>> settings_of(const ReduceConfig& config);
/// Returns a text such as "wire bf16, order ring, average before".
std::string to_string(const ReduceConfig& config);

/// A preset or policy file, with the text that was read.
struct PolicySource {
    std::string name;  ///< the preset's name or the file's path
    bool is_file = false;
    std::string text;

    bool operator==(const PolicySource&) const = default;
};

/// The framework config from which a policy was imported: its files and overrides, as they were read. Runs record them.
struct PolicyConfig {
    std::string framework, version, device;
    std::vector<std::pair<std::string, std::string>> files;  ///< name and text
    /// What the policy does not emulate of the config: "LoRA is not emulated: the whole model is trained".
    std::vector<std::string> not_emulated{};

    bool operator==(const PolicyConfig&) const = default;
};

/// A parsed policy that includes the policies which it extends, but is not yet resolved.
struct Policy {
    struct Rule;  // defined in rule.hpp
    std::string name, description;
    std::string text;                   ///< the TOML that it was read from
    std::vector<std::string> chain;     ///< names of the policies that it extends, nearest first
    std::vector<PolicySource> sources;  ///< its own text, then the text of each policy that it extends
    std::vector<std::shared_ptr<const Rule>> rules;
    LossScalerConfig loss_scaler;
    Format optimizer_arithmetic = fp32;
    TrainingRecipe training{};
    ReduceConfig reduce{};
    PolicyConfig config{};  ///< without files if the policy was not imported from a config
};

/// A policy resolved for one model: a plain table that the model reads.
struct ResolvedPolicy {
    /// Returns the cast of `site:slot` or `parameter:slot`, which is fp32 (identity) if no rule set one. Throws Error
    /// if the model has no such name. This is a mistake in the program, not in the policy.
    const CastRule& cast(std::string_view site_and_slot) const;
    /// Returns a matmul of a site. `matmul` is forward, input_grad, weight_grad, grad_a or grad_b.
    const MatmulChoice& matmul(std::string_view site, std::string_view matmul) const;
    /// Returns whether a rule gave this parameter a master copy.
    bool has_master(std::string_view parameter) const;
    /// Returns whether a rule gave this parameter a separate sum for the gradients of micro-batches.
    bool has_sum(std::string_view parameter) const;

    std::string name, description;
    LossScalerConfig loss_scaler;
    Format optimizer_arithmetic = fp32;
    TrainingRecipe training{};
    ReduceConfig reduce{};
    /// A linear that a rule left unchanged because of its filter, its `multiple_of` or the blocks that it skips.
    struct LeftOut {
        std::string site, why;
        bool asks_low = false;  ///< the rule casts an operand to 8 bits or fewer
        bool operator==(const LeftOut&) const = default;
    };
    std::vector<LeftOut> left_out;
    std::vector<std::string> left_out_sites() const;

    /// `low` is the number of linears whose forward operand `a` has 8 bits or fewer. `asked` is the number of linears
    /// for which a rule requests an operand of 8 bits or fewer. It counts the linears in `low`, and the linears that
    /// such a rule left unchanged.
    struct LowLinears {
        int low = 0, asked = 0;
        bool operator==(const LowLinears&) const = default;
    };
    LowLinears low_linears() const;

    /// A slot as `policy explain` prints it.
    struct Row {
        std::string site, slot;
        std::string cast;     ///< `-` for the master copy or sum of a parameter that has none
        std::string machine;  ///< for the output of a matmul: the machine that it runs on
        std::string rule;
        bool is_default = false;  ///< nothing is rounded here, and the machine (if any) is fp32.chain
    };
    std::vector<Row> table() const;
    /// Returns a copy of the policy. Its `order` and `left_out` contain only the sites, parameters and slots whose name
    /// or `name:slot` matches the pattern.
    ResolvedPolicy restricted_to(std::string_view pattern) const;
    /// Returns the machines and rules that the matmuls use, in the order of the model, and the number of matmuls that
    /// use each. "bias after" is not part of the texts.
    std::vector<std::pair<std::string, int>> machines() const;
    /// Returns the reasons why matmuls are unverified, each reason once.
    std::vector<std::string> unverified() const;

    std::map<std::string, CastRule, std::less<>> casts;
    bool casts_nothing = true;  ///< every cast is the identity
    std::map<std::string, MatmulChoice, std::less<>> matmuls;
    std::map<std::string, std::string, std::less<>> origin;  ///< slot -> "preset amp-bf16, rule 3"
    /// Pairs of a site or parameter and one of its slots, in the order of the model.
    std::vector<std::pair<std::string, std::string>> order;
};

/// Returns the names of the compiled-in presets in the order in which reports list them: fp32 first.
std::vector<std::string_view> preset_names();
/// Returns the TOML text of a preset. If the name is unknown, throws Error that suggests the nearest name.
std::string_view preset_text(std::string_view name);

/// Loads a policy from a preset's name or the path of a .toml file (any name with a dot, slash or backslash).
Policy load_policy(std::string_view name_or_path);
/// Parses a policy. Errors name the file `origin`, the line and column, and a remedy.
Policy parse_policy(std::string_view toml, const std::string& origin);
/// Parses a policy again from its recorded texts (Policy::sources). The policies that it extends are also read from
/// `sources`, even if the presets and files with these names have changed since.
Policy parse_policy(std::span<const PolicySource> sources);
ResolvedPolicy resolve(const Policy& policy, const SiteList& model);

}  // namespace macheps::policy
