// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/sample.hpp"

#include "experiments/check/truth/nodes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace macheps::check {

namespace {

std::size_t sample_index(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Returns all i below `count` with i % every == part, and in addition the first and the last i.
std::vector<std::int64_t> of_residue(std::int64_t count, std::int64_t part, std::int64_t every) {
    std::vector<std::int64_t> all{0};
    for (std::int64_t i = part; i < count; i += every) all.push_back(i);
    all.push_back(count - 1);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

/// Returns a step that is coprime to `every`, so that its multiples reach every residue. The step is about 5/8 of
/// `every`. Because this is close to the golden ratio, consecutive residues lie far apart.
std::int64_t step_of(std::int64_t every) {
    std::int64_t step = std::max<std::int64_t>(every * 5 / 8, 1);
    while (std::gcd(step, every) != 1) ++step;
    return step;
}

/// Returns the columns of each part. All parts get the same number of columns: shorter lists are extended by the last
/// columns of the product.
std::vector<std::vector<std::int64_t>> columns_of_parts(std::int64_t columns, std::int64_t every) {
    const auto count = sample_index(std::min(columns, (columns + every - 1) / every + 2));
    std::vector<std::vector<std::int64_t>> parts;
    for (std::int64_t part = 0; part < every; ++part) {
        std::vector<std::int64_t> all = of_residue(columns, part * step_of(every) % every, every);
        for (std::int64_t j = columns - 1; all.size() < count; --j) {
            if (!std::binary_search(all.begin(), all.end(), j))
                all.insert(std::lower_bound(all.begin(), all.end(), j), j);
        }
        parts.push_back(std::move(all));
    }
    return parts;
}

}  // namespace

Sample::Sample(const ProductOperands& whole, std::int64_t every)
    : every_(every),
      whole_rows_(whole.rows()),
      whole_columns_(whole.n),
      starts_{0},
      columns_(columns_of_parts(whole.n, every)) {
    for (std::int64_t batch = 0; batch < whole.batches; ++batch) {
        const std::int64_t first = whole.first_row(batch), count = whole.first_row(batch + 1) - first;
        for (std::int64_t part = 0; part < every; ++part) {
            for (const std::int64_t row : count == 0 ? std::vector<std::int64_t>{} : of_residue(count, part, every)) {
                rows_.push_back(first + row);
                part_of_.push_back(part);
            }
            starts_.push_back(rows());
        }
    }
}

Sample::Sample(const ProductOperands& whole, std::vector<std::int64_t> rows, std::vector<std::int64_t> starts)
    : every_(1),
      whole_rows_(whole.rows()),
      whole_columns_(whole.n),
      rows_(std::move(rows)),
      starts_(std::move(starts)),
      columns_(columns_of_parts(whole.n, 1)),
      part_of_(rows_.size()) {}

Sample Sample::of_groups(const ProductOperands& whole, std::span<const std::int64_t> sizes) {
    std::vector<std::int64_t> rows, starts{0};
    for (std::size_t group = 0; group < sizes.size(); ++group) {
        for (std::int64_t row = 0; row < sizes[group]; ++row)
            rows.push_back(whole.first_row(static_cast<std::int64_t>(group)) + row);
        starts.push_back(static_cast<std::int64_t>(rows.size()));
    }
    return Sample(whole, std::move(rows), std::move(starts));
}

bool Sample::has_row(std::int64_t whole_row) const { return std::binary_search(rows_.begin(), rows_.end(), whole_row); }

const std::vector<std::int64_t>& Sample::columns_of(std::int64_t row) const {
    return columns_[sample_index(part_of_[sample_index(row)])];
}

std::int64_t Sample::place(std::int64_t index) const {
    const std::int64_t row = index / columns();
    return rows_[sample_index(row)] * whole_columns_ + columns_of(row)[sample_index(index % columns())];
}

ProductOperands Sample::operands(const ProductOperands& whole) const {
    ProductOperands of{.batches = static_cast<std::int64_t>(starts_.size()) - 1,
                       .m = whole.m,
                       .n = columns(),
                       .k = whole.k,
                       .has_one_b = false,
                       .parts = every_,
                       .a_format = whole.a_format,
                       .b_format = whole.b_format};
    of.starts = starts_;
    of.k_block = whole.k_block;
    of.scale_format = whole.scale_format;
    const auto rows_of = [&](const std::vector<double>& from, std::int64_t width) {
        std::vector<double> to;
        to.reserve(from.empty() ? 0 : sample_index(rows() * width));
        for (std::size_t r = 0; r < rows_.size() && !from.empty(); ++r)
            to.insert(to.end(), from.begin() + rows_[r] * width, from.begin() + (rows_[r] + 1) * width);
        return to;
    };
    const auto planes_of = [&](const std::vector<double>& from, std::int64_t height) {
        std::vector<double> to;
        to.reserve(from.empty() ? 0 : sample_index(of.batches * height * of.n));
        for (std::int64_t part = 0; part < of.batches && !from.empty(); ++part) {
            const std::int64_t matrix = whole.has_one_b ? 0 : part / every_;
            for (std::int64_t p = 0; p < height; ++p) {
                const double* row = from.data() + (matrix * height + p) * whole.n;
                for (const std::int64_t j : columns_[sample_index(part % every_)]) to.push_back(row[j]);
            }
        }
        return to;
    };
    of.a = rows_of(whole.a, whole.k);
    of.raw_a = rows_of(whole.raw_a, whole.k);
    of.a_factors = rows_of(whole.a_factors, whole.blocks());
    of.b = planes_of(whole.b, whole.k);
    of.raw_b = planes_of(whole.raw_b, whole.k);
    of.b_factors = planes_of(whole.b_factors, whole.blocks());
    return of;
}

std::vector<double> Sample::outputs(NumberView whole) const {
    std::vector<double> all;
    all.reserve(sample_index(rows() * columns()));
    for (std::int64_t r = 0; r < rows(); ++r) {
        const std::int64_t first = rows_[sample_index(r)] * whole_columns_;
        for (const std::int64_t j : columns_of(r)) all.push_back(whole[sample_index(first + j)]);
    }
    return all;
}

Input Sample::input(const Input& whole) const {
    Input part = whole;
    std::vector<double> values;
    switch (whole.axis) {
        case Axis::each:
            values = outputs(whole.values);
            break;
        case Axis::row:
            for (const std::int64_t row : rows_) values.push_back(whole.values[sample_index(row)]);
            break;
        case Axis::column:  // each part has its own columns
            part.axis = Axis::each;
            for (std::int64_t r = 0; r < rows(); ++r) {
                for (const std::int64_t j : columns_of(r)) values.push_back(whole.values[sample_index(j)]);
            }
            break;
        default:
            return part;
    }
    part.values = std::move(values);
    return part;
}

}  // namespace macheps::check
