// SPDX-License-Identifier: Apache-2.0
// SumRow: the measurements of `macheps sum` for one sum in one format. The writer of the CSV file and the report share
// this schema. event.hpp describes the cells.
#pragma once
#include "reports/rows/event.hpp"

namespace macheps::reports {

/// The errors of a sum. In the comments below, s is the exact sum of the terms, S is the sum of their magnitudes, and u
/// is 2^-p for a format of p bits of precision, in every rounding mode. The terms are numbers of the format or, for a
/// dot product, exact products of such numbers. Trials whose result is not finite are left out of the errors.
struct SumRow {
    std::string method{}, format{}, round{}, data{};
    std::int64_t seed = 0, trials = 0, n = 0;
    std::string result{};                ///< code of the result of trial 0 in hex, padded to the width of the format
    double value = 0;                    ///< result of trial 0
    double exact = 0;                    ///< s, rounded once to fp64
    std::optional<double> cond{};        ///< S / |s|, or 2 S / |s| for a dot product
    std::optional<double> abs_error{};   ///< |value - s|
    std::optional<double> error_unit{};  ///< |value - s| / (u S)
    std::optional<double> rms_unit{}, mean_unit{};  ///< rms and signed mean, over all trials, of error / (u S)
    std::optional<std::int64_t> height{};           ///< additions on the longest path of the sum
    std::optional<double> bound_unit{};             ///< certain bound on error_unit
    std::optional<double> probable_unit{};  ///< errors of mean 0 exceed it with probability < 2 exp(-lambda^2 / 2)
    double lambda = 4;
    std::optional<std::int64_t>
        stagnated_at{};                 ///< recursive sums without stochastic rounding: no term from here on changed it
    std::uint64_t nonfinite = 0;        ///< number of trials whose result is not finite
    std::optional<std::int64_t> dot{};  ///< 1 for a dot product
    /// Number of trials whose result is finite although an operation overflowed and returned the largest number. A row
    /// with such trials has no bounds.
    std::optional<std::uint64_t> saturated{};

    bool operator==(const SumRow&) const = default;
    static constexpr std::string_view file = "sum.csv";
    template <class Use>
    static constexpr auto columns(const Use& use) {
        return use(column("method", &SumRow::method), column("format", &SumRow::format),
                   column("round", &SumRow::round), column("data", &SumRow::data), column("seed", &SumRow::seed),
                   column("trials", &SumRow::trials), column("n", &SumRow::n), column("result", &SumRow::result),
                   column("value", &SumRow::value), column("exact", &SumRow::exact), column("cond", &SumRow::cond),
                   column("abs_error", &SumRow::abs_error), column("error_unit", &SumRow::error_unit),
                   column("rms_unit", &SumRow::rms_unit), column("mean_unit", &SumRow::mean_unit),
                   column("height", &SumRow::height), column("bound_unit", &SumRow::bound_unit),
                   column("probable_unit", &SumRow::probable_unit), column("lambda", &SumRow::lambda),
                   column("stagnated_at", &SumRow::stagnated_at), column("nonfinite", &SumRow::nonfinite),
                   column("dot", &SumRow::dot), column("saturated", &SumRow::saturated));
    }
};

}  // namespace macheps::reports
