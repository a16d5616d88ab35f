// SPDX-License-Identifier: Apache-2.0
// Divides the errors of outputs by their expected deviations and examines them in rectangles of outputs. The tests of
// mean squares and bias (T3) use the results.
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <cmath>
#include <cstdint>
#include <span>

namespace macheps::check {

/// Sums of (error / deviation)^2 over `count` outputs. `total` is the sum for the kernel under test. `ideal` is the sum
/// for a kernel that makes no error except the final rounding. `ideal_inside` is the sum for a kernel that also rounds
/// intermediate results to the declared formats.
struct Squares {
    double total = 0, ideal = 0, ideal_inside = 0, count = 0;

    void add(const Squares& other) {
        total += other.total;
        ideal += other.ideal;
        ideal_inside += other.ideal_inside;
        count += other.count;
    }
    /// Returns the difference between the mean square of the kernel under test and the expected mean square. The
    /// expected one is the largest of three numbers: 1, which holds for uniform errors, and the mean squares of the two
    /// ideal kernels.
    double excess() const { return (total - std::max({count, ideal, ideal_inside})) / count; }
};

/// Limit of z (see GroupedErrors::z_of). It is also the number of standard deviations by which a bias may exceed its
/// systematic part.
inline constexpr double z_limit = 6;

/// A rectangle of outputs.
struct OutputBlock {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0;

    std::int64_t size() const { return rows * columns; }
};

class GroupedErrors {
  public:
    /// A group of outputs is not judged if it has fewer outputs, or fewer distinct outputs, than this number.
    static constexpr double min_group = 64;

    /// `got` holds all outputs of the check. `limits` and `got` must outlive the object.
    GroupedErrors(const Limits& limits, NumberView got)
        : limits_(limits), got_(got), stored_(limits), half_ulp_(limits.format) {}

    OutputBlock all() const { return {0, limits_.rows, 0, limits_.columns}; }

    /// Returns true if output i counts in the statistics. This requires that the output and its exact value are finite,
    /// that the output cannot overflow, and that its deviation is known.
    bool is_counted(std::size_t i) const {
        return std::isfinite(got_[i]) && std::isfinite(limits_.exact[i]) && limits_.deviation[i] > 0 &&
               limits_.overflow[i] == Overflowing::never;
    }
    /// Calls function(i) for each output of a group that is_counted() accepts, row by row.
    template <class Function>
    void visit(const OutputBlock& g, Function function) const {
        for (std::int64_t r = g.row; r < g.row + g.rows; ++r) {
            for (std::int64_t c = g.column; c < g.column + g.columns; ++c) {
                const auto i = static_cast<std::size_t>(r * limits_.columns + c);
                if (is_counted(i)) function(i);
            }
        }
    }
    /// Returns the Squares of output i alone, which are zero if the output is not counted.
    Squares squares_of(std::size_t i) const { return is_counted(i) ? squares_of(i, got_[i]) : Squares{}; }
    /// Returns the Squares that output i would have if its value were `got`.
    Squares squares_of(std::size_t i, double got) const {
        const double exact = limits_.exact[i], scaled = ((got - exact) - limits_.low[i]) / limits_.deviation[i];
        const auto square_of = [&](double ideal) {
            const double off = (ideal - exact) / limits_.deviation[i];
            return std::isfinite(off) ? off * off : 0;
        };
        Squares one{.total = scaled * scaled, .count = 1};
        if (limits_.is_narrow) one.ideal = square_of(stored_(exact));
        if (!limits_.rounded_inside.empty()) one.ideal_inside = square_of(stored_(limits_.rounded_inside[i]));
        return one;
    }
    /// Returns the effective number of independent errors in a group of outputs. For one rounding, it is (sum c)^2 /
    /// sum c^2, where each c is the number of outputs that share one error of that rounding. The result is the minimum
    /// over all roundings.
    double distinct(const OutputBlock& g) const;
    /// Returns z = (mean square - 1) / sqrt(8 / n) of a group of n outputs with these sums, or 0 if the group is too
    /// small. If z is large, outputs that share a rounding error count as one.
    double z_of(const OutputBlock& g, const Squares& sums) const;

  private:
    double kind_of(std::size_t i) const;

    const Limits& limits_;
    NumberView got_;
    Storing stored_;
    HalfUlp half_ulp_;
};

}  // namespace macheps::check
