// SPDX-License-Identifier: Apache-2.0
// Functions that describe a machine in words. Host only.
#pragma once
#include "emulation/machine/models.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// Returns the name of the enumerator, such as `truncated` or `fma_chain`.
std::string_view to_string(SumModel model);
/// Returns a description such as `fp32 toward zero`.
std::string_view to_string(Delivery delivery);

/// Description of one step: in sentences, and as a formula of one or more lines.
struct ModelWords {
    std::string_view words, formula;
};
ModelWords describe(SumModel model);

/// Returns the points on which published sources differ, if they can change a result of this machine.
std::vector<DisputedPoint> disputed_points(const Machine& machine);

/// Returns the devices whose captures the machine reproduces. If only some products of an instruction are not zero in
/// the captures, adds their number: `A100, A2 (8 of 16 products)`.
std::string measured_words(const Machine& machine);

/// Returns the bits of a NaN result in a short form for tables, such as `any` or `0x7fffffff`. nan_words() returns a
/// longer description.
std::string nan_text(const Machine& machine);
std::string nan_words(const Machine& machine);

/// Describes which numbers a CPU unit flushes to zero. Returns an empty string if the unit flushes none.
std::string flush_words(const Machine& machine);

/// Describes the evidence that the machine is correct, such as `reproduces published captures of hardware: H100, H200`.
std::string evidence_words(const Machine& machine);

/// Describes the steps of an instruction, such as `1 step of 32` or `2 chained steps of 8`.
std::string step_words(const Machine& machine);

}  // namespace macheps
