// SPDX-License-Identifier: Apache-2.0
// Mutants: deliberately wrong models of a matrix unit. A mutant differs from the right model in its SumRule, or in how
// it reads the operands. A device's results are evidence for the right model only if they refute the mutants. Host
// only.
#pragma once
#include "emulation/machine/step.hpp"

#include <string>
#include <vector>

namespace macheps::evidence {

struct Mutant {
    /// How a model reads the operands.
    enum class View : std::uint8_t {
        right,
        normalised,  ///< the exponent of a product is that of its leading bit, not the sum of its factors' exponents
        zeros_m126,  ///< a zero operand has exponent -126
    };
    std::string name;  ///< `fraction_bits-1`
    SumRule rule;
    View view = View::right;
};

/// Returns the result of a wrong model for an instruction of k <= 64 products.
inline std::uint64_t mutant_instruction(const Mutant& mutant, int k, const Factor* a, const Factor* b,
                                        std::uint64_t c) {
    if (mutant.view == Mutant::View::right) return matrix_instruction(mutant.rule, k, a, b, c);
    SumRule rule = mutant.rule;
    const bool through_fp16 = rule.model == SumModel::through_fp16;
    Factor x[64], y[64];
    for (int i = 0; i < k; ++i) {
        x[i] = through_fp16 ? matrix_unit::as_fp16(a[i]) : a[i];
        y[i] = through_fp16 ? matrix_unit::as_fp16(b[i]) : b[i];
        if (mutant.view == Mutant::View::zeros_m126) {
            if (x[i].is_zero()) x[i].exponent = -126;
            if (y[i].is_zero()) y[i].exponent = -126;
            continue;
        }
        const bool is_number = x[i].kind == Unpacked::Kind::finite && y[i].kind == Unpacked::Kind::finite;
        if (!is_number || x[i].is_zero() || y[i].is_zero()) continue;
        Factor product{.negative = x[i].negative != y[i].negative, .significand = x[i].significand * y[i].significand};
        product.fraction_bits = macheps::detail::bit_length(product.significand) - 1;
        product.exponent =
            x[i].exponent + y[i].exponent + product.fraction_bits - x[i].fraction_bits - y[i].fraction_bits;
        x[i] = product;
        y[i] = {.significand = 1};
    }
    if (!through_fp16) return matrix_instruction(rule, k, x, y, c);
    // The code below does the two truncated steps of matrix_instruction(). It does not call that function, which would
    // round the products in x to fp16.
    rule.model = SumModel::truncated;
    std::uint64_t sum = 0;
    for (int half = 0; half < 2; ++half) {
        Factor p[64], q[64];
        int n = 0;
        for (int i = 0; i < k; ++i) {
            if (i % 4 / 2 != half) continue;
            p[n] = x[i];
            q[n++] = y[i];
        }
        sum = matrix_step(rule, p, q, n, sum);
    }
    return matrix_unit::add_results(rule.delivery, c, sum);
}

/// Returns whether `rule` describes a unit of a CPU: a sum of IEEE operations with a CPU's flushing, order or NaN
/// results.
inline bool is_cpu_sum(const SumRule& rule) {
    const bool is_chain =
        rule.model == SumModel::fma_chain && (!rule.is_plain_chain() || rule.nan == NanRule::first_operand);
    return is_chain || rule.model == SumModel::pair_then_add || rule.model == SumModel::odd_pairs ||
           rule.model == SumModel::parted_chain;
}

/// Returns the wrong models for a unit of a CPU: other flushing, orders and roundings, and models of other vendors'
/// units.
inline std::vector<Mutant> cpu_mutants(const SumRule& right, int k) {
    std::vector<Mutant> all;
    const auto add = [&](const std::string& name, auto change) {
        SumRule rule = right;
        change(rule);
        all.push_back({name, rule});
    };
    if (right.rounding == Round::to_odd) {
        add("rounding=nearest_even", [](SumRule& rule) { rule.rounding = Round::nearest_even; });
    } else {
        add("rounding=toward_zero", [](SumRule& rule) { rule.rounding = Round::toward_zero; });
        add("rounding=to_odd", [](SumRule& rule) { rule.rounding = Round::to_odd; });
    }
    const bool is_half = right.delivery == Delivery::fp16_nearest_even;  // in fp32, fp16 operands are never subnormal
    if (!is_half) add("flush_operands", [](SumRule& rule) { rule.flush_operands = !rule.flush_operands; });
    constexpr const char* flushes[] = {"no", "before_rounding", "after_rounding", "subnormal"};
    for (int i = 0; i < 4; ++i) {
        const auto flush = static_cast<ResultFlush>(i);
        // If the right model flushes nothing, one wrong way to flush is enough. If it rounds to odd, flushing before
        // and after rounding give the same results, so the only wrong way is not to flush.
        const bool other = right.flush_results == ResultFlush::no ? flush == ResultFlush::subnormal
                           : right.rounding == Round::to_odd      ? flush == ResultFlush::no
                                                                  : flush != right.flush_results;
        if (other) add(std::string("flush_results=") + flushes[i], [&](SumRule& rule) { rule.flush_results = flush; });
    }
    if (k < 2) return all;
    // Adds chains in ascending order and in x86's order, and then the models of other vendors' units.
    const auto as_chain = [&](const std::string& name, ProductOrder order) {
        if (right.model == SumModel::fma_chain && right.order == order) return;
        add(name, [&](SumRule& rule) {
            rule.model = SumModel::fma_chain;
            rule.order = order;
        });
    };
    as_chain("chain", ProductOrder::ascending);
    as_chain("chain,odd_first", ProductOrder::odd_first);
    for (const SumModel model : {SumModel::odd_pairs, SumModel::pair_then_add}) {
        if (right.model == model) continue;
        add(model == SumModel::odd_pairs ? "model=odd_pairs" : "model=pair_then_add", [&](SumRule& rule) {
            rule.model = model;
            rule.terms = 2;
            if (model == SumModel::odd_pairs) rule.rounding = Round::to_odd;
        });
    }
    add("model=exact_step", [](SumRule& rule) {
        rule.model = SumModel::exact_step;
        rule.terms = 2;
    });
    return all;
}

/// Returns the wrong models for a unit whose rule is `right`. `k` is the number of products of one instruction.
inline std::vector<Mutant> mutants(const SumRule& right, int k) {
    if (is_cpu_sum(right)) return cpu_mutants(right, k);
    std::vector<Mutant> all;
    const auto add = [&](const std::string& name, auto change, Mutant::View view = Mutant::View::right) {
        SumRule rule = right;
        change(rule);
        all.push_back({name, rule, view});
    };
    // Adds the other ways to round the result, as far as its format allows them.
    const bool wide = right.delivery == Delivery::fp32_toward_zero || right.delivery == Delivery::e8m13_toward_zero ||
                      right.delivery == Delivery::fp32_nearest_even;
    const struct {
        const char* name;
        Delivery delivery;
        bool fits;
    } deliveries[] = {{"delivery=fp32_toward_zero", Delivery::fp32_toward_zero, wide},
                      {"delivery=e8m13_toward_zero", Delivery::e8m13_toward_zero, wide},
                      {"delivery=fp32_nearest_even", Delivery::fp32_nearest_even, true}};
    for (const auto& other : deliveries) {
        if (other.fits && other.delivery != right.delivery)
            add(other.name, [&](SumRule& rule) { rule.delivery = other.delivery; });
    }
    if (right.model == SumModel::fma_chain) return all;

    for (const int by : {-2, -1, 1, 2}) {
        add("fraction_bits" + std::string(by > 0 ? "+" : "") + std::to_string(by),
            [&](SumRule& rule) { rule.fraction_bits += by; });
    }
    if (right.model == SumModel::truncated) {
        const int terms = right.terms < k ? right.terms : k;
        if (terms > 1) add("terms/2", [&](SumRule& rule) { rule.terms = terms / 2; });
        if (2 * terms <= k) add("terms*2", [&](SumRule& rule) { rule.terms = 2 * terms; });
        add("model=exact_step", [](SumRule& rule) { rule.model = SumModel::exact_step; });
        add("model=floored", [](SumRule& rule) { rule.model = SumModel::floored; });
    }
    if (right.model == SumModel::through_fp16) {
        add("model=truncated", [&](SumRule& rule) {
            rule.model = SumModel::truncated;
            rule.terms = k;
        });
    }
    for (const int by : {-1, 1}) {
        add("zero_exponent" + std::string(by > 0 ? "+" : "") + std::to_string(by),
            [&](SumRule& rule) { rule.zero_exponent += by; });
    }
    add(
        "products_normalised", [](SumRule&) {}, Mutant::View::normalised);
    add(
        "zeros_read_-126", [](SumRule& rule) { rule.zero_factor_counts = true; }, Mutant::View::zeros_m126);
    add("zero_factor_counts", [](SumRule& rule) { rule.zero_factor_counts = !rule.zero_factor_counts; });
    add("underflow_keeps_sign", [](SumRule& rule) { rule.underflow_keeps_sign = !rule.underflow_keeps_sign; });
    add("zeros_keep_sign", [](SumRule& rule) { rule.zeros_keep_sign = !rule.zeros_keep_sign; });
    if (right.addend.bits == 16)
        add("normalises_addend", [](SumRule& rule) { rule.normalises_addend = !rule.normalises_addend; });
    return all;
}

}  // namespace macheps::evidence
