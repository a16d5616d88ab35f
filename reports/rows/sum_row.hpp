// SPDX-License-Identifier: Apache-2.0
// SumRow: what `macheps sum` measured of one sum in one format. Writer and report share this schema; the words on top of
// event.hpp about cells hold here too.
#pragma once
#include "reports/rows/event.hpp"

namespace macheps::reports {

/// s is the exact sum of the terms, which are numbers of the format (of a dot product the exact products of such), S that of
/// their magnitudes, u the format's unit roundoff 2^-p in every mode. Figures of errors leave out trials that are not finite.
struct SumRow {
    std::string method{}, format{}, round{}, data{};
    std::int64_t seed = 0, trials = 0, n = 0;
    std::string result{};                ///< of trial 0: its code in hex digits, as many as the format's width has
    double value = 0;                    ///< of trial 0
    double exact = 0;                    ///< s, rounded once to fp64
    std::optional<double> cond{};        ///< S / |s|, twice that of a dot product
    std::optional<double> abs_error{};   ///< |value - s|
    std::optional<double> error_unit{};  ///< |value - s| / (u S)
    std::optional<double> rms_unit{}, mean_unit{};  ///< over the trials, the second with its sign
    std::optional<std::int64_t> height{};           ///< additions on the longest path
    std::optional<double> bound_unit{};             ///< certain, on error_unit
    std::optional<double> probable_unit{};  ///< exceeded with probability < 2 exp(-lambda^2 / 2) where the theory holds
    double lambda = 4;
    std::optional<std::int64_t> stagnated_at{};  ///< of recursive sums: the first term from which none moved the sum
    std::uint64_t nonfinite = 0;                 ///< trials
    std::optional<std::int64_t> dot{};           ///< 1 for a dot product
    /// Trials that are finite although an operation overflowed: it ended at the largest number. No bound is given then.
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
