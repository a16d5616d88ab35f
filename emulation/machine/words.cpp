// SPDX-License-Identifier: Apache-2.0
#include "emulation/machine/words.hpp"

#include <fmt/format.h>

namespace macheps {

std::string_view to_string(Evidence evidence) {
    switch (evidence) {
        case Evidence::definition:
            return "definition";
        case Evidence::hardware:
            return "hardware";
        case Evidence::published:
            return "published";
        default:
            return "inferred";
    }
}

std::string_view to_string(SumModel model) { return row_of(model).name; }

ModelWords describe(SumModel model) { return {row_of(model).words, row_of(model).formula}; }

std::vector<DisputedPoint> disputed_points(const Machine& machine) {
    return row_of(machine.sum.model).disputed(machine);
}

std::string step_words(const Machine& machine) { return row_of(machine.sum.model).steps(machine); }

std::string_view to_string(Delivery delivery) {
    switch (delivery) {
        case Delivery::fp32_toward_zero:
            return "fp32 toward zero (overflow gives infinity)";
        case Delivery::e8m13_toward_zero:
            return "E8M13 (fp32 with 10 low zero bits) toward zero (overflow gives infinity)";
        case Delivery::fp32_nearest_even:
            return "fp32 to nearest even";
        case Delivery::fp16_nearest_even:
            return "fp16 to nearest even";
        case Delivery::bf16_nearest_even:
            return "bf16 to nearest even";
        default:
            return "fp64 to nearest even";
    }
}

namespace {

/// What captures that end before the last product leave open: how the instruction is cut into steps.
std::string untold(const Machine& machine) {
    const int live = machine.captured_terms;
    if (live == 0 || live >= machine.k) return {};
    // Steps as long as what was captured could be the whole instruction, longer ones chains of that length.
    Machine other = machine;
    other.sum.terms = machine.sum.terms <= live ? machine.k : live;
    return fmt::format(". Only the first {} of {} products are not zero there, which cannot tell {} from {}", live,
                       machine.k, step_words(machine), step_words(other));
}

}  // namespace

std::string measured_words(const Machine& machine) {
    std::string words(machine.measured);
    if (machine.captured_terms != 0 && machine.captured_terms < machine.k) {
        words += fmt::format(" ({} of {} products)", machine.captured_terms, machine.k);
    }
    return words;
}

std::string evidence_words(const Machine& machine) {
    switch (machine.evidence) {
        case Evidence::definition:
            return "made of IEEE operations: there is nothing to check";
        case Evidence::hardware:
            return fmt::format("reproduced on published captures of silicon: {}{}", machine.measured, untold(machine));
        case Evidence::published:
            return "a model that its authors tested on silicon; no public capture is reproduced here";
        default:
            return "the model of a sibling type: nobody has published this type's behaviour";
    }
}

}  // namespace macheps
