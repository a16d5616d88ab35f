// SPDX-License-Identifier: Apache-2.0
// The only file that includes CLI11, which takes seconds to compile.
#include "experiments/cmd/frame/cli.hpp"

#include "core/rounding.hpp"
#include "core/text/nearest_name.hpp"
#include "experiments/cmd/frame/verb_tree.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace macheps::cmd {

struct Reading {
    std::vector<std::string> words;  ///< the command line, with the program's name first
    bool describes_all = false;      ///< whether all verbs are described, for shell completion and the man page
    const Command* chosen = nullptr;
    std::optional<VerbEntry> help{};                     ///< the verb whose help is asked for
    std::string version{};                               ///< the text to print if --version is given
    std::map<const CLI::Option*, std::string> hidden{};  ///< options that --help does not list, and their groups
    std::unique_ptr<CLI::App> app{};
    std::unique_ptr<Command> program{};

    void describe(const VerbRow& row) {
        app = std::make_unique<CLI::App>(row.help, row.name);
        program.reset(new Command(*app, row, *this, 1));
    }
    VerbEntry entry_of(const Command& command, std::vector<std::string> path) const;
    OptionEntry entry_of(const CLI::Option& option) const;

    /// Returns the last verb that the command line names (or the program itself), and the names that lead to it.
    std::pair<const Command*, std::vector<std::string>> innermost() const {
        const Command* command = program.get();
        std::vector<std::string> path;
        while (!command->app_->get_subcommands().empty()) {
            command = command->described_.front().get();
            path.push_back(command->app_->get_name());
        }
        return {command, std::move(path)};
    }
};

namespace {

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> names_of(std::span<const VerbRow* const> rows) {
    std::vector<std::string> names;
    for (const VerbRow* row : rows) names.emplace_back(row->name);
    return names;
}

/// Returns the verbs below the verbs of the program that have this name, such as 'policy advise' for `advise`.
std::vector<std::string> verbs_below(const VerbRow& program, const std::string& name) {
    const VerbEntry root = verb_tree(program);
    std::vector<std::string> found;
    for (const VerbEntry* verb : all_verbs(root)) {
        if (verb->path.size() > 1 && verb->path.back() == lowered(name)) found.push_back("'" + verb->name() + "'");
    }
    return found;
}

/// Returns the error for words that `app` could not parse. `path` leads from the program to `app`: `policy`, `explain`.
Error usage_error(const VerbRow& program, const CLI::App& app, std::span<const std::string> path,
                  std::vector<std::string> verbs, const CLI::ParseError& error) {
    const std::string called = fmt::format("macheps{}{}", path.empty() ? "" : " ", fmt::join(path, " "));
    const auto failure = [&](std::string what, std::string fix) {
        return Error({.what = std::move(what),
                      .where = fmt::format("{}", fmt::join(path, ": ")),
                      .fix = std::move(fix),
                      .exit = Exit::usage});
    };
    const auto suggestion = [&](const std::string& word, const std::vector<std::string>& names) {
        const std::string near = nearest_name(word, names);
        return (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) +
               fmt::format("{} --help lists them", called);
    };
    const std::vector<std::string> remaining = app.remaining();
    if (!remaining.empty()) {
        const std::string& word = remaining.front();
        if (word.starts_with("-") && word.size() > 1) {
            std::vector<std::string> names;
            for (const CLI::Option* option : app.get_options()) {
                for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
            }
            const std::string name = word.substr(0, word.find('='));
            return failure(fmt::format("unknown option '{}'", name), suggestion(name, names));
        }
        const std::vector<std::string> below = path.empty() ? verbs_below(program, word) : std::vector<std::string>();
        if (!below.empty())
            return failure(fmt::format("unknown verb '{}'", word),
                           fmt::format("did you mean {}?", fmt::join(below, " or ")));
        if (!verbs.empty()) return failure(fmt::format("unknown verb '{}'", word), suggestion(word, verbs));
        return failure(fmt::format("there is one argument too many: '{}'", word),
                       fmt::format("{} --help shows the arguments", called));
    }
    std::string what = error.what();
    if (what == "A subcommand is required") {
        what = fmt::format("a subcommand is required: one of {}", fmt::join(verbs, ", "));
    }
    while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
    return failure(what, fmt::format("see {} --help", called));
}

/// Converts `text` to plain decimal digits, because CLI11 would keep only the low bits of a number that is too large.
/// Errors: throws Error (usage) unless the text is a whole number within the limits.
void read_integer(const std::string& option, std::string& text, const Limits& limits) {
    const bool is_negative = text.starts_with('-');
    std::string_view digits = std::string_view(text).substr(is_negative || text.starts_with('+') ? 1 : 0);
    const bool is_hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
    if (is_hexadecimal) digits.remove_prefix(2);
    std::uint64_t magnitude = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, is_hexadecimal ? 16 : 10);
    const bool is_number = error != std::errc::invalid_argument && end == digits.data() + digits.size();
    const bool fits = is_number && error == std::errc{} &&
                      (is_negative ? magnitude <= std::uint64_t{1} << 63 : magnitude <= std::uint64_t{INT64_MAX});
    const auto value = static_cast<std::int64_t>(is_negative ? std::uint64_t{0} - magnitude : magnitude);
    if (!fits || value < limits.least || value > limits.greatest) {
        throw Error({.what = fmt::format("'{}' is {}", text, is_number ? "out of range" : "not a whole number"),
                     .where = option,
                     .fix = fmt::format("give {} to {}", limits.least, limits.greatest),
                     .exit = Exit::usage});
    }
    text = std::to_string(value);
}

/// Appends the number in `word`, or each number of a range such as 0-4.
void append_range(const std::string& option, std::string word, const Limits& limits, std::vector<std::int64_t>& list) {
    constexpr std::int64_t most = 100000;
    const auto number = [&](std::string text) {
        read_integer(option, text, limits);
        return std::stoll(text);
    };
    const std::size_t dash = word.find('-', 1);
    if (dash == std::string::npos) {
        list.push_back(number(std::move(word)));
        return;
    }
    const std::int64_t first = number(word.substr(0, dash)), last = number(word.substr(dash + 1));
    if (last < first || last - first >= most) {
        throw Error({.what = fmt::format("'{}' is not a valid range", word),
                     .where = option,
                     .fix = last < first ? fmt::format("write the smaller number first: {}-{}", last, first)
                                         : fmt::format("use a range of at most {} numbers", most),
                     .exit = Exit::usage});
    }
    for (std::int64_t each = first; each <= last; ++each) list.push_back(each);
}

/// Makes the option read its values as whole numbers within the limits. If `index` is not negative, this applies only
/// to the value with that index.
void limit(CLI::Option& option, const Limits& limits, int index = -1) {
    const std::string name = option.get_name();
    const auto read = [name, limits](std::string& text) { return read_integer(name, text, limits), std::string(); };
    option.transform(CLI::Validator(read, "", "").application_index(index));
}

// --- the parser as plain data

/// Returns the words in the braces of an option's type name, such as a, b and c for `TEXT:{a,b,c}`. CLI::IsMember and
/// our own type names use this form.
std::vector<std::string> choices_in(const std::string& type) {
    const std::size_t open = type.find('{'), close = type.find('}', open);
    if (open == std::string::npos || close == std::string::npos) return {};
    std::vector<std::string> choices(1);
    for (std::size_t i = open + 1; i < close; ++i) {
        if (type[i] == ',') {
            choices.emplace_back();
        } else {
            choices.back() += type[i];
        }
    }
    return choices;
}

std::vector<std::string> names_of(const std::set<CLI::Option*>& options) {
    std::vector<std::string> names;
    for (const CLI::Option* option : options) names.push_back(option->get_name());
    std::sort(names.begin(), names.end());  // the set is ordered by addresses, which vary from run to run
    return names;
}

}  // namespace

OptionEntry Reading::entry_of(const CLI::Option& option) const {
    OptionEntry entry;
    for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
    if (!option.get_lnames().empty()) entry.names.push_back("--" + option.get_lnames().front());
    entry.is_positional = entry.names.empty();
    if (entry.is_positional) entry.names.push_back(option.get_name(true));
    const bool is_flag = !entry.is_positional && option.get_items_expected_max() == 0;
    const std::string type = option.get_type_name();
    if (!is_flag) {
        entry.kind = type.substr(0, type.find(':'));
        if (entry.kind.empty() || entry.kind.front() == '{') entry.kind = "TEXT";
        entry.choices = choices_in(type);
    }
    entry.description = option.get_description();
    entry.default_text = is_flag ? "" : option.get_default_str();
    entry.is_required = option.get_required();
    entry.takes_many = entry.is_positional && option.get_items_expected_max() > 1;
    entry.has_list = option.get_delimiter() != '\0';
    const auto group = hidden.find(&option);
    entry.is_hidden = group != hidden.end();
    entry.group = entry.is_hidden ? group->second : option.get_group();
    entry.needs = names_of(option.get_needs());
    entry.excludes = names_of(option.get_excludes());
    return entry;
}

VerbEntry Reading::entry_of(const Command& command, std::vector<std::string> path) const {
    const auto below = [&](std::string name) {
        std::vector<std::string> longer = path;
        longer.push_back(std::move(name));
        return longer;
    };
    VerbEntry entry{.path = path, .notes = command.notes_, .topics = command.topics_};
    entry.needs_verb = command.app_->get_require_subcommand_min() > 0;
    const std::string text = command.app_->get_description();
    entry.summary = first_line(text);
    entry.description = text.substr(std::min(text.find_first_not_of('\n', entry.summary.size()), text.size()));
    for (const CLI::Option* option : command.app_->get_options()) entry.options.push_back(entry_of(*option));
    if (describes_all) {
        for (const auto& verb : command.described_)
            entry.verbs.push_back(entry_of(*verb, below(verb->app_->get_name())));
    } else {
        for (const VerbRow* row : command.listed_)
            entry.verbs.push_back({.path = below(row->name), .summary = std::string(first_line(row->help))});
    }
    return entry;
}

VerbEntry verb_tree(const VerbRow& program) {
    Reading reading{.words = {}, .describes_all = true};
    reading.describe(program);
    return reading.entry_of(*reading.program, {});
}

// --- Option

Option Option::takes(const char* kind) {
    option_->type_name(kind);
    return *this;
}

Option Option::one_of(std::vector<std::string> words) {
    option_->transform(CLI::IsMember(std::move(words), CLI::ignore_case));
    return *this;
}

Option Option::in_lower_case() {
    option_->transform(CLI::Validator([](std::string& text) { return text = lowered(text), std::string(); }, "", ""));
    return *this;
}

Option Option::range(double least, double greatest) {
    option_->check(CLI::Range(least, greatest).description(""));
    return *this;
}

Option Option::list() {
    option_->delimiter(',')->allow_extra_args(false);
    return *this;
}

Option Option::repeats() {
    option_->allow_extra_args(false);
    return *this;
}

Option Option::required() {
    option_->required();
    return *this;
}

Option Option::shows_default() {
    option_->capture_default_str();
    return *this;
}

Option Option::default_text(std::string text) {
    option_->default_str(std::move(text));
    return *this;
}

Option Option::needs(Option other) {
    option_->needs(other.option_);
    return *this;
}

Option Option::excludes(Option other) {
    option_->excludes(other.option_);
    return *this;
}

// --- Command

Command::Command(CLI::App& app, const VerbRow& row, Reading& reading, std::size_t next_word)
    : app_(&app), reading_(&reading), next_word_(next_word), notes_(row.notes) {
    row.describe(*this);
}

Command::~Command() = default;

template <class Value>
Option Command::option(std::string names, Value& value, std::string help) {
    return Option(*grouped(app_->add_option(std::move(names), value, std::move(help))));
}

template <class Value>
Option Command::integer(std::string names, Value& value, Limits limits, std::string help) {
    CLI::Option& option = *grouped(app_->add_option(std::move(names), value, std::move(help)));
    limit(option, limits);
    return Option(option);
}

/// A list also accepts ranges: 0-4 is 0,1,2,3,4.
template <>
Option Command::integer(std::string names, std::vector<std::int64_t>& value, Limits limits, std::string help) {
    using Words = std::vector<std::string>;
    const auto name = std::make_shared<std::string>();
    CLI::Option& option = *app_->add_option_function<Words>(
        std::move(names),
        [&value, limits, name](const Words& words) {
            value.clear();
            for (const std::string& word : words) append_range(*name, word, limits, value);
        },
        std::move(help));
    grouped(&option);
    *name = option.get_name();
    option.type_name("INT");
    return Option(option);
}

/// CLI11 cannot store into a std::optional of a pair, so a function sets it.
template <>
Option Command::integer(std::string names, std::optional<std::pair<std::int64_t, std::string>>& value, Limits limits,
                        std::string help) {
    using Pair = std::pair<std::int64_t, std::string>;
    CLI::Option& option = *app_->add_option_function<Pair>(
        std::move(names), [&value](const Pair& given) { value = given; }, std::move(help));
    grouped(&option);
    limit(option, limits, 0);
    return Option(option);
}

Option Command::flag(std::string names, bool& value, std::string help) {
    return Option(*grouped(app_->add_flag(std::move(names), value, std::move(help))));
}

void Command::version_flag(std::string text) { app_->set_version_flag("--version", std::move(text)); }

CLI::Option* Command::grouped(CLI::Option* option) const {
    if (is_hidden_) reading_->hidden[option] = group_;
    return option->group(group_);
}

void Command::group(std::string heading) {
    group_ = std::move(heading);
    is_hidden_ = false;
    app_->get_help_ptr()->group(group_);  // each new group takes --help, so --help is in the last group
}

void Command::hidden_group(std::string heading) {
    group_ = std::move(heading);
    is_hidden_ = true;
}

std::string Command::help_topic(const std::string& option, std::vector<std::string> topics) {
    topics_ = std::move(topics);
    const std::vector<std::string>& words = reading_->words;
    const auto first = words.begin() + std::ptrdiff_t(std::min(next_word_, words.size()));
    const auto help = std::find_if(first, words.end(), [](const auto& w) { return w == "--help" || w == "-h"; });
    if (help == words.end()) return {};
    const auto is_topic = [&](const std::string& word) {
        return std::find(topics_.begin(), topics_.end(), word) != topics_.end();
    };
    if (help + 1 != words.end() && !help[1].starts_with('-')) {
        if (is_topic(help[1])) return help[1];
        const std::string near = nearest_name(help[1], topics_);
        throw Error({.what = fmt::format("there is no help on '{}'", help[1]),
                     .where = fmt::format("{}: --help", app_->get_name()),
                     .fix = near.empty() ? fmt::format("use one of {}", fmt::join(topics_, ", "))
                                         : fmt::format("did you mean '{}'?", near),
                     .exit = Exit::usage});
    }
    for (auto word = first; word != words.end(); ++word) {
        if (*word == option && word + 1 != words.end() && is_topic(word[1])) return word[1];
        if (word->starts_with(option + "=") && is_topic(word->substr(option.size() + 1)))
            return word->substr(option.size() + 1);
    }
    return {};
}

void Command::texts(const std::string& help, std::string notes) {
    app_->description(help);
    notes_ = std::move(notes);
    listed_ = {};
}

void Command::describe_verb(const VerbRow& row, std::size_t next_word) {
    CLI::App* app = app_->add_subcommand(row.name, row.help);
    described_.emplace_back(new Command(*app, row, *reading_, next_word));
}

void Command::verbs(std::span<const VerbRow* const> rows) {
    rows_ = listed_ = rows;
    app_->require_subcommand(1);
    if (reading_->describes_all) {
        for (const VerbRow* row : rows) describe_verb(*row, next_word_);
        return;
    }
    // The parser takes the first word that is the name of a verb as the verb, whatever words precede it. It refuses a
    // second verb.
    for (std::size_t i = next_word_; i < reading_->words.size(); ++i) {
        const auto named =
            std::find_if(rows.begin(), rows.end(), [&](const VerbRow* row) { return reading_->words[i] == row->name; });
        if (named != rows.end()) return describe_verb(**named, i + 1);
    }
}

bool Command::goes_on_with(std::span<const VerbRow* const> rows) {
    listed_ = rows;
    if (reading_->describes_all) {
        for (const VerbRow* row : rows) describe_verb(*row, next_word_);
        return false;
    }
    for (const VerbRow* row : rows) {
        if (next_word_ >= reading_->words.size() || reading_->words[next_word_] != row->name) continue;
        rows_ = rows;
        app_->require_subcommand(1);
        describe_verb(*row, next_word_ + 1);
        return true;
    }
    return false;
}

void Command::runs(std::function<Exit()> action) {
    action_ = std::move(action);
    app_->callback([this] { reading_->chosen = this; });
}

void Command::allow_rest() { app_->allow_extras(); }

std::vector<std::string> Command::rest() const { return app_->remaining(); }

std::vector<std::string> Command::given() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app_->get_options()) {
        if (option->count() > 0) names.push_back(option->get_name());
    }
    return names;
}

bool Command::has_option(const std::string& name) const { return app_->get_option_no_throw(name) != nullptr; }

const std::vector<std::string>& Command::command_line() const { return reading_->words; }

// --- CommandLine

CommandLine::CommandLine(const VerbRow& program, std::vector<std::string> words)
    : reading_(new Reading{.words = std::move(words)}) {
    reading_->describe(program);
    CLI::App& app = *reading_->app;
    try {
        // CLI11 expects the words in reverse order.
        app.parse(std::vector<std::string>(reading_->words.rbegin(), reading_->words.rend() - 1));
    } catch (const CLI::CallForHelp&) {
        reading_->chosen = nullptr;
        const auto [command, path] = reading_->innermost();
        reading_->help = reading_->entry_of(*command, path);
    } catch (const CLI::CallForVersion& version) {
        reading_->chosen = nullptr;
        reading_->version = version.what();
    } catch (const CLI::ParseError& error) {
        const auto [command, path] = reading_->innermost();
        throw usage_error(program, *command->app_, path, names_of(command->rows_), error);
    }
}

CommandLine::~CommandLine() = default;

const Command* CommandLine::verb() const { return reading_->chosen; }

const VerbEntry* CommandLine::help() const { return reading_->help ? &*reading_->help : nullptr; }

const std::string& CommandLine::version() const { return reading_->version; }

Exit CommandLine::run() const { return reading_->chosen->action_(); }

// --- types that options are read into

template Option Command::option(std::string, double&, std::string);
template Option Command::option(std::string, std::string&, std::string);
template Option Command::option(std::string, std::filesystem::path&, std::string);
template Option Command::option(std::string, std::optional<double>&, std::string);
template Option Command::option(std::string, std::vector<std::string>&, std::string);
template Option Command::option(std::string, std::vector<std::filesystem::path>&, std::string);
template Option Command::integer(std::string, int&, Limits, std::string);
template Option Command::integer(std::string, std::int64_t&, Limits, std::string);
template Option Command::integer(std::string, std::uint32_t&, Limits, std::string);
template Option Command::integer(std::string, std::uint64_t&, Limits, std::string);
template Option Command::integer(std::string, std::optional<std::int64_t>&, Limits, std::string);

}  // namespace macheps::cmd
