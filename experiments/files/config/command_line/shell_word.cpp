// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/config/command_line/shell_word.hpp"
#include "core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace macheps::files {

ShellValue unknown_value(std::string written, std::string reason) {
    ShellValue value;
    value.unknown = std::move(written);
    value.reason = std::move(reason);
    return value;
}

ShellValue joined(const ShellValue& array) {
    ShellValue value = array;
    value.items = {fmt::format("{}", fmt::join(array.items, " "))};
    return value;
}

ShellValue joined(const Expansion& expansion) {
    ShellValue value;
    value.condition = expansion.condition;
    std::string& text = value.items.front();
    for (const ArgumentWord& word : expansion.words) {
        text += (&word == &expansion.words.front() ? "" : " ") + word.text;
        if (word.unknown.empty()) continue;
        value.unknown = word.unknown;
        value.reason = word.reason;
    }
    return value;
}

bool is_in_quotes(std::string_view word, Within within) {
    return word.size() >= 2 && word.back() == word.front() &&
           (word.front() == '"' || (word.front() == '\'' && within != Within::quotes));
}

bool has_braces(std::string_view word) {
    for (std::size_t open = word.find('{'); open != std::string_view::npos; open = word.find('{', open + 1)) {
        const std::string_view inner = word.substr(open, word.find('}', open) - open);
        const bool is_closed = open + inner.size() < word.size();
        if (is_closed && (inner.find(',') != std::string_view::npos || inner.find("..") != std::string_view::npos))
            return true;
    }
    return false;
}

void WordBuilder::add_text(std::string_view text) {
    has_word_ = true;
    bytes_ += text.size();
    if (bytes_ > max_shell_word_bytes) {
        throw Error({.what = fmt::format("a word expands to more than {} bytes", max_shell_word_bytes),
                     .where = to_string(place_),
                     .fix = "write the words out"});
    }
    word_.text += text;
}

void WordBuilder::add(const ShellValue& value, bool is_quoted, bool takes_all) {
    if (!value.condition.empty() && out_.condition.empty()) out_.condition = value.condition;
    if (!value.unknown.empty()) {
        has_word_ = true;
        if (word_.unknown.empty()) word_.unknown_at = word_.text.size();
        word_.unknown = value.unknown;
        word_.reason = value.reason;
        return;
    }
    if (is_quoted && !takes_all) add_quote();
    const std::size_t count = takes_all ? value.items.size() : std::min<std::size_t>(value.items.size(), 1);
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) finish();
        if (is_quoted)
            add_text(value.items[i]);
        else
            split(value.items[i]);
    }
}

void WordBuilder::finish() {
    if (!has_word_) return;
    word_.place = place_;
    out_.words.push_back(std::exchange(word_, {}));
    has_word_ = false;
    if (out_.words.size() > config_value_limit) config_text::too_many(place_);
}

void WordBuilder::split(std::string_view text) {
    while (!text.empty()) {
        const std::size_t blank = std::min(text.find_first_of(shell_blanks), text.size());
        if (blank > 0) add_text(text.substr(0, blank));
        text.remove_prefix(blank);
        if (text.empty()) return;
        finish();
        text.remove_prefix(std::min(text.find_first_not_of(shell_blanks), text.size()));
    }
}

}  // namespace macheps::files
