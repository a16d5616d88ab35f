// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/input_files.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/json.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/inputs/recorded_recipe.hpp"
#include "experiments/check/pose/canary.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/files/arrays/zip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace macheps::check {

namespace {

std::string npy_type(const Format& format) {
    if (format == fp16) return "<f2";
    if (format == fp32) return "<f4";
    if (format == fp64) return "<f8";
    const std::size_t width = files::element_bytes(format);
    return width == 1 ? "|u1" : fmt::format("<u{}", width);
}

files::Dtype dtype_of_format(const Format& format) {
    for (const NamedFormat& row : all_formats) {
        if (!(row.format == format)) continue;
        for (const std::string_view name : split_names(row.aliases.safetensors)) {
            for (const files::Dtype dtype :
                 {files::Dtype::f64, files::Dtype::f32, files::Dtype::f16, files::Dtype::bf16, files::Dtype::f8_e4m3,
                  files::Dtype::f8_e5m2, files::Dtype::f8_e8m0}) {
                if (name == files::dtype_name(dtype)) return dtype;
            }
        }
    }
    const std::size_t width = files::element_bytes(format);
    return width == 1 ? files::Dtype::u8 : width == 2 ? files::Dtype::u16 : files::Dtype::u32;
}

/// Returns the description of an array to be stored, without its data. The type is spelled as in NumPy, also for
/// .safetensors files.
files::StoredArray stored(const std::string& name, const ArrayFormat& format, std::vector<std::int64_t> shape) {
    return {.name = name,
            .where = "make-inputs",
            .type = npy_type(format.format),
            .format = format.format,
            .width = files::element_bytes(format.format),
            .shape = std::move(shape)};
}

}  // namespace

std::vector<files::StoredArray> stored_inputs(const MadeInputs& inputs) {
    std::vector<files::StoredArray> all;
    for (const MadeArray& made : inputs.arrays) {
        files::StoredArray array = stored(made.name, made.format, made.shape);
        if (made.is_whole) {
            array.type = "<i4";
            array.format.reset();
            for (const double x : made.values) {
                const auto number = static_cast<std::int32_t>(x);
                array.bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
            }
            all.push_back(std::move(array));
            continue;
        }
        array.bytes.assign(made.values.size() * array.width, '\0');
        for (std::size_t i = 0; i < made.values.size(); ++i) {
            const std::uint64_t code =
                encode64(made.format.format, made.values[i], Round::nearest_even, Overflow::nonsaturate);
            std::memcpy(array.bytes.data() + i * array.width, &code, array.width);
        }
        if (made.format.is_packed) {
            if (array.shape.back() % 2 != 0) {
                throw Error({.what = fmt::format("{} has two codes per byte, but rows of {} elements", made.name,
                                                 array.shape.back()),
                             .where = made.name,
                             .fix = "use an even number of columns",
                             .exit = Exit::usage});
            }
            std::string packed(array.bytes.size() / 2, '\0');
            for (std::size_t i = 0; i < packed.size(); ++i)
                packed[i] = static_cast<char>(array.bytes[2 * i] | array.bytes[2 * i + 1] << 4);
            array.bytes = std::move(packed);
            array.shape.back() /= 2;
            array.format.reset();
        }
        all.push_back(std::move(array));
    }
    const Format format = inputs.request.format("out");
    files::StoredArray out = stored("out", {format}, inputs.request.out_shape());
    out.shape.front() += inputs.request.declaration.canaries;
    std::size_t count = 1;
    for (const std::int64_t size : out.shape) count *= static_cast<std::size_t>(size);
    out.bytes = canary_bytes(format, count);
    if (inputs.request.declaration.operation->gives_index) {
        out.type = "<i4";  // outputs are indices; the canaries keep their bytes, which are then read as i32
        out.format.reset();
    }
    all.push_back(std::move(out));
    return all;
}

std::string recipe_text(const MadeInputs& inputs) {
    const InputRequest& r = inputs.request;
    Json json = Json::object();
    json["recipe"] = inputs.name;
    json["op"] = r.declaration.operation->name;
    json["declared"] = declared_json(r.declaration);
    json["out"] = r.out_shape();
    if (const MadeArray* groups = inputs.find("groups")) json["groups"] = groups->values;
    json["seed"] = r.seed;
    return json.dump();
}

std::string suite_text(const Declaration& declaration, const std::string& ending,
                       const std::vector<std::string>& inputs) {
    std::string text = fmt::format(
        "[suite]\nrelative_to = \"suite\"   # the files are in the folder of this suite\n\n"
        "[[check]]\nop = \"{}\"\n"
        "# All files of this folder are checked. A file that is named here must exist.\n"
        "files = [\n    \"*.{}\",\n",
        declaration.operation->name, ending);
    for (const std::string& input : inputs) text += fmt::format("    \"{}.{}\",\n", input, ending);
    text += "]\n";
    for (const auto& [key, value] : declared_values(declaration))
        text += fmt::format("{} = {}\n", key->name, key->takes == DeclareKey::Takes::text ? json_ascii(value) : value);
    return text;
}

std::string npz_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe) {
    std::vector<files::ZipMember> members;
    for (const files::StoredArray& array : arrays)
        members.push_back({array.name + ".npy", files::npy_header(array.type, array.shape) + array.bytes});
    members.push_back({fmt::format("{}.npy", recipe_array),
                       files::npy_header("|u1", {static_cast<std::int64_t>(recipe.size())}) + recipe});
    return files::stored_zip(members);
}

std::string safetensors_of(const std::vector<files::StoredArray>& arrays, const std::string& recipe) {
    files::SafetensorsWriter writer;
    writer.metadata(std::string(recipe_array), recipe);
    for (const files::StoredArray& array : arrays) {
        const files::Dtype dtype = array.type == "<i4" ? files::Dtype::i32
                                   : !array.format     ? files::Dtype::u8  // packed: two codes per byte
                                                       : dtype_of_format(*array.format);
        writer.borrow(array.name, dtype, array.shape, std::as_bytes(std::span(array.bytes)));
    }
    std::string bytes;
    writer.write([&](std::span<const std::byte> piece) {
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    return bytes;
}

}  // namespace macheps::check
