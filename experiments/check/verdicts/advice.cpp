// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/verdicts/advice.hpp"

#include "core/error.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/inputs/coverage.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/inputs/recipes.hpp"

#include <algorithm>
#include <optional>

namespace macheps::check {

namespace {

/// Returns a request for small inputs. Rows (for a product, k) are as long as in the check, up to a limit. Below the
/// limit, the last, incomplete tile of a row therefore has the same size as in the check.
InputRequest small_request(const Declaration& declaration, std::int64_t row_elements) {
    InputRequest request{.declaration = declaration};
    request.declaration.canaries = 0;
    request.m = 24;
    request.n = 20;
    request.k = std::clamp<std::int64_t>(row_elements, 1, 500);
    request.rows = 20;
    request.columns = std::clamp<std::int64_t>(row_elements, 1, 1000);
    return request;
}

/// Runs the wrong kernels on inputs of a recipe, and returns whether the tests notice them. Returns nothing if the
/// recipe cannot make inputs of this size.
std::vector<Mutant> mutants_of(const Recipe& recipe, const InputRequest& request, double delta, ThreadPool& pool) {
    std::vector<Mutant> all;
    try {
        for (const MadeInputs& inputs : make_inputs(recipe, request)) {
            const Posed posed = pose(inputs.request.declaration, stored_inputs(inputs), pool);
            const Limits limits = limits_of(posed.problem, delta, pool);
            if (limits.declined >= 0) continue;
            std::optional<MachineOutputs> claimed;
            if (posed.problem.declaration.bits) claimed = machine_outputs(posed.problem, pool);
            for (Mutant& mutant : run_mutants(posed.problem, limits, claimed ? &*claimed : nullptr, pool))
                all.push_back(std::move(mutant));
        }
    } catch (const Error&) {
    }
    return all;
}

/// Returns a measure of how clearly the tests notice the mutant. It is 0 if they do not notice it.
double visibility(const Mutant& mutant) { return mutant.certified ? mutant.largest : mutant.caught ? 1 : 0; }

}  // namespace

std::vector<Advice> advise(const Declaration& declaration, std::int64_t row_elements,
                           std::span<const std::string> blind, double delta, ThreadPool& pool) {
    struct Detector {
        std::string_view recipe;
        double visibility = 0;
    };
    std::vector<std::vector<Detector>> detectors(blind.size());
    const InputRequest request = small_request(declaration, row_elements);
    for (const Recipe& recipe : recipes_of(*declaration.operation)) {
        if (!recipe.applies(request)) continue;
        for (const Mutant& mutant : mutants_of(recipe, request, delta, pool)) {
            for (std::size_t i = 0; i < blind.size(); ++i) {
                if (visibility(mutant) > 0 && line_name(mutant.name) == line_name(blind[i]))
                    detectors[i].push_back({recipe.name, visibility(mutant)});
            }
        }
    }
    std::vector<Advice> all;
    for (std::size_t i = 0; i < blind.size(); ++i) {
        double most = 0;
        for (const Detector& detector : detectors[i]) most = std::max(most, detector.visibility);
        // Recipes are listed with the most familiar first. Take the first recipe that shows the mutant about as clearly
        // as the best recipe.
        const auto first = std::find_if(detectors[i].begin(), detectors[i].end(),
                                        [&](const Detector& detector) { return detector.visibility >= most / 10; });
        if (first != detectors[i].end()) all.push_back({blind[i], std::string(first->recipe)});
    }
    return all;
}

}  // namespace macheps::check
