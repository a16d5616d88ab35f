// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/sliced.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

constexpr std::int64_t width = 64;  ///< number of columns that are processed at a time
using Lane = std::array<double, width>;

/// Partial sums of all lanes, with the minimum and the maximum that each has reached.
struct Lanes {
    std::int64_t count;
    std::vector<Lane> sum{}, low{}, high{};

    explicit Lanes(std::int64_t lanes) : count(lanes) {}

    void clear() {
        for (std::vector<Lane>* each : {&sum, &low, &high}) each->assign(static_cast<std::size_t>(count), Lane{});
    }
    void add(std::int64_t step, const Lane& x) {
        const auto lane = static_cast<std::size_t>(step % count);
        Lane &s = sum[lane], &l = low[lane], &h = high[lane];
        for (std::size_t j = 0; j < width; ++j) {
            s[j] += x[j];
            l[j] = s[j] < l[j] ? s[j] : l[j];
            h[j] = s[j] > h[j] ? s[j] : h[j];
        }
    }
    double range(std::size_t lane, std::size_t j) const { return high[lane][j] - low[lane][j]; }
};

/// Ranges (maximum - minimum) of the partial sums of lanes in one slicing: `largest` is the largest range of a lane,
/// and `all` is the sum of the ranges of all lanes.
struct Reach {
    double largest = 0, all = 0;
};
/// Returns upper bounds on the ranges of a slicing with fewer lanes, each of which unites several lanes of `lanes`.
/// First, `together` neighbouring lanes become one, which leaves n lanes. Then lanes l, l + n / folds, l + 2 n / folds,
/// ... become one.
Reach reach_of(const Lanes& lanes, std::size_t together, std::size_t folds, std::size_t j) {
    Reach reach;
    const std::size_t count = static_cast<std::size_t>(lanes.count) / (together * folds);
    for (std::size_t lane = 0; lane < count; ++lane) {
        double range = 0;
        for (std::size_t fold = 0; fold < folds; ++fold) {
            for (std::size_t i = 0; i < together; ++i) range += lanes.range((lane + fold * count) * together + i, j);
        }
        reach.largest = std::max(reach.largest, range);
        reach.all += range;
    }
    return reach;
}

class Slicer {
  public:
    Slicer(const ProductOperands& of, double slices, std::int64_t matrix, std::int64_t column)
        : of_(of), slices_(slices), columns_(std::min(width, of.n - column)), b_(static_cast<std::size_t>(of.k)) {
        for (std::int64_t p = 0; p < of.k; ++p) {
            for (std::int64_t j = 0; j < columns_; ++j)
                b_[static_cast<std::size_t>(p)][static_cast<std::size_t>(j)] =
                    of.b[static_cast<std::size_t>((matrix * of.k + p) * of.n + column + j)];
        }
        // These slicings are computed with turns of 1 term and of 4 terms. All others are derived from them: 4, 16 and
        // 64 lanes from twice as many lanes, and turns of 8 terms from twice as many lanes with turns of 4 terms.
        for (const std::int64_t lanes : {1, 2, 8, 32, 128}) {
            if (lanes == 1 || lanes * 2 <= of.k) single_.emplace_back(lanes);
            if (lanes > 1 && lanes * 8 <= of.k) fours_.emplace_back(lanes);
        }
    }

    void row(std::int64_t row, const double* magnitudes, SumError* out) {
        walk(of_.a.data() + row * of_.k);
        for (std::int64_t j = 0; j < columns_; ++j) out[j] = error_of(static_cast<std::size_t>(j), magnitudes[j]);
    }

  private:
    void walk(const double* a) {
        for (Lanes& lanes : single_) lanes.clear();
        for (Lanes& lanes : fours_) lanes.clear();
        squares_ = {};
        Lane group{};
        for (std::int64_t p = 0; p < of_.k; ++p) {
            const Lane& b = b_[static_cast<std::size_t>(p)];
            Lane x;
            for (std::size_t j = 0; j < width; ++j) x[j] = a[p] * b[j];
            for (std::size_t j = 0; j < width; ++j) squares_[j] += x[j] * x[j];
            for (Lanes& lanes : single_) lanes.add(p, x);
            for (std::size_t j = 0; j < width; ++j) group[j] += x[j];
            if (p % 4 != 3 && p + 1 < of_.k) continue;
            for (Lanes& lanes : fours_) lanes.add(p / 4, group);
            group = {};
        }
    }

    SumError error_of(std::size_t j, double magnitude) const {
        const double u = fp32.unit_roundoff(), k = static_cast<double>(of_.k),
                     own = k * 0x1p-50 * magnitude;  // error of the sums in this function
        SumError worst;
        double certain = 0, square = 0;
        const auto observe = [&](Reach reach, std::int64_t lanes) {
            reach.largest += own;
            // Lanes may be joined each time that every lane has taken 16 terms.
            const double blocks = std::ceil(k / static_cast<double>(16 * lanes)),
                         joins = lanes == 1 ? 0 : std::min(k, static_cast<double>(lanes - 1) * blocks);
            const double join = std::min(reach.all + own, magnitude);
            // The terms between two joins form a block of neighbouring terms.
            const double of_blocks = lanes == 1 ? 0 : blocks, contiguous = single_.front().range(0, j) + own;
            certain = std::max(certain, u * (k * reach.largest + joins * join + of_blocks * contiguous));
            square = std::max(square, u * u *
                                          (k * reach.largest * reach.largest + joins * join * join +
                                           of_blocks * contiguous * contiguous));
            worst.range = std::max(worst.range, reach.largest);
        };
        for (const Lanes& lanes : single_) {
            observe(reach_of(lanes, 1, 1, j), lanes.count);
            if (lanes.count > 2) observe(reach_of(lanes, 1, 2, j), lanes.count / 2);
        }
        for (const Lanes& lanes : fours_) {
            observe(reach_of(lanes, 1, 1, j), lanes.count);
            if (lanes.count == 2) continue;
            observe(reach_of(lanes, 1, 2, j), lanes.count / 2);
            observe(reach_of(lanes, 2, 1, j), lanes.count / 2);
            observe(reach_of(lanes, 2, 2, j), lanes.count / 4);
        }
        // Slices may join in any order. A joined sum is the sum of a subset of the slices. Neighbouring slices in the
        // subset form one run of terms. The number of runs is at most half the number of slices, rounded up.
        const double slices = std::max(slices_, 4.0),
                     join = std::min(std::ceil(slices / 2) * single_.front().range(0, j) + own, magnitude);
        certain += u * (slices - 1) * join + 5 * u * magnitude;
        square += u * u * ((slices - 1) * join * join + 25 * squares_[j]);
        // Roundings have a nonzero mean if a sum is so long that addends are smaller than half a unit of the sum.
        const double lean = u * k * worst.range * std::min(1.0, k * u / 2);
        worst.certain = certain * (1 + 2 * k * u) * (1 + 0x1p-40);
        worst.mean = std::min(worst.certain, lean);
        worst.spread = std::sqrt(square);
        return worst;
    }

    const ProductOperands& of_;
    double slices_;
    std::int64_t columns_;
    std::vector<Lane> b_;
    std::vector<Lanes> single_{}, fours_{};  ///< lanes with turns of one term, and of four terms
    Lane squares_{};
};

/// Maximum number of terms, m n k, of a product for which this bound is computed in all rows.
constexpr std::int64_t max_sliced_terms = std::int64_t{1} << 29;

}  // namespace

std::vector<SumError> sliced_bound(const ProductOperands& of, const std::vector<double>& magnitudes, double slices,
                                   ThreadPool& pool) {
    std::vector<SumError> out(static_cast<std::size_t>(of.rows() * of.n),
                              {.certain = std::numeric_limits<double>::infinity()});
    const std::int64_t blocks = (of.n + width - 1) / width;
    pool.run(of.batches * blocks, [&](std::int64_t task) {
        const std::int64_t batch = task / blocks, column = task % blocks * width;
        if (of.first_row(batch) == of.first_row(batch + 1)) return;
        Slicer slicer(of, slices, of.has_one_b ? 0 : batch, column);
        for (std::int64_t row = of.first_row(batch); row < of.first_row(batch + 1); ++row) {
            const std::int64_t at = row * of.n + column;
            if (is_walked(of, row, max_sliced_terms)) slicer.row(row, magnitudes.data() + at, out.data() + at);
        }
    });
    return out;
}

}  // namespace macheps::check
