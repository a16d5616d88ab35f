// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/resolved.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace macheps::configs {

namespace {

constexpr FieldRow all_fields[] = {
    {"store", "format in which parameters are kept"},
    {"compute", "format of the operands of matrix products"},
    {"oplist", "the lists that determine which operations run in low precision, or none"},
    {"master", "a second copy of the parameters, which the optimiser updates; none if there is no copy"},
    {"grad", "format of gradients after the backward pass"},
    {"accum", "format in which gradients of micro-batches are added up"},
    {"reduce", "format of gradients between ranks"},
    {"predivide", "divisor of gradients before they are added up between ranks"},
    {"opt_state", "format of the optimiser's moments"},
    {"opt_kernel", "single, foreach: each operation of a step rounds; fused: one rounding at the end"},
    {"norm", "format of the norms' parameters"},
    {"embed", "format of the embedding"},
    {"lm_head", "format of the output head's weight"},
    {"buffers", "format of buffers, such as rotary frequencies"},
    {"logits", "format of the logits that the loss reads"},
    {"scaler", "factor that multiplies the loss"},
    {"clip", "how gradients are clipped"},
    {"optimizer", "the optimiser and its constants"},
    {"micro_batches", "number of micro-batches in a step"},
    {"ckpt", "whether activations are recomputed in the backward pass"},
    {"adapter", "format of adapters' weights"},
    {"fp8", "the recipe of fp8 products"},
    {"eval", "format of the model when it is evaluated"},
    {"device", "the device profile"},
};

}  // namespace

std::span<const FieldRow> field_rows() { return all_fields; }

std::string scalar_text(const FieldScalar& value) {
    if (const std::string* word = std::get_if<std::string>(&value)) {
        if (*word == "F") return "fp32";
        if (*word == "T") return "tf32";
        if (*word == "H") return "fp16";
        return *word == "B" ? "bf16" : *word;
    }
    if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    const double number = std::get<double>(value);
    const bool is_whole = std::abs(number) < 0x1p53 && number == std::floor(number);
    return is_whole ? fmt::format("{}", static_cast<std::int64_t>(number)) : fmt::format("{}", number);
}

std::string field_text(const FieldValue& value) {
    std::string text = scalar_text(value.value);
    for (const auto& [name, part] : value.parts) text += fmt::format(" {}={}", name, scalar_text(part));
    return text;
}

void ResolvedConfig::set(std::string_view name, FieldValue value, Origin origin, std::string from) {
    const auto row = std::find_if(std::begin(all_fields), std::end(all_fields),
                                  [&](const FieldRow& one) { return one.name == name; });
    if (row == std::end(all_fields)) throw Error({.what = fmt::format("'{}' is not a field of a config", name)});
    const auto is_it = [&](const ResolvedField& field) { return field.name == name; };
    auto found = std::find_if(fields_.begin(), fields_.end(), is_it);
    if (found == fields_.end())
        found = fields_.insert(fields_.end(), ResolvedField{.name = row->name, .value = {}, .from = {}});
    found->value = std::move(value);
    found->origin = origin;
    found->from = std::move(from);
}

void ResolvedConfig::erase(std::string_view name) {
    std::erase_if(fields_, [&](const ResolvedField& one) { return one.name == name; });
}

const ResolvedField* ResolvedConfig::find(std::string_view name) const {
    for (const ResolvedField& field : fields_) {
        if (field.name == name) return &field;
    }
    return nullptr;
}

std::string_view ResolvedConfig::word(std::string_view name) const {
    const ResolvedField* field = find(name);
    const std::string* text = field == nullptr ? nullptr : std::get_if<std::string>(&field->value.value);
    return text == nullptr ? std::string_view{} : std::string_view(*text);
}

std::vector<const ResolvedField*> ResolvedConfig::fields() const {
    std::vector<const ResolvedField*> all;
    for (const FieldRow& row : all_fields) {
        if (const ResolvedField* field = find(row.name)) all.push_back(field);
    }
    return all;
}

}  // namespace macheps::configs
