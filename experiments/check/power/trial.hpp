// SPDX-License-Identifier: Apache-2.0
// Tries wrong kernels, to find out whether the tests of a check would refuse them. The outputs are computed part by
// part. Once a fault shows in a part, the remaining parts are skipped.
#pragma once
#include "experiments/check/power/mutated.hpp"
#include "experiments/check/power/power.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A wrong kernel that computes its outputs one part at a time.
struct WrongKernel {
    std::string name{};
    std::string_view kind{};
    Power required_by = Power::structure;
    /// Computes the results of a range of outputs before the last rounding.
    std::function<void(const OutputRange& range, std::span<double> exact)> results{};
    /// Returns the number that the kernel stores for output i. Default: rounds the result as the declaration says.
    std::function<double(std::size_t i, double exact)> store{};
    OutputRange changes{};      ///< outputs that may be wrong; empty: all outputs
    bool is_simulated = false;  ///< the effect depends on the order of summation, so the fault cannot be certified
    std::size_t parts = 0;      ///< the kernel is tried only on the first `parts` parts; 0: on all parts
    bool has_other_bits =
        false;  ///< stored numbers are compared with the claimed machine's outputs, not with the exact results
};

class Trial {
  public:
    /// `parts` are consecutive ranges of the outputs. `bits` holds the outputs of the claimed machine, or is null.
    /// `premise` decides whether T2 and T3 apply; if it is null, they always apply.
    Trial(const Limits& limits, std::vector<OutputRange> parts, const MachineOutputs* bits, ThreadPool& pool,
          std::vector<Mutant>& mutants, Premise* premise = nullptr)
        : limits_(limits),
          parts_(std::move(parts)),
          bits_(bits),
          pool_(pool),
          mutants_(mutants),
          premise_(premise),
          stored_(limits) {}

    const Limits& limits() const { return limits_; }
    std::int64_t rows() const { return limits_.rows; }
    std::int64_t columns() const { return limits_.columns; }
    ThreadPool& pool() const { return pool_; }

    void add(const WrongKernel& wrong);
    /// Adds a wrong kernel with given results, one for each output of this trial.
    void add(std::string name, std::string_view kind, Power by, const std::vector<double>& exact,
             bool is_simulated = false);
    /// Adds a wrong kernel that these inputs cannot expose. It counts as not caught.
    void add_unseen(std::string name, std::string_view kind, Power by) {
        mutants_.push_back({.name = std::move(name), .kind = kind, .required_by = by});
    }

  private:
    double largest_change(const OutputRange& range, std::span<const double> exact) const;
    bool store(const WrongKernel& wrong, const OutputRange& range, std::span<const double> exact,
               std::span<double> outputs) const;
    bool is_code_changed(const WrongKernel& wrong, const OutputRange& range, std::span<const double> exact,
                         std::span<const double> outputs) const;

    const Limits& limits_;
    std::vector<OutputRange> parts_;
    const MachineOutputs* bits_;
    ThreadPool& pool_;
    std::vector<Mutant>& mutants_;
    Premise* premise_;
    Storing stored_;
    /// Buffers for the current wrong kernel. They are reused, because allocating memory is slow. `float` holds every
    /// output exactly, because no output format is wider than fp32.
    std::vector<double> exact_{}, stored_part_{};
    std::vector<float> outputs_{};
};

}  // namespace macheps::check
