// SPDX-License-Identifier: Apache-2.0
// Two tables that define how operands are scaled. A granularity defines which elements share a scale. A scale rule
// defines how the scale is computed from the largest magnitude of these elements. Policies refer to the rows by name.
// Host only. To add a scale rule, write its function in emulation/scaling/functions.hpp and its row here. To add a
// granularity, write only its row.
#pragma once
#include "emulation/scaling/functions.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace macheps {

/// Kind of scale that is stored for a group of elements.
enum class ScaleKind : std::uint8_t {
    none,   ///< no scales
    fp32,   ///< an fp32 number
    e8m0,   ///< a power of two, one byte
    nvfp4,  ///< an e4m3fn number, and one fp32 scale for the whole tensor; the elements are e2m1fn
};

/// Returns the format of a group's stored scale.
constexpr Format scale_format(ScaleKind kind) {
    return kind == ScaleKind::e8m0 ? e8m0fnu : kind == ScaleKind::nvfp4 ? e4m3fn : fp32;
}

/// Size of the blocks of elements that share a scale. A block extends along the operand's outer index (rows of a or
/// columns of b) and along the contraction index k.
struct Granularity {
    std::string_view name;          ///< `1x128`: the word after the slash in a policy
    std::int64_t outer = 0, k = 0;  ///< size of the block along each index; 0: the whole range
    ScaleKind kind = ScaleKind::fp32;
    std::string_view usual_rule;  ///< name of the default scale rule
    std::string_view operand{};   ///< `a` or `b` if only this operand may use the granularity
    std::string_view source, summary;

    constexpr bool is_scaled() const { return kind != ScaleKind::none; }
    /// Returns whether one scale covers the whole operand, so that it is valid for a contraction along either axis.
    constexpr bool is_axis_free() const { return outer == 0 && k == 0; }
};

/// All granularities. A cast points to one of these rows.
inline constexpr Granularity granularities[] = {
    {.name = "none",
     .kind = ScaleKind::none,
     .usual_rule = "ao_fp8",
     .source = "IEEE 754-2019",
     .summary = "values are cast without a scale"},
    {.name = "tensor",
     .usual_rule = "ao_fp8",
     .source = "pytorch/ao float8 tensorwise; TransformerEngine Float8CurrentScaling",
     .summary = "one scale for the whole tensor"},
    {.name = "row",
     .outer = 1,
     .usual_rule = "ao_fp8_power",
     .operand = "a",
     .source = "pytorch/ao float8 rowwise",
     .summary = "one scale for each row of operand a, over all of the contraction"},
    {.name = "column",
     .outer = 1,
     .usual_rule = "ao_fp8_power",
     .operand = "b",
     .source = "pytorch/ao float8 rowwise",
     .summary = "one scale for each column of operand b, over all of the contraction"},
    {.name = "1x128",
     .outer = 1,
     .k = 128,
     .usual_rule = "te_block",
     .source = "TransformerEngine Float8BlockScaling; deepseek-ai/DeepGEMM",
     .summary = "one scale for each 128 consecutive terms of the contraction"},
    {.name = "128x128",
     .outer = 128,
     .k = 128,
     .usual_rule = "te_block",
     .source = "TransformerEngine Float8BlockScaling; deepseek-ai/DeepGEMM",
     .summary = "one scale for each square of 128 rows or columns and 128 terms of the contraction"},
    {.name = "mx32",
     .outer = 1,
     .k = 32,
     .kind = ScaleKind::e8m0,
     .usual_rule = "te_mxfp8",
     .source = "OCP MX 1.0",
     .summary = "a power of two for each 32 consecutive terms of the contraction"},
    {.name = "mx32_32x32",
     .outer = 32,
     .k = 32,
     .kind = ScaleKind::e8m0,
     .usual_rule = "te_mxfp8",
     .source = "TransformerEngine MXFP8BlockScaling, enable_2d_quantization, weights",
     .summary = "a power of two for each square of 32 rows or columns and 32 terms of the contraction"},
    {.name = "nvfp4",
     .outer = 1,
     .k = 16,
     .kind = ScaleKind::nvfp4,
     .usual_rule = "te_nvfp4",
     .source = "TransformerEngine NVFP4BlockScaling; pytorch/ao mx_formats",
     .summary = "an e4m3fn number for each 16 consecutive terms of the contraction, and one fp32 scale for the tensor"},
    {.name = "nvfp4_16x16",
     .outer = 16,
     .k = 16,
     .kind = ScaleKind::nvfp4,
     .usual_rule = "te_nvfp4",
     .source = "TransformerEngine NVFP4BlockScaling, weights",
     .summary = "an e4m3fn number for each square of 16 x 16 elements, and one fp32 scale for the tensor"},
};

namespace definition {

/// Scales of a group. Elements are multiplied by `encode` before the cast, and codes by `decode` to get the values
/// back.
struct GroupScale {
    float encode = 1, decode = 1;
};

/// Input of a scale rule.
struct ScaleGroup {
    float amax;  ///< the largest magnitude of the group
    float max;   ///< the largest finite value of the elements' format
    Format element;
    GroupScale tensor{};  ///< scale of the tensor, only for ScaleKind::nvfp4
};

}  // namespace definition

struct ScaleRule {
    std::string_view name;  ///< `te_mxfp8`: the word after the colon in a policy
    ScaleKind kind = ScaleKind::fp32;
    /// Whether amax ignores NaN, as fmaxf does. A NaN element then becomes a NaN code without affecting the rest of its
    /// group.
    bool ignores_nan = false;
    /// Returns the scales of a group. For a rule with a history, these are the scales of the first tensor.
    definition::GroupScale (*group)(const definition::ScaleGroup&) = nullptr;
    definition::GroupScale (*tensor)(float amax) = nullptr;  ///< scale of the tensor, only for ScaleKind::nvfp4
    /// Only for ScaleKind::nvfp4: returns the factor of a product of two tensors that both have this rule. If null, the
    /// factor is the product of their decode scales.
    float (*product)(float amax_a, float amax_b) = nullptr;
    /// Only for a rule with a history (emulation/scaling/history.hpp): returns the next encode scale. `amax` is the
    /// largest magnitude of earlier tensors, `old` is the previous encode scale.
    float (*next)(float amax, float max, int margin, float old) = nullptr;
    /// Only for a rule with a history: whether every step adds its amax to the history, even if it is 0 or NaN. NaN
    /// then counts as larger than any number. If false, a step with only zeros adds nothing, and NaN is ignored.
    bool enters_all = false;
    std::string_view source, summary;

    /// Returns whether the scale comes from earlier tensors. The caller must then keep a history from tensor to tensor.
    constexpr bool has_history() const { return next != nullptr; }
};

namespace scale_row {

using namespace scale_function;
using definition::GroupScale;
using Group = definition::ScaleGroup;

constexpr GroupScale from_encode(float s) { return {s, 1.0f / s}; }
constexpr GroupScale from_decode(float d) { return {1.0f / d, d}; }
constexpr GroupScale from_byte(std::uint32_t byte) { return {e8m0_encode(byte), e8m0_decode(byte)}; }
constexpr GroupScale from_block(BlockScale b) { return {b.encode, b.block}; }

inline constexpr std::string_view ao_float8 = "pytorch/ao torchao/float8/float8_utils.py";
inline constexpr std::string_view ao_mx = "pytorch/ao torchao/prototype/mx_formats/mx_tensor.py";
inline constexpr std::string_view te_recipe = "NVIDIA/TransformerEngine common/recipe/recipe_common.cuh";
inline constexpr std::string_view deepgemm_math = "deepseek-ai/DeepGEMM deep_gemm/utils/math.py";

constexpr GroupScale unscaled(const Group&) { return {1, 1}; }

inline constexpr ScaleRule rules[] = {
    {.name = "ao_fp8",
     .group = [](const Group& g) { return from_encode(ao_fp8(g.amax, g.max)); },
     .source = ao_float8,
     .summary = "largest finite value / max(amax, 1e-12), divided in fp64 and rounded once to fp32"},
    {.name = "ao_fp8_power",
     .group = [](const Group& g) { return from_encode(ao_fp8(g.amax, g.max, true)); },
     .source = ao_float8,
     .summary = "like ao_fp8, but rounded down to a power of two with an fp32 logarithm, which rounds up just below a "
                "power of two"},
    {.name = "te_delayed",
     .ignores_nan = true,
     .group = unscaled,
     .next = te_delayed,
     .source = "NVIDIA/TransformerEngine common/recipe/delayed_scaling.cu",
     .summary = "(largest finite value / 2^margin) / amax of earlier tensors; 1 at first, and unchanged if amax is 0, "
                "infinite or NaN"},
    {.name = "te_delayed_unfused",
     .ignores_nan = true,
     .group = unscaled,
     .next = te_delayed_unfused,
     .enters_all = true,
     .source = "NVIDIA/TransformerEngine pytorch/quantization.py, _default_sf_compute",
     .summary =
         "like te_delayed, but with the fp32 reciprocal of amax; steps with amax 0 also enter the history, and a NaN "
         "freezes the scale as long as it is in the history"},
    {.name = "te_current",
     .ignores_nan = true,
     .group = [](const Group& g) { return from_encode(te_current(g.amax, g.max)); },
     .source = te_recipe,
     .summary = "largest finite value / amax in fp32; 1 if amax is 0 or infinite"},
    {.name = "te_block",
     .ignores_nan = true,
     .group = [](const Group& g) { return from_encode(te_current(g.amax, g.max, 0, true)); },
     .source = te_recipe,
     .summary = "like te_current, but rounded down to a power of two; the default for blocks"},
    {.name = "te_block_fp32",
     .ignores_nan = true,
     .group = [](const Group& g) { return from_encode(te_current(g.amax, g.max)); },
     .source = te_recipe,
     .summary = "like te_current, for blocks whose scales do not have to be powers of two"},
    {.name = "deepgemm",
     .group = [](const Group& g) { return from_decode(deepgemm(g.amax, g.max)); },
     .source = deepgemm_math,
     .summary = "values are multiplied by the fp32 reciprocal of max(amax, 1e-4) / largest finite value"},
    {.name = "deepgemm_power",
     .group = [](const Group& g) { return from_decode(deepgemm(g.amax, g.max, 1e-4f, true)); },
     .source = deepgemm_math,
     .summary = "like deepgemm, with the divisor rounded up to a power of two; 2^127 if amax is infinite or NaN"},
    {.name = "te_mxfp8",
     .kind = ScaleKind::e8m0,
     .ignores_nan = true,
     .group = [](const Group& g) { return from_byte(te_mxfp8(g.amax, g.max)); },
     .source = "NVIDIA/TransformerEngine common/util/ptx_arch_spec.cuh, ptx.cuh",
     .summary = "amax / largest finite value, rounded up to a power of two, so that nothing saturates; at most 2^127"},
    {.name = "ao_rceil",
     .kind = ScaleKind::e8m0,
     .group = [](const Group& g) { return from_byte(ao_rceil(g.amax, g.max)); },
     .source = ao_mx,
     .summary = "like te_mxfp8, but a block with an infinity or a NaN has the scale NaN"},
    {.name = "ao_floor",
     .kind = ScaleKind::e8m0,
     .group = [](const Group& g) { return from_byte(ao_floor(g.amax, g.max)); },
     .source = "OCP MX 1.0 section 6.3; pytorch/ao torchao/prototype/mx_formats/mx_tensor.py",
     .summary = "2^(floor(log2 amax) - floor(log2 of the largest finite value)): the largest elements of a block may "
                "saturate"},
    {.name = "ao_ceil",
     .kind = ScaleKind::e8m0,
     .group = [](const Group& g) { return from_byte(ao_ceil(g.amax, g.max)); },
     .source = ao_mx,
     .summary = "2^(ceil(log2 amax) - floor(log2 of the largest finite value)): nothing saturates"},
    {.name = "ao_even",
     .kind = ScaleKind::e8m0,
     .group = [](const Group& g) { return from_byte(ao_even(g.amax, g.max, g.element.fraction_bits())); },
     .source = ao_mx,
     .summary = "like ao_floor, after rounding amax half up to the fraction bits of the elements"},
    {.name = "te_nvfp4",
     .kind = ScaleKind::nvfp4,
     .ignores_nan = true,
     .group = [](const Group& g) { return from_block(te_nvfp4_block(g.amax, g.tensor.encode)); },
     .tensor = [](float amax) { return from_encode(te_nvfp4_tensor(amax)); },
     .product = te_nvfp4_product,
     .source = "NVIDIA/TransformerEngine common/cast/nvfp4/core_nvfp4.cuh, common/recipe/nvfp4.cu",
     .summary =
         "maps the amax of the tensor to 6 x 448, and the amax of a block to 6; a block whose amax is far below the "
         "tensor's becomes 0"},
    {.name = "ao_nvfp4",
     .kind = ScaleKind::nvfp4,
     .group = [](const Group& g) { return from_block(ao_nvfp4_block(g.amax, g.tensor.decode)); },
     .tensor = [](float amax) { return from_decode(ao_nvfp4_tensor(amax)); },
     .source = "pytorch/ao torchao/prototype/mx_formats/nvfp4_tensor.py",
     .summary = "like te_nvfp4, with divisions instead of reciprocals, and no block scale below 2^-6"},
};

}  // namespace scale_row

/// All scale rules. A cast points to one of these rows.
inline constexpr const auto& scale_rules = scale_row::rules;

/// Returns the row of that name, or nullptr.
constexpr const Granularity* find_granularity(std::string_view name) {
    for (const Granularity& row : granularities) {
        if (row.name == name) return &row;
    }
    return nullptr;
}
constexpr const ScaleRule* find_scale_rule(std::string_view name) {
    for (const ScaleRule& row : scale_rules) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

/// Returns whether the rule can be used with the granularity: the rule must produce scales of the granularity's kind,
/// and a rule with a history requires one scale for the whole tensor.
constexpr bool fits(const ScaleRule& rule, const Granularity& granularity) {
    return rule.kind == granularity.kind && (!rule.has_history() || granularity.is_axis_free());
}

/// Returns the default scale rule of a granularity.
constexpr const ScaleRule* usual_rule(const Granularity& granularity) {
    return find_scale_rule(granularity.usual_rule);
}

/// Granularity of values without a scale.
inline constexpr const Granularity* no_scale = &granularities[0];
static_assert(!no_scale->is_scaled());

// Checks that names are unique and that every default rule exists and fits its granularity. The check does not compare
// pointers with null, because GCC 12 with -fsanitize=undefined rejects such a comparison in a constant expression.
static_assert([] {
    for (const Granularity& row : granularities) {
        const ScaleRule& usual = *usual_rule(row);
        if (find_granularity(row.name) != &row || usual.name != row.usual_rule) return false;
        if (row.is_scaled() && !fits(usual, row)) return false;
    }
    for (const ScaleRule& row : scale_rules) {
        if (find_scale_rule(row.name) != &row) return false;
    }
    return true;
}());

}  // namespace macheps
