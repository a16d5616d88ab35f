// SPDX-License-Identifier: Apache-2.0
#include "experiments/numerics/gemm_operands.hpp"

#include "emulation/scaling/scaling.hpp"

namespace macheps {

namespace {

struct Recipe {
    Granularity a, b;
    ScaleRule rule;
};

Recipe recipe_of(OperandScaling scaling) {
    switch (scaling) {
        case OperandScaling::row:
            return {Granularity::row, Granularity::column, ScaleRule::te_current};
        case OperandScaling::deepgemm:
            return {Granularity::block_1x128, Granularity::block_128x128, ScaleRule::deepgemm};
        case OperandScaling::mx32:
            return {Granularity::mx_32, Granularity::mx_32, ScaleRule::te_mxfp8};
        case OperandScaling::nvfp4:
            return {Granularity::nvfp4_16, Granularity::nvfp4_16, ScaleRule::te_nvfp4};
        default:
            return {Granularity::tensor, Granularity::tensor, ScaleRule::te_current};
    }
}

}  // namespace

std::optional<OperandScaling> find_scaling(std::string_view name) {
    for (std::size_t i = 0; i < std::size(scaling_names); ++i) {
        if (scaling_names[i] == name) return static_cast<OperandScaling>(i);
    }
    return std::nullopt;
}

bool takes(const Machine& machine, const FormatPair& formats) {
    return machine.addend == machine.result && machine.operands.contains(formats.a) &&
           machine.operands.contains(formats.b);
}

bool takes(const MatmulRule& rule, const FormatPair& formats, OperandScaling scaling) {
    const Machine& machine = *rule.machine;
    const bool scales_partial_sums = rule.promotion == Promotion::fma_joint || rule.promotion == Promotion::fma_left;
    if (!takes(machine, formats)) return false;
    switch (scaling) {
        case OperandScaling::row:
            return !machine.has_scales();
        case OperandScaling::deepgemm:
            return scales_partial_sums && 128 % rule.promotion_interval == 0;
        case OperandScaling::mx32:
            return machine.has_scales() && machine.scale == e8m0fnu && machine.scale_block == 32;
        case OperandScaling::nvfp4:
            return machine.has_scales() && machine.scale == e4m3fn && machine.scale_block == 16;
        default:
            return true;
    }
}

MatmulUse use_of(const FormatPair& formats, OperandScaling scaling, const Format& output) {
    using Kind = ScaleLayout::Kind;
    ScaleLayout scales;
    switch (scaling) {
        case OperandScaling::none:
            break;
        case OperandScaling::tensor:
            scales.kind = Kind::tensor;
            break;
        case OperandScaling::row:
            scales.kind = Kind::outer;
            break;
        case OperandScaling::deepgemm:
            scales = {Kind::blocks, 128, fp32};
            break;
        case OperandScaling::mx32:
            scales = {Kind::blocks, 32, e8m0fnu};
            break;
        case OperandScaling::nvfp4:
            scales = {Kind::blocks, 16, e4m3fn};
            break;
    }
    return {.a = formats.a, .b = formats.b, .a_scales = scales, .b_scales = scales, .out_cast = {.format = output}};
}

RoundedOperand rounded_operand(Backend& backend, Operand which, const GemmData& data, const std::vector<float>& drawn) {
    const bool is_a = which == Operand::a;
    const std::int64_t outer = is_a ? data.m : data.n;
    const Shape shape = is_a ? Shape{data.m, data.k} : Shape{data.k, data.n};
    const Cast cast{.format = is_a ? data.formats.a : data.formats.b, .overflow = Overflow::saturate};
    RoundedOperand r{.tensor = backend.empty(shape), .host = std::vector<float>(drawn.size())};
    const Tensor x = backend.empty(shape);
    backend.upload(drawn, x);
    if (data.scaling == OperandScaling::none) {
        backend.cast(x, r.tensor, cast);
    } else {
        const Recipe recipe = recipe_of(data.scaling);
        const ScaledCast how{cast, is_a ? recipe.a : recipe.b, recipe.rule, is_a};
        const ScaleGrid grid = scale_grid(how.granularity, is_a, shape.rows(), shape.columns());
        r.scale_memory = backend.empty({grid.rows, grid.columns});
        const ScaledResult result = backend.scaled_cast(x, r.tensor, r.scale_memory, how);
        r.decode_scale = result.tensor_scale;
        if (data.scaling == OperandScaling::tensor) {
            r.decode_scale = result.decode_min;
        } else {
            r.scales = result.scales;
            const std::int64_t along = scale_block(how.granularity).k;
            r.k_block = along == 0 ? data.k : along;
            if (along == 0) r.scales.k_stride = 0;  // one scale for all of k
            std::vector<float> host(static_cast<std::size_t>(r.scale_memory.count()));
            backend.download(r.scale_memory, host);
            OperandScales there = r.scales;
            there.data = host.data();
            for (std::int64_t o = 0; o < outer; ++o) {
                for (std::int64_t p = 0; p < data.k; p += r.k_block) r.factors.push_back(there.at(o, p));
            }
        }
    }
    backend.download(r.tensor, r.host);
    return r;
}

}  // namespace macheps
