// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/arrays.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/files/arrays/strided.hpp"
#include "experiments/files/arrays/torch_file.hpp"
#include "experiments/files/arrays/zip.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>

namespace macheps::files {

namespace {

/// Returns the name of an array in a printable form of at most 1000 bytes, in which control characters are escapes.
/// Later code can then print the name safely.
std::string array_name(std::string_view name) { return shown(name, 1000); }

/// Returns the arrays of a zip archive that NumPy or PyTorch wrote.
std::vector<StoredArray> zip_arrays(std::string_view bytes, const std::string& name, const std::string& where,
                                    const Wanted& wanted) {
    ZipArchive archive(bytes, where);
    if (is_torch_file(archive)) return torch_arrays(archive, name, where, wanted);
    std::vector<StoredArray> arrays;
    for (const ZipArchive::Entry& member : archive.entries()) {
        if (!member.name.ends_with(".npy")) {
            throw Error({.what = fmt::format("the member '{}' is not an .npy array", member.name),
                         .where = where,
                         .fix = "save arrays with numpy.savez or as safetensors"});
        }
        const std::string of_array = member.name.substr(0, member.name.size() - 4);
        arrays.push_back(wanted(of_array) ? parse_npy(archive.read(member), of_array, where)
                                          : StoredArray{.name = of_array, .where = where, .type = {}});
    }
    return arrays;
}

std::vector<StoredArray> safetensors_arrays(const std::string& bytes, const std::string& where, const Wanted& wanted) {
    const Safetensors file = Safetensors::parse(std::as_bytes(std::span(bytes)), where);
    std::vector<StoredArray> arrays;
    for (const StoredTensor& tensor : file.tensors()) {
        if (!wanted(tensor.name)) {
            arrays.push_back({.name = tensor.name, .where = where, .type = {}});
            continue;
        }
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

struct FileEnding {
    std::string_view ending, what;
};
constexpr FileEnding file_endings[] = {{".npy", "an .npy file"},
                                       {".npz", "an .npz archive"},
                                       {".pt", "a PyTorch archive"},
                                       {".pth", "a PyTorch archive"},
                                       {".pkl", "a file of numbers"}};

/// Throws Error for a file whose first bytes match no known kind of file. The message depends on the extension of the
/// file name.
[[noreturn]] void refuse_first_bytes(const std::string& where) {
    for (const FileEnding& kind : file_endings) {
        if (!where.ends_with(kind.ending)) continue;
        throw Error({.what = fmt::format("the first bytes are not those of {}", kind.what),
                     .where = where,
                     .fix = "save it again: it is damaged or of another kind"});
    }
    throw Error({.what = "the first bytes are not those of an .npy, .npz, .safetensors or .pt file",
                 .where = where,
                 .fix = "save it again, or declare raw numbers: FILE:bf16[192,1000]"});
}

std::vector<StoredArray> arrays_of(const std::string& bytes, const std::string& name, const std::string& where,
                                   const Wanted& wanted) {
    if (bytes.empty()) throw Error({.what = "the file is empty", .where = where, .fix = "save it again"});
    if (bytes.starts_with(npy_magic)) return {parse_npy(bytes, name, where)};
    if (bytes.starts_with("PK")) return zip_arrays(bytes, name, where, wanted);
    if (bytes.starts_with('\x80') && !where.ends_with(".safetensors")) {
        throw Error({.what = "the file is a bare pickle, as PyTorch saved before 1.6",
                     .where = where,
                     .fix = "save it as safetensors: macheps does not open pickled code"});
    }
    const bool has_header = bytes.size() > 8 && bytes[8] == '{';
    if (!has_header && !where.ends_with(".safetensors")) refuse_first_bytes(where);
    return safetensors_arrays(bytes, where, wanted);
}

}  // namespace

std::vector<StoredArray> read_arrays(const std::filesystem::path& path, const Wanted& wanted) {
    return parse_arrays(read_file(path, reading_budget()), path.stem().string(), path.string(), wanted);
}

std::vector<StoredArray> parse_arrays(const std::string& bytes, const std::string& name, const std::string& where,
                                      const Wanted& wanted) {
    const auto is_wanted = [&](std::string_view each) { return !wanted || wanted(array_name(each)); };
    std::vector<StoredArray> arrays = arrays_of(bytes, name, where, is_wanted);
    for (StoredArray& array : arrays) array.name = array_name(array.name);
    refuse_equal_names(arrays);
    return arrays;
}

void refuse_equal_names(const std::vector<StoredArray>& arrays) {
    std::set<std::string_view> names;
    for (const StoredArray& array : arrays) {
        if (names.insert(array.name).second) continue;
        throw Error({.what = fmt::format("two arrays are called '{}'", array.name),
                     .where = array.where,
                     .fix = "rename one; for several inputs of one check, use a suite: files = \"folder/*.npz\""});
    }
}

StoredArray read_raw(const std::filesystem::path& path, const RawArray& raw) {
    return parse_raw(read_file(path, reading_budget()), raw, path.string());
}

StoredArray parse_raw(std::string_view bytes, const RawArray& raw, const std::string& where) {
    const auto bad = [&](std::string what, std::string fix) {
        return Error({.what = std::move(what), .where = where, .fix = std::move(fix)});
    };
    StoredArray array{.name = array_name(raw.name),
                      .where = where,
                      .type = std::string(format_name(raw.format)),
                      .format = raw.format,
                      .width = element_bytes(raw.format),
                      .shape = raw.shape};
    if (raw.is_packed) {
        if (raw.is_column_major)
            throw bad("packed codes must be stored row by row",
                      "remove /columns, which declares that the first axis varies fastest");
        if (array.shape.empty() || array.shape.back() % 2 != 0)
            throw bad("a byte holds two codes, but the rows have an odd number of codes",
                      "declare a last axis of even size");
        array.shape.back() /= 2;
        array.format.reset();
    }
    const std::optional<std::size_t> wanted = array_bytes(array.shape, array.width);
    const std::uint64_t offset = raw.offset.value_or(0);
    const std::string declared = fmt::format("{} [{}]", array.type, fmt::join(raw.shape, ", "));
    if (!wanted || offset > bytes.size() || *wanted > bytes.size() - offset)
        throw bad(fmt::format("the {} bytes from position {} on are too few for {}",
                              bytes.size() - std::min<std::size_t>(offset, bytes.size()), offset, declared),
                  "declare the shape, type and offset that were saved");
    if (!raw.offset && *wanted != bytes.size())
        throw bad(fmt::format("the file has {} bytes, but {} has {}", bytes.size(), declared, *wanted),
                  "declare the shape and type that were saved; if more bytes follow, also declare an offset");
    const std::string_view data = bytes.substr(offset, *wanted);
    const std::vector<std::int64_t> strides =
        raw.is_column_major ? column_major_strides(array.shape) : row_major_strides(array.shape);
    array.bytes = *in_rows(data, array.width, array.shape, strides);
    return array;
}

std::size_t element_bytes(const Format& format) {
    const int bits = format.bits + format.padding;
    return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

namespace {

Error bad_array(const StoredArray& array, std::string what, std::string fix) {
    return Error(
        {.what = std::move(what), .where = fmt::format("{} ({})", array.where, array.name), .fix = std::move(fix)});
}

}  // namespace

void require_codes(const StoredArray& array, const Format& format, bool is_packed) {
    const auto bad = [&](std::string what, std::string fix) {
        return bad_array(array, std::move(what), std::move(fix));
    };
    if (array.format && !(*array.format == format)) {
        throw bad(fmt::format("the file says {} ({}), but the declaration says {}", array.type,
                              format_name(*array.format), format_name(format)),
                  fmt::format("declare {}, or save the codes as unsigned integers", format_name(*array.format)));
    }
    const std::size_t width = element_bytes(format);
    if (array.width != width) {
        throw bad(fmt::format("{} has {} bits per element, but {} has {}", array.type, array.width * 8,
                              format_name(format), width * 8),
                  "declare the format that was saved");
    }
    // Codes of up to 16 bits are often saved as signed integers. Wider signed integers are numbers, not codes.
    if (array.width > 2 && (array.type.starts_with("<i") || array.type.starts_with('I')))
        throw bad(fmt::format("{} elements are whole numbers, not codes", array.type),
                  "save them as floating-point numbers");
    if (is_packed && format.bits != 4)
        throw bad(fmt::format("{} is not packed", format_name(format)), "remove /packed");
}

std::vector<double> values_of(const StoredArray& array, const Format& format, bool is_packed) {
    require_codes(array, format, is_packed);
    std::vector<double> values(array.count() * (is_packed ? 2 : 1));
    if (format == fp32) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            float value = 0;
            std::memcpy(&value, array.bytes.data() + 4 * i, 4);
            values[i] = static_cast<double>(value);
        }
        return values;
    }
    // If a code has at most 16 bits, and the array has more elements than there are codes, every code is decoded once
    // into a table.
    const int bits = format.bits + format.padding;
    std::vector<double> table(bits <= 16 && values.size() > std::size_t{1} << bits ? std::size_t{1} << bits : 0);
    for (std::size_t code = 0; code < table.size(); ++code) table[code] = decode64(format, code);
    const auto value_of = [&](std::uint64_t code) {
        return code < table.size() ? table[static_cast<std::size_t>(code)] : decode64(format, code);
    };
    for (std::size_t i = 0; i < array.count(); ++i) {
        std::uint64_t code = 0;
        std::memcpy(&code, array.bytes.data() + i * array.width, array.width);
        if (is_packed) {
            values[2 * i] = value_of(code & 15);
            values[2 * i + 1] = value_of(code >> 4);
            continue;
        }
        if (format.bits < 8 && (code >> format.bits) != 0)
            throw bad_array(array,
                            fmt::format("element {} is {:#x}, which is not a code of {}", i, code, format_name(format)),
                            "store one code per byte, or declare /packed");
        values[i] = value_of(code);
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

}  // namespace macheps::files
