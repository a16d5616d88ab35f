// SPDX-License-Identifier: Apache-2.0
// Reads Python files of assignments as configs. The files are not executed.
#include "core/error.hpp"
#include "experiments/files/config/arithmetic.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace macheps::files {

namespace {

using Kind = ConfigValue::Kind;

constexpr std::string_view python_blanks = " \t\r\n";

bool is_python_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80) != 0; }

/// Returns the length of the name at the front of the text, or 0 if there is none.
std::size_t python_name_length(std::string_view text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front()))) return 0;
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_python_letter) - text.begin());
}

/// Returns the length of the prefix of a string literal, such as `r` in r'...', if a quote follows it.
std::size_t string_prefix(std::string_view text) {
    const std::size_t length = std::min(text.find_first_not_of("rRbBuUfF"), text.size());
    return length <= 2 && length < text.size() && (text[length] == '\'' || text[length] == '"')
               ? length
               : std::string_view::npos;
}

/// Places of all lines of a text, so that a place is found quickly.
class Lines {
  public:
    Lines(std::string_view text, const std::string& name) : name_(name) {
        for (std::size_t at = 0; at < text.size(); ++at) {
            if (text[at] == '\n') starts_.push_back(at + 1);
        }
    }
    ConfigPlace place(std::size_t at) const {
        const auto next = std::upper_bound(starts_.begin(), starts_.end(), at);
        const auto line = static_cast<std::uint32_t>(next - starts_.begin());
        return {name_, line, static_cast<std::uint32_t>(at - *std::prev(next) + 1)};
    }

  private:
    std::string name_;
    std::vector<std::size_t> starts_{0};
};

[[noreturn]] void refuse(std::string what, const ConfigPlace& place, std::string fix) {
    throw Error({.what = std::move(what), .where = to_string(place), .fix = std::move(fix)});
}

/// Returns the index after the string literal whose first quote is at `at`.
std::size_t string_end(std::string_view text, std::size_t at, const Lines& lines) {
    const std::string_view three = text.substr(at, 3);
    const bool is_long = three == "'''" || three == "\"\"\"";
    for (std::size_t i = at + (is_long ? 3 : 1); i < text.size(); ++i) {
        if (text[i] == '\\') {
            ++i;
        } else if (is_long ? text.substr(i, 3) == three : text[i] == text[at]) {
            return i + (is_long ? 3 : 1);
        } else if (text[i] == '\n' && !is_long) {
            break;
        }
    }
    refuse("a quote is not closed", lines.place(at), "close the string");
}

/// Returns the index after the statement that begins at `at`: the index of a line end or semicolon outside brackets.
std::size_t statement_end(std::string_view text, std::size_t at, const Lines& lines) {
    std::size_t open = 0, first_open = at;
    while (at < text.size()) {
        const char c = text[at];
        if (c == '\'' || c == '"') {
            at = string_end(text, at, lines);
            continue;
        }
        if (c == '#') {
            at = std::min(text.find('\n', at), text.size());
            continue;
        }
        if ((c == '\n' || c == ';') && open == 0) return at;
        if (c == '(' || c == '[' || c == '{') {
            if (open++ == 0) first_open = at;
        } else if ((c == ')' || c == ']' || c == '}') && open > 0) {
            --open;
        } else if (c == '\\') {
            ++at;  // a backslash joins two lines
            if (at < text.size() && text[at] == '\r') ++at;
        }
        ++at;
    }
    if (open > 0) refuse("a bracket is not closed", lines.place(first_open), "close the bracket");
    return text.size();
}

/// Reads the value of an assignment. After a failure, the value is unknown.
class PythonValue {
  public:
    using Names = std::map<std::string, ArithmeticNumber, std::less<>>;

    PythonValue(std::string_view text, std::size_t at, std::size_t end, const Lines& lines, const Names& names)
        : text_(text.substr(0, end)), at_(at), lines_(lines), names_(names) {}

    /// Returns nothing if the text is not a literal or arithmetic of known numbers.
    std::optional<ConfigValue> read() {
        std::optional<ConfigValue> all = value("");
        skip();
        return at_ >= text_.size() ? all : std::nullopt;
    }

    /// Returns the number if the value is a number.
    std::optional<ArithmeticNumber> number() const { return number_; }

  private:
    void skip() {
        while (at_ < text_.size()) {
            at_ = std::min(text_.find_first_not_of(" \t\r\n\\", at_), text_.size());
            if (at_ >= text_.size() || text_[at_] != '#') return;
            at_ = std::min(text_.find('\n', at_), text_.size());
        }
    }
    bool takes(char c) {
        skip();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    /// Reads a value that ends before one of the characters `ends`, or at the end of the statement.
    std::optional<ConfigValue> value(std::string_view ends) {
        skip();
        if (++depth_ > config_depth_limit) config_text::too_deep(lines_.place(at_));
        std::optional<ConfigValue> found;
        if (string_prefix(text_.substr(at_)) != std::string_view::npos)
            found = strings();
        else if (at_ < text_.size() && text_[at_] == '[')
            found = list('[', ']');
        else if (at_ < text_.size() && text_[at_] == '{')
            found = dict();
        else
            found = scalar(ends);
        --depth_;
        return found;
    }

    /// Reads adjacent string literals, which Python joins.
    std::optional<ConfigValue> strings() {
        ConfigValue value = made(Kind::text);
        value.quoted = true;
        for (std::size_t prefix; (prefix = string_prefix(text_.substr(at_))) != std::string_view::npos; skip()) {
            const std::string_view letters = text_.substr(at_, prefix);
            if (letters.find_first_of("fFbB") != std::string_view::npos) return {};
            const std::size_t open = at_ + prefix, end = string_end(text_, open, lines_);
            const std::size_t quotes = text_.substr(open, 3) == std::string(3, text_[open]) && end - open >= 6 ? 3 : 1;
            const std::string_view inner = text_.substr(open + quotes, end - open - 2 * quotes);
            const bool is_raw = letters.find_first_of("rR") != std::string_view::npos;
            for (std::size_t i = 0; i < inner.size(); ++i) {
                if (inner[i] == '\\' && !is_raw && i + 1 < inner.size()) {
                    ++i;
                    if (std::string_view("\\'\"").find(inner[i]) == std::string_view::npos) return {};
                }
                value.written += inner[i];
            }
            at_ = end;
        }
        return value;
    }

    /// Reads a list, or the tuple or the single value in parentheses. Only a comma makes a tuple of one value.
    std::optional<ConfigValue> list(char open, char close) {
        ConfigValue all = made(Kind::list);
        const std::string ends{',', close};
        bool has_comma = false;
        if (!takes(open)) return {};
        while (!takes(close)) {
            std::optional<ConfigValue> item = value(ends);
            if (!item) return {};
            all.items.push_back(std::move(*item));
            if (takes(','))
                has_comma = true;
            else if (skip(), at_ >= text_.size() || text_[at_] != close)
                return {};
        }
        if (open == '(' && all.items.size() == 1 && !has_comma) return ConfigValue(std::move(all.items.front()));
        return all;
    }

    std::optional<ConfigValue> dict() {
        ConfigValue all = made(Kind::map);
        if (!takes('{')) return {};
        while (!takes('}')) {
            skip();
            ConfigValue::Entry entry{{}, lines_.place(at_), {}};
            if (string_prefix(text_.substr(at_)) == std::string_view::npos) return {};
            const std::optional<ConfigValue> key = strings();
            if (!key || !takes(':')) return {};
            entry.key = key->written;
            std::optional<ConfigValue> inner = value(",}");
            if (!inner || all.entry(entry.key) != nullptr) return {};
            entry.value = std::move(*inner);
            all.entries.push_back(std::move(entry));
            if (!takes(',') && (skip(), at_ >= text_.size() || text_[at_] != '}')) return {};
        }
        return all;
    }

    std::optional<ConfigValue> scalar(std::string_view ends) {
        const std::size_t start = at_, end = extent(ends);
        std::string_view word = text_.substr(start, end - start);
        word = word.substr(0, word.find_last_not_of(python_blanks) + 1);
        ConfigValue value = made(Kind::null);
        value.written = word;
        if (word == "True" || word == "False") {
            value.kind = Kind::boolean;
            value.boolean = word == "True";
        } else if (const auto number = arithmetic(word)) {
            value.kind = Kind::number;
            value.number = number->value;
            number_ = number;
            if (!config_text::number_of(word)) value.written = written(*number);
        } else if (word.starts_with('(')) {
            return list('(', ')');
        } else if (word != "None") {
            return {};
        }
        at_ = end;
        return value;
    }

    std::optional<ArithmeticNumber> arithmetic(std::string_view word) const {
        const auto name = [&](std::string_view one) {
            const auto found = names_.find(one);
            return found == names_.end() ? std::nullopt : std::optional(found->second);
        };
        return evaluate_arithmetic(word, {.is_shell = false, .name = name});
    }

    /// Returns the index of the first of `ends` outside brackets, strings and comments.
    std::size_t extent(std::string_view ends) const {
        std::size_t open = 0;
        for (std::size_t at = at_; at < text_.size(); ++at) {
            const char c = text_[at];
            if (open == 0 && (ends.find(c) != std::string_view::npos || c == '#')) return at;
            if (c == '(' || c == '[' || c == '{') ++open;
            if ((c == ')' || c == ']' || c == '}') && open > 0) --open;
        }
        return text_.size();
    }

    static std::string written(ArithmeticNumber number) {
        if (number.is_integer) return fmt::format("{:.0f}", number.value);
        const std::string text = fmt::format("{}", number.value);
        return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }

    ConfigValue made(Kind kind) const {
        ConfigValue value;
        value.kind = kind;
        value.place = lines_.place(at_);
        return value;
    }

    std::string_view text_;
    std::size_t at_;
    const Lines& lines_;
    const Names& names_;
    int depth_ = 0;
    std::optional<ArithmeticNumber> number_;  // the last number that was read
};

class PythonFile {
  public:
    PythonFile(std::string_view text, const std::string& name) : text_(text), lines_(text, name) {
        builder_.open(Kind::map, {name, 1, 1});
    }

    ConfigFile read() {
        for (std::size_t at = 0; at < text_.size() && !statement_;) {
            const std::size_t start = std::min(text_.find_first_not_of(" \t\r\n;", at), text_.size());
            if (start == text_.size()) break;
            const std::size_t end = statement_end(text_, start, lines_);
            if (text_[start] != '#') take(start, end);
            at = end;
        }
        builder_.close();
        ConfigFile file = builder_.take();
        if (statement_) file.root.entries.clear();
        file.unknown_values = std::move(unknown_);
        file.python_modules = std::move(modules_);
        file.python_statement = std::move(statement_);
        return file;
    }

  private:
    std::string_view statement(std::size_t start, std::size_t end) const { return text_.substr(start, end - start); }

    void take(std::size_t start, std::size_t end) {
        const std::string_view text = statement(start, end);
        const std::size_t length = python_name_length(text);
        const std::string_view word = text.substr(0, length);
        if (word == "import" || word == "from") return take_import(text.substr(length));
        if (string_prefix(text) != std::string_view::npos) return;  // a documentation string
        const std::size_t after = std::min(text.find_first_not_of(" \t", length), text.size());
        const bool is_annotated = text.substr(after).starts_with(':') && !is_block(word);
        const std::size_t sign = is_annotated ? assignment_sign(text, after) : after;
        if (length > 0 && text.substr(sign).starts_with('=') && !text.substr(sign).starts_with("=="))
            return assign(std::string(word), start, start + sign + 1, end);
        if (length == 0 || !is_annotated) statement_ = lines_.place(start);
    }

    /// Returns whether a colon after the word begins a block, and not the type of a variable.
    static bool is_block(std::string_view word) {
        return word == "else" || word == "try" || word == "finally" || word == "lambda";
    }

    /// Returns the index of the `=` after the type of a variable (`a: int = 1`), or the size of the text.
    std::size_t assignment_sign(std::string_view text, std::size_t at) const {
        std::size_t open = 0;
        while (at < text.size() && (text[at] != '=' || open > 0)) {
            const char c = text[at];
            if (c == '(' || c == '[' || c == '{') ++open;
            if ((c == ')' || c == ']' || c == '}') && open > 0) --open;
            if (c == '#')
                at = std::min(text.find('\n', at), text.size());
            else
                at = c == '\'' || c == '"' ? string_end(text, at, lines_) : at + 1;
        }
        return at;
    }

    void take_import(std::string_view rest) {
        const std::size_t first = std::min(rest.find_first_not_of(" \t"), rest.size());
        rest.remove_prefix(first);
        modules_.emplace_back(rest.substr(0, rest.find_first_of(" \t\r\n,;")));
    }

    void assign(const std::string& name, std::size_t start, std::size_t value_start, std::size_t end) {
        PythonValue reader(text_, value_start, end, lines_, numbers_);
        std::optional<ConfigValue> value = reader.read();
        std::erase_if(unknown_, [&](const UnknownValue& one) { return one.path == name; });
        numbers_.erase(name);
        builder_.key(name, lines_.place(start));
        if (!value) {
            std::string_view written = text_.substr(value_start, end - value_start);
            written = written.substr(0, written.find('#'));
            const std::size_t first = std::min(written.find_first_not_of(python_blanks), written.size());
            written = written.substr(first, written.find_last_not_of(python_blanks) + 1 - first);
            unknown_.push_back({name, std::string(written), "it is not a literal", lines_.place(start)});
            value.emplace().place = lines_.place(start);
        } else if (value->is_number() && reader.number()) {
            numbers_.insert_or_assign(name, *reader.number());
        }
        builder_.add(std::move(*value));
    }

    std::string_view text_;
    Lines lines_;
    ConfigBuilder builder_;
    PythonValue::Names numbers_;
    std::vector<UnknownValue> unknown_;
    std::vector<std::string> modules_;
    std::optional<ConfigPlace> statement_;
};

}  // namespace

ConfigFile read_python_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    ConfigFile file = PythonFile(text, name).read();
    file.repeated.clear();  // a later assignment replaces an earlier one
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
