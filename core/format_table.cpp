// SPDX-License-Identifier: Apache-2.0
#include "core/format_table.hpp"

#include "core/text/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace macheps {

namespace {

// A name that means different formats in different systems. Such a name is rejected, and the error lists both formats.
struct Ambiguous {
    std::string_view name, reading, other_reading;
};
constexpr Ambiguous ambiguous_names[] = {
    {"e4m3", "e4m3fn (CUDA, OCP, PyTorch, safetensors: up to 448)", "e4m3ieee (ml_dtypes, LLVM: up to 240)"},
    {"fp8_e4m3", "e4m3fn (CUDA, OCP, PyTorch, safetensors: up to 448)", "e4m3ieee (ml_dtypes, LLVM: up to 240)"},
    {"fp8", "e4m3fn (for values)", "e5m2 (for gradients)"},
    {"fp6", "e2m3fn (up to 7.5)", "e3m2fn (up to 28)"},
};

const Ambiguous* find_ambiguous(std::string_view lowered_name) {
    for (const auto& row : ambiguous_names) {
        if (row.name == lowered_name) return &row;
    }
    return nullptr;
}

constexpr int min_exponent = 2, max_exponent = 8, min_fraction = 1, max_fraction = 23;

constexpr Format of_widths(int exponent_bits, int fraction_bits) {
    return {.bits = 1 + exponent_bits + fraction_bits,
            .precision = fraction_bits + 1,
            .exponent_bias = (1 << (exponent_bits - 1)) - 1};
}

/// A name that states the widths of exponent and fraction, such as `e5m6`, and the format that it means. All such names
/// are stored in a table, so that a function can return a std::string_view of a name.
struct WidthName {
    std::array<char, 5> text{};
    std::size_t length = 0;
    Format format{};

    constexpr std::string_view view() const { return {text.data(), length}; }
};
constexpr auto width_names = [] {
    std::array<WidthName, (max_exponent - min_exponent + 1) * (max_fraction - min_fraction + 1)> names{};
    std::size_t at = 0;
    for (int e = min_exponent; e <= max_exponent; ++e) {
        for (int m = min_fraction; m <= max_fraction; ++m, ++at) {
            WidthName& name = names[at];
            for (const char c : {'e', static_cast<char>('0' + e), 'm'}) name.text[name.length++] = c;
            if (m >= 10) name.text[name.length++] = static_cast<char>('0' + m / 10);
            name.text[name.length++] = static_cast<char>('0' + m % 10);
            name.format = of_widths(e, m);
        }
    }
    return names;
}();

}  // namespace

std::vector<std::string_view> split_names(std::string_view cell) {
    std::vector<std::string_view> names;
    while (!cell.empty()) {
        const std::size_t space = cell.find(' ');
        names.push_back(cell.substr(0, space));
        cell = space == std::string_view::npos ? std::string_view{} : cell.substr(space + 1);
    }
    return names;
}

const NamedFormat* find_format(std::string_view name) {
    const std::string wanted = lowered(name);
    if (wanted.empty() || find_ambiguous(wanted) != nullptr) return nullptr;
    for (const auto& row : all_formats) {
        if (row.name == wanted) return &row;
    }
    for (const auto& row : all_formats) {
        for (const auto cell : row.aliases.cells()) {
            for (const auto alias : split_names(cell)) {
                if (lowered(alias) == wanted) return &row;
            }
        }
    }
    return nullptr;
}

std::optional<Format> ieee_format(std::string_view name) {
    const std::string wanted = lowered(name);
    if (find_ambiguous(wanted) != nullptr) return std::nullopt;
    for (const WidthName& each : width_names) {
        if (each.view() != wanted) continue;
        for (const NamedFormat& row : all_formats) {
            const Format unpadded{.bits = row.format.bits,
                                  .precision = row.format.precision,
                                  .exponent_bias = row.format.exponent_bias,
                                  .specials = row.format.specials,
                                  .encoding = row.format.encoding};
            if (unpadded == each.format) return row.format;
        }
        return each.format;
    }
    return std::nullopt;
}

namespace {

/// Returns true for a name of an integer type, which is letters followed by a number of bits: int8, uint4, s32, i16,
/// torch.int8, ...
bool is_integer_type(std::string_view name) {
    if (name.starts_with("torch.") || name.starts_with("numpy.")) name.remove_prefix(6);
    for (const std::string_view prefix : {"uint", "int", "u", "i", "s"}) {
        if (!name.starts_with(prefix)) continue;
        const std::string_view bits = name.substr(prefix.size());
        return !bits.empty() && bits.find_first_not_of("0123456789") == std::string_view::npos;
    }
    return false;
}

}  // namespace

Format format_named(std::string_view name, std::string_view where, Exit exit) {
    if (const NamedFormat* row = find_format(name)) return row->format;
    if (const std::optional<Format> format = ieee_format(name)) return *format;
    if (const Ambiguous* row = find_ambiguous(lowered(name))) {
        throw Error({.what = fmt::format("format '{}' is ambiguous", name),
                     .where = std::string(where),
                     .fix = fmt::format("write {} or {}", row->reading, row->other_reading),
                     .exit = exit});
    }
    if (is_integer_type(lowered(name))) {
        throw Error(
            {.what = fmt::format("'{}' is an integer type, not a floating-point format", name),
             .where = std::string(where),
             .fix = "use a name that `macheps formats` lists; mxint8 is a block format with shared scales, not int8",
             .exit = exit});
    }
    const std::string near = nearest_name(name, format_names());
    throw Error({.what = fmt::format("unknown format '{}'", name),
                 .where = std::string(where),
                 .fix = near.empty()
                            ? fmt::format("use one of {}, or widths such as e5m6", fmt::join(format_names(), ", "))
                            : fmt::format("did you mean {}? `macheps formats` lists them all", near),
                 .exit = exit});
}

std::string_view format_name(const Format& format) {
    for (const auto& row : all_formats) {
        if (row.format == format) return row.name;
    }
    for (const WidthName& each : width_names) {
        if (each.format == format) return each.view();
    }
    return "custom";
}

std::vector<std::string_view> format_names() {
    std::vector<std::string_view> names;
    for (const auto& row : all_formats) names.push_back(row.name);
    return names;
}

}  // namespace macheps
