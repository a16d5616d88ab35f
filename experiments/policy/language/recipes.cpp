// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/recipes.hpp"

#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace macheps::policy {

namespace {

// If a recipe has no cast for a slot, the slot keeps the cast of the surrounding policy. It is therefore this policy,
// and not the recipe, that decides how activations and gradients are rounded before the recipe's casts are applied, and
// how most outputs are rounded. Weight gradients are fp32 in the recipes of Transformer Engine, because Transformer
// Engine adds them to an fp32 buffer. torchao returns weight gradients in the type of the incoming gradient.
constexpr Recipe recipes[] = {
    {.name = "te-delayed",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/tensor:te_delayed", b = "e4m3fn/tensor:te_delayed" }
input_grad  = { a = "e5m2/tensor:te_delayed", b = "e4m3fn/tensor:te_delayed" }
weight_grad = { a = "e5m2/tensor:te_delayed", b = "e4m3fn/tensor:te_delayed", out = "fp32" })toml",
     .source = "NVIDIA/TransformerEngine common/recipe/__init__.py DelayedScaling, pytorch/module/linear.py",
     .summary = "e4m3fn, gradients e5m2, one scale per tensor from the amaxes of 1024 earlier steps; the bias is added "
                "before the single rounding"},
    {.name = "te-current",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/tensor:te_current", b = "e4m3fn/tensor:te_current" }
input_grad  = { a = "e5m2/tensor:te_current", b = "e4m3fn/tensor:te_current" }
weight_grad = { a = "e5m2/tensor:te_current", b = "e4m3fn/tensor:te_current", out = "fp32" })toml",
     .source = "NVIDIA/TransformerEngine common/recipe/__init__.py Float8CurrentScaling",
     .summary = "e4m3fn, gradients e5m2, one scale per tensor from the current tensor"},
    {.name = "te-block",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/1x128", b = "e4m3fn/128x128" }
input_grad  = { a = "e4m3fn/1x128", b = "e4m3fn/128x128" }
weight_grad = { a = "e4m3fn/1x128", b = "e4m3fn/1x128", out = "fp32" })toml",
     .source = "NVIDIA/TransformerEngine common/recipe/__init__.py Float8BlockScaling",
     .summary = "e4m3fn, a power of two for each 128 terms (weights: for each 128x128 block); both copies of a "
                "gradient are cast from the unrounded values"},
    {.name = "te-mxfp8",
     .multiple_of = 32,
     .rule = R"toml(forward     = { a = "e4m3fn/mx32", b = "e4m3fn/mx32" }
input_grad  = { a = "e4m3fn/mx32", b = "e4m3fn/mx32" }
weight_grad = { a = "e4m3fn/mx32", b = "e4m3fn/mx32", out = "fp32" })toml",
     .source = "NVIDIA/TransformerEngine common/recipe/__init__.py MXFP8BlockScaling",
     .summary = "e4m3fn, a power of two for each 32 terms, rounded up; both copies of a tensor are cast from the "
                "unrounded values"},
    {.name = "te-nvfp4",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e2m1fn/nvfp4", b = "e2m1fn/nvfp4_16x16" }
input_grad  = { a = "e2m1fn/nvfp4:stochastic:random_bits=8", b = "e2m1fn/nvfp4_16x16" }
weight_grad = { a = "e2m1fn/nvfp4:hadamard:stochastic:random_bits=8", b = "e2m1fn/nvfp4:hadamard", out = "fp32" })toml",
     .source = "NVIDIA/TransformerEngine common/recipe/__init__.py NVFP4BlockScaling, pytorch/tensor/nvfp4_tensor.py",
     .summary = "e2m1fn, an e4m3fn scale for each 16 terms (weights: for each 16x16 block); gradients rounded "
                "stochastically; a Hadamard transform before the weight gradient"},
    {.name = "ao-tensorwise",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/tensor", b = "e4m3fn/tensor", bias_after = true }
input_grad  = { a = "e5m2/tensor", b = "e4m3fn/tensor" }
weight_grad = { a = "e5m2/tensor", b = "e4m3fn/tensor" })toml",
     .source = "pytorch/ao torchao/float8/config.py, float8_linear.py",
     .summary = "e4m3fn, gradients e5m2, one scale per tensor from the current tensor; the bias is added to the "
                "rounded output"},
    {.name = "ao-rowwise",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/row", b = "e4m3fn/column", bias_after = true }
input_grad  = { a = "e4m3fn/row", b = "e4m3fn/column" }
weight_grad = { a = "e4m3fn/row", b = "e4m3fn/column" })toml",
     .source = "pytorch/ao torchao/float8/config.py, float8_linear.py",
     .summary = "e4m3fn, a power of two for each row of a and column of b of every matmul"},
    {.name = "ao-rowwise-gw-hp",
     .multiple_of = 16,
     .rule = R"toml(forward     = { a = "e4m3fn/row", b = "e4m3fn/column", bias_after = true }
input_grad  = { a = "e4m3fn/row", b = "e4m3fn/tensor:ao_fp8_power" })toml",
     .source = "pytorch/ao torchao/float8/config.py, rowwise_with_gw_hp",
     .summary = "like ao-rowwise, but with one scale for the weight in the input gradient, and the weight gradient in "
                "high precision"},
    {.name = "ao-mxfp8-rceil",
     .multiple_of = 32,
     .rule = R"toml(forward     = { a = "e4m3fn/mx32:ao_rceil", b = "e4m3fn/mx32:ao_rceil", bias_after = true }
input_grad  = { a = "e4m3fn/mx32:ao_rceil", b = "e4m3fn/mx32:ao_rceil" }
weight_grad = { a = "e4m3fn/mx32:ao_rceil", b = "e4m3fn/mx32:ao_rceil" })toml",
     .source = "pytorch/ao torchao/prototype/mx_formats/mx_tensor.py, prototype/moe_training/mxfp8_linear.py",
     .summary = "e4m3fn, a power of two for each 32 terms, rounded up by a multiplication"},
    {.name = "ao-mxfp8-floor",
     .multiple_of = 32,
     .rule = R"toml(forward     = { a = "e4m3fn/mx32:ao_floor", b = "e4m3fn/mx32:ao_floor", bias_after = true }
input_grad  = { a = "e4m3fn/mx32:ao_floor", b = "e4m3fn/mx32:ao_floor" }
weight_grad = { a = "e4m3fn/mx32:ao_floor", b = "e4m3fn/mx32:ao_floor" })toml",
     .source = "pytorch/ao torchao/prototype/mx_formats/mx_tensor.py, prototype/moe_training/mxfp8_linear.py",
     .summary =
         "e4m3fn, a power of two for each 32 terms, rounded down, so that a block's largest values may saturate"},
    {.name = "ao-mxfp8-even",
     .multiple_of = 32,
     .rule = R"toml(forward     = { a = "e4m3fn/mx32:ao_even", b = "e4m3fn/mx32:ao_even", bias_after = true }
input_grad  = { a = "e4m3fn/mx32:ao_even", b = "e4m3fn/mx32:ao_even" }
weight_grad = { a = "e4m3fn/mx32:ao_even", b = "e4m3fn/mx32:ao_even" })toml",
     .source = "pytorch/ao torchao/prototype/mx_formats/mx_tensor.py, prototype/moe_training/mxfp8_linear.py",
     .summary = "e4m3fn, a power of two for each 32 terms, from the amax rounded to the precision of the elements"},
    {.name = "ao-mxfp8-ceil",
     .multiple_of = 32,
     .rule = R"toml(forward     = { a = "e4m3fn/mx32:ao_ceil", b = "e4m3fn/mx32:ao_ceil", bias_after = true }
input_grad  = { a = "e4m3fn/mx32:ao_ceil", b = "e4m3fn/mx32:ao_ceil" }
weight_grad = { a = "e4m3fn/mx32:ao_ceil", b = "e4m3fn/mx32:ao_ceil" })toml",
     .source = "pytorch/ao torchao/prototype/mx_formats/mx_tensor.py, prototype/moe_training/mxfp8_linear.py",
     .summary = "e4m3fn, a power of two for each 32 terms, rounded up"},
    {.name = "dsv3",
     .multiple_of = 16,
     .rule =
         R"toml(forward     = { a = "e4m3fn/1x128:deepgemm", b = "e4m3fn/128x128:deepgemm", rule = "deepgemm.sm90.1d2d" }
input_grad  = { a = "e4m3fn/1x128:deepgemm", b = "e4m3fn/128x128:deepgemm", rule = "deepgemm.sm90.1d2d" }
weight_grad = { a = "e4m3fn/1x128:deepgemm", b = "e4m3fn/1x128:deepgemm", out = "fp32", rule = "deepgemm.sm90.1d1d" })toml",
     .source = "DeepSeek-V3 technical report (arXiv 2412.19437); deepseek-ai/DeepGEMM",
     .summary = "e4m3fn, an fp32 scale for each 128 terms (weights: for each 128x128 block); partial sums of 128 terms "
                "promoted to fp32"},
    {.name = "mx-microxcaling",
     .rule =
         R"toml(forward     = { in = "bf16:nearest_away", a = "e4m3fn/mx32:ao_floor:nearest_away", b = "e4m3fn/mx32:ao_floor:nearest_away:via=bf16", bias = "bf16:nearest_away", out = "bf16:nearest_away", bias_after = true }
grad        = { in = "bf16:nearest_away" }
input_grad  = { a = "e4m3fn/mx32:ao_floor:nearest_away", b = "e4m3fn/mx32:ao_floor:nearest_away:via=bf16", out = "bf16:nearest_away" }
weight_grad = { a = "e4m3fn/mx32:ao_floor:nearest_away", b = "e4m3fn/mx32:ao_floor:nearest_away", out = "bf16:nearest_away" })toml",
     .source = "microsoft/microxcaling mx/linear.py, mx/specs.py",
     .summary =
         "e4m3fn, a power of two for each 32 terms, rounded down; everything rounded to bf16 first, ties away from"
         " zero"},
    {.name = "e5m2-direct",
     .rule = R"toml(forward     = { a = "e5m2", b = "e5m2", out = "e5m2" }
input_grad  = { a = "e5m2", b = "e5m2", out = "e5m2" }
weight_grad = { a = "e5m2", b = "e5m2" })toml",
     .source = "IntelLabs/FP8-Emulation-Toolkit, direct quantisation",
     .summary = "operands and outputs in e5m2 without a scale; the loss must be scaled"},
};

}  // namespace

std::span<const Recipe> all_recipes() { return recipes; }

const Recipe* find_recipe(std::string_view name) {
    const std::string wanted = lowered(with_hyphens(name));
    const auto row =
        std::find_if(std::begin(recipes), std::end(recipes), [&](const auto& r) { return r.name == wanted; });
    return row == std::end(recipes) ? nullptr : row;
}

const Recipe& recipe_named(std::string_view name, const std::string& where) {
    if (const Recipe* recipe = find_recipe(name)) return *recipe;
    throw Error({.what = fmt::format("unknown recipe '{}'", name),
                 .where = where,
                 .fix = suggestion(with_hyphens(name), names_of(recipes))});
}

std::string with_hyphens(std::string_view name) {
    std::string text(name);
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

}  // namespace macheps::policy
