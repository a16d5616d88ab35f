// SPDX-License-Identifier: Apache-2.0
// The probable bounds (T2) and the mean squares (T3) take rounding errors for independent. On structured data they are not:
// a chain over equal terms makes the same error in every step. The premise is therefore tested on the data: legal kernels of
// our own run over the outputs in question. If one of them comes near to a limit that independent errors stay far below, the
// premise does not hold there, and the test does not decide.
#pragma once
#include "experiments/check/grouped_errors.hpp"
#include "experiments/check/own_kernels.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>

namespace macheps::check {

/// What a legal kernel of ours does to a test that takes errors for independent.
struct Dependence {
    std::string kernel{}, test{};  ///< its order of summation; T2 or T3
    std::int64_t index = -1;       ///< of the output, or the first of the outputs together
    double ratio = 0;              ///< of the kernel's error, or excess of its mean square, to what the test allows
};

/// The answers depend on the problem alone: not on the outputs under test, on threads or on time. What it runs is bounded by
/// a number of terms. Not for several threads at once.
class Premise {
  public:
    /// Problem and limits must outlive this. Nothing is run before it is asked.
    Premise(const Problem& problem, const Limits& limits);

    /// Whether T2 may decide: true unless at half of these outputs, or of a part of them where there are many, a legal kernel
    /// errs by a quarter of what T2 allows.
    bool holds_at(std::span<const std::int64_t> outputs);
    /// Whether T3 may decide on these outputs: true unless the mean square of a legal kernel exceeds that of independent errors
    /// by half of what T3 allows.
    bool holds_for(const OutputBlock& block);

    /// Where it did not hold: the first that was found.
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
