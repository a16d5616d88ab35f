// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/coverage.hpp"

#include "experiments/check/bits.hpp"
#include "experiments/check/check.hpp"
#include "experiments/check/input_files.hpp"
#include "experiments/check/special_mutants.hpp"

#include <algorithm>
#include <optional>

namespace macheps::check {

std::string line_name(std::string_view name) {
    std::string text;
    for (const char c : name.substr(0, name.find('('))) {
        if (c < '0' || c > '9') text += c;
    }
    return text += name.substr(std::min(name.find('('), name.size()));
}

bool Coverage::is_caught(const Line& line) const {
    return std::any_of(line.sights.begin(), line.sights.end(), [](Sight sight) { return sight >= Sight::caught; });
}

std::vector<const Coverage::Line*> Coverage::blind(Power require) const {
    std::vector<const Line*> all;
    for (const Line& line : lines) {
        if (line.required_by <= require && !is_caught(line)) all.push_back(&line);
    }
    return all;
}

Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool) {
    Coverage coverage;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        coverage.inputs.push_back(inputs[i].name);
        // The way that files go: what is judged here can be read.
        const Posed posed = pose(inputs[i].request.declaration, stored_inputs(inputs[i]), pool);
        const Limits limits = limits_of(posed.problem, delta, pool);
        coverage.declined.push_back(limits.declined);
        if (limits.declined >= 0) continue;
        std::optional<MachineOutputs> claimed;
        if (posed.problem.declaration.bits) claimed = machine_outputs(posed.problem, pool);
        Premise premise(posed.problem, limits);
        std::vector<Mutant> mutants = run_mutants(posed.problem, limits, claimed ? &*claimed : nullptr, pool, &premise);
        Trial sizes(limits, growing_parts(posed.problem), nullptr, pool, mutants, &premise);
        add_size_mutants(sizes);
        for (const Mutant& mutant : mutants) {
            const std::string name = line_name(mutant.name);
            auto line = std::find_if(coverage.lines.begin(), coverage.lines.end(),
                                     [&](const Coverage::Line& each) { return line_name(each.mutant) == name; });
            if (line == coverage.lines.end()) {
                coverage.lines.push_back({mutant.name, mutant.kind, mutant.required_by});
                line = coverage.lines.end() - 1;
            }
            line->sights.resize(i + 1, Sight::none);
            line->sights[i] = mutant.certified ? Sight::certified : mutant.caught ? Sight::caught : Sight::missed;
        }
    }
    for (Coverage::Line& line : coverage.lines) line.sights.resize(inputs.size(), Sight::none);
    return coverage;
}

Sight Coverage::sight_to_reach(const Line& line) const {
    const bool is_wanted_for_certain = line.kind == "structure" || line.kind == "scale";
    const bool is_certified = std::find(line.sights.begin(), line.sights.end(), Sight::certified) != line.sights.end();
    return is_wanted_for_certain && is_certified ? Sight::certified : Sight::caught;
}

std::vector<std::size_t> least_set(const Coverage& coverage) {
    std::vector<bool> is_left;
    std::vector<Sight> needed;
    for (const Coverage::Line& line : coverage.lines) {
        is_left.push_back(coverage.is_caught(line));
        needed.push_back(coverage.sight_to_reach(line));
    }
    std::vector<std::size_t> chosen;
    while (std::count(is_left.begin(), is_left.end(), true) > 0) {
        std::size_t best = 0, most = 0;
        for (std::size_t i = 0; i < coverage.inputs.size(); ++i) {
            std::size_t adds = 0;
            for (std::size_t j = 0; j < coverage.lines.size(); ++j)
                adds += is_left[j] && coverage.lines[j].sights[i] >= needed[j];
            if (adds > most) best = i, most = adds;
        }
        for (std::size_t j = 0; j < coverage.lines.size(); ++j) {
            if (coverage.lines[j].sights[best] >= needed[j]) is_left[j] = false;
        }
        chosen.push_back(best);
    }
    return chosen;
}

}  // namespace macheps::check
