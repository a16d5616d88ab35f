// SPDX-License-Identifier: Apache-2.0
// The errors of outputs in their deviations, over rectangles of outputs: what the tests of mean squares and bias (T3) weigh.
#pragma once
#include "experiments/check/limits.hpp"

#include <cmath>
#include <cstdint>
#include <span>

namespace macheps::check {

/// Of errors in their deviations, and of those that a kernel has which only rounds.
struct Squares {
    double total = 0, ideal = 0, count = 0;

    void add(const Squares& other) {
        total += other.total;
        ideal += other.ideal;
        count += other.count;
    }
};

/// A rectangle of outputs.
struct OutputBlock {
    std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

class GroupedErrors {
  public:
    /// Groups with fewer outputs, or fewer distinct ones, are not judged.
    static constexpr double least_group = 64;

    /// `got` are all outputs; it and the limits must outlive this.
    GroupedErrors(const Limits& limits, std::span<const double> got)
        : l_(limits), got_(got), stored_(limits), half_ulp_(limits.format) {}

    OutputBlock all() const { return {0, l_.rows, 0, l_.columns}; }

    /// False of what has no error, or none that a deviation is known of.
    bool is_counted(std::size_t i) const {
        return std::isfinite(got_[i]) && std::isfinite(l_.exact[i]) && l_.deviation[i] > 0;
    }
    /// Calls function(i) for the outputs of a group that are counted, row by row.
    template <class Function>
    void visit(const OutputBlock& g, Function function) const {
        for (std::int64_t r = g.row; r < g.row + g.rows; ++r) {
            for (std::int64_t c = g.column; c < g.column + g.columns; ++c) {
                const auto i = static_cast<std::size_t>(r * l_.columns + c);
                if (is_counted(i)) function(i);
            }
        }
    }
    /// Of one output.
    Squares squares_of(std::size_t i) const {
        if (!is_counted(i)) return {};
        const double scaled = ((got_[i] - l_.exact[i]) - l_.low[i]) / l_.deviation[i],
                     ideal = l_.is_narrow ? (stored_(l_.exact[i]) - l_.exact[i]) / l_.deviation[i] : 0;
        return {scaled * scaled, std::isfinite(ideal) ? ideal * ideal : 0, 1};
    }
    /// How many distinct outputs a group has: those whose last rounding loses the same count as one.
    double distinct(const OutputBlock& g) const;
    /// z of a group whose sums are known: by its number of distinct outputs where it is large; 0 of groups that are too small.
    double z_of(const OutputBlock& g, const Squares& sums) const;

  private:
    double kind_of(std::size_t i) const;

    const Limits& l_;
    std::span<const double> got_;
    Storing stored_;
    HalfUlp half_ulp_;
};

}  // namespace macheps::check
