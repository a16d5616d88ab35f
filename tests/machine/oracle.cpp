// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/oracle.hpp"

#include "tests/machine/ieee.hpp"
#include "tests/machine/steps.hpp"

#include <algorithm>
#include <stdexcept>

namespace macheps::machine_oracle {
namespace {

using Codes = std::span<const std::uint64_t>;

/// Returns `in` with the parameters that `mutation` changes. Other mutations change how a step is computed.
Instruction with(Instruction in, Mutation mutation) {
    switch (mutation) {
        case Mutation::fewer_fraction_bits:
            --in.fraction_bits;
            break;
        case Mutation::more_fraction_bits:
            ++in.fraction_bits;
            break;
        case Mutation::split_groups:
            in.step = std::max(1, in.step / 2);
            break;
        case Mutation::joined_groups:
            in.step = std::min(in.products, in.step * 2);
            break;
        case Mutation::full_output:
            in.precision = in.d.precision;
            break;
        case Mutation::nearest_output:
            in.rounding = Rounding::nearest_even;
            break;
        case Mutation::toward_zero_output:
            in.rounding = Rounding::toward_zero;
            break;
        case Mutation::e_zero_lower:
            --in.zero_exponent;
            break;
        case Mutation::e_zero_higher:
            ++in.zero_exponent;
            break;
        case Mutation::native_fp8:
            in.model = Model::fused;
            in.step = in.products;
            in.zero_exponent = -133;
            if (in.arch == "sm_90") {
                in.fraction_bits = 13;
                if (in.d.name == "f32") in.precision = 14;
            }
            break;
        default:
            break;
    }
    return in;
}

std::uint64_t one_step(const Instruction& in, const Step& step, Mutation mutation) {
    if (mutation == Mutation::pairwise_fp32) return pairwise_fp32_step(in, step);
    switch (in.model) {
        case Model::grouped:
            return grouped_step(in, step, mutation);
        case Model::exact:
            return exact_step(in, step, mutation);
        case Model::pairwise:
            return pairwise_step(in, step, mutation);
        case Model::truncated:
            return truncated_step(in, step, 1, mutation);
        case Model::truncated_fp8:
            return truncated_step(in, step, 2, mutation);
        case Model::fma_chain:
            return fma_step(in, step, mutation);
        case Model::integer:
            return integer_step(in, step);
        default:
            return fused_step(in, step, mutation);
    }
}

/// Evaluates an fp8 instruction that is emulated in fp16. Adds the products with k mod 4 in {0, 1}, then the products
/// with k mod 4 in {2, 3}, then C.
std::uint64_t emulated(const Instruction& in, Codes a, Codes b, std::uint64_t c, Mutation mutation) {
    const Type& f16 = find_type("f16");
    const auto widen = [&f16](const Type& type, std::uint64_t code) {
        const Real x = real(decode(type, code));
        return decode(f16, ieee_code(x, f16, Rounding::nearest_even, f16.precision, 0x7fff));
    };
    std::uint64_t total = mutation == Mutation::c_first ? c : 0;
    const int steps = mutation == Mutation::joined_groups ? 1 : 2;
    for (int half = 0; half < steps; ++half) {
        Step step;
        step.c = decode(in.d, total);
        step.c_type = &in.d;
        for (std::size_t k = 0; k < a.size(); ++k) {
            const int upper = mutation == Mutation::contiguous_halves ? k >= a.size() / 2 : k % 4 >= 2;
            if (steps == 2 && upper != (mutation == Mutation::halves_swapped ? 1 - half : half)) continue;
            step.a.push_back(widen(in.a, a[k]));
            step.b.push_back(widen(in.b, b[k]));
        }
        total = mutation == Mutation::pairwise_fp32 ? pairwise_fp32_step(in, step) : fused_step(in, step, mutation);
    }
    if (mutation == Mutation::c_first) return total;
    const Real d = ieee_sum(real(decode(in.c, c)), real(decode(in.d, total)));
    return ieee_code(d, in.d, Rounding::nearest_even, in.d.precision, nan_code(in));
}

}  // namespace

std::uint64_t evaluate(const Instruction& right, Codes a, Codes b, std::uint64_t c, Codes sa, Codes sb,
                       Mutation mutation) {
    const Instruction in = with(right, mutation);
    const auto products = static_cast<std::size_t>(in.products), scales = static_cast<std::size_t>(in.scales);
    if (a.size() != products || b.size() != products || sa.size() != scales || sb.size() != scales)
        throw std::invalid_argument("machine oracle: " + in.arch + " " + in.instr + " " + in.qual + ": operand count");
    if (in.model == Model::emulated_fp8) return emulated(in, a, b, c, mutation);

    const auto length = static_cast<std::size_t>(in.step), steps = products / length;
    const Type* c_type = &in.c;
    for (std::size_t i = 0; i < steps; ++i) {
        const std::size_t first = (mutation == Mutation::descending_steps ? steps - 1 - i : i) * length;
        Step step;
        step.c = decode(*c_type, c);
        step.c_type = c_type;
        for (std::size_t k = first; k < first + length; ++k) {
            step.a.push_back(decode(in.a, a[k]));
            step.b.push_back(decode(in.b, b[k]));
            if (scales == 0) continue;
            step.sa.push_back(decode(in.scale, sa[k * scales / products]));
            step.sb.push_back(decode(in.scale, sb[k * scales / products]));
        }
        if (mutation == Mutation::descending_steps && steps == 1) {  // an FMA chain is one step: reverse its products
            std::reverse(step.a.begin(), step.a.end());
            std::reverse(step.b.begin(), step.b.end());
        }
        c = one_step(in, step, mutation);
        c_type = &in.d;
    }
    return c;
}

bool same_result(const Instruction& in, std::uint64_t x, std::uint64_t y) {
    return x == y || (!in.canonical_nan && decode(in.d, x).kind == Kind::nan && decode(in.d, y).kind == Kind::nan);
}

}  // namespace macheps::machine_oracle
