// SPDX-License-Identifier: Apache-2.0
#include "core/text/shown.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace macheps {

namespace {

struct Range {
    char32_t first, last;
};
/// Code points of control characters (Cc), format characters (Cf), line separators (Zl, Zp) and noncharacters. Source:
/// Unicode 15, general categories.
constexpr Range invisible[] = {
    {0x0000, 0x001f},   {0x007f, 0x009f},   {0x00ad, 0x00ad},   {0x0600, 0x0605},   {0x061c, 0x061c},
    {0x06dd, 0x06dd},   {0x070f, 0x070f},   {0x0890, 0x0891},   {0x08e2, 0x08e2},   {0x180e, 0x180e},
    {0x200b, 0x200f},   {0x2028, 0x202e},   {0x2060, 0x206f},   {0xfeff, 0xfeff},   {0xfff0, 0xfffb},
    {0xfffe, 0xffff},   {0x110bd, 0x110bd}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}, {0x1bca0, 0x1bca3},
    {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff},
};

/// Returns whether the text is printable ASCII (plus line ends and tabs if `has_lines`) and contains no log command.
bool is_plain(std::string_view text, bool has_lines) noexcept {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (has_lines && (c == '\n' || c == '\t')) continue;
        if (c < 0x20 || c >= 0x7f) return false;
        if (c == '#' && begins_log_command(text.substr(i))) return false;
    }
    return true;
}

void append_hex(std::string& out, std::uint32_t value, int digits) {
    for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[value >> (4 * i) & 15];
}

void append_escape(std::string& out, char32_t code) {
    out += '\\';
    if (code == '\n' || code == '\r' || code == '\t') {
        out += code == '\n' ? 'n' : code == '\r' ? 'r' : 't';
    } else {
        out += code < 0x80 ? 'x' : code < 0x10000 ? 'u' : 'U';
        append_hex(out, code, code < 0x80 ? 2 : code < 0x10000 ? 4 : 8);
    }
}

std::string escaped(std::string_view text, bool has_lines) {
    if (is_plain(text, has_lines)) return std::string(text);
    std::string out;
    while (!text.empty()) {
        const Character at = first_character(text);
        if (at.bytes == 0) {
            out += "\\x";
            append_hex(out, static_cast<unsigned char>(text.front()), 2);
            text.remove_prefix(1);
            continue;
        }
        if (begins_log_command(text)) {
            out += "#\\";
        } else if (is_invisible(at.code) && !(has_lines && (at.code == '\n' || at.code == '\t'))) {
            append_escape(out, at.code);
        } else {
            out += text.substr(0, at.bytes);
        }
        text.remove_prefix(at.bytes);
    }
    return out;
}

}  // namespace

bool is_invisible(char32_t code) noexcept {
    if (code < 0x7f) return code < 0x20;
    return std::any_of(std::begin(invisible), std::end(invisible),
                       [&](const Range& range) { return code >= range.first && code <= range.last; });
}

bool begins_log_command(std::string_view text) noexcept {
    return text.starts_with("##[") || text.starts_with("##vso[");
}

Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
    };
    const unsigned char first = byte(0);
    if (text.empty()) return {};
    if (first < 0x80) return {1, first};
    const std::size_t bytes = first >= 0xc2 && first <= 0xdf   ? 2
                              : first >= 0xe0 && first <= 0xef ? 3
                              : first >= 0xf0 && first <= 0xf4 ? 4
                                                               : 0;
    char32_t code = first & (0xffu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return {};
        code = code << 6 | (byte(i) & 0x3fu);
    }
    const bool is_overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000),
               is_surrogate = code >= 0xd800 && code <= 0xdfff, is_beyond = code > 0x10ffff;
    if (bytes == 0 || is_overlong || is_surrogate || is_beyond) return {};
    return {bytes, code};
}

std::string printable(std::string_view text) {
    std::string out = escaped(text, false);
    const std::size_t begin = out.find_first_not_of(' ');
    if (begin != std::string::npos && std::string_view(out).substr(begin).starts_with("::")) out.insert(begin, 1, '\\');
    return out;
}

std::string printable_lines(std::string_view text) { return escaped(text, true); }

bool is_printable_lines(std::string_view text) noexcept {
    for (std::size_t at = 0; at < text.size();) {
        const auto c = static_cast<unsigned char>(text[at]);
        const Character character = c < 0x80 ? Character{1, c} : first_character(text.substr(at));
        if (character.bytes == 0) return false;
        if (is_invisible(character.code) && c != '\n' && c != '\t') return false;
        if (c == '#' && begins_log_command(text.substr(at))) return false;
        at += character.bytes;
    }
    return true;
}

std::string shown(std::string_view name, std::size_t most) {
    std::string text = printable(name);
    if (text.size() <= most) return text;
    const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
    std::size_t head = most * 2 / 3, tail = text.size() - most / 4;
    while (is_inside(head)) --head;
    while (tail < text.size() && is_inside(tail)) ++tail;
    return text.substr(0, head) + "[...]" + text.substr(tail);
}

}  // namespace macheps
