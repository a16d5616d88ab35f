// SPDX-License-Identifier: Apache-2.0
// Reads JSON and records the place of every value. The parser reports each token of the text as an event, but without
// its place. Therefore a cursor moves through the text by one token per event and finds the place.
#include "core/error.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace macheps::files {

namespace {

using nlohmann::json;

constexpr std::string_view between = " \t\r\n,:";  // characters between tokens
constexpr std::string_view brackets = "{}[]";

/// Moves through a text token by token, and finds the place of each token. It does not check the syntax, because the
/// parser has already accepted this part of the text.
class Cursor {
  public:
    Cursor(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    /// Moves past the next token and returns its characters. place() then returns its place.
    std::string_view next() {
        for (; at_ < text_.size() && between.find(text_[at_]) != std::string_view::npos; ++at_) {
            if (text_[at_] != '\n') continue;
            ++line_;
            line_start_ = at_ + 1;
        }
        place_ = {name_, line_, static_cast<std::uint32_t>(at_ - line_start_ + 1)};
        const std::size_t start = at_;
        if (at_ >= text_.size()) return {};
        const char first = text_[at_++];
        if (first == '"') {
            while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
            ++at_;
        } else if (brackets.find(first) == std::string_view::npos) {
            at_ = text_.find_first_of(" \t\r\n,:{}[]\"", at_);
        }
        at_ = std::min(at_, text_.size());
        return text_.substr(start, at_ - start);
    }
    const ConfigPlace& place() const { return place_; }
    /// Returns the offset of the next token.
    std::size_t next_start() const { return std::min(text_.find_first_not_of(between, at_), text_.size()); }

  private:
    std::string_view text_;
    const std::string& name_;
    std::size_t at_ = 0, line_start_ = 0;
    std::uint32_t line_ = 1;
    ConfigPlace place_;
};

/// Returns the reason from an error message of nlohmann::json. For "[json.exception.parse_error.101] parse error at
/// line 3, column 40: syntax error while parsing value - invalid literal; last read: 'C'", the reason is the text
/// between "column 40: " and "; last read".
std::string reason_of(std::string_view what) {
    for (const std::string_view before : {"] ", "column ", ": "}) {
        const std::size_t at = what.find(before);
        if (at != std::string_view::npos) what.remove_prefix(at + before.size());
    }
    return std::string(what.substr(0, what.find("; last read")));
}

/// Builds the tree from the parser's events.
class JsonEvents : public nlohmann::json_sax<json> {
  public:
    JsonEvents(std::string_view text, const std::string& name) : text_(text), name_(name), cursor_(text, name) {}

    ConfigFile take() { return builder_.take(); }

    bool null() override { return scalar(ConfigValue::Kind::null); }
    bool boolean(bool value) override { return scalar(ConfigValue::Kind::boolean, value ? 1 : 0); }
    bool number_integer(number_integer_t value) override { return number(static_cast<double>(value)); }
    bool number_unsigned(number_unsigned_t value) override { return number(static_cast<double>(value)); }
    bool number_float(number_float_t value, const string_t&) override { return number(value); }
    bool string(string_t& value) override {
        cursor_.next();
        ConfigValue text;
        text.kind = ConfigValue::Kind::text;
        text.written = value;
        text.quoted = true;
        text.place = cursor_.place();
        builder_.add(std::move(text));
        return true;
    }
    bool binary(binary_t&) override { return false; }  // a JSON text has no binary values
    bool start_object(std::size_t) override { return open(ConfigValue::Kind::map); }
    bool start_array(std::size_t) override { return open(ConfigValue::Kind::list); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& value) override {
        cursor_.next();
        builder_.key(value, cursor_.place());
        return true;
    }
    bool parse_error(std::size_t position, const std::string&, const json::exception& error) override {
        // `position` is the number of characters that the parser has read. An error inside a string is at the last of
        // these characters. Any other error is reported at the first character of its token.
        const std::string reason = reason_of(error.what());
        const bool is_text = reason.find("invalid string") != std::string::npos;
        const std::size_t last_read = std::min(position - std::min<std::size_t>(position, 1), text_.size());
        const std::size_t offset = is_text ? last_read : std::min(last_read, cursor_.next_start());
        throw Error({.what = reason,
                     .where = to_string(config_text::place_at(text_, offset, name_)),
                     .fix = "write valid JSON: no placeholders, no comments, no trailing commas"});
    }

  private:
    bool number(double value) { return scalar(ConfigValue::Kind::number, value); }
    bool scalar(ConfigValue::Kind kind, double number = 0) {
        ConfigValue value;
        value.kind = kind;
        value.written = cursor_.next();
        value.place = cursor_.place();
        value.boolean = kind == ConfigValue::Kind::boolean && number != 0;
        if (kind == ConfigValue::Kind::number) value.number = number;
        builder_.add(std::move(value));
        return true;
    }
    bool open(ConfigValue::Kind kind) {
        cursor_.next();
        builder_.open(kind, cursor_.place());
        return true;
    }
    bool close() {
        cursor_.next();
        builder_.close();
        return true;
    }

    std::string_view text_;
    const std::string& name_;
    Cursor cursor_;
    ConfigBuilder builder_;
};

}  // namespace

ConfigFile read_json_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    JsonEvents events(text, name);
    json::sax_parse(text.begin(), text.end(), &events);
    return events.take();
}

}  // namespace macheps::files
