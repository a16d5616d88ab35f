// SPDX-License-Identifier: Apache-2.0
// Decides which wrong models are meaningful for which instruction.
#include "tests/machine/oracle.hpp"

#include <algorithm>
#include <initializer_list>

namespace macheps::machine_oracle {

std::string_view name_of(Mutation mutation) {
    static constexpr std::string_view names[] = {"none",
                                                 "floor_terms",
                                                 "product_renormalised",
                                                 "fewer_fraction_bits",
                                                 "more_fraction_bits",
                                                 "split_groups",
                                                 "joined_groups",
                                                 "full_output",
                                                 "nearest_output",
                                                 "toward_zero_output",
                                                 "c_last",
                                                 "pairwise_fp32",
                                                 "sticky_bit",
                                                 "e_zero_lower",
                                                 "e_zero_higher",
                                                 "zero_reads_emin",
                                                 "zero_reads_m126",
                                                 "zero_scale_counts",
                                                 "underflow_minus_zero",
                                                 "descending_steps",
                                                 "native_fp8",
                                                 "contiguous_halves",
                                                 "halves_swapped",
                                                 "sum_truncated",
                                                 "no_31_bit_floor",
                                                 "parities_joined",
                                                 "c_never_dropped",
                                                 "products_stay_finite",
                                                 "no_flush",
                                                 "products_fused",
                                                 "c_first",
                                                 "products_rounded"};
    static_assert(sizeof names / sizeof names[0] == static_cast<std::size_t>(Mutation::count));
    return names[static_cast<int>(mutation)];
}

namespace {

bool means_something(const Instruction& in, Mutation m) {
    using M = Mutation;
    const auto one_of = [m](std::initializer_list<M> list) {
        return std::find(list.begin(), list.end(), m) != list.end();
    };
    switch (m) {  // first, mutations whose rule concerns more than one value of in.model
        case M::split_groups:
            if (in.step < 2) return false;
            break;
        case M::joined_groups:
        case M::descending_steps:
            if (in.model == Model::emulated_fp8) return m == M::joined_groups;
            if (in.model == Model::fma_chain) return m == M::descending_steps && in.products > 1;
            if (in.step == in.products) return false;
            break;
        case M::full_output:
            return in.precision < in.d.precision && in.model != Model::integer;
        case M::nearest_output:
            return in.rounding == Rounding::toward_zero && in.model != Model::integer;
        case M::toward_zero_output:
            return in.rounding == Rounding::nearest_even && in.model != Model::integer;
        case M::zero_scale_counts:
            return in.model == Model::grouped && decode(in.scale, 0).is_zero();
        default:
            break;
    }
    switch (in.model) {
        case Model::fused:
        case Model::grouped:
            return one_of({M::floor_terms, M::product_renormalised, M::fewer_fraction_bits, M::more_fraction_bits,
                           M::split_groups, M::joined_groups, M::c_last, M::pairwise_fp32, M::sticky_bit,
                           M::e_zero_lower, M::e_zero_higher, M::zero_reads_emin, M::zero_reads_m126,
                           M::underflow_minus_zero, M::descending_steps});
        case Model::emulated_fp8:
            return one_of({M::floor_terms, M::product_renormalised, M::fewer_fraction_bits, M::more_fraction_bits,
                           M::pairwise_fp32, M::sticky_bit, M::e_zero_lower, M::e_zero_higher, M::zero_reads_emin,
                           M::zero_reads_m126, M::native_fp8, M::contiguous_halves, M::halves_swapped, M::c_first});
        case Model::exact:
            return one_of({M::split_groups, M::joined_groups, M::c_last, M::pairwise_fp32, M::descending_steps});
        case Model::pairwise:
            return one_of(
                {M::split_groups, M::joined_groups, M::no_flush, M::products_fused, M::c_first, M::descending_steps});
        case Model::truncated:
            return one_of({M::floor_terms, M::product_renormalised, M::fewer_fraction_bits, M::more_fraction_bits,
                           M::split_groups, M::joined_groups, M::pairwise_fp32, M::zero_reads_emin, M::zero_reads_m126,
                           M::descending_steps, M::sum_truncated, M::no_31_bit_floor, M::products_stay_finite});
        case Model::truncated_fp8:
            return one_of({M::floor_terms, M::product_renormalised, M::fewer_fraction_bits, M::more_fraction_bits,
                           M::split_groups, M::joined_groups, M::pairwise_fp32, M::zero_reads_emin, M::zero_reads_m126,
                           M::descending_steps, M::sum_truncated, M::no_31_bit_floor, M::parities_joined,
                           M::c_never_dropped});
        case Model::fma_chain:
            return m == M::products_rounded;
        case Model::integer:
            return false;
    }
    return false;
}

/// Returns the exponent of the lowest bit that any product, multiplied by its scales, can have.
int product_quantum(const Instruction& in) {
    const auto quantum = [](const Type& type) {
        return type.specials == Specials::e8m0 ? -127 : type.emin() - (type.precision - 1);
    };
    return quantum(in.a) + quantum(in.b) + (in.scales > 0 ? 2 * quantum(in.scale) : 0);
}

/// Returns why no input can show the difference between the mutation and the right model, or an empty text if some
/// input can.
std::string_view why_invisible(const Instruction& in, Mutation m) {
    using M = Mutation;
    const int quantum = product_quantum(in), floor_unit = in.zero_exponent - in.fraction_bits;
    const bool fused = in.model == Model::fused || in.model == Model::grouped;
    switch (m) {
        case M::e_zero_lower:
        case M::e_zero_higher:
            if (in.model == Model::emulated_fp8) return "products of fp8 end at 2^-32, above either unit";
            if (quantum >= floor_unit + (m == M::e_zero_higher ? 1 : 0))
                return "with C = 0 no product has bits below the unit of e_zero";
            break;
        case M::underflow_minus_zero:
            if (fused && quantum > in.d.emin() - in.precision) return "no product is small enough to underflow";
            break;
        case M::zero_reads_emin:
            if (in.model == Model::emulated_fp8 && in.a.name == "e4m3" && in.b.name == "e4m3")
                return "0 * 448 reads exponent -6, unit 2^-31; products of e4m3 end at 2^-18";
            break;
        case M::zero_reads_m126: {
            if (in.model == Model::emulated_fp8)
                return "products of fp8 lie above 2^-126 * 448, and C is added separately";
            if (!fused || quantum < floor_unit) break;  // visible in products with bits below a zero's unit
            if (in.c.name == "f16") return "an fp16 C and all other products have larger exponents than a zero product";
            const int zero = std::max(in.a.emax(), in.b.emax()) - 126 + (in.scales > 0 ? 2 * in.scale.emax() : 0);
            if (in.model == Model::fused && zero - in.fraction_bits <= -149)
                return "C has no bits below the unit of 0 * max";
            break;
        }
        case M::products_fused:
            if (in.a.name == "f16") return "products of normal fp16 are exact and normal in fp32";
            break;
        case M::products_stay_finite:
            if (in.a.name == "f16") return "products of fp16 stay below 2^32";
            break;
        default:
            break;
    }
    return {};
}

}  // namespace

Verdict judge(const Instruction& in, Mutation mutation) {
    if (mutation == Mutation::none || !means_something(in, mutation))
        return {Verdict::meaningless, "no such step in this model"};
    const std::string_view reason = why_invisible(in, mutation);
    return {reason.empty() ? Verdict::visible : Verdict::invisible, reason};
}

}  // namespace macheps::machine_oracle
