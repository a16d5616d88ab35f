// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/truth/sums.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>

namespace macheps::check {

namespace {

struct ShapeRow {
    std::string_view name;
    SumShape shape;
    bool has_width;
    /// Returns the largest number of additions between one of n terms and the final sum.
    std::int64_t (*height)(std::int64_t n, std::int64_t width);
};

/// Returns the height of the flattest binary tree with this number of leaves.
std::int64_t depth(std::int64_t leaves) { return std::bit_width(static_cast<std::uint64_t>(leaves - 1)); }
std::int64_t quotient(std::int64_t n, std::int64_t width) { return (n + width - 1) / width; }

constexpr ShapeRow shapes[] = {
    {"any", SumShape::any, false, [](std::int64_t n, std::int64_t) { return n - 1; }},
    {"pairwise", SumShape::pairwise, false, [](std::int64_t n, std::int64_t) { return depth(n); }},
    {"lanes", SumShape::lanes, true,
     [](std::int64_t n, std::int64_t width) { return quotient(n, width) - 1 + depth(std::min(n, width)); }},
    {"blocks", SumShape::blocks, true,
     [](std::int64_t n, std::int64_t width) { return std::min(n, width) - 1 + depth(quotient(n, width)); }},
    {"kahan", SumShape::kahan, false, [](std::int64_t, std::int64_t) { return std::int64_t{2}; }},
};

const ShapeRow& row_of(SumShape shape) {
    return *std::find_if(std::begin(shapes), std::end(shapes), [&](const ShapeRow& row) { return row.shape == shape; });
}

const ShapeRow* shape_named(std::string_view text, std::int64_t& width) {
    for (const ShapeRow& row : shapes) {
        if (!row.has_width && text == row.name) return &row;
        if (!row.has_width || !text.starts_with(row.name)) continue;
        const std::string_view digits = text.substr(row.name.size());
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), width);
        if (error == std::errc{} && end == digits.data() + digits.size() && width >= 1 && width <= 1 << 20) return &row;
    }
    return nullptr;
}

}  // namespace

SumOrder parse_sum_order(std::string_view text, std::string_view where) {
    SumOrder order;
    const std::size_t dot = text.find('.');
    const std::string_view first = text.substr(0, dot);
    if (const ShapeRow* row = shape_named(text, order.width); row != nullptr) {
        order.shape = row->shape;
        return order;
    }
    if (const NamedFormat* named = find_format(first); named != nullptr && named->format.precision <= fp32.precision) {
        order.accumulator = named->format;
        if (dot == std::string_view::npos) return order;
        if (const ShapeRow* row = shape_named(text.substr(dot + 1), order.width); row != nullptr) {
            order.shape = row->shape;
            return order;
        }
    }
    std::vector<std::string> known;
    for (const ShapeRow& row : shapes) known.push_back(fmt::format("{}{}", row.name, row.has_width ? "32" : ""));
    throw Error(
        {.what = fmt::format("unknown order of summation '{}'", text),
         .where = std::string(where),
         .fix = fmt::format("use one of {}, or put a format before it, as in fp16.pairwise; bf16 alone is bf16.any",
                            fmt::join(known, ", ")),
         .exit = Exit::usage});
}

std::string sum_order_text(const SumOrder& order) {
    const ShapeRow& row = row_of(order.shape);
    std::string text = row.has_width ? fmt::format("{}{}", row.name, order.width) : std::string(row.name);
    return order.accumulator == fp32 ? text : fmt::format("{}.{}", format_name(order.accumulator), text);
}

double sum_height(const SumOrder& order, std::int64_t terms) {
    if (terms <= 1) return 0;
    return static_cast<double>(row_of(order.shape).height(terms, order.width));
}

double sum_error(const SumOrder& order, std::int64_t terms) {
    const double n = static_cast<double>(terms), u = Format::power_of_two(-order.accumulator.precision),
                 height = sum_height(order, terms);
    // The bound for any order is (n - 1) u, without terms of second order (Jeannerod and Rump 2013). The bound for a
    // tree of height h is (1 + u)^h - 1, which has such terms. The bound for Kahan's sum is 2 u + O(n u^2) (Higham,
    // Accuracy and Stability, 4.3).
    double error = height * u;
    if (order.shape == SumShape::kahan)
        error += 4 * n * u * u;
    else if (order.shape != SumShape::any)
        error *= 1 + height * u;
    // If the accumulator is narrower than fp32, the terms themselves are also rounded.
    if (order.is_narrow() && terms > 0) error += u * (1 + error);
    return error;
}

}  // namespace macheps::check
