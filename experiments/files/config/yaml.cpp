// SPDX-License-Identifier: Apache-2.0
// Reads YAML as PyYAML's safe loader does: the types of YAML 1.1, anchors, aliases and merge keys. The values are built
// from the parser's events, so that the values of aliases can be counted and every value has its place.
#include "core/error.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace macheps::files {

namespace {

constexpr std::string_view decimal = "0123456789";

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// Returns whether `written` is the word `lower` in one of three spellings: `no`, `No` or `NO`, but not `nO`.
bool is_in_three_cases(std::string_view written, std::string_view lower) {
    if (written.size() != lower.size() || written.empty()) return false;
    const auto is_upper = [&](std::size_t i) { return written[i] == lower[i] - 'a' + 'A'; };
    bool all_lower = true, all_upper = is_upper(0), rest_lower = true;
    for (std::size_t i = 0; i < written.size(); ++i) {
        if (written[i] != lower[i]) all_lower = false;
        if (!is_upper(i)) all_upper = false;
        if (i > 0 && written[i] != lower[i]) rest_lower = false;
    }
    return all_lower || all_upper || (is_upper(0) && rest_lower);
}

bool only(std::string_view text, std::string_view characters) {
    return text.find_first_not_of(characters) == std::string_view::npos;
}

std::string without_underscores(std::string_view text) {
    std::string digits(text);
    std::erase(digits, '_');
    return digits;
}

double in_base(std::string_view digits, int base) {
    double value = 0;
    for (const char c : digits) {
        if (c == '_') continue;
        value = value * base + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

/// Reads a number in base 60, such as `1:30` or `1:30.5`. YAML 1.1 has such numbers for times of day.
std::optional<double> sexagesimal(std::string_view text) {
    const std::size_t first = text.find(':');
    if (first == std::string_view::npos || first == 0 || text.front() == '_') return {};
    double value = 0;
    bool is_first = true;
    for (;;) {
        const std::size_t colon = text.find(':');
        std::string_view part = text.substr(0, colon);
        const bool is_last = colon == std::string_view::npos;
        if (is_last) {
            const std::size_t dot = part.find('.');
            if (dot != std::string_view::npos) {
                if (!only(part.substr(dot + 1), "0123456789_")) return {};
                const std::optional<double> fraction =
                    config_text::number_of(fmt::format("0{}", without_underscores(part.substr(dot))));
                value += fraction.value_or(0) / 60;
                part = part.substr(0, dot);
            }
        }
        const bool is_part = is_first
                                 ? only(part, "0123456789_")
                                 : !part.empty() && part.size() <= 2 && only(part, decimal) && in_base(part, 10) < 60;
        if (part.empty() || !is_part) return {};
        value = value * 60 + in_base(part, 10);
        is_first = false;
        if (is_last) return value;
        text.remove_prefix(colon + 1);
    }
}

/// Returns the number that a scalar without quotes contains, by PyYAML's regular expressions. Returns nothing for a
/// text that they do not match, such as `1e-5`.
std::optional<double> plain_number(std::string_view written) {
    std::string_view text = written;
    const bool has_sign = !text.empty() && (text.front() == '-' || text.front() == '+');
    const double sign = text.starts_with('-') ? -1 : 1;
    if (has_sign) text.remove_prefix(1);
    if (is_one_of(text, {".inf", ".Inf", ".INF"})) return sign * std::numeric_limits<double>::infinity();
    if (!has_sign && is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
    if (text.empty() || (decimal.find(text.front()) == std::string_view::npos && text.front() != '.')) return {};
    if (text.starts_with("0b") && text.find_first_of("01", 2) != text.npos && only(text.substr(2), "01_"))
        return sign * in_base(text.substr(2), 2);
    if (text.starts_with("0x") && text.find_first_not_of('_', 2) != text.npos &&
        only(text.substr(2), "0123456789abcdefABCDEF_"))
        return sign * in_base(text.substr(2), 16);
    if (text.front() == '0' && text.size() > 1 && only(text, "01234567_")) return sign * in_base(text, 8);
    if (only(text, "0123456789_")) {
        if (text.front() == '0' && text.size() > 1) return {};  // 089 is not an octal number
        return sign * config_text::number_of(without_underscores(text)).value_or(0);
    }
    if (text.find(':') != std::string_view::npos) {
        const std::optional<double> value = sexagesimal(text);
        if (!value) return {};
        return sign * *value;
    }
    // A float needs a decimal point, and its exponent needs a sign.
    const std::size_t dot = text.find('.'), exponent = text.find_first_of("eE");
    if (dot == std::string_view::npos || (dot == 0 && has_sign)) return {};
    const std::string_view whole = text.substr(0, dot);
    const std::string_view fraction =
        text.substr(dot + 1, exponent == std::string_view::npos ? exponent : exponent - dot - 1);
    if (!only(whole, "0123456789_") || !only(fraction, "0123456789_")) return {};
    if (dot == 0 && (fraction.empty() || fraction.front() == '_')) return {};
    if (exponent != std::string_view::npos) {
        const std::string_view power = text.substr(exponent + 1);
        if (power.size() < 2 || (power.front() != '-' && power.front() != '+') || !only(power.substr(1), decimal))
            return {};
    }
    std::string digits = without_underscores(text);
    if (dot == 0) digits = fmt::format("0{}", digits);
    const std::optional<double> value = config_text::number_of(digits);
    if (!value) return {};
    return sign * *value;
}

/// Returns the parser's reason for an error. If the reason would not help the author of the file, returns a better one.
std::string reason_of(const std::string& parser_says) {
    constexpr std::pair<std::string_view, std::string_view> rows[] = {
        {"end of map not found", "this belongs to no key: a text that begins with [ or { needs quotes"},
        {"illegal map value", "this colon does not follow a key: a text that contains ': ' needs quotes"},
        {"unknown token", "no value can begin with this character: put the value in quotes"},
        {"end of map flow not found", "a { is not closed"},
        {"end of sequence flow not found", "a [ is not closed"},
    };
    for (const auto& [parser, words] : rows) {
        if (parser_says == parser) return std::string(words);
    }
    return parser_says;
}

/// Receives the events of the YAML parser and builds the tree of values from them.
class YamlEvents : public YAML::EventHandler {
  public:
    YamlEvents(std::string_view text, std::string name) : text_(text), name_(std::move(name)) {}

    ConfigFile take() { return builder_.take(); }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (++documents_ > 1) {
            throw Error({.what = "a second document begins here",
                         .where = to_string(place(mark)),
                         .fix = "remove the second document, which follows '---'"});
        }
    }
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        ConfigValue value;
        value.place = place(mark);
        add(std::move(value), "", anchor);
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        check_quote(mark);
        add(scalar(tag, text, place(mark)), tag, anchor);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        const auto found = anchors_.find(anchor);
        if (found == anchors_.end()) {
            throw Error({.what = "an alias is inside the value that it names",
                         .where = to_string(place(mark)),
                         .fix = "write the value out: a value that contains itself has no end"});
        }
        if (builder_.wants_key()) refuse_key(place(mark));
        builder_.add(found->second);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(ConfigValue::Kind::list, "seq", mark, tag, anchor);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(ConfigValue::Kind::map, "map", mark, tag, anchor);
    }
    void OnMapEnd() override { close(); }

  private:
    /// Converts a place in the parser's form, in which lines and columns count from 0.
    ConfigPlace place(const YAML::Mark& mark) const {
        return {name_, static_cast<std::uint32_t>(mark.line + 1), static_cast<std::uint32_t>(mark.column + 1)};
    }

    [[noreturn]] static void refuse_key(const ConfigPlace& at) {
        throw Error({.what = "a list, a map or an alias cannot be a key",
                     .where = to_string(at),
                     .fix = "write a word before each colon, and close every bracket"});
    }

    /// Throws Error if the quote of a text is not closed. The parser accepts the end of the file as the end of the
    /// text.
    void check_quote(const YAML::Mark& mark) const {
        const auto start = static_cast<std::size_t>(mark.pos);
        if (start >= text_.size() || (text_[start] != '"' && text_[start] != '\'')) return;
        const char quote = text_[start];
        std::size_t at = start + 1;
        while (at < text_.size() && text_[at] != quote) at += quote == '"' && text_[at] == '\\' ? 2 : 1;
        if (at < text_.size()) return;
        throw Error(
            {.what = "a quote is not closed", .where = to_string(place(mark)), .fix = fmt::format("add a {}", quote)});
    }
    [[noreturn]] static void refuse_tag(const std::string& tag, const ConfigPlace& at) {
        throw Error({.what = fmt::format("the tag '{}' is not supported", tag),
                     .where = to_string(at),
                     .fix = "write the value without a tag: safe loaders refuse tags"});
    }

    static ConfigValue scalar(const std::string& tag, const std::string& text, const ConfigPlace& at) {
        ConfigValue value;
        if (tag.empty() || tag == "?") return yaml_scalar(text, at);
        value.written = text;
        value.place = at;
        value.kind = ConfigValue::Kind::text;
        value.quoted = true;
        if (tag == "!") return value;
        constexpr std::string_view core = "tag:yaml.org,2002:";
        const std::string_view type = tag.starts_with(core) ? std::string_view(tag).substr(core.size()) : "";
        if (type == "str") return value;
        if (type == "null") {
            value.kind = ConfigValue::Kind::null;
        } else if (type == "int" || type == "float") {
            const std::optional<double> number = config_text::number_of(text);
            if (!number) refuse_tag(tag, at);
            value.kind = ConfigValue::Kind::number;
            value.number = *number;
        } else if (type == "bool" && yaml_scalar(text, at).is_boolean()) {
            value = yaml_scalar(text, at);
        } else {
            refuse_tag(tag, at);
        }
        value.quoted = false;
        return value;
    }

    void add(ConfigValue value, const std::string& tag, YAML::anchor_t anchor) {
        if (builder_.wants_key()) {
            const bool merges = value.written == "<<" && (tag.empty() || tag == "?");
            builder_.key(value.is_null() && value.written.empty() ? "null" : value.written, value.place, merges);
            key_place_ = value.place;
        } else {
            // The parser gives an empty value the place of the next token. The place of its key is closer.
            if (value.is_null() && value.written.empty() && builder_.in_map()) value.place = key_place_;
            builder_.add(value);
        }
        if (anchor != YAML::NullAnchor) anchors_[anchor] = std::move(value);
    }
    void open(ConfigValue::Kind kind, std::string_view type, const YAML::Mark& mark, const std::string& tag,
              YAML::anchor_t anchor) {
        const ConfigPlace at = place(mark);
        if (builder_.wants_key()) refuse_key(at);
        if (!tag.empty() && tag != "?" && tag != "!" && tag != fmt::format("tag:yaml.org,2002:{}", type))
            refuse_tag(tag, at);
        builder_.open(kind, at);
        open_anchors_.push_back(anchor);
    }
    void close() {
        builder_.close();
        const YAML::anchor_t anchor = open_anchors_.back();
        open_anchors_.pop_back();
        if (anchor != YAML::NullAnchor) anchors_[anchor] = builder_.last();
    }

    std::string_view text_;
    std::string name_;
    ConfigBuilder builder_;
    std::map<YAML::anchor_t, ConfigValue> anchors_;
    std::vector<YAML::anchor_t> open_anchors_;
    ConfigPlace key_place_;
    int documents_ = 0;
};

}  // namespace

ConfigValue yaml_scalar(std::string_view written, ConfigPlace place) {
    ConfigValue value;
    value.written = written;
    value.place = std::move(place);
    if (written.empty() || written == "~" || is_in_three_cases(written, "null")) return value;
    for (const std::string_view word : {"yes", "true", "on", "no", "false", "off"}) {
        if (!is_in_three_cases(written, word)) continue;
        value.kind = ConfigValue::Kind::boolean;
        value.boolean = is_one_of(word, {"yes", "true", "on"});
        return value;
    }
    const std::optional<double> number = plain_number(written);
    value.kind = number ? ConfigValue::Kind::number : ConfigValue::Kind::text;
    value.number = number.value_or(0);
    return value;
}

ConfigFile read_yaml_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    YamlEvents events(text, name);
    try {
        std::istringstream in{std::string(text)};
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(events)) {
        }
    } catch (const YAML::Exception& error) {
        const ConfigPlace at{name, static_cast<std::uint32_t>(error.mark.line + 1),
                             static_cast<std::uint32_t>(error.mark.column + 1)};
        throw Error({.what = reason_of(error.msg),
                     .where = error.mark.is_null() ? name : to_string(at),
                     .fix = "write valid YAML"});
    }
    ConfigFile file = events.take();
    if (file.root.place.line == 0) file.root.place = {name, 1, 1};  // a file with comments only has no document
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
