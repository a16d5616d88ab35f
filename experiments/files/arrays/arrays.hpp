// SPDX-License-Identifier: Apache-2.0
// Reads named arrays of numbers from .npy, .npz, .safetensors and .pt files.
#pragma once
#include "core/format.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

/// An array from a file, row-major and little-endian.
struct StoredArray {
    std::string name;                ///< one line of visible characters (core/text/shown.hpp)
    std::string where;               ///< the file, for errors
    std::string type;                ///< as the file spells it: `<f4`, `|V2`, `BF16`
    std::optional<Format> format{};  ///< format that the type names; empty if the type names only a width
    std::size_t width = 0;           ///< bytes of an element
    std::vector<std::int64_t> shape{};
    std::string bytes{};

    std::size_t count() const { return width == 0 ? 0 : bytes.size() / width; }
};

/// A function that returns whether the array with a given name is wanted. If the function is empty, all arrays are
/// wanted.
using Wanted = std::function<bool(std::string_view name)>;

/// Returns the arrays of a file. The first bytes of the file determine its kind. The array of an .npy file, or the only
/// tensor of a .pt file, gets the file's name without the extension. Arrays that are not wanted are returned with a
/// name and without elements. Errors: throws Error (bad input) for a damaged file, for a file larger than
/// reading_budget(), and for two arrays with the same name.
std::vector<StoredArray> read_arrays(const std::filesystem::path& path, const Wanted& wanted = {});
/// Does the same as read_arrays() with the bytes of a file. An array that has no name in the file gets the name `name`.
std::vector<StoredArray> parse_arrays(const std::string& bytes, const std::string& name, const std::string& where,
                                      const Wanted& wanted = {});

/// Throws Error (bad input) if two arrays have the same name.
void refuse_equal_names(const std::vector<StoredArray>& arrays);

/// Describes a raw file, which contains only numbers and no header.
struct RawArray {
    std::string name;
    Format format{};
    std::vector<std::int64_t> shape{};
    std::optional<std::uint64_t> offset{};  ///< bytes before the first element; empty: the file contains only elements
    bool is_packed = false;                 ///< two codes per byte; the last axis counts codes
    bool is_column_major = false;           ///< the first axis varies fastest
};
/// Reads a raw file. Errors: throws Error (bad input) if the size of the file contradicts `raw`.
StoredArray read_raw(const std::filesystem::path& path, const RawArray& raw);
/// Does the same as read_raw() with the bytes of a file.
StoredArray parse_raw(std::string_view bytes, const RawArray& raw, const std::string& where);

/// Returns the number of bytes that an element of this format takes in an array: 1, 2, 4 or 8.
std::size_t element_bytes(const Format& format);

/// Throws Error (bad input) if the elements of an array cannot be codes of `format`: their type in the file names a
/// different format, they have a wrong width, or they are signed integers of more than 16 bits. Also throws if
/// `is_packed` is true and `format` does not have 4 bits.
void require_codes(const StoredArray& array, const Format& format, bool is_packed);

/// Returns the exact values of an array whose elements are codes of `format`. With `is_packed`, each byte holds two
/// codes of four bits, the lower half first, and the last axis becomes twice as long as in the file. Errors: throws
/// Error (bad input) as require_codes() does, and if an element is not a code of `format`.
std::vector<double> values_of(const StoredArray& array, const Format& format, bool is_packed = false);

/// An array to write.
struct NamedValues {
    std::string name;
    std::vector<std::int64_t> shape;
    std::vector<double> values;
};

/// Returns the bytes of an uncompressed .npz archive of fp64 arrays. The same arrays always give the same bytes.
std::string npz_text(const std::vector<NamedValues>& arrays);

}  // namespace macheps::files
