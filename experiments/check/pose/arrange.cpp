// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/pose/arrange.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace macheps::check {

namespace {

std::int64_t parts_of(std::int64_t n, std::int64_t each) { return (n + each - 1) / each; }

[[noreturn]] void bad(const std::string& where, std::string what, std::string fix) {
    throw Error({.what = std::move(what), .where = where, .fix = std::move(fix)});
}

}  // namespace

void transpose(Decoded& array) {
    const std::size_t rank = array.shape.size();
    const std::int64_t rows = array.shape[rank - 2], columns = array.shape[rank - 1];
    const auto plane = static_cast<std::size_t>(rows * columns);
    std::vector<double> out(array.values.size());
    for (std::size_t first = 0; first < out.size(); first += plane) {
        for (std::int64_t r = 0; r < rows; ++r) {
            for (std::int64_t c = 0; c < columns; ++c)
                out[first + static_cast<std::size_t>(c * rows + r)] =
                    array.values[first + static_cast<std::size_t>(r * columns + c)];
        }
    }
    array.values = std::move(out);
    std::swap(array.shape[rank - 2], array.shape[rank - 1]);
}

std::vector<std::int64_t> group_starts(const std::vector<std::int64_t>& numbers, bool are_sizes, std::int64_t groups,
                                       std::int64_t rows, const std::string& where) {
    const auto count = static_cast<std::int64_t>(numbers.size());
    if (count != groups && (are_sizes || count != groups + 1))
        bad(where, fmt::format("the array has {} numbers, but b has {} matrices", count, groups),
            are_sizes ? "save the number of rows of each group" : "save the end of each group");
    std::vector<std::int64_t> starts{0};
    for (std::int64_t i = are_sizes || count == groups ? 0 : 1; i < count; ++i) {
        const std::int64_t x = numbers[static_cast<std::size_t>(i)];
        // Sizes are compared before they are added, because the sum could overflow.
        const std::int64_t end = are_sizes && x >= 0 && x <= rows ? starts.back() + x : x;
        if (x < 0 || x > rows || end < starts.back() || end > rows)
            bad(where, fmt::format("group {} ends at row {} of {}", starts.size() - 1, end, rows),
                "save groups that cover the rows in order");
        starts.push_back(end);
    }
    if (starts.back() != rows || (count == groups + 1 && numbers.front() != 0))
        bad(where, fmt::format("the groups do not cover all rows (they end at row {} of {})", starts.back(), rows),
            "begin at row 0, and remove rows that belong to no group");
    return starts;
}

std::int64_t place_in_128x4(std::int64_t row, std::int64_t column, std::int64_t columns) {
    const std::int64_t tile = row / 128 * parts_of(columns, 4) + column / 4, in_tile = row % 128;
    return tile * 512 + in_tile % 32 * 16 + in_tile / 32 * 4 + column % 4;
}

std::vector<double> block_factors(const Decoded& scales, const ScaleBlock& block, ScaleStorage storage,
                                  std::int64_t matrices, std::int64_t outer, std::int64_t k, bool is_b,
                                  const std::string& where) {
    const std::int64_t rows = parts_of(outer, block.outer), columns = parts_of(k, block.k);
    const std::int64_t plane =
        storage == ScaleStorage::linear ? rows * columns : parts_of(rows, 128) * parts_of(columns, 4) * 512;
    const auto count = static_cast<std::int64_t>(scales.values.size());
    // `wanted` is the shape of the stored scales. For b, its first axis counts the blocks along k, except in cuBLAS's
    // tiled layout.
    const bool is_k_first = is_b && storage == ScaleStorage::linear;
    const Shape wanted = is_k_first ? Shape{columns, rows} : Shape{rows, columns};
    const bool fits = storage != ScaleStorage::linear ||
                      (scales.shape.size() >= 2 && std::equal(wanted.begin(), wanted.end(), scales.shape.end() - 2));
    if (count != plane * matrices || !fits)
        bad(where,
            fmt::format("the scales have shape {}, but there are {} x {} blocks", text_of(scales.shape), wanted[0],
                        wanted[1]),
            storage == ScaleStorage::linear ? "save one scale for each block"
                                            : fmt::format("save {} scales, padded for cublas128x4", plane * matrices));
    std::vector<double> all(static_cast<std::size_t>(matrices * outer * columns));
    for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
        for (std::int64_t o = 0; o < outer; ++o) {
            for (std::int64_t c = 0; c < columns; ++c) {
                const std::int64_t r = o / block.outer;
                const std::int64_t place = storage == ScaleStorage::cublas128x4 ? place_in_128x4(r, c, columns)
                                           : is_k_first                         ? c * rows + r
                                                                                : r * columns + c;
                all[static_cast<std::size_t>((matrix * outer + o) * columns + c)] =
                    scales.values[static_cast<std::size_t>(matrix * plane + place)];
            }
        }
    }
    return all;
}

void set_block_factors(ProductOperands& of, const std::vector<double>& a, std::int64_t a_block,
                       const std::vector<double>& b, std::int64_t b_block) {
    const std::int64_t shared = a.empty() ? b_block : b.empty() ? a_block : std::gcd(a_block, b_block);
    const std::int64_t blocks = parts_of(of.k, shared), matrices = of.matrices_of_b();
    of.k_block = shared;
    of.raw_a = of.a;
    of.raw_b = of.b;
    of.a_factors.assign(static_cast<std::size_t>(of.rows() * blocks), 1);
    of.b_factors.assign(static_cast<std::size_t>(matrices * blocks * of.n), 1);
    const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
    for (std::int64_t row = 0; row < of.rows() && !a.empty(); ++row) {
        for (std::int64_t c = 0; c < blocks; ++c)
            of.a_factors[at(row * blocks + c)] = a[at(row * parts_of(of.k, a_block) + c * shared / a_block)];
    }
    for (std::int64_t matrix = 0; matrix < matrices && !b.empty(); ++matrix) {
        for (std::int64_t j = 0; j < of.n; ++j) {
            for (std::int64_t c = 0; c < blocks; ++c)
                of.b_factors[at((matrix * blocks + c) * of.n + j)] =
                    b[at((matrix * of.n + j) * parts_of(of.k, b_block) + c * shared / b_block)];
        }
    }
    of.scale();
}

}  // namespace macheps::check
