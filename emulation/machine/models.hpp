// SPDX-License-Identifier: Apache-2.0
// The sum models as rows: what people and bounds need to know of each. What a model computes is in
// emulation/machine/step.hpp, or in emulation/matmul/matmul.hpp for a model of whole matmuls. A new model is an
// enumerator, its function there, a row in models.cpp, and whatever fast kernels it gets. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A point where published sources differ.
struct DisputedPoint {
    std::string_view field;  ///< of SumRule
    std::string question{};
    std::string taken{};   ///< what this row does
    std::string others{};  ///< what other sources say
};

/// What a local error is relative to, and whether it has a mean.
enum class ErrorKind : std::uint8_t {
    nearest,   ///< a sum rounded to nearest: at most `size` of the magnitudes that were added so far
    unbiased,  ///< a sum rounded stochastically: at most `size` of the same, and of mean zero
    cut_sum,   ///< a sum cut toward zero or down: below `size` of the same, and of one sign
    cut_term,  ///< an addend cut at the unit of its step: as `cut_sum`, of magnitudes in which a subnormal factor
               ///< counts as the least normal number of its format, since that sets the unit
};

/// `count` local errors of at most `size` each.
struct ModelError {
    double count = 0, size = 0;
    ErrorKind kind = ErrorKind::nearest;
};

/// All that a chain of instructions over k terms can lose while nothing overflows.
struct ModelErrors {
    std::vector<ModelError> relative{};
    double underflow = 0;           ///< what results below the least normal number lose besides, added up
    bool flushes_operands = false;  ///< a product with a subnormal factor is lost whole
};

struct SumModelRow {
    SumModel model = SumModel::fma_chain;
    std::string_view name;            ///< the enumerator's
    std::string_view words, formula;  ///< what one step computes: a sentence or two; one or more lines
    /// The local errors of a chain of instructions over k terms, from +0.
    ModelErrors (*errors)(const Machine& machine, std::int64_t k) = nullptr;
    /// The steps that an instruction is made of: `1 step of 32`, `2 chained steps of 8`.
    std::string (*steps)(const Machine& machine) = nullptr;
    /// The points in dispute that can change a result of this machine.
    std::vector<DisputedPoint> (*disputed)(const Machine& machine) = nullptr;
};

/// In the order of SumModel.
std::span<const SumModelRow> all_sum_models();
const SumModelRow& row_of(SumModel model);

}  // namespace macheps
