// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/text.hpp"
#include "core/error.hpp"
#include "core/text/float_chars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

namespace macheps::files::config_text {

namespace {

constexpr std::string_view mark = "\xef\xbb\xbf";
constexpr std::string_view blanks = " \t\r\n";

/// Returns the length of the well-formed UTF-8 sequence at the front (Unicode 15, table 3-7), or 0 if there is none.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const auto follows = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
    const unsigned first = byte(0), second = byte(1);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const bool is_overlong = first == 0xe0 && second < 0xa0, is_surrogate = first == 0xed && second > 0x9f;
        return follows(1) && follows(2) && !is_overlong && !is_surrogate ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool is_overlong = first == 0xf0 && second < 0x90, is_beyond = first == 0xf4 && second > 0x8f;
        return follows(1) && follows(2) && follows(3) && !is_overlong && !is_beyond ? 4 : 0;
    }
    return 0;
}

}  // namespace

std::string_view without_mark(std::string_view text) {
    return text.starts_with(mark) ? text.substr(mark.size()) : text;
}

ConfigPlace place_at(std::string_view text, std::size_t offset, const std::string& name) {
    offset = std::min(offset, text.size());
    const std::string_view before = text.substr(0, offset);
    const std::size_t newline = before.rfind('\n');
    const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
    return {name, static_cast<std::uint32_t>(std::count(before.begin(), before.end(), '\n') + 1),
            static_cast<std::uint32_t>(offset - line_start + 1)};
}

void check(std::string_view text, const std::string& name) {
    if (text.size() > config_size_limit) {
        throw Error({.what = fmt::format("the file is larger than {} bytes", config_size_limit),
                     .where = name,
                     .fix = "check whether this is the right file: a config has a few kilobytes"});
    }
    text = without_mark(text);
    // Parsers would skip a second byte order mark like the first one. The places of everything after the mark would
    // then be wrong.
    if (text.starts_with(mark)) {
        throw Error({.what = "the file has a second byte order mark",
                     .where = to_string(place_at(text, 0, name)),
                     .fix = "save the file as UTF-8 without a byte order mark"});
    }
    if (text.find_first_not_of(blanks) == std::string_view::npos) {
        throw Error({.what = "the file is empty", .where = name, .fix = "give a config with at least one key"});
    }
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = sequence_length(text.substr(at));
        if (length == 0 || text[at] == '\0') {
            throw Error(
                {.what = fmt::format("the byte {:#04x} is not valid UTF-8", static_cast<unsigned char>(text[at])),
                 .where = to_string(place_at(text, at, name)),
                 .fix = "save the file as UTF-8"});
        }
        at += length;
    }
}

std::optional<double> number_of(std::string_view text) {
    std::string digits;  // Python allows single underscores between digits
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto is_digit = [&](std::size_t at) {
            return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
        };
        if (text[i] != '_')
            digits += text[i];
        else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))
            return {};
    }
    std::string_view rest = digits;
    const bool is_negative = rest.starts_with('-');
    if (is_negative || rest.starts_with('+')) rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '-' || rest.front() == '+' || rest.find('(') != rest.npos) return {};
    double value = 0;
    if (rest.starts_with("0x") || rest.starts_with("0X")) {
        rest.remove_prefix(2);
        if (rest.empty() || rest.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return {};
        for (const char c : rest) value = value * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
        return is_negative ? -value : value;
    }
    const auto [end, error] = number_from_chars(rest.data(), rest.data() + rest.size(), value);
    if (end != rest.data() + rest.size()) return {};
    if (error == std::errc::result_out_of_range) {
        // from_chars does not report whether the number is too large or too small for a double. It is too small if its
        // exponent is negative, and otherwise too large.
        const std::size_t exponent = rest.find_first_of("eE");
        const bool is_small = exponent != std::string_view::npos && rest.substr(exponent + 1).starts_with('-');
        value = is_small ? 0.0 : std::numeric_limits<double>::infinity();
    } else if (error != std::errc{}) {
        return {};
    }
    return is_negative ? -value : value;
}

std::vector<IgnoredRule> ignored_rules(std::string_view text, const std::string& name) {
    constexpr std::string_view words = "# macheps: ignore ";
    std::vector<IgnoredRule> rules;
    for (std::size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
        if (at > 0 && blanks.find(text[at - 1]) == std::string_view::npos) continue;  // not the beginning of a comment
        std::string_view rest = text.substr(at + words.size());
        rest = rest.substr(0, rest.find_first_of("\r\n"));
        while (!rest.empty()) {
            const std::size_t start = std::min(rest.find_first_not_of(" \t,"), rest.size());
            rest.remove_prefix(start);
            const std::size_t length = std::min(rest.find_first_of(" \t,"), rest.size());
            const std::string_view rule = rest.substr(0, length);
            rest.remove_prefix(length);
            if (rule.find('/') == std::string_view::npos) break;  // a word without a slash begins the reason
            rules.push_back({std::string(rule), place_at(text, at, name)});
        }
    }
    return rules;
}

void place_all(ConfigValue& value, const ConfigPlace& place) {
    value.place = place;
    for (ConfigValue& item : value.items) place_all(item, place);
    for (ConfigValue::Entry& entry : value.entries) {
        entry.place = place;
        place_all(entry.value, place);
    }
}

void too_deep(const ConfigPlace& place) {
    throw Error({.what = fmt::format("more than {} levels of lists and maps", config_depth_limit),
                 .where = to_string(place),
                 .fix = "check whether this is the right file: a config has only a few levels"});
}

void too_many(const ConfigPlace& place) {
    throw Error({.what = fmt::format("more than {} values", config_value_limit),
                 .where = to_string(place),
                 .fix = "if aliases contain other aliases, write the values out instead"});
}

}  // namespace macheps::files::config_text
