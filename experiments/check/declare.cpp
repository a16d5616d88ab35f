// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare.hpp"

#include "core/format_table.hpp"
#include "core/nearest_name.hpp"
#include "core/print.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/numerics/machine_spelling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace macheps::check {

namespace {

using Takes = DeclareKey::Takes;
using Text = const std::string&;
constexpr double most = 3.4e38;

Error usage(std::string what, std::string where, std::string fix) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

// --- formats: FORMAT[/packed][/SHAPE], where SHAPE is of the array's scales

constexpr std::array<std::string_view, 3> scale_shapes{"tensor", "row", "column"};

/// The array that holds the scales of `array`: itself, where it is one of scales.
std::string scales_of(std::string_view array) {
    return array.ends_with("_scale") ? std::string(array) : std::string(array) + "_scale";
}

std::vector<std::string> split(Text text) {
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == '/')
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

void set_format(Declaration& d, const DeclareKey& key, Text text, Text where) {
    const std::vector<std::string> parts = split(text);
    bool has_format = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::string& part = parts[i];
        const std::string scales = scales_of(key.name);
        const bool has_scales = std::any_of(d.operation->arrays.begin(), d.operation->arrays.end(),
                                            [&](const ArrayRole& role) { return role.name == scales; });
        if (has_scales && (i > 0 || key.name == scales)) {
            if (std::find(scale_shapes.begin(), scale_shapes.end(), part) != scale_shapes.end()) {
                d.scale_shapes[scales] = part;
                continue;
            }
            if (find_granularity(part) != nullptr)
                throw Declined(
                    fmt::format("scales of shape '{}' are not judged, only {}", part, fmt::join(scale_shapes, ", ")),
                    where);
        }
        if (i == 0) {
            d.formats[key.name].format = format_named(part, where, Exit::usage);
            has_format = true;
        } else if (part == "packed" && has_format) {
            d.formats[key.name].is_packed = true;
        } else {
            throw usage(fmt::format("'{}' says nothing of a format", part), where,
                        has_scales ? fmt::format("packed, or how its scales lie: {}", fmt::join(scale_shapes, ", "))
                                   : "behind the slash stands packed, or nothing");
        }
    }
}

Json get_format(const Declaration& d, const DeclareKey& key) {
    std::string text;
    if (const auto format = d.formats.find(key.name); format != d.formats.end()) {
        text = format_name(format->second.format);
        if (format->second.is_packed) text += "/packed";
    }
    if (const auto shape = d.scale_shapes.find(key.name); shape != d.scale_shapes.end())
        text += (text.empty() ? "" : "/") + shape->second;
    return text.empty() ? Json() : Json(text);
}

bool has_array(const Operation& operation, const DeclareKey& key) {
    if (key.name == "out") return true;
    if (operation.is_product && (key.name == "a" || key.name == "b")) return true;
    return std::any_of(operation.arrays.begin(), operation.arrays.end(),
                       [&](const ArrayRole& role) { return role.name == key.name; });
}

// --- what else is declared

bool of_products(const Operation& operation, const DeclareKey&) { return operation.is_product; }
bool of_rows(const Operation& operation, const DeclareKey&) { return !operation.is_product; }
bool of_norms(const Operation& operation, const DeclareKey&) { return operation.has_eps; }
bool of_all(const Operation&, const DeclareKey&) { return true; }

void set_machine(Declaration& d, const DeclareKey&, Text text, Text where) {
    d.machine.reset();
    d.machine_name = text;
    if (text == "any") return;
    try {
        d.machine = parse_machine(text).rule;
    } catch (const Error& error) {
        throw Error({.what = error.parts().what, .where = where, .fix = error.parts().fix, .exit = error.exit()});
    }
}

std::vector<std::string_view> function_words() {
    std::vector<std::string_view> names;
    for (const FunctionTable& table : function_tables()) names.push_back(table.name);
    return names;
}

std::vector<std::string_view> scale_order_words() {
    std::vector<std::string_view> names{"any"};
    names.insert(names.end(), scale_order_names.begin(), scale_order_names.end());
    return names;
}

void set_bits(Declaration&, const DeclareKey&, Text text, Text where) {
    if (text == "true") throw Declined("no check demands the bits of a machine", where);
}

/// The keys that are no array's format.
std::vector<DeclareKey> other_keys() {
    return {
        {"machine", Takes::text, "NAME",
         "What sums a product, as in `macheps gemm --machine`; any is fp32 in any order", nullptr, of_products,
         set_machine, [](const Declaration& d, const DeclareKey&) { return Json(d.machine_name); }},
        {"scale_order", Takes::text, "ORDER", "In which order scales meet the product; the limits allow every order",
         scale_order_words, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text) { d.scale_order = text; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.scale_order); }},
        {"bits", Takes::flag, "", "Demand the machine's own bits", nullptr, of_products, set_bits,
         [](const Declaration&, const DeclareKey&) { return Json(false); }},
        {"alpha", Takes::number, "X", "What multiplies the product", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.alpha = declared_number(text, where, -most, most);
         },
         [](const Declaration& d, const DeclareKey&) { return Json(d.alpha); }},
        {"beta", Takes::number, "X", "What multiplies c", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.beta = declared_number(text, where, -most, most);
         },
         [](const Declaration& d, const DeclareKey&) { return Json(d.beta); }},
        {"eps", Takes::number, "X", "Of a norm, which is refused without", nullptr, of_norms,
         [](Declaration& d, const DeclareKey&, Text text, Text where) { d.eps = declared_number(text, where, 0, 1); },
         [](const Declaration& d, const DeclareKey&) { return d.eps ? Json(*d.eps) : Json(); }},
        {"sum", Takes::text, "ORDER", "The order of a row's sums that the kernel claims; the limits allow every order",
         nullptr, of_rows, [](Declaration& d, const DeclareKey&, Text text, Text) { d.sum_order = text; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.sum_order); }},
        {"functions", Takes::text, "NAME", "How accurate exp, log and rsqrt are", function_words, of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text) { d.functions = find_functions(text).name; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.functions); }},
        {"canaries", Takes::number, "N",
         "Entries behind the output, along its first axis, that must still hold what make-inputs put there", nullptr,
         of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.canaries = static_cast<std::int64_t>(declared_number(text, where, 0, 1e6));
         },
         [](const Declaration& d, const DeclareKey&) { return d.canaries > 0 ? Json(d.canaries) : Json(); }},
        {"saturate", Takes::flag, "", "Outputs that overflow become the largest finite number", nullptr, of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text) { d.saturates = text == "true"; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.saturates); }},
    };
}

std::vector<DeclareKey> make_keys() {
    std::vector<std::string> names{"a", "b", "out"};
    for (const Operation& operation : all_operations()) {
        for (const ArrayRole& role : operation.arrays) {
            if (std::find(names.begin(), names.end(), role.name) == names.end()) names.emplace_back(role.name);
        }
    }
    std::vector<DeclareKey> keys;
    for (const std::string& name : names) {
        keys.push_back({name, Takes::text, "FORMAT", fmt::format("Format of {}; the file's when left out", name),
                        nullptr, has_array, set_format, get_format});
    }
    for (DeclareKey& key : other_keys()) keys.push_back(std::move(key));
    return keys;
}

}  // namespace

std::string DeclareKey::option() const {
    std::string text = "--" + name;
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
}

std::string DeclareKey::default_text() const {
    const Json value = takes == Takes::flag ? Json() : get({}, *this);
    if (value.is_null()) return {};
    return value.is_string() ? value.string() : fmt::format("{:g}", value.get<double>());
}

const std::vector<DeclareKey>& declare_keys() {
    static const std::vector<DeclareKey> keys = make_keys();
    return keys;
}

const DeclareKey* find_declare_key(std::string_view name) {
    for (const DeclareKey& key : declare_keys()) {
        if (key.name == name) return &key;
    }
    return nullptr;
}

void declare(Declaration& d, const DeclareKey& key, const std::string& text, const std::string& where) {
    if (!key.applies(*d.operation, key)) {
        const bool is_array = key.applies == has_array;
        std::vector<std::string_view> names;
        for (const DeclareKey& other : declare_keys()) {
            if (other.applies(*d.operation, other) && is_array == (other.applies == has_array))
                names.push_back(other.name);
        }
        throw usage(is_array ? fmt::format("{} has no array '{}'", d.operation->name, key.name)
                             : fmt::format("{} has no {}", d.operation->name, key.name),
                    where, fmt::format("it has {}", fmt::join(names, ", ")));
    }
    if (key.words != nullptr) {
        const std::vector<std::string_view> words = key.words();
        if (std::find(words.begin(), words.end(), text) == words.end()) {
            const std::string near = nearest_name(text, words);
            throw usage(fmt::format("unknown {} '{}'", key.name, text), where,
                        near.empty() ? fmt::format("one of {}", fmt::join(words, ", "))
                                     : fmt::format("did you mean '{}'? one of {}", near, fmt::join(words, ", ")));
        }
    }
    key.set(d, key, text, where);
}

Json declared_json(const Declaration& d) {
    Json json = Json::object();
    for (const DeclareKey& key : declare_keys()) {
        if (!key.applies(*d.operation, key)) continue;
        if (Json value = key.get(d, key); !value.is_null()) json[key.name] = std::move(value);
    }
    return json;
}

double declared_number(const std::string& text, const std::string& where, double least, double greatest) {
    const auto number = parse_number(text);
    if (number && std::isfinite(*number) && *number >= least && *number <= greatest) return *number;
    throw usage(fmt::format("'{}' is no number here", text), where, fmt::format("give {:g} to {:g}", least, greatest));
}

}  // namespace macheps::check
