// SPDX-License-Identifier: Apache-2.0
// The sum models as rows, for texts and error bounds. emulation/machine/step.hpp defines the computation of a model, or
// emulation/matmul/matmul.hpp for a model of whole matmuls. To add a model, add an enumerator, its function there, a
// row in models.cpp, and optionally fast kernels. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A point on which published sources differ.
struct DisputedPoint {
    std::string_view field;  ///< the field of SumRule
    std::string question{};
    std::string taken{};   ///< what this row does
    std::string others{};  ///< what other sources say
};

/// Kind of a local error: which magnitudes it is relative to, and whether it has a fixed sign or a mean of zero.
enum class ErrorKind : std::uint8_t {
    nearest,   ///< a sum rounded to nearest: at most `size` times the magnitudes added so far
    unbiased,  ///< a sum rounded stochastically: at most `size` times the same, with mean zero
    cut_sum,   ///< a sum cut toward zero or down: below `size` times the same, with one sign
    cut_term,  ///< an addend cut at the unit of its step: as `cut_sum`, relative to magnitudes in which a subnormal
               ///< factor counts as the smallest normal number of its format, since that sets the unit
};

/// `count` local errors of at most `size` each.
struct ModelError {
    double count = 0, size = 0;
    ErrorKind kind = ErrorKind::nearest;
};

/// Upper bounds on all errors of a chain of instructions over k terms, if nothing overflows.
struct ModelErrors {
    std::vector<ModelError> relative{};
    double underflow = 0;           ///< sum of the additional errors of results below the smallest normal number
    bool flushes_operands = false;  ///< a product with a subnormal factor is lost entirely
};

struct SumModelRow {
    SumModel model = SumModel::fma_chain;
    std::string_view name;            ///< name of the enumerator
    std::string_view words, formula;  ///< description of one step: a sentence or two; a formula of one or more lines
    /// Returns the local errors of a chain of instructions over k terms that starts from +0.
    ModelErrors (*errors)(const Machine& machine, std::int64_t k) = nullptr;
    /// Describes the steps of an instruction: `1 step of 32`, `2 chained steps of 8`.
    std::string (*steps)(const Machine& machine) = nullptr;
    /// Returns the disputed points that can change a result of this machine.
    std::vector<DisputedPoint> (*disputed)(const Machine& machine) = nullptr;
};

/// Returns the rows in the order of SumModel.
std::span<const SumModelRow> all_sum_models();
const SumModelRow& row_of(SumModel model);

}  // namespace macheps
