// SPDX-License-Identifier: Apache-2.0
// A machine in words: for people who read the table. Host only.
#pragma once
#include "emulation/machine/models.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// `truncated`, `fma_chain`: the enumerator's name.
std::string_view to_string(SumModel model);
/// `fp32 toward zero`
std::string_view to_string(Delivery delivery);

/// What one step computes: a sentence or two, and a formula of one or more lines.
struct ModelWords {
    std::string_view words, formula;
};
ModelWords describe(SumModel model);

/// The disputed points that can change a result of this machine.
std::vector<DisputedPoint> disputed_points(const Machine& machine);

/// The GPUs whose captures are reproduced, and how far those reach where they do not fill an instruction: `A100, A2 (8 of
/// 16 products)`.
std::string measured_words(const Machine& machine);

/// The bits of a NaN result in a table (`any`, `0x7fffffff`), and in words.
std::string nan_text(const Machine& machine);
std::string nan_words(const Machine& machine);

/// What is flushed to zero, as units of CPUs do it; empty: nothing.
std::string flush_words(const Machine& machine);

/// What stands behind the row, such as `reproduced on published captures of silicon (H100, H200)`.
std::string evidence_words(const Machine& machine);

/// The steps that an instruction is made of, such as `1 step of 32`, `2 chained steps of 8`.
std::string step_words(const Machine& machine);

}  // namespace macheps
