// SPDX-License-Identifier: Apache-2.0
// Reads command-line arguments as a config, for example `--bf16 --loss-scale-window 1000`. The arguments may be on
// several lines and have the quotes of a shell.
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace macheps::files {

namespace {

struct Word {
    std::string text;
    ConfigPlace place;
    bool quoted = false;  // whether any part was in quotes
};

/// Splits a text into words as a shell does: at blanks, with quotes, with `\` before a character or at the end of a
/// line, and with `#` comments.
class Words {
  public:
    Words(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    std::optional<Word> next() {
        skip_to_word();
        if (is_end()) return {};
        Word word{{}, place(), false};
        while (!is_end() && !is_blank()) read_part(word);
        return word;
    }

  private:
    bool is_end() const { return at_ >= text_.size(); }
    bool is_blank() const { return std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos; }
    ConfigPlace place() const { return {name_, line_, static_cast<std::uint32_t>(at_ - line_start_ + 1)}; }

    char step() {
        const char c = text_[at_++];
        if (c == '\n') {
            ++line_;
            line_start_ = at_;
        }
        return c;
    }

    /// Skips a `\` at the end of a line together with the line end, as a shell does. Returns whether there was one.
    bool joins_lines() {
        const std::string_view rest = text_.substr(at_);
        for (const std::string_view end : {"\\\n", "\\\r\n"}) {
            if (!rest.starts_with(end)) continue;
            for (std::size_t i = 0; i < end.size(); ++i) step();
            return true;
        }
        return false;
    }

    void skip_to_word() {
        while (!is_end()) {
            if (is_blank()) {
                step();
            } else if (text_[at_] == '#') {
                while (!is_end() && text_[at_] != '\n') step();
            } else if (!joins_lines()) {
                return;
            }
        }
    }

    void read_part(Word& word) {
        if (joins_lines()) return;
        const ConfigPlace start = place();
        const char c = step();
        if (c == '\\' && !is_end()) {
            word.text += step();
        } else if (c == '"' || c == '\'') {
            word.quoted = true;
            while (!is_end() && text_[at_] != c) {
                if (c == '"' && text_[at_] == '\\' && at_ + 1 < text_.size() &&
                    (text_[at_ + 1] == '"' || text_[at_ + 1] == '\\'))
                    step();
                word.text += step();
            }
            if (is_end()) {
                throw Error(
                    {.what = "a quote is not closed", .where = to_string(start), .fix = fmt::format("add a {}", c)});
            }
            step();
        } else {
            word.text += c;
        }
    }

    std::string_view text_;
    const std::string& name_;
    std::size_t at_ = 0, line_start_ = 0;
    std::uint32_t line_ = 1;
};

/// Returns true for `--key`, `-k` and `--key=value`, but not for `-1`.
bool is_option(const Word& word) {
    return word.text.size() > 1 && word.text.front() == '-' && !word.quoted && !config_text::number_of(word.text);
}

/// Guesses the type of a value from its text: boolean, number or, if it looks like neither, text. The types that the
/// framework gives to its keys are not known here.
ConfigValue value_of(const Word& word, std::string_view text) {
    ConfigValue value;
    value.kind = ConfigValue::Kind::text;
    value.written = text;
    value.place = word.place;
    const std::string lower = lowered(text);
    if (lower == "true" || lower == "false") {
        value.kind = ConfigValue::Kind::boolean;
        value.boolean = lower == "true";
    } else if (const std::optional<double> number = config_text::number_of(text)) {
        value.kind = ConfigValue::Kind::number;
        value.number = *number;
    }
    return value;
}

/// An option and its values: the words between it and the next option.
struct Argument {
    std::string key;
    ConfigPlace place;
    std::vector<ConfigValue> values;
};

std::vector<Argument> arguments_of(std::string_view text, const std::string& name) {
    std::vector<Argument> arguments;
    Words words(text, name);
    while (const std::optional<Word> word = words.next()) {
        if (!is_option(*word)) {
            if (arguments.empty()) {
                throw Error({.what = fmt::format("'{}' comes before any option", word->text),
                             .where = to_string(word->place),
                             .fix = "give only what follows the program's name: --bf16 --loss-scale 1024"});
            }
            arguments.back().values.push_back(value_of(*word, word->text));
            continue;
        }
        const std::size_t dashes = word->text.starts_with("--") ? 2 : 1, equals = word->text.find('=');
        const std::string key = word->text.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
        if (key.empty() || key.front() == '-') {
            throw Error({.what = fmt::format("'{}' is not a valid option", word->text),
                         .where = to_string(word->place),
                         .fix = "write --KEY, --KEY VALUE or --KEY=VALUE"});
        }
        arguments.push_back({key, word->place, {}});
        if (equals != std::string::npos) {
            arguments.back().values.push_back(value_of(*word, std::string_view(word->text).substr(equals + 1)));
        }
    }
    return arguments;
}

}  // namespace

ConfigFile read_argument_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    ConfigBuilder builder;
    builder.open(ConfigValue::Kind::map, {name, 1, 1});
    for (const Argument& argument : arguments_of(text, name)) {
        builder.key(argument.key, argument.place);
        if (argument.values.empty()) {
            ConfigValue flag;
            flag.kind = ConfigValue::Kind::boolean;
            flag.boolean = true;
            flag.written = "true";
            flag.place = argument.place;
            builder.add(std::move(flag));
        } else if (argument.values.size() == 1) {
            builder.add(argument.values.front());
        } else {
            builder.open(ConfigValue::Kind::list, argument.values.front().place);
            for (const ConfigValue& value : argument.values) builder.add(value);
            builder.close();
        }
    }
    builder.close();
    ConfigFile file = builder.take();
    file.repeated.clear();  // a repeated option is not an error: every argument parser takes the last
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
