// SPDX-License-Identifier: Apache-2.0
// Tests the fused plan of a machine's sums, for which the CPU and the GPU engine have specialised code. The plan must
// give the results of the definition, and both engines must use the same plan.
#include "core/codec.hpp"
#include "emulation/cpu/matmul/machine/machine_kernel.hpp"
#include "emulation/cpu/matmul/machine/machine_plan.hpp"
#include "emulation/gpu/matmul/factors.hpp"
#include "emulation/machine/table.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace fused_plan_test {

using namespace macheps;

namespace {

std::uint32_t bits_of(float x) { return bit_cast<std::uint32_t>(definition::canonical(x)); }

/// Calls f(machine, format) for every machine and every format that its operands may have, except fp64.
void for_each_operand(const std::function<void(const Machine&, const Format&)>& f) {
    for (const Machine* machine : all_machines) {
        for (const Format& format : FormatSet::known) {
            if (machine->operands.contains(format) && format != fp64) f(*machine, format);
        }
    }
}

/// One row of the matrix a and one column of the matrix b. If the machine or the promotion takes scales, also the
/// scales of both.
struct Row {
    std::vector<float> a, b, a_scale, b_scale;
    Matmul args;

    Row(std::mt19937& random, const Machine& machine, const Format& format, std::int64_t k, Promotion promotion) {
        const auto values = [&](std::vector<float>& out) {
            for (std::int64_t i = 0; i < k; ++i) {
                const double x = std::ldexp(1 + random() * 0x1p-32, -static_cast<int>(random() % 9));
                const bool zero = random() % 8 == 0, negative = random() % 2 != 0;
                out.push_back(quantize(format,
                                       static_cast<float>(zero       ? 0
                                                          : negative ? -x
                                                                     : x),
                                       Round::toward_zero, Overflow::saturate));
            }
        };
        values(a);
        values(b);
        args = {.m = 1, .n = 1, .k = k};
        args.a = {.data = a.data(), .ld = k, .format = format};
        args.b = {.data = b.data(), .ld = 1, .format = format};
        args.rule.machine = &machine;
        args.rule.promotion = promotion;
        args.rule.promotion_interval = promotion == Promotion::none ? 0 : 128;
        const std::int64_t block = machine.has_scales() ? machine.scale_block : 128, blocks = (k + block - 1) / block;
        if (!machine.has_scales() && !definition::scales_in_promotion(args)) return;
        for (std::int64_t i = 0; i < blocks; ++i) {
            a_scale.push_back(std::ldexp(1.0f, static_cast<int>(random() % 8) - 4));
            b_scale.push_back(std::ldexp(1.0f, static_cast<int>(random() % 8) - 4));
        }
        args.a.scales = {a_scale.data(), 1, block, blocks, 1};
        args.b.scales = {b_scale.data(), 1, block, blocks, 1};
    }
};

/// Returns the sum of the `length` terms from term `first` on, as one chain in the plan's order.
float chain_by_plan(const FusedPlan& plan, const Matmul& args, std::int64_t first, std::int64_t length) {
    std::uint64_t c = 0;
    for (std::int64_t place = 0; place < length; place += plan.terms) {
        Factor a[64], b[64], alpha[4], beta[4];
        for (int i = 0; i < plan.terms; ++i) {
            const std::int64_t term = first + plan.source(place + i);
            a[i] = factor_of_value(plan.a_format, term < args.k ? args.a.data[term] : 0.0f);
            b[i] = factor_of_value(plan.b_format, term < args.k ? args.b.data[term] : 0.0f);
        }
        StepScales scales{alpha, beta, plan.scale_block == 0 ? 0 : plan.terms / plan.scale_block};
        for (int s = 0; s < scales.count; ++s) {
            const std::int64_t term = min_of(first + place + s * plan.scale_block, args.k - 1);
            alpha[s] = definition::scale_factor(plan.scale, args.a.scales.at(0, term));
            beta[s] = definition::scale_factor(plan.scale, args.b.scales.at(0, term));
        }
        c = matrix_step(plan.rule, a, b, plan.terms, c, scales);
    }
    return decode(plan.rule.addend, c);
}

/// Evaluates the plan step by step: sums each interval as a chain and adds it to the main sum.
float sum_by_plan(const FusedPlan& plan, const Matmul& args) {
    const std::int64_t k = (args.k + plan.instruction_k - 1) / plan.instruction_k * plan.instruction_k;
    if (plan.join == PartialJoin::none) return chain_by_plan(plan, args, 0, k);
    float main = 0;
    for (std::int64_t first = 0; first < k; first += plan.interval) {
        const float partial = chain_by_plan(plan, args, first, min_of(plan.interval, k - first));
        const float sa = args.a.scales.at(0, first), sb = args.b.scales.at(0, first);
        switch (plan.join) {
            case PartialJoin::add_fp16:
                main = quantize(fp16, main + partial, Round::nearest_even, Overflow::nonsaturate);
                break;
            case PartialJoin::fma_joint:
                main = std::fma(partial, sa * sb, main);
                break;
            case PartialJoin::fma_left:
                main = std::fma(partial * sa, sb, main);
                break;
            default:
                main = main + partial;
                break;
        }
    }
    return main;
}

}  // namespace

TEST_CASE("a sum by a machine's fused plan has the bits of the machine's definition", "[emulation][machine]") {
    std::mt19937 random(11);
    std::size_t plans = 0;
    for_each_operand([&](const Machine& machine, const Format& format) {
        for (const Promotion promotion : {Promotion::none, Promotion::add, Promotion::fma_joint, Promotion::fma_left}) {
            if (promotion != Promotion::none && (machine.has_scales() || machine.result != fp32)) continue;
            for (const std::int64_t k : {1, 31, 64, 65, 300}) {
                const Row row(random, machine, format, k, promotion);
                const auto plan = fused_plan(row.args);
                if (!plan) continue;
                ++plans;
                const auto x = definition::dot_operands(row.args, row.a.data(), row.b.data(), 0, 0);
                const float want = definition::slice_sum(row.args, x, 0, k), got = sum_by_plan(*plan, row.args);
                CAPTURE(machine.name, format.bits, static_cast<int>(promotion), k, got, want);
                CHECK(bits_of(got) == bits_of(want));
            }
        }
    });
    CHECK(plans > 1000);
}

TEST_CASE("a fused plan reads every term of a period exactly once", "[emulation][machine]") {
    for_each_operand([&](const Machine& machine, const Format& format) {
        Matmul args;
        args.a.format = args.b.format = format;
        args.rule.machine = &machine;
        const auto plan = fused_plan(args);
        if (!plan) return;
        CAPTURE(machine.name);
        const MachinePlan looked_up(*plan);
        const std::int64_t period = plan->period();
        REQUIRE((period & (period - 1)) == 0);
        std::vector<int> taken(static_cast<std::size_t>(period));
        for (std::int64_t place = 0; place < period; ++place) {
            const std::int64_t term = plan->source(place);
            REQUIRE((term >= 0 && term < period));
            CHECK(++taken[static_cast<std::size_t>(term)] == 1);
            CHECK(plan->source(3 * period + place) == 3 * period + term);
            CHECK(looked_up.source_at(3 * period + place) == 3 * period + term);
        }
    });
}

TEST_CASE("the CPU and GPU engines run a machine by the same plan", "[emulation][machine]") {
    std::size_t both = 0;
    for_each_operand([&](const Machine& machine, const Format& format) {
        for (const Promotion promotion : {Promotion::none, Promotion::add, Promotion::fma_joint}) {
            Matmul args;
            args.a.format = args.b.format = format;
            args.rule.machine = &machine;
            args.rule.promotion = promotion;
            args.rule.promotion_interval = 128;
            CAPTURE(machine.name, format.bits, static_cast<int>(promotion));
            const auto gpu_plan = gpu::emulated_plan(args);
            if (!gpu_plan) continue;
            const auto plan = fused_plan(args);
            REQUIRE(plan);
            ++both;
            const MachinePlan cpu_plan(*plan);
            const FusedPlan &x = cpu_plan, &y = *gpu_plan;
            CHECK(gpu::same_sums(x.rule, y.rule));
            CHECK(x.a_format == y.a_format);
            CHECK(x.b_format == y.b_format);
            CHECK(x.terms == y.terms);
            CHECK(x.instruction_k == y.instruction_k);
            CHECK(x.order == y.order);
            CHECK(x.join == y.join);
            CHECK(x.interval == y.interval);
            CHECK(x.scale == y.scale);
            CHECK(x.scale_block == y.scale_block);
            if (y.join != PartialJoin::none) CHECK(gpu_plan->steps_per_join * y.terms == y.interval);
        }
    });
    CHECK(both > 100);
}

TEST_CASE("vector engines have a kernel for a machine's shape if and only if the shape has a fused plan",
          "[emulation][machine]") {
    for (const Machine* machine : all_machines) {
        for (const int k : {machine->k, machine->small_k}) {
            if (k == 0) continue;
            Machine shape = *machine;
            shape.k = k;
            shape.sum.terms = min_of(shape.sum.terms, k);
            Matmul args;
            args.rule.machine = &shape;
            for (const Simd level : available_simd()) {
                CAPTURE(machine->name, k, simd_name(level));
                CHECK(has_machine_kernel(level, shape) == (level != Simd::scalar && fused_plan(args)));
            }
        }
    }
}

TEST_CASE("a machine loses its fused plan if a property on which published sources disagree is changed",
          "[emulation][machine]") {
    const Machine& machine = *find_machine("sm90.wgmma.fp8");
    const auto has_plan = [](const Machine& changed) {
        Matmul args;
        args.rule.machine = &changed;
        return fused_plan(args).has_value();
    };
    CHECK(has_plan(machine));
    for (bool SumRule::*flag : {&SumRule::zero_factor_counts, &SumRule::underflow_keeps_sign, &SumRule::zeros_keep_sign,
                                &SumRule::normalises_addend}) {
        Machine changed = machine;
        changed.sum.*flag = !(changed.sum.*flag);
        CHECK_FALSE(has_plan(changed));
    }
}

}  // namespace fused_plan_test
