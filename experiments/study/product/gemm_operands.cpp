// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/gemm_operands.hpp"

#include "emulation/machine/table.hpp"

namespace macheps::study {

namespace {

/// Scaling of the operands a and b: their granularities and the rule, from the tables of emulation/scaling/rules.hpp.
struct Recipe {
    OperandScaling scaling;
    const Granularity *a, *b;
    const ScaleRule* rule;
};

constexpr Recipe recipe(OperandScaling scaling, std::string_view a, std::string_view b, std::string_view rule) {
    return {scaling, find_granularity(a), find_granularity(b), find_scale_rule(rule)};
}

/// Recipes in the order of OperandScaling.
constexpr Recipe recipes[] = {
    recipe(OperandScaling::none, "none", "none", "ao_fp8"),
    recipe(OperandScaling::tensor, "tensor", "tensor", "te_current"),
    recipe(OperandScaling::row, "row", "column", "te_current"),
    recipe(OperandScaling::deepgemm, "1x128", "128x128", "deepgemm"),
    recipe(OperandScaling::mx32, "mx32", "mx32", "te_mxfp8"),
    recipe(OperandScaling::nvfp4, "nvfp4", "nvfp4", "te_nvfp4"),
};

constexpr const Recipe& recipe_of(OperandScaling scaling) { return recipes[static_cast<std::size_t>(scaling)]; }

static_assert([] {
    for (const Recipe& each : recipes) {
        if (&recipe_of(each.scaling) != &each || each.a->k != each.b->k) return false;
        if (each.a->is_scaled() && !(fits(*each.rule, *each.a) && fits(*each.rule, *each.b))) return false;
    }
    return std::size(recipes) == std::size(scaling_names);
}());

}  // namespace

std::optional<OperandScaling> find_scaling(std::string_view name) {
    for (std::size_t i = 0; i < std::size(scaling_names); ++i) {
        if (scaling_names[i] == name) return static_cast<OperandScaling>(i);
    }
    return std::nullopt;
}

Format scale_format_of(OperandScaling scaling) { return scale_format(recipe_of(scaling).rule->kind); }

bool takes(const Machine& machine, const FormatPair& formats) {
    const auto takes_one = [&machine](const Format& format) {
        return is_order_of_summation(machine) ? !(format == fp64) : machine.operands.contains(format);
    };
    return machine.addend == machine.result && takes_one(formats.a) && takes_one(formats.b);
}

bool takes(const MatmulRule& rule, const FormatPair& formats, OperandScaling scaling) {
    const Machine& machine = *rule.machine;
    const bool scales_partial_sums = rule.promotion == Promotion::fma_joint || rule.promotion == Promotion::fma_left;
    if (!takes(machine, formats)) return false;
    if (machine.reads_values && scaling != OperandScaling::none) return false;  // scaled operands are codes, not values
    const ScaleLayout scales = scale_layout(*recipe_of(scaling).a);
    if (scales.kind == ScaleLayout::Kind::outer) return !machine.has_scales();
    if (scales.kind != ScaleLayout::Kind::blocks) return true;
    if (recipe_of(scaling).rule->kind == ScaleKind::fp32) {
        return scales_partial_sums && scales.k_block % rule.promotion_interval == 0;
    }
    return machine.has_scales() && machine.scale == scales.format && machine.scale_block == scales.k_block;
}

MatmulUse use_of(const FormatPair& formats, OperandScaling scaling, const Format& output) {
    const Recipe& recipe = recipe_of(scaling);
    return {.a = formats.a,
            .b = formats.b,
            .a_scales = scale_layout(*recipe.a),
            .b_scales = scale_layout(*recipe.b),
            .out_cast = {.format = output}};
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
        const Recipe& recipe = recipe_of(data.scaling);
        const ScaledCast how{cast, is_a ? recipe.a : recipe.b, recipe.rule, is_a};
        const ScaleGrid grid = scale_grid(*how.granularity, is_a, shape.rows(), shape.columns());
        r.scale_memory = backend.empty({grid.rows, grid.columns});
        const ScaledResult result = backend.scaled_cast(x, r.tensor, r.scale_memory, how);
        r.scale = result.tensor;
        if (data.scaling == OperandScaling::tensor) {
            r.scale = {result.decode_min};
        } else {
            r.scales = result.scales;
            const std::int64_t along = how.granularity->k;
            r.k_block = along == 0 ? data.k : along;
            if (along == 0) r.scales.k_stride = 0;  // one scale for the whole k axis
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

}  // namespace macheps::study
