// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/torch_file.hpp"

#include "core/error.hpp"
#include "experiments/files/arrays/pickle.hpp"
#include "experiments/files/arrays/strided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace macheps::files {

namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view pickle_member = "/data.pkl";
constexpr std::string_view rebuild = "torch._utils._rebuild_tensor_v2", rebuild_3 = "torch._utils._rebuild_tensor_v3",
                           rebuild_parameter = "torch._utils._rebuild_parameter", ordered = "collections.OrderedDict",
                           untyped = "torch.storage.UntypedStorage";

/// A type of elements. Older types have a storage class in PyTorch, and a file contains the name of this class. Newer
/// types have none: a file contains a call of _rebuild_tensor_v3 with the name of the dtype.
struct ElementType {
    std::string_view storage, dtype, type;  ///< PyTorch's names; type: the name in safetensors
    std::size_t width;
    std::optional<Format> format;  ///< empty for integers, and for codes of an unnamed format
};
const ElementType element_types[] = {
    {"torch.FloatStorage", "torch.float32", "F32", 4, fp32},
    {"torch.DoubleStorage", "torch.float64", "F64", 8, fp64},
    {"torch.HalfStorage", "torch.float16", "F16", 2, fp16},
    {"torch.BFloat16Storage", "torch.bfloat16", "BF16", 2, bf16},
    {"torch.ByteStorage", "torch.uint8", "U8", 1, {}},
    {"torch.CharStorage", "torch.int8", "I8", 1, {}},
    {"torch.ShortStorage", "torch.int16", "I16", 2, {}},
    {"torch.IntStorage", "torch.int32", "I32", 4, {}},
    {"torch.LongStorage", "torch.int64", "I64", 8, {}},
    {"torch.BoolStorage", "torch.bool", "BOOL", 1, {}},
    {"", "torch.float8_e4m3fn", "F8_E4M3", 1, e4m3fn},
    {"", "torch.float8_e5m2", "F8_E5M2", 1, e5m2},
    {"", "torch.float8_e4m3fnuz", "F8_E4M3FNUZ", 1, e4m3fnuz},
    {"", "torch.float8_e5m2fnuz", "F8_E5M2FNUZ", 1, e5m2fnuz},
    {"", "torch.float8_e8m0fnu", "F8_E8M0", 1, e8m0fnu},
    {"", "torch.float4_e2m1fn_x2", "F4_X2", 1, {}},  // two codes per byte; the user declares `e2m1fn/packed`
    {"", "torch.bits8", "U8", 1, {}},
    {"", "torch.bits16", "U16", 2, {}},
    {"", "torch.uint16", "U16", 2, {}},
    {"", "torch.uint32", "U32", 4, {}},
    {"", "torch.uint64", "U64", 8, {}},
};

/// Other names that torch.load accepts with weights_only=True. Values that are made with these names are parsed but not
/// used. In pickles of protocol 2, the module `builtins` has the name `__builtin__`. Source:
/// torch/_weights_only_unpickler.py (PyTorch 2.15).
constexpr std::string_view inert_names[] = {
    "torch.Size",          "torch.device",        "torch.serialization._get_layout",
    "collections.Counter", "_codecs.encode",      "__builtin__.bytearray",
    "__builtin__.set",     "__builtin__.complex", "torch.complex32",
    "torch.complex64",     "torch.complex128",
};

std::vector<std::string_view> known_names() {
    std::vector<std::string_view> names{rebuild, rebuild_3, rebuild_parameter, ordered, untyped};
    for (const ElementType& type : element_types) {
        if (!type.storage.empty()) names.push_back(type.storage);
        names.push_back(type.dtype);
    }
    names.insert(names.end(), std::begin(inert_names), std::end(inert_names));
    return names;
}

bool is_pickle(const ZipArchive::Entry& member) { return member.name.ends_with(pickle_member); }

class TorchFile {
  public:
    TorchFile(ZipArchive& archive, const std::string& where, const Wanted& wanted)
        : archive_(archive), where_(where), wanted_(wanted) {
        const auto at = std::find_if(archive.entries().begin(), archive.entries().end(), is_pickle);
        folder_ = at->name.substr(0, at->name.size() - pickle_member.size() + 1);
        const ZipArchive::Entry* order = archive_.find(folder_ + "byteorder");
        if (order != nullptr && archive_.read(*order) != "little") fail("the numbers are big-endian");
        pickle_ = parse_pickle(archive_.read(*at), known_names(), where);
        for (const ZipArchive::Entry& member : archive.entries()) budget_ += 16 * member.size;
    }

    std::vector<StoredArray> arrays(const std::string& name) {
        const PickleValue& root = pickle_.at(pickle_.root);
        if (const PickleValue* call = tensor_call(root)) return {tensor(*call, name)};
        if (root.kind != Kind::dictionary && !is_call(root, ordered))
            fail("the file contains neither a tensor nor a dictionary of tensors");
        for (std::size_t i = first_item(root); i < root.parts.size(); i += 2) {
            if (pickle_.at(root.parts[i]).kind != Kind::text) fail("the dictionary has keys that are not names");
        }
        collect(pickle_.root, "", 0);
        return std::move(found_);
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw Error({.what = what,
                     .where = where_,
                     .fix = "save as safetensors, or a dictionary of names and contiguous tensors"});
    }
    /// Returns the bytes of a storage, or null if it is missing. Each storage is unpacked only once, because many
    /// tensors may share it.
    const std::string* storage_bytes(const std::string& key) {
        const ZipArchive::Entry* entry = archive_.find(folder_ + "data/" + key);
        if (entry == nullptr) return nullptr;
        const auto [at, is_new] = storages_.try_emplace(entry);
        if (is_new) at->second = archive_.read(*entry);
        return &at->second;
    }
    bool is_call(const PickleValue& value, std::string_view function) const {
        return value.kind == Kind::call && pickle_.at(value.parts[0]).text == function;
    }
    /// Returns element `i` of a tuple. Throws Error if it is missing or is not of this kind.
    const PickleValue& part(const PickleValue& tuple, std::size_t i, Kind kind) const {
        if (i >= tuple.parts.size() || pickle_.at(tuple.parts[i]).kind != kind)
            fail("the description of a tensor is not as PyTorch writes it");
        return pickle_.at(tuple.parts[i]);
    }
    std::vector<std::int64_t> sizes(const PickleValue& tuple) const {
        std::vector<std::int64_t> all;
        for (std::size_t i = 0; i < tuple.parts.size(); ++i) all.push_back(part(tuple, i, Kind::integer).integer);
        return all;
    }

    /// Returns the call that creates a tensor, if the value is a tensor or a parameter (which contains a tensor).
    /// Returns null for any other value.
    const PickleValue* tensor_call(const PickleValue& value) const {
        if (is_call(value, rebuild) || is_call(value, rebuild_3)) return &value;
        if (!is_call(value, rebuild_parameter)) return nullptr;
        const PickleValue& data = part(pickle_.at(value.parts[1]), 0, Kind::call);
        return is_call(data, rebuild) || is_call(data, rebuild_3) ? &data : nullptr;
    }
    /// Returns the index, among the parts of a dictionary, of its first key. It is 2 for an OrderedDict: this is stored
    /// as a call, whose first two parts are the function and its arguments.
    std::size_t first_item(const PickleValue& dictionary) const { return dictionary.kind == Kind::call ? 2 : 0; }

    /// Collects the tensors in a container and in its nested containers. The name of a nested tensor is joined from its
    /// keys: `outer.inner` for dictionaries, `outer.0` for lists. Other values are skipped. Each container is visited
    /// once, even if it occurs several times, so the work is proportional to the size of the file.
    void collect(std::size_t place, const std::string& name, int depth) {
        const PickleValue& value = pickle_.at(place);
        if (const PickleValue* call = tensor_call(value)) {
            found_.push_back(tensor(*call, name));
            return;
        }
        const bool is_dictionary = value.kind == Kind::dictionary || is_call(value, ordered),
                   is_list = value.kind == Kind::list || value.kind == Kind::tuple;
        if ((!is_dictionary && !is_list) || !visited_.insert(place).second) return;
        if (depth > max_depth) fail(fmt::format("'{}' is nested more than {} levels deep", name, max_depth));
        const std::string prefix = name.empty() ? "" : name + ".";
        for (std::size_t i = first_item(value); is_dictionary && i + 1 < value.parts.size(); i += 2) {
            const PickleValue& key = pickle_.at(value.parts[i]);
            if (key.kind == Kind::text) collect(value.parts[i + 1], prefix + key.text, depth + 1);
            if (key.kind == Kind::integer)
                collect(value.parts[i + 1], fmt::format("{}{}", prefix, key.integer), depth + 1);
        }
        for (std::size_t i = 0; is_list && i < value.parts.size(); ++i)
            collect(value.parts[i], fmt::format("{}{}", prefix, i), depth + 1);
    }

    /// Returns the tensor that `call` creates. The call is _rebuild_tensor_v2(storage, offset, size, stride,
    /// requires_grad, hooks), where the storage is ('storage', type, key, device, elements). In _rebuild_tensor_v3, the
    /// storage is untyped, and a seventh argument is the dtype. Offsets and strides count elements in both functions.
    StoredArray tensor(const PickleValue& call, const std::string& name) {
        if (!wanted_(name)) return {.name = name, .where = where_, .type = {}};
        const PickleValue& arguments = pickle_.at(call.parts[1]);
        const PickleValue& storage = part(part(arguments, 0, Kind::outside), 0, Kind::tuple);
        const std::string& storage_name = part(storage, 1, Kind::name).text;
        const bool has_dtype = is_call(call, rebuild_3);
        const std::string& type_name = has_dtype ? part(arguments, 6, Kind::name).text : storage_name;
        const auto* type =
            std::find_if(std::begin(element_types), std::end(element_types),
                         [&](const ElementType& each) { return (has_dtype ? each.dtype : each.storage) == type_name; });
        if (part(storage, 0, Kind::text).text != "storage" || (has_dtype && storage_name != untyped))
            fail("the description of a tensor is not as PyTorch writes it");
        if (type == std::end(element_types))
            fail(fmt::format("'{}' has elements of type {}, which is not supported", name, type_name));
        const std::string& key = part(storage, 2, Kind::text).text;
        const std::string* data = storage_bytes(key);
        if (data == nullptr) fail(fmt::format("the storage '{}' of '{}' is missing", key, name));
        const std::int64_t offset = part(arguments, 1, Kind::integer).integer;
        StoredArray array{.name = name,
                          .where = where_,
                          .type = std::string(type->type),
                          .format = type->format,
                          .width = type->width,
                          .shape = sizes(part(arguments, 2, Kind::tuple))};
        const std::vector<std::int64_t> strides = sizes(part(arguments, 3, Kind::tuple));
        std::optional<std::string> bytes;
        if (offset >= 0) bytes = in_rows(*data, type->width, array.shape, strides, static_cast<std::uint64_t>(offset));
        if (!bytes) fail(fmt::format("'{}' lies outside its storage, or repeats elements of it", name));
        // Many tensors may share one storage, so the total size of all tensors is limited to 16 times the size of the
        // unpacked file.
        if (bytes->size() > budget_) fail("tensors that share storages have more than 16 times the bytes of the file");
        budget_ -= bytes->size();
        array.bytes = std::move(*bytes);
        return array;
    }

    ZipArchive& archive_;
    const std::string& where_;
    const Wanted& wanted_;
    std::map<const ZipArchive::Entry*, std::string> storages_{};
    std::string folder_{};
    Pickle pickle_{};
    std::size_t budget_ = 0;
    std::vector<StoredArray> found_{};
    std::set<std::size_t> visited_{};  ///< indices of the containers in pickle_.values
    static constexpr int max_depth = 64;
};

}  // namespace

bool is_torch_file(const ZipArchive& archive) {
    return std::any_of(archive.entries().begin(), archive.entries().end(), is_pickle);
}

std::vector<StoredArray> torch_arrays(ZipArchive& archive, const std::string& name, const std::string& where,
                                      const Wanted& wanted) {
    return TorchFile(archive, where, wanted).arrays(name);
}

}  // namespace macheps::files
