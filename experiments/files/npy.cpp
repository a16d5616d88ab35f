// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/npy.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/print.hpp"
#include "core/publish.hpp"
#include "core/read_file.hpp"

#include <fmt/format.h>

#include <cstring>
#include <string_view>

namespace macheps {

namespace {

constexpr std::string_view magic{"\x93NUMPY", 6};

[[noreturn]] void bad(std::string what, const std::string& path, std::string fix) {
    throw Error({.what = std::move(what), .where = path, .fix = std::move(fix)});
}

/// The text between `before` and `after` in the header's dictionary.
std::string_view entry(std::string_view header, std::string_view key, char open, char close, const std::string& path) {
    std::size_t at = header.find(key);
    if (at != std::string_view::npos) at = header.find(open, at + key.size());
    const std::size_t end = at == std::string_view::npos ? at : header.find(close, at + 1);
    if (end == std::string_view::npos)
        bad(fmt::format("an .npy header without {}", key), path, "save it again with NumPy");
    return header.substr(at + 1, end - at - 1);
}

std::vector<double> npy_numbers(std::string_view bytes, const std::string& path) {
    if (bytes.size() < 12) bad("an .npy file that ends in its header", path, "save it again");
    const bool is_long = bytes[6] != 1;  // versions 2 and 3 have a header length of four bytes
    std::size_t length = 0;
    for (int i = is_long ? 3 : 1; i >= 0; --i)
        length = length << 8 | static_cast<unsigned char>(bytes[static_cast<std::size_t>(8 + i)]);
    const std::size_t begin = is_long ? 12 : 10;
    if (length > bytes.size() - begin) bad("an .npy file that ends in its header", path, "save it again");
    const std::string_view header = bytes.substr(begin, length), data = bytes.substr(begin + length);
    const std::string_view type = entry(header, "'descr'", '\'', '\'', path);
    const Format format = type == "<f2" ? fp16 : type == "<f4" ? fp32 : fp64;
    if (type != "<f2" && type != "<f4" && type != "<f8") {
        bad(fmt::format("elements of type '{}'", type), path, "save them as float16, float32 or float64");
    }
    if (header.find("'fortran_order': True") != std::string_view::npos) {
        bad("columns come first (fortran_order)", path, "save numpy.ascontiguousarray of it");
    }
    std::size_t count = 1;
    std::string_view shape = entry(header, "'shape'", '(', ')', path);
    for (std::size_t at = 0; at < shape.size();) {
        const std::size_t end = std::min(shape.find(',', at), shape.size());
        std::string_view size = shape.substr(at, end - at);
        at = end + 1;
        std::size_t number = 0;
        bool any = false;
        for (const char c : size) {
            if (c >= '0' && c <= '9') number = number * 10 + static_cast<std::size_t>(c - '0'), any = true;
        }
        if (any) count = number == 0 || count <= data.size() / number ? count * number : data.size() + 1;
    }
    const std::size_t width = static_cast<std::size_t>(format.bits) / 8;
    if (count > data.size() / width) bad("an .npy file that ends before its last element", path, "save it again");
    std::vector<double> numbers;
    for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t code = 0;
        std::memcpy(&code, data.data() + i * width, width);
        numbers.push_back(decode64(format, code));
    }
    return numbers;
}

std::vector<double> text_numbers(std::string_view text, const std::string& path) {
    constexpr std::string_view gaps = " \t\r\n,";
    std::vector<double> numbers;
    for (std::size_t at = text.find_first_not_of(gaps); at != std::string_view::npos;) {
        const std::size_t end = std::min(text.find_first_of(gaps, at), text.size());
        const auto number = parse_number(text.substr(at, end - at));
        if (!number) {
            bad(fmt::format("'{}' is no number (the {}th)", text.substr(at, std::min<std::size_t>(end - at, 20)),
                            numbers.size() + 1),
                path, "an .npy file, or numbers with spaces between them");
        }
        numbers.push_back(*number);
        at = text.find_first_not_of(gaps, end);
    }
    return numbers;
}

}  // namespace

void write_npy(const std::string& path, std::span<const float> values, const std::vector<std::int64_t>& shape) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
    for (const std::int64_t size : shape) header += fmt::format("{}, ", size);
    header += "), }";
    // The data begins at a multiple of 64 bytes.
    header.append((64 - (magic.size() + 4 + header.size() + 1) % 64) % 64, ' ');
    header += '\n';
    std::string head{magic};
    head += '\x01';
    head += '\x00';
    head += static_cast<char>(header.size() & 0xff);
    head += static_cast<char>(header.size() >> 8);
    Publication file(path);
    file.write(head + header);
    file.write({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
    file.finish();
}

std::vector<double> read_numbers(const std::string& path) {
    const std::string bytes = read_file(path);
    return std::string_view(bytes).starts_with(magic) ? npy_numbers(bytes, path) : text_numbers(bytes, path);
}

}  // namespace macheps
