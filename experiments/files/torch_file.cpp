// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/torch_file.hpp"

#include "core/error.hpp"
#include "experiments/files/pickle.hpp"
#include "experiments/files/strided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace macheps {

namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view pickle_member = "/data.pkl";
constexpr std::string_view rebuild = "torch._utils._rebuild_tensor_v2", ordered = "collections.OrderedDict";

struct StorageType {
    std::string_view name, type;  ///< PyTorch's, and as safetensors spells what it holds
    std::size_t width;
    std::optional<Format> format;  ///< nothing: codes, or whole numbers
};
const StorageType storage_types[] = {
    {"torch.FloatStorage", "F32", 4, fp32}, {"torch.DoubleStorage", "F64", 8, fp64},
    {"torch.HalfStorage", "F16", 2, fp16},  {"torch.BFloat16Storage", "BF16", 2, bf16},
    {"torch.ByteStorage", "U8", 1, {}},     {"torch.CharStorage", "I8", 1, {}},
    {"torch.ShortStorage", "I16", 2, {}},   {"torch.IntStorage", "I32", 4, {}},
    {"torch.LongStorage", "I64", 8, {}},    {"torch.BoolStorage", "BOOL", 1, {}},
};

std::vector<std::string_view> known_names() {
    std::vector<std::string_view> names{rebuild, ordered};
    for (const StorageType& type : storage_types) names.push_back(type.name);
    return names;
}

class TorchFile {
  public:
    TorchFile(const std::vector<ZipMember>& members, const std::string& where) : members_(members), where_(where) {
        const auto at = std::find_if(members.begin(), members.end(),
                                     [](const ZipMember& member) { return member.name.ends_with(pickle_member); });
        folder_ = at->name.substr(0, at->name.size() - pickle_member.size() + 1);
        const ZipMember* order = find("byteorder");
        if (order != nullptr && order->bytes != "little") fail("numbers of big-endian bytes");
        pickle_ = parse_pickle(at->bytes, known_names(), where);
        for (const ZipMember& member : members) budget_ += 16 * member.bytes.size();
    }

    std::vector<StoredArray> arrays(const std::string& name) {
        std::vector<StoredArray> all;
        const PickleValue& root = pickle_.at(pickle_.root);
        if (is_call(root, rebuild)) {
            all.push_back(tensor(root, name));
            return all;
        }
        const bool is_ordered = is_call(root, ordered);
        if (root.kind != Kind::dictionary && !is_ordered) fail("neither a tensor nor a dictionary of tensors");
        for (std::size_t i = is_ordered ? 2 : 0; i < root.parts.size(); i += 2) {
            const PickleValue &key = pickle_.at(root.parts[i]), &value = pickle_.at(root.parts[i + 1]);
            if (key.kind != Kind::text) fail("a dictionary whose keys are no names");
            if (value.kind == Kind::none || value.kind == Kind::boolean || value.kind == Kind::integer ||
                value.kind == Kind::real || value.kind == Kind::text)
                continue;
            if (!is_call(value, rebuild)) fail(fmt::format("'{}' in it is no tensor", key.text));
            all.push_back(tensor(value, key.text));
        }
        return all;
    }

  private:
    [[noreturn]] void fail(const std::string& what) const {
        throw Error({.what = what,
                     .where = where_,
                     .fix = "save as safetensors, or a dictionary of names and contiguous tensors"});
    }
    const ZipMember* find(const std::string& name) const {
        const auto at = std::find_if(members_.begin(), members_.end(),
                                     [&](const ZipMember& member) { return member.name == folder_ + name; });
        return at == members_.end() ? nullptr : &*at;
    }
    bool is_call(const PickleValue& value, std::string_view function) const {
        return value.kind == Kind::call && pickle_.at(value.parts[0]).text == function;
    }
    /// Part `i` of a tuple.
    const PickleValue& part(const PickleValue& tuple, std::size_t i, Kind kind) const {
        if (i >= tuple.parts.size() || pickle_.at(tuple.parts[i]).kind != kind)
            fail("a tensor whose description PyTorch does not write");
        return pickle_.at(tuple.parts[i]);
    }
    std::vector<std::int64_t> sizes(const PickleValue& tuple) const {
        std::vector<std::int64_t> all;
        for (std::size_t i = 0; i < tuple.parts.size(); ++i) all.push_back(part(tuple, i, Kind::integer).integer);
        return all;
    }

    /// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), where a storage is
    /// ('storage', type, key, device, elements).
    StoredArray tensor(const PickleValue& call, const std::string& name) {
        const PickleValue& arguments = pickle_.at(call.parts[1]);
        const PickleValue& storage = part(part(arguments, 0, Kind::outside), 0, Kind::tuple);
        const std::string& type_name = part(storage, 1, Kind::name).text;
        const auto* type = std::find_if(std::begin(storage_types), std::end(storage_types),
                                        [&](const StorageType& each) { return each.name == type_name; });
        if (part(storage, 0, Kind::text).text != "storage" || type == std::end(storage_types))
            fail("a tensor whose description PyTorch does not write");
        const std::string& key = part(storage, 2, Kind::text).text;
        const ZipMember* data = find("data/" + key);
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
        if (offset >= 0)
            bytes = in_rows(data->bytes, type->width, array.shape, strides, static_cast<std::uint64_t>(offset));
        if (!bytes) fail(fmt::format("'{}' lies outside of its storage, or repeats elements of it", name));
        // Many tensors may be parts of one storage: together they are held to a multiple of the file.
        if (bytes->size() > budget_) fail("tensors that share storages have more than 16 times the bytes of the file");
        budget_ -= bytes->size();
        array.bytes = std::move(*bytes);
        return array;
    }

    const std::vector<ZipMember>& members_;
    const std::string& where_;
    std::string folder_{};
    Pickle pickle_{};
    std::size_t budget_ = 0;
};

}  // namespace

bool is_torch_file(const std::vector<ZipMember>& members) {
    return std::any_of(members.begin(), members.end(),
                       [](const ZipMember& member) { return member.name.ends_with(pickle_member); });
}

std::vector<StoredArray> torch_arrays(const std::vector<ZipMember>& members, const std::string& name,
                                      const std::string& where) {
    return TorchFile(members, where).arrays(name);
}

}  // namespace macheps
