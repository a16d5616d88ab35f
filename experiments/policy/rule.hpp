// SPDX-License-Identifier: Apache-2.0
// One [[rule]] of a policy file, with the places that errors name. Shared by the parser and resolve().
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
        std::string text;  ///< with a colon: a pattern of `site:slot` names
        files::SourcePlace at;
        bool has_slot() const { return text.find(':') != std::string::npos; }
    };
    struct SlotCast {
        std::string slot;  ///< `forward.a`; empty for the `cast` of patterns that carry a slot
        CastRule cast;
        files::SourcePlace at;
    };
    /// What one table says of its matmul. A machine or a named rule begins anew; options alone change what was there.
    struct MatmulSetting {
        struct Said {
            const MatmulKey* key;
            std::int64_t value;  ///< as MatmulKey::apply takes it
        };
        std::string matmul;  ///< `forward`
        std::vector<Said> said;
        files::SourcePlace at;

        bool changes_rule() const;
        /// True of what is said of sites with a bias only.
        bool needs_bias() const { return !changes_rule(); }
        /// `choice` with what this setting says.
        void apply_to(MatmulChoice& choice) const;
    };

    std::string source;  ///< preset's name or file's path
    bool from_preset = false;
    int number = 0;  ///< counts from 1 in its file
    files::SourcePlace at;
    std::string model;  ///< the rule is for this kind of model only; empty: for all
    bool about_parameters = false;
    std::vector<Pattern> patterns;
    std::vector<SlotCast> casts;
    std::vector<MatmulSetting> matmuls;
    bool gathers_codes = false;  ///< FSDP gathers the weights of these linears as fp8 codes
    LayerChoice layers;          ///< which of the linears that the patterns match are left as they were

    /// True where some operand is cast to 8 bits or fewer.
    bool is_low() const;
    /// "preset amp-bf16, rule 3"
    std::string origin() const;
    /// "my.toml:12:5 (rule 3)"
    std::string where(files::SourcePlace place) const;
};

/// Reads "bf16", "e4m3fn/tensor", "bf16:stochastic", "fp16:saturate": a format, then a granularity (`/tensor`, `/1x128`:
/// a row of `granularities`), then words after colons: a rounding mode, saturate or nonsaturate, a scale rule (a row of
/// `scale_rules`), random_bits=N, history=N, margin=N, max or most_recent, via=FORMAT, hadamard. A cast with a scale
/// saturates unless told not to. Throws Error naming `where`.
CastRule parse_cast(std::string_view text, const std::string& where);

/// Throws Error where the scale rule makes no scales of the granularity's kind, or the format cannot have them, and where
/// something is said of a scale that there is not.
void check_scaling(const CastRule& cast, const std::string& where);

/// False for fp64, in which nothing is computed, and for formats of scales, which have neither sign nor zero.
bool can_hold_values(const Format& format);

/// The parts of a cast by name, for the table form. Each throws Error with the nearest name.
Format parse_value_format(std::string_view name, const std::string& where);
Round parse_round(std::string_view name, const std::string& where);
Overflow parse_overflow(std::string_view name, const std::string& where);
const Granularity* parse_granularity(std::string_view name, const std::string& where);
const ScaleRule* parse_scale_rule(std::string_view name, const std::string& where);
AmaxChoice parse_amax_choice(std::string_view name, const std::string& where);
int check_random_bits(std::int64_t bits, const std::string& where);

}  // namespace macheps::policy
