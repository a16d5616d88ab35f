// SPDX-License-Identifier: Apache-2.0
// FormulaRow: the measurements of `macheps eval` for one formula in one format. FormulaPointRow: the errors of that
// formula for one input. The writer of the CSV files and the report share this schema. event.hpp describes the cells.
#pragma once
#include "reports/rows/event.hpp"

namespace macheps::reports {

/// The reference is the exact value of the formula, rounded once to the format. The rounding mode is `round`, or to
/// nearest if `round` is stochastic. The error in bits is log2(1 + d), where d is the number of values of the format
/// between the result and the reference. If either the result or the reference is NaN, but not both, the error is the
/// width of the format.
struct FormulaRow {
    std::string expression{}, name{}, format{}, round{}, functions{};
    std::uint64_t inputs = 0;      ///< inputs whose reference is known and not NaN
    std::uint64_t skipped = 0;     ///< inputs whose reference is NaN
    std::uint64_t unresolved = 0;  ///< inputs whose reference cannot be determined, or for which a loop does not end
    std::optional<double> mean_bits{}, max_bits{};
    std::string worst_x{};            ///< first input whose error is max_bits: its codes in hex, then its values
    std::optional<double> max_ulp{};  ///< largest error in ulps over finite results and references
    /// Inputs whose result is 0 although the reference is not are counted in `underflow` or in `digits_lost`.
    std::uint64_t not_correct = 0, overflow = 0, underflow = 0, nan = 0;
    std::optional<std::string> variables{};  ///< names of the inputs, in the order of worst_x
    std::optional<std::uint64_t> digits_lost{};

    bool operator==(const FormulaRow&) const = default;
    static constexpr std::string_view file = "eval.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("expression", &FormulaRow::expression), column("name", &FormulaRow::name),
                   column("format", &FormulaRow::format), column("round", &FormulaRow::round),
                   column("functions", &FormulaRow::functions), column("inputs", &FormulaRow::inputs),
                   column("skipped", &FormulaRow::skipped), column("unresolved", &FormulaRow::unresolved),
                   column("mean_bits", &FormulaRow::mean_bits), column("max_bits", &FormulaRow::max_bits),
                   column("worst_x", &FormulaRow::worst_x), column("max_ulp", &FormulaRow::max_ulp),
                   column("not_correct", &FormulaRow::not_correct), column("overflow", &FormulaRow::overflow),
                   column("underflow", &FormulaRow::underflow), column("nan", &FormulaRow::nan),
                   column("variables", &FormulaRow::variables), column("digits_lost", &FormulaRow::digits_lost));
    }
};

struct FormulaPointRow {
    std::string x{};  ///< values of the inputs, separated by spaces
    double result = 0, reference = 0;
    std::optional<double> ulp{};
    double bits = 0;
    std::string expression{}, format{};

    bool operator==(const FormulaPointRow&) const = default;
    static constexpr std::string_view file = "eval_points.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("x", &FormulaPointRow::x), column("result", &FormulaPointRow::result),
                   column("reference", &FormulaPointRow::reference), column("ulp", &FormulaPointRow::ulp),
                   column("bits", &FormulaPointRow::bits), column("expression", &FormulaPointRow::expression),
                   column("format", &FormulaPointRow::format));
    }
};

}  // namespace macheps::reports
