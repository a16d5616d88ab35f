// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/npy.hpp"

#include "core/error.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/print.hpp"
#include "experiments/files/arrays/strided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace macheps::files {

namespace {

[[noreturn]] void bad(std::string what, const std::string& path, std::string fix) {
    throw Error({.what = std::move(what), .where = path, .fix = std::move(fix)});
}

/// Returns the text between `open` and `close` after `key` in the header's dictionary.
std::string_view entry(std::string_view header, std::string_view key, char open, char close, const std::string& path) {
    std::size_t at = header.find(key);
    if (at != std::string_view::npos) at = header.find(open, at + key.size());
    const std::size_t end = at == std::string_view::npos ? at : header.find(close, at + 1);
    if (end == std::string_view::npos)
        bad(fmt::format("the .npy header has no {}", key), path, "save it again with NumPy");
    return header.substr(at + 1, end - at - 1);
}

/// Parses the shape in the header. Throws Error unless the number of elements times their width equals the size of the
/// data.
std::vector<std::int64_t> parse_shape(std::string_view text, std::size_t width, std::size_t data,
                                      const std::string& path) {
    std::vector<std::int64_t> shape;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        std::string_view size = text.substr(at, end - at);
        at = end + 1;
        while (size.starts_with(' ')) size.remove_prefix(1);
        while (size.ends_with(' ') || size.ends_with('L')) size.remove_suffix(1);
        if (size.empty()) continue;
        std::int64_t number = 0;
        const auto [last, error] = std::from_chars(size.data(), size.data() + size.size(), number);
        if (error != std::errc{} || last != size.data() + size.size() || number < 0)
            bad(fmt::format("'{}' is not a valid size of an array", size), path, "save it again");
        shape.push_back(number);
    }
    const std::optional<std::size_t> bytes = array_bytes(shape, width);
    if (!bytes || *bytes > data) bad("the .npy file ends before its last element", path, "save it again");
    if (*bytes < data) bad("the .npy file has bytes after its last element", path, "save it again");
    return shape;
}

/// An element type that can be read. If `format` is empty, the type does not determine the format of the elements. They
/// are then integers, or codes of a format that the caller has to know.
struct NpyType {
    std::string_view name;
    std::size_t width;
    std::optional<Format> format;
};
const NpyType npy_types[] = {{"<f2", 2, fp16}, {"<f4", 4, fp32}, {"<f8", 8, fp64}, {"<f1", 1, e5m2}, {"|f1", 1, e5m2},
                             {"|u1", 1, {}},   {"<u1", 1, {}},   {"|V1", 1, {}},   {"<V1", 1, {}},   {"<u2", 2, {}},
                             {"|V2", 2, {}},   {"<V2", 2, {}},   {"<u4", 4, {}},   {"<u8", 8, {}},   {"|i1", 1, {}},
                             {"<i1", 1, {}},   {"<i2", 2, {}},   {"<i4", 4, {}},   {"<i8", 8, {}},   {"|b1", 1, {}}};

std::vector<double> npy_numbers(std::string_view bytes, const std::string& path) {
    const StoredArray array = parse_npy(bytes, "", path);
    if (!array.format || array.width == 1)
        bad(fmt::format("elements of type '{}' are not supported", array.type), path,
            "save them as float16, float32 or float64");
    return values_of(array, *array.format);
}

std::vector<double> text_numbers(std::string_view text, const std::string& path) {
    constexpr std::string_view gaps = " \t\r\n,";
    std::vector<double> numbers;
    for (std::size_t at = text.find_first_not_of(gaps); at != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(gaps, at), text.size());
        const auto number = parse_number(text.substr(at, end - at));
        if (!number) {
            bad(fmt::format("'{}' (number {}) is not a valid number",
                            text.substr(at, std::min<std::size_t>(end - at, 20)), numbers.size() + 1),
                path, "give an .npy file, or numbers separated by spaces");
        }
        numbers.push_back(*number);
        at = text.find_first_not_of(gaps, end);
    }
    return numbers;
}

}  // namespace

std::string npy_header(std::string_view type, const std::vector<std::int64_t>& shape) {
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (", type);
    for (const std::int64_t size : shape) header += fmt::format("{}, ", size);
    header += "), }";
    // The data begins at a multiple of 64 bytes.
    header.append((64 - (npy_magic.size() + 4 + header.size() + 1) % 64) % 64, ' ');
    header += '\n';
    std::string head{npy_magic};
    head += '\x01';
    head += '\x00';
    head += static_cast<char>(header.size() & 0xff);
    head += static_cast<char>(header.size() >> 8);
    return head + header;
}

StoredArray parse_npy(std::string_view bytes, std::string name, const std::string& where) {
    if (!bytes.starts_with(npy_magic)) bad("this is not an .npy array", where, "save it with NumPy");
    if (bytes.size() < 12) bad("the .npy file ends in its header", where, "save it again");
    const bool is_long = bytes[6] != 1;  // versions 2 and 3 store the length of the header in four bytes
    std::size_t length = 0;
    for (int i = is_long ? 3 : 1; i >= 0; --i)
        length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(8 + i)]);
    const std::size_t begin = is_long ? 12 : 10;
    if (length > bytes.size() - begin) bad("the .npy file ends in its header", where, "save it again");
    const std::string_view header = bytes.substr(begin, length), data = bytes.substr(begin + length);
    const std::string_view descr = entry(header, "'descr'", '\'', '\'', where);
    const auto type =
        std::find_if(std::begin(npy_types), std::end(npy_types), [&](const NpyType& row) { return row.name == descr; });
    if (type == std::end(npy_types)) {
        bad(fmt::format("elements of type '{}' are not supported", descr), where,
            descr.starts_with('>') ? "save them with the lower byte first: a.astype(a.dtype.newbyteorder('<'))"
                                   : "save float16, float32, float64, integers, or codes as uint8 or uint16");
    }
    StoredArray array{.name = std::move(name),
                      .where = where,
                      .type = std::string(descr),
                      .format = type->format,
                      .width = type->width};
    array.shape = parse_shape(entry(header, "'shape'", '(', ')', where), type->width, data.size(), where);
    const bool is_fortran = header.find("'fortran_order': True") != std::string_view::npos;
    array.bytes =
        is_fortran ? *in_rows(data, type->width, array.shape, column_major_strides(array.shape)) : std::string(data);
    return array;
}

void write_npy(const std::string& path, std::span<const float> values, const std::vector<std::int64_t>& shape) {
    Publication file(path);
    file.write(npy_header("<f4", shape));
    file.write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    file.finish();
}

std::vector<double> read_numbers(const std::string& path) {
    const std::string bytes = read_file(path, reading_budget());
    return std::string_view(bytes).starts_with(npy_magic) ? npy_numbers(bytes, path) : text_numbers(bytes, path);
}

}  // namespace macheps::files
