// SPDX-License-Identifier: Apache-2.0
// SumRow: what `macheps sum` measured of one way to add the same numbers. The words on top of event.hpp about cells hold here
// too.
#pragma once
#include "reports/event.hpp"

namespace macheps {

/// s and S are the exact sums of the rounded data, or of the exact products of the rounded operands, and of their
/// magnitudes; u = 2^-p in every mode. Errors in units are over u S.
struct SumRow {
    std::string method{}, format{}, round{}, data{};
    std::int64_t seed = 0, trials = 0, n = 0;
    std::string result{};  ///< code of trial 0, in hexadecimal digits of the format's width
    double value = 0, exact = 0, cond = 0;
    std::optional<double> abs_error{}, error_unit{};
    std::optional<double> rms_unit{}, mean_unit{};  ///< over the finite trials
    std::optional<std::int64_t> height{};
    std::optional<double> bound_unit{}, probable_unit{};
    double lambda = 0;
    std::optional<std::int64_t> stagnated_at{};
    std::int64_t nonfinite = 0;
    bool dot = false;

    bool operator==(const SumRow&) const = default;
    static constexpr std::string_view file = "sum.csv";
    static constexpr auto columns = std::tuple(
        column("method", &SumRow::method), column("format", &SumRow::format), column("round", &SumRow::round),
        column("data", &SumRow::data), column("seed", &SumRow::seed), column("trials", &SumRow::trials),
        column("n", &SumRow::n), column("result", &SumRow::result), column("value", &SumRow::value),
        column("exact", &SumRow::exact), column("cond", &SumRow::cond), column("abs_error", &SumRow::abs_error),
        column("error_unit", &SumRow::error_unit), column("rms_unit", &SumRow::rms_unit),
        column("mean_unit", &SumRow::mean_unit), column("height", &SumRow::height),
        column("bound_unit", &SumRow::bound_unit), column("probable_unit", &SumRow::probable_unit),
        column("lambda", &SumRow::lambda), column("stagnated_at", &SumRow::stagnated_at),
        column("nonfinite", &SumRow::nonfinite), column("dot", &SumRow::dot));
};

}  // namespace macheps
