// SPDX-License-Identifier: Apache-2.0
// Reads command-line arguments as a config, for example `--bf16 --loss-scale-window 1000`. The arguments may be on
// several lines and have the quotes of a shell.
#include "core/error.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/files/config/builder.hpp"
#include "experiments/files/config/command_line/argument_words.hpp"
#include "experiments/files/config/command_line/hydra_options.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

namespace macheps::files {

namespace {

/// Splits a text into words as a shell does: at blanks, with quotes, with `\` before a character or at the end of a
/// line, and with `#` comments.
class Words {
  public:
    Words(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    std::optional<ArgumentWord> next() {
        skip_to_word();
        if (is_end()) return {};
        ArgumentWord word{.place = place()};
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

    void read_part(ArgumentWord& word) {
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
bool is_option(const ArgumentWord& word) {
    return word.text.size() > 1 && word.text.front() == '-' && !word.quoted && !config_text::number_of(word.text);
}

/// A change of one key, as Hydra writes it.
struct Override {
    std::string_view path;        ///< a.b
    std::string_view assignment;  ///< a.b=value
    bool removes = false;         ///< `~a.b`, which removes the key
    bool adds = false;            ///< `+a.b` or `++a.b`, which may add the key
};

/// Reads `a.b=value`, `+a.b=value`, `++a.b=value`, `~a.b` or `~a.b=value`. Returns nothing for any other word.
std::optional<Override> override_of(std::string_view text) {
    const bool removes = text.starts_with('~');
    const std::size_t signs = removes ? 1 : std::min(text.find_first_not_of('+'), text.size());
    const std::string_view assignment = text.substr(signs), path = assignment.substr(0, assignment.find('='));
    const bool has_value = path.size() < assignment.size();
    if (signs > 2 || path.empty() || (!has_value && !removes)) return {};
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@/-";
    // A word that begins with `~/` is a path.
    const bool is_path = path.find_first_not_of(letters) == std::string_view::npos && path.front() != '-' &&
                         path.front() != '.' && path.back() != '.' && path.find("..") == std::string_view::npos &&
                         !(removes && path.front() == '/');
    if (!is_path) return {};
    return Override{path, assignment, removes, !removes && signs > 0};
}

/// Guesses the type of a value from its text: boolean, number or, if it looks like neither, text. The types that the
/// framework gives to its keys are not known here.
ConfigValue value_of(const ArgumentWord& word, std::string_view text) {
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
    bool has_sign = false;  ///< `--key=value`, which takes no further words
    std::string unknown{}, reason{};
};

class ArgumentParser {
  public:
    explicit ArgumentParser(Positional positional) : positional_(positional) {}

    void take(const ArgumentWord& word) {
        if (!is_option(word)) return take_value(word);
        const std::size_t dashes = word.text.starts_with("--") ? 2 : 1, equals = word.text.find('=');
        const std::string key = word.text.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
        if (!word.has_known_key()) refuse_unknown(word, "the name of an option");
        if (key.empty() || key.front() == '-') {
            throw Error({.what = fmt::format("'{}' is not a valid option", word.text),
                         .where = to_string(word.place),
                         .fix = "write --KEY, --KEY VALUE or --KEY=VALUE"});
        }
        arguments.push_back({.key = key, .place = word.place, .values = {}, .has_sign = equals != std::string::npos});
        if (equals != std::string::npos) add_value(word, std::string_view(word.text).substr(equals + 1));
    }

    std::vector<Argument> arguments;
    std::vector<ArgumentWord> overrides;
    std::vector<ConfigValue> positional;

  private:
    [[noreturn]] static void refuse_unknown(const ArgumentWord& word, std::string_view what) {
        throw Error({.what = fmt::format("{} depends on `{}`, which is unknown: {}", what, word.unknown, word.reason),
                     .where = to_string(word.place),
                     .fix = "write the words out"});
    }

    /// Returns whether the word is an override after an option of Hydra without a value: `--multirun trainer.lr=1`.
    bool is_after_hydra_flag(const ArgumentWord& word) const {
        const HydraOption* option = find_hydra_option(arguments.back().key);
        return option != nullptr && !option->takes_value && override_of(word.text);
    }

    void add_value(const ArgumentWord& word, std::string_view text) {
        Argument& last = arguments.back();
        last.values.push_back(value_of(word, text));
        if (word.unknown.empty()) return;
        last.unknown = word.unknown;
        last.reason = word.reason;
    }

    void take_value(const ArgumentWord& word) {
        const bool has_value = !arguments.empty() && !arguments.back().values.empty();
        // Options such as `--optimizer_args eps=1e-7 weight_decay=0` take a list of assignments.
        const bool continues_list = has_value && arguments.back().key.ends_with("args") && override_of(word.text);
        const bool is_free = arguments.empty() || (has_value && !continues_list) || is_after_hydra_flag(word);
        if (positional_ == Positional::collect && is_free) {
            if (word.has_known_key() && override_of(word.text)) {
                overrides.push_back(word);
                return;
            }
            // A separate unknown word may expand to any number of options.
            if (!word.unknown.empty()) refuse_unknown(word, "a word");
        }
        const bool is_positional =
            positional_ == Positional::collect && !arguments.empty() && arguments.back().has_sign;
        if (!arguments.empty() && !is_positional) return add_value(word, word.text);
        if (positional_ == Positional::refuse) {
            throw Error({.what = fmt::format("'{}' comes before any option", word.text),
                         .where = to_string(word.place),
                         .fix = "give only what follows the program's name: --bf16 --loss-scale 1024"});
        }
        positional.push_back(value_of(word, word.text));
    }

    Positional positional_;
};

ConfigValue flag_value(const ConfigPlace& place) {
    ConfigValue flag;
    flag.kind = ConfigValue::Kind::boolean;
    flag.boolean = true;
    flag.written = "true";
    flag.place = place;
    return flag;
}

void add_argument(ConfigBuilder& builder, const Argument& argument) {
    builder.key(argument.key, argument.place);
    if (!argument.unknown.empty()) {
        ConfigValue unknown;
        unknown.place = argument.values.front().place;
        return builder.add(std::move(unknown));
    }
    if (argument.values.empty()) return builder.add(flag_value(argument.place));
    if (argument.values.size() == 1) return builder.add(argument.values.front());
    builder.open(ConfigValue::Kind::list, argument.values.front().place);
    for (const ConfigValue& value : argument.values) builder.add(value);
    builder.close();
}

/// Applies an override. If the override removes the key, its value is unknown: the program may have a default.
void apply(ConfigFile& file, const ArgumentWord& word, const std::string& name) {
    const Override one = *override_of(word.text);
    std::erase_if(file.unknown_values, [&](const UnknownValue& earlier) { return earlier.path == one.path; });
    if (one.adds) file.new_keys.emplace_back(one.path);
    ConfigValue root;
    if (one.removes || !word.unknown.empty()) {
        root.set(one.path, ConfigValue{});
        file.unknown_values.push_back({std::string(one.path), one.removes ? word.text : word.unknown,
                                       one.removes ? "the command removes the key" : word.reason, word.place});
    } else {
        apply_override(root, one.assignment, name);
    }
    config_text::place_all(root, word.place);
    const ConfigPlace start = file.root.place;
    merge_config(file.root, root);
    file.root.place = start;
}

}  // namespace

ConfigFile config_of_words(const std::vector<ArgumentWord>& words, const std::string& name, Positional positional) {
    ArgumentParser parser(positional);
    for (const ArgumentWord& word : words) parser.take(word);
    ConfigBuilder builder;
    builder.open(ConfigValue::Kind::map, {name, 1, 1});
    for (const Argument& argument : parser.arguments) add_argument(builder, argument);
    builder.close();
    ConfigFile file = builder.take();
    file.repeated.clear();  // a repeated option is not an error: every argument parser takes the last
    for (const Argument& argument : parser.arguments) {
        const ConfigValue::Entry* entry = file.root.entry(argument.key);
        if (argument.unknown.empty() || entry == nullptr || !(entry->place == argument.place)) continue;
        file.unknown_values.push_back({argument.key, argument.unknown, argument.reason, argument.place});
    }
    for (const ArgumentWord& word : parser.overrides) apply(file, word, name);
    if (positional == Positional::collect) file.command.emplace().positional = std::move(parser.positional);
    return file;
}

ConfigFile read_argument_config(std::string_view text, const std::string& name) {
    config_text::check(text, name);
    text = config_text::without_mark(text);
    std::vector<ArgumentWord> words;
    Words reader(text, name);
    while (std::optional<ArgumentWord> word = reader.next()) words.push_back(std::move(*word));
    ConfigFile file = config_of_words(words, name, Positional::refuse);
    file.ignored_rules = config_text::ignored_rules(text, name);
    return file;
}

}  // namespace macheps::files
