// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/safetensors.hpp"

#include "core/error.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/json.hpp"
#include "core/text/nesting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace macheps::files {

static_assert(std::endian::native == std::endian::little, "values are copied to and from little-endian files");

namespace {

struct DtypeRow {
    Dtype dtype;
    std::string_view name;
    std::size_t bytes;
};
constexpr DtypeRow dtypes[] = {
    {Dtype::f64, "F64", 8},         {Dtype::f32, "F32", 4},         {Dtype::f16, "F16", 2},
    {Dtype::bf16, "BF16", 2},       {Dtype::f8_e4m3, "F8_E4M3", 1}, {Dtype::f8_e5m2, "F8_E5M2", 1},
    {Dtype::f8_e8m0, "F8_E8M0", 1}, {Dtype::i64, "I64", 8},         {Dtype::u64, "U64", 8},
    {Dtype::i32, "I32", 4},         {Dtype::u32, "U32", 4},         {Dtype::i16, "I16", 2},
    {Dtype::u16, "U16", 2},         {Dtype::i8, "I8", 1},           {Dtype::u8, "U8", 1},
    {Dtype::boolean, "BOOL", 1},
};
constexpr bool rows_are_in_order() {
    for (std::size_t i = 0; i < std::size(dtypes); ++i) {
        if (static_cast<std::size_t>(dtypes[i].dtype) != i) return false;
    }
    return true;
}
static_assert(rows_are_in_order());

constexpr std::size_t length_bytes = 8;
constexpr std::uint64_t largest_header = 100'000'000;  // limit of the reference implementation
constexpr const char* metadata_key = "__metadata__";

/// Returns the number of bytes of a tensor of this shape and type. Returns nothing if the number overflows or a size is
/// negative.
std::optional<std::size_t> shape_bytes(const std::vector<std::int64_t>& shape, Dtype dtype) {
    std::size_t bytes = dtype_bytes(dtype);
    for (const std::int64_t size : shape) {
        if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) return {};
    }
    return bytes;
}

/// Parses and checks the header of one file. Errors name the file.
class HeaderReader {
  public:
    HeaderReader(std::span<const std::byte> file, const std::string& where) : file_(file), where_(where) {}

    void read(std::vector<StoredTensor>& tensors, std::map<std::string, std::string>& metadata) {
        const Json header = parse_json(header_text());
        if (!header.is_object()) refuse("the header is not a JSON object");
        for (const auto& [name, entry] : header.items()) {
            if (name == metadata_key) {
                read_metadata(entry, metadata);
            } else {
                tensors.push_back(read_tensor(name, entry));
            }
        }
        std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
            const auto *x = a.bytes.data(), *y = b.bytes.data();
            return x != y                             ? x < y
                   : a.bytes.size() != b.bytes.size() ? a.bytes.size() < b.bytes.size()
                                                      : a.name < b.name;
        });
        check_cover(tensors);
    }

  private:
    [[noreturn]] void refuse(const std::string& what) const {
        throw Error({.what = what,
                     .where = where_,
                     .fix = "give a complete safetensors file: this one is damaged, cut short, or of another kind"});
    }

    std::string_view header_text() {
        if (file_.size() < length_bytes) {
            refuse(fmt::format("{} bytes are too few for the length of a safetensors header", file_.size()));
        }
        std::uint64_t length = 0;
        std::memcpy(&length, file_.data(), length_bytes);
        if (length > largest_header) {
            refuse(
                fmt::format("the header claims {} bytes, more than the {} that are allowed", length, largest_header));
        }
        if (length > file_.size() - length_bytes) {
            refuse(fmt::format("the header claims {} bytes, but the file has {} after the length", length,
                               file_.size() - length_bytes));
        }
        data_ = file_.subspan(length_bytes + length);
        return {reinterpret_cast<const char*>(file_.data()) + length_bytes, static_cast<std::size_t>(length)};
    }

    Json parse_json(std::string_view text) const {
        if (text.empty() || text.front() != '{') refuse("the header does not begin with '{'");
        if (line_nested_too_deep(text)) refuse(fmt::format("the header nests deeper than {} levels", max_levels));
        try {
            return Json::parse(text, true);
        } catch (const JsonError& error) {
            refuse(fmt::format("the header{} {}", error.byte() == 0 ? ":" : " is not valid JSON:", error.what()));
        }
    }

    void read_metadata(const Json& entry, std::map<std::string, std::string>& metadata) const {
        if (!entry.is_object()) refuse("__metadata__ is not an object");
        for (const auto& [key, value] : entry.items()) {
            if (!value.is_string()) refuse(fmt::format("__metadata__.{} is not a string", key));
            metadata[key] = value.get<std::string>();
        }
    }

    StoredTensor read_tensor(const std::string& name, const Json& entry) const {
        const auto field = [&](const char* key) -> const Json& {
            if (!entry.is_object() || !entry.contains(key)) refuse(fmt::format("tensor '{}' has no {}", name, key));
            return entry.at(key);
        };
        StoredTensor tensor{.name = name, .dtype = {}, .shape = {}, .bytes = {}};
        const Json& dtype = field("dtype");
        const auto* row = std::find_if(std::begin(dtypes), std::end(dtypes), [&](const DtypeRow& r) {
            return dtype.is_string() && dtype.string() == r.name;
        });
        if (row == std::end(dtypes)) {
            refuse(fmt::format("tensor '{}' has the dtype {}, which macheps does not read", name, dtype.dump()));
        }
        tensor.dtype = row->dtype;

        const Json& shape = field("shape");
        if (!shape.is_array()) refuse(fmt::format("tensor '{}': shape is not a list", name));
        for (const Json& size : shape) {
            tensor.shape.push_back(static_cast<std::int64_t>(number(size, name, "shape")));
        }
        const Json& offsets = field("data_offsets");
        if (!offsets.is_array() || offsets.size() != 2) {
            refuse(fmt::format("tensor '{}': data_offsets is not a pair", name));
        }
        const std::uint64_t begin = number(offsets[0], name, "data_offsets"),
                            end = number(offsets[1], name, "data_offsets");
        if (begin > end || end > data_.size()) {
            refuse(fmt::format("tensor '{}' claims the bytes {} to {}, but there are only {}", name, begin, end,
                               data_.size()));
        }
        const auto wanted = shape_bytes(tensor.shape, tensor.dtype);
        if (!wanted || *wanted != end - begin) {
            refuse(fmt::format("tensor '{}' of {} [{}] cannot have {} bytes", name, row->name,
                               fmt::join(tensor.shape, ","), end - begin));
        }
        tensor.bytes = data_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
        return tensor;
    }

    std::uint64_t number(const Json& value, const std::string& name, const char* field) const {
        if (!value.is_number_unsigned() ||
            value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
            refuse(fmt::format("tensor '{}': {} contains {}, which is not a count", name, field, value.dump()));
        }
        return value.get<std::uint64_t>();
    }

    void check_cover(const std::vector<StoredTensor>& tensors) const {
        const std::byte* reached = data_.data();
        for (const StoredTensor& tensor : tensors) {
            if (tensor.bytes.data() != reached) {
                refuse(fmt::format("tensor '{}' begins at byte {}, but the one before it ends at {}", tensor.name,
                                   tensor.bytes.data() - data_.data(), reached - data_.data()));
            }
            reached += tensor.bytes.size();
        }
        if (reached != data_.data() + data_.size()) {
            refuse(fmt::format("{} bytes at the end belong to no tensor", data_.data() + data_.size() - reached));
        }
    }

    std::span<const std::byte> file_, data_;
    const std::string& where_;
};

}  // namespace

std::string_view dtype_name(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)].name; }
std::size_t dtype_bytes(Dtype dtype) { return dtypes[static_cast<std::size_t>(dtype)].bytes; }

Safetensors Safetensors::parse(std::span<const std::byte> file, const std::string& where) {
    Safetensors out;
    out.where_ = where;
    HeaderReader(file, where).read(out.tensors_, out.metadata_);
    for (std::size_t i = 0; i < out.tensors_.size(); ++i) out.by_name_[out.tensors_[i].name] = i;
    return out;
}

Safetensors Safetensors::read(const std::filesystem::path& path) {
    const OpenFile file = open_for_reading(path);
    if (file.bytes > reading_budget()) {
        throw Error({.what = fmt::format("this file has {} bytes, more than half of the memory that macheps may use",
                                         file.bytes),
                     .where = path.string(),
                     .fix = "save only the tensors that you need"});
    }
    std::vector<std::byte> memory;
    memory.reserve(file.bytes);
    read_blocks(file, path, reading_budget(), [&](std::string_view block) {
        const auto bytes = std::as_bytes(std::span(block.data(), block.size()));
        memory.insert(memory.end(), bytes.begin(), bytes.end());
    });
    Safetensors out = parse(memory, path.string());
    out.memory_ = std::move(memory);
    return out;
}

const StoredTensor* Safetensors::find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

const StoredTensor& Safetensors::at(std::string_view name) const {
    const StoredTensor* tensor = find(name);
    if (tensor == nullptr) {
        throw Error(
            {.what = fmt::format("there is no tensor '{}'", name), .where = where_, .fix = "give another file"});
    }
    return *tensor;
}

const std::string& Safetensors::metadata_at(const std::string& key) const {
    const auto at = metadata_.find(key);
    if (at == metadata_.end()) {
        throw Error(
            {.what = fmt::format("the metadata has no '{}'", key), .where = where_, .fix = "give another file"});
    }
    return at->second;
}

const StoredTensor& Safetensors::expect(std::string_view name, Dtype dtype) const {
    const StoredTensor& tensor = at(name);
    if (tensor.dtype != dtype) {
        throw Error(
            {.what = fmt::format("tensor '{}' is {}, not {}", name, dtype_name(tensor.dtype), dtype_name(dtype)),
             .where = where_,
             .fix = "give another file"});
    }
    return tensor;
}

void SafetensorsWriter::borrow(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                               std::span<const std::byte> bytes) {
    const auto wanted = shape_bytes(shape, dtype);
    const bool is_taken = names_.contains(name);
    if (is_taken || name == metadata_key || !wanted || *wanted != bytes.size()) {
        throw Error({.what = is_taken || name == metadata_key
                                 ? fmt::format("two tensors would be called '{}'", name)
                                 : fmt::format("'{}' of {} [{}] cannot hold {} bytes", name, dtype_name(dtype),
                                               fmt::join(shape, ","), bytes.size()),
                     .where = "safetensors",
                     .fix = "this is a defect: please report it"});
    }
    names_.insert(name);
    tensors_.push_back({.name = std::move(name), .dtype = dtype, .shape = std::move(shape), .bytes = bytes});
}

void SafetensorsWriter::add(std::string name, Dtype dtype, std::vector<std::int64_t> shape,
                            std::vector<std::byte> bytes) {
    kept_.push_back(std::move(bytes));
    borrow(std::move(name), dtype, std::move(shape), kept_.back());
}

void SafetensorsWriter::write(const Sink& sink) const {
    std::vector<const StoredTensor*> order;
    for (const StoredTensor& tensor : tensors_) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
        return dtype_bytes(a->dtype) > dtype_bytes(b->dtype);
    });
    auto header = Json::object();
    if (!metadata_.empty()) header[metadata_key] = metadata_;
    std::size_t begin = 0;
    for (const StoredTensor* tensor : order) {
        const std::size_t end = begin + tensor->bytes.size();
        header[tensor->name] = {
            {"dtype", dtype_name(tensor->dtype)}, {"shape", tensor->shape}, {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string text;
    try {
        text = header.dump();
    } catch (const JsonError& error) {
        throw Error({.what = fmt::format("a name or a metadata value is not valid UTF-8: {}", error.what()),
                     .where = "safetensors"});
    }
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
    const std::uint64_t length = text.size();
    sink(std::as_bytes(std::span(&length, 1)));
    sink(std::as_bytes(std::span(text.data(), text.size())));
    for (const StoredTensor* tensor : order) {
        if (!tensor->bytes.empty()) sink(tensor->bytes);
    }
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
    Publication file(path);
    write([&](std::span<const std::byte> piece) {
        file.write({reinterpret_cast<const char*>(piece.data()), piece.size()});
    });
    file.finish();
}

}  // namespace macheps::files
