// SPDX-License-Identifier: Apache-2.0
// Policy: an ordered list of rules, site pattern -> cast or matmul; later rules win. Resolved once against a model's
// sites.
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

/// What happens to the values at one slot.
struct CastRule {
    Format format = fp32;
    Round round = Round::nearest_even;
    Overflow overflow = Overflow::nonsaturate;
    const Granularity* granularity = no_scale;
    const ScaleRule* scale_rule = usual_rule(*no_scale);
    int random_bits = 32;
    DelayedScaling delayed{};  ///< read by a scale rule with a history
    Format via = fp32;         ///< values are rounded to it first
    bool hadamard = false;     ///< 16 terms of the contraction after the other are first mixed by a Hadamard matrix

    bool operator==(const CastRule&) const = default;
    bool has_scale() const { return granularity->is_scaled(); }
    bool is_identity() const { return format == fp32 && !has_scale(); }
    bool has_history() const { return has_scale() && scale_rule->has_history(); }
    /// True when what is cast is not the values themselves.
    bool is_prepared() const { return !(via == fp32) || hadamard; }
};

/// "e4m3fn/tensor", "bf16:stochastic", "fp16:saturate", "tf32:nearest_away"; the spelling that parse_cast reads.
std::string to_string(const CastRule& rule);

/// How a linear's or product's matmul sums and ends. The casts are those of its slots.
struct MatmulChoice {
    MatmulRule rule{};
    bool bias_after = false;  ///< the bias is added after the output's rounding, and the sum is rounded again
    const NamedMatmulRule* named = nullptr;  ///< where `rule` came from, unless an option was changed since
    std::string unverified;  ///< why the bits may not be the hardware's; empty: nothing is known to be open
    bool operator==(const MatmulChoice&) const = default;
};

/// "fp32.chain", "sm90.wgmma.fp8, cublaslt.fp8.split, bias after, unverified".
std::string to_string(const MatmulChoice& choice);

/// How data parallel ranks make one gradient of theirs; read only where there are several.
struct ReduceConfig {
    std::optional<CastRule> wire{};  ///< what is sent, without a scale; nothing: in the gradient's own format
    const ReduceOrder* order = &reduce_orders[0];
    const Averaging* average = &averagings[0];
    const Bucketing* bucket = &bucketings[0];
    std::int64_t start = 1;  ///< of a ring: chunk c begins at rank c + start
    bool accumulates_in_wire = false;
    double predivide = 1;
    bool divides = false;

    bool operator==(const ReduceConfig&) const = default;
};
/// Keys and values, as a policy file writes them.
std::vector<std::pair<std::string, std::string>> settings_of(const ReduceConfig& config);
/// "wire bf16, order ring, average before".
std::string to_string(const ReduceConfig& config);

/// A preset or a file of a policy, as it was read.
struct PolicySource {
    std::string name;  ///< the preset's name or the file's path
    bool is_file = false;
    std::string text;

    bool operator==(const PolicySource&) const = default;
};

/// The config that a policy was made of, for the record: files and overrides as they were read.
struct PolicyConfig {
    std::string framework, version, device;
    std::vector<std::pair<std::string, std::string>> files;  ///< name and text

    bool operator==(const PolicyConfig&) const = default;
};

/// One policy, parsed and with its `extends` chain joined, not yet resolved.
struct Policy {
    struct Rule;  // defined in rule.hpp
    std::string name, description;
    std::string text;                   ///< the TOML it was read from
    std::vector<std::string> chain;     ///< names of `extends`, nearest first
    std::vector<PolicySource> sources;  ///< its own text, then that of each `extends`
    std::vector<std::shared_ptr<const Rule>> rules;
    LossScalerConfig loss_scaler;
    Format optimizer_arithmetic = fp32;
    TrainingRecipe training{};
    ReduceConfig reduce{};
    PolicyConfig config{};  ///< without files where the policy was made of no config
};

/// A policy against one model: a plain table that the model reads.
struct ResolvedPolicy {
    /// The rule of `site:slot` or `parameter:slot`; fp32 (identity) when nothing was said. Throws Error for a name that
    /// the model does not have: a slip in the program, not in the policy.
    const CastRule& cast(std::string_view site_and_slot) const;
    /// `matmul` is forward, input_grad, weight_grad, grad_a or grad_b.
    const MatmulChoice& matmul(std::string_view site, std::string_view matmul) const;
    /// True when a rule gave this parameter a master copy.
    bool has_master(std::string_view parameter) const;
    /// True when a rule gave this parameter a sum of its own for the gradients of micro-batches.
    bool has_sum(std::string_view parameter) const;

    std::string name, description;
    LossScalerConfig loss_scaler;
    Format optimizer_arithmetic = fp32;
    TrainingRecipe training{};
    ReduceConfig reduce{};
    /// A linear that a rule's filter, or its `multiple_of`, left as it was.
    struct LeftOut {
        std::string site, why;
        bool asks_low = false;  ///< for 8 bits or fewer
        bool operator==(const LeftOut&) const = default;
    };
    std::vector<LeftOut> left_out;
    std::vector<std::string> left_out_sites() const;

    /// Linears whose forward operands are of 8 bits or fewer, and those that rules asked for: these and the ones left out.
    struct LowLinears {
        int low = 0, asked = 0;
        bool operator==(const LowLinears&) const = default;
    };
    LowLinears low_linears() const;

    /// A slot, as `policy explain` prints it.
    struct Row {
        std::string site, slot;
        std::string cast;     ///< `-` for the master copy of a parameter that has none
        std::string machine;  ///< where a matmul ends: what it runs on
        std::string rule;
        bool is_default = false;  ///< nothing is rounded here, and no machine but fp32.chain sums
    };
    std::vector<Row> table() const;
    /// The same policy with only those sites, parameters and slots in `order` and `left_out` whose name, or `name:slot`,
    /// matches the pattern.
    ResolvedPolicy restricted_to(std::string_view pattern) const;
    /// What the matmuls run on, in the order of the model, and how many run on each; "bias after" is left out.
    std::vector<std::pair<std::string, int>> machines() const;
    /// Why some of them are unverified, each reason once.
    std::vector<std::string> unverified() const;

    std::map<std::string, CastRule, std::less<>> casts;
    bool casts_nothing = true;  ///< every one of them is the identity
    std::map<std::string, MatmulChoice, std::less<>> matmuls;
    std::map<std::string, std::string, std::less<>> origin;  ///< slot -> "preset amp-bf16, rule 3"
    /// Every site or parameter with a slot of it, in the order of the model.
    std::vector<std::pair<std::string, std::string>> order;
};

/// Names of the presets compiled in, in the order of a report: fp32 first.
std::vector<std::string_view> preset_names();
/// The TOML of a preset; throws Error with the nearest name when there is none.
std::string_view preset_text(std::string_view name);

/// A preset's name, or the path of a .toml file (anything with a dot or a slash).
Policy load_policy(std::string_view name_or_path);
/// `origin` is the file or preset named in errors: file, line, column and remedy.
Policy parse_policy(std::string_view toml, const std::string& origin);
/// The policy that `sources` were recorded from (Policy::sources): what it extends is taken from there, whatever the
/// presets and files of that name say today.
Policy parse_policy(std::span<const PolicySource> sources);
ResolvedPolicy resolve(const Policy& policy, const SiteList& model);

}  // namespace macheps::policy
