// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/read_file.hpp"
#include "experiments/files/npy.hpp"
#include "experiments/files/safetensors.hpp"
#include "experiments/files/zip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace macheps {

namespace {

std::vector<StoredArray> npz_arrays(std::string_view bytes, const std::string& where) {
    std::vector<StoredArray> arrays;
    for (const ZipMember& member : read_zip(bytes, where)) {
        const bool is_array = member.name.ends_with(".npy");
        if (!is_array) {
            throw Error(
                {.what = fmt::format("'{}' in it is no .npy array", member.name),
                 .where = where,
                 .fix = "save arrays with numpy.savez or as safetensors: a file of pickled code is not opened"});
        }
        arrays.push_back(parse_npy(member.bytes, member.name.substr(0, member.name.size() - 4), where));
    }
    return arrays;
}

std::vector<StoredArray> safetensors_arrays(const std::string& bytes, const std::string& where) {
    const Safetensors file = Safetensors::parse(std::as_bytes(std::span(bytes)), where);
    std::vector<StoredArray> arrays;
    for (const StoredTensor& tensor : file.tensors()) {
        const NamedFormat* row = nullptr;
        for (const NamedFormat& each : all_formats) {
            for (const std::string_view name : split_names(each.aliases.safetensors)) {
                if (name == dtype_name(tensor.dtype)) row = &each;
            }
        }
        arrays.push_back({.name = tensor.name,
                          .where = where,
                          .type = std::string(dtype_name(tensor.dtype)),
                          .format = row == nullptr ? std::nullopt : std::optional(row->format),
                          .width = dtype_bytes(tensor.dtype),
                          .shape = tensor.shape,
                          .bytes = {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()}});
    }
    return arrays;
}

}  // namespace

std::vector<StoredArray> read_arrays(const std::filesystem::path& path) {
    const std::string bytes = read_file(path), where = path.string();
    if (bytes.empty()) throw Error({.what = "an empty file", .where = where, .fix = "save it again"});
    if (bytes.starts_with(npy_magic)) return {parse_npy(bytes, path.stem().string(), where)};
    if (bytes.starts_with("PK")) return npz_arrays(bytes, where);
    return safetensors_arrays(bytes, where);
}

std::vector<double> values_of(const StoredArray& array, const Format& format, bool is_packed) {
    const auto bad = [&](std::string what, std::string fix) {
        return Error(
            {.what = std::move(what), .where = fmt::format("{} ({})", array.where, array.name), .fix = std::move(fix)});
    };
    if (array.format && !(*array.format == format)) {
        throw bad(fmt::format("the file says {} ({}), the declaration {}", array.type, format_name(*array.format),
                              format_name(format)),
                  fmt::format("declare {}, or save the codes as unsigned integers", format_name(*array.format)));
    }
    const int bits = format.bits + format.padding, width = bits <= 8 ? 8 : bits <= 16 ? 16 : bits <= 32 ? 32 : 64;
    if (array.width * 8 != static_cast<std::size_t>(width)) {
        throw bad(fmt::format("{} has {} bits an element, {} has {}", array.type, array.width * 8, format_name(format),
                              width),
                  "declare the format that was saved");
    }
    if (is_packed && format.bits != 4)
        throw bad(fmt::format("{} is not packed", format_name(format)), "leave out /packed");
    std::vector<double> values(array.count() * (is_packed ? 2 : 1));
    for (std::size_t i = 0; i < array.count(); ++i) {
        std::uint64_t code = 0;
        std::memcpy(&code, array.bytes.data() + i * array.width, array.width);
        if (is_packed) {
            values[2 * i] = decode64(format, code & 15);
            values[2 * i + 1] = decode64(format, code >> 4);
            continue;
        }
        if (format.bits < 8 && (code >> format.bits) != 0)
            throw bad(fmt::format("element {} is {:#x}, which is no code of {}", i, code, format_name(format)),
                      "one code a byte, or declare /packed");
        values[i] = decode64(format, code);
    }
    return values;
}

std::string npz_text(const std::vector<NamedValues>& arrays) {
    std::vector<ZipMember> members;
    for (const NamedValues& array : arrays) {
        std::string bytes = npy_header("<f8", array.shape);
        bytes.append(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(double));
        members.push_back({array.name + ".npy", std::move(bytes)});
    }
    return stored_zip(members);
}

}  // namespace macheps
