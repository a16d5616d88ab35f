// SPDX-License-Identifier: Apache-2.0
// `macheps check make-inputs` writes inputs for kernels. `macheps check power` reports the wrong kernels that a check
// on such inputs would catch.
#include "experiments/cmd/check/inputs.hpp"
#include "experiments/cmd/check/keys.hpp"

#include "core/host/publish.hpp"
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

namespace macheps::cmd::checks {

using namespace files;

namespace {

constexpr const char* make_help =
    "Writes inputs that make wrong kernels visible: load, run, save `out` beside them, check.\n\n"
    "Examples:\n"
    "  macheps check make-inputs recipe.toml -o inputs/       a table [recipe]: op, formats, sizes, seed, inputs\n"
    "  macheps check make-inputs --op gemm --a fp16 --b fp16 --out bf16 --shape 192,160,1000 -o inputs/\n"
    "  macheps check make-inputs --op rmsnorm --x bf16 --gain bf16 --out bf16 --eps 1e-5 --inputs normal,small-rms -o "
    "in/\n"
    "  macheps check make-inputs --op gemm --a bf16 --b bf16 --out bf16 --groups 64,0,33,1 --group-rows 96 -o moe/\n"
    "                                                         a grouped gemm: rows beyond a group stay untouched\n"
    "  macheps check make-inputs --list                       all recipes\n\n"
    "Without --inputs a least set is written: wrong kernels are run on all inputs, and each file taken shows the most "
    "that\n"
    "those before it do not. Checks of a right kernel on the set, as one check of a suite, pass. If some wrong kernel\n"
    "would pass too, nothing is written and the exit code is 1. A file has the arrays that the operation requires and "
    "those that are declared; `out` is "
    "the\n"
    "buffer for the result. Its last --canaries entries are behind the output, and a check with the same --canaries\n"
    "demands that nothing was written there. The same recipe gives the same bytes everywhere.";

constexpr const char* power_help =
    "What checks would catch on made inputs, before there is a kernel.\n\n"
    "Examples:\n"
    "  macheps check power recipe.toml                        wrong kernels by inputs\n"
    "  macheps check power suite.toml --json                  of each check of a suite, at the usual sizes\n"
    "  macheps check power --op softmax --x bf16 --out bf16 --shape 64,4096\n\n"
    "Exit codes: 0 all wrong kernels that --require names are caught by some input; 1 some are not; 2 usage, declined.";

/// The arguments that give a file of plans, or one plan.
struct PlanArguments {
    std::string file, op;
    std::vector<std::int64_t> shape, groups;
    std::int64_t group_rows = 0;
    std::vector<std::string> inputs;
    std::uint64_t seed = check::InputRequest{}.seed;
    SaidKeys declared{check::declare_keys().size()};

    void add_options(Command& verb) {
        std::vector<std::string> operations;
        for (const check::Operation& operation : check::all_operations()) operations.emplace_back(operation.name);
        verb.option("RECIPE", file, "A .toml file with a table [recipe], or a suite; the options when left out")
            .takes(value_kind::file);
        verb.option("--op", op, "What the kernel computes; RECIPE says it when left out").one_of(operations);
        verb.integer(
                "--shape", shape, {1, 1 << 28},
                "m,n,k of a gemm, with batches before them where there are; rows,columns of the others; 192,160,1000 "
                "and 64,1000 when left out")
            .list();
        verb.integer("--groups", groups, {0, 1 << 28},
                     "Rows of each group of a grouped gemm, whose sum is m: 64,0,80; there are none when left out")
            .list();
        verb.integer(
                "--group-rows", group_rows, {0, 1 << 28},
                "Rows that each group has room for: a and out are [groups,rows,...]; 0 has one group behind the other")
            .shows_default();
        verb.option("--inputs", inputs, "Names of recipes; all that apply when left out").list().takes("NAME");
        verb.integer("--seed", seed, seed_limits, "Of the random numbers").shows_default();
        describe_keys(verb, check::declare_keys(), declared, [](const check::DeclareKey& key) {
            // `inner` and `partials` are formats of intermediate results and not of arrays.
            return key.value == "FORMAT" && key.name != "inner" && key.name != "partials"
                       ? fmt::format("Format of {}; fp32 when left out, or no such array where none is required",
                                     key.name)
                       : key.help;
        });
    }

    std::vector<check::InputPlan> plans(const Command& verb) const {
        if (file.empty() == op.empty())
            throw usage_error(file.empty() ? "neither a recipe nor an operation" : "a recipe and an operation",
                              "RECIPE, --op", "give one of them");
        if (!file.empty()) {
            for (const std::string& option : verb.given()) {
                const bool is_said_there = option == "--shape" || option == "--inputs" || option == "--seed" ||
                                           option == "--groups" || option == "--group-rows" || is_declared(option);
                if (is_said_there) throw usage_error("the recipe says that", option, "leave it out, or write it there");
            }
            return check::load_plans(file);
        }
        check::InputPlan plan{.name = op};
        plan.request.declaration.operation = &check::find_operation(op);
        plan.request.seed = seed;
        for_each_said(check::declare_keys(), declared, [&](const check::DeclareKey& key, const std::string& text) {
            check::declare(plan.request.declaration, key, text, option_name(key.name));
        });
        if (!shape.empty()) check::set_shape(plan.request, shape, "--shape");
        if (group_rows > 0 && groups.empty())
            throw usage_error("room for rows of groups that there are not", "--group-rows", "say --groups 64,0,80");
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
    bool lists = false, all = false;
};

void write_inputs(const check::MadeInputs& inputs, const std::filesystem::path& folder, const std::string& ending) {
    const std::vector<StoredArray> arrays = check::stored_inputs(inputs);
    const std::string recipe = check::recipe_text(inputs);
    publish(folder / (inputs.name + "." + ending),
            ending == "npz" ? check::npz_of(arrays, recipe) : check::safetensors_of(arrays, recipe));
}

Exit make(const MakeArguments& a, const Command& verb) {
    if (a.lists) {
        const std::string text = recipes_text();
        print_text(text);
        return Exit::ok;
    }
    const std::vector<check::InputPlan> plans = a.plan.plans(verb);
    if (plans.size() != 1)
        throw usage_error("a file of several checks", "RECIPE",
                          "give a [recipe]: their inputs would have the same names");
    const check::InputPlan& plan = plans.front();
    if (!plan.declined.empty())
        throw usage_error(plan.declined, a.plan.file, "write what inputs it shall have as a [recipe]");
    if (a.folder.empty()) throw usage_error("no folder", "-o", "say where the files shall be");
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
                     .fix = "Use larger sizes or wider formats. --all writes every set of inputs regardless.",
                     .exit = Exit::check_failed});
    }
    std::error_code error;
    std::filesystem::create_directories(a.folder, error);
    if (error) throw_cannot_write(a.folder, error.value(), "make the folder");
    for (const std::size_t i : chosen) {
        write_inputs(all[i], a.folder, a.save);
        print("{}\n", (a.folder / (all[i].name + "." + a.save)).string());
    }
    const std::string text = made_text(coverage);
    print_text(text);
    return Exit::ok;
}

void describe_make(Command& verb) {
    const auto a = std::make_shared<MakeArguments>();
    a->plan.add_options(verb);
    verb.option("-o,--output", a->folder, "The folder for the files; refused when left out, but for --list")
        .takes(value_kind::folder);
    verb.option("--save", a->save, "As which files").one_of({"npz", "safetensors"}).shows_default();
    verb.flag("--all", a->all, "All inputs, where a least set would do");
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
    a->plan.add_options(verb);
    const std::vector<std::string_view> names = check::power_words();
    const std::vector<std::string> words(names.begin(), names.end());
    verb.option("--require", a->require, "Which wrong kernels the inputs must show").one_of(words).shows_default();
    verb.flag("--json", a->json, "JSON");
    verb.runs([a, &verb] { return power(*a, verb); });
}

}  // namespace

const VerbRow make_inputs_verb{"make-inputs", make_help, describe_make};
const VerbRow power_verb{"power", power_help, describe_power};

}  // namespace macheps::cmd::checks
