// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/data_ranges.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

/// Minimum and maximum of one row of finite numbers.
struct RowRange {
    double least = 0, greatest = 0;
    bool is_first_largest = false, is_last_largest = false;  ///< the first or last element has the largest magnitude

    double largest() const { return std::max(std::fabs(least), std::fabs(greatest)); }
};

std::vector<RowRange> rows_of(const MadeArray& x) {
    std::vector<RowRange> all;
    const auto columns = static_cast<std::size_t>(x.shape.back());
    for (std::size_t first = 0; first + columns <= x.values.size(); first += columns) {
        const auto begin = x.values.begin() + static_cast<std::ptrdiff_t>(first),
                   end = begin + static_cast<std::ptrdiff_t>(columns);
        if (!std::all_of(begin, end, [](double each) { return std::isfinite(each); })) continue;
        const auto [least, greatest] = std::minmax_element(begin, end);
        RowRange row{.least = *least, .greatest = *greatest};
        row.is_first_largest = std::fabs(*begin) == row.largest();
        row.is_last_largest = std::fabs(*(end - 1)) == row.largest();
        all.push_back(row);
    }
    return all;
}

struct RangeRow {
    std::string_view name;
    bool (*holds)(const RowRange& row);
};
constexpr RangeRow ranges[] = {
    {"a row below zero", [](const RowRange& r) { return r.greatest < 0; }},
    {"a row above zero", [](const RowRange& r) { return r.least > 0; }},
    {"a row of both signs with magnitudes below 8",
     [](const RowRange& r) { return r.least < -1 && r.greatest > 1 && r.largest() < 8; }},
    {"a row of small numbers", [](const RowRange& r) { return r.largest() > 0x1p-12 && r.largest() < 0x1p-6; }},
    {"a row whose exponentials overflow fp32", [](const RowRange& r) { return r.greatest > 89; }},
    {"a row whose exponentials underflow in fp32", [](const RowRange& r) { return r.greatest < -104; }},
    {"a row far below zero", [](const RowRange& r) { return r.greatest < -1e4; }},
    {"a row far above zero", [](const RowRange& r) { return r.least > 1e4; }},
    {"a row of zeros", [](const RowRange& r) { return r.largest() == 0; }},
    {"the largest magnitude at the beginning of a row",
     [](const RowRange& r) { return r.is_first_largest && r.least < r.greatest; }},
    {"numbers far apart", [](const RowRange& r) { return r.greatest - r.least > 60 && r.largest() < 1000; }},
    {"the largest magnitude at the end of a row",
     [](const RowRange& r) { return r.is_last_largest && r.least < r.greatest; }},
};

}  // namespace

std::vector<std::string_view> data_ranges_of(const MadeInputs& inputs) {
    if (inputs.request.declaration.operation->is_product || inputs.arrays.empty()) return {};
    const std::vector<RowRange> rows = rows_of(inputs.arrays.front());
    std::vector<std::string_view> names;
    for (const RangeRow& range : ranges) {
        if (std::any_of(rows.begin(), rows.end(), range.holds)) names.push_back(range.name);
    }
    const auto largest = std::max_element(
        rows.begin(), rows.end(), [](const RowRange& x, const RowRange& y) { return x.largest() < y.largest(); });
    if (largest != rows.end() && -largest->least > largest->greatest)
        names.push_back("the largest magnitude is negative");
    if (rows.size() > 1 && largest + 1 == rows.end() && largest->is_last_largest)
        names.push_back("the largest magnitude is the last");
    return names;
}

}  // namespace macheps::check
