// SPDX-License-Identifier: Apache-2.0
// Tries wrong kernels: would the tests have refused them? If a fault shows in the first parts of the outputs, the rest
// is not searched.
#pragma once
#include "experiments/check/power/mutated.hpp"
#include "experiments/check/power/power.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// A wrong kernel, which computes its outputs a part at a time.
struct WrongKernel {
    std::string name{};
    std::string_view kind{};
    Power required_by = Power::structure;
    /// Computes the results of a range of outputs before the last rounding.
    std::function<void(const OutputRange& range, std::span<double> exact)> results{};
    /// Returns the number that is stored for output i. Default: the result, rounded as the limits say.
    std::function<double(std::size_t i, double exact)> store{};
    OutputRange changes{};      ///< the outputs that may be wrong; empty: any
    bool is_simulated = false;  ///< the fault cannot be certified
    std::size_t parts = 0;      ///< number of parts that it is tried on, from the first; 0: all
    bool has_other_bits =
        false;  ///< stored numbers are compared with the claimed machine's outputs, not with the right results
};

class Trial {
  public:
    /// `parts` are parts of the outputs, in order. `bits` are the outputs of the claimed machine, or null. `premise`
    /// says whether T2 and T3 decide.
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
    /// Adds a wrong kernel that these inputs cannot show. It counts as not caught.
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
    /// Buffers for the kernel on trial. They are reused, because new memory is slow. float holds outputs exactly: no
    /// format of an output is wider than fp32.
    std::vector<double> exact_{}, stored_part_{};
    std::vector<float> outputs_{};
};

}  // namespace macheps::check
