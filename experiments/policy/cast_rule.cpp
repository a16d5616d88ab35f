// SPDX-License-Identifier: Apache-2.0
// Parses and prints casts as text, such as `e4m3fn/tensor:stochastic`. No other file knows this syntax.
#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace macheps::policy {

namespace {

// In the text of a cast, the names of rounding modes, overflows, scale rules and amax choices are words without a key.
// No two of them may therefore have the same name. This check compares the scale rules with the others.
static_assert([] {
    for (const ScaleRule& rule : scale_rules) {
        for (const RoundName& row : round_names) {
            if (row.name == rule.name) return false;
        }
        for (const OverflowName& row : overflow_names) {
            if (row.name == rule.name) return false;
        }
        for (const AmaxChoiceName& row : amax_choices) {
            if (row.name == rule.name) return false;
        }
    }
    return true;
}());

[[noreturn]] void unknown(std::string_view what, std::string_view name, const std::vector<std::string_view>& names,
                          const std::string& where) {
    throw Error({.what = fmt::format("unknown {} '{}'", what, name), .where = where, .fix = suggestion(name, names)});
}

template <class Table>
bool has_name(const Table& table, std::string_view name) {
    return std::any_of(std::begin(table), std::end(table), [&](const auto& row) { return row.name == lowered(name); });
}

template <class Table>
const auto& row_named(const Table& table, std::string_view what, std::string_view name, const std::string& where) {
    const std::string wanted = lowered(name);
    const auto row = std::find_if(std::begin(table), std::end(table), [&](const auto& r) { return r.name == wanted; });
    if (row == std::end(table)) unknown(what, name, names_of(table), where);
    return *row;
}

Overflow usual_overflow(const CastRule& rule) {
    // A scale maps amax to the largest finite value of the format. A scaled value that is rounded up beyond this
    // maximum must not become Inf or NaN.
    return rule.has_scale() ? Overflow::saturate : Overflow::nonsaturate;
}

/// Reads a word without `=`: a rounding mode, an overflow, a scale rule, an amax choice, or `hadamard`. Returns false
/// for any other word.
bool read_word(CastRule& cast, std::string_view word, const std::string& where) {
    if (has_name(round_names, word)) {
        cast.round = parse_round(word, where);
    } else if (has_name(overflow_names, word)) {
        cast.overflow = parse_overflow(word, where);
    } else if (has_name(scale_rules, word)) {
        cast.scale_rule = parse_scale_rule(word, where);
    } else if (has_name(amax_choices, word)) {
        cast.delayed.choice = parse_amax_choice(word, where);
    } else if (lowered(word) == "hadamard") {
        cast.hadamard = true;
    } else {
        return false;
    }
    return true;
}

/// Returns the number after the `=` of `key=17`, or -1 if it is not a number.
int number_of(std::string_view digits) {
    int count = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return error == std::errc{} && stop == digits.data() + digits.size() ? count : -1;
}

int number_within(std::string_view key, std::string_view digits, int least, int most, const std::string& where) {
    const int number = number_of(digits);
    if (number >= least && number <= most) return number;
    throw Error({.what = fmt::format("{} is {}", key, digits.empty() ? "missing" : digits),
                 .where = where,
                 .fix = fmt::format("give {} to {}", least, most)});
}

/// Reads a word of the form `key=value`. Returns false for any other word.
bool read_setting(CastRule& cast, std::string_view word, const std::string& where) {
    const std::size_t sign = word.find('=');
    if (sign == std::string_view::npos) return false;
    const std::string_view key = word.substr(0, sign), value = word.substr(sign + 1);
    if (key == "random_bits") {
        cast.random_bits = check_random_bits(max_of(number_of(value), 0), where);
    } else if (key == "history") {
        cast.delayed.length = number_within(key, value, 1, DelayedScaling::longest, where);
    } else if (key == "margin") {
        cast.delayed.margin = number_within(key, value, 0, DelayedScaling::widest, where);
    } else if (key == "via") {
        cast.via = parse_value_format(value, where);
    } else {
        return false;
    }
    return true;
}

}  // namespace

Round parse_round(std::string_view name, const std::string& where) {
    return row_named(round_names, "rounding mode", name, where).value;
}
Overflow parse_overflow(std::string_view name, const std::string& where) {
    return row_named(overflow_names, "overflow", name, where).value;
}
const Granularity* parse_granularity(std::string_view name, const std::string& where) {
    return &row_named(granularities, "scaling", name, where);
}
const ScaleRule* parse_scale_rule(std::string_view name, const std::string& where) {
    return &row_named(scale_rules, "scale rule", name, where);
}

AmaxChoice parse_amax_choice(std::string_view name, const std::string& where) {
    return row_named(amax_choices, "algorithm", name, where).value;
}

int check_random_bits(std::int64_t bits, const std::string& where) {
    if (bits < 1 || bits > 32) {
        throw Error({.what = fmt::format("random_bits is {}", bits), .where = where, .fix = "give 1 to 32"});
    }
    return static_cast<int>(bits);
}

bool can_hold_values(const Format& f) { return f != fp64 && f.encoding != Encoding::power_of_two; }

Format parse_value_format(std::string_view name, const std::string& where) {
    const Format f = format_named(name, where);
    if (!can_hold_values(f)) {
        throw Error({.what = fmt::format("'{}' cannot hold a model's values", name),
                     .where = where,
                     .fix = f == fp64
                                ? "use fp32: values are computed in fp32, so a cast to fp32 does not round"
                                : "use a signed format with a zero, such as e4m3fn: this format is only for scales"});
    }
    return f;
}

CastRule parse_cast(std::string_view text, const std::string& where) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view head = text.substr(0, colon);
    const std::size_t slash = std::min(head.find('/'), head.size());
    CastRule cast;
    cast.format = parse_value_format(head.substr(0, slash), where);
    if (slash < head.size()) cast.granularity = parse_granularity(head.substr(slash + 1), where);
    cast.overflow = usual_overflow(cast);
    cast.scale_rule = usual_rule(*cast.granularity);

    for (std::string_view rest = text.substr(colon); !rest.empty();) {
        rest.remove_prefix(1);
        const std::size_t end = std::min(rest.find(':'), rest.size());
        const std::string_view word = rest.substr(0, end);
        rest.remove_prefix(end);
        if (!read_setting(cast, word, where) && !read_word(cast, word, where)) {
            std::vector<std::string_view> names = names_of(round_names);
            for (const auto& more : {names_of(overflow_names), names_of(scale_rules), names_of(amax_choices)}) {
                names.insert(names.end(), more.begin(), more.end());
            }
            unknown("rounding mode", word, names, where);
        }
    }
    check_scaling(cast, where);
    return cast;
}

void check_scaling(const CastRule& cast, const std::string& where) {
    if (!(cast.delayed == DelayedScaling{}) && !cast.has_history()) {
        throw Error({.what = "the cast has a history, a margin or an algorithm, but its scale rule has no history",
                     .where = where,
                     .fix = "name a scale rule with a history: e4m3fn/tensor:te_delayed:history=16"});
    }
    if (cast.is_prepared() && !cast.has_scale()) {
        throw Error({.what = fmt::format("'{}' needs a cast with a scale", cast.hadamard ? "hadamard" : "via"),
                     .where = where,
                     .fix = "use it for scaled operands of a matmul: e2m1fn/nvfp4:hadamard"});
    }
    if (!cast.has_scale()) return;
    const Granularity& granularity = *cast.granularity;
    if (fits(*cast.scale_rule, granularity)) {
        if (granularity.kind != ScaleKind::nvfp4 || cast.format == e2m1fn) return;
        throw Error({.what = fmt::format("a cast to {} cannot have NVFP4 scales", format_name(cast.format)),
                     .where = where,
                     .fix = "use the format e2m1fn"});
    }
    std::vector<std::string_view> names;
    for (const ScaleRule& row : scale_rules) {
        if (fits(row, granularity)) names.push_back(row.name);
    }
    throw Error(
        {.what = fmt::format("the scale rule '{}' does not support '{}'", cast.scale_rule->name, granularity.name),
         .where = where,
         .fix = fmt::format("use one of {}", fmt::join(names, ", "))});
}

std::string to_string(const CastRule& rule) {
    std::string text{format_name(rule.format)};
    if (rule.has_scale()) text += fmt::format("/{}", rule.granularity->name);
    if (rule.scale_rule != usual_rule(*rule.granularity)) text += fmt::format(":{}", rule.scale_rule->name);
    if (rule.round != Round::nearest_even) text += fmt::format(":{}", name_of(rule.round));
    if (rule.overflow != usual_overflow(rule)) text += fmt::format(":{}", name_of(rule.overflow));
    if (rule.random_bits != 32) text += fmt::format(":random_bits={}", rule.random_bits);
    const DelayedScaling usual;
    if (rule.delayed.length != usual.length) text += fmt::format(":history={}", rule.delayed.length);
    if (rule.delayed.margin != usual.margin) text += fmt::format(":margin={}", rule.delayed.margin);
    if (rule.delayed.choice != usual.choice) {
        const auto at = std::find_if(std::begin(amax_choices), std::end(amax_choices),
                                     [&](const auto& row) { return row.value == rule.delayed.choice; });
        text += fmt::format(":{}", at->name);
    }
    if (!(rule.via == fp32)) text += fmt::format(":via={}", format_name(rule.via));
    if (rule.hadamard) text += ":hadamard";
    return text;
}

}  // namespace macheps::policy
