// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/verdicts/run.hpp"

#include "core/host/read_file.hpp"
#include "core/text/shown.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/verdicts/advice.hpp"
#include "experiments/files/arrays/raw_word.hpp"
#include "reports/rows/sha256.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace macheps::check {

namespace {

void rename(std::vector<files::StoredArray>& arrays, const std::map<std::string, std::string>& names,
            const std::string& file) {
    std::vector<std::pair<files::StoredArray*, std::string>> renamed;  // find all arrays before renaming any
    for (const auto& of_role : names) {
        const std::string &role = of_role.first, &name = of_role.second;
        const auto array = std::find_if(arrays.begin(), arrays.end(),
                                        [&](const files::StoredArray& each) { return each.name == name; });
        if (array == arrays.end()) {
            std::vector<std::string> all;
            for (const files::StoredArray& each : arrays) all.push_back(each.name);
            throw Error({.what = fmt::format("there is no array '{}'", name),
                         .where = fmt::format("{} ({}={})", file, role, name),
                         .fix = fmt::format("use one of {}", shown_list(all))});
        }
        renamed.emplace_back(&*array, role);
    }
    for (const auto& [array, role] : renamed) array->name = role;
}

/// Returns the name of the array for each role, spelled as read_arrays() spells it.
std::map<std::string, std::string> names_by_role(const Inputs& inputs) {
    std::map<std::string, std::string> names;
    for (const auto& [role, name] : inputs.arrays) names[role] = printable(name);
    return names;
}

/// Returns a function that selects the arrays to read: those that have the name of a role of the operation, and those
/// that will be renamed to a role.
files::Wanted wanted_by(const Declaration& declaration, const std::map<std::string, std::string>& renamed) {
    std::set<std::string, std::less<>> names;
    for (const std::string& role : array_roles(*declaration.operation)) names.insert(role);
    for (const auto& [role, name] : renamed) names.insert(name);
    return [names = std::move(names)](std::string_view name) { return names.contains(name); };
}

std::vector<files::StoredArray> read_all(const Declaration& declaration, const Inputs& inputs) {
    std::vector<files::StoredArray> arrays;
    const std::map<std::string, std::string> names = names_by_role(inputs);
    const files::Wanted wanted = wanted_by(declaration, names);
    for (const std::string& file : inputs.files) {
        for (files::StoredArray& array : files::read_arrays(files::parse_file_word(file), wanted))
            arrays.push_back(std::move(array));
    }
    rename(arrays, names, shown_list(inputs.files));
    return arrays;
}

/// Returns the name of the file with the outputs of the second run. `*` in the pattern is replaced by the file name of
/// the input without its folder and extension.
std::string other_run(std::string pattern, const std::string& input) {
    const std::size_t star = pattern.find('*');
    if (star != std::string::npos) pattern.replace(star, 1, files::parse_file_word(input).path.stem().string());
    return pattern;
}

/// Compares the output with the output of the second run, bit for bit. Returns a reason if they differ.
std::optional<Reason> compare_runs(const Inputs& inputs, const std::vector<files::StoredArray>& arrays,
                                   const std::string& pattern) {
    const Inputs others{.files = {other_run(pattern, inputs.files.front())}, .arrays = inputs.arrays};
    const auto is_out = [](const files::StoredArray& array) { return array.name == "out"; };
    const std::map<std::string, std::string> names = names_by_role(inputs);
    const auto renamed = names.find("out");
    const files::Wanted wanted = [&](std::string_view name) {
        return name == (renamed == names.end() ? "out" : renamed->second);
    };
    std::vector<files::StoredArray> again;
    for (files::StoredArray& array : files::read_arrays(files::parse_file_word(others.files.front()), wanted))
        again.push_back(std::move(array));
    for (files::StoredArray& array : again) {
        if (renamed != names.end() && array.name == renamed->second) array.name = "out";
    }
    const auto one = std::find_if(arrays.begin(), arrays.end(), is_out);
    const auto two = std::find_if(again.begin(), again.end(), is_out);
    const auto bad = [&](std::string what) {
        return Error({.what = std::move(what),
                      .where = others.files.front(),
                      .fix = "save the output of the other run in the same way as that of the first"});
    };
    if (two == again.end()) throw bad("the other run has no array 'out'");
    if (one == arrays.end() || one->shape != two->shape || one->width != two->width)
        throw bad("the output of the other run has a different shape or type");
    Reason reason{reason_code::runs_differ, "runs",
                  fmt::format("{} has different bits, although the kernel claims to be deterministic",
                              printable(others.files.front()))};
    for (std::size_t i = 0; i < one->count(); ++i) {
        if (one->bytes.compare(i * one->width, one->width, two->bytes, i * one->width, one->width) == 0) continue;
        if (reason.count++ == 0) reason.index = static_cast<std::int64_t>(i);
    }
    return reason.count == 0 ? std::nullopt : std::optional(reason);
}

Checked judge_arrays(const Declaration& declaration, const Inputs& inputs,
                     const std::vector<files::StoredArray>& arrays, const Options& options, const RunOptions& run,
                     ThreadPool& pool) {
    Checked checked = check_arrays(declaration, arrays, options, pool);
    const bool is_judged = checked.outcome != Outcome::refused && checked.outcome != Outcome::declined;
    if (!options.deterministic_with.empty() && is_judged) {
        if (auto reason = compare_runs(inputs, arrays, options.deterministic_with)) {
            checked.verdict.reasons.insert(checked.verdict.reasons.begin(), std::move(*reason));
            checked.outcome = checked.verdict.outcome = Outcome::fail;
        }
    }
    for (const std::string& file : inputs.files)
        checked.files.push_back(
            {file, run.has_digests ? reports::sha256_text(read_file(files::parse_file_word(file).path)) : ""});
    checked.input = inputs.files.empty() ? "" : inputs.files.front();
    checked.source = checked.input;
    if (run.has_digests) digest(checked, arrays);
    if (!run.keeps_limits) checked.verdict.limits->drop();
    return checked;
}

Checked judge_input(const SuiteCheck& of, const Inputs& inputs, bool has_digests, ThreadPool& pool) {
    const std::string& file = inputs.files.front();
    try {
        const std::vector<files::StoredArray> arrays = read_all(of.declaration, inputs);
        for (const files::StoredArray& array : arrays) {
            if (array.name == "out" && array.count() == 0)
                throw Error({.what = fmt::format("the output is empty: {}", file),
                             .where = of.where,
                             .fix = "save an output with elements",
                             .exit = Exit::usage});
        }
        return judge_arrays(of.declaration, inputs, arrays, of.options,
                            {.has_digests = has_digests, .keeps_limits = false}, pool);
    } catch (const Error& error) {
        if (error.exit() != Exit::bad_input && error.exit() != Exit::usage) throw;
        return unjudged(of.declaration, of.operation, file, error);
    }
}

/// Adds advice to a weak check: recipes for inputs that show the wrong kernels which the check could not have caught.
void add_advice(Checked& checked, ThreadPool& pool) {
    std::vector<std::string> blind;
    for (const Reason& reason : checked.verdict.reasons) {
        if (!reason.mutant.empty()) blind.push_back(reason.mutant);
    }
    if (checked.outcome == Outcome::weak && !blind.empty())
        checked.advice = advise(checked.declaration, checked.row_elements, blind, checked.options.delta, pool);
}

/// Removes the hint at another declaration unless it would explain all inputs of a check that fail. A kernel that works
/// in another way than declared fails for the same reason on all inputs; a wrong kernel does not.
void join_hints(std::span<Checked> inputs) {
    const std::string* common = nullptr;
    bool is_common = true;
    for (const Checked& one : inputs) {
        if (one.outcome != Outcome::fail) continue;
        if (common == nullptr) common = &one.explaining;
        is_common = is_common && one.explaining == *common;
    }
    if (is_common) return;
    for (Checked& one : inputs) one.explaining.clear();
}

}  // namespace

Checked check_files(const Declaration& declaration, const Inputs& inputs, const Options& options, const RunOptions& run,
                    ThreadPool& pool) {
    Checked checked = judge_arrays(declaration, inputs, read_all(declaration, inputs), options, run, pool);
    add_advice(checked, pool);
    return checked;
}

Checked unjudged(const Declaration& declaration, std::string operation, std::string input, const Error& error) {
    const bool is_input = error.exit() != Exit::usage;
    Checked checked{.name = operation, .input = input, .operation = operation, .declaration = declaration};
    checked.source = std::move(input);
    checked.outcome = checked.verdict.outcome = is_input ? Outcome::bad_input : Outcome::declined;
    checked.verdict.reasons.push_back({.code = is_input ? reason_code::input : reason_code::not_judged,
                                       .test = is_input ? "input" : "declined",
                                       .text = shown(error.what(), longest_error)});
    return checked;
}

void join_powers(std::span<Checked> inputs) {
    std::vector<InputPower> powers;
    for (const Checked& one : inputs) powers.push_back({one.verdict.fitness, one.verdict.mutants});
    std::vector<const InputPower*> all;
    for (const InputPower& power : powers) all.push_back(&power);
    const Weakness weakness = weakness_of(all, Power::all);
    for (Checked& one : inputs) {
        std::erase_if(one.blind, [&](const std::string& name) { return !weakness.has(name); });
        if (one.outcome != Outcome::weak) continue;
        std::erase_if(one.verdict.reasons, [&](const Reason& reason) {
            return reason.mutant.empty() ? !weakness.is_unguaranteed : !weakness.has(reason.mutant);
        });
        if (one.verdict.reasons.empty()) one.outcome = one.verdict.outcome = Outcome::pass;
    }
}

void join_inputs(std::span<Checked> inputs, ThreadPool& pool) {
    join_powers(inputs);
    join_hints(inputs);
    // All weak inputs of a check miss the same wrong kernels, so advice for one of them is enough.
    const auto weak =
        std::find_if(inputs.begin(), inputs.end(), [](const Checked& each) { return each.outcome == Outcome::weak; });
    if (weak != inputs.end()) add_advice(*weak, pool);
}

std::vector<Checked> run_check(const SuiteCheck& check, std::span<const Inputs> inputs, bool has_digests,
                               ThreadPool& pool) {
    std::vector<Checked> all;
    if (!check.declined.empty())
        all.push_back(unjudged(check.declaration, check.operation, "", Declined(check.declined, check.where)));
    for (const Inputs& each : inputs) all.push_back(judge_input(check, each, has_digests, pool));
    for (Checked& one : all) {
        one.name = check.name;
        one.options = check.options;
    }
    join_inputs(all, pool);
    return all;
}

std::vector<Checked> run_suite(const Suite& suite, bool has_digests, ThreadPool& pool) {
    std::vector<std::vector<Inputs>> inputs;
    for (const SuiteCheck& check : suite.checks) {
        inputs.emplace_back();
        if (!check.declined.empty()) continue;
        for (const std::string& file : files_of(check))
            inputs.back().push_back({.files = {file}, .arrays = check.arrays});
    }
    std::vector<Checked> all;
    for (std::size_t i = 0; i < suite.checks.size(); ++i) {
        const SuiteCheck& check = suite.checks[i];
        for (Checked& one : run_check(check, inputs[i], has_digests, pool)) {
            one.source = suite.source.empty() ? suite.file : suite.source;
            one.line = check.line;
            all.push_back(std::move(one));
        }
    }
    return all;
}

}  // namespace macheps::check
