// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/words.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps {

std::string_view to_string(Evidence evidence) {
    switch (evidence) {
        case Evidence::definition:
            return "definition";
        case Evidence::hardware:
            return "hardware";
        case Evidence::published:
            return "published";
        default:
            return "inferred";
    }
}

std::string_view to_string(SumModel model) {
    switch (model) {
        case SumModel::fma_chain:
            return "fma_chain";
        case SumModel::pairwise:
            return "pairwise";
        case SumModel::kahan:
            return "kahan";
        case SumModel::exact:
            return "exact";
        case SumModel::truncated:
            return "truncated";
        case SumModel::scaled_groups:
            return "scaled_groups";
        case SumModel::through_fp16:
            return "through_fp16";
        case SumModel::exact_step:
            return "exact_step";
        case SumModel::flushed_pairs:
            return "flushed_pairs";
        case SumModel::floored:
            return "floored";
        default:
            return "floored_even_odd";
    }
}

std::string_view to_string(Delivery delivery) {
    switch (delivery) {
        case Delivery::fp32_toward_zero:
            return "fp32 toward zero (overflow gives infinity)";
        case Delivery::e8m13_toward_zero:
            return "E8M13 (fp32 with 10 low zero bits) toward zero (overflow gives infinity)";
        case Delivery::fp32_nearest_even:
            return "fp32 to nearest even";
        case Delivery::fp16_nearest_even:
            return "fp16 to nearest even";
        case Delivery::bf16_nearest_even:
            return "bf16 to nearest even";
        default:
            return "fp64 to nearest even";
    }
}

ModelWords describe(SumModel model) {
    switch (model) {
        case SumModel::fma_chain:
            return {"One fused multiply-add per product, k ascending: each is rounded once.",
                    "c = round(a[k] b[k] + c)"};
        case SumModel::pairwise:
            return {
                "Products are rounded, then added by halves: n terms are those up to the largest power of two "
                "below n, plus the rest.",
                "sum(n) = round(sum(first h) + sum(rest)), h = the largest power of two below n"};
        case SumModel::kahan:
            return {"Products are rounded and added with Kahan's compensation, k ascending.",
                    "y = p - e;  t = s + y;  e = (t - s) - y;  s = t"};
        case SumModel::exact:
            return {"All products of a matmul in one exact sum, rounded once.", "d = round(sum a[k] b[k])"};
        case SumModel::truncated:
            return {
                "The L products and C are cut toward zero at one common unit, F bits below the largest exponent "
                "among them, and the cut terms are added exactly. Exponents are those of the operands, added: a "
                "product is not normalised, and a subnormal counts with the least exponent of its format.",
                "emax = max(e_a + e_b of products that are not zero, e_C)     C = 0 reads the exponent e_zero\n"
                "unit = 2^(emax - F)\n"
                "S    = sum trunc(a b / unit) + trunc(C / unit)\n"
                "D    = round(S unit)                                         S = 0 gives +0"};
        case SumModel::scaled_groups:
            return {
                "The products form groups of 16, each summed exactly and multiplied by its two scales. The groups "
                "and C are cut toward zero at one unit, F bits below the largest exponent among the scales' and "
                "C's, and added exactly.",
                "P_g  = exact sum of a b over group g\n"
                "emax = max(e_alpha + e_beta of each group, e_C)     a group of zeros and C = 0 read e_zero\n"
                "unit = 2^(emax - F)\n"
                "S    = sum trunc(P_g alpha_g beta_g / unit) + trunc(C / unit)\n"
                "D    = round(S unit)"};
        case SumModel::through_fp16:
            return {
                "There is no fp8 unit behind this instruction: operands are widened to fp16, products with k mod 4 "
                "in {0, 1} go through one fp16 step, those with k mod 4 in {2, 3} through a second one that takes "
                "the first in as its C, and the addend joins by one IEEE addition at the end.",
                "T = step(products with k mod 4 = 0, 1;  +0)     steps as in model `truncated`, fp16 operands\n"
                "U = step(products with k mod 4 = 2, 3;  T)\n"
                "D = round to nearest even(C + U)"};
        case SumModel::exact_step:
            return {"The L products and C are added exactly and rounded once.", "D = round(sum a b + C)"};
        case SumModel::flushed_pairs:
            return {
                "Products and sums in fp32, rounded to nearest; every subnormal is flushed: of operands and C to "
                "+0, of results to a zero of their sign.",
                "L = 4: D = C + ((p0 + p1) + (p2 + p3))\n"
                "L = 2: D = C + (p0 + p1)"};
        case SumModel::floored:
            return {
                "The products are cut toward zero F bits below the largest of their exponents and added; beside C "
                "the sum is floored, and so is C; after normalisation 31 fraction bits are kept by a floor, then "
                "rounded.",
                "e_d = max(e_a + e_b);  T = sum trunc(a b / 2^(e_d - F)) 2^(e_d - F)\n"
                "E   = max(e_d, e_C)                                  C = 0 reads e_C = -126\n"
                "S   = floor(T to 2^(E - F - 8)) + floor(C to 2^(E - F))\n"
                "D   = round(floor(S to 31 fraction bits))"};
        default:
            return {
                "As model `floored`, but even and odd products are cut apart, each half at F bits below its own "
                "largest exponent, and both are floored where they meet. C is left out when it lies more than "
                "F + 1 bits below.",
                "T   = floor(T_even to 2^(e - F)) + floor(T_odd to 2^(e - F)), e = max(e_even, e_odd)\n"
                "E   = max(e, e_C);  C is dropped when e_C < E - F - 1\n"
                "S   = floor(T to 2^(E - F - 8)) + floor(C to 2^(E - F))\n"
                "D   = round(floor(S to 31 fraction bits))"};
    }
}

std::vector<DisputedPoint> disputed_points(const Machine& machine) {
    const SumRule& sum = machine.sum;
    const bool cuts =
        sum.model == SumModel::truncated || sum.model == SumModel::through_fp16 || sum.model == SumModel::scaled_groups;
    std::vector<DisputedPoint> points;
    if (!cuts) {
        if (sum.model == SumModel::exact_step) {
            points.push_back({"model", "how a step of CDNA1 adds", "one exact sum, rounded once",
                              "fp32 additions in pairs (MMA-Sim of January 2026)"});
        }
        if (sum.model == SumModel::floored || sum.model == SumModel::floored_even_odd) {
            points.push_back({"model", "what a product with a zero factor adds to the largest exponent", "nothing",
                              "each zero operand reads exponent -126 (MMA-Sim of January 2026)"});
            points.push_back({"model", "the last step of CDNA3", "31 fraction bits are kept by a floor, then rounded",
                              "rounded at once (MMA-Sim of January 2026; Khattak and Mikaitis)"});
        }
        return points;
    }
    points.push_back({"zero_factor_counts", "what a product with a zero factor adds to the largest exponent",
                      sum.zero_factor_counts ? "the exponents of its operands" : "nothing",
                      "each zero operand reads exponent -126 (MMA-Sim of January 2026)"});
    // Other accumulators and operands never reach down to e_zero.
    if (sum.addend == fp16 && machine.instruction == "mma" && sum.model == SumModel::truncated) {
        points.push_back({"zero_exponent", "e_zero, the exponent that C = 0 reads", std::to_string(sum.zero_exponent),
                          fmt::format("{} (a table of arXiv 2511.10909v2)", sum.zero_exponent - 1)});
    } else if (machine.operands.contains(bf16) || machine.operands.contains(tf32) || machine.scale == e8m0fnu) {
        points.push_back({"zero_exponent", "e_zero, the exponent that C = 0 reads", std::to_string(sum.zero_exponent),
                          "-126 (MMA-Sim of January 2026)"});
    }
    points.push_back({"underflow_keeps_sign", "a negative sum that underflows to zero",
                      sum.underflow_keeps_sign ? "-0" : "+0",
                      sum.underflow_keeps_sign ? "+0 (MMA-Sim of January 2026)" : "-0 (newer MMA-Sim)"});
    points.push_back({"zeros_keep_sign", "all operands and C are -0", sum.zeros_keep_sign ? "-0" : "+0",
                      sum.zeros_keep_sign ? "+0 (MMA-Sim)" : "-0 (a table-driven model)"});
    if (sum.addend == fp16) {
        points.push_back({"normalises_addend", "the exponent of a subnormal fp16 C",
                          sum.normalises_addend ? "that of its leading bit" : "-14, the least of fp16",
                          sum.normalises_addend ? "-14 (MMA-Sim)" : "that of its leading bit (Khattak and Mikaitis)"});
    }
    return points;
}

std::string evidence_words(const Machine& machine) {
    switch (machine.evidence) {
        case Evidence::definition:
            return "made of IEEE operations: there is nothing to check";
        case Evidence::hardware:
            return fmt::format("reproduced on published captures of silicon: {}", machine.measured);
        case Evidence::published:
            return "a model that its authors tested on silicon; no public capture is reproduced here";
        default:
            return "the model of a sibling type: nobody has published this type's behaviour";
    }
}

std::string step_words(const Machine& machine) {
    const SumRule& sum = machine.sum;
    switch (sum.model) {
        case SumModel::pairwise:
        case SumModel::kahan:
        case SumModel::exact:
            return "none: a whole matmul at once";
        case SumModel::fma_chain:
            return machine.k == 1 ? "1 product" : fmt::format("{} chained steps of 1", machine.k);
        case SumModel::scaled_groups:
            return fmt::format("1 step of {} groups of 16", machine.k / 16);
        case SumModel::through_fp16:
            return fmt::format("2 chained steps of {} in fp16, then one addition", machine.k / 2);
        default:
            break;
    }
    const int steps = machine.k / std::max(std::min(sum.terms, machine.k), 1);
    return steps == 1 ? fmt::format("1 step of {}", sum.terms)
                      : fmt::format("{} chained steps of {}", steps, sum.terms);
}

}  // namespace macheps
