// SPDX-License-Identifier: Apache-2.0
// The tests of probable bounds (T2) and mean squares (T3) assume independent rounding errors. On structured data,
// errors are not independent: a chain over equal terms makes the same error in every step. The check therefore tests
// this premise on the data. It computes the outputs in question with legal kernels (own_kernels.hpp). Independent
// errors stay far below the limits. If a legal kernel comes near a limit, the premise does not hold for these outputs,
// and T2 or T3 is dismissed there.
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

/// Tests whether rounding errors are independent. The results depend only on the problem, and not on the kernel's
/// outputs, the number of threads or the time. The work is limited to a fixed number of added terms. A Premise is not
/// thread-safe.
class Premise {
  public:
    /// `problem` and `limits` must outlive the object. No legal kernel runs before the first call of holds_at() or
    /// holds_for().
    Premise(const Problem& problem, const Limits& limits);

    /// Returns true if T2 may decide at these outputs. Returns false if, at half of them or more, the error of a legal
    /// kernel exceeds a quarter of the error that T2 allows. If there are many outputs, only some of them are tried.
    bool holds_at(std::span<const std::int64_t> outputs);
    /// Returns true if T3 may decide on these outputs. Returns false if the mean square of a legal kernel exceeds that
    /// of independent errors by more than half of the excess that T3 allows.
    bool holds_for(const OutputBlock& block);

    /// Returns the first legal kernel that showed dependent errors, if any.
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
