// SPDX-License-Identifier: Apache-2.0
// What each output may be: a problem is a declaration with its data, and its limits follow from both.
#pragma once
#include "core/thread_pool.hpp"
#include "experiments/check/operations.hpp"
#include "experiments/check/products.hpp"

#include <memory>
#include <string>
#include <vector>

namespace macheps::check {

struct Problem {
    Declaration declaration{};
    Format output = fp32;
    std::int64_t rows = 0, columns = 0;  ///< of the lists: a row has so many elements
    std::int64_t group_rows = 0;         ///< rows of one batch, judged apart from the others
    std::vector<Input> inputs{};
    std::optional<std::int64_t> changed_canary{};  ///< the first element behind the output that the kernel wrote to
    std::shared_ptr<const Products> products{};

    bool is_one_per_row() const { return declaration.operation->is_one_per_row; }
    std::int64_t outputs() const { return is_one_per_row() ? rows : rows * columns; }
};

/// Of every output, in order.
struct Limits {
    Format format = fp32;
    bool is_narrow = false;  ///< the output is rounded once more than what the list computes
    bool saturates = false;
    std::int64_t rows = 0, columns = 0, group_rows = 0;  ///< how the outputs lie
    std::vector<double> exact{}, low{};                  ///< the exact result is their sum, to within the certificate
    std::vector<double> before{};                        ///< certain bound of the error before the last rounding
    std::vector<double> certain{}, probable{};
    std::vector<double> deviation{};  ///< what errors are scaled by in mean squares
    std::int64_t escalated = 0;       ///< outputs that were computed again, as exact integers
    /// The first output whose bound is infinite, or whose reference is not certain enough: nothing can be said of it.
    std::int64_t declined = -1;

    std::int64_t size() const { return rows * columns; }
    bool is_exact(std::size_t i) const { return before[i] == 0; }
};

/// `delta`: the probability with which any probable bound may be exceeded by a legal kernel, over all outputs.
Limits limits_of(const Problem& problem, double delta, ThreadPool& pool);

/// Exact results of a kernel with that defect.
std::vector<double> mutated(const Problem& problem, const Defect& defect, ThreadPool& pool);

/// x as a kernel stores it: rounded to nearest even; overflow as the limits say.
double stored(const Limits& limits, double x);
/// Numbers of this magnitude, and greater ones, overflow.
double overflow_threshold(const Format& format);

}  // namespace macheps::check
