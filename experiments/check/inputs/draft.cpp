// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/draft.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "experiments/check/pose/arrange.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace macheps::check {

namespace {

using Shape = std::vector<std::int64_t>;

const ArrayRole* role_of(const Operation& operation, std::string_view array) {
    const auto at = std::find_if(operation.arrays.begin(), operation.arrays.end(),
                                 [&](const ArrayRole& role) { return role.name == array; });
    return at == operation.arrays.end() ? nullptr : &*at;
}

/// Default contents of one array. The elements of arrays that are not in this table are drawn from N(0, 1).
struct Contents {
    std::string_view array;
    double (*value)(const Draws& draws, const InputRequest& request, std::int64_t i);
    bool is_whole = false;
};
/// Returns a random scale that is not close to zero, so that its effect can be seen.
double decode_scale(const Draws& draws, const InputRequest&, std::int64_t i) { return 0.5 + draws.uniform(i); }
constexpr Contents contents[] = {
    {"groups",
     [](const Draws&, const InputRequest& r, std::int64_t i) {
         return static_cast<double>(r.groups[static_cast<std::size_t>(i)]);
     },
     true},
    {"a_scale", decode_scale},
    {"b_scale", decode_scale},
    {"gain", [](const Draws& draws, const InputRequest&, std::int64_t i) { return 1 + 0.25 * draws.normal(i); }},
    {"target",
     [](const Draws& draws, const InputRequest& r, std::int64_t i) {
         return static_cast<double>(draws.whole(i, 0, r.columns - 1));
     },
     true},
    {"index",
     [](const Draws& draws, const InputRequest& r, std::int64_t i) {
         return static_cast<double>(draws.whole(i, 0, r.rows - 1));
     },
     true},
};

const Contents* contents_of(std::string_view array) {
    const auto* at = std::find_if(std::begin(contents), std::end(contents),
                                  [&](const Contents& each) { return each.array == array; });
    return at == std::end(contents) ? nullptr : at;
}

double rounded(const Format& format, double x) {
    const Overflow overflow = std::isfinite(x) ? Overflow::saturate : Overflow::nonsaturate;
    return decode64(format, encode64(format, x, Round::nearest_even, overflow));
}

}  // namespace

// --- InputRequest

Format InputRequest::format(std::string_view array) const {
    const auto declared = declaration.formats.find(array);
    return declared == declaration.formats.end() || declared->second.format.bits == 0 ? fp32 : declared->second.format;
}

std::vector<std::string_view> InputRequest::arrays() const {
    std::vector<std::string_view> names;
    if (declaration.operation->is_product) names = {"a", "b"};
    for (const ArrayRole& role : declaration.operation->arrays) {
        const bool is_declared = declaration.formats.find(role.name) != declaration.formats.end() ||
                                 declaration.scale_shapes.find(role.name) != declaration.scale_shapes.end();
        const bool is_needed = role.is_required || (role.name == "c" && declaration.beta != 1);
        const bool is_grouped = role.name == "groups" && !groups.empty();
        if (is_declared || is_needed || is_grouped) names.push_back(role.name);
    }
    return names;
}

std::vector<std::int64_t> InputRequest::shape_of(std::string_view array) const {
    const auto group_count = static_cast<std::int64_t>(groups.size());
    if (array == "groups") return {group_count};
    Shape shape;
    const bool is_of_b = array == "b" || array == "b_scale";
    if (group_count > 0 && (is_of_b || group_rows > 0)) shape.push_back(group_count);
    if (group_count == 0 && declaration.operation->is_product && batches > 1) shape.push_back(batches);
    const std::int64_t height = group_rows > 0 ? group_rows : declaration.operation->is_product ? m : rows;
    if (array == "a") return shape.push_back(height), shape.push_back(k), shape;
    if (array == "b") return shape.push_back(k), shape.push_back(n), shape;
    const ArrayRole& role = *role_of(*declaration.operation, array);
    const auto scales = declaration.scale_shapes.find(array);
    if (scales != declaration.scale_shapes.end() && scales->second == "tensor") return {1};
    if (const auto block = scales == declaration.scale_shapes.end() ? std::nullopt : scale_block(scales->second)) {
        const auto parts = [](std::int64_t size, std::int64_t each) { return (size + each - 1) / each; };
        if (array == "a_scale")
            return shape.push_back(parts(height, block->outer)), shape.push_back(parts(k, block->k)), shape;
        return shape.push_back(parts(k, block->k)), shape.push_back(parts(n, block->outer)), shape;
    }
    const bool is_product = declaration.operation->is_product;
    const std::int64_t width = is_product ? n : row_width();
    switch (role.axis) {
        case Axis::row:
            shape.push_back(height);
            // For a product, the array is a column: [..., m, 1].
            if (is_product) shape.push_back(1);
            return shape;
        case Axis::column:
            return {width};
        case Axis::whole:
            return {1};
        default:
            return shape.push_back(height), shape.push_back(width), shape;
    }
}

std::int64_t InputRequest::row_width() const {
    // A rotary embedding needs an even number of columns.
    return declaration.operation->layout == Layout::rotary ? columns + columns % 2 : columns;
}

std::vector<std::int64_t> InputRequest::out_shape() const {
    if (declaration.reduction != Reduction::none) return {1};
    if (declaration.operation->is_one_per_row) return {rows};
    if (!declaration.operation->is_product) return {rows, row_width()};
    if (group_rows > 0) return {static_cast<std::int64_t>(groups.size()), group_rows, n};
    return batches > 1 ? Shape{batches, m, n} : Shape{m, n};
}

int InputRequest::accumulator_bits() const {
    if (!declaration.machine) return fp32.precision;
    const Machine& machine = *declaration.machine->machine;
    const int bits = std::min(fp32.precision, machine.result.precision);
    const int kept = machine.sum.fraction_bits;
    return kept > 0 ? std::min(bits, kept + 1) : bits;
}

// --- MadeInputs

MadeArray& MadeInputs::at(std::string_view array) {
    return *std::find_if(arrays.begin(), arrays.end(), [&](const MadeArray& each) { return each.name == array; });
}

const MadeArray* MadeInputs::find(std::string_view array) const {
    const auto at =
        std::find_if(arrays.begin(), arrays.end(), [&](const MadeArray& each) { return each.name == array; });
    return at == arrays.end() ? nullptr : &*at;
}

// --- Maker

MadeInputs& Maker::add(std::string_view part) { return add(part, request_); }

MadeInputs& Maker::add(std::string_view part, const InputRequest& request) {
    MadeInputs inputs{.name = part.empty() ? recipe_ : fmt::format("{}-{}", recipe_, part), .request = request};
    for (const std::string_view name : request.arrays()) {
        MadeArray array{.name = std::string(name), .format = {request.format(name)}, .shape = request.shape_of(name)};
        const auto declared = request.declaration.formats.find(name);
        if (declared != request.declaration.formats.end()) array.format.is_packed = declared->second.is_packed;
        std::int64_t count = 1;
        for (const std::int64_t size : array.shape) count *= size;
        array.values.resize(static_cast<std::size_t>(count));
        const Draws draw(request.seed, inputs.name, name);
        const Contents* special = contents_of(name);
        array.is_whole = special != nullptr && special->is_whole;
        for (std::int64_t i = 0; i < count; ++i) {
            array.values[static_cast<std::size_t>(i)] =
                special == nullptr ? draw.normal(i) : special->value(draw, request, i);
        }
        inputs.arrays.push_back(std::move(array));
    }
    made_.push_back(std::move(inputs));
    return made_.back();
}

std::vector<MadeInputs> Maker::take() {
    for (MadeInputs& inputs : made_) {
        for (MadeArray& array : inputs.arrays) {
            for (double& x : array.values) x = array.is_whole ? x : rounded(array.format.format, x);
        }
    }
    return std::move(made_);
}

// --- formats

double greatest_of(const Format& format) { return decode64(format, format.max_finite_code() << format.padding); }

double min_normal_of(const Format& format) {
    return format.min_normal_code() == 0 ? min_subnormal_of(format) : Format::power_of_two(format.emin());
}

double min_subnormal_of(const Format& format) { return Format::power_of_two(format.emin() - format.precision + 1); }

std::int64_t greatest_whole_of(const Format& format) {
    return static_cast<std::int64_t>(
        std::min(greatest_of(format), static_cast<double>(std::int64_t{1} << format.precision)));
}

}  // namespace macheps::check
