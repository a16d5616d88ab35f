// SPDX-License-Identifier: Apache-2.0
// Definition of Backend::matmul for one element of its output. The scalar engine runs this code; the vector and CUDA
// engines return the same bits.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/machine/step.hpp"

namespace macheps {

/// Computes machine fp32.chain: acc = start, then acc = fma(a[i * a_step], b[i * b_step], acc) for i = 0 .. k - 1 in
/// that order. Returns start if k == 0. A NaN result has the bits that the processor produces. The caller replaces
/// these bits by the bits of the canonical NaN.
MACHEPS_HD inline float fp32_chain_dot(const float* a, std::int64_t a_step, const float* b, std::int64_t b_step,
                                       std::int64_t k, float start = 0) {
    float acc = start;
    for (std::int64_t i = 0; i < k; ++i) acc = fma(a[i * a_step], b[i * b_step], acc);
    return acc;
}

}  // namespace macheps

namespace macheps::definition {

/// The row of a and the column of b from which one output element is computed.
struct DotOperands {
    const float *a = nullptr, *b = nullptr;
    std::int64_t a_step = 0, b_step = 0;  ///< distance in memory from one term to the next, in elements
    std::int64_t i = 0, j = 0;            ///< indices of the row and the column, which select the scales
    float start = 0;                      ///< initial value of the sum: Matmul::addend
};

/// Returns element (i, j) of the addend, rounded to the format of the machine's C. `addend` points to the first element
/// of the matrix. If it is null, the function returns +0.
MACHEPS_HD inline float addend_of(const Matmul& args, const float* addend, std::int64_t i, std::int64_t j) {
    if (addend == nullptr) return 0;
    return quantize(args.rule.machine->addend, addend[i * args.ld_addend + j], Round::nearest_even,
                    Overflow::nonsaturate);
}

MACHEPS_HD inline DotOperands dot_operands(const Matmul& args, const float* a, const float* b, std::int64_t i,
                                           std::int64_t j) {
    if (args.k == 0) return {.i = i, .j = j};
    const bool at = args.a.transposed, bt = args.b.transposed;
    return {a + i * (at ? 1 : args.a.ld), b + j * (bt ? args.b.ld : 1), at ? args.a.ld : 1, bt ? 1 : args.b.ld, i, j};
}

/// Returns whether the instructions apply the scales.
MACHEPS_HD inline bool scales_in_machine(const Matmul& args) { return args.rule.machine->has_scales(); }
/// Returns whether the promotion applies the scales.
MACHEPS_HD inline bool scales_in_promotion(const Matmul& args) {
    return args.rule.promotion == Promotion::fma_joint || args.rule.promotion == Promotion::fma_left;
}

/// Decomposes a decode scale as a number of `format`, the format of the machine's scales. The sign is ignored.
MACHEPS_HD inline Factor scale_factor(const Format& format, float scale) {
    if (format.encoding != Encoding::power_of_two) {
        Factor f = factor_of_value(format, scale);
        f.negative = false;
        return f;
    }
    const Unpacked u = unpack(scale);
    if (u.kind != Unpacked::Kind::finite) return {.kind = Unpacked::Kind::nan};
    return {.significand = 1, .exponent = detail::bit_length(u.significand) - 1 + u.exponent};
}

/// Runs a chain of instructions over the terms [first, last). `start` is the C of the first instruction. If there are
/// too few terms for the last instruction, it is padded with +0.
MACHEPS_HD inline float instruction_chain(const Matmul& args, const DotOperands& x, std::int64_t first,
                                          std::int64_t last, float start = 0) {
    constexpr int most = 64;
    const Machine& machine = *args.rule.machine;
    const Factor zero_a = factor_of_value(args.a.format, 0.0f), zero_b = factor_of_value(args.b.format, 0.0f);
    std::uint64_t c = encode64(machine.addend, start, Round::nearest_even, Overflow::nonsaturate);
    for (std::int64_t p = first; p < last; p += machine.k) {
        Factor a[most], b[most], alpha[most / 16], beta[most / 16];
        for (int t = 0; t < machine.k; ++t) {
            const bool inside = p + t < last;
            a[t] = inside ? factor_of_value(args.a.format, x.a[(p + t) * x.a_step]) : zero_a;
            b[t] = inside ? factor_of_value(args.b.format, x.b[(p + t) * x.b_step]) : zero_b;
        }
        StepScales scales{alpha, beta, machine.has_scales() ? machine.k / machine.scale_block : 0};
        for (int s = 0; s < scales.count; ++s) {
            // A block beyond the last term takes the scale of the last term. Its products are zeros.
            const std::int64_t at = min_of(p + s * machine.scale_block, last - 1);
            alpha[s] = scale_factor(machine.scale, args.a.scales.at(x.i, at));
            beta[s] = scale_factor(machine.scale, args.b.scales.at(x.j, at));
        }
        c = matrix_instruction(machine.sum, machine.k, a, b, c, scales);
    }
    return decode(machine.result, c);
}

/// Computes machine fp32.pairwise: products are rounded. A sum of n terms is the sum of the first h terms plus the sum
/// of the rest, where h is the largest power of two below n.
MACHEPS_HD inline float pairwise_dot(const DotOperands& x, std::int64_t first, std::int64_t last) {
    float sum[64];
    int depth = 0;
    for (std::int64_t count = 1, p = first; p < last; ++p, ++count) {
        sum[depth++] = x.a[p * x.a_step] * x.b[p * x.b_step];
        for (std::int64_t c = count; (c & 1) == 0; c >>= 1, --depth) sum[depth - 2] = sum[depth - 2] + sum[depth - 1];
    }
    if (depth == 0) return 0;
    for (; depth > 1; --depth) sum[depth - 2] = sum[depth - 2] + sum[depth - 1];
    return sum[0];
}

/// Computes machine fp32.unfused: products are rounded, then added with k ascending.
MACHEPS_HD inline float unfused_dot(const DotOperands& x, std::int64_t first, std::int64_t last, float start = 0) {
    float sum = start;
    for (std::int64_t p = first; p < last; ++p) sum = sum + x.a[p * x.a_step] * x.b[p * x.b_step];
    return sum;
}

/// Computes machine fp32.kahan: products are rounded; then y = p - e, t = s + y, e = (t - s) - y, s = t.
MACHEPS_HD inline float kahan_dot(const DotOperands& x, std::int64_t first, std::int64_t last) {
    float sum = 0, error = 0;
    for (std::int64_t p = first; p < last; ++p) {
        const float y = x.a[p * x.a_step] * x.b[p * x.b_step] - error, t = sum + y;
        error = (t - sum) - y;
        sum = t;
    }
    return sum;
}

/// Computes machine exact: the exact sum is rounded once.
MACHEPS_HD inline float exact_dot(const DotOperands& x, std::int64_t first, std::int64_t last) {
    ExactSum sum;
    matrix_unit::Special special;
    constexpr Format single = fp32;  // a copy: device code may not take the address of fp32 itself
    for (std::int64_t p = first; p < last; ++p) {
        const Factor a = factor_of_value(single, x.a[p * x.a_step]);
        const Factor b = factor_of_value(single, x.b[p * x.b_step]);
        special.observe_product(a, b);
        sum.add(a.negative != b.negative, a.significand * b.significand, a.exponent + b.exponent - 46);
    }
    const std::uint64_t bits =
        special.any() ? special.result(Delivery::fp32_nearest_even)
                      : detail::encode_unpacked(matrix_unit::delivered_format(Delivery::fp32_nearest_even), sum.value(),
                                                Round::nearest_even, Overflow::nonsaturate, {});
    return bit_cast<float>(static_cast<std::uint32_t>(bits));
}

/// Sums the terms [first, last) as the machine does, beginning with `start`. Pairwise, Kahan and exact sums ignore
/// `start` and begin with +0.
MACHEPS_HD inline float machine_dot(const Matmul& args, const DotOperands& x, std::int64_t first, std::int64_t last,
                                    float start = 0) {
    const SumRule& sum = args.rule.machine->sum;
    switch (sum.model) {
        case SumModel::pairwise:
            return pairwise_dot(x, first, last);
        case SumModel::kahan:
            return kahan_dot(x, first, last);
        case SumModel::exact:
            return exact_dot(x, first, last);
        case SumModel::fma_chain:
            if (sum.is_plain_chain() && sum.delivery == Delivery::fp32_nearest_even) {
                return fp32_chain_dot(x.a + first * x.a_step, x.a_step, x.b + first * x.b_step, x.b_step, last - first,
                                      start);
            }
            if (sum.rounds_products && sum.delivery == Delivery::fp32_nearest_even && !sum.flush_operands) {
                return unfused_dot(x, first, last, start);
            }
            break;
        default:
            break;
    }
    return instruction_chain(args, x, first, last, start);
}

/// Adds `partial`, the partial sum that begins with term p, to the main accumulator and returns the result.
/// args.rule.promotion determines how it is added.
MACHEPS_HD inline float promote(const Matmul& args, const DotOperands& x, std::int64_t p, float partial, float main) {
    const float sa = args.a.scales.at(x.i, p), sb = args.b.scales.at(x.j, p);
    switch (args.rule.promotion) {
        case Promotion::fma_joint:
            return fma(partial, sa * sb, main);
        case Promotion::fma_left:
            return fma(partial * sa, sb, main);
        default:
            return main + partial;
    }
}

/// Sums the terms in rule.lanes chains. Consecutive terms go to the chains in turn. Terms left over after the last full
/// turn go to the first chain. At the end, the chains are added in order.
MACHEPS_HD inline float lanes_sum(const Matmul& args, const DotOperands& x, std::int64_t first, std::int64_t last) {
    const std::int64_t lanes = args.rule.lanes, turns = (last - first) / lanes;
    float sum = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
        float chain = 0;
        for (std::int64_t t = 0; t < turns; ++t) {
            const std::int64_t p = first + t * lanes + lane;
            chain = fma(x.a[p * x.a_step], x.b[p * x.b_step], chain);
        }
        for (std::int64_t p = first + turns * lanes; lane == 0 && p < last; ++p) {
            chain = fma(x.a[p * x.a_step], x.b[p * x.b_step], chain);
        }
        sum = lane == 0 ? chain : sum + chain;
    }
    return sum;
}

/// Sums the terms [first, last) in blocks and adds the sums of the blocks in order.
MACHEPS_HD inline float blocks_sum(const Matmul& args, const DotOperands& x, std::int64_t first, std::int64_t last) {
    const MatmulRule& rule = args.rule;
    const std::int64_t k = last - first;
    const bool from_bias = rule.bias_first && args.bias != nullptr;
    float main = from_bias ? args.bias[x.j] : 0;
    for (std::int64_t p = first; p < last;) {
        const std::int64_t end = p + rule.blocks.length(k, last - p);
        const float block = rule.lanes > 1 ? lanes_sum(args, x, p, end) : machine_dot(args, x, p, end);
        main = p == first && !from_bias ? block : main + block;
        p = end;
    }
    return main;
}

/// Returns the sum of one slice of k: the terms [first, last).
MACHEPS_HD inline float slice_sum(const Matmul& args, const DotOperands& x, std::int64_t first, std::int64_t last) {
    if (args.rule.has_blocks()) return blocks_sum(args, x, first, last);
    if (args.rule.promotion == Promotion::none) return machine_dot(args, x, first, last, x.start);
    float main = x.start;
    for (std::int64_t p = first; p < last; p += args.rule.promotion_interval) {
        const std::int64_t end = min_of(p + args.rule.promotion_interval, last);
        main = promote(args, x, p, machine_dot(args, x, p, end), main);
    }
    return main;
}

/// Returns the number of terms per slice of k.
MACHEPS_HD inline std::int64_t slice_length(const MatmulRule& rule, std::int64_t k) {
    const std::int64_t granules = (k + rule.slice_granule - 1) / rule.slice_granule;
    return max_of((granules + rule.slices - 1) / rule.slices, std::int64_t{1}) * rule.slice_granule;
}

/// Output of a matmul before and after its last cast.
struct MatmulOutput {
    float before, after;
};

/// Multiplies a sum by the scales of a and b, and then by out_scale. Leaves out the scales of a and b if the machine or
/// the promotion has applied them.
MACHEPS_HD inline float apply_scales(const Matmul& args, std::int64_t i, std::int64_t j, float acc) {
    if ((args.a.scales.data != nullptr || args.b.scales.data != nullptr) && !scales_in_machine(args) &&
        !scales_in_promotion(args)) {
        const float sa = args.a.scales.at(i, 0), sb = args.b.scales.at(j, 0);
        switch (args.rule.scale_order) {
            case ScaleOrder::a_first:
                acc = sb * (sa * acc);
                break;
            case ScaleOrder::b_first:
                acc = sa * (sb * acc);
                break;
            default:
                acc = acc * (sa * sb);
                break;
        }
    }
    return args.out_scale == 1 ? acc : acc * args.out_scale;
}

/// Adds the bias and casts. `x` is the scaled sum. `element` is the output's index in the random stream: its row-major
/// index in [batch_outer, batch_inner, m, n].
MACHEPS_HD inline MatmulOutput finish_output(const Matmul& args, float x, std::int64_t j, std::uint64_t element) {
    if (args.bias != nullptr && !args.rule.bias_first) {
        if (args.bias_after_cast) x = store_as(args.out_cast, x, element);
        x += args.bias[j];
    }
    x = canonical(x);
    return {x, store_as(args.out_cast, x, element)};
}

MACHEPS_HD inline MatmulOutput matmul_output(const Matmul& args, float acc, std::int64_t i, std::int64_t j,
                                             std::uint64_t element) {
    return finish_output(args, apply_scales(args, i, j, acc), j, element);
}

/// Returns x + y as an fp32 atomic addition on a GPU computes it: subnormal operands and results are flushed to zero.
MACHEPS_HD inline float flushed_sum(float x, float y) {
    return matrix_unit::flushed(matrix_unit::flushed(x) + matrix_unit::flushed(y));
}

/// Returns the sum of the slices 0 .. s. `partial` is the sum of slice s, and `sum` is the sum of the slices before s.
/// args.rule.join determines how they are added. For SliceJoin::serial, `sum` and the return value are already scaled
/// and rounded to the format of the output.
MACHEPS_HD inline float join_slice(const Matmul& args, std::int64_t s, float sum, float partial, std::int64_t i,
                                   std::int64_t j, std::uint64_t element) {
    switch (args.rule.join) {
        case SliceJoin::rounded_workspace:
            return sum + store_as(args.out_cast, partial, element);
        case SliceJoin::stream_k:
            if (s == 0) return partial;
            return s + 1 == args.rule.slices ? partial + sum : flushed_sum(sum, partial);
        case SliceJoin::serial: {
            // The epilogue computes x = 1 * D, where D is `sum`, and then fma(factor, partial, x). It accepts only one
            // factor, so out_scale and the scales of a and b are multiplied with each other first.
            const bool scaled = args.a.scales.data != nullptr || args.b.scales.data != nullptr;
            const float scales = scaled ? args.a.scales.at(i, 0) * args.b.scales.at(j, 0) : 1.0f;
            const float factor = args.out_scale * scales;
            return store_as(args.out_cast, s == 0 ? factor * partial : fma(factor, partial, sum), element);
        }
        default:
            return sum + partial;
    }
}

/// Returns element (i, j) of one output matrix. `a`, `b` and `addend` point to the first element of their matrices.
/// `addend` may be null.
MACHEPS_HD inline MatmulOutput matmul_element(const Matmul& args, const float* a, const float* b, std::int64_t i,
                                              std::int64_t j, std::uint64_t element, const float* addend = nullptr) {
    DotOperands x = dot_operands(args, a, b, i, j);
    x.start = addend_of(args, addend, i, j);
    if (args.rule.slices <= 1) return matmul_output(args, slice_sum(args, x, 0, args.k), i, j, element);
    const std::int64_t length = slice_length(args.rule, args.k);
    float sum = 0;
    for (std::int64_t s = 0; s < args.rule.slices; ++s) {
        const std::int64_t first = min_of(s * length, args.k), last = min_of(first + length, args.k);
        sum = join_slice(args, s, sum, slice_sum(args, x, first, last), i, j, element);
    }
    if (args.rule.join == SliceJoin::serial) return finish_output(args, sum, j, element);
    return matmul_output(args, sum, i, j, element);
}

}  // namespace macheps::definition
