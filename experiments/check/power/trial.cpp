// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/power/trial.hpp"

#include "experiments/check/judge/grid.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::check {

/// Returns the largest difference between a wrong and a correct result, in units of the certain bound. Ignores
/// differences that involve NaN, which T0 judges.
double Trial::largest_change(const OutputRange& range, std::span<const double> exact) const {
    double most = 0;
    in_parts(
        range.last - range.first, pool_,
        [&](std::size_t first, std::size_t last) {
            double largest = 0;
            for (std::size_t j = first; j < last; ++j) {
                const std::size_t i = static_cast<std::size_t>(range.first) + j;
                const double change = std::fabs(exact[j] - limits_.exact[i]);
                if (change > largest * limits_.certain[i]) largest = std::max(largest, change / limits_.certain[i]);
            }
            return largest;
        },
        [&](double largest) { most = std::max(most, largest); });
    return most;
}

/// Writes the numbers that the wrong kernel stores to `outputs`. Returns true if any of them differs from the number
/// that an ideal kernel stores.
bool Trial::store(const WrongKernel& wrong, const OutputRange& range, std::span<const double> exact,
                  std::span<double> outputs) const {
    bool is_other = false;
    in_parts(
        range.last - range.first, pool_,
        [&](std::size_t first, std::size_t last) {
            bool differs = false;
            for (std::size_t j = first; j < last; ++j) {
                const std::size_t i = static_cast<std::size_t>(range.first) + j;
                outputs[j] = wrong.store ? wrong.store(i, exact[j]) : stored_(exact[j]);
                const double right = stored_(limits_.exact[i]);
                differs = differs || !(outputs[j] == right || (std::isnan(outputs[j]) && std::isnan(right)));
            }
            return differs;
        },
        [&](bool differs) { is_other = is_other || differs; });
    return is_other;
}

/// Returns true if bits are claimed and the fault changes the code of an output.
bool Trial::is_code_changed(const WrongKernel& wrong, const OutputRange& range, std::span<const double> exact,
                            std::span<const double> outputs) const {
    if (bits_ == nullptr) return false;
    for (std::size_t j = 0; j < exact.size(); ++j) {
        const std::size_t i = static_cast<std::size_t>(range.first) + j;
        if (wrong.has_other_bits ? outputs[j] != bits_->outputs[i] && outputs[j] == outputs[j]
                                 : exact[j] != limits_.exact[i] && outputs[j] != stored_(limits_.exact[i]))
            return true;
    }
    return false;
}

void Trial::add(const WrongKernel& wrong) {
    Mutant mutant{.name = wrong.name, .kind = wrong.kind, .required_by = wrong.required_by};
    const auto is_certain = [&](const OutputRange& range) {
        exact_.resize(range.size());
        wrong.results(range, exact_);
        mutant.largest = std::max(mutant.largest, largest_change(range, exact_));
        // If the fault changes an output by more than twice its bound, T1 refuses that output, whatever else the kernel
        // does.
        return mutant.largest > 2;
    };
    bool is_certified = !wrong.changes.is_empty() && is_certain(wrong.changes), is_other = false,
         is_found = is_certified;
    // A fault of structure or scale is tried on all parts until one part certifies it. Other faults are tried only
    // until the tests refuse an output.
    const bool must_be_certain = wrong.kind == "structure" || wrong.kind == "scale";
    const std::size_t count = wrong.parts == 0 ? parts_.size() : std::min(wrong.parts, parts_.size());
    for (std::size_t p = 0; p < count && !is_found; ++p) {
        const OutputRange& part = parts_[p];
        is_certified = is_certain(part);
        if (is_certified) break;
        outputs_.reserve(static_cast<std::size_t>(limits_.size()));
        outputs_.resize(static_cast<std::size_t>(part.last));
        stored_part_.resize(part.size());
        const std::span<double> stored = stored_part_;
        const bool differs = store(wrong, part, exact_, stored);
        std::transform(stored.begin(), stored.end(), outputs_.begin() + part.first,
                       [](double x) { return static_cast<float>(x); });
        is_other = is_other || differs;
        mutant.caught = mutant.caught || is_code_changed(wrong, part, exact_, stored) ||
                        (differs && refuses_any(limits_, part.first, stored, premise_));
        is_found = mutant.caught && !must_be_certain;
    }
    // The tests of single outputs accept all outputs, but T3 may refuse them together.
    if (!is_certified && !mutant.caught && is_other && count == parts_.size())
        mutant.caught = !judge(limits_, outputs_,
                               {.premise = premise_, .stops_at_first = true, .only_together = true, .pool = &pool_})
                             .reasons.empty();
    mutant.certified = is_certified && !wrong.is_simulated;
    mutant.caught = mutant.caught || is_certified;
    mutants_.push_back(std::move(mutant));
}

void Trial::add(std::string name, std::string_view kind, Power by, const std::vector<double>& exact,
                bool is_simulated) {
    add({.name = std::move(name),
         .kind = kind,
         .required_by = by,
         .results = [&](const OutputRange& range,
                        std::span<double> out) { std::copy_n(exact.begin() + range.first, range.size(), out.begin()); },
         .is_simulated = is_simulated});
}

}  // namespace macheps::check
