// SPDX-License-Identifier: Apache-2.0
// Builds the problem of an operation on rows from its arrays. Each layout of arrays has its own function.
#include "experiments/check/pose/poser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace macheps::check {

namespace {

/// Sets the number of columns to the length of the last axis of `shape`, and the number of rows to the product of all
/// other lengths.
void set_rows(Posed& posed, const Shape& shape) {
    posed.problem.columns = shape.back();
    posed.problem.rows = product_of(shape, 0, shape.size() - 1);
    posed.problem.group_rows = posed.problem.rows;
}

void require_axis(const Poser& poser, std::string_view name, const Shape& shape) {
    if (shape.empty()) poser.bad(name, "a single number has no last axis", "save an array with at least one axis");
}

void require_shape(const Poser& poser, std::string_view name, const Shape& shape, const Shape& wanted,
                   std::string_view beside, const Shape& other) {
    if (shape == wanted) return;
    poser.bad(name, fmt::format("the shape {} does not fit {} {}", text_of(shape), beside, text_of(other)),
              fmt::format("save an array of shape {}", text_of(wanted)));
}

void add_input(Posed& posed, std::string_view name, DecodedInPlace array) {
    posed.problem.declaration.formats[std::string(name)].format = array.format;
    posed.problem.inputs.push_back({.name = name, .axis = Axis::each, .values = std::move(array.values)});
}

/// Returns element `places[r]` of each row r of x, or NaN if the index is out of range.
std::vector<double> gathered(const std::vector<std::int64_t>& places, const Decoded& x) {
    const std::int64_t columns = x.shape.back();
    std::vector<double> values(places.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t r = 0; r < places.size(); ++r) {
        if (places[r] < 0 || places[r] >= columns) continue;
        values[r] = x.values[r * static_cast<std::size_t>(columns) + static_cast<std::size_t>(places[r])];
    }
    return values;
}

/// Repeats a table of cosines or sines until it has the shape `shape`. The axes of the table correspond to the last
/// axes of `shape`, and have the same length or length 1. The last axis may also have half the length. Each number of
/// the table then applies to two elements of a row: the elements of a pair if `has_pairs` is true, otherwise the
/// elements at the same place in both halves.
std::vector<double> repeated(const Poser& poser, std::string_view name, const Decoded& table, const Shape& shape,
                             bool has_pairs) {
    const std::size_t lacks = shape.size() - std::min(shape.size(), table.shape.size());
    bool fits = !table.shape.empty() && table.shape.size() <= shape.size();
    const std::int64_t columns = shape.back(), width = fits ? table.shape.back() : 0;
    fits = fits && (width == columns || width * 2 == columns);
    for (std::size_t i = 0; fits && i + 1 < table.shape.size(); ++i)
        fits = table.shape[i] == 1 || table.shape[i] == shape[lacks + i];
    if (!fits)
        poser.bad(
            name, fmt::format("the shape {} does not fit x {}", text_of(table.shape), text_of(shape)),
            fmt::format("save a table whose last axis has {} or {} elements and whose other axes are those of x or 1",
                        columns / 2, columns));
    const std::int64_t rows = product_of(shape, 0, shape.size() - 1);
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    for (std::int64_t row = 0; row < rows; ++row) {
        std::int64_t rest = row, from = 0, step = 1;
        for (std::size_t i = shape.size() - 1; i-- > lacks;) {
            const std::int64_t length = table.shape[i - lacks];
            from += length == 1 ? 0 : rest % shape[i] * step;
            step *= length;
            rest /= shape[i];
        }
        for (std::int64_t c = 0; c < columns; ++c) {
            const std::int64_t place = width == columns ? c : has_pairs ? c / 2 : c % width;
            values[static_cast<std::size_t>(row * columns + c)] =
                table.values[static_cast<std::size_t>(from * width + place)];
        }
    }
    return values;
}

}  // namespace

void pose_rows(const Poser& poser, Posed& posed) {
    const Operation& operation = *poser.declaration().operation;
    const files::StoredArray* stored = poser.find("x");
    if (stored == nullptr) poser.decode("x");  // throws an Error that lists the arrays
    Shape shape = stored->shape;
    require_axis(poser, "x", shape);
    if (operation.gives_index) {
        const Integers out = poser.integers("out");
        posed.out_shape = out.shape;
        const Decoded x = poser.decode("x");
        shape = x.shape;
        if (out.values.size() * static_cast<std::size_t>(shape.back()) == x.values.size())
            posed.out = gathered(out.values, x);
    }
    const auto packed = poser.declaration().formats.find("x");
    if (packed != poser.declaration().formats.end() && packed->second.is_packed && !operation.gives_index)
        shape.back() *= 2;
    Shape wanted = shape;
    if (operation.is_one_per_row) {
        wanted.pop_back();
        Shape kept = wanted;
        kept.push_back(1);
        if (posed.out_shape == kept) wanted = kept;
    }
    require_shape(poser, "out", posed.out_shape, wanted, "x", shape);
    set_rows(posed, shape);
    poser.add_inputs(posed.problem, posed.out_shape);
}

void pose_gated(const Poser& poser, Posed& posed) {
    if (poser.find("gate") != nullptr || poser.find("up") != nullptr) {
        if (poser.find("x") != nullptr)
            poser.bad("x", "x cannot be combined with gate or up", "save gate and up, or x with both as halves");
        for (const char* name : {"gate", "up"}) {
            DecodedInPlace array = poser.decode_in_place(name);
            require_axis(poser, name, array.shape);
            require_shape(poser, name, array.shape, posed.out_shape, "outputs of shape", posed.out_shape);
            add_input(posed, name, std::move(array));
        }
        set_rows(posed, posed.out_shape);
        return;
    }
    const Decoded x = poser.decode("x");
    require_axis(poser, "x", x.shape);
    Shape wanted = x.shape;
    wanted.back() /= 2;
    if (x.shape.back() % 2 != 0)
        poser.bad("x", fmt::format("the last axis of shape {} is odd and has no halves", text_of(x.shape)),
                  "save gate and up");
    require_shape(poser, "out", posed.out_shape, wanted, "x", x.shape);
    set_rows(posed, wanted);
    const std::size_t half = static_cast<std::size_t>(wanted.back());
    for (const bool is_second : {false, true}) {
        std::vector<double> values;
        values.reserve(x.values.size() / 2);
        for (std::size_t at = is_second ? half : 0; at < x.values.size(); at += 2 * half)
            values.insert(values.end(), x.values.begin() + static_cast<std::ptrdiff_t>(at),
                          x.values.begin() + static_cast<std::ptrdiff_t>(at + half));
        const bool is_gate = is_second == poser.declaration().has_up_first;
        add_input(posed, is_gate ? "gate" : "up", {x.format, wanted, std::move(values)});
    }
}

void pose_rotary(const Poser& poser, Posed& posed) {
    DecodedInPlace x = poser.decode_in_place("x");
    require_axis(poser, "x", x.shape);
    require_shape(poser, "out", posed.out_shape, x.shape, "x", x.shape);
    if (x.shape.back() % 2 != 0)
        poser.bad("x", fmt::format("the last axis of shape {} is odd and has no pairs", text_of(x.shape)),
                  "save the part that is rotated");
    set_rows(posed, x.shape);
    const Shape shape = x.shape;
    add_input(posed, "x", std::move(x));
    for (const char* name : {"cos", "sin"}) {
        Decoded table = poser.decode(name);
        table.values = repeated(poser, name, table, shape, poser.declaration().has_pairs);
        add_input(posed, name, {table.format, std::move(table.shape), std::move(table.values)});
    }
}

void pose_gathered(const Poser& poser, Posed& posed) {
    Decoded table = poser.decode("table");
    Integers index = poser.integers("index");
    if (table.shape.size() != 2)
        poser.bad("table", fmt::format("the shape {} is not that of a matrix", text_of(table.shape)),
                  "save a matrix with one row for each index");
    Shape wanted = index.shape;
    wanted.push_back(table.shape[1]);
    require_shape(poser, "out", posed.out_shape, wanted, "table", table.shape);
    for (const std::int64_t row : index.values) {
        if (row >= 0 && row < table.shape[0]) continue;
        poser.bad("index", fmt::format("the index {} is outside a table of {} rows", row, table.shape[0]),
                  fmt::format("save indices from 0 to {}", table.shape[0] - 1));
    }
    set_rows(posed, wanted);
    posed.problem.declaration.formats["table"].format = table.format;
    posed.problem.inputs.push_back(
        {.name = "table", .axis = Axis::gathered, .values = std::move(table.values), .rows = std::move(index.values)});
}

void pose_classes(const Poser& poser, Posed& posed) {
    const Declaration& d = poser.declaration();
    DecodedInPlace x = poser.decode_in_place("x");
    require_axis(poser, "x", x.shape);
    const Integers target = poser.integers("target");
    Shape wanted = x.shape;
    wanted.pop_back();
    require_shape(poser, "target", target.shape, wanted, "x", x.shape);
    if (d.reduction == Reduction::none)
        require_shape(poser, "out", posed.out_shape, wanted, "x", x.shape);
    else if (posed.out.size() != 1)
        poser.bad("out",
                  fmt::format("the shape is {}, but the loss of all rows is one number", text_of(posed.out_shape)),
                  "save one number, or declare --reduction none");
    std::vector<double> classes;
    std::int64_t counted = 0;
    for (const std::int64_t place : target.values) {
        const bool is_ignored = d.ignored && place == *d.ignored;
        if (!is_ignored && (place < 0 || place >= x.shape.back()))
            poser.bad("target", fmt::format("the target {} is not one of {} classes", place, x.shape.back()),
                      "save valid targets, or declare --ignore-index");
        classes.push_back(static_cast<double>(place));
        counted += is_ignored ? 0 : 1;
    }
    set_rows(posed, x.shape);
    add_input(posed, "x", std::move(x));
    posed.problem.inputs.push_back({.name = "target", .axis = Axis::row, .values = std::move(classes)});
    double divisor = static_cast<double>(counted);
    if (poser.find("divisor") != nullptr) {
        const Integers given = poser.integers("divisor");
        if (given.values.size() != 1 || given.values.front() <= 0)
            poser.bad(
                "divisor",
                fmt::format("expected a single positive integer, but the array has shape {}", text_of(given.shape)),
                "save one positive integer");
        divisor = static_cast<double>(given.values.front());
    }
    posed.problem.inputs.push_back({.name = "divisor", .axis = Axis::whole, .values = {divisor}});
}

}  // namespace macheps::check
