// SPDX-License-Identifier: Apache-2.0
#include "experiments/check/bounds/step_model.hpp"

#include <algorithm>
#include <cmath>

namespace macheps::check {

namespace {

double delivered(Delivery delivery) {
    switch (delivery) {
        case Delivery::fp32_toward_zero:
            return 2 * fp32.unit_roundoff();
        case Delivery::e8m13_toward_zero:
            return 0x1p-13;
        case Delivery::fp16_nearest_even:
            return fp16.unit_roundoff();
        case Delivery::bf16_nearest_even:
            return bf16.unit_roundoff();
        case Delivery::fp64_nearest_even:
            return fp64.unit_roundoff();
        default:
            return fp32.unit_roundoff();
    }
}

}  // namespace

std::optional<StepModel> step_model(const Machine& machine) {
    const SumRule& sum = machine.sum;
    StepModel step{.terms = std::max(std::min(sum.terms, machine.k), 1),
                   .unit = Format::power_of_two(-sum.fraction_bits),
                   .min_top = Format::power_of_two(std::max(sum.zero_exponent, sum.addend.emin())),
                   .of_sum = delivered(sum.delivery)};
    step.is_one_sided = sum.delivery == Delivery::fp32_toward_zero || sum.delivery == Delivery::e8m13_toward_zero;
    const double u = fp32.unit_roundoff();
    switch (sum.model) {
        case SumModel::fma_chain:
            if (!sum.is_plain_chain()) return {};
            step.terms = 1;
            return step;
        case SumModel::exact_step:
            return step;
        case SumModel::truncated:
            step.cuts_products = true;
            step.other_cuts = 1;
            return step;
        case SumModel::scaled_groups:
            step.other_cuts = 1 + step.terms / 16.0;
            return step;
        case SumModel::through_fp16:
            step.terms = machine.k;
            step.cuts_products = step.starts_anew = true;
            step.other_cuts = 1;
            step.of_step = 2 * step.of_sum;
            step.of_sum = machine.result.unit_roundoff();
            step.is_one_sided = false;
            return step;
        case SumModel::flushed_pairs:
            step.of_step = (1 + std::log2(step.terms)) * u * (1 + 8 * u);
            return step;
        case SumModel::floored:  // cuts C at the step's unit, and the sum of products at 2^-8 units
        case SumModel::floored_even_odd:
            step.cuts_products = true;
            step.other_cuts = sum.model == SumModel::floored ? 1 + 0x1p-8 : 4;
            step.min_top = Format::power_of_two(-126);
            step.of_sum = u + 0x1p-31 + 0x1p-32;
            return step;
        default:
            return {};
    }
}

}  // namespace macheps::check
