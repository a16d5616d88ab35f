// SPDX-License-Identifier: Apache-2.0
// `macheps man`: prints the manual page, which is made from the help. The build runs this verb to install its output.
#include "core/host/version.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/frame/verb_tree.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace macheps::cmd::man {

namespace {

constexpr const char* help = R"(Prints the manual page, in roff.

Examples:
  macheps man | man -l -          read it now
  macheps man > macheps.1         for a folder of manual pages)";

/// Escapes a text so that roff prints it unchanged: hyphens stay hyphens when they are copied, and no line is taken for
/// a request.
std::string roff(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if ((c == '.' || c == '\'') && (i == 0 || text[i - 1] == '\n')) out += "\\&";
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return out;
}

bool is_example(std::string_view line) { return line.starts_with("  "); }

/// Converts paragraphs of --help to roff. Lines that begin with two spaces keep their layout.
std::string roff_paragraphs(std::string_view text) {
    std::string out = ".PP\n";
    bool keeps = false;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (is_example(line) != keeps && !line.empty()) {
            out += keeps ? ".fi\n.RE\n.PP\n" : ".RS 2\n.nf\n";
            keeps = !keeps;
        }
        if (line.empty()) {
            if (!keeps && !text.empty() && !is_example(text)) out += ".PP\n";
        } else {
            out += roff(keeps ? line.substr(2) : line) + "\n";
        }
    }
    return out + (keeps ? ".fi\n.RE\n" : "");
}

std::string synopsis(const VerbEntry& verb) {
    std::string text = ".B macheps";
    if (!verb.path.empty()) text += fmt::format(" {}", roff(verb.name()));
    text += "\n";
    if (verb.needs_verb) return text + ".I VERB\n.RI [ options ]\n";
    text += ".RI [ options ]\n";
    for (const OptionEntry& option : verb.options) {
        if (!option.is_positional) continue;
        const std::string name = roff(option.names.front()), dots = option.takes_many ? " ..." : "";
        text += option.is_required ? ".IR " + name + (dots.empty() ? "\n" : " \" ...\"\n")
                                   : ".RI [ " + name + " \"" + dots + "]\"\n";
    }
    return text;
}

std::string option_text(const OptionEntry& option) {
    std::string heading;
    for (const std::string& name : option.names) {
        if (!heading.empty()) heading += ", ";
        heading += (option.is_positional ? "\\fI" : "\\fB") + roff(name) + "\\fR";
    }
    if (!option.is_positional && !option.is_flag()) heading += " \\fI" + roff(option.kind) + "\\fR";
    return ".TP\n" + heading + "\n" + roff(option.text()) + "\n";
}

using Row = std::pair<std::string_view, std::string_view>;

std::string definitions(std::span<const Row> rows) {
    std::string text;
    for (const auto& [name, meaning] : rows) text += ".TP\n\\fB" + roff(name) + "\\fR\n" + roff(meaning) + "\n";
    return text;
}

constexpr Row exit_codes[] = {
    {"0", "Success; for policy diff: the two policies are the same."},
    {"1", "A check failed; for policy diff: the two policies differ."},
    {"2", "The command line is wrong."},
    {"3", "An input file is missing or damaged, or a policy is unknown."},
    {"4", "The device does not exist."},
    {"5", "The results could not be written."},
    {"75", "Stopped by Ctrl-C or SIGTERM after everything was saved. The work can be resumed."}};
constexpr Row environment[] = {
    {"MACHEPS_SIMD", "The vector instructions to use: scalar, avx2 or avx512. The results do not depend on it."},
    {"MACHEPS_SIMD_EXTENSIONS",
     "If set to none, AVX-512 is used without AVX512-BF16 and AVX512-FP16. The results do not depend on it."},
    {"NO_COLOR", "If set to any value, no colours are printed. Colours are printed only on terminals."},
    {"MACHEPS_BROWSER", "The Chromium or Chrome with which report draws pictures. Default: the first one on PATH."}};
constexpr Row files[] = {
    {"runs/001, runs/002, ...", "Run directories. train writes to them by default."},
    {"manifest.json", "In a run directory: the command, policies, seeds, versions and device."},
    {"runs.csv, steps.csv, evals.csv, sites.csv, exponents.csv",
     "The rows of a run directory: one for each run, each optimiser step, each held-out evaluation, each site at a "
     "sampled step, and each bin of its exponents."},
    {"summary.csv, report.html", "Written by train and report. The page needs no network."}};

std::string page(const VerbEntry& root) {
    std::string text = fmt::format(
        ".\\\" Made by `macheps man`.\n.TH MACHEPS 1 \"\" \"macheps {}\" \"User Commands\"\n"
        ".SH NAME\nmacheps \\- what does a number become, on this hardware, under this policy?\n.SH SYNOPSIS\n",
        macheps::version());
    const auto verbs = all_verbs(root);
    for (const VerbEntry* verb : verbs) {
        if (verb->needs_verb) continue;
        text += synopsis(*verb) + ".br\n";
    }
    text +=
        ".SH DESCRIPTION\n.B macheps\nemulates low\\-precision number formats bit for bit and trains small "
        "transformers under precision policies, next to an fp32 baseline, to show what rounding does.\n.PP\nStandard "
        "output is data; progress goes to standard error. With\n.B \\-\\-json\na verb prints one JSON document: "
        "floating numbers in the shortest decimals that read back as the same value, NaN and infinities as strings.\n"
        ".SH OPTIONS\n";
    for (const OptionEntry& option : root.options) text += option_text(option);
    text += ".SH VERBS\n";
    for (const VerbEntry* verb : verbs) {
        if (verb->path.empty()) continue;
        text += ".SS macheps " + roff(verb->name()) + "\n" + roff(verb->summary) + "\n";
        if (!verb->description.empty()) text += roff_paragraphs(verb->description);
        std::string group;
        for (const OptionEntry& option : verb->options) {
            if (option.is_help()) continue;  // it is described once, under OPTIONS
            if (!option.is_positional && option.group != std::exchange(group, option.group) &&
                option.group != "Options")
                text += ".PP\n.I " + roff(option.group) + ":\n";
            text += option_text(option);
        }
        if (!verb->notes.empty()) text += roff_paragraphs(verb->notes);
    }
    text += ".SH EXIT STATUS\n" + definitions(exit_codes) + ".SH ENVIRONMENT\n" + definitions(environment) +
            ".SH FILES\n" + definitions(files);
    const std::string& examples = root.description;  // its first line is "Examples:" and is dropped below
    text += ".SH EXAMPLES\n" + roff_paragraphs(examples.substr(examples.find('\n') + 1));
    return text;
}

void describe(Command& verb) {
    verb.runs([] {
        const std::string text = page(verb_tree(program));
        print_text(text);
        return Exit::ok;
    });
}

}  // namespace

const VerbRow verb{"man", help, describe};

}  // namespace macheps::cmd::man
