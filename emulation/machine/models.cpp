// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/models.hpp"

#include "core/math64.hpp"
#include "emulation/machine/step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace macheps {

namespace {

double parts(std::int64_t k, std::int64_t each) { return static_cast<double>((k + each - 1) / each); }
int log2_up(std::int64_t n) { return n <= 1 ? 0 : std::bit_width(static_cast<std::uint64_t>(n - 1)); }
double cut_of(const Machine& m) { return Format::power_of_two(-m.sum.fraction_bits); }

/// Bounds on the error of rounding a sum to the format of the result: `size` is relative to the sum. `underflow` is
/// absolute and applies to sums that underflow.
struct DeliveryError {
    double size, underflow;
    ErrorKind kind;
};
DeliveryError delivery_error(const Machine& m) {
    const Format f = matrix_unit::delivered_format(m.sum.delivery);
    const double u = f.unit_roundoff(), least = Format::power_of_two(f.emin() - f.precision);
    if (matrix_unit::rounds_to_nearest(m.sum.delivery)) return {u, least, ErrorKind::nearest};
    return {2 * u, 2 * least, ErrorKind::cut_sum};
}

/// Returns the factor by which a partial sum, after `steps` roundings, can exceed the sum of the magnitudes of its
/// terms. The factor is 1 if sums are truncated, because truncation never increases a magnitude. Bounds like those of
/// Jeannerod and Rump do not need this factor.
double growth(double steps, double size) { return math::pow_int(1 + size, static_cast<int>(steps)); }
double growth(double steps, const DeliveryError& d) { return d.kind == ErrorKind::nearest ? growth(steps, d.size) : 1; }

/// Returns the largest possible unit (value of the lowest bit that is kept) of a step in which a zero or subnormal
/// addend has the largest exponent.
double min_unit(const Machine& m) {
    return Format::power_of_two(std::max(m.sum.zero_exponent, m.sum.addend.emin())) * cut_of(m);
}

/// Returns the error bounds of a chain of `terms` roundings.
ModelErrors chained(double terms, const Machine& m) {
    const DeliveryError d = delivery_error(m);
    return {.relative = {{terms, d.size, d.kind}}, .underflow = terms * d.underflow};
}

/// Returns the error bounds of a model that truncates addends and rounds the sum of each step. `cuts` is the number of
/// truncated addends in all steps together. If a zero or subnormal C has the largest exponent of a step, at most
/// `cut_in_step` addends of this step lose bits.
ModelErrors cut_steps(const Machine& m, std::int64_t k, double cuts, double cut_in_step) {
    const DeliveryError d = delivery_error(m);
    const double steps = parts(k, m.sum.terms), grown = growth(steps, d);
    return {.relative = {{cuts, grown * cut_of(m), ErrorKind::cut_term}, {steps, grown * d.size, d.kind}},
            .underflow = steps * (d.underflow + cut_in_step * min_unit(m))};
}

/// Returns the error bounds of model `floored` or `floored_even_odd`. In each step, the products and `floors` more
/// numbers lose the bits that are more than F bits below the largest exponent. The sum of the products is rounded down
/// before C is added to it. The total is rounded down to 31 fraction bits and then rounded to the format of the result.
ModelErrors floored_errors(const Machine& m, std::int64_t k, int floors) {
    const DeliveryError d = delivery_error(m);
    const double steps = parts(k, m.sum.terms), floor = 0x1p-31 + 0x1p-32, grown = growth(steps, d.size + floor);
    return {.relative = {{static_cast<double>(m.sum.terms) + floors, grown * cut_of(m), ErrorKind::cut_term},
                         {steps, grown * floor, ErrorKind::cut_sum},
                         {steps, grown * d.size, d.kind}},
            .underflow = steps * (d.underflow + 0x1p-156)};
}

/// Returns a bound on the absolute error of a result that underflows: d.underflow, or 2^emin if results are flushed to
/// zero.
double flushed(const Machine& m, const DeliveryError& d) {
    return m.sum.flush_results == ResultFlush::no ? d.underflow : Format::power_of_two(m.result.emin());
}

/// Returns whether the machine flushes subnormal operands to zero. Only numbers that are subnormal in fp32 are flushed.
/// Among the operand formats of these machines, only bf16 has numbers that are subnormal in fp32.
bool flushes_operands(const Machine& m) { return m.sum.flush_operands && m.operands.contains(bf16); }

ModelErrors fma_errors(const Machine& m, std::int64_t k) {
    const DeliveryError d = delivery_error(m);
    const auto terms = static_cast<double>(k);
    const bool two = m.sum.flush_operands || m.sum.rounds_products;
    return {.relative = {{terms + (m.sum.rounds_products ? 1 : 0), d.size, d.kind}},
            .underflow = terms * flushed(m, d) * (two ? 2 : 1),
            .flushes_operands = flushes_operands(m)};
}

/// Returns the error bounds of model `odd_pairs`. Rounding to odd has an error of less than one ulp in either
/// direction.
ModelErrors odd_errors(const Machine& m, std::int64_t k) {
    const DeliveryError d = delivery_error(m);
    const double steps = parts(k, m.sum.terms), size = 2 * d.size;
    return {.relative = {{steps + 1, size * growth(steps + 1, size)}},
            .underflow = (static_cast<double>(k) + 3 * steps) * flushed(m, d),
            .flushes_operands = flushes_operands(m)};
}

ModelErrors pair_errors(const Machine& m, std::int64_t k) {
    const DeliveryError d = delivery_error(m);
    const double steps = parts(k, m.sum.terms);
    return {.relative = {{steps + 1, d.size * (1 + d.size), d.kind}}, .underflow = 2 * steps * d.underflow};
}

ModelErrors parted_errors(const Machine& m, std::int64_t k) {
    const DeliveryError d = delivery_error(m);
    const int joined = m.sum.joined_products;
    const double instructions = parts(k, m.k), chain = static_cast<double>(m.k) / (2 * joined);
    // Roundings: one for a sum of joined products (if any), one for each link of a chain, one for the sum of the two
    // chains, and one per instruction for the addition to C.
    const double roundings = (joined > 1 ? 1 : 0) + chain + 1 + instructions;
    return {.relative = {{roundings, d.size * (1 + roundings * d.size), d.kind}},
            .underflow = 2 * (static_cast<double>(k) + 2 * instructions) * flushed(m, d),
            .flushes_operands = flushes_operands(m)};
}

std::string whole_matmul(const Machine&) { return "none: the whole matmul is one sum"; }
std::string chained_products(const Machine& m) {
    return m.k == 1 ? "1 product" : fmt::format("{} chained steps of 1", m.k);
}
std::string groups_of_16(const Machine& m) { return fmt::format("1 step of {} groups of 16", m.k / 16); }
std::string two_in_fp16(const Machine& m) {
    return fmt::format("2 chained steps of {} in fp16, then one addition", m.k / 2);
}
std::string chained_steps(const Machine& m) {
    const int terms = m.sum.terms, steps = m.k / std::max(std::min(terms, m.k), 1);
    return steps == 1 ? fmt::format("1 step of {}", terms) : fmt::format("{} chained steps of {}", steps, terms);
}

std::vector<DisputedPoint> nothing_disputed(const Machine&) { return {}; }
std::vector<DisputedPoint> disputed_exact_step(const Machine& machine) {
    if (is_cpu_unit(machine)) return {};
    return {{"model", "how a step of CDNA1 adds", "one exact sum, rounded once",
             "fp32 additions in pairs (MMA-Sim of January 2026)"}};
}
std::vector<DisputedPoint> disputed_floors(const Machine&) {
    return {{"model", "effect of a product with a zero factor on the largest exponent", "none",
             "each zero operand has exponent -126 (MMA-Sim of January 2026)"},
            {"model", "the last step of CDNA3", "floored to 31 fraction bits, then rounded",
             "rounded directly (MMA-Sim of January 2026; Khattak and Mikaitis)"}};
}
/// Returns the disputed points of the models that truncate products and addend to a common unit. Machines of sm_90 have
/// no disputed points, because traces of an H100 settle them.
std::vector<DisputedPoint> disputed_cuts(const Machine& machine) {
    const SumRule& sum = machine.sum;
    std::vector<DisputedPoint> points;
    if (machine.arch == "sm_90") return points;
    points.push_back({"zero_factor_counts", "effect of a product with a zero factor on the largest exponent",
                      sum.zero_factor_counts ? "it counts, with the sum of its operands' exponents" : "none",
                      "each zero operand has exponent -126 (MMA-Sim of January 2026)"});
    // e_zero can change a result only if the exponents of products can be as low as e_zero. For accumulators and
    // operands that are not listed here, the exponents are always higher.
    if (sum.addend == fp16 && machine.instruction.substr(0, 7) == "tcgen05" && sum.model == SumModel::truncated) {
        points.push_back({"zero_exponent", "e_zero, the exponent of C = 0", std::to_string(sum.zero_exponent),
                          "-21, as for wgmma on an H100"});
    } else if (sum.addend == fp16 && machine.instruction == "mma" && sum.model == SumModel::truncated) {
        points.push_back({"zero_exponent", "e_zero, the exponent of C = 0", std::to_string(sum.zero_exponent),
                          fmt::format("{} (a table of arXiv 2511.10909v2)", sum.zero_exponent - 1)});
    } else if (machine.operands.contains(bf16) || machine.operands.contains(tf32) || machine.scale == e8m0fnu) {
        points.push_back({"zero_exponent", "e_zero, the exponent of C = 0", std::to_string(sum.zero_exponent),
                          "-126 (MMA-Sim of January 2026)"});
    }
    points.push_back(
        {"underflow_keeps_sign", "result of a negative sum that underflows", sum.underflow_keeps_sign ? "-0" : "+0",
         sum.underflow_keeps_sign ? "+0 (an H100; MMA-Sim of January 2026)" : "-0 (newer MMA-Sim); an H100 gives +0"});
    points.push_back({"zeros_keep_sign", "result if all operands and C are -0", sum.zeros_keep_sign ? "-0" : "+0",
                      sum.zeros_keep_sign ? "+0 (MMA-Sim)" : "-0 (a table-driven model)"});
    if (sum.addend == fp16) {
        points.push_back(
            {"normalises_addend", "the exponent of a subnormal fp16 C",
             sum.normalises_addend ? "the exponent of its leading bit" : "-14, the smallest of fp16",
             sum.normalises_addend ? "-14 (MMA-Sim)" : "the exponent of its leading bit (Khattak and Mikaitis)"});
    }
    return points;
}

constexpr SumModelRow rows[] = {
    {.model = SumModel::fma_chain,
     .name = "fma_chain",
     .words = "One fused multiply-add per product, k ascending (or the odd product of each pair first, if the machine "
              "says so). Each is rounded once.",
     .formula = "c = round(a[k] b[k] + c)",
     .errors = fma_errors,
     .steps = chained_products,
     .disputed = nothing_disputed},
    {.model = SumModel::pairwise,
     .name = "pairwise",
     .words = "Products are rounded, then added in a binary tree: a sum of n terms adds the sum of the first h terms "
              "and the sum of the rest, where h is the largest power of two below n.",
     .formula = "sum(n) = round(sum(first h) + sum(rest)), h = the largest power of two below n",
     .errors = [](const Machine& m, std::int64_t k) -> ModelErrors {
         const DeliveryError d = delivery_error(m);
         const double depth = 1.0 + log2_up(k);
         return {.relative = {{depth, d.size * (1 + depth * d.size)}},
                 .underflow = static_cast<double>(k) * d.underflow};
     },
     .steps = whole_matmul,
     .disputed = nothing_disputed},
    {.model = SumModel::kahan,
     .name = "kahan",
     .words = "Products are rounded, then added with Kahan's compensated sum, k ascending.",
     .formula = "y = p - e;  t = s + y;  e = (t - s) - y;  s = t",
     .errors = [](const Machine& m, std::int64_t k) -> ModelErrors {
         const DeliveryError d = delivery_error(m);
         const auto terms = static_cast<double>(k);
         return {.relative = {{4, d.size}, {1, (4 * terms + 12) * d.size * d.size}}, .underflow = terms * d.underflow};
     },
     .steps = whole_matmul,
     .disputed = nothing_disputed},
    {.model = SumModel::exact,
     .name = "exact",
     .words = "All products of a matmul are added exactly, and the sum is rounded once.",
     .formula = "d = round(sum a[k] b[k])",
     .errors = [](const Machine& m, std::int64_t) { return chained(1, m); },
     .steps = whole_matmul,
     .disputed = nothing_disputed},
    {.model = SumModel::truncated,
     .name = "truncated",
     .words = "The L products and C are cut toward zero to a common unit, F bits below the largest exponent among "
              "them, and then added exactly. The exponent of a product is the sum of the exponents of its operands: "
              "the product is not normalised, and a subnormal has the smallest exponent of its format.",
     .formula = "emax = max(e_a + e_b of products that are not zero, e_C)     C = 0 has the exponent e_zero\n"
                "unit = 2^(emax - F)\n"
                "S    = sum trunc(a b / unit) + trunc(C / unit)\n"
                "D    = round(S unit)                                         S = 0 gives +0",
     .errors = [](const Machine& m, std::int64_t k) { return cut_steps(m, k, static_cast<double>(k), m.sum.terms); },
     .steps = chained_steps,
     .disputed = disputed_cuts},
    {.model = SumModel::scaled_groups,
     .name = "scaled_groups",
     .words = "The products form groups of 16. Each group is summed exactly and multiplied by its two scales. The "
              "groups and C are cut toward zero to a common unit, F bits below the largest exponent of the scales "
              "and of C, and then added exactly.",
     .formula = "P_g  = exact sum of a b over group g\n"
                "emax = max(e_alpha + e_beta of each group, e_C)     a group of zeros and C = 0 have e_zero\n"
                "unit = 2^(emax - F)\n"
                "S    = sum trunc(P_g alpha_g beta_g / unit) + trunc(C / unit)\n"
                "D    = round(S unit)",
     .errors = [](const Machine& m, std::int64_t k) { return cut_steps(m, k, parts(k, 16), parts(m.sum.terms, 16)); },
     .steps = groups_of_16,
     .disputed = disputed_cuts},
    {.model = SumModel::through_fp16,
     .name = "through_fp16",
     .words = "This instruction does not use an fp8 unit. The operands are converted to fp16. One fp16 step adds the "
              "products with k mod 4 in {0, 1}. A second fp16 step adds the products with k mod 4 in {2, 3} to the "
              "result of the first. At the end, the addend is added with one IEEE addition.",
     .formula =
         "T = step(products with k mod 4 in {0, 1}; addend +0)     a step of model `truncated` on fp16 operands\n"
         "U = step(products with k mod 4 in {2, 3}; addend T)\n"
         "D = round to nearest even(C + U)",
     .errors = [](const Machine& m, std::int64_t k) -> ModelErrors {
         const DeliveryError d = delivery_error(m);
         const double instructions = parts(k, m.k), terms = m.k, grown = growth(2, d);
         const double inside = grown * (terms * cut_of(m) + 2 * d.size);
         return {.relative = {{terms, grown * cut_of(m), ErrorKind::cut_term},
                              {2, grown * d.size, d.kind},
                              {instructions, (1 + inside) * m.result.unit_roundoff()}},
                 .underflow = instructions * (2 * d.underflow + terms * min_unit(m))};
     },
     .steps = two_in_fp16,
     .disputed = disputed_cuts},
    {.model = SumModel::exact_step,
     .name = "exact_step",
     .words = "The L products and C are added exactly and rounded once.",
     .formula = "D = round(sum a b + C)",
     .errors = [](const Machine& m, std::int64_t k) { return chained(parts(k, m.sum.terms), m); },
     .steps = chained_steps,
     .disputed = disputed_exact_step},
    {.model = SumModel::flushed_pairs,
     .name = "flushed_pairs",
     .words = "Products and sums are rounded to nearest in fp32. Subnormals are flushed: operands and C to +0, results "
              "to a zero of their sign.",
     .formula = "L = 4: D = C + ((p0 + p1) + (p2 + p3))\n"
                "L = 2: D = C + (p0 + p1)",
     .errors = [](const Machine& m, std::int64_t k) -> ModelErrors {
         const DeliveryError d = delivery_error(m);
         const double depth = 1.0 + log2_up(m.sum.terms), steps = parts(k, m.sum.terms),
                      size = d.size * (1 + 2 * depth * d.size);
         // A step may flush 2 L + 1 numbers: L products, L - 1 sums of products, the addend and the result.
         return {.relative = {{depth, size}, {steps, size}},
                 .underflow = steps * (2 * m.sum.terms + 1) * Format::power_of_two(m.result.emin()),
                 .flushes_operands = true};
     },
     .steps = chained_steps,
     .disputed = nothing_disputed},
    {.model = SumModel::floored,
     .name = "floored",
     .words = "The products are cut toward zero F bits below the largest of their exponents and added. The sum and C "
              "are rounded down and added. The result is normalised, rounded down to 31 fraction bits, and then "
              "rounded.",
     .formula = "e_d = max(e_a + e_b);  T = sum trunc(a b / 2^(e_d - F)) 2^(e_d - F)\n"
                "E   = max(e_d, e_C)                                  C = 0 has e_C = -126\n"
                "S   = floor(T to 2^(E - F - 8)) + floor(C to 2^(E - F))\n"
                "D   = round(floor(S to 31 fraction bits))",
     .errors = [](const Machine& m, std::int64_t k) { return floored_errors(m, k, 1); },
     .steps = chained_steps,
     .disputed = disputed_floors},
    {.model = SumModel::floored_even_odd,
     .name = "floored_even_odd",
     .words = "Like model `floored`, but even and odd products are cut separately, each half F bits below its own "
              "largest exponent, and both sums are rounded down before they are added. C is left out if its exponent "
              "is more than F + 1 below the largest exponent.",
     .formula = "T   = floor(T_even to 2^(e - F)) + floor(T_odd to 2^(e - F)), e = max(e_even, e_odd)\n"
                "E   = max(e, e_C);  C is dropped when e_C < E - F - 1\n"
                "S   = floor(T to 2^(E - F - 8)) + floor(C to 2^(E - F))\n"
                "D   = round(floor(S to 31 fraction bits))",
     .errors = [](const Machine& m, std::int64_t k) { return floored_errors(m, k, 3); },
     .steps = chained_steps,
     .disputed = disputed_floors},
    {.model = SumModel::pair_then_add,
     .name = "pair_then_add",
     .words = "The L products are added exactly and rounded once, to nearest. Then C is added, and the sum is rounded.",
     .formula = "s = round(sum a b)\n"
                "D = round(C + s)",
     .errors = pair_errors,
     .steps = chained_steps,
     .disputed = nothing_disputed},
    {.model = SumModel::odd_pairs,
     .name = "odd_pairs",
     .words =
         "Two products, their sum, and the sum with C are each rounded to odd in fp32: the last bit of an inexact "
         "result is odd. Subnormal inputs and results are flushed to zeros of their sign. Overflow gives infinity.",
     .formula = "p0 = odd(a0 b0);  p1 = odd(a1 b1)\n"
                "s  = odd(p0 + p1)\n"
                "D  = odd(C + s)",
     .errors = odd_errors,
     .steps = chained_steps,
     .disputed = nothing_disputed},
    {.model = SumModel::parted_chain,
     .name = "parted_chain",
     .words = "Two chains of fused multiply-adds start from +0 and span the whole instruction: one adds the even "
              "products, one the odd products. The chains are added to each other, and the sum to C. For fp8, "
              "products come in groups of four: the rounded sum of the first two goes to the even chain, the rounded "
              "sum of the last two to the odd chain.",
     .formula = "E = round(a[2i] b[2i] + E), O = round(a[2i + 1] b[2i + 1] + O), i ascending, from +0\n"
                "D = round(C + round(E + O))",
     .errors = parted_errors,
     .steps = chained_steps,
     .disputed = nothing_disputed},
};

static_assert([] {
    for (std::size_t i = 0; i < std::size(rows); ++i) {
        if (rows[i].model != static_cast<SumModel>(i)) return false;
    }
    return static_cast<std::size_t>(SumModel::parted_chain) + 1 == std::size(rows);
}());

}  // namespace

std::span<const SumModelRow> all_sum_models() { return rows; }

const SumModelRow& row_of(SumModel model) { return rows[static_cast<std::size_t>(model)]; }

}  // namespace macheps
