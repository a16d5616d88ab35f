// SPDX-License-Identifier: Apache-2.0
// Named MatmulRules: the work of a library's kernel between its instructions and its output. Also finds impossible and
// unverified properties of a rule.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/scaling/rules.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace macheps {

struct NamedMatmulRule {
    std::string_view name;  ///< `deepgemm.sm90.1d2d`
    /// `machine` is null if the kernel serves many machines; the matmul then names one. `slices` is 0 if the launch
    /// decides.
    MatmulRule rule{};
    /// `hardware`: outputs of the library on the hardware are reproduced. `published`: the library's source or manual
    /// says so. `inferred`: observed or reconstructed by others, unverified.
    Evidence evidence = Evidence::published;
    std::string_view source{}, summary{};
    bool takes_interval = false;  ///< the caller may choose how often it promotes
    // Only for CPU libraries: the versions that were observed, the range where the rule holds, and what its bits depend
    // on.
    std::string_view versions{}, valid{}, depends_on{};
    /// Whether `valid` includes products [m, k] x [k, n]; null: all with more than 10^6 multiply-adds.
    bool (*claims)(std::int64_t m, std::int64_t n, std::int64_t k) = nullptr;
};

std::span<const NamedMatmulRule> all_matmul_rules();
/// Returns the rule of that name, or nullptr.
const NamedMatmulRule* find_matmul_rule(std::string_view name);

// The options by name, in the order of their enumerators.
inline constexpr std::array<std::string_view, 4> promotion_names{"none", "add", "fma_joint", "fma_left"};
inline constexpr std::array<std::string_view, 4> slice_join_names{"workspace", "rounded_workspace", "serial",
                                                                  "stream_k"};
inline constexpr std::array<std::string_view, 3> scale_order_names{"joint", "a_first", "b_first"};

constexpr std::string_view to_string(Promotion p) { return promotion_names[static_cast<std::size_t>(p)]; }
constexpr std::string_view to_string(SliceJoin j) { return slice_join_names[static_cast<std::size_t>(j)]; }
constexpr std::string_view to_string(ScaleOrder o) { return scale_order_names[static_cast<std::size_t>(o)]; }

/// Returns a text such as "sm90.wgmma.fp8" or "sm90.wgmma.fp8, promote add 128, split_k 4 serial, scale_order a_first".
std::string to_string(const MatmulRule& rule);

/// Returns whether the machine is an order of summation (`fp32.chain`, `exact`), which no instruction computes.
constexpr bool is_order_of_summation(const Machine& machine) { return machine.instruction.empty(); }
/// Returns whether the machine takes operands whose values lie on `grid`. Machines for tf32 and fp32 read fp32 words,
/// whatever values they hold; so do the orders of summation.
constexpr bool reads(const Machine& machine, const Format& grid) {
    return machine.operands.contains(grid) || machine.operands.contains(tf32) || machine.operands.contains(fp32);
}
/// Returns the format in which the machine decodes values of `grid`. A tf32 machine cuts the low 13 bits of fp32 words.
constexpr Format decoded_format(const Machine& machine, const Format& grid) {
    if (machine.operands.contains(grid)) return grid;
    return machine.operands.contains(tf32) && !machine.operands.contains(fp32) ? tf32 : fp32;
}
/// Returns whether the join rounds partial sums to the output's format. If it does, the cast belongs to the matmul
/// itself.
constexpr bool rounds_slices(const MatmulRule& rule) {
    return rule.slices > 1 && (rule.join == SliceJoin::serial || rule.join == SliceJoin::rounded_workspace);
}
/// Returns a list such as "e4m3fn, e5m2".
std::string operand_names(const Machine& machine);

/// Layout of the scales of an operand.
struct ScaleLayout {
    enum class Kind : std::uint8_t {
        none,
        tensor,  ///< one factor, in Matmul::out_scale
        outer,   ///< one per row of a or column of b
        blocks,  ///< they change along k
    };
    Kind kind = Kind::none;
    std::int64_t k_block = 0;  ///< blocks: terms that share a scale
    Format format = fp32;      ///< blocks: format of the scales

    constexpr bool operator==(const ScaleLayout&) const = default;
};

/// Returns the layout of the scales of an operand with that granularity.
constexpr ScaleLayout scale_layout(const Granularity& granularity) {
    if (!granularity.is_scaled()) return {};
    if (granularity.is_axis_free()) return {.kind = ScaleLayout::Kind::tensor};
    if (granularity.k == 0) return {.kind = ScaleLayout::Kind::outer};
    return {.kind = ScaleLayout::Kind::blocks, .k_block = granularity.k, .format = scale_format(granularity.kind)};
}

/// Properties of the matmul that a rule is used for.
struct MatmulUse {
    Format a = fp32, b = fp32;  ///< grids of the operands
    ScaleLayout a_scales{}, b_scales{};
    bool has_bias = false;
    bool bias_after = false;  ///< the output is rounded before the bias is added, and again after
    Cast out_cast{};
    bool has_addend = false;
};

/// Returns why sums of this rule cannot begin with an addend, or an empty text if they can.
std::string why_no_addend(const MatmulRule& rule);

/// Throws Error if the rule is impossible for this use: there is no machine; the machine cannot read the operands; the
/// result of an instruction is not the addend format of the next; an interval does not end with an instruction; nothing
/// applies the block scales; a random word would be used for two roundings; or no sum accepts the addend.
void require_possible(const MatmulRule& rule, const MatmulUse& use, std::string_view where);
/// Does the same for a matmul that is about to run.
void require_possible(const Matmul& args);

/// Returns the rule. If the scales of the operands change along k and nothing in the rule applies them yet, adds a
/// promotion by fma_joint: each partial sum is multiplied by the scales of its terms.
MatmulRule with_block_scales(MatmulRule rule, const ScaleLayout& a, const ScaleLayout& b);

/// Calls require_possible, then returns why the bits are unverified, or an empty text if the machine and every option
/// have a source. If the rule is `named`, that rule's source covers its options.
std::string check_matmul_rule(const MatmulRule& rule, const MatmulUse& use, std::string_view where,
                              const NamedMatmulRule* named = nullptr);

}  // namespace macheps
