// SPDX-License-Identifier: Apache-2.0
// The safetensors format: an 8-byte length, a JSON header, then every tensor's bytes. Little-endian throughout.
// Source: https://github.com/huggingface/safetensors, README.md ("Format").
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::files {

enum class Dtype : std::uint8_t {
    f64,
    f32,
    f16,
    bf16,
    f8_e4m3,
    f8_e5m2,
    f8_e8m0,
    i64,
    u64,
    i32,
    u32,
    i16,
    u16,
    i8,
    u8,
    boolean
};

/// Returns the name of a dtype in the header of a file: `F32`, `BF16`, ...
std::string_view dtype_name(Dtype dtype);
std::size_t dtype_bytes(Dtype dtype);

/// Returns the dtype that holds the values of a C++ type.
template <class T>
constexpr Dtype dtype_of();
template <>
constexpr Dtype dtype_of<float>() {
    return Dtype::f32;
}
template <>
constexpr Dtype dtype_of<double>() {
    return Dtype::f64;
}
template <>
constexpr Dtype dtype_of<std::int8_t>() {
    return Dtype::i8;
}
template <>
constexpr Dtype dtype_of<std::uint8_t>() {
    return Dtype::u8;
}
template <>
constexpr Dtype dtype_of<std::uint16_t>() {
    return Dtype::u16;
}
template <>
constexpr Dtype dtype_of<std::int32_t>() {
    return Dtype::i32;
}
template <>
constexpr Dtype dtype_of<std::uint32_t>() {
    return Dtype::u32;
}
template <>
constexpr Dtype dtype_of<std::int64_t>() {
    return Dtype::i64;
}
template <>
constexpr Dtype dtype_of<std::uint64_t>() {
    return Dtype::u64;
}

/// A tensor in a file. Its bytes are borrowed, row-major, and may be unaligned.
struct StoredTensor {
    std::string name;
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape;  ///< empty: a scalar
    std::span<const std::byte> bytes;

    std::int64_t count() const { return static_cast<std::int64_t>(bytes.size() / dtype_bytes(dtype)); }
};

/// A safetensors file whose header has been parsed and checked.
class Safetensors {
  public:
    Safetensors(Safetensors&&) = default;
    Safetensors& operator=(Safetensors&&) = default;

    /// Parses the bytes of a file. Borrows `file`, which must outlive the result. Errors name the file `where`. Throws
    /// Error unless the header is a JSON object of at most 100 MB without repeated names, all dtypes are known, all
    /// shapes match the stored bytes, and the tensors cover the data without gaps or overlaps.
    static Safetensors parse(std::span<const std::byte> file, const std::string& where);
    /// Reads a file. The result owns the bytes.
    static Safetensors read(const std::filesystem::path& path);

    /// Returns the tensors in the order of their bytes.
    const std::vector<StoredTensor>& tensors() const { return tensors_; }
    const std::map<std::string, std::string>& metadata() const { return metadata_; }
    bool contains(std::string_view name) const { return find(name) != nullptr; }
    /// Returns the tensor of that name, or nullptr if it does not exist.
    const StoredTensor* find(std::string_view name) const;
    /// Returns the tensor of that name. Throws Error if it does not exist.
    const StoredTensor& at(std::string_view name) const;
    /// Returns the metadata value of `key`. Throws Error if the key does not exist.
    const std::string& metadata_at(const std::string& key) const;

    /// Returns a copy of a tensor's values. Throws Error if the tensor does not exist or its dtype does not match T.
    template <class T>
    std::vector<T> values(std::string_view name) const {
        const StoredTensor& tensor = expect(name, dtype_of<T>());
        std::vector<T> out(static_cast<std::size_t>(tensor.count()));
        if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
        return out;
    }

  private:
    Safetensors() = default;
    const StoredTensor& expect(std::string_view name, Dtype dtype) const;

    std::string where_;
    std::vector<std::byte> memory_;  // filled by read(); moving a vector does not move the bytes that tensors borrow
    std::vector<StoredTensor> tensors_;
    std::map<std::string, std::size_t, std::less<>> by_name_;
    std::map<std::string, std::string> metadata_;
};

/// Collects tensors, then writes them to a file. The same calls always write the same bytes. Tensors are sorted by
/// decreasing element size, then by the order of the calls. Each tensor is therefore aligned to its element size.
/// Metadata is sorted by key.
class SafetensorsWriter {
  public:
    void metadata(const std::string& key, std::string value) { metadata_[key] = std::move(value); }
    /// Adds a tensor. Borrows `bytes` until the last write(). Throws Error if the name is taken or the bytes do not fit
    /// the shape.
    void borrow(std::string name, Dtype dtype, std::vector<std::int64_t> shape, std::span<const std::byte> bytes);
    /// Adds a tensor and takes ownership of its bytes.
    void add(std::string name, Dtype dtype, std::vector<std::int64_t> shape, std::vector<std::byte> bytes);
    /// Adds a tensor and keeps a copy of the values.
    template <class T>
    void add(std::string name, std::vector<std::int64_t> shape, std::span<const T> values) {
        const auto bytes = std::as_bytes(values);
        add(std::move(name), dtype_of<T>(), std::move(shape), std::vector<std::byte>(bytes.begin(), bytes.end()));
    }

    using Sink = std::function<void(std::span<const std::byte>)>;
    /// Passes the file to `sink`, piece by piece and in order.
    void write(const Sink& sink) const;
    /// Writes the file to `path` and replaces any older file at once (see core/host/publish.hpp). Throws Error (cannot
    /// write) if that fails.
    void write(const std::filesystem::path& path) const;

  private:
    std::vector<StoredTensor> tensors_;
    std::set<std::string> names_;
    std::deque<std::vector<std::byte>> kept_;  // a deque, because growing it does not move its elements
    std::map<std::string, std::string> metadata_;
};

}  // namespace macheps::files
