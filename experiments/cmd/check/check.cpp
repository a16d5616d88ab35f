// SPDX-License-Identifier: Apache-2.0
// `macheps check`: compares the errors of a kernel's outputs with the errors that its formats, its K and its order of
// summation allow.
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/check/verdicts/baseline.hpp"
#include "experiments/check/verdicts/run.hpp"
#include "experiments/cmd/check/given_inputs.hpp"
#include "experiments/cmd/check/inputs.hpp"
#include "experiments/cmd/check/keys.hpp"
#include "experiments/cmd/check/reports.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace macheps::cmd::checks {

using namespace files;

namespace {

constexpr const char* help =
    R"(Checks whether a kernel's output is as accurate as its formats, its K and its order of summation allow.

Examples:
  macheps check out.npz --op gemm               arrays a [m,k], b [k,n] and out [m,n] in one file
  macheps check inputs/                         all files of make-inputs, which say how the kernel computes
  macheps check x.npy y.npy out=y --op softmax  one array per file; y is the output
  macheps check out.npz --op gemm --a bf16 --b bf16 --out bf16
                                                codes that the file stores as |V2 or <u2
  macheps check suite.toml --junit junit.xml    all checks of a suite, for CI (docs/check.md)
  macheps check --help gemm                     what a kernel of this operation can declare)";

constexpr const char* notes = R"(More examples:
  macheps check out.npz --op gemm --a bf16 --b bf16 --out bf16 --machine sm80.mma.bf16
                                                with the errors of these tensor cores
  macheps check norm.safetensors gain=w --op rmsnorm --eps 1e-5 --allow-weak
  macheps check out.npz --op gemm --sample 16   one output in 16 of a large product, and a screen of all
  macheps check out.npz --op gemm --bounds limits.npz --json
                                                limits of each output, for your own assertions
  macheps check suite.toml --sarif check.sarif --baseline check.lock --update-baseline
                                                accepts the present state; later runs compare with it

Files:
  .npz (also compressed), .npy (the array has the file's name), .safetensors and .pt files, and files of bare numbers,
  declared as a.bin:bf16[192,1000]. /packed or /columns may follow the format, and @BYTES the sizes.
  Arrays are found by name: a, b and out of a gemm, x and out of most other operations. ROLE=NAME uses another array.
  If the file does not state a format, declare it: --a bf16 for codes that are stored as |V2 or <u2. A format such as
  e2m1fn/packed has two codes per byte, the lower half first.
  A file of make-inputs contains its recipe: the operation and everything that was declared. --op and declarations are
  then not needed. They may add to the recipe, but not contradict it. Each file of a folder is an input, and all inputs
  with the same declaration are one check, so it is enough if one of them catches a wrong kernel.

Verdicts:
  pass      no test fails, and the wrong kernels that --require selects would have been caught
  fail      an output that no legal kernel gives, or errors that are too large together
  weak      no test fails, but a wrong kernel would also have passed
  refused   a meaningless output, such as zeros, satisfies one of your limits
  declined  nothing certain can be said, or the declaration cannot be checked yet

Exit codes: 0 pass; 1 fail, weak; 2 usage, refused, declined; 3 a bad input file. A suite exits with 1 if any check
does; otherwise with 3 if any does; otherwise with 2 if any does.
If GITHUB_ACTIONS is true, annotations are also printed, and a table is added to GITHUB_STEP_SUMMARY.)";

struct Arguments {
    std::vector<std::string> words;
    std::string op, bounds, junit, sarif, baseline;
    GivenKeys declared{check::declare_keys().size()}, options{check::option_keys().size()};
    bool json = false, github = false, update_baseline = false;
};

/// Returns the operation of an input: that of the command line, or that of the recipe in its file.
const check::Operation& operation_of(const Arguments& a, const GivenInput& input) {
    if (a.op.empty() && !input.recipe)
        throw usage_error("the operation is missing", "--op",
                          fmt::format("pass the operation of the kernel: {} has no recipe of make-inputs",
                                      input.inputs.files.front()));
    if (a.op.empty()) return *input.recipe->declaration.operation;
    const check::Operation& operation = check::find_operation(a.op);
    if (input.recipe && input.recipe->declaration.operation != &operation)
        throw usage_error(fmt::format("the recipe in {} has the operation {}, but the command line has {}",
                                      input.recipe->file, input.recipe->declaration.operation->name, a.op),
                          "--op", "remove --op, or pass files of the other operation");
    return operation;
}

/// Returns the declaration of an input: its recipe, and the keys of the command line, which may not contradict it.
check::Declaration declaration_of(const Arguments& a, const GivenInput& input) {
    const check::Operation& operation = operation_of(a, input);
    check::Declaration d = input.recipe ? input.recipe->declaration : check::Declaration{.operation = &operation};
    for_each_given(check::declare_keys(), a.declared, [&](const check::DeclareKey& key, const std::string& text) {
        check::declare(d, key, text, option_name(key.name));
    });
    if (!input.recipe) return d;
    if (const auto differs = check::contradiction_of(input.recipe->declaration, d))
        throw usage_error(fmt::format("the recipe in {} declares {}, but the command line declares {}",
                                      input.recipe->file, differs->recorded, differs->given),
                          option_name(differs->key),
                          "remove the option, or make inputs for this declaration with make-inputs");
    return d;
}

void read_options(const Arguments& a, check::Options& options) {
    for_each_given(check::option_keys(), a.options, [&](const check::OptionKey& key, const std::string& text) {
        key.set(options, text, option_name(key.name));
    });
}

bool is_suite(const std::string& word) { return std::filesystem::path(word).extension() == ".toml"; }

/// Returns true in a job of GitHub Actions, whose log shows annotations.
bool is_github() {
    const char* actions = std::getenv("GITHUB_ACTIONS");
    return actions != nullptr && std::string_view(actions) == "true";
}

/// Appends the table to the summary page of the job. Other commands of the same step may have written to that page
/// before.
void add_summary(std::span<const check::Checked> checks) {
    const char* page = std::getenv("GITHUB_STEP_SUMMARY");
    if (page == nullptr || *page == '\0') return;
    const std::string before = is_there(page) ? read_file(page) : "";
    publish(page, before + check_summary(checks));
}

/// Writes the reports for CI servers. With --json, annotations go to stderr, because JSON goes to stdout.
void write_reports(const Arguments& a, std::span<const check::Checked> checks) {
    if (!a.junit.empty()) publish(a.junit, check_junit(checks));
    if (!a.sarif.empty()) publish(a.sarif, json_text(check_sarif(checks)));
    if (!a.github && !is_github()) return;
    const std::string lines = check_annotations(checks);
    a.json ? eprint_text(lines) : print_text(lines);
    add_summary(checks);
}

void print_checks(std::span<const check::Checked> checks, bool has_suite) {
    const std::string text = has_suite || checks.size() > 1 ? check_suite_text(checks) : checks.front().text();
    print_text(text);
}

/// Writes the baseline, or compares with it. An input fails if the baseline has it, but the suite no longer does.
/// Without a suite, inputs that are only in the baseline are ignored, because the given files may be only a part of the
/// inputs.
void use_baseline(const Arguments& a, bool has_suite, std::vector<check::Checked>& checks) {
    if (a.baseline.empty()) return;
    const bool has_baseline = is_there(a.baseline);
    if (a.update_baseline) {
        const check::Baseline old = has_baseline ? check::load_baseline(a.baseline) : check::Baseline{};
        publish(a.baseline, check::baseline_text(checks, old));
        return;
    }
    if (!has_baseline) {
        write_reports(a, checks);
        if (!a.json) print_checks(checks, has_suite);
        throw Error(
            {.what = "there is no baseline yet", .where = a.baseline, .fix = "write it with --update-baseline"});
    }
    std::vector<check::Checked> gone = check::compare(checks, check::load_baseline(a.baseline));
    if (has_suite) std::move(gone.begin(), gone.end(), std::back_inserter(checks));
}

/// Throws Error (usage) if the command line has other words than the suite, or declarations.
void check_is_suite_alone(const Arguments& a) {
    const auto suite = std::find_if(a.words.begin(), a.words.end(), is_suite);
    if (std::count_if(a.words.begin(), a.words.end(), is_suite) > 1)
        throw usage_error("several suites are given", *suite, "check one suite with each command");
    std::vector<std::string> given;
    std::copy_if(a.words.begin(), a.words.end(), std::back_inserter(given),
                 [](const std::string& word) { return !is_suite(word); });
    if (!a.op.empty()) given.emplace_back("--op");
    for_each_given(check::declare_keys(), a.declared,
                   [&](const check::DeclareKey& key, const std::string&) { given.push_back(option_name(key.name)); });
    if (given.empty()) return;
    throw usage_error("declarations and files of a suite are written in the suite", *suite,
                      fmt::format("move {} into the suite; only options for limits, time, memory and output can be "
                                  "given here",
                                  fmt::join(given, ", ")));
}

std::vector<check::Checked> judge_suite(const Arguments& a, ThreadPool& pool) {
    check_is_suite_alone(a);
    if (!a.bounds.empty())
        throw usage_error("the limits of a suite cannot be written", "--bounds",
                          "check a single input without a suite");
    check::Suite suite = check::load_suite(a.words.front());
    for (check::SuiteCheck& each : suite.checks) {
        read_options(a, each.options);
        each.options.holds_limits = false;
    }
    return check::run_suite(suite, a.json || !a.baseline.empty(), pool);
}

/// Returns the result of a declined check as a list with one element, as a suite returns it.
std::vector<check::Checked> declined(const Arguments& a, const check::Declined& error) {
    std::vector<check::Checked> checks;
    checks.push_back(check::unjudged({}, a.op, a.words.empty() ? "" : a.words.front(), error));
    return checks;
}

std::vector<check::Checked> judge_alone(const Arguments& a, const GivenInput& input, ThreadPool& pool) {
    const check::Declaration declaration = declaration_of(a, input);
    check::Options options;
    read_options(a, options);
    options.holds_limits = !a.bounds.empty();
    try {
        if (input.error) throw *input.error;
        std::vector<check::Checked> checks;
        checks.push_back(check::check_files(declaration, input.inputs, options,
                                            {.has_digests = a.json || !a.baseline.empty()}, pool));
        return checks;
    } catch (const check::Declined&) {
        throw;
    } catch (const Error& error) {
        if (error.exit() == Exit::bad_input || error.exit() == Exit::usage) {
            const check::Checked one = check::unjudged(declaration, std::string(declaration.operation->name),
                                                       input.inputs.files.front(), error);
            write_reports(a, {&one, 1});
        }
        throw;
    }
}

/// A declaration, and the inputs that have it.
struct DeclaredInputs {
    check::SuiteCheck check;
    std::vector<check::Inputs> inputs{};
};

/// Adds an input to the check that has the same declaration, or adds a check.
void add_input(const Arguments& a, const GivenInput& input, std::vector<DeclaredInputs>& checks) {
    check::SuiteCheck check;
    check.where = input.inputs.files.front();
    check.declaration = declaration_of(a, input);
    check.operation = check.name = check.declaration.operation->name;
    const auto same = std::find_if(checks.begin(), checks.end(), [&](const DeclaredInputs& each) {
        return each.check.operation == check.operation &&
               check::declared_json(each.check.declaration) == check::declared_json(check.declaration);
    });
    if (same != checks.end()) return same->inputs.push_back(input.inputs);
    read_options(a, check.options);
    check.options.holds_limits = false;
    checks.push_back({std::move(check), {input.inputs}});
}

/// Gives numbers to checks of the same operation, so that their names differ.
void number_names(std::vector<DeclaredInputs>& checks) {
    std::map<std::string, int> counts, numbers;
    for (const DeclaredInputs& each : checks) ++counts[each.check.operation];
    for (DeclaredInputs& each : checks) {
        if (counts[each.check.operation] > 1)
            each.check.name = fmt::format("{} {}", each.check.operation, ++numbers[each.check.operation]);
    }
}

/// Judges several inputs. Inputs with the same declaration are one check, as in a suite.
std::vector<check::Checked> judge_together(const Arguments& a, const std::vector<GivenInput>& inputs,
                                           ThreadPool& pool) {
    if (!a.bounds.empty())
        throw usage_error("the limits of several inputs cannot be written", "--bounds", "check a single input");
    std::vector<DeclaredInputs> checks;
    std::vector<check::Checked> all;
    for (const GivenInput& input : inputs) {
        if (input.error)
            all.push_back(
                check::unjudged({}, a.op.empty() ? "unknown" : a.op, input.inputs.files.front(), *input.error));
        else
            add_input(a, input, checks);
    }
    number_names(checks);
    for (const DeclaredInputs& each : checks) {
        for (check::Checked& one : check::run_check(each.check, each.inputs, a.json || !a.baseline.empty(), pool))
            all.push_back(std::move(one));
    }
    return all;
}

std::vector<check::Checked> judge_given(const Arguments& a, ThreadPool& pool) {
    try {
        if (check::is_later_operation(a.op)) throw check::Declined(check::no_check_of(a.op), "--op");
        const std::vector<GivenInput> inputs = given_inputs(a.words, a.op);
        if (inputs.size() > 1) return judge_together(a, inputs, pool);
        if (a.op.empty() && inputs.front().error) throw *inputs.front().error;
        return judge_alone(a, inputs.front(), pool);
    } catch (const check::Declined& error) {
        return declined(a, error);
    }
}

Exit run(const Arguments& a) {
    if (a.update_baseline && a.baseline.empty())
        throw usage_error("the baseline is missing", "--update-baseline", "add --baseline FILE");
    ThreadPool pool(available_threads());
    const bool has_suite = std::any_of(a.words.begin(), a.words.end(), is_suite);
    std::vector<check::Checked> checks = has_suite ? judge_suite(a, pool) : judge_given(a, pool);
    const bool has_limits = checks.front().verdict.limits->size() > 0;
    if (!a.bounds.empty() && has_limits) {
        const check::Limits& limits = *checks.front().verdict.limits;
        if (limits.sample)
            throw usage_error("limits were computed for only some of the outputs", "--bounds",
                              "remove --sample and --budget, and rows beyond the end of a group");
        const std::vector<std::int64_t>& shape = checks.front().out_shape;
        publish(a.bounds, npz_text({{"exact", shape, limits.exact},
                                    {"certain", shape, limits.certain},
                                    {"probable", shape, limits.probable}}));
    }
    use_baseline(a, has_suite, checks);
    if (a.json) {
        print_json(check::document_json(checks));
    } else {
        print_checks(checks, has_suite);
    }
    write_reports(a, checks);
    return check::exit_of(checks);
}

constexpr const VerbRow* below[] = {&make_inputs_verb, &power_verb};

/// Replaces the general texts before and after the options in --help by texts about one operation.
void describe_operation(Command& verb, const check::Operation& operation) {
    std::string layouts;
    for (const check::ArrayRole& role : operation.arrays) {
        if (role.is_layout) layouts += fmt::format("{}{}", layouts.empty() ? "" : " and ", role.name);
    }
    if (!layouts.empty())
        layouts =
            fmt::format("\nThe arrays {} hold integers, so they have no format to declare (docs/check.md).", layouts);
    verb.texts(fmt::format("{}: {}\n\nExamples:\n  macheps check out.npz --op {}{}\n"
                           "  macheps check make-inputs --help {}{}",
                           operation.name, operation.summary, operation.name, operation.has_eps ? " --eps 1e-5" : "",
                           operation.name, layouts),
               "`macheps check --help` lists the limits, the output options and the verdicts.");
}

void describe(Command& verb) {
    if (verb.goes_on_with(below)) return;
    const auto a = std::make_shared<Arguments>();
    const check::Operation* const topic = help_topic(verb);
    if (topic != nullptr) describe_operation(verb, *topic);
    // The help on one operation (--help OP) lists only what the operation can declare, so all other options are hidden.
    const auto group = [&](std::string heading) {
        topic != nullptr ? verb.hidden_group(std::move(heading)) : verb.group(std::move(heading));
    };
    std::vector<std::string> operations;
    for (const check::Operation& operation : check::all_operations()) operations.emplace_back(operation.name);
    for (const std::string_view later : check::later_operations()) operations.emplace_back(later);
    group("Inputs");
    verb.option("FILE", a->words, "Files of arrays, folders of such files, and ROLE=NAME pairs, or a suite (.toml)")
        .required()
        .takes(value_kind::file);
    verb.option(
            "--op", a->op,
            fmt::format(
                "The operation of the kernel. Required without a suite, if the files have no recipe of make-inputs. {} "
                "cannot be checked yet",
                fmt::join(check::later_operations(), ", ")))
        .one_of(operations)
        .takes("OP");
    describe_declaration(verb, topic, a->declared, [&](const check::DeclareKey& key) {
        return topic != nullptr && key.applies(*topic, key) ? check::help_of(key, *topic) : key.help;
    });
    for (std::size_t i = 0; i < check::option_keys().size(); ++i) {
        const check::OptionKey& key = check::option_keys()[i];
        group(std::string(key.group));
        describe_key(verb, key, a->options, i, std::string(key.help));
    }
    group("Output");
    verb.flag("--json", a->json, "Print one JSON document");
    verb.option("--bounds", a->bounds,
                "Write the exact result, certain bound and probable bound of each output to this file (.npz)")
        .takes(value_kind::file);
    verb.option("--junit", a->junit, "Write to this file (JUnit XML) one test case for each input")
        .takes(value_kind::file);
    verb.option("--sarif", a->sarif, "Write the inputs that did not pass to this file (SARIF), for code scanning")
        .takes(value_kind::file);
    verb.flag("--github", a->github, "Print annotations for a GitHub workflow, for the ten most severe inputs");
    verb.option("--baseline", a->baseline,
                "Compare with an accepted state (check.lock). "
                "Fail if errors grew or fewer wrong kernels are caught. Default: none")
        .takes(value_kind::file);
    verb.flag("--update-baseline", a->update_baseline,
              "Write the baseline instead of comparing: accept the present state");
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"check", help, describe, notes};

}  // namespace macheps::cmd::checks
