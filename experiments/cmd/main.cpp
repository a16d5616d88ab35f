// SPDX-License-Identifier: Apache-2.0
// The `macheps` program: parse, run one verb, turn an Error into one line and an exit code.
#include "core/nearest_name.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/option_names.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr const char* help = R"(Examples:
  macheps train                        the demo: eight policies, one small transformer, a report
  macheps show 0.1                     one number in every format
  macheps formats                      the table of formats
  macheps policy explain amp-bf16      what a policy rounds, and where
  macheps policy diff tf32 amp-bf16    what two policies do differently
  macheps gemm --sweep k=16..65536     the error of a matrix product on GPU matrix units
  macheps machine show sm90.wgmma.fp8  what a matrix unit computes, and how that is known
  macheps reveal                       the order in which a matrix product adds its terms
  macheps verify --quick               the emulators against the GPU here, bit for bit
  macheps report runs/001              tables and one HTML page from a run directory

macheps answers one question: what does a number become, on this hardware, under this policy?
Data goes to stdout, progress to stderr. --json prints one JSON document: numbers in the shortest decimals that
read back the same, NaN and infinities as strings.
Exit codes: 0 ok, 1 a check failed, 2 usage, 3 bad input, 4 no such device, 5 cannot write, 75 stopped and
resumable.
)";

/// Lists a verb by the first line of its description: the examples below it are for its own --help.
class FirstLines : public CLI::Formatter {
  public:
    std::string make_subcommand(const CLI::App* verb) const override {
        const std::string text = verb->get_description();
        std::stringstream out;
        CLI::detail::format_help(out, verb->get_name(), text.substr(0, text.find('\n')), column_width_);
        return out.str();
    }
};

/// The innermost verb that was recognised.
const CLI::App* innermost(const CLI::App& app) {
    const CLI::App* verb = &app;
    while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().back();
    return verb;
}

/// `macheps policy explain`
std::string called(const CLI::App* verb) {
    return verb->get_parent() == nullptr ? verb->get_name() : called(verb->get_parent()) + " " + verb->get_name();
}

/// `policy explain: `, nothing for the program itself.
std::string where(const CLI::App* verb) {
    return verb->get_parent() == nullptr ? "" : where(verb->get_parent()) + verb->get_name() + ": ";
}

/// What was wrong with the command line, in one line: what, where, and the nearest name.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
    using macheps::nearest_name;
    const CLI::App* verb = innermost(app);
    std::vector<std::string> names;
    for (const CLI::App* below : verb->get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(below->get_name());
    const bool has_verbs = !names.empty();
    const auto suggestion = [&](const std::string& word) {
        const std::string near = nearest_name(word, names);
        return (near.empty() ? "" : fmt::format("did you mean '{}'? ", near)) +
               fmt::format("{} --help lists them", called(verb));
    };
    for (const std::string& word : verb->remaining()) {
        if (word.starts_with("-") && word.size() > 1) {
            names.clear();
            for (const CLI::Option* option : verb->get_options()) {
                for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
            }
            const std::string name = word.substr(0, word.find('='));
            return fmt::format("{}unknown option '{}' ({})", where(verb), name, suggestion(name));
        }
        if (has_verbs) return fmt::format("{}unknown verb '{}' ({})", where(verb), word, suggestion(word));
        return fmt::format("{}one argument too many: '{}' ({} --help shows the arguments)", where(verb), word,
                           called(verb));
    }
    std::string what = error.what();
    if (what == "A subcommand is required") {
        what = fmt::format("a subcommand is required: one of {}", fmt::join(names, ", "));
    }
    while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
    return fmt::format("{}{} ({} --help says how)", where(verb), what, called(verb));
}

/// Runs the verb that was chosen; an Error becomes one line, in the words of its options, and an exit code.
int run(const CLI::App& app, const macheps::Verb& verb) {
    using namespace macheps;
    try {
        const Exit code = verb();
        if (std::fflush(stdout) != 0) {
            fmt::print(stderr, "macheps: standard output: cannot write (check the free space)\n");
            return static_cast<int>(Exit::cannot_write);
        }
        return static_cast<int>(code);
    } catch (const Error& error) {
        fmt::print(stderr, "macheps: {}\n", in_options(*innermost(app), error));
        return static_cast<int>(error.exit());
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "macheps: out of memory (choose a smaller model or batch)\n");
        return static_cast<int>(Exit::bad_input);
    } catch (const std::exception& error) {
        fmt::print(stderr, "macheps: {} (this is a defect: please report it)\n", error.what());
        return static_cast<int>(Exit::check_failed);
    }
}

}  // namespace

int main(int argc, char** argv) {
    using namespace macheps;
    CLI::App app{help, "macheps"};
    app.formatter(std::make_shared<FirstLines>());
    app.set_version_flag("--version", fmt::format("macheps {} ({})", version(), git_revision()));
    app.require_subcommand(1);
    Verb chosen;
    chosen.command_line = {argv, argv + argc};
    for (AddVerb* add : verbs) add(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "macheps: {}\n", usage_error(app, error));
        return static_cast<int>(Exit::usage);
    }
    return run(app, chosen);
}
