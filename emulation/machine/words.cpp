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
        case Evidence::emulated:
            return "emulated";
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

/// If only the first products of an instruction are nonzero in the captures, returns a note that the captures do not
/// show how the instruction is split into steps. Otherwise returns an empty string.
std::string untold(const Machine& machine) {
    const int live = machine.captured_terms;
    if (live == 0 || live >= machine.k) return {};
    // `other` splits the instruction into other steps but gives the same results on the captures. If a step of the
    // machine has at most `live` products, `other` has one step over the whole instruction. Otherwise its steps have
    // `live` products each.
    Machine other = machine;
    other.sum.terms = machine.sum.terms <= live ? machine.k : live;
    return fmt::format(". Only the first {} of {} products are nonzero in them, so {} and {} cannot be distinguished",
                       live, machine.k, step_words(machine), step_words(other));
}

}  // namespace

std::string measured_words(const Machine& machine) {
    std::string words(machine.measured);
    if (machine.captured_terms != 0 && machine.captured_terms < machine.k) {
        words += fmt::format(" ({} of {} products)", machine.captured_terms, machine.k);
    }
    return words;
}

std::string nan_text(const Machine& machine) {
    switch (machine.sum.nan) {
        case NanRule::canonical_7fffffff:
            return machine.result == fp16 ? "0x7fff" : "0x7fffffff";
        case NanRule::default_7fc00000:
            return "0x7fc00000";
        case NanRule::first_operand:
            return machine.result == fp16 ? "first operand, else 0xfe00" : "first operand, else 0xffc00000";
        default:
            return "any";
    }
}

std::string nan_words(const Machine& machine) {
    if (machine.sum.nan == NanRule::any) return "any payload";
    if (machine.sum.nan != NanRule::first_operand) return nan_text(machine);
    return fmt::format("the first NaN of a, b and C in each step, made quiet; {} if there is none",
                       machine.result == fp16 ? "0xfe00" : "0xffc00000");
}

std::string flush_words(const Machine& machine) {
    std::string words;
    if (machine.sum.flush_operands) words = "subnormal operands and C (in fp32) become zeros of their sign";
    if (machine.sum.flush_results != ResultFlush::no) {
        constexpr const char* when[] = {"", "before rounding", "after rounding", "after rounding to a subnormal"};
        words += fmt::format("{}results below 2^-126 {}", words.empty() ? "" : "; ",
                             when[static_cast<int>(machine.sum.flush_results)]);
    }
    return words;
}

std::string evidence_words(const Machine& machine) {
    switch (machine.evidence) {
        case Evidence::definition:
            return "it consists of IEEE operations, so there is nothing to check";
        case Evidence::hardware:
            if (machine.source.substr(0, 6) == "traces")
                return fmt::format("reproduces traces that this program recorded: {}{}", machine.measured,
                                   untold(machine));
            return fmt::format("reproduces {}captures of hardware: {}{}", is_cpu_unit(machine) ? "" : "published ",
                               machine.measured, untold(machine));
        case Evidence::published:
            // The models of GPU units come from experiments, the models of CPU units from the vendor's documents.
            return is_cpu_unit(machine)
                       ? "follows the vendor's description of the instruction; not compared with a capture"
                       : "follows a model that its authors tested on hardware; not compared with a public capture";
        case Evidence::emulated:
            return fmt::format(
                "reproduces captures of {}, an independent emulator of the architecture; not compared with hardware",
                machine.measured);
        default:
            return "follows the model of a related type; the behaviour of this type has not been published";
    }
}

}  // namespace macheps
