// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/policy_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace macheps::policy {

namespace {

/// A range of characters that have several bytes in UTF-8. They begin with the bytes `lead` and end with a byte from
/// `first` to `last`.
struct Characters {
    std::string_view lead;
    unsigned char first, last;
    const char* what;
};

constexpr Characters refused[] = {
    {"\xc2", 0x80, 0x9f, "a control character"},                          // U+0080 to U+009F; U+009B begins an escape
    {"\xd8", 0x9c, 0x9c, "a character that changes the text direction"},  // U+061C
    {"\xe2\x80", 0x8e, 0x8f, "a character that changes the text direction"},  // U+200E, U+200F
    {"\xe2\x80", 0xa8, 0xa9, "a line separator"},                             // U+2028, U+2029
    {"\xe2\x80", 0xaa, 0xae, "a character that changes the text direction"},  // U+202A to U+202E
    {"\xe2\x81", 0xa6, 0xa9, "a character that changes the text direction"},  // U+2066 to U+2069
};

bool holds(std::string_view name, const Characters& row) {
    for (std::size_t at = name.find(row.lead); at != std::string_view::npos; at = name.find(row.lead, at + 1)) {
        const std::string_view rest = name.substr(at + row.lead.size(), 1);
        if (rest.empty()) return false;
        const auto last = static_cast<unsigned char>(rest.front());
        if (last >= row.first && last <= row.last) return true;
    }
    return false;
}

}  // namespace

std::string problem_of_policy_name(std::string_view name) {
    if (name.empty()) return "the name is empty";
    const auto is_plain_trouble = [](unsigned char c) { return c < 0x20 || c == 0x7f || c == ','; };
    if (std::any_of(name.begin(), name.end(), is_plain_trouble)) return "the name has a comma or a control character";
    const auto* row =
        std::find_if(std::begin(refused), std::end(refused), [&](const Characters& each) { return holds(name, each); });
    if (row != std::end(refused)) return fmt::format("the name has {}", row->what);
    if (std::string_view("=+-@").find(name.front()) != std::string_view::npos) {
        return fmt::format("the name begins with '{}', which spreadsheets read as a formula", name.front());
    }
    return {};
}

}  // namespace macheps::policy
