// SPDX-License-Identifier: Apache-2.0
// The `macheps` program: parse, run one verb, turn an Error into one line and an exit code.
#include "core/nearest_name.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

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

}  // namespace

int main(int argc, char** argv) {
    using namespace macheps;
    CLI::App app{
        "Examples:\n"
        "  macheps train                        the demo: eight policies, one small transformer, a report\n"
        "  macheps show 0.1                     one number in every format\n"
        "  macheps formats                      the table of formats\n"
        "  macheps policy explain amp-bf16      what a policy rounds, and where\n"
        "  macheps report runs/001              tables and one HTML page from a run directory\n\n"
        "macheps answers one question: what does a number become, on this hardware, under this policy?\n",
        "macheps"};
    app.formatter(std::make_shared<FirstLines>());
    app.set_version_flag("--version", fmt::format("macheps {} ({})", version(), git_revision()));
    app.require_subcommand(1);
    Verb chosen;
    add_train(app, chosen, {argv, argv + argc});
    add_show(app, chosen);
    add_formats(app, chosen);
    add_policy(app, chosen);
    add_report(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::Success& success) {  // --help, --version
        return app.exit(success);
    } catch (const CLI::ParseError& error) {
        std::vector<std::string_view> verbs;
        for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
        if (argc > 1 && argv[1][0] != '-' && std::find(verbs.begin(), verbs.end(), argv[1]) == verbs.end()) {
            fmt::print(stderr, "macheps: unknown verb '{}' (did you mean '{}'? macheps --help lists them)\n", argv[1],
                       nearest_name(argv[1], verbs));
            return static_cast<int>(Exit::usage);
        }
        app.exit(error);
        return static_cast<int>(Exit::usage);
    }
    try {
        const Exit code = chosen();
        if (std::fflush(stdout) != 0) {
            fmt::print(stderr, "macheps: standard output: cannot write (check the free space)\n");
            return static_cast<int>(Exit::cannot_write);
        }
        return static_cast<int>(code);
    } catch (const Error& error) {
        fmt::print(stderr, "macheps: {}\n", error.what());
        return static_cast<int>(error.exit());
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "macheps: out of memory (choose a smaller model or batch)\n");
        return static_cast<int>(Exit::bad_input);
    } catch (const std::exception& error) {
        fmt::print(stderr, "macheps: {} (this is a defect: please report it)\n", error.what());
        return static_cast<int>(Exit::check_failed);
    }
}
