// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/scale/scaled_array.hpp"

#include "core/codec.hpp"
#include "core/field_error.hpp"
#include "core/format_table.hpp"
#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps::study {

namespace {

std::string one_of(std::string_view name, const std::vector<std::string_view>& names) {
    const std::string near = nearest_name(name, names);
    return fmt::format("{}use one of {}", near.empty() ? "" : fmt::format("did you mean '{}'? ", near),
                       fmt::join(names, ", "));
}

const Granularity& granularity_named(std::string_view name) {
    std::vector<std::string_view> names;
    for (const Granularity& row : granularities) {
        if (!row.is_scaled()) continue;
        if (row.name == name) return row;
        names.push_back(row.name);
    }
    throw FieldError("granularity", fmt::format("unknown granularity '{}'", name), one_of(name, names));
}

const ScaleRule& rule_named(std::string_view name, const Granularity& granularity) {
    if (name.empty()) return *usual_rule(granularity);
    std::vector<std::string_view> fitting;
    for (const ScaleRule& row : scale_rules) {
        if (fits(row, granularity) && !row.has_history()) fitting.push_back(row.name);
    }
    const ScaleRule* rule = find_scale_rule(name);
    if (rule == nullptr) {
        throw FieldError("scale_rule", fmt::format("unknown scale rule '{}'", name),
                         one_of(name, names_of(scale_rules)));
    }
    if (rule->has_history()) {
        throw FieldError(
            "scale_rule",
            fmt::format("'{}' computes its scale from earlier tensors, but there is only one tensor", name),
            "use another rule; macheps scale traces this one");
    }
    if (!fits(*rule, granularity)) {
        throw FieldError(
            "scale_rule",
            fmt::format("the rule '{}' cannot make scales for the granularity '{}'", name, granularity.name),
            fmt::format("use one of {}", fmt::join(fitting, ", ")));
    }
    return *rule;
}

void check_format(const Format& format, const Granularity& granularity) {
    if (format == fp64 || !format.has_zero()) {
        throw FieldError("to", fmt::format("'{}' cannot be the format of scaled elements", format_name(format)),
                         "use a signed format that has a zero and fits in fp32, such as e4m3fn");
    }
    if (granularity.kind != ScaleKind::nvfp4 || format == e2m1fn) return;
    throw FieldError("to", fmt::format("NVFP4 scales cannot be used with {}", format_name(format)),
                     "use the format e2m1fn");
}

/// Returns whether the contraction runs along the last axis. With one scale per row, it does, because each scale spans
/// all columns. With one scale per column, it runs along the first axis.
bool k_is_last(const Granularity& granularity, std::optional<int> axis) {
    if (granularity.operand.empty()) return axis.value_or(1) == 1;
    const int own = granularity.operand == "a" ? 1 : 0;
    if (axis.value_or(own) != own) {
        throw FieldError("axis",
                         fmt::format("'{}' always has one scale for each {}", granularity.name, granularity.name),
                         fmt::format("leave out `axis`, or use {}", own == 1 ? "column" : "row"));
    }
    return own == 1;
}

void check_blocks(const Granularity& granularity, bool last, std::int64_t rows, std::int64_t columns) {
    if (granularity.kind == ScaleKind::fp32) return;
    const auto check = [&](std::int64_t size, std::int64_t block, const char* what) {
        if (block <= 1 || size % block == 0) return;
        throw FieldError("granularity", fmt::format("{} {} cannot be divided into blocks of {}", size, what, block),
                         "pad the array with zeros, as the libraries require");
    };
    check(columns, last ? granularity.k : granularity.outer, "columns");
    check(rows, last ? granularity.outer : granularity.k, "rows");
}

/// Sets an element of `decoded` to NaN if its scaled value was NaN but the format of the codes has no NaN. The code of
/// such an element is arbitrary. Does nothing for rules that ignore NaN elements, because these rules saturate them.
void restore_nan(const ScaledCast& how, const ScaledArray& made, std::span<const float> values, std::int64_t columns,
                 std::vector<float>& decoded) {
    const Format& format = how.cast.format;
    if (format.has_nan() || how.rule->ignores_nan) return;
    const Granularity& block = *how.granularity;
    const std::int64_t down = how.k_is_last ? block.outer : block.k, across = how.k_is_last ? block.k : block.outer;
    const auto group_of = [&](std::size_t i) {
        const std::int64_t row = static_cast<std::int64_t>(i) / columns,
                           column = static_cast<std::int64_t>(i) % columns;
        return static_cast<std::size_t>((down == 0 ? 0 : row / down) * made.grid.columns +
                                        (across == 0 ? 0 : column / across));
    };
    std::vector<float> amax(made.scales.size());
    float largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        float& of_group = amax[group_of(i)];
        of_group = definition::join_amax(*how.rule, of_group, values[i]);
        largest = definition::join_amax(*how.rule, largest, values[i]);
    }
    const auto tensor = how.rule->tensor == nullptr ? definition::GroupScale{} : how.rule->tensor(largest);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float scaled = values[i] * definition::group_scale(format, *how.rule, amax[group_of(i)], tensor).encode;
        if (scaled != scaled) decoded[i] = definition::canonical(scaled);
    }
}

}  // namespace

ScaledCast scaled_cast_of(const ScaledArrayChoice& choice, std::int64_t rows, std::int64_t columns) {
    const Granularity& granularity = granularity_named(choice.granularity);
    const ScaleRule& rule = rule_named(choice.scale_rule, granularity);
    check_format(choice.format, granularity);
    const bool last = k_is_last(granularity, choice.axis);
    check_blocks(granularity, last, rows, columns);
    return {.cast = {.format = choice.format, .round = choice.round, .overflow = Overflow::saturate, .key = choice.key},
            .granularity = &granularity,
            .rule = &rule,
            .k_is_last = last};
}

ScaledArray scale_array(Backend& backend, const ScaledCast& how, std::span<const float> values, std::int64_t rows,
                        std::int64_t columns) {
    ScaledArray result;
    result.grid = scale_grid(*how.granularity, how.k_is_last, rows, columns);
    const Tensor in = backend.empty({rows, columns}), out = backend.empty({rows, columns}),
                 scales = backend.empty({result.grid.rows, result.grid.columns});
    backend.upload(values, in);
    const ScaledResult made = backend.scaled_cast(in, out, scales, how);
    const auto downloaded = [&](const Tensor& tensor) {
        std::vector<float> list(static_cast<std::size_t>(tensor.count()));
        backend.download(tensor, list);
        return list;
    };
    const std::vector<float> on_grid = downloaded(out);
    result.scales = downloaded(scales);
    result.codes.reserve(on_grid.size());
    const Format format = how.cast.format;
    for (const float value : on_grid)
        result.codes.push_back(encode(format, value, Round::nearest_even, Overflow::saturate));
    if (how.rule->kind != ScaleKind::fp32) {
        const Format stored = scale_format(how.rule->kind);
        for (const float scale : result.scales) {
            result.scale_codes.push_back(
                static_cast<std::uint8_t>(encode(stored, scale, Round::nearest_even, Overflow::saturate)));
        }
    }
    if (how.rule->tensor != nullptr) result.tensor_scale = made.tensor.decode;
    backend.decode_groups(out, made.scales, how.k_is_last, made.tensor.decode, in);
    result.decoded = downloaded(in);
    restore_nan(how, result, values, columns, result.decoded);
    return result;
}

}  // namespace macheps::study
