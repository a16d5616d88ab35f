// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/inputs/coverage.hpp"

#include "experiments/check/check.hpp"
#include "experiments/check/inputs/data_ranges.hpp"
#include "experiments/check/inputs/input_files.hpp"
#include "experiments/check/judge/bits.hpp"
#include "experiments/check/power/special_mutants.hpp"

#include <algorithm>
#include <optional>

namespace macheps::check {

bool Coverage::is_caught(const Line& line) const {
    return std::any_of(line.detections.begin(), line.detections.end(),
                       [](Detection sight) { return sight >= Detection::caught; });
}

std::vector<const Coverage::Line*> Coverage::blind(Power require) const {
    std::vector<const Line*> all;
    for (const Line& line : lines) {
        if (line.required_by <= require && !is_caught(line)) all.push_back(&line);
    }
    return all;
}

namespace {

/// Returns the element of `lines` that belongs to a mutant. Adds the element if it does not exist yet. Its detections
/// are `inputs` in number, one for each input.
Coverage::Line& line_of(std::vector<Coverage::Line>& lines, const Mutant& mutant, std::size_t inputs) {
    const std::string name = line_name(mutant.name);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const Coverage::Line& each) { return line_name(each.mutant) == name; });
    if (line == lines.end()) line = lines.insert(lines.end(), {mutant.name, mutant.kind, mutant.required_by});
    line->detections.resize(inputs, Detection::none);
    return *line;
}

}  // namespace

Coverage coverage_of(std::span<const MadeInputs> inputs, double delta, ThreadPool& pool) {
    Coverage coverage;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        coverage.inputs.push_back(inputs[i].name);
        // The inputs go through the arrays that files store, as in a check. This ensures that a check can read the
        // files.
        const Posed posed = pose(inputs[i].request.declaration, stored_inputs(inputs[i]), pool);
        const Limits limits = limits_of(posed.problem, delta, pool);
        coverage.declined.push_back(limits.declined);
        coverage.powers.emplace_back();
        if (limits.declined >= 0) continue;
        std::optional<MachineOutputs> claimed;
        if (posed.problem.declaration.bits) claimed = machine_outputs(posed.problem, pool);
        Premise premise(posed.problem, limits);
        coverage.powers.back() = power_of(posed.problem, limits, claimed ? &*claimed : nullptr, pool, &premise);
        std::vector<Mutant> mutants = coverage.powers.back().mutants;
        Trial sizes(limits, growing_parts(posed.problem), nullptr, pool, mutants, &premise);
        add_size_mutants(sizes);
        for (const Mutant& mutant : mutants) {
            line_of(coverage.lines, mutant, inputs.size()).detections[i] = mutant.certified ? Detection::certified
                                                                           : mutant.caught  ? Detection::caught
                                                                                            : Detection::missed;
        }
        for (const std::string_view range : data_ranges_of(inputs[i])) {
            const Mutant named{.name = std::string(range), .kind = "data", .required_by = Power::all};
            line_of(coverage.ranges, named, inputs.size()).detections[i] = Detection::caught;
        }
    }
    return coverage;
}

Detection Coverage::sight_to_reach(const Line& line) const {
    const bool is_wanted_for_certain = line.kind == "structure" || line.kind == "scale";
    const bool is_certified =
        std::find(line.detections.begin(), line.detections.end(), Detection::certified) != line.detections.end();
    return is_wanted_for_certain && is_certified ? Detection::certified : Detection::caught;
}

std::vector<std::size_t> least_set(const Coverage& coverage) {
    std::vector<bool> is_left;
    std::vector<Detection> needed;
    std::vector<Coverage::Line> lines = coverage.lines;
    lines.insert(lines.end(), coverage.ranges.begin(), coverage.ranges.end());
    for (const Coverage::Line& line : lines) {
        is_left.push_back(coverage.is_caught(line));
        needed.push_back(coverage.sight_to_reach(line));
    }
    std::vector<std::size_t> chosen;
    while (std::count(is_left.begin(), is_left.end(), true) > 0) {
        std::size_t best = 0, most = 0;
        for (std::size_t i = 0; i < coverage.inputs.size(); ++i) {
            std::size_t adds = 0;
            for (std::size_t j = 0; j < lines.size(); ++j) adds += is_left[j] && lines[j].detections[i] >= needed[j];
            if (adds > most) best = i, most = adds;
        }
        for (std::size_t j = 0; j < lines.size(); ++j) {
            if (lines[j].detections[best] >= needed[j]) is_left[j] = false;
        }
        chosen.push_back(best);
    }
    while (coverage.weakness(chosen, Power::structure).is_unguaranteed) {
        const auto guaranteed = [&](std::size_t i) {
            const Fitness& fitness = coverage.powers[i].fitness;
            const bool is_chosen = std::find(chosen.begin(), chosen.end(), i) != chosen.end();
            return is_chosen ? 0 : fitness.counted * (0.5 - fitness.lost_share);
        };
        std::size_t best = 0;
        for (std::size_t i = 1; i < coverage.powers.size(); ++i) {
            if (guaranteed(i) > guaranteed(best)) best = i;
        }
        if (guaranteed(best) <= 0) break;
        chosen.push_back(best);
    }
    return chosen;
}

Weakness Coverage::weakness(std::span<const std::size_t> inputs, Power require) const {
    std::vector<const InputPower*> chosen;
    for (const std::size_t i : inputs) {
        if (i < powers.size()) chosen.push_back(&powers[i]);
    }
    return weakness_of(chosen, require);
}

}  // namespace macheps::check
