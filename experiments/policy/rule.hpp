// SPDX-License-Identifier: Apache-2.0
// One [[rule]] of a policy file, with the places that errors name. Shared by the parser and resolve().
#pragma once
#include "core/error.hpp"
#include "experiments/policy/policy.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A place in a policy file or preset.
struct SourcePlace {
    std::uint32_t line = 0, column = 0;
};

struct Policy::Rule {
    struct Pattern {
        std::string text;  ///< with a colon: a pattern of `site:slot` names
        SourcePlace at;
        bool has_slot() const { return text.find(':') != std::string::npos; }
    };
    struct SlotCast {
        std::string slot;  ///< `forward.a`; empty for the `cast` of patterns that carry a slot
        CastRule cast;
        SourcePlace at;
    };
    /// What one table says of its matmul. A machine or a named rule begins anew; options alone change what was there.
    struct MatmulSetting {
        std::string matmul;  ///< `forward`
        const Machine* machine = nullptr;
        const NamedMatmulRule* named = nullptr;
        std::optional<bool> bias_after;
        std::optional<Promotion> promotion;
        std::optional<int> promote;  ///< interval; 0: no promotion
        std::optional<int> split_k, slice_granule;
        std::optional<SliceJoin> join;
        std::optional<ScaleOrder> scale_order;
        SourcePlace at;

        bool changes_rule() const {
            return machine != nullptr || named != nullptr || promotion || promote || split_k || slice_granule || join ||
                   scale_order;
        }
        /// `choice` with what this setting says.
        void apply_to(MatmulChoice& choice) const;
    };

    std::string source;  ///< preset's name or file's path
    bool from_preset = false;
    int number = 0;  ///< counts from 1 in its file
    SourcePlace at;
    std::string model;  ///< the rule is for this kind of model only; empty: for all
    bool about_parameters = false;
    std::vector<Pattern> patterns;
    std::vector<SlotCast> casts;
    std::vector<MatmulSetting> matmuls;
    int multiple_of = 0;

    /// "preset amp-bf16, rule 3"
    std::string origin() const;
    /// "my.toml:12:5 (rule 3)"
    std::string where(SourcePlace place) const;
};

/// "did you mean 'x'? one of x, y, z", or without the question when no name is near.
std::string suggestion(std::string_view name, const std::vector<std::string_view>& names);

/// Reads "bf16", "e4m3fn/tensor", "bf16:stochastic", "fp16:saturate": a format, then a granularity (`/tensor`, `/1x128`:
/// a row of `granularities`), then words after colons: a rounding mode, saturate or nonsaturate, a scale rule (a row of
/// `scale_rules`), random_bits=N. A cast with a scale saturates unless told not to. Throws Error naming `where`.
CastRule parse_cast(std::string_view text, const std::string& where);

/// Throws Error where the scale rule makes no scales of the granularity's kind, or the format cannot have them.
void check_scaling(const CastRule& cast, const std::string& where);

/// The parts of a cast by name, for the table form. Each throws Error with the nearest name.
Format parse_value_format(std::string_view name, const std::string& where);
Round parse_round(std::string_view name, const std::string& where);
Overflow parse_overflow(std::string_view name, const std::string& where);
const Granularity* parse_granularity(std::string_view name, const std::string& where);
const ScaleRule* parse_scale_rule(std::string_view name, const std::string& where);
int check_random_bits(std::int64_t bits, const std::string& where);

}  // namespace macheps
