// SPDX-License-Identifier: Apache-2.0
// Errors of outputs divided by their deviations, in rectangles of outputs: for tests of mean squares and bias (T3).
#pragma once
#include "experiments/check/bounds/limits.hpp"

#include <cmath>
#include <cstdint>
#include <span>

namespace macheps::check {

/// Sums of squared errors, each divided by its deviation. `ideal` is a kernel that makes only the last rounding, and
/// `ideal_inside` one that makes only the last rounding and the roundings to declared formats.
struct Squares {
    double total = 0, ideal = 0, ideal_inside = 0, count = 0;

    void add(const Squares& other) {
        total += other.total;
        ideal += other.ideal;
        ideal_inside += other.ideal_inside;
        count += other.count;
    }
    /// Returns the excess of the mean square over the largest of those of uniform errors and of the ideal kernels.
    double excess() const { return (total - std::max({count, ideal, ideal_inside})) / count; }
};

/// Mean squares and biases of more than this many deviations are refused.
inline constexpr double z_limit = 6;

/// A rectangle of outputs.
struct OutputBlock {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0;

    std::int64_t size() const { return rows * columns; }
};

class GroupedErrors {
  public:
    /// Groups with fewer outputs, or fewer distinct ones, are not judged.
    static constexpr double min_group = 64;

    /// `got` are all outputs. They and the limits must outlive the object.
    GroupedErrors(const Limits& limits, NumberView got)
        : limits_(limits), got_(got), stored_(limits), half_ulp_(limits.format) {}

    OutputBlock all() const { return {0, limits_.rows, 0, limits_.columns}; }

    /// Returns true if an output and its exact value are finite, it cannot overflow, and its deviation is known.
    bool is_counted(std::size_t i) const {
        return std::isfinite(got_[i]) && std::isfinite(limits_.exact[i]) && limits_.deviation[i] > 0 &&
               limits_.overflow[i] == Overflowing::never;
    }
    /// Calls function(i) for the outputs of a group that are counted, row by row.
    template <class Function>
    void visit(const OutputBlock& g, Function function) const {
        for (std::int64_t r = g.row; r < g.row + g.rows; ++r) {
            for (std::int64_t c = g.column; c < g.column + g.columns; ++c) {
                const auto i = static_cast<std::size_t>(r * limits_.columns + c);
                if (is_counted(i)) function(i);
            }
        }
    }
    /// Returns the squares of output i.
    Squares squares_of(std::size_t i) const { return is_counted(i) ? squares_of(i, got_[i]) : Squares{}; }
    /// Returns the squares of output i if its value were `got`.
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
    /// Returns the effective number of independent errors of a group: the minimum over all roundings of (sum c)^2 / sum
    /// c^2, where the c are the numbers of outputs that share an error of the rounding.
    double distinct(const OutputBlock& g) const;
    /// Returns z of a group with these sums; 0 for groups that are too small. If z is large, equal outputs count as
    /// one.
    double z_of(const OutputBlock& g, const Squares& sums) const;

  private:
    double kind_of(std::size_t i) const;

    const Limits& limits_;
    NumberView got_;
    Storing stored_;
    HalfUlp half_ulp_;
};

}  // namespace macheps::check
