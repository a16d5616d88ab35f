// SPDX-License-Identifier: Apache-2.0
// Wrong kernels on trial: would the tests have refused them? A fault that shows itself in the first part of the outputs is not
// sought in the rest.
#pragma once
#include "experiments/check/power/mutated.hpp"
#include "experiments/check/power/power.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::check {

/// What a wrong kernel makes, some outputs at a time.
struct WrongKernel {
    std::string name{};
    std::string_view kind{};
    Power required_by = Power::structure;
    /// Its results before the last rounding, of these outputs.
    std::function<void(const OutputRange& range, std::span<double> exact)> results{};
    /// What it stores of output i; else its result as the limits say.
    std::function<double(std::size_t i, double exact)> store{};
    OutputRange changes{};      ///< it leaves all other outputs as they are; empty: it may change any
    bool is_simulated = false;  ///< nothing is certified by it
    std::size_t parts = 0;      ///< number of parts that it is tried on, from the first; 0: all
    bool has_other_bits =
        false;  ///< what it stores is compared with a claimed machine's bits, not with the right results'
};

class Trial {
  public:
    /// `parts` are parts of the outputs, in order. `bits` are the outputs of the claimed machine, or null. `premise` says whether T2
    /// and T3 decide.
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
    /// One whose results are known: the first of all outputs, or all of them.
    void add(std::string name, std::string_view kind, Power by, const std::vector<double>& exact,
             bool is_simulated = false);
    /// What these inputs have nothing to show of.
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
    /// Buffers for the kernel on trial. They are reused, because new memory is slow. float holds outputs exactly: no format of an
    /// output is wider than fp32.
    std::vector<double> exact_{}, stored_part_{};
    std::vector<float> outputs_{};
};

}  // namespace macheps::check
