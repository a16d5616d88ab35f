// SPDX-License-Identifier: Apache-2.0
// `macheps check make-inputs` writes inputs for kernels. `macheps check power` reports the wrong kernels that a check
// on such inputs would catch.
#include "experiments/cmd/check/inputs.hpp"
#include "experiments/cmd/check/keys.hpp"

#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "experiments/check/verdicts/run.hpp"
#include "experiments/cmd/check/inputs_output.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

namespace macheps::cmd::checks {

using namespace files;

namespace {

constexpr const char* make_help =
    R"(Writes inputs that reveal wrong kernels. Run the kernel on them, save `out` with them, and check.

Examples:
  macheps check make-inputs recipe.toml -o inputs/       [recipe]: op, formats, sizes, seed, inputs
  macheps check make-inputs --op gemm --a fp16 --b fp16 --out bf16 --shape 192,160,1000 -o inputs/
  macheps check make-inputs --op rmsnorm --x bf16 --gain bf16 --out bf16 --eps 1e-5 --inputs normal,small-rms -o in/
  macheps check make-inputs --list                       all recipes)";

constexpr const char* make_notes = R"(More examples:
  macheps check make-inputs --op gemm --a bf16 --b bf16 --out bf16 --groups 64,0,33,1 --group-rows 96 -o moe/
                                        a grouped gemm; rows beyond a group stay unwritten

Which inputs are written:
  Without --inputs, a least set is written. Wrong kernels run on all inputs, and each further file
  is the one that reveals the most wrong kernels that the files before it do not reveal. If the
  set is one check of a suite, a correct kernel passes. If a wrong kernel would also pass, nothing
  is written and the exit code is 1.

Files:
  A file has the arrays that the operation requires, those that are declared, and the recipe, from
  which `macheps check` reads the declaration. The folder also gets a suite.toml, which names the
  files, so that a missing file gives exit code 3. `out` is the buffer for the result. With --canaries
  N, its last N entries lie after the end of the output, and a check with the same --canaries
  requires that they are unchanged. The same recipe gives the same bytes on every machine.
  Files that hold outputs of a kernel, and an edited suite.toml, are only replaced with --force.)";

constexpr const char* power_help =
    R"(Lists the wrong kernels that checks would catch on made inputs, before there is a kernel.

Examples:
  macheps check power recipe.toml                        a table of wrong kernels and inputs
  macheps check power suite.toml --json                  for each check of a suite
  macheps check power --op softmax --x bf16 --out bf16 --shape 64,4096)";

constexpr const char* power_notes = R"(Suites:
  The files of a suite are not read. Each check uses the default sizes, and fp32 for required
  arrays whose formats the suite does not declare. To use other sizes, write a [recipe].

Exit codes:
  0  every wrong kernel that --require selects is caught
  1  some are not caught
  2  usage, declined)";

/// The arguments that say which inputs to make: a recipe file or suite, or options that describe a single plan.
struct PlanArguments {
    std::string file, op;
    std::vector<std::int64_t> shape, groups;
    std::int64_t group_rows = 0;
    std::vector<std::string> inputs;
    std::uint64_t seed = check::InputRequest{}.seed;
    GivenKeys declared{check::declare_keys().size()};

    /// Adds the options. `file_help` is the help text of the file.
    void add_options(Command& verb, const std::string& file_help) {
        const check::Operation* const topic = help_topic(verb);
        verb.group("Inputs");
        std::vector<std::string> operations;
        for (const check::Operation& operation : check::all_operations()) operations.emplace_back(operation.name);
        verb.option("RECIPE", file, file_help).takes(value_kind::file);
        verb.option("--op", op, "The operation of the kernel. Required without RECIPE").one_of(operations).takes("OP");
        verb.integer("--shape", shape, {1, 1 << 28},
                     "Sizes: m,n,k or batches,m,n,k of a gemm; rows,columns of other operations. "
                     "Default: 192,160,1000 for a gemm, 64,1000 for other operations")
            .list();
        verb.integer("--groups", groups, {0, 1 << 28},
                     "Rows of each group of a grouped gemm, as in 64,0,80; their sum is m. Default: none")
            .list();
        verb.integer("--group-rows", group_rows, {0, 1 << 28},
                     "Number of rows that each group has room for: a and out are [groups,rows,...]. "
                     "0: groups follow one another without gaps")
            .shows_default();
        verb.option("--inputs", inputs, "Names of recipes. Default: all that apply").list().takes("NAME");
        verb.integer("--seed", seed, seed_limits, "Seed of the random numbers").shows_default();
        describe_declaration(verb, topic, declared, [&](const check::DeclareKey& key) {
            // `inner` and `partials` are formats of intermediate results and not of arrays.
            return key.value == "FORMAT" && key.name != "inner" && key.name != "partials"
                       ? fmt::format("Format of {}. Default: fp32 if the array is required, otherwise no such array",
                                     key.name)
                   : topic != nullptr && key.applies(*topic, key) ? check::help_of(key, *topic)
                                                                  : key.help;
        });
    }

    std::vector<check::InputPlan> plans(const Command& verb) const {
        if (file.empty() == op.empty())
            throw usage_error(file.empty() ? "neither a recipe nor an operation is given"
                                           : "a recipe and an operation cannot be combined",
                              "RECIPE, --op", file.empty() ? "pass one of them" : "remove one of them");
        if (!file.empty()) {
            for (const std::string& option : verb.given()) {
                const bool is_said_there = option == "--shape" || option == "--inputs" || option == "--seed" ||
                                           option == "--groups" || option == "--group-rows" || is_declared(option);
                if (is_said_there)
                    throw usage_error("this option cannot be combined with a recipe file", option,
                                      "remove it, or write it into the recipe");
            }
            return check::load_plans(file);
        }
        check::InputPlan plan{.name = op};
        plan.request.declaration.operation = &check::find_operation(op);
        plan.request.seed = seed;
        for_each_given(check::declare_keys(), declared, [&](const check::DeclareKey& key, const std::string& text) {
            check::declare(plan.request.declaration, key, text, option_name(key.name));
        });
        if (!shape.empty()) check::set_shape(plan.request, shape, "--shape");
        if (group_rows > 0 && groups.empty())
            throw usage_error("there are no groups", "--group-rows", "add --groups, as in --groups 64,0,80");
        plan.request.group_rows = group_rows;
        if (!groups.empty()) check::set_groups(plan.request, groups, "--groups");
        for (const std::string& name : inputs)
            plan.recipes.push_back(&check::find_recipe(*plan.request.declaration.operation, name, "--inputs"));
        return {plan};
    }

  private:
    static bool is_declared(const std::string& option) {
        return std::any_of(check::declare_keys().begin(), check::declare_keys().end(),
                           [&](const check::DeclareKey& key) { return option_name(key.name) == option; });
    }
};

constexpr double delta = 1e-9;

// --- make-inputs

struct MakeArguments {
    PlanArguments plan;
    std::filesystem::path folder;
    std::string save = "npz";
    bool lists = false, all = false, force = false;
};

std::string bytes_of(const check::MadeInputs& inputs, const std::string& ending) {
    const std::vector<StoredArray> arrays = check::stored_inputs(inputs);
    const std::string recipe = check::recipe_text(inputs);
    return ending == "npz" ? check::npz_of(arrays, recipe) : check::safetensors_of(arrays, recipe);
}

/// Returns whether a suite is one that make-inputs writes, without changes.
bool is_made_suite(const std::string& text) {
    try {
        const check::Suite suite = check::parse_suite(text, "suite.toml");
        const check::SuiteCheck& only = suite.checks.front();
        const std::string ending = std::filesystem::path(only.files.front().text).extension().string();
        std::vector<std::string> inputs;
        for (std::size_t i = 1; i < only.files.size(); ++i)
            inputs.push_back(std::filesystem::path(only.files[i].text).stem().string());
        return suite.checks.size() == 1 && !ending.empty() && only.declaration.operation != nullptr &&
               check::suite_text(only.declaration, ending.substr(1), inputs) == text;
    } catch (const Error&) {
        return false;
    }
}

/// Throws if a file exists and holds something that make-inputs did not write, such as the output of a kernel.
void refuse_to_overwrite(const std::filesystem::path& file, const std::string& bytes) {
    if (!is_there(file) || read_file(file) == bytes) return;
    const bool is_suite = file.extension() == ".toml";
    if (is_suite ? is_made_suite(read_file(file)) : check::is_made_file(file.string())) return;
    throw usage_error(is_suite ? "this suite exists, and make-inputs did not write it in this form"
                               : "this file exists and holds arrays that make-inputs did not write, such as the output "
                                 "of a kernel",
                      file.string(), "pass another folder, or --force to replace the file");
}

Exit make(const MakeArguments& a, const Command& verb) {
    if (a.lists) {
        const std::string text = recipes_text();
        print_text(text);
        return Exit::ok;
    }
    const std::vector<check::InputPlan> plans = a.plan.plans(verb);
    if (plans.size() != 1)
        throw usage_error("the file has several checks, whose inputs would have the same names", "RECIPE",
                          "pass a file with a [recipe], or a suite with a single check");
    const check::InputPlan& plan = plans.front();
    if (!plan.declined.empty()) throw usage_error(plan.declined, a.plan.file, "describe the inputs in a [recipe]");
    if (a.folder.empty()) throw usage_error("no folder was given for the files", "-o", "pass one");
    ThreadPool pool(available_threads());
    const std::vector<check::MadeInputs> all = check::all_inputs(plan);
    const check::Coverage coverage = check::coverage_of(all, delta, pool);
    std::vector<std::size_t> chosen = check::least_set(coverage);
    if (a.all || !plan.recipes.empty()) {
        chosen.clear();
        for (std::size_t i = 0; i < all.size(); ++i) chosen.push_back(i);
    } else if (const check::Weakness weakness = coverage.weakness(chosen, check::Power::structure); weakness.is_any()) {
        throw Error({.what = weakness_text(weakness),
                     .where = plan.name,
                     .fix = "use larger sizes or wider formats, or write all inputs anyway with --all",
                     .exit = Exit::check_failed});
    }
    std::error_code error;
    std::filesystem::create_directories(a.folder, error);
    if (error) throw_cannot_write(a.folder, error.value(), "create the folder");
    std::vector<std::string> names;
    std::vector<std::pair<std::filesystem::path, std::string>> files;
    for (const std::size_t i : chosen) {
        names.push_back(all[i].name);
        files.emplace_back(a.folder / (all[i].name + "." + a.save), bytes_of(all[i], a.save));
    }
    files.emplace_back(a.folder / "suite.toml", check::suite_text(plan.request.declaration, a.save, names));
    if (!a.force) {
        for (const auto& [file, bytes] : files) refuse_to_overwrite(file, bytes);
    }
    for (const auto& [file, bytes] : files) {
        publish(file, bytes);
        print("{}\n", file.string());
    }
    const std::string text = made_text(coverage) + next_text(all[chosen.front()], a.folder.string(), a.save);
    print_text(text);
    return Exit::ok;
}

void describe_make(Command& verb) {
    const auto a = std::make_shared<MakeArguments>();
    a->plan.add_options(verb,
                        "A .toml file with a table [recipe], or a suite with a single check, for which inputs of the "
                        "default sizes are made. Default: the options");
    verb.group("Output");
    verb.option("-o,--output", a->folder, "Write the files to this folder. Required without --list")
        .takes(value_kind::folder);
    verb.option("--save", a->save, "Kind of the files").one_of({"npz", "safetensors"}).shows_default();
    verb.flag("--force", a->force, "Replace files with outputs of a kernel, and an edited suite.toml");
    verb.flag("--all", a->all, "Write all possible inputs. Default: a least set, which reveals the same wrong kernels");
    verb.flag("--list", a->lists, "Print the recipes");
    verb.runs([a, &verb] { return make(*a, verb); });
}

// --- power

struct PowerArguments {
    PlanArguments plan;
    std::string require = "structure";
    bool json = false;
};

Exit power(const PowerArguments& a, const Command& verb) {
    const check::Power require = check::power_named(a.require, "--require");
    ThreadPool pool(available_threads());
    Json checks = Json::array();
    std::string text;
    bool is_blind = false, is_declined = false;
    for (const check::InputPlan& plan : a.plan.plans(verb)) {
        if (!plan.declined.empty()) {
            checks.push_back({{"name", plan.name}, {"declined", plan.declined}});
            text += fmt::format("{}  declined: {}\n", plan.name, plan.declined);
            is_declined = true;
            continue;
        }
        const check::Coverage coverage = check::coverage_of(check::all_inputs(plan), delta, pool);
        const std::vector<std::size_t> least = check::least_set(coverage);
        is_blind |= !coverage.blind(require).empty();
        checks.push_back(coverage_json(plan, coverage, least, require));
        text += coverage_text(plan, coverage, least, require);
    }
    if (a.json) {
        Json document = Json::object();
        document["schema"] = "macheps.check.power/1";
        document["checks"] = checks;
        print_json(document);
    } else {
        print_text(text);
    }
    return is_blind ? Exit::check_failed : is_declined ? Exit::usage : Exit::ok;
}

void describe_power(Command& verb) {
    const auto a = std::make_shared<PowerArguments>();
    a->plan.add_options(verb, "A .toml file with a table [recipe], or a suite. Default: the options");
    verb.group("Output");
    const std::vector<std::string_view> names = check::power_words();
    const std::vector<std::string> words(names.begin(), names.end());
    verb.option("--require", a->require, "Class of wrong kernels that the inputs must reveal")
        .one_of(words)
        .shows_default();
    verb.flag("--json", a->json, "Print one JSON document");
    verb.runs([a, &verb] { return power(*a, verb); });
}

}  // namespace

const VerbRow make_inputs_verb{"make-inputs", make_help, describe_make, make_notes};
const VerbRow power_verb{"power", power_help, describe_power, power_notes};

}  // namespace macheps::cmd::checks
