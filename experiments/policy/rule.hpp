// SPDX-License-Identifier: Apache-2.0
// One [[rule]] of a policy file, with the places that errors name. Both the parser and resolve() use it.
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
        std::string text;  ///< if it has a colon, a pattern of `site:slot` names
        files::SourcePlace at;
        bool has_slot() const { return text.find(':') != std::string::npos; }
    };
    struct SlotCast {
        std::string slot;  ///< `forward.a`; empty for the `cast` of patterns that carry a slot
        CastRule cast;
        files::SourcePlace at;
    };
    /// The matmul keys of one table. A machine or a named rule resets the matmul's rule. Other options change the
    /// existing rule.
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
    std::string model;  ///< the only kind of model that the rule is for; empty: all
    bool about_parameters = false;
    std::vector<Pattern> patterns;
    std::vector<SlotCast> casts;
    std::vector<MatmulSetting> matmuls;
    bool gathers_codes = false;  ///< FSDP gathers the weights of these linears as fp8 codes
    LayerChoice layers;          ///< selects the matching linears that are left as they were

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

/// Throws Error if the scale rule does not make scales of the granularity's kind, if the format cannot have such
/// scales, or if an option of scaling is set on a cast without a scale or history.
void check_scaling(const CastRule& cast, const std::string& where);

/// Returns false for fp64, because nothing is computed in fp64, and for formats of scales, which have neither sign nor
/// zero.
bool can_hold_values(const Format& format);

/// Readers of the parts of a cast, for its table form. If a name is unknown, they throw Error with the nearest name.
Format parse_value_format(std::string_view name, const std::string& where);
Round parse_round(std::string_view name, const std::string& where);
Overflow parse_overflow(std::string_view name, const std::string& where);
const Granularity* parse_granularity(std::string_view name, const std::string& where);
const ScaleRule* parse_scale_rule(std::string_view name, const std::string& where);
AmaxChoice parse_amax_choice(std::string_view name, const std::string& where);
int check_random_bits(std::int64_t bits, const std::string& where);

}  // namespace macheps::policy
