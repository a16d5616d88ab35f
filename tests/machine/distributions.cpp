// SPDX-License-Identifier: Apache-2.0
#include "tests/machine/distributions.hpp"

#include "tests/machine/classes.hpp"

namespace macheps::machine_oracle {

std::string_view name_of(Class cls) {
    static constexpr std::string_view names[] = {"random_bits",       "finite_bits",    "normal",     "close_exponents",
                                                 "cancellation",      "alignment_edge", "swamp",      "subnormal",
                                                 "near_one_and_four", "mixed",          "c_dominant", "c_tiny",
                                                 "overflow",          "underflow",      "tie",        "zeros",
                                                 "specials",          "near_miss"};
    return names[static_cast<int>(cls)];
}

Case generate_against(const Instruction& instruction, Mutation mutation, std::mt19937_64& random, int attempts) {
    static constexpr Class everywhere[] = {
        Class::swamp,        Class::swamp,     Class::alignment_edge, Class::near_one_and_four,
        Class::tie,          Class::c_tiny,    Class::c_dominant,     Class::close_exponents,
        Class::cancellation, Class::subnormal, Class::mixed,          Class::overflow,
        Class::underflow,    Class::zeros};
    static constexpr Class near_zero[] = {Class::underflow, Class::underflow, Class::zeros, Class::swamp};
    static constexpr Class steep[] = {Class::swamp, Class::swamp, Class::near_one_and_four, Class::subnormal};
    static constexpr Class ties[] = {Class::tie};
    static constexpr Class great[] = {Class::overflow, Class::overflow, Class::mixed, Class::finite_bits};
    std::span<const Class> pool = everywhere;
    switch (mutation) {
        case Mutation::e_zero_lower:
        case Mutation::e_zero_higher:
        case Mutation::underflow_minus_zero:
            pool = std::span<const Class>(near_zero).first(1);
            break;
        case Mutation::zero_reads_emin:
        case Mutation::zero_reads_m126:
        case Mutation::zero_scale_counts:
            pool = near_zero;
            break;
        case Mutation::product_renormalised:
            pool = steep;
            break;
        case Mutation::no_31_bit_floor:
            pool = ties;
            break;
        case Mutation::products_stay_finite:
            pool = great;
            break;
        default:
            break;
    }
    Case found;
    for (int i = 0; i < attempts; ++i) {
        found = generate(instruction, pool[random() % pool.size()], random);
        const auto d = [&](Mutation m) {
            return evaluate(instruction, found.a, found.b, found.c, found.sa, found.sb, m);
        };
        if (!same_result(instruction, d(Mutation::none), d(mutation))) break;
    }
    return found;
}

Case generate(const Instruction& instruction, Class cls, std::mt19937_64& random) {
    Maker m(instruction, random);
    if (instruction.model == Model::integer) {
        classes::integers(m, cls);
        return m.made;
    }
    switch (cls) {
        case Class::random_bits:
            classes::random_bits(m, false);
            break;
        case Class::finite_bits:
            classes::random_bits(m, true);
            break;
        case Class::normal:
            classes::normal(m);
            break;
        case Class::close_exponents:
            classes::close_exponents(m);
            break;
        case Class::cancellation:
            classes::cancellation(m);
            break;
        case Class::alignment_edge:
            classes::alignment_edge(m);
            break;
        case Class::swamp:
            classes::swamp(m);
            break;
        case Class::subnormal:
            classes::subnormal(m);
            break;
        case Class::near_one_and_four:
            classes::near_one_and_four(m);
            break;
        case Class::mixed:
            classes::mixed(m);
            break;
        case Class::c_dominant:
            classes::c_far(m, 1);
            break;
        case Class::c_tiny:
            classes::c_far(m, -1);
            break;
        case Class::overflow:
            classes::overflow(m);
            break;
        case Class::underflow:
            classes::underflow(m);
            break;
        case Class::tie:
            classes::tie(m);
            break;
        case Class::zeros:
            classes::zeros(m);
            break;
        case Class::specials:
            classes::specials(m);
            break;
        case Class::near_miss: {
            std::vector<Mutation> wrong;
            for (int i = 1; i < static_cast<int>(Mutation::count); ++i)
                if (judge(instruction, static_cast<Mutation>(i)).kind == Verdict::visible)
                    wrong.push_back(static_cast<Mutation>(i));
            return generate_against(instruction, wrong[random() % wrong.size()], random, 32);
        }
        case Class::count:
            break;
    }
    return m.made;
}

}  // namespace macheps::machine_oracle
