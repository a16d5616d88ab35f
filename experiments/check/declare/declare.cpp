// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/declare/declare.hpp"

#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/print.hpp"
#include "emulation/matmul/machine_spelling.hpp"
#include "emulation/matmul/rules.hpp"
#include "experiments/check/declare/declare_products.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/declare/quantiser_rules.hpp"
#include "experiments/check/declare/scale_block.hpp"

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

// --- keys of formats. Their text is FORMAT[/packed][/SHAPE], where SHAPE says which elements share a scale

constexpr std::array<std::string_view, 3> scale_shapes{"tensor", "row", "column"};

/// Returns the name of the array that holds the scales of `array`, or `array` if it holds scales itself.
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
            if (const auto block = scale_block(part)) {
                d.scale_shapes[scales] = part;
                if (block->format) d.formats.try_emplace(scales, ArrayFormat{*block->format});
                continue;
            }
            if (find_granularity(part) != nullptr)
                throw Declined(fmt::format("scales of shape '{}' cannot be checked, only {} and blocks such as 1x128",
                                           part, fmt::join(scale_shapes, ", ")),
                               where);
        }
        if (i == 0) {
            d.formats[key.name].format = format_named(part, where, Exit::usage);
            has_format = true;
        } else if (part == "packed" && has_format) {
            d.formats[key.name].is_packed = true;
        } else {
            throw usage_error(
                fmt::format("'{}' is not a valid part of a format", part), where,
                has_scales ? fmt::format(
                                 "use packed, or the elements that share a scale: {}, or a block such as 1x128 or mx32",
                                 fmt::join(scale_shapes, ", "))
                           : "write packed after the slash, or remove the slash");
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

// --- other keys

bool of_rows(const Operation& operation, const DeclareKey&) { return !operation.is_product; }
bool of_norms(const Operation& operation, const DeclareKey&) { return operation.has_eps; }
bool of_all(const Operation&, const DeclareKey&) { return true; }

/// Returns the result of `read`. If `read` throws an Error, throws it again with `where` as its place.
template <class Read>
auto at_place(Text where, Read read) {
    try {
        return read();
    } catch (const Error& error) {
        throw Error({.what = error.parts().what, .where = where, .fix = error.parts().fix, .exit = error.exit()});
    }
}

void set_machine(Declaration& d, const DeclareKey&, Text text, Text where) {
    d.machine.reset();
    d.machine_name = text;
    if (text != "any" && text != "sliced") d.machine = at_place(where, [&] { return parse_machine(text).rule; });
}

bool of_sums(const Operation& operation, const DeclareKey&) { return operation.has_reduction && !operation.is_product; }
bool of_softmax(const Operation& operation, const DeclareKey&) { return operation.has_softmax; }
bool of_inner(const Operation& operation, const DeclareKey&) { return operation.has_inner; }
bool of_variance(const Operation& operation, const DeclareKey&) { return operation.has_variance; }
bool of_forms(const Operation& operation, const DeclareKey&) { return !operation.forms.empty(); }

void set_form(Declaration& d, const DeclareKey&, Text text, Text where) {
    std::vector<std::string> lines;
    for (const Form& form : d.operation->forms) {
        if (form.name == text) {
            d.form = text;
            return;
        }
        lines.push_back(fmt::format("{} ({})", form.name, form.formula));
    }
    throw usage_error(fmt::format("{} has no form '{}'", d.operation->name, text), where,
                      fmt::format("use one of {}", fmt::join(lines, ", ")));
}
Json get_form(const Declaration& d, const DeclareKey&) {
    if (d.operation == nullptr || d.operation->forms.empty()) return {};
    if (d.operation->is_product) return d.form.empty() ? Json() : Json(d.form);
    return Json(d.form.empty() ? std::string(d.operation->forms.front().name) : d.form);
}
template <Layout layout>
bool of_layout(const Operation& operation, const DeclareKey&) {
    return operation.layout == layout;
}

std::vector<std::string_view> rounding_words() {
    std::vector<std::string_view> names;
    for (const RoundName& row : round_names) names.push_back(row.name);
    return names;
}
void set_rounding(Declaration& d, const DeclareKey&, Text text, Text) {
    for (const RoundName& row : round_names) {
        if (row.name == text) d.rounding = row.value;
    }
}

constexpr std::array<std::string_view, 3> reductions{"none", "mean", "sum"};
void set_reduction(Declaration& d, const DeclareKey&, Text text, Text) {
    d.reduction = static_cast<Reduction>(std::find(reductions.begin(), reductions.end(), text) - reductions.begin());
}

constexpr std::array<std::string_view, 2> scalings{"multiply", "divide"};

/// Returns the keys of operations on rows, and the keys that set the rounding of outputs. docs/check.md explains them.
std::vector<DeclareKey> row_keys() {
    using D = const Declaration&;
    using K = const DeclareKey&;
    return {
        {"sum", Takes::text, "ORDER",
         "Order of the sums over a row (any, pairwise, lanes32, blocks128, kahan), and the format of partial sums, "
         "as in bf16 or fp16.pairwise",
         nullptr, of_sums,
         [](Declaration& d, K, Text text, Text where) { d.sum_order = sum_order_text(parse_sum_order(text, where)); },
         [](D d, K) { return Json(d.sum_order); }},
        {"inner", Takes::text, "FORMAT",
         "Format of the kernel's intermediate results: a norm before its gain, a gate's activation, rotary products, "
         "the sum of exponentials and its logarithm (logsumexp, log_softmax, cross_entropy). Default: fp32",
         nullptr, of_inner,
         [](Declaration& d, K, Text text, Text where) { d.inner = format_named(text, where, Exit::usage); },
         [](D d, K) { return d.inner ? Json(std::string(format_name(*d.inner))) : Json(); }},
        {"variance", Takes::text, "FORM",
         "How the variance is computed. one_pass is E[x^2] - mean^2; welford updates the mean and the sum of squares "
         "with each x. Both have larger errors than two_pass",
         [] {
             return std::vector<std::string_view>{"two_pass", "one_pass", "welford"};
         },
         of_variance,
         [](Declaration& d, K, Text text, Text) {
             d.has_one_pass_variance = text == "one_pass";
             d.has_running_variance = text == "welford";
         },
         [](D d, K) {
             return Json(d.has_one_pass_variance ? "one_pass" : d.has_running_variance ? "welford" : "two_pass");
         }},
        {"form", Takes::text, "NAME", "How the operation is computed. Default: its first form", nullptr, of_forms,
         set_form, get_form},
        {"unshifted", Takes::flag, "", "The kernel takes exponentials of x without subtracting the row's maximum",
         nullptr, of_softmax, [](Declaration& d, K, Text text, Text) { d.subtracts_max = text != "true"; },
         [](D d, K) { return Json(!d.subtracts_max); }},
        {"block", Takes::number, "N",
         "Online softmax: number of columns that are processed at a time. 0: the whole row at once", nullptr,
         of_softmax,
         [](Declaration& d, K, Text text, Text where) {
             d.block = declared_whole_number(text, where, 0, std::int64_t{1} << 31);
         },
         [](D d, K) { return Json(d.block); }},
        {"rounding", Takes::text, "MODE", "How outputs are rounded", rounding_words, of_all, set_rounding,
         [](D d, K) { return Json(std::string(name_of(d.rounding))); }},
        {"random_bits", Takes::number, "N", "Number of random bits of stochastic rounding. Default: 32", nullptr,
         of_all,
         [](Declaration& d, K, Text text, Text where) {
             d.random_bits = static_cast<int>(declared_whole_number(text, where, 1, 32));
         },
         [](D d, K) { return d.rounding == Round::stochastic ? Json(d.random_bits) : Json(); }},
        {"flush", Takes::flag, "", "Outputs below the smallest normal number become zero", nullptr, of_rows,
         [](Declaration& d, K, Text text, Text) { d.flushes = text == "true"; },
         [](D d, K) { return Json(d.flushes); }},
        {"layout", Takes::text, "LAYOUT",
         "Elements that a rotary embedding rotates together: halves (x[i] and x[i + n/2]) or pairs of neighbours",
         [] {
             return std::vector<std::string_view>{"halves", "pairs"};
         },
         of_layout<Layout::rotary>, [](Declaration& d, K, Text text, Text) { d.has_pairs = text == "pairs"; },
         [](D d, K) { return Json(d.has_pairs ? "pairs" : "halves"); }},
        {"halves", Takes::text, "ORDER", "Order of gate and up if x holds both as halves",
         [] {
             return std::vector<std::string_view>{"gate_up", "up_gate"};
         },
         of_layout<Layout::gated>, [](Declaration& d, K, Text text, Text) { d.has_up_first = text == "up_gate"; },
         [](D d, K) { return Json(d.has_up_first ? "up_gate" : "gate_up"); }},
        {"reduction", Takes::text, "NAME", "How the losses of all rows are reduced",
         [] { return std::vector<std::string_view>(reductions.begin(), reductions.end()); }, of_layout<Layout::classes>,
         set_reduction, [](D d, K) { return Json(std::string(reductions[static_cast<std::size_t>(d.reduction)])); }},
        {"ignore_index", Takes::number, "N", "Target whose rows have no loss and do not count. Default: none", nullptr,
         of_layout<Layout::classes>,
         [](Declaration& d, K, Text text, Text where) {
             d.ignored = declared_whole_number(text, where, -(std::int64_t{1} << 31), std::int64_t{1} << 31);
         },
         [](D d, K) { return d.ignored ? Json(*d.ignored) : Json(); }},
        {"granularity", Takes::text, "NAME",
         "Group of elements that share a scale, named as in policies. Required, unless --given-scale is one number",
         [] { return names_of(granularities); }, of_layout<Layout::quantised>,
         [](Declaration& d, K, Text text, Text) { d.granularity = text; },
         [](D d, K) { return d.granularity.empty() ? Json() : Json(d.granularity); }},
        {"scale_rule", Takes::text, "NAME",
         "Rule that computes a scale, named as in policies, or amax_over_max. Default: the usual rule of the "
         "granularity",
         quantiser_rules, of_layout<Layout::quantised>, [](Declaration& d, K, Text text, Text) { d.scale_rule = text; },
         [](D d, K) { return d.scale_rule.empty() ? Json() : Json(d.scale_rule); }},
        {"scaling", Takes::text, "WORD",
         "How x is scaled: multiply by the encode scale, or divide by the decode scale (amax / largest value)",
         [] { return std::vector<std::string_view>(scalings.begin(), scalings.end()); }, of_layout<Layout::quantised>,
         [](Declaration& d, K, Text text, Text) { d.divides = text == "divide"; },
         [](D d, K) { return Json(std::string(scalings[d.divides ? 1 : 0])); }},
        {"given_scale", Takes::text, "WHAT",
         "Source of scales that are not computed from x (KV cache, static scales): scale (array of decode scales), "
         "encode_scale (array), or a number (the decode scale of the whole tensor). Default: computed from x by "
         "--scale-rule",
         nullptr, of_layout<Layout::quantised>,
         [](Declaration& d, K, Text text, Text where) {
             if (text != "scale" && text != "encode_scale") declared_number(text, where, 1e-38, most);
             d.given_scale = text;
         },
         [](D d, K) { return d.given_scale.empty() ? Json() : Json(d.given_scale); }},
    };
}

std::vector<std::string_view> scale_order_words() {
    std::vector<std::string_view> names{"any"};
    names.insert(names.end(), scale_order_names.begin(), scale_order_names.end());
    return names;
}

/// Returns all other keys: those that set no format and are in neither product_keys() nor row_keys().
std::vector<DeclareKey> other_keys() {
    return {
        {"machine", Takes::text, "NAME",
         "How a product is summed: sliced (fp32 chains over contiguous slices or lanes of k), any (fp32 in any order), "
         "or a matrix unit as in `macheps gemm --machine`",
         nullptr, of_products, set_machine,
         [](const Declaration& d, const DeclareKey&) { return Json(std::string(machine_name_of(d))); }},
        {"bits", Takes::flag, "",
         "Require the exact bits of the machine. Operations on rows: the bits of fp32 arithmetic with the declared "
         "order of sums and correctly rounded functions",
         nullptr, of_all, [](Declaration& d, const DeclareKey&, Text text, Text) { d.bits = text == "true"; },
         // The JSON of a row operation contains this key only if it is set. Older versions did not have the key for row
         // operations, and declarations without it must still match the JSON in older baselines.
         [](const Declaration& d, const DeclareKey&) {
             return d.bits || d.operation->is_product ? Json(d.bits) : Json();
         }},
        {"scale_order", Takes::text, "ORDER",
         "Order in which scales are applied to the product. The limits allow every order", scale_order_words,
         of_products, [](Declaration& d, const DeclareKey&, Text text, Text) { d.scale_order = text; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.scale_order); }},
        {"alpha", Takes::number, "X", "Factor of the product", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.alpha = declared_number(text, where, -most, most);
         },
         [](const Declaration& d, const DeclareKey&) { return Json(d.alpha); }},
        {"beta", Takes::number, "X", "Factor of c", nullptr, of_products,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.beta = declared_number(text, where, -most, most);
         },
         [](const Declaration& d, const DeclareKey&) { return Json(d.beta); }},
        {"eps", Takes::number, "X", "Number that a norm adds before the square root. Required for norms", nullptr,
         of_norms,
         [](Declaration& d, const DeclareKey&, Text text, Text where) { d.eps = declared_number(text, where, 0, 1); },
         [](const Declaration& d, const DeclareKey&) { return d.eps ? Json(*d.eps) : Json(); }},
        {"functions", Takes::text, "NAME",
         "Accuracy of functions: cuda, cuda.fast, hip or exact, optionally followed by the errors of single functions "
         "in ulp, as in cuda,exp=4",
         nullptr, of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             find_functions(text, where);
             d.functions = text;
         },
         [](const Declaration& d, const DeclareKey&) { return Json(d.functions); }},
        {"canaries", Takes::number, "N",
         "Number of entries after the end of the output, along its first axis, that must still hold the values that "
         "make-inputs wrote there. Default: 0",
         nullptr, of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text where) {
             d.canaries = declared_whole_number(text, where, 0, 1000000);
         },
         [](const Declaration& d, const DeclareKey&) { return d.canaries > 0 ? Json(d.canaries) : Json(); }},
        {"saturate", Takes::flag, "", "Outputs that overflow become the largest finite number", nullptr, of_all,
         [](Declaration& d, const DeclareKey&, Text text, Text) { d.saturates = text == "true"; },
         [](const Declaration& d, const DeclareKey&) { return Json(d.saturates); }},
    };
}

/// The most used keys.
constexpr std::array<std::string_view, 9> common{"a",   "b",    "x",        "out",     "machine",
                                                 "eps", "bits", "rounding", "saturate"};

std::vector<DeclareKey> make_keys() {
    std::vector<std::string> names{"a", "b", "out"};
    for (const Operation& operation : all_operations()) {
        for (const ArrayRole& role : operation.arrays) {
            if (!role.is_layout && std::find(names.begin(), names.end(), role.name) == names.end())
                names.emplace_back(role.name);
        }
    }
    std::vector<DeclareKey> keys;
    for (const std::string& name : names) {
        keys.push_back({name, Takes::text, "FORMAT", fmt::format("Format of {}. Default: the format in the file", name),
                        nullptr, has_array, set_format, get_format});
    }
    for (DeclareKey& key : other_keys()) keys.push_back(std::move(key));
    for (DeclareKey& key : product_keys()) keys.push_back(std::move(key));
    for (DeclareKey& key : row_keys()) keys.push_back(std::move(key));
    for (DeclareKey& key : keys) key.is_common = std::find(common.begin(), common.end(), key.name) != common.end();
    return keys;
}

}  // namespace

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
        throw usage_error(is_array ? fmt::format("{} has no array '{}'", d.operation->name, key.name)
                                   : fmt::format("{} has no {}", d.operation->name, key.name),
                          where, fmt::format("remove it; {} has {}", d.operation->name, fmt::join(names, ", ")));
    }
    if (key.words != nullptr) {
        const std::vector<std::string_view> words = key.words();
        if (std::find(words.begin(), words.end(), text) == words.end()) {
            const std::string near = nearest_name(text, words);
            throw usage_error(fmt::format("unknown {} '{}'", key.name, text), where,
                              near.empty()
                                  ? fmt::format("use one of {}", fmt::join(words, ", "))
                                  : fmt::format("did you mean '{}'? use one of {}", near, fmt::join(words, ", ")));
        }
    }
    key.set(d, key, text, where);
}

std::string help_of(const DeclareKey& key, const Operation& operation) {
    if (key.applies == has_array) {
        const auto role = std::find_if(operation.arrays.begin(), operation.arrays.end(),
                                       [&](const ArrayRole& each) { return each.name == key.name; });
        const bool is_optional = role != operation.arrays.end() && !role->is_required;
        return fmt::format("Format of {}{}. Default: the format in the file", key.name,
                           is_optional ? ", an optional array" : "");
    }
    if (key.applies == of_forms) {
        std::string text = key.help;
        for (const Form& form : operation.forms) text += fmt::format("\n{}: {}", form.name, form.formula);
        return text;
    }
    return key.help;
}

std::vector<std::string> array_roles(const Operation& operation) {
    std::vector<std::string> roles;
    for (const DeclareKey& key : declare_keys()) {
        if (key.applies == has_array && has_array(operation, key)) roles.push_back(key.name);
    }
    // Layout arrays hold integers and have no format to declare.
    for (const ArrayRole& role : operation.arrays) {
        if (std::find(roles.begin(), roles.end(), role.name) == roles.end()) roles.emplace_back(role.name);
    }
    return roles;
}

Json declared_json(const Declaration& d) {
    Json json = Json::object();
    for (const DeclareKey& key : declare_keys()) {
        if (!key.applies(*d.operation, key)) continue;
        if (Json value = key.get(d, key); !value.is_null()) json[key.name] = std::move(value);
    }
    return json;
}

std::string declared_text(const Json& value) { return value.is_string() ? value.string() : value.dump(); }

std::vector<DeclaredValue> declared_values(const Declaration& d) {
    const Declaration usual{.operation = d.operation};
    std::vector<DeclaredValue> values;
    for (const DeclareKey& key : declare_keys()) {
        if (!key.applies(*d.operation, key)) continue;
        const Json value = key.get(d, key);
        if (!value.is_null() && !(value == key.get(usual, key))) values.push_back({&key, declared_text(value)});
    }
    return values;
}

std::string no_check_of(std::string_view operation) {
    return fmt::format("the operation '{}' cannot be checked yet", operation);
}

double declared_number(const std::string& text, const std::string& where, double least, double greatest) {
    const auto number = parse_number(text);
    if (number && std::isfinite(*number) && *number >= least && *number <= greatest) return *number;
    throw usage_error(fmt::format("'{}' is not a number in the allowed range", text), where,
                      fmt::format("give {:g} to {:g}", least, greatest));
}

std::int64_t declared_whole_number(const std::string& text, const std::string& where, std::int64_t least,
                                   std::int64_t greatest) {
    const double number = declared_number(text, where, static_cast<double>(least), static_cast<double>(greatest));
    if (number != std::floor(number))
        throw usage_error(fmt::format("'{}' is not a whole number", text), where, "use a whole number");
    return static_cast<std::int64_t>(number);
}

}  // namespace macheps::check
