// SPDX-License-Identifier: Apache-2.0
// The rules are those of POSIX shells, and those of bash 5.2 for arrays, braces, `+=` and `read -d`. Tildes and
// patterns of file names are not expanded. A line may also end with CR LF, which a shell does not accept.
#include "experiments/files/config/command_line/shell.hpp"
#include "core/error.hpp"
#include "experiments/files/config/arithmetic.hpp"
#include "experiments/files/config/command_line/shell_variables.hpp"
#include "experiments/files/config/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

namespace macheps::files {

namespace {

constexpr int max_expansion_depth = 32;

/// Words that begin commands which can change any word of the script, and the names of these commands in errors.
struct RefusedRow {
    std::string_view word, what;
};
constexpr RefusedRow refused[] = {
    {"for", "a loop"},         {"while", "a loop"},     {"until", "a loop"},
    {"case", "a `case`"},      {"select", "a loop"},    {"function", "a function"},
    {"eval", "`eval`"},        {"source", "`source`"},  {".", "`.`, which runs another script"},
    {"coproc", "a coprocess"}, {"alias", "an `alias`"},
};

/// Words of `if` and groups, which are followed by a command.
constexpr std::string_view keywords[] = {"if", "then", "elif", "else", "fi", "!", "{", "}"};
constexpr std::string_view declarations[] = {"export", "declare", "readonly", "local", "typeset"};

template <class List>
bool is_one_of(const List& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

bool is_name_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::size_t name_length(std::string_view text) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front()))) return 0;
    return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_name_letter) - text.begin());
}

class ShellReader {
  public:
    ShellReader(std::string_view text, const std::string& name, ShellVariables& variables, int depth = 0)
        : text_(text), name_(name), variables_(variables), depth_(depth) {}

    ShellScript read() {
        while (!is_end()) {
            if (skip_blanks()) continue;
            const char c = peek();
            if (c == '#') {
                skip_comment();
            } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
                read_separator();
            } else {
                read_command();
            }
        }
        if (!blocks_.empty()) {
            const Block& open = blocks_.back();
            refuse(fmt::format("`{}` without `{}`", open.opens(), open.closes()), open.place,
                   fmt::format("add `{}`", open.closes()));
        }
        return std::move(script_);
    }

    /// Reads the whole text as if it were in double quotes.
    ShellValue read_quoted_text() {
        Expansion out;
        WordBuilder word(place(), out);
        word.add_quote();
        while (!is_end()) read_quoted_part(word, out, '\0');
        word.finish();
        return joined(out);
    }

  private:
    /// An `if` or a `{` that is not closed yet.
    struct Block {
        ConfigPlace place;
        bool is_if = false;
        std::string condition{};  ///< what decides whether its commands run; empty if nothing does

        std::string_view opens() const { return is_if ? "if" : "{"; }
        std::string_view closes() const { return is_if ? "fi" : "}"; }
    };
    struct Redirection {
        std::string sign;
        std::vector<ArgumentWord> target;
    };
    struct HereDocument {
        std::string body;
        std::uint32_t line = 0;  // of the line after the `<<`
        bool is_quoted = false;
    };
    /// A command while it is read.
    struct Draft {
        ShellCommand command{};
        std::vector<ShellAssignment> assignments{};
        std::vector<Redirection> redirections{};
        std::optional<HereDocument> here{};
        bool declares = false;
        bool has_left_out = false;
    };

    // --- characters

    bool is_end() const { return at_ >= text_.size(); }
    char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    ConfigPlace place() const { return {name_, line_, static_cast<std::uint32_t>(at_ - line_start_ + 1)}; }

    char step() {
        const char c = text_[at_++];
        if (c == '\n') {
            ++line_;
            line_start_ = at_;
            if (here_end_ > at_) {  // the lines of a here-document are not commands
                line_ += static_cast<std::uint32_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                               text_.begin() + static_cast<std::ptrdiff_t>(here_end_),
                                                               '\n'));
                at_ = line_start_ = here_end_;
            }
            here_end_ = 0;
        }
        return c;
    }
    void step_over(std::size_t count) {
        for (; count > 0 && !is_end(); --count) step();
    }

    /// Skips a blank or a backslash at the end of a line. Returns whether there was one.
    bool skip_blanks() {
        const char c = peek();
        if (c == ' ' || c == '\t' || c == '\r') return step(), true;
        return joins_lines();
    }
    bool joins_lines() {
        const std::string_view rest = text_.substr(at_);
        for (const std::string_view end : {"\\\n", "\\\r\n"}) {
            if (rest.starts_with(end)) return step_over(end.size()), true;
        }
        return false;
    }
    void skip_comment() {
        while (!is_end() && peek() != '\n') step();
    }

    [[noreturn]] static void refuse(std::string_view what, const ConfigPlace& place, std::string_view fix) {
        throw Error({.what = std::string(what), .where = to_string(place), .fix = std::string(fix)});
    }
    [[noreturn]] static void refuse_command(std::string_view what, const ConfigPlace& place) {
        refuse(fmt::format("{} can change any word of the script, and nothing is run here", what), place,
               "give the training command alone, with its words written out");
    }

    // --- commands

    void read_separator() {
        const std::string_view rest = text_.substr(at_);
        const bool is_test = rest.starts_with("&&") || rest.starts_with("||");
        if (is_test)
            is_after_test_ = true;  // lines may end between the sign and the command
        else if (rest.front() == '|')
            is_after_test_ = was_after_test_;  // the command before it belongs to the same pipeline
        step_over(is_test ? 2 : 1);
    }

    void read_command() {
        Draft draft;
        draft.command.place = place();
        const bool is_after_test = was_after_test_ = std::exchange(is_after_test_, false);
        decides_ = condition(is_after_test);
        while (!is_end()) {
            if (skip_blanks()) continue;
            const char c = peek();
            if (c == '#') {
                skip_comment();
                continue;
            }
            if (c == '\n' || c == ';' || c == '|' || (c == '&' && peek(1) != '>')) break;
            if (is_redirection()) {
                read_redirection(draft);
                continue;
            }
            if (c == '(' || c == ')') {
                const bool is_function = c == '(' && draft.command.words.size() == 1;
                refuse_command(is_function ? "a function" : "a group in parentheses", place());
            }
            const bool is_first = draft.command.words.empty() && !draft.has_left_out;
            if ((is_first || draft.declares) && read_assignment(draft)) continue;
            const ConfigPlace word_place = place();
            Expansion word = read_word();
            const std::string first = is_first && word.is_plain && !word.words.empty() ? word.words.front().text : "";
            if (is_one_of(keywords, first) && draft.assignments.empty())
                return take_keyword(first, word_place, is_after_test);
            for (const RefusedRow& row : refused) {
                if (row.word == first) refuse_command(row.what, word_place);
            }
            if (first == "[[") return skip_test();
            draft.declares = draft.declares || is_one_of(declarations, first);
            add_words(draft, std::move(word));
        }
        draft.command.last_line = line_;
        finish(draft, decides_);
    }

    static void add_words(Draft& draft, Expansion word) {
        ShellCommand& command = draft.command;
        if (command.conditional.empty()) command.conditional = word.condition;
        draft.has_left_out = draft.has_left_out || !word.left_out.empty();
        std::move(word.words.begin(), word.words.end(), std::back_inserter(command.words));
        std::move(word.left_out.begin(), word.left_out.end(), std::back_inserter(command.left_out));
    }

    void take_keyword(const std::string& word, const ConfigPlace& at, bool is_after_test) {
        if (word == "if") {
            blocks_.push_back({at, true, fmt::format("the `if` in line {}", at.line)});
        } else if (word == "{") {
            blocks_.push_back({at, false, condition(is_after_test)});
        } else if (word == "fi" || word == "}") {
            if (blocks_.empty() || blocks_.back().closes() != word)
                refuse(fmt::format("`{}` closes nothing", word), at, "remove it");
            blocks_.pop_back();
        } else if (word == "!") {
            is_after_test_ = is_after_test;
        }
    }

    /// Skips the rest of a `[[ ... ]]`, whose grammar is not that of other commands.
    void skip_test() {
        const ConfigPlace start = place();
        while (!is_end() && !text_.substr(at_).starts_with("]]")) step();
        if (is_end()) refuse("a `[[` is not closed", start, "add `]]`");
        step_over(2);
    }

    /// Returns what decides whether the current command runs, or an empty text.
    std::string condition(bool is_after_test) const {
        for (const Block& block : blocks_) {
            if (!block.condition.empty()) return block.condition;
        }
        return is_after_test ? fmt::format("the test in line {}", line_) : std::string{};
    }

    void finish(Draft& draft, const std::string& decides) {
        record_writes(draft, decides);
        if (draft.command.words.empty() || draft.declares) return declare(draft, decides);
        run_builtin(draft, decides);
        variables_.set_environment(draft.command, draft.assignments);
        script_.commands.push_back(std::move(draft.command));
    }

    void declare(Draft& draft, const std::string& decides) {
        const std::vector<ArgumentWord>& words = draft.command.words;
        const Declaration how = declaration_of(words);
        for (std::size_t i = 1; i < words.size(); ++i) {
            const std::string& text = words[i].text;
            const std::size_t length = name_length(text);
            if (text.substr(length).starts_with('=') &&
                words[i].has_known_key()) {  // a part of the name or the sign is in quotes
                ShellAssignment one{.name = text.substr(0, length), .appends = false, .value = {}};
                one.value.items = {text.substr(length + 1)};
                one.value.unknown = words[i].unknown;
                one.value.reason = words[i].reason;
                one.value.condition = draft.command.conditional;
                draft.assignments.push_back(std::move(one));
            } else if (!words[i].unknown.empty()) {
                refuse_command("a declaration of unknown names", words[i].place);
            } else if (how.exports || how.unexports) {
                variables_.export_name(text, how.exports, decides);
            }
        }
        for (ShellAssignment& one : draft.assignments) {
            const std::string name = one.name;
            if (how.converts) one.value = unknown_value("$" + name, "an option of the declaration changes it");
            variables_.assign(std::move(one), decides, place());
            if (how.exports || how.unexports) variables_.export_name(name, how.exports, decides);
        }
    }

    /// Applies the effects of `read NAME`, `unset NAME` and similar commands.
    void run_builtin(const Draft& draft, const std::string& decides) {
        const std::vector<ArgumentWord>& words = draft.command.words;
        const std::string& name = words.front().text;
        if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" || name == "let" ||
            (name == "printf" && words.size() > 1 && words[1].text == "-v")) {
            std::vector<std::string> names;
            bool reads_all = false;  // `read -d '' NAME`
            for (std::size_t i = 1; i < words.size(); ++i) {
                const std::string& word = words[i].text;
                const std::string& before = words[i - 1].text;
                if (word.empty() && before.starts_with('-') && before.ends_with('d')) reads_all = true;
                const std::size_t length = name_length(word);
                if (length > 0 && (length == word.size() || name == "let")) names.push_back(word.substr(0, length));
            }
            reads_all = reads_all && name == "read" && names.size() == 1;
            for (const std::string& one : names) read_variable(one, reads_all ? draft.here : std::nullopt, decides);
        } else if (name == "unset") {
            for (std::size_t i = 1; i < words.size(); ++i) variables_.unset(words[i].text, decides);
        } else if (name == "shift") {
            const double count = words.size() > 1 ? config_text::number_of(words[1].text).value_or(1) : 1;
            variables_.shift(static_cast<std::size_t>(std::clamp(count, 0.0, 1e6)), decides);
        } else if (name == "set") {
            set_options(draft.command, decides);
        }
    }

    /// Applies `set -a`, and the arguments of the script that `set --` sets.
    void set_options(const ShellCommand& command, const std::string& decides) {
        const std::vector<ArgumentWord>& words = command.words;
        bool sets_arguments = false;
        std::size_t at = 1;
        for (; at < words.size() && !sets_arguments; ++at) {
            const std::string& word = words[at].text;
            if (!word.starts_with('-') && !word.starts_with('+')) break;
            sets_arguments = word == "--";
            if (sets_arguments) continue;
            const bool takes_name = word.ends_with('o') && at + 1 < words.size();
            if (takes_name) ++at;
            if (word.find('a') == std::string::npos && !(takes_name && words[at].text == "allexport")) continue;
            if (!decides.empty()) refuse_command("a `set -a` that depends on a condition", command.place);
            variables_.export_assigned(word.front() == '-');
        }
        if (!sets_arguments && at >= words.size()) return;
        ShellValue all;
        all.items.clear();
        all.condition = decides.empty() ? command.conditional : decides;
        for (; at < words.size(); ++at) {
            all.items.push_back(words[at].text);
            if (!words[at].unknown.empty()) all.unknown = words[at].unknown, all.reason = words[at].reason;
        }
        if (!command.left_out.empty()) {
            all.unknown = command.left_out.front();
            all.reason = "it expands to the arguments of the script";
        }
        variables_.set_arguments(std::move(all));
    }

    void read_variable(const std::string& name, const std::optional<HereDocument>& here, const std::string& decides) {
        ShellValue value = here ? here_text(*here) : unknown_value("$" + name, "it is read while the script runs");
        std::string& text = value.items.front();
        text.erase(text.find_last_not_of(shell_blanks) + 1);
        text.erase(0, std::min(text.find_first_not_of(shell_blanks), text.size()));
        if (!decides.empty()) value.condition = decides;
        variables_.set(name, std::move(value));
    }

    /// Records the files that the command writes: those of `>` and `>>`, and those of `tee`.
    void record_writes(const Draft& draft, const std::string& decides) {
        const std::vector<ArgumentWord>& words = draft.command.words;
        const std::string_view name = words.empty() ? std::string_view{} : std::string_view(words.front().text);
        const bool copies = draft.here && ((name == "cat" && words.size() == 1) || name == "tee");
        const bool is_declaration = words.empty() || draft.declares;
        ShellWrite write{.path = {},
                         .place = draft.command.place,
                         .first_after = script_.commands.size() + (is_declaration ? 0 : 1)};
        if (copies) {
            ShellValue text = here_text(*draft.here);
            write.text_line = draft.here->line;
            write.text = std::move(text.items.front());
            if (!text.unknown.empty()) write.unknown = fmt::format("`{}`: {}", text.unknown, text.reason);
            if (!text.condition.empty()) write.unknown = text.condition + " decides a part of it";
        } else if (!words.empty()) {
            write.unknown = "it is the output of a command";
        }
        if (!decides.empty()) write.unknown = decides + " decides whether it is written";
        for (const Redirection& one : draft.redirections) {
            write.appends = one.sign == ">>";
            if (one.sign.starts_with('>')) record_write(write, one.target);
        }
        if (name != "tee") return;
        write.appends = words.size() > 1 && (words[1].text == "-a" || words[1].text == "--append");
        record_write(write, {words.begin() + 1, words.end()});
    }

    void record_write(ShellWrite write, const std::vector<ArgumentWord>& paths) {
        for (const ArgumentWord& path : paths) {
            write.path = path.text;
            if (path.unknown.empty()) script_.writes.push_back(write);
        }
    }

    ShellValue here_text(const HereDocument& here) {
        if (!here.is_quoted) return text_value(here.body);
        ShellValue value;
        value.items = {here.body};
        return value;
    }

    /// Expands a text as if it were in double quotes.
    ShellValue text_value(std::string_view text) {
        if (depth_ >= max_expansion_depth) refuse("expansions nest too deep", place(), "write the value out");
        return ShellReader(text, name_, variables_, depth_ + 1).read_quoted_text();
    }

    // --- redirections

    bool is_redirection() const {
        std::size_t ahead = 0;
        while (std::isdigit(static_cast<unsigned char>(peek(ahead)))) ++ahead;
        const char c = peek(ahead);
        return c == '<' || c == '>' || (ahead == 0 && c == '&');
    }

    void read_redirection(Draft& draft) {
        std::string sign;
        const ConfigPlace start = place();
        while (std::isdigit(static_cast<unsigned char>(peek())) || peek() == '&') step();
        while (peek() == '<' || peek() == '>') sign += step();
        if (sign == "<<") return read_here(draft, start);
        if (peek() == '(') refuse_command("a group in parentheses", start);
        if (peek() == '&' || peek() == '|') step();
        while (skip_blanks()) continue;
        Expansion target = read_word();
        draft.redirections.push_back({sign, std::move(target.words)});
    }

    void read_here(Draft& draft, const ConfigPlace& start) {
        if (here_end_ != 0) refuse("two here-documents on one line", start, "write each on a separate line");
        const bool strips_tabs = peek() == '-';
        if (strips_tabs) step();
        while (skip_blanks()) continue;
        HereDocument here;
        std::string delimiter;
        while (!is_end() && std::string_view(" \t\r\n;&|<>()").find(peek()) == std::string_view::npos) {
            const char c = step();
            if (c == '\'' || c == '"' || c == '\\')
                here.is_quoted = true;
            else
                delimiter += c;
        }
        const std::size_t first = std::min(text_.find('\n', at_), text_.size() - 1) + 1;
        here.line = line_ + 1;
        for (std::size_t at = first; at < text_.size();) {
            const std::size_t end = std::min(text_.find('\n', at), text_.size());
            std::string_view line = text_.substr(at, end - at);
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
            if (line == delimiter) {
                here_end_ = std::min(end + 1, text_.size());
                draft.here = std::move(here);
                return;
            }
            here.body += line;
            here.body += '\n';
            at = end + 1;
        }
        refuse(fmt::format("the here-document has no line '{}'", delimiter), start, "add the line that closes it");
    }

    // --- assignments

    /// Reads `NAME=value`, `NAME+=value` or `NAME=(...)`. Returns whether there is an assignment.
    bool read_assignment(Draft& draft) {
        const std::string_view rest = text_.substr(at_);
        std::size_t sign = name_length(rest);
        if (sign == 0) return false;
        ShellAssignment one{
            .name = std::string(rest.substr(0, sign)), .appends = rest.substr(sign).starts_with("+="), .value = {}};
        sign += one.appends ? 1 : 0;
        if (!rest.substr(sign).starts_with('=')) return false;
        step_over(sign + 1);
        if (peek() == '(')
            one.value = read_array();
        else
            one.value = read_assigned();
        draft.assignments.push_back(std::move(one));
        return true;
    }

    ShellValue read_assigned() {
        if (is_word_end()) return {};
        // The value of an assignment is not split. Only an array has several words, which are joined with spaces.
        is_assigned_ = true;
        const Expansion word = read_word();
        is_assigned_ = false;
        return joined(word);
    }

    ShellValue read_array() {
        const ConfigPlace start = place();
        step();
        ShellValue value;
        value.is_array = true;
        value.items.clear();
        while (!is_end() && peek() != ')') {
            if (skip_blanks()) continue;
            if (peek() == '\n') {
                step();
            } else if (peek() == '#') {
                skip_comment();
            } else if (std::string_view("(;&|<>").find(peek()) != std::string_view::npos) {
                refuse_command("an array with commands", place());
            } else {
                Expansion word = read_word();
                if (value.condition.empty()) value.condition = word.condition;
                for (ArgumentWord& one : word.words) {
                    if (!one.unknown.empty()) value.unknown = one.unknown, value.reason = one.reason;
                    value.items.push_back(std::move(one.text));
                }
            }
        }
        if (is_end()) refuse("an array is not closed", start, "add a )");
        step();
        return value;
    }

    // --- words

    bool is_word_end() const {
        return is_end() || std::string_view(" \t\r\n;&|<>()").find(peek()) != std::string_view::npos;
    }

    Expansion read_word() {
        Expansion out;
        WordBuilder word(place(), out);
        const std::size_t start = at_;
        while (!is_word_end()) {
            if (joins_lines()) continue;
            const char c = peek();
            if (c == '\\' || c == '\'' || c == '"' || c == '$' || c == '`') out.is_plain = false;
            if (c == '\\') {
                step();
                if (!is_end()) word.add_text(std::string(1, step()));
            } else if (c == '\'') {
                read_single_quotes(word);
            } else if (c == '"') {
                read_double_quotes(word, out);
            } else if (c == '$' || c == '`') {
                read_expansion(word, out, is_assigned_ ? Within::assignment : Within::word);
            } else {
                word.add_text(std::string(1, step()));
            }
        }
        const std::string_view written = text_.substr(start, at_ - start);
        if (out.is_plain && !is_assigned_ && has_braces(written))
            word.add(unknown_value(std::string(written), "a shell makes several words of it"), true, false);
        word.finish();
        return out;
    }

    void read_single_quotes(WordBuilder& word) {
        const ConfigPlace start = place();
        step();
        const std::size_t end = text_.find('\'', at_);
        if (end == std::string_view::npos) refuse("a quote is not closed", start, "add a '");
        word.add_text(text_.substr(at_, end - at_));
        step_over(end - at_);
        step();
    }

    void read_double_quotes(WordBuilder& word, Expansion& out) {
        const ConfigPlace start = place();
        step();
        // An array without items makes no word, even in quotes.
        if (peek() == '"') word.add_quote();
        while (!is_end() && peek() != '"') read_quoted_part(word, out, '"');
        if (is_end()) refuse("a quote is not closed", start, "add a \"");
        step();
    }

    /// Reads one character or expansion inside double quotes, or in a here-document if `quote` is zero.
    void read_quoted_part(WordBuilder& word, Expansion& out, char quote) {
        const char c = peek();
        if (joins_lines()) return;
        if (c == '$' || c == '`') return read_expansion(word, out, Within::quotes);
        if (c == '\\') {
            step();
            const char next = peek();
            const bool is_escape = next == '$' || next == '`' || next == '\\' || (next == quote && quote != '\0');
            word.add_text(is_escape ? std::string(1, step()) : "\\");
            return;
        }
        // Runs of plain characters are added at once.
        const std::size_t start = at_;
        do step();
        while (!is_end() && std::string_view("$`\\\"\n").find(peek()) == std::string_view::npos);
        word.add_text(text_.substr(start, at_ - start));
    }

    // --- expansions

    void read_expansion(WordBuilder& word, Expansion& out, Within within) {
        const std::string_view rest = text_.substr(at_);
        if (rest.front() == '`') {
            const std::size_t end = rest.find('`', 1);
            if (end == std::string_view::npos) refuse("a ` is not closed", place(), "add a `");
            return add_unknown(word, end + 1, "it is the output of a command");
        }
        if (rest.starts_with("$((")) return read_arithmetic(word);
        if (rest.starts_with("$(")) return add_unknown(word, closing(')'), "it is the output of a command");
        if (rest.starts_with("${")) {
            const std::size_t length = closing('}');
            const std::string_view inner = rest.substr(2, length - 3);
            const std::string written(rest.substr(0, length));
            step_over(length);
            return add_parameter(word, out, inner, written, within);
        }
        if (within == Within::quotes && (rest.starts_with("$'") || rest.starts_with("$\"")))
            return word.add_text(std::string(1, step()));
        if (rest.starts_with("$'")) {
            const std::size_t end = rest.find('\'', 2);
            if (end != std::string_view::npos && rest.substr(0, end).find('\\') != std::string_view::npos)
                return add_unknown(word, end + 1, "its escapes are not read here");
        }
        if (rest.starts_with("$'") || rest.starts_with("$\"")) {
            step();
            return;  // the quotes follow as for other words
        }
        std::size_t length = name_length(rest.substr(1));
        if (length == 0 && rest.size() > 1 &&
            (std::isdigit(static_cast<unsigned char>(rest[1])) ||
             std::string_view("@*#?$!-").find(rest[1]) != std::string_view::npos))
            length = 1;
        if (length == 0) return word.add_text(std::string(1, step()));
        const std::string_view inner = rest.substr(1, length);
        const std::string written(rest.substr(0, length + 1));
        step_over(length + 1);
        add_parameter(word, out, inner, written, within);
    }

    void add_unknown(WordBuilder& word, std::size_t length, std::string reason) {
        word.add(unknown_value(std::string(text_.substr(at_, length)), std::move(reason)), true, false);
        step_over(length);
    }

    /// Returns the length of the expansion that begins at the current place and ends with `close`.
    std::size_t closing(char close) const {
        std::vector<char> open;
        char quote = '\0';
        for (std::size_t at = at_ + 1; at < text_.size(); ++at) {
            const char c = text_[at];
            if (c == '\\') {
                ++at;
            } else if (quote != '\0') {
                if (c == quote) quote = '\0';
            } else if (c == '\'' || c == '"') {
                quote = c;
            } else if (c == '(' || c == '{') {
                open.push_back(c == '(' ? ')' : '}');
            } else if (!open.empty() && c == open.back()) {
                open.pop_back();
                if (open.empty()) return at - at_ + 1;
            }
        }
        refuse(fmt::format("an expansion has no '{}'", close), place(), fmt::format("add a {}", close));
    }

    void read_arithmetic(WordBuilder& word) {
        const std::size_t length = closing(')');
        const std::string written(text_.substr(at_, length));
        const ShellValue inner = text_value(written.size() >= 5 ? written.substr(3, written.size() - 5) : "");
        const auto integer_of = [](std::string_view text) {
            return evaluate_arithmetic(text, {.is_shell = true, .name = [](auto) { return std::nullopt; }});
        };
        const auto name = [&](std::string_view one) -> std::optional<ArithmeticNumber> {
            const ShellValue* found = variables_.find(one);
            if (found == nullptr || !found->is_certain() || found->items.empty()) return {};
            return integer_of(found->items.front());
        };
        const std::optional<ArithmeticNumber> value =
            inner.is_certain() ? evaluate_arithmetic(inner.items.front(), {.is_shell = true, .name = name})
                               : std::nullopt;
        if (!value) return add_unknown(word, length, "its variables are unknown here");
        word.add_text(fmt::format("{:.0f}", value->value));
        step_over(length);
    }

    void add_parameter(WordBuilder& word, Expansion& out, std::string_view inner, const std::string& written,
                       Within within) {
        const bool is_quoted = within != Within::word;
        const ShellValue* arguments = variables_.find("@");
        if (arguments == nullptr && (inner == "@" || inner == "*" || inner.starts_with("@:"))) {
            out.left_out.push_back(written);
            return;
        }
        if (arguments != nullptr && inner == "@") return word.add(*arguments, is_quoted, true);
        if (arguments != nullptr && inner == "*")
            return is_quoted ? word.add(joined(*arguments), true, false) : word.add(*arguments, false, true);
        const bool is_argument = arguments != nullptr && std::isdigit(static_cast<unsigned char>(inner.front()));
        const std::size_t length =
            is_argument ? std::min(inner.find_first_not_of("0123456789"), inner.size()) : name_length(inner);
        if (is_argument && inner != "0" && length == inner.size() && variables_.find(inner) == nullptr)
            return word.add(arguments->unknown.empty() ? ShellValue{} : *arguments, is_quoted, false);
        const std::string name(inner.substr(0, length));
        std::string_view rest = inner.substr(length);
        const bool joins_items = is_quoted && rest.starts_with("[*]");
        const bool takes_all = rest.starts_with("[@]") || rest.starts_with("[*]");
        if (takes_all) rest.remove_prefix(3);
        const ShellValue* found = length > 0 ? variables_.find(name) : nullptr;
        const auto add_variable = [&] { word.add(joins_items ? joined(*found) : *found, is_quoted, takes_all); };
        if (rest.starts_with(":-") || rest.starts_with(":=") || rest.starts_with('-') || rest.starts_with('=')) {
            const bool counts_empty = rest.front() != ':';
            const bool assigns = rest[counts_empty ? 0 : 1] == '=';
            if (found != nullptr && (counts_empty || has_text(*found))) return add_variable();
            const std::string_view other = rest.substr(counts_empty ? 1 : 2);
            ShellValue value = default_value(other, written, within);
            word.add(value, is_quoted || is_in_quotes(other, within), false);
            if (assigns && length > 0) {
                if (!decides_.empty()) value.condition = decides_;
                variables_.set(name, std::move(value));
            }
            return;
        }
        if (found != nullptr && rest.empty()) return add_variable();
        const bool is_plain = length > 0 && rest.empty();
        word.add(unknown_value(written, is_plain ? fmt::format("{} has no value in this file", name)
                                                 : "this expansion depends on how the script is run"),
                 true, false);
    }

    static bool has_text(const ShellValue& value) {
        return !value.is_certain() ||
               (!value.items.empty() && !(value.items.size() == 1 && value.items.front().empty()));
    }

    /// Returns the value of the word in `${NAME:-word}`. Quotes around the word are removed. If it has other quotes,
    /// its value is unknown.
    ShellValue default_value(std::string_view text, const std::string& written, Within within) {
        const bool has_quotes = is_in_quotes(text, within);
        const bool is_literal = has_quotes && text.front() == '\'';
        if (has_quotes) text = text.substr(1, text.size() - 2);
        std::string_view other_quotes = "\"'";
        if (is_literal)
            other_quotes = "'";
        else if (has_quotes || within == Within::quotes)
            other_quotes = "\"";
        if (text.find_first_of(other_quotes) != std::string_view::npos)
            return unknown_value(written, "a part of its word is in quotes");
        if (!is_literal) return text_value(text);
        ShellValue value;
        value.items = {std::string(text)};
        return value;
    }

    std::string_view text_;
    const std::string& name_;
    ShellVariables& variables_;
    int depth_;
    std::size_t at_ = 0, line_start_ = 0, here_end_ = 0;
    std::uint32_t line_ = 1;
    bool is_after_test_ = false, was_after_test_ = false, is_assigned_ = false;
    std::string decides_;  // what decides whether the current command runs
    std::vector<Block> blocks_;
    ShellScript script_;
};

}  // namespace

WrittenFiles files_before(const ShellScript& script, const ShellCommand& command) {
    const auto index = static_cast<std::size_t>(&command - script.commands.data());
    WrittenFiles files;
    for (const ShellWrite& write : script.writes) {
        if (write.first_after > index) break;
        const auto [found, is_new] = files.try_emplace(normal_path(write.path));
        WrittenFile& file = found->second;
        if (!write.appends) file = {};
        if (file.text.empty()) file.text = std::string(write.text_line - 1, '\n');
        file.text += write.text;
        file.place = write.place;
        if (is_new && write.appends)
            file.unknown = "the script adds to a file that it did not begin";
        else if (!write.unknown.empty())
            file.unknown = write.unknown;
    }
    return files;
}

ShellScript read_shell_script(std::string_view text, const std::string& name) {
    ShellVariables variables;
    return ShellReader(text, name, variables).read();
}

}  // namespace macheps::files
