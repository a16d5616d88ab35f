// SPDX-License-Identifier: Apache-2.0
#include "reports/paper/latex_text.hpp"

#include "core/text/float_chars.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

namespace macheps::reports {

namespace {

/// Texts with a special meaning in LaTeX, and how to print them. "--" and "---" would become dashes. The characters < >
/// | and " are other characters in the usual font encoding.
constexpr std::pair<std::string_view, std::string_view> escapes[] = {
    {"\\", "\\textbackslash{}"},
    {"{", "\\{"},
    {"}", "\\}"},
    {"$", "\\$"},
    {"&", "\\&"},
    {"#", "\\#"},
    {"%", "\\%"},
    {"_", "\\_"},
    {"^", "\\textasciicircum{}"},
    {"~", "\\textasciitilde{}"},
    {"<", "\\textless{}"},
    {">", "\\textgreater{}"},
    {"|", "\\textbar{}"},
    {"\"", "\\char34{}"},
    {"`", "\\textasciigrave{}"},
    {"'", "\\textquotesingle{}"},
    {"--", "-{}-{}"},
    {"\u00b1", "\\(\\pm\\)"},
    {"\u2212", "\\(-\\)"},
    {"\u00d7", "\\(\\times\\)"},
    {"\u2013", "--"},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the length of a power of a whole number, such as 2^-12, at the beginning of the text, or 0.
std::size_t power_length(std::string_view text) {
    std::size_t at = 0;
    const auto skip_digits = [&] {
        const std::size_t from = at;
        while (at < text.size() && is_digit(text[at])) ++at;
        return at > from;
    };
    if (!skip_digits() || at == text.size() || text[at++] != '^') return 0;
    if (at < text.size() && text[at] == '-') ++at;
    return skip_digits() ? at : 0;
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Returns the sign of LaTeX for a quote at `text[at]`, or an empty text if it is not part of a sentence. A quotation
/// begins after a blank or a parenthesis, and ends before a blank or a punctuation mark. An apostrophe is between
/// letters or digits. `is_open` says whether a quotation has begun.
std::string_view quote_sign(std::string_view text, std::size_t at, bool& is_open) {
    constexpr std::string_view before = " (", after = " ),.;:";
    const char left = at == 0 ? ' ' : text[at - 1], right = at + 1 == text.size() ? ' ' : text[at + 1];
    if (text[at] == '\'') return (is_letter(left) || is_digit(left)) && is_letter(right) ? "'" : "";
    if (is_open && after.find(right) != std::string_view::npos) return is_open = false, "''";
    const auto ends_later = [&] {
        const std::size_t end = text.find('"', at + 1);
        return end != std::string_view::npos && (end + 1 == text.size() || after.find(text[end + 1]) != after.npos);
    };
    if (!is_open && before.find(left) != std::string_view::npos && right != ' ' && ends_later())
        return is_open = true, "``";
    return {};
}

}  // namespace

std::string latex_text(std::string_view text) {
    const std::string_view whole = text;
    std::string out;
    bool is_after_digit = false, is_quotation = false;
    while (!text.empty()) {
        if (const std::size_t power = is_after_digit ? 0 : power_length(text); power > 0) {
            const std::size_t caret = text.find('^');
            out.append("\\(").append(text.substr(0, caret)).append("^{");
            out.append(text.substr(caret + 1, power - caret - 1)).append("}\\)");
            text.remove_prefix(power);
            continue;
        }
        is_after_digit = is_digit(text.front());
        if (text.front() == '"' || text.front() == '\'') {
            if (const auto sign = quote_sign(whole, whole.size() - text.size(), is_quotation); !sign.empty()) {
                out += sign;
                text.remove_prefix(1);
                continue;
            }
        }
        const auto found = std::find_if(std::begin(escapes), std::end(escapes),
                                        [&](const auto& row) { return text.starts_with(row.first); });
        if (found != std::end(escapes)) {
            out += found->second;
            text.remove_prefix(found->first.size());
            continue;
        }
        const auto code = static_cast<unsigned char>(text.front());
        out += code < 0x20 || code == 0x7f ? ' ' : text.front();
        text.remove_prefix(1);
    }
    return out;
}

std::string siunitx_number(std::string_view text) {
    const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
    double value = 0;
    const auto [end, error] = number_from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool is_number = error == std::errc{} && end == digits.data() + digits.size() &&
                           digits.find_first_not_of("+-.0123456789e") == std::string_view::npos;
    if (!is_number) return {};
    const std::size_t e = text.find('e');
    if (e == std::string_view::npos) return std::string(text);
    std::string_view exponent = text.substr(e + 1);
    const bool is_negative = exponent.starts_with('-');
    exponent.remove_prefix(exponent.starts_with('-') || exponent.starts_with('+') ? 1 : 0);
    exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size() - 1));
    return std::string(text.substr(0, e)) + (is_negative ? "e-" : "e") + std::string(exponent);
}

}  // namespace macheps::reports
