// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/judge/bits.hpp"

#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/judge/fp32_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::check {

namespace {

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }

const Input* find_input(const Problem& problem, std::string_view name) {
    for (const Input& input : problem.inputs) {
        if (input.name == name) return &input;
    }
    return nullptr;
}

/// Returns the rule of the declared machine if the declaration determines all bits of the outputs. Throws Declined
/// otherwise.
MatmulRule rule_in_full(const Problem& problem) {
    const Declaration& d = problem.declaration;
    if (!d.machine)
        throw Declined(
            fmt::format("exact bits require one machine, but '{}' allows many orders of summation", machine_name_of(d)),
            "bits (machine)");
    for (const char* name : {"c", "residual"}) {
        if (find_input(problem, name) != nullptr)
            throw Declined(fmt::format("no machine specifies how it adds {}", name), "bits");
    }
    if (d.activation != "none") throw Declined("no machine specifies an activation", "bits (activation)");
    if (d.operands == "any") throw Declined("the bits depend on how operands are converted", "bits (operands = any)");
    if (d.rounding == Round::stochastic)
        throw Declined("stochastic rounding does not determine the bits", "bits (rounding)");
    if (d.rounding != Round::nearest_even && rounds_slices(*d.machine))
        throw Declined("no machine specifies how its slices are rounded if outputs are not rounded to nearest even",
                       "bits (rounding)");
    if (d.partials || d.has_atomics)
        throw Declined("the bits depend on how slices are joined, which only a machine specifies",
                       "bits (partials, atomics)");
    MatmulRule rule = *d.machine;
    const auto order = std::find(scale_order_names.begin(), scale_order_names.end(), d.scale_order);
    if (order != scale_order_names.end()) {
        rule.scale_order = static_cast<ScaleOrder>(order - scale_order_names.begin());
        return rule;
    }
    const bool has_two = find_input(problem, "a_scale") != nullptr && find_input(problem, "b_scale") != nullptr;
    const std::string first = d.machine_name.substr(0, d.machine_name.find('+'));
    if (has_two && find_matmul_rule(first) == nullptr)
        throw Declined("the bits depend on the order in which the scales of a and b are applied",
                       "bits (scale_order = any)");
    return rule;
}

/// Returns the scales of an operand whose scales do not vary along k. `first` is the index of the first scale to use. A
/// null `input` means an operand without scales.
OperandScales scales_of(const Input* input, const std::vector<float>& values, std::int64_t first) {
    if (input == nullptr) return {};
    const bool is_one = input->axis == Axis::whole;
    return {
        .data = values.data() + (is_one ? 0 : first), .k_block = std::int64_t{1} << 40, .outer_stride = is_one ? 0 : 1};
}

/// Returns the index of the number that belongs to column 0 of row `first`. `input` is an array with one number for
/// each column, such as the bias. If the outputs are a sample, each row has its own columns. The array then has one
/// number for each output, and the numbers of row `first` begin at first * columns.
std::int64_t first_of_columns(const Input* input, std::int64_t first, std::int64_t columns) {
    return input != nullptr && input->axis == Axis::each ? first * columns : 0;
}

std::uint64_t code_of(const Format& format, double x) {
    return encode64(format, x, Round::nearest_even, Overflow::nonsaturate);
}

std::string claim_of(const Declaration& d) {
    if (d.operation->is_product) return d.machine_name;
    const bool has_order = d.operation->has_reduction && d.sum_order != "any";
    return has_order ? fmt::format("fp32 with sums in {} order", d.sum_order) : "fp32";
}

}  // namespace

MachineOutputs machine_outputs(const Problem& problem, ThreadPool& pool) {
    if (!problem.declaration.operation->is_product) return fp32_outputs(problem, pool);
    const MatmulRule rule = rule_in_full(problem);
    const ProductOperands& of = problem.products->operands();
    const std::vector<float> a = floats(of.unscaled_a()), b = floats(of.unscaled_b()), a_factors = floats(of.a_factors),
                             b_factors = floats(of.b_factors);
    const Input *a_scale = find_input(problem, "a_scale"), *b_scale = find_input(problem, "b_scale"),
                *bias = find_input(problem, "bias");
    const std::vector<float> a_scales = floats(a_scale ? std::vector<double>(a_scale->values) : std::vector<double>{}),
                             b_scales = floats(b_scale ? std::vector<double>(b_scale->values) : std::vector<double>{}),
                             biases = floats(bias ? std::vector<double>(bias->values) : std::vector<double>{});
    MachineOutputs out{
        .before = std::vector<float>(static_cast<std::size_t>(of.rows() * of.n)), .outputs = {}, .others = {}};
    std::vector<float> after(out.before.size());
    CpuBackend backend(pool.threads());
    const Overflow overflow = problem.declaration.saturates ? Overflow::saturate : Overflow::nonsaturate;
    for (std::int64_t batch = 0; batch < of.batches; ++batch) {
        const std::int64_t first = of.first_row(batch), rows = of.first_row(batch + 1) - first;
        if (rows == 0) continue;
        const std::int64_t matrix = of.has_one_b ? 0 : batch;
        Matmul args{.m = rows, .n = of.n, .k = of.k};
        args.a = {.data = a.data() + first * of.k, .ld = of.k, .format = of.a_format};
        args.a.scales = scales_of(a_scale, a_scales, first);
        args.b = {.data = b.data() + matrix * of.k * of.n, .ld = of.n, .format = of.b_format};
        args.b.scales = scales_of(b_scale, b_scales, first_of_columns(b_scale, first, of.n));
        if (of.k_block > 0) {
            if (a_scale == nullptr)
                args.a.scales = {.data = a_factors.data() + first * of.blocks(),
                                 .k_block = of.k_block,
                                 .outer_stride = of.blocks(),
                                 .k_stride = 1};
            if (b_scale == nullptr)
                args.b.scales = {.data = b_factors.data() + matrix * of.blocks() * of.n,
                                 .k_block = of.k_block,
                                 .outer_stride = 1,
                                 .k_stride = of.n};
        }
        args.rule = rule;
        args.out_scale = static_cast<float>(problem.declaration.alpha);
        std::vector<float> columns(static_cast<std::size_t>(of.n), biases.empty() ? 0 : biases.front());
        if (biases.size() > 1) std::copy_n(biases.begin() + first_of_columns(bias, first, of.n), of.n, columns.begin());
        args.bias = bias != nullptr ? columns.data() : nullptr;
        args.ld_out = of.n;
        // Computes the outputs before and after the final rounding. If the machine rounds to the output's format when
        // it joins slices, only the rounded outputs exist.
        for (const bool is_rounded : {false, true}) {
            if (!is_rounded && rounds_slices(rule)) continue;
            args.out = (is_rounded ? after : out.before).data() + first * of.n;
            args.out_cast =
                is_rounded ? Cast{.format = problem.output, .round = problem.declaration.rounding, .overflow = overflow}
                           : Cast{};
            backend.matmul(args);
        }
    }
    if (rounds_slices(rule)) out.before = after;
    out.outputs.assign(after.begin(), after.end());
    return out;
}

void MachineOutputs::agree(const Format& format, NumberView got) {
    for (const auto& [i, other] : others) {
        const auto at = static_cast<std::size_t>(i);
        if (code_of(format, got[at]) == code_of(format, other)) outputs[at] = other;
    }
}

BitsCount compare_bits(const Format& format, NumberView got, NumberView want) {
    BitsCount bits;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const bool both_nan = got[i] != got[i] && want[i] != want[i];
        if (both_nan || code_of(format, got[i]) == code_of(format, want[i])) {
            ++bits.equal;
            continue;
        }
        if (bits.differ++ == 0) bits.first = static_cast<std::int64_t>(i);
    }
    return bits;
}

std::optional<Reason> bits_reason(const Problem& problem, const BitsCount& bits, NumberView got, NumberView want) {
    if (bits.differ == 0) return {};
    const auto first = static_cast<std::size_t>(bits.first);
    const int digits = (problem.output.container_bits() + 3) / 4;
    Reason reason{
        reason_code::bits, "T4",
        fmt::format("{} of {} outputs do not have the bits of {}; the first has {:#0{}x} instead of {:#0{}x}",
                    bits.differ, bits.equal + bits.differ, claim_of(problem.declaration),
                    code_of(problem.output, got[first]), digits + 2, code_of(problem.output, want[first]), digits + 2)};
    reason.index = bits.first;
    reason.count = bits.differ;
    reason.got = got[first];
    reason.want = want[first];
    return reason;
}

}  // namespace macheps::check
