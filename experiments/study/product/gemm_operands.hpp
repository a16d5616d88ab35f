// SPDX-License-Identifier: Apache-2.0
// Operands of a matrix product, rounded and scaled in the way that libraries use, and checks whether a matmul rule
// accepts them.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "emulation/scaling/scaling.hpp"
#include "experiments/study/operands.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace macheps::study {

/// Ways to scale the operands to the range of their format, with the scale rules of emulation/scaling/rules.hpp.
enum class OperandScaling : std::uint8_t {
    none,      ///< values as drawn, rounded
    tensor,    ///< one scale per operand: largest finite / amax
    row,       ///< one scale per row of a and one per column of b
    deepgemm,  ///< one scale per 1 x 128 of a and per 128 x 128 of b, for rules whose promotion applies scales
    mx32,      ///< one power of two per 32 terms, for machines with e8m0 scales
    nvfp4,     ///< one e4m3 scale per 16 terms and one scale per operand, for machines with e4m3 scales
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

/// Returns the format of the block scales that a machine applies, or fp32 if machines do not apply the scales.
Format scale_format_of(OperandScaling scaling);

/// The operands of one product.
struct GemmData {
    FormatPair formats{};
    Distribution distribution = Distribution::normal;
    OperandScaling scaling = OperandScaling::none;
    double scale = 1;
    std::int64_t seed = 0, m = 16, n = 16, k = 4096;
};

/// Returns whether the machine accepts operands of these formats, and also accepts its own result as an addend. An
/// order of summation accepts operands of every format except fp64.
bool takes(const Machine& machine, const FormatPair& formats);
/// Returns whether the rule's machine accepts the formats, and the machine or the promotion can apply the scales.
bool takes(const MatmulRule& rule, const FormatPair& formats, OperandScaling scaling);
/// Returns the properties of the product that emulation/matmul/rules.hpp needs to check a rule.
MatmulUse use_of(const FormatPair& formats, OperandScaling scaling, const Format& output);

/// One rounded operand and the decode scales that undo its scaling.
struct RoundedOperand {
    Tensor tensor{}, scale_memory{};
    std::vector<float> host{};     ///< the values of `tensor`
    OperandScales scales{};        ///< decode scales of rows, columns or blocks, stored in scale_memory
    TensorScale scale{};           ///< decode scale of the whole operand
    std::int64_t k_block = 0;      ///< number of terms that share a scale of `scales`; 0: no such scales
    std::vector<float> factors{};  ///< the values of `scales`, [outer, blocks]
};

/// Scales the drawn operand, a [m,k] or b [k,n], and rounds it to its format, to nearest even with saturation.
RoundedOperand rounded_operand(Backend& backend, Operand which, const GemmData& data, const std::vector<float>& drawn);

}  // namespace macheps::study
