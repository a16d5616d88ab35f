// SPDX-License-Identifier: Apache-2.0
// GemmRow: the measurements of `macheps gemm` for one matrix product on one machine. The writer of the CSV file and the
// report share this schema. event.hpp describes the cells.
#pragma once
#include "reports/rows/event.hpp"

namespace macheps::reports {

/// The errors of out = a b, where a is [m,k] and b is [k,n]. `exact` is the exact product of the rounded operands.
/// In the comments below, e is out - exact, |a||b| is the sum of the magnitudes of the k products of an output, and ulp
/// is the unit in the last place of the format `output` at the exact value. Outputs that `nonfinite` or `saturated`
/// counts are left out of all errors. Relative errors also leave out outputs whose exact value is zero.
struct GemmRow {
    std::string machine{};  ///< as given: a machine, possibly with a suffix such as `+promote128`, or a named rule
    std::string format_a{}, format_b{}, output{};
    std::string distribution{}, scaling{};
    double scale = 1;  ///< factor on the drawn values
    std::int64_t seed = 0, m = 0, n = 0, k = 0;
    std::uint64_t outputs = 0;                               ///< finite outputs, including those in `saturated`
    std::uint64_t nonfinite = 0;                             ///< infinities and NaN
    std::optional<double> max_rel{}, mean_rel{}, rms_rel{};  ///< |e| / |exact|
    double max_ulp = 0, mean_ulp = 0;                        ///< |e| / ulp
    std::optional<double> sqnr_db{};                         ///< 10 log10(sum exact^2 / sum e^2); inf if all e are 0
    double max_error = 0, rms_error = 0;                     ///< |e| / |a||b|, to which the bounds apply
    double bias = 0;                                         ///< mean of e / |a||b|
    double drift = 0;  ///< mean of e sign(exact) / |a||b|: negative if sums are too small on average
    // Bounds on |e| / |a||b|. A bound that is not known is empty.
    std::optional<double> unit{};   ///< the machine's certain bound, divided by k; holds if nothing underflows
    std::optional<double> bound{};  ///< certain a-priori bound on max_error: k * unit, plus operand underflow
    std::optional<double>
        probable_bound{};            ///< mean truncation error, plus lambda standard deviations of the rounding errors
    std::optional<double> lambda{};  ///< an output exceeds probable_bound with probability < 2 exp(-lambda^2 / 2)
    double first = 0;                ///< out[0,0]
    double first_exact = 0;          ///< exact[0,0], rounded once to fp64
    std::optional<double> operand_sqnr_db{};  ///< SQNR of the exact product; the noise is the rounding of the operands
    std::string evidence{};                   ///< how the machine is known to be modelled correctly
    std::optional<std::uint64_t> beyond_bound{}, beyond_probable{};  ///< outputs whose |e| exceeds the respective bound
    // The columns from `via` to `fp64_error` are empty unless the result is computed from products of a narrower format
    // (`--via`).
    std::optional<std::string> via{};
    std::optional<std::int64_t> digit_bits{}, slices{}, products{};
    std::optional<std::uint64_t> inexact_products{};  ///< elements of narrow products that are not the exact integers
    std::optional<std::string> combine{};
    std::optional<double> fp64_error{};        ///< max_error of a chain of fp64 fmas on the same data
    std::optional<std::uint64_t> saturated{};  ///< outputs that are finite although a sum or the output overflowed
    // For `--via`: the errors of a chain of fmas in the format `output` on the same data, with one fma per term.
    std::optional<double> plain_error{}, plain_max_ulp{}, plain_mean_ulp{};

    bool operator==(const GemmRow&) const = default;
    static constexpr std::string_view file = "gemm.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("machine", &GemmRow::machine), column("format_a", &GemmRow::format_a),
                   column("format_b", &GemmRow::format_b), column("output", &GemmRow::output),
                   column("distribution", &GemmRow::distribution), column("scaling", &GemmRow::scaling),
                   column("scale", &GemmRow::scale), column("seed", &GemmRow::seed), column("m", &GemmRow::m),
                   column("n", &GemmRow::n), column("k", &GemmRow::k), column("outputs", &GemmRow::outputs),
                   column("nonfinite", &GemmRow::nonfinite), column("max_rel", &GemmRow::max_rel),
                   column("mean_rel", &GemmRow::mean_rel), column("rms_rel", &GemmRow::rms_rel),
                   column("max_ulp", &GemmRow::max_ulp), column("mean_ulp", &GemmRow::mean_ulp),
                   column("sqnr_db", &GemmRow::sqnr_db), column("max_error", &GemmRow::max_error),
                   column("rms_error", &GemmRow::rms_error), column("bias", &GemmRow::bias),
                   column("drift", &GemmRow::drift), column("unit", &GemmRow::unit), column("bound", &GemmRow::bound),
                   column("probable_bound", &GemmRow::probable_bound), column("lambda", &GemmRow::lambda),
                   column("first", &GemmRow::first), column("first_exact", &GemmRow::first_exact),
                   column("operand_sqnr_db", &GemmRow::operand_sqnr_db), column("evidence", &GemmRow::evidence),
                   column("beyond_bound", &GemmRow::beyond_bound), column("beyond_probable", &GemmRow::beyond_probable),
                   column("via", &GemmRow::via), column("digit_bits", &GemmRow::digit_bits),
                   column("slices", &GemmRow::slices), column("products", &GemmRow::products),
                   column("inexact_products", &GemmRow::inexact_products), column("combine", &GemmRow::combine),
                   column("fp64_error", &GemmRow::fp64_error), column("saturated", &GemmRow::saturated),
                   column("plain_error", &GemmRow::plain_error), column("plain_max_ulp", &GemmRow::plain_max_ulp),
                   column("plain_mean_ulp", &GemmRow::plain_mean_ulp));
    }
};

}  // namespace macheps::reports
