// SPDX-License-Identifier: Apache-2.0
// The spelling of a cast: read and written here alone.
#include "core/format_table.hpp"
#include "core/nearest_name.hpp"
#include "experiments/policy/rule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace macheps {

namespace {

template <class T>
struct Named {
    std::string_view name;
    T value;
};

constexpr std::array<Named<Round>, 7> rounds{{{"nearest_even", Round::nearest_even},
                                              {"nearest_away", Round::nearest_away},
                                              {"toward_zero", Round::toward_zero},
                                              {"up", Round::up},
                                              {"down", Round::down},
                                              {"stochastic", Round::stochastic},
                                              {"to_odd", Round::to_odd}}};
constexpr std::array<Named<Overflow>, 2> overflows{
    {{"saturate", Overflow::saturate}, {"nonsaturate", Overflow::nonsaturate}}};
constexpr std::array<Named<Granularity>, 9> granularities{{{"none", Granularity::none},
                                                           {"tensor", Granularity::tensor},
                                                           {"row", Granularity::row},
                                                           {"column", Granularity::column},
                                                           {"1x128", Granularity::block_1x128},
                                                           {"128x128", Granularity::block_128x128},
                                                           {"mx32", Granularity::mx_32},
                                                           {"nvfp4", Granularity::nvfp4_16},
                                                           {"nvfp4_16x16", Granularity::nvfp4_16x16}}};
constexpr std::array<Named<ScaleRule>, 14> scale_rules{{{"ao_fp8", ScaleRule::ao_fp8},
                                                        {"ao_fp8_power", ScaleRule::ao_fp8_power},
                                                        {"te_current", ScaleRule::te_current},
                                                        {"te_block", ScaleRule::te_block},
                                                        {"te_block_fp32", ScaleRule::te_block_fp32},
                                                        {"deepgemm", ScaleRule::deepgemm},
                                                        {"deepgemm_power", ScaleRule::deepgemm_power},
                                                        {"te_mxfp8", ScaleRule::te_mxfp8},
                                                        {"ao_rceil", ScaleRule::ao_rceil},
                                                        {"ao_floor", ScaleRule::ao_floor},
                                                        {"ao_ceil", ScaleRule::ao_ceil},
                                                        {"ao_even", ScaleRule::ao_even},
                                                        {"te_nvfp4", ScaleRule::te_nvfp4},
                                                        {"ao_nvfp4", ScaleRule::ao_nvfp4}}};

template <class Table>
std::vector<std::string_view> names_of(const Table& table) {
    std::vector<std::string_view> names;
    for (const auto& row : table) names.push_back(row.name);
    return names;
}

template <class Table>
std::string_view name_in(const Table& table, decltype(table[0].value) value) {
    return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.value == value; })->name;
}

[[noreturn]] void unknown(std::string_view what, std::string_view name, const std::vector<std::string_view>& names,
                          const std::string& where) {
    throw Error({.what = fmt::format("unknown {} '{}'", what, name), .where = where, .fix = suggestion(name, names)});
}

template <class Table>
auto value_in(const Table& table, std::string_view what, std::string_view name, const std::string& where) {
    const auto row = std::find_if(table.begin(), table.end(), [&](const auto& r) { return r.name == name; });
    if (row == table.end()) unknown(what, name, names_of(table), where);
    return row->value;
}

constexpr Overflow usual_overflow(Granularity granularity) {
    // A scale puts amax on the largest finite value; a rounding upwards there must not become Inf or NaN.
    return granularity == Granularity::none ? Overflow::nonsaturate : Overflow::saturate;
}

}  // namespace

std::string suggestion(std::string_view name, const std::vector<std::string_view>& names) {
    const std::string near = nearest_name(name, names);
    const std::string question = near.empty() ? "" : fmt::format("did you mean '{}'? ", near);
    return fmt::format("{}one of {}", question, fmt::join(names, ", "));
}

Round parse_round(std::string_view name, const std::string& where) {
    return value_in(rounds, "rounding mode", name, where);
}
Overflow parse_overflow(std::string_view name, const std::string& where) {
    return value_in(overflows, "overflow", name, where);
}
Granularity parse_granularity(std::string_view name, const std::string& where) {
    return value_in(granularities, "scaling", name, where);
}
ScaleRule parse_scale_rule(std::string_view name, const std::string& where) {
    return value_in(scale_rules, "scale rule", name, where);
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
                     .fix = f == fp64 ? "values are computed in fp32: use fp32 for no rounding at all"
                                      : "it is a format for scales, without sign or zero"});
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
    cast.overflow = usual_overflow(cast.granularity);
    cast.scale_rule = usual_rule(cast.granularity);

    for (std::string_view rest = text.substr(colon); !rest.empty();) {
        rest.remove_prefix(1);
        const std::size_t end = std::min(rest.find(':'), rest.size());
        const std::string_view word = rest.substr(0, end);
        rest.remove_prefix(end);
        constexpr std::string_view bits = "random_bits=";
        const auto in = [&](const auto& table) {
            return std::any_of(table.begin(), table.end(), [&](const auto& row) { return row.name == word; });
        };
        if (in(rounds)) {
            cast.round = parse_round(word, where);
        } else if (in(overflows)) {
            cast.overflow = parse_overflow(word, where);
        } else if (in(scale_rules)) {
            cast.scale_rule = parse_scale_rule(word, where);
        } else if (word.starts_with(bits)) {
            int count = 0;
            const std::string_view digits = word.substr(bits.size());
            const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
            const bool whole = error == std::errc{} && stop == digits.data() + digits.size();
            cast.random_bits = check_random_bits(whole ? count : 0, where);
        } else {
            std::vector<std::string_view> names = names_of(rounds);
            for (const std::string_view name : names_of(overflows)) names.push_back(name);
            for (const std::string_view name : names_of(scale_rules)) names.push_back(name);
            unknown("rounding mode", word, names, where);
        }
    }
    check_scaling(cast, where);
    return cast;
}

void check_scaling(const CastRule& cast, const std::string& where) {
    if (cast.granularity == Granularity::none || fits(cast.scale_rule, cast.granularity)) {
        if (!is_nvfp4(cast.granularity) || cast.format == e2m1fn) return;
        throw Error({.what = fmt::format("scales of NVFP4 on {}", format_name(cast.format)),
                     .where = where,
                     .fix = "its elements are e2m1fn"});
    }
    std::vector<std::string_view> names;
    for (const auto& row : scale_rules) {
        if (fits(row.value, cast.granularity)) names.push_back(row.name);
    }
    throw Error({.what = fmt::format("the rule '{}' makes no scales for '{}'", name_in(scale_rules, cast.scale_rule),
                                     name_in(granularities, cast.granularity)),
                 .where = where,
                 .fix = fmt::format("one of {}", fmt::join(names, ", "))});
}

std::string to_string(const CastRule& rule) {
    std::string text{format_name(rule.format)};
    if (rule.granularity != Granularity::none) text += fmt::format("/{}", name_in(granularities, rule.granularity));
    if (rule.scale_rule != usual_rule(rule.granularity))
        text += fmt::format(":{}", name_in(scale_rules, rule.scale_rule));
    if (rule.round != Round::nearest_even) text += fmt::format(":{}", name_in(rounds, rule.round));
    if (rule.overflow != usual_overflow(rule.granularity))
        text += fmt::format(":{}", name_in(overflows, rule.overflow));
    if (rule.random_bits != 32) text += fmt::format(":random_bits={}", rule.random_bits);
    return text;
}

}  // namespace macheps
