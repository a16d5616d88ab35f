// SPDX-License-Identifier: Apache-2.0
// Python bindings for checks of kernel outputs, error bounds, and inputs for checks. Each job owns copies of its
// inputs, because it continues for a while after Ctrl-C.
#include "core/format_table.hpp"
#include "core/text/json.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/checked.hpp"
#include "experiments/check/declare/declare.hpp"
#include "experiments/check/declare/operations.hpp"
#include "experiments/check/inputs.hpp"
#include "experiments/check/options.hpp"
#include "experiments/check/verdicts/run.hpp"
#include "python/engine.hpp"
#include "python/rooms.hpp"

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace macheps::python {

using namespace files;

namespace {

using check::Declaration;
using Words = std::vector<std::tuple<std::string, std::string>>;
/// An input array: name, format (or "int64", or "uint8" for bytes with two codes each), shape and bytes.
using GivenArray = std::tuple<std::string, std::string, std::vector<std::int64_t>, nb::bytes>;

Declaration declaration_of(const std::string& operation, const Words& declared) {
    Declaration declaration{.operation = &check::find_operation(operation)};
    for (const auto& [key, text] : declared) check::declare(declaration, key, text);
    return declaration;
}

/// Returns whether two texts declare the same value for a key, such as 1e-5 and 0.00001. Errors: throws Error (usage) for
/// a key or a value that the operation does not have.
bool declares_same(const std::string& operation, const std::string& key, const std::string& first,
                   const std::string& second) {
    const Declaration one = declaration_of(operation, {{key, first}}),
                      other = declaration_of(operation, {{key, second}});
    const check::DeclareKey& row = *check::find_declare_key(key);
    return row.get(one, row) == row.get(other, row);
}

check::Options options_of(const Words& words) {
    check::Options options;
    for (const auto& [name, text] : words) {
        const check::OptionKey* key = check::find_option_key(name);
        if (key == nullptr) {
            std::string names;
            for (const check::OptionKey& each : check::option_keys())
                names += (names.empty() ? "" : ", ") + std::string(each.name);
            throw Error({.what = "unknown option of a check '" + name + "'",
                         .where = "check",
                         .fix = "use " + names,
                         .exit = Exit::usage});
        }
        key->set(options, text, name);
    }
    return options;
}

std::vector<StoredArray> stored(const std::vector<GivenArray>& given) {
    std::vector<StoredArray> arrays;
    for (const auto& [name, format, shape, bytes] : given) {
        const std::span<const std::byte> data(static_cast<const std::byte*>(bytes.data()), bytes.size());
        if (format == "int64" || format == "uint8") {
            const bool is_wide = format == "int64";
            arrays.push_back({.name = name,
                              .where = name,
                              .type = is_wide ? "<i8" : "|u1",
                              .width = is_wide ? 8u : 1u,
                              .shape = shape,
                              .bytes = std::string(reinterpret_cast<const char*>(data.data()), data.size())});
        } else {
            arrays.push_back(check::stored_array(name, format_named(format, name, Exit::usage), shape, data));
        }
    }
    return arrays;
}

nb::bytes bytes_of(const std::vector<double>& numbers) {
    return nb::bytes(numbers.data(), numbers.size() * sizeof(double));
}

/// Checks the outputs of a kernel for several inputs of one check. Returns for each input (verdict as JSON, verdict as
/// text, exact results, certain bounds, probable bounds).
nb::object judge(const std::string& operation, const Words& declared, const Words& options,
                 const std::vector<std::vector<GivenArray>>& inputs) {
    struct Job {
        Declaration declaration;
        check::Options options;
        std::vector<std::vector<StoredArray>> inputs{};
        std::vector<check::Checked> checked{};
    };
    const auto job = std::make_shared<Job>(Job{declaration_of(operation, declared), options_of(options)});
    for (const std::vector<GivenArray>& arrays : inputs) job->inputs.push_back(stored(arrays));
    run_aside([job](ThreadPool& pool) {
        for (const std::vector<StoredArray>& arrays : job->inputs)
            job->checked.push_back(check::check_arrays(job->declaration, arrays, job->options, pool));
        if (job->checked.size() > 1) check::join_inputs(job->checked, pool);
    });
    nb::list all;
    for (const check::Checked& checked : job->checked) {
        const check::Limits& limits = *checked.verdict.limits;
        all.append(nb::make_tuple(checked.json().dump(-1, Json::BadUtf8::is_replaced),
                                  checked.text(true, check::Spelling::python), bytes_of(limits.exact),
                                  bytes_of(limits.certain), bytes_of(limits.probable)));
    }
    return all;
}

/// Computes error bounds without checking an output. Returns (exact results, their low parts, certain bounds, probable
/// bounds, and the index of the first output that cannot be checked, or -1 if all can be checked).
nb::object limits(const std::string& operation, const Words& declared, const std::vector<GivenArray>& arrays,
                  double delta) {
    struct Job {
        Declaration declaration;
        std::vector<StoredArray> arrays;
        double delta;
        check::Limits limits{};
    };
    check::Options options;
    check::find_option_key("delta")->set(options, fmt::format("{}", delta), "delta");
    const auto job = std::make_shared<Job>(Job{declaration_of(operation, declared), stored(arrays), options.delta});
    run_aside([job](ThreadPool& pool) {
        job->limits = check::limits_of(check::pose(job->declaration, job->arrays, pool).problem, job->delta, pool);
    });
    return nb::make_tuple(bytes_of(job->limits.exact), bytes_of(job->limits.low), bytes_of(job->limits.certain),
                          bytes_of(job->limits.probable), job->limits.declined);
}

/// Makes inputs for checks by recipe. Returns [(name, [(array, format, shape, fp64 values, whether they are whole
/// numbers), ...]), ...].
nb::object make_inputs(const std::string& operation, const Words& declared, const std::vector<std::int64_t>& shape,
                       const std::vector<std::string>& recipes, std::uint64_t seed) {
    check::InputPlan plan{.name = operation};
    plan.request.declaration = declaration_of(operation, declared);
    plan.request.seed = seed;
    if (!shape.empty()) check::set_shape(plan.request, shape, "shape");
    for (const std::string& name : recipes)
        plan.recipes.push_back(&check::find_recipe(*plan.request.declaration.operation, name, "recipe"));
    struct Job {
        check::InputPlan plan;
        std::vector<check::MadeInputs> made{};
    };
    const auto job = std::make_shared<Job>(Job{std::move(plan)});
    run_aside([job](ThreadPool&) { job->made = check::all_inputs(job->plan); });
    nb::list all;
    for (const check::MadeInputs& made : job->made) {
        nb::list arrays;
        for (const check::MadeArray& array : made.arrays) {
            nb::list sizes;
            for (const std::int64_t size : array.shape) sizes.append(size);
            arrays.append(nb::make_tuple(array.name, std::string(format_name(array.format.format)), sizes,
                                         bytes_of(array.values), array.is_whole));
        }
        all.append(nb::make_tuple(made.name, arrays));
    }
    return all;
}

/// Returns the operations, the keys of declarations, the options and the reason codes as JSON.
std::string check_words() {
    Json operations = Json::array(), keys = Json::array(), options = Json::array(), codes = Json::object();
    for (const check::Operation& each : check::all_operations())
        operations.push_back(
            {{"operation", each.name}, {"summary", each.summary}, {"arrays", check::array_roles(each)}});
    for (const check::DeclareKey& key : check::declare_keys()) keys.push_back({{"name", key.name}, {"help", key.help}});
    for (const check::OptionKey& key : check::option_keys())
        options.push_back({{"name", key.name}, {"help", key.help}});
    for (const auto& [code, sentence] : check::reason_codes()) codes[code] = sentence;
    return Json{{"operations", operations}, {"keys", keys}, {"options", options}, {"codes", codes}}.dump();
}

}  // namespace

void add_checks(nb::module_& m) {
    m.def("check", &judge, nb::arg("operation"), nb::arg("declared"), nb::arg("options"), nb::arg("inputs"));
    m.def("declares_same", &declares_same, nb::arg("operation"), nb::arg("key"), nb::arg("first"), nb::arg("second"));
    m.def("limits", &limits, nb::arg("operation"), nb::arg("declared"), nb::arg("arrays"), nb::arg("delta"));
    m.def("make_inputs", &make_inputs, nb::arg("operation"), nb::arg("declared"), nb::arg("shape"), nb::arg("recipes"),
          nb::arg("seed"));
    m.def("check_words", &check_words);
}

}  // namespace macheps::python
