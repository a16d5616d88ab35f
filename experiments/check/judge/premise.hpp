// SPDX-License-Identifier: Apache-2.0
// The probable bounds (T2) and the mean squares (T3) assume independent rounding errors. On structured data they are
// not independent: a chain over equal terms makes the same error in every step. The assumption is therefore tested on
// the data. The check runs legal kernels of its own (own_kernels.hpp) for the outputs in question. Independent errors
// stay far below the limits. If one of the kernels comes near a limit, the premise does not hold there and the test
// does not decide.
#pragma once
#include "experiments/check/judge/grouped_errors.hpp"
#include "experiments/check/judge/own_kernels.hpp"
#include "experiments/check/verdict.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>

namespace macheps::check {

/// The answers depend only on the problem, not on the outputs under test, on threads or on time. The work is limited to
/// a fixed number of terms. A Premise is not thread-safe.
class Premise {
  public:
    /// `problem` and `limits` must outlive the object. Nothing runs before the first question.
    Premise(const Problem& problem, const Limits& limits);

    /// Returns whether T2 may decide: true unless, at half of these outputs, the error of a legal kernel is a quarter
    /// of what T2 allows. Only some of the outputs are tried if there are many.
    bool holds_at(std::span<const std::int64_t> outputs);
    /// Returns whether T3 may decide on these outputs: true unless the mean square of a legal kernel exceeds that of
    /// independent errors by half of what T3 allows.
    bool holds_for(const OutputBlock& block);

    /// Returns the first dependence that was found, if any.
    const std::optional<Dependence>& dependence() const { return dependence_; }

  private:
    const std::optional<Dependence>& refuted_at(std::int64_t output);
    bool is_refuted(const OutputBlock& block);
    void record(Dependence found);
    double systematic(std::int64_t output);
    std::int64_t affordable(std::int64_t budget) const;
    OwnKernels& kernels();

    const Problem& problem_;
    const Limits& limits_;
    GroupedErrors errors_;
    Storing stored_;
    HalfUlp half_ulp_;
    std::optional<OwnKernels> kernels_{};
    std::map<std::int64_t, std::optional<Dependence>> outputs_{};
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, bool> blocks_{};
    std::int64_t systematic_row_ = -1;
    std::vector<double> systematic_{};
    std::optional<Dependence> dependence_{};
};

}  // namespace macheps::check
