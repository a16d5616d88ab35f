// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of recipe files. A file is read, or refused with an Error that names the place of the fault. If a
// recipe is small, its inputs are generated.
#include "core/error.hpp"
#include "experiments/check/inputs/recipe_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;

namespace {

std::int64_t elements_of(const check::InputRequest& request) {
    std::int64_t all = 0;
    for (const std::string_view array : request.arrays()) {
        std::int64_t count = 1;
        for (const std::int64_t size : request.shape_of(array)) count *= size;
        all += count;
    }
    return all;
}

void make(const check::InputPlan& plan) {
    try {
        for (const check::MadeInputs& inputs : check::all_inputs(plan)) {
            for (const check::MadeArray& array : inputs.arrays) {
                std::size_t count = 1;
                for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
                fuzz::require(array.values.size() == count, "an array has the elements of its shape");
            }
        }
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::usage, "inputs that cannot be made are a usage error");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<check::InputPlan> plans;
    try {
        plans = check::parse_plans(fuzz::text(data, size), "fuzz.toml");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::usage, "a bad recipe is a usage error");
        fuzz::require(error.parts().where.starts_with("fuzz.toml"), "an error of a recipe names the place");
        return 0;
    }
    for (const check::InputPlan& plan : plans) {
        fuzz::require(plan.request.declaration.operation != nullptr || !plan.declined.empty(),
                      "a plan has an operation");
        if (plan.declined.empty() && elements_of(plan.request) < 4096) make(plan);
    }
    return 0;
}
