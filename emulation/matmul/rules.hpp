// SPDX-License-Identifier: Apache-2.0
// Named MatmulRules. Each rule describes how a kernel of a library computes its output from the results of
// instructions. The functions at the end of this file reject impossible rules and report unverified properties of a
// rule.
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
    /// `rule.machine` is null if the kernel runs on many machines. `rule.slices` is 0 if the number of slices is chosen
    /// at launch. In both cases, the user of the rule sets the value.
    MatmulRule rule{};
    /// `hardware`: the rule reproduces outputs of the library on hardware. `published`: the library's source or manual
    /// documents the rule. `inferred`: others observed or reconstructed the rule, and it is unverified.
    Evidence evidence = Evidence::published;
    std::string_view source{}, summary{};
    bool takes_interval = false;  ///< the user of the rule may choose the promotion interval
    // Only for CPU libraries: the versions that were observed, the sizes or CPUs for which the rule holds, and the
    // settings on which the results depend.
    std::string_view versions{}, valid{}, depends_on{};
    /// Returns whether `valid` includes products [m, k] x [k, n]. If null, `valid` includes all products with more than
    /// 10^6 multiply-adds.
    bool (*claims)(std::int64_t m, std::int64_t n, std::int64_t k) = nullptr;
};

std::span<const NamedMatmulRule> all_matmul_rules();
/// Returns the rule of that name, or nullptr.
const NamedMatmulRule* find_matmul_rule(std::string_view name);

// Names of the enumerators of Promotion, SliceJoin and ScaleOrder, in the order of their values.
inline constexpr std::array<std::string_view, 4> promotion_names{"none", "add", "fma_joint", "fma_left"};
inline constexpr std::array<std::string_view, 4> slice_join_names{"workspace", "rounded_workspace", "serial",
                                                                  "stream_k"};
inline constexpr std::array<std::string_view, 3> scale_order_names{"joint", "a_first", "b_first"};

constexpr std::string_view to_string(Promotion p) { return promotion_names[static_cast<std::size_t>(p)]; }
constexpr std::string_view to_string(SliceJoin j) { return slice_join_names[static_cast<std::size_t>(j)]; }
constexpr std::string_view to_string(ScaleOrder o) { return scale_order_names[static_cast<std::size_t>(o)]; }

/// Returns a text such as "sm90.wgmma.fp8" or "sm90.wgmma.fp8, promote add 128, split_k 4 serial, scale_order a_first".
std::string to_string(const MatmulRule& rule);

/// Returns whether the machine is an order of summation (`fp32.chain`, `exact`) rather than a model of an instruction.
constexpr bool is_order_of_summation(const Machine& machine) { return machine.instruction.empty(); }
/// Returns whether the machine accepts operands whose values are numbers of the format `grid`. Machines for tf32 or
/// fp32, including the orders of summation, read fp32 words and therefore accept any values.
constexpr bool reads(const Machine& machine, const Format& grid) {
    return machine.operands.contains(grid) || machine.operands.contains(tf32) || machine.operands.contains(fp32);
}
/// Returns the format in which the machine decodes values of the format `grid`. A tf32 machine drops the low 13 bits of
/// fp32 words.
constexpr Format decoded_format(const Machine& machine, const Format& grid) {
    if (machine.operands.contains(grid)) return grid;
    return machine.operands.contains(tf32) && !machine.operands.contains(fp32) ? tf32 : fp32;
}
/// Returns whether the join rounds partial sums to the output's format. If it does, the matmul itself has to apply the
/// cast.
constexpr bool rounds_slices(const MatmulRule& rule) {
    return rule.slices > 1 && (rule.join == SliceJoin::serial || rule.join == SliceJoin::rounded_workspace);
}
/// Returns a list such as "e4m3fn, e5m2".
std::string operand_names(const Machine& machine);

/// Layout of the scales of an operand.
struct ScaleLayout {
    enum class Kind : std::uint8_t {
        none,
        tensor,  ///< one scale for the whole operand, which is a factor of Matmul::out_scale
        outer,   ///< one per row of a or column of b
        blocks,  ///< scales that change along k
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
    Format a = fp32, b = fp32;  ///< formats that contain the values of the operands
    ScaleLayout a_scales{}, b_scales{};
    bool has_bias = false;
    bool bias_after = false;  ///< the output is rounded both before and after the bias is added
    Cast out_cast{};
    bool has_addend = false;
};

/// Returns the reason why sums of this rule cannot begin with an addend, or an empty text if they can.
std::string why_no_addend(const MatmulRule& rule);

/// Throws Error if the rule is impossible for this use:
/// - the rule has no machine,
/// - the machine cannot read the operands,
/// - the formats of C and D differ, so the next instruction cannot add to the result,
/// - a promotion interval or a slice ends in the middle of an instruction,
/// - no step of the rule would apply the block scales,
/// - two roundings would need the same random word, or
/// - the sums cannot begin with the addend.
void require_possible(const MatmulRule& rule, const MatmulUse& use, std::string_view where);
/// Throws Error if the rule of a matmul that is about to run is impossible.
void require_possible(const Matmul& args);

/// Returns the rule. If the scales of the operands change along k and nothing in the rule applies them yet, adds a
/// promotion by fma_joint: each partial sum is multiplied by the scales of its terms.
MatmulRule with_block_scales(MatmulRule rule, const ScaleLayout& a, const ScaleLayout& b);

/// Calls require_possible. Then returns the reasons why the results are unverified, or an empty text if the machine and
/// every option have a source. `named` is the named rule on which `rule` is based, or null. If it is inferred, this is
/// one of the reasons. If it has takes_interval, its source covers every promotion interval.
std::string check_matmul_rule(const MatmulRule& rule, const MatmulUse& use, std::string_view where,
                              const NamedMatmulRule* named = nullptr);

}  // namespace macheps
