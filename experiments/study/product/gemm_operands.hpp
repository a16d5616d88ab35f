// SPDX-License-Identifier: Apache-2.0
// Operands of a matrix product, rounded and scaled as libraries do it, and the rules that can take them.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/scaling/scaling.hpp"
#include "experiments/study/operands.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

/// Scaling of operands to the range of a format, by rules of emulation/scaling/rules.hpp.
enum class OperandScaling : std::uint8_t {
    none,      ///< values as drawn, rounded
    tensor,    ///< one scale per operand: largest finite / amax
    row,       ///< one scale per row of a and column of b
    deepgemm,  ///< one per 1 x 128 of a and 128 x 128 of b, for rules whose promotion applies scales
    mx32,      ///< a power of two per 32 terms, for machines with e8m0 scales
    nvfp4,     ///< e4m3 per 16 terms and one scale per operand, for machines with e4m3 scales
};
inline constexpr std::string_view scaling_names[] = {"none", "tensor", "row", "deepgemm", "mx32", "nvfp4"};
constexpr std::string_view to_string(OperandScaling scaling) {
    return scaling_names[static_cast<std::size_t>(scaling)];
}
std::optional<OperandScaling> find_scaling(std::string_view name);

struct FormatPair {
    Format a = fp32, b = fp32;
    bool operator==(const FormatPair&) const = default;
};

/// Returns the format of the scales of blocks: fp32 if there are none, or if no machine takes them.
Format scale_format_of(OperandScaling scaling);

/// The operands of one product.
struct GemmData {
    FormatPair formats{};
    Distribution distribution = Distribution::normal;
    OperandScaling scaling = OperandScaling::none;
    double scale = 1;
    std::int64_t seed = 0, m = 16, n = 16, k = 4096;
};

/// Returns whether the machine takes operands of these formats and can be chained, that is, its result is a valid
/// addend. An order of summation takes every format that fp32 holds.
bool takes(const Machine& machine, const FormatPair& formats);
/// Returns whether that is so for the rule's machine, and the machine or the promotion applies the scales.
bool takes(const MatmulRule& rule, const FormatPair& formats, OperandScaling scaling);
/// Returns the use by which emulation/matmul/rules.hpp judges a rule.
MatmulUse use_of(const FormatPair& formats, OperandScaling scaling, const Format& output);

/// One operand, rounded, with the decode scales that undo its scaling.
struct RoundedOperand {
    Tensor tensor{}, scale_memory{};
    std::vector<float> host{};     ///< the values of `tensor`
    OperandScales scales{};        ///< those of rows, columns or blocks, in scale_memory
    TensorScale scale{};           ///< that of the whole operand
    std::int64_t k_block = 0;      ///< number of terms that share a scale of `scales`; 0: there are none
    std::vector<float> factors{};  ///< those of `scales`, [outer, blocks]
};

/// Rounds the drawn a [m,k] or b [k,n] to its format, to nearest even and saturating.
RoundedOperand rounded_operand(Backend& backend, Operand which, const GemmData& data, const std::vector<float>& drawn);

}  // namespace macheps::study
