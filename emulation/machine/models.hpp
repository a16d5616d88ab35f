// SPDX-License-Identifier: Apache-2.0
// Table of the sum models, with a description and error bounds for each. The computation of a model is defined in
// emulation/machine/step.hpp or, if the model sums a whole matmul at once, in emulation/matmul/matmul.hpp. To add a
// model, add an enumerator to SumModel, a function in one of these two files, a row in models.cpp, and optionally fast
// kernels. Host only.
#pragma once
#include "emulation/machine/machine.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A point on which published sources differ.
struct DisputedPoint {
    std::string_view field;  ///< name of the field of SumRule
    std::string question{};
    std::string taken{};   ///< the behaviour of this machine's row
    std::string others{};  ///< what other sources say
};

/// Kind of a local error: which magnitudes it is relative to, and whether it has a fixed sign or a mean of zero.
enum class ErrorKind : std::uint8_t {
    nearest,   ///< a sum rounded to nearest: at most `size` times the sum of the magnitudes added so far
    unbiased,  ///< a sum rounded stochastically: the bound is that of `nearest`, and the mean error is zero
    cut_sum,   ///< a sum rounded toward zero or down: the bound is that of `nearest`, and the sign is fixed
    /// An addend truncated to the unit of its step: like `cut_sum`, but a subnormal factor counts as the smallest
    /// normal number of its format, because the exponent of that number determines the unit.
    cut_term,
};

/// `count` local errors of at most `size` each.
struct ModelError {
    double count = 0, size = 0;
    ErrorKind kind = ErrorKind::nearest;
};

/// Upper bounds on all errors of a chain of instructions over k terms, if nothing overflows.
struct ModelErrors {
    std::vector<ModelError> relative{};
    double underflow = 0;           ///< total additional error caused by results below the smallest normal number
    bool flushes_operands = false;  ///< a product with a subnormal factor is lost entirely
};

struct SumModelRow {
    SumModel model = SumModel::fma_chain;
    std::string_view name;            ///< name of the enumerator
    std::string_view words, formula;  ///< one step, described in sentences and as a formula of one or more lines
    /// Returns the local errors of a chain of instructions over k terms that starts from +0.
    ModelErrors (*errors)(const Machine& machine, std::int64_t k) = nullptr;
    /// Describes the steps of an instruction, such as `1 step of 32` or `2 chained steps of 8`.
    std::string (*steps)(const Machine& machine) = nullptr;
    /// Returns the points on which published sources differ, if they can change a result of this machine.
    std::vector<DisputedPoint> (*disputed)(const Machine& machine) = nullptr;
};

/// Returns the rows in the order of SumModel.
std::span<const SumModelRow> all_sum_models();
const SumModelRow& row_of(SumModel model);

}  // namespace macheps
