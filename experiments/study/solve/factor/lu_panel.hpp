// SPDX-License-Identifier: Apache-2.0
// A panel of an LU factorisation, or the whole matrix if LU is not blocked. The columns are stored contiguously and are
// eliminated one at a time. After a group of eliminations, the columns to the right of the group are updated with the
// whole group at once. This delay does not change the order of the operations on any element.
#pragma once
#include "experiments/study/solve/factor/row_tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace macheps::study {

template <class Real>
class LuPanel {
  public:
    /// Copies columns [first, last) of a [n, n] from row `first` on.
    void take(std::int64_t n, const Real* a, std::int64_t first, std::int64_t last) {
        first_ = first;
        height_ = n - first;
        width_ = last - first;
        ld_ = height_ + apart;
        columns_.resize(static_cast<std::size_t>(width_ * ld_));
        for_each([&](std::int64_t i, std::int64_t j) { column(j)[i] = a[(first + i) * n + first + j]; });
    }

    /// Copies the panel back to its place.
    void give(std::int64_t n, Real* a) const {
        for_each([&](std::int64_t i, std::int64_t j) { a[(first_ + i) * n + first_ + j] = column(j)[i]; });
    }

    /// Eliminates the columns. Returns false if a pivot is zero or not finite. The functions do the following:
    /// - find_pivot(numbers, count) returns the index of the pivot.
    /// - divide(by, numbers, count) divides the numbers by `by`.
    /// - update(factor, u, to, count) computes to[j] = fl(to[j] - factor u[j]).
    /// - update_rows(tile) computes the same update for all rows and terms of a RowTile.
    /// - swap(k, pivot) exchanges two rows of the whole matrix.
    template <class FindPivot, class Divide, class Update, class UpdateRows, class Swap>
    bool eliminate(const FindPivot& find_pivot, const Divide& divide, const Update& update,
                   const UpdateRows& update_rows, const Swap& swap) {
        for (std::int64_t begin = 0; begin < width_; begin += together) {
            const std::int64_t end = std::min(begin + together, width_);
            std::int64_t k = begin;
            for (; k < end && bring_pivot(k, find_pivot, swap); ++k) {
                const std::int64_t left = height_ - k - 1;
                divide(column(k)[k], column(k) + k + 1, left);
                for (std::int64_t j = k + 1; j < end; ++j)
                    update(column(j)[k], column(k) + k + 1, column(j) + k + 1, left);
            }
            if (end < width_) {
                solve_right_of(begin, k, end, update);
                update_rows({.rows = width_ - end,
                             .terms = k - begin,
                             .width = height_ - end,
                             .l = column(end) + begin,
                             .ld_l = ld_,
                             .u = column(begin) + end,
                             .ld_u = ld_,
                             .a = column(end) + end,
                             .ld_a = ld_});
            }
            if (k < end) return false;
        }
        return true;
    }

    /// Computes the rows of U to the right of the panel, by forward substitution.
    template <class Update, class UpdateRows>
    void solve_beside(std::int64_t n, Real* a, const Update& update, const UpdateRows& update_rows) {
        constexpr std::int64_t ld = columns_beside + apart;
        beside_.resize(static_cast<std::size_t>(width_ * ld));
        Real* const rows = beside_.data();
        const Real* const l = a + first_ * n + first_;
        for (std::int64_t column = first_ + width_; column < n; column += columns_beside) {
            const std::int64_t count = std::min(columns_beside, n - column);
            Real* const corner = a + first_ * n + column;
            for (std::int64_t i = 0; i < width_; ++i) std::copy_n(corner + i * n, count, rows + i * ld);
            for (std::int64_t begin = 0; begin < width_; begin += together) {
                const std::int64_t end = std::min(begin + together, width_);
                for (std::int64_t i = begin + 1; i < end; ++i) {
                    for (std::int64_t k = begin; k < i; ++k) update(l[i * n + k], rows + k * ld, rows + i * ld, count);
                }
                update_rows({.rows = width_ - end,
                             .terms = end - begin,
                             .width = count,
                             .l = l + end * n + begin,
                             .ld_l = n,
                             .u = rows + begin * ld,
                             .ld_u = ld,
                             .a = rows + end * ld,
                             .ld_a = ld});
            }
            for (std::int64_t i = 0; i < width_; ++i) std::copy_n(rows + i * ld, count, corner + i * n);
        }
    }

  private:
    static constexpr std::int64_t together = 16;        ///< columns or rows in a group; a group is subtracted at once
    static constexpr std::int64_t columns_beside = 96;  ///< columns of U processed at a time; they fit in the L1 cache
    static constexpr std::int64_t apart = 16;           ///< padding against cache conflicts between columns

    Real* column(std::int64_t j) { return columns_.data() + j * ld_; }
    const Real* column(std::int64_t j) const { return columns_.data() + j * ld_; }

    /// Calls use(i, j) for all elements of the panel, row by row. The cache lines of the columns stay in the cache
    /// until the next rows need them.
    template <class Use>
    void for_each(const Use& use) const {
        for (std::int64_t row = 0; row < height_; row += together) {
            for (std::int64_t i = row; i < std::min(row + together, height_); ++i) {
                for (std::int64_t j = 0; j < width_; ++j) use(i, j);
            }
        }
    }

    /// Applies the eliminations of columns [begin, done) to rows [begin, end) of all columns from `end` on. Works row
    /// by row, because the parts of the rows in these columns are longer than the columns of the triangle [begin, end).
    template <class Update>
    void solve_right_of(std::int64_t begin, std::int64_t done, std::int64_t end, const Update& update) {
        const std::int64_t count = width_ - end;
        beside_.resize(static_cast<std::size_t>(together * count));
        const auto row = [&](std::int64_t i) { return beside_.data() + (i - begin) * count; };
        for (std::int64_t j = 0; j < count; ++j) {
            for (std::int64_t i = begin; i < end; ++i) row(i)[j] = column(end + j)[i];
        }
        for (std::int64_t i = begin + 1; i < end; ++i) {
            for (std::int64_t k = begin; k < std::min(i, done); ++k) update(column(k)[i], row(k), row(i), count);
        }
        for (std::int64_t j = 0; j < count; ++j) {
            for (std::int64_t i = begin; i < end; ++i) column(end + j)[i] = row(i)[j];
        }
    }

    template <class FindPivot, class Swap>
    bool bring_pivot(std::int64_t k, const FindPivot& find_pivot, const Swap& swap) {
        const Real* const numbers = column(k);
        const std::int64_t pivot = k + find_pivot(numbers + k, height_ - k);
        if (numbers[pivot] == 0 || !std::isfinite(numbers[pivot])) return false;
        if (pivot == k) return true;
        for (std::int64_t j = 0; j < width_; ++j) std::swap(column(j)[k], column(j)[pivot]);
        swap(first_ + k, first_ + pivot);
        return true;
    }

    std::int64_t first_ = 0, height_ = 0, width_ = 0, ld_ = 0;
    std::vector<Real> columns_{}, beside_{};
};

}  // namespace macheps::study
