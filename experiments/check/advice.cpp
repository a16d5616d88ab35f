// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/advice.hpp"

#include "core/error.hpp"
#include "experiments/check/coverage.hpp"
#include "experiments/check/recipes.hpp"

#include <algorithm>

namespace macheps::check {

namespace {

/// Inputs as small as they may be for rows of the check's length, within reason: tails are those of the check's own.
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

}  // namespace

std::vector<Advice> advise(const Declaration& declaration, std::int64_t row_elements,
                           std::span<const std::string> blind, double delta, ThreadPool& pool) {
    std::vector<Advice> all;
    std::vector<std::string> left(blind.begin(), blind.end());
    const InputRequest request = small_request(declaration, row_elements);
    for (const Recipe& recipe : recipes_of(*declaration.operation)) {
        if (left.empty()) break;
        if (!recipe.applies(request)) continue;
        Coverage coverage;
        try {
            coverage = coverage_of(make_inputs(recipe, request), delta, pool);
        } catch (const Error&) {
            continue;  // what is declared cannot be had at this size
        }
        std::erase_if(left, [&](const std::string& mutant) {
            const bool is_shown =
                std::any_of(coverage.lines.begin(), coverage.lines.end(), [&](const Coverage::Line& line) {
                    return line_name(line.mutant) == line_name(mutant) && coverage.is_caught(line);
                });
            if (is_shown) all.push_back({mutant, std::string(recipe.name)});
            return is_shown;
        });
    }
    return all;
}

}  // namespace macheps::check
