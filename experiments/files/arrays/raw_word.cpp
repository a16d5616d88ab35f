// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/raw_word.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/text/float_chars.hpp"

#include <charconv>
#include <string_view>

namespace macheps::files {

namespace {

/// Converts the whole text to a number. Returns nothing if the text is not a number.
template <class Number>
std::optional<Number> whole(std::string_view text) {
    Number number = 0;
    const auto [end, error] = number_from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return {};
    return number;
}

/// If `text` ends with `ending`, removes the ending and returns true. Otherwise returns false.
bool take_ending(std::string_view& text, std::string_view ending) {
    if (!text.ends_with(ending)) return false;
    text.remove_suffix(ending.size());
    return true;
}

}  // namespace

FileWord parse_file_word(const std::string& word) {
    const FileWord plain{word};
    std::string_view text = word;
    const std::size_t open = text.rfind('['), colon = text.rfind(':', open);
    if (open == std::string_view::npos || colon == std::string_view::npos || colon == 0) return plain;
    RawArray raw;
    const std::size_t close = text.find(']', open);
    if (close == std::string_view::npos) return plain;
    const std::string_view tail = text.substr(close + 1);
    if (!tail.empty()) {
        if (!tail.starts_with('@')) return plain;
        raw.offset = whole<std::uint64_t>(tail.substr(1));
        if (!raw.offset)
            throw usage_error("the number of bytes after '@' is missing", word,
                              "give the position of the first element");
    }
    const std::string_view sizes = text.substr(open + 1, close - open - 1);
    for (std::size_t at = 0; at <= sizes.size() && !sizes.empty();) {
        const std::size_t end = std::min(sizes.find(',', at), sizes.size());
        const auto size = whole<std::int64_t>(sizes.substr(at, end - at));
        if (!size || *size < 0)
            throw usage_error("the sizes between the brackets are not valid", word, "give sizes such as [192,1000]");
        raw.shape.push_back(*size);
        at = end + 1;
    }
    std::string_view format = text.substr(colon + 1, open - colon - 1);
    for (bool is_taken = true; is_taken;) {
        is_taken = false;
        if (take_ending(format, "/packed")) is_taken = raw.is_packed = true;
        if (take_ending(format, "/columns")) is_taken = raw.is_column_major = true;
    }
    raw.format = format_named(format, word, Exit::usage);
    FileWord declared{std::string(text.substr(0, colon))};
    raw.name = declared.path.stem().string();
    declared.raw = std::move(raw);
    return declared;
}

std::vector<StoredArray> read_arrays(const FileWord& word, const Wanted& wanted) {
    if (!word.raw) return read_arrays(word.path, wanted);
    return {read_raw(word.path, *word.raw)};
}

}  // namespace macheps::files
