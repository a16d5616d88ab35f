// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/pose/poser.hpp"

#include "core/format_table.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/pose/arrange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace macheps::check {

std::string text_of(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t product_of(const Shape& shape, std::size_t from, std::size_t to) {
    std::int64_t product = 1;
    for (std::size_t i = from; i < to; ++i) product *= shape[i];
    return product;
}

void Poser::bad(std::string_view name, std::string what, std::string fix) const {
    const files::StoredArray* array = find(name);
    throw Error({.what = std::move(what),
                 .where = array == nullptr ? std::string(name) : fmt::format("{} ({})", array->where, name),
                 .fix = std::move(fix)});
}

const files::StoredArray* Poser::find(std::string_view name) const {
    const auto at =
        std::find_if(arrays_.begin(), arrays_.end(), [&](const files::StoredArray& a) { return a.name == name; });
    return at == arrays_.end() ? nullptr : &*at;
}

const files::StoredArray& Poser::required(std::string_view name) const {
    const files::StoredArray* array = find(name);
    if (array != nullptr) return *array;
    std::vector<std::string> names;
    for (const files::StoredArray& each : arrays_) names.push_back(each.name);
    throw Error({.what = fmt::format("there is no array '{}'", name),
                 .where = arrays_.empty() ? "" : arrays_.front().where,
                 .fix = fmt::format("the arrays are {}; use {}=NAME to rename one", shown_list(names), name)});
}

ArrayFormat Poser::format_of(const files::StoredArray& array, std::string_view name) const {
    const auto declared = d_.formats.find(name);
    if (declared == d_.formats.end() && !array.format)
        bad(name, fmt::format("the type {} does not state the format of the codes", array.type),
            fmt::format("declare the format, as in --{} bf16", option_name(name)));
    return declared == d_.formats.end() ? ArrayFormat{*array.format} : declared->second;
}

Decoded Poser::decode(std::string_view name) const {
    const files::StoredArray* array = &required(name);
    const ArrayFormat format = format_of(*array, name);
    Decoded decoded{
        .format = format.format, .shape = array->shape, .values = values_of(*array, format.format, format.is_packed)};
    if (format.is_packed && !decoded.shape.empty()) decoded.shape.back() *= 2;
    if (decoded.values.empty()) bad(name, "the array is empty", "save an array with elements");
    if (decoded.format.precision > fp32.precision || decoded.format.bits > 32)
        throw Error({.what = fmt::format("{} is wider than fp32, the widest format that checks support",
                                         format_name(decoded.format)),
                     .where = fmt::format("{} ({})", array->where, name),
                     .fix = "save it as fp32",
                     .exit = Exit::usage});
    return decoded;
}

DecodedInPlace Poser::decode_in_place(std::string_view name) const {
    const files::StoredArray& array = required(name);
    const ArrayFormat format = format_of(array, name);
    if (reads_in_place_ && !format.is_packed && array.count() > 0 && Numbers::fits_in_place(format.format))
        return {format.format, array.shape, Numbers::in_place(array, format.format)};
    Decoded decoded = decode(name);
    return {decoded.format, std::move(decoded.shape), std::move(decoded.values)};
}

Integers Poser::integers(std::string_view name) const {
    const files::StoredArray& array = required(name);
    // The digits of a type do not give its size, because they count bytes in NumPy's `<i8`, but bits in safetensors'
    // `I64`.
    std::string type = array.type;
    if (!type.empty() && (type[0] == '<' || type[0] == '|')) type.erase(0, 1);
    const bool is_signed = type.starts_with('i') || type.starts_with('I'),
               is_unsigned = type.starts_with('u') || type.starts_with('U');
    const bool is_digits = type.size() > 1 && type.find_first_not_of("0123456789", 1) == std::string::npos;
    if ((!is_signed && !is_unsigned) || !is_digits || array.width == 0 || array.width > 8)
        bad(name, fmt::format("the type {} is not an integer type", array.type), "save it as int32 or int64");
    Integers out{.shape = array.shape, .values = std::vector<std::int64_t>(array.count())};
    if (out.values.empty()) bad(name, "the array is empty", "save an array with elements");
    for (std::size_t i = 0; i < out.values.size(); ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, array.bytes.data() + i * array.width, array.width);
        const unsigned unused = 64 - 8 * static_cast<unsigned>(array.width);
        out.values[i] =
            is_signed ? static_cast<std::int64_t>(word << unused) >> unused : static_cast<std::int64_t>(word);
    }
    return out;
}

std::string Poser::option_name(std::string_view name) {
    std::string option(name);
    std::replace(option.begin(), option.end(), '_', '-');
    return option;
}

void Poser::add_inputs(Problem& problem, const Shape& out_shape) const {
    for (const ArrayRole& role : d_.operation->arrays) {
        const auto declared = d_.scale_shapes.find(role.name);
        const bool is_declared = declared != d_.scale_shapes.end() || d_.formats.find(role.name) != d_.formats.end();
        if (!role.is_required && !is_declared && find(role.name) == nullptr) continue;
        // Groups and block scales are not inputs. They are read together with the operands of a product.
        if (role.is_layout || (declared != d_.scale_shapes.end() && scale_block(declared->second))) continue;
        DecodedInPlace array = decode_in_place(role.name);
        const auto count = static_cast<std::int64_t>(array.values.size());
        Axis axis = role.axis;
        const std::int64_t wanted = axis == Axis::each  ? problem.rows * problem.columns
                                    : axis == Axis::row ? problem.rows
                                                        : problem.columns;
        if (count == 1 && axis != Axis::each) axis = Axis::whole;
        const bool is_vector =
            std::count_if(array.shape.begin(), array.shape.end(), [](std::int64_t n) { return n != 1; }) <= 1;
        const bool fits = axis == Axis::whole ||
                          (count == wanted && (axis == Axis::each ? role.name == "x" || array.shape == out_shape
                                                                  : axis == Axis::row || is_vector));
        if (!fits) {
            bad(role.name,
                fmt::format("the shape {} does not fit outputs of shape {}", text_of(array.shape), text_of(out_shape)),
                axis == Axis::each ? "save it in the shape of the output"
                                   : fmt::format("save 1 or {} elements", wanted));
        }
        if (declared != d_.scale_shapes.end()) {
            const bool is_one = declared->second == "tensor";
            const Axis claimed = is_one ? Axis::whole : declared->second == "row" ? Axis::row : Axis::column;
            if (is_one ? count != 1 : claimed != role.axis || count != wanted)
                bad(role.name,
                    fmt::format("the shape {} does not fit the declared scales, one for each {}", text_of(array.shape),
                                declared->second),
                    "save scales of the declared kind, or declare the kind that was saved");
        }
        problem.declaration.formats[std::string(role.name)].format = array.format;
        problem.inputs.push_back({role.name, axis, std::move(array.values)});
    }
}

}  // namespace macheps::check
