// SPDX-License-Identifier: Apache-2.0
#include "experiments/cmd/frame/option_names.hpp"

#include "core/field_error.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace macheps::cmd {

namespace {

/// Fields whose options have other names. All other options have the names of their fields, with dashes instead of
/// underscores.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"data_file", "--data"}, {"directory", "--out"},          {"dump", "--dump-step"},
    {"formats", "--format"}, {"held_out_file", "--val-data"}, {"inputs_file", "--export-inputs"},
    {"kind", "--model"},     {"scalings", "--scaling"}};

/// Returns the option of `verb` that sets the field `word`, or `word` itself if there is none.
std::string option_of(const Command& verb, std::string_view word) {
    const auto other = std::find_if(std::begin(other_names), std::end(other_names),
                                    [&](const auto& row) { return row.first == word; });
    std::string option = "--" + std::string(word);
    std::replace(option.begin(), option.end(), '_', '-');
    if (other != std::end(other_names)) option = other->second;
    return verb.has_option(option) ? option : std::string(word);
}

/// Returns `text` with each field in backquotes replaced by its option. Other words in backquotes are unchanged.
std::string with_options(const Command& verb, std::string_view text) {
    std::string out;
    while (true) {
        const std::size_t open = text.find('`'), close = open == text.npos ? open : text.find('`', open + 1);
        if (close == text.npos) return out + std::string(text);
        const std::string_view word = text.substr(open + 1, close - open - 1);
        const std::string option = option_of(verb, word);
        out += text.substr(0, open);
        if (option == word) {
            out += '`';  // only the opening one: the closing one may open the next word
            text.remove_prefix(open + 1);
        } else {
            out += option;
            text.remove_prefix(close + 1);
        }
    }
}

/// Replaces each field by its option in `fields`, a list of fields that are separated by ", ".
std::string options_of(const Command& verb, std::string_view fields) {
    const std::size_t comma = fields.find(", ");
    if (comma == fields.npos) return option_of(verb, fields);
    return option_of(verb, fields.substr(0, comma)) + ", " + options_of(verb, fields.substr(comma + 2));
}

}  // namespace

std::string in_options(const Command& verb, const Error& error) {
    Error::Parts parts = error.parts();
    if (const auto* about_field = dynamic_cast<const FieldError*>(&error)) {
        parts.where = options_of(verb, about_field->field()) + parts.where.substr(about_field->field().size());
    }
    parts.what = with_options(verb, parts.what);
    parts.fix = with_options(verb, parts.fix);
    return Error(std::move(parts)).what();
}

}  // namespace macheps::cmd
