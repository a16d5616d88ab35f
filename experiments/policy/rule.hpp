// SPDX-License-Identifier: Apache-2.0
// One [[rule]] of a policy file, with the source positions that errors name. The parser creates it, and resolve()
// applies it.
#pragma once
#include "core/error.hpp"
#include "experiments/files/config/source_place.hpp"
#include "experiments/policy/layer_filter.hpp"
#include "experiments/policy/matmul_keys.hpp"
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::policy {

struct Policy::Rule {
    struct Pattern {
        std::string text;  ///< with a colon, it matches `site:slot` names
        files::SourcePlace at;
        bool has_slot() const { return text.find(':') != std::string::npos; }
    };
    struct SlotCast {
        std::string slot;  ///< such as `forward.a`; empty for the key `cast`: the rule's patterns then name the slots
        CastRule cast;
        files::SourcePlace at;
    };
    /// The matmul keys of one table of a policy rule. A key that names a machine or a library rule first resets the
    /// matmul's rule. The other keys change single options of the existing rule.
    struct MatmulSetting {
        struct KeyValue {
            const MatmulKey* key;
            std::int64_t value;  ///< in the form that MatmulKey::apply takes
        };
        std::string matmul;  ///< `forward`
        std::vector<KeyValue> keys;
        files::SourcePlace at;

        bool changes_rule() const;
        /// Returns whether the setting applies only to sites that may have a bias.
        bool needs_bias() const { return !changes_rule(); }
        /// Applies this setting to `choice`.
        void apply_to(MatmulChoice& choice) const;
    };

    std::string source;  ///< name of a preset or path of a file
    bool from_preset = false;
    int number = 0;  ///< number in its file, counted from 1
    files::SourcePlace at;
    std::string model;  ///< kind of model to which the rule is limited; empty: all models
    bool about_parameters = false;
    std::vector<Pattern> patterns;
    std::string recipe{};  ///< the value of the key `recipe`, such as `te-block:stochastic`; empty if there is none
    /// If the rule has a recipe, the recipe's casts come first. A later cast for the same slot replaces an earlier one.
    std::vector<SlotCast> casts;
    std::vector<MatmulSetting> matmuls;
    bool gathers_codes = false;  ///< FSDP gathers the weights of these linears as fp8 codes
    LayerChoice layers;          ///< selects matching linears to which the rule does not apply

    /// Returns whether some operand is cast to 8 bits or fewer.
    bool is_low() const;
    /// Returns a text such as "preset amp-bf16, rule 3".
    std::string origin() const;
    /// Returns a text such as "my.toml:12:5 (rule 3)".
    std::string where(files::SourcePlace place) const;
};

/// Reads a cast such as "bf16", "e4m3fn/tensor", "bf16:stochastic" or "fp16:saturate". The text has a format, then
/// optionally a granularity (`/tensor`, `/1x128`: a row of `granularities`), then words after colons: a rounding mode,
/// saturate or nonsaturate, a scale rule (a row of `scale_rules`), random_bits=N, history=N, margin=N, max or
/// most_recent, via=FORMAT, hadamard. A cast with a scale saturates unless the text says nonsaturate. Throws Error
/// naming `where`.
CastRule parse_cast(std::string_view text, const std::string& where);

/// Throws Error if the scale rule does not support the granularity, if the format cannot have such scales, if `via` or
/// `hadamard` is set without a scale, or if an option of the history is set for a scale rule without a history.
void check_scaling(const CastRule& cast, const std::string& where);

/// Returns whether a cast to the format is allowed. Returns false for fp64, because nothing is computed in fp64, and
/// for the formats of scales, because they have neither a sign nor a zero.
bool can_hold_values(const Format& format);

// Functions that parse the parts of a cast that is written as a TOML table. If a name is unknown, they throw Error with
// the nearest known name.
Format parse_value_format(std::string_view name, const std::string& where);
Round parse_round(std::string_view name, const std::string& where);
Overflow parse_overflow(std::string_view name, const std::string& where);
const Granularity* parse_granularity(std::string_view name, const std::string& where);
const ScaleRule* parse_scale_rule(std::string_view name, const std::string& where);
AmaxChoice parse_amax_choice(std::string_view name, const std::string& where);
int check_random_bits(std::int64_t bits, const std::string& where);

}  // namespace macheps::policy
