// SPDX-License-Identifier: Apache-2.0
// Test T4: compares the bits of outputs with those that a kernel claims. A matrix product claims the bits of an
// emulated machine, so the emulation computes the expected outputs. An operation on rows claims the bits of fp32
// arithmetic. The references and bounds of the other tests do not use the emulation.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/judge/judge.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

/// Outputs of the declared machine: fp32 numbers before the final rounding, and numbers of the output format after the
/// final rounding.
struct MachineOutputs {
    std::vector<float> before{};
    std::vector<double> outputs{};
    /// Second values that also count as correct, with the index of the output as key. An output has one if it depends
    /// on a function value that is not known precisely enough to round it to fp32.
    std::map<std::int64_t, double> others{};

    /// Replaces each output by its second correct value (see `others`) if the kernel returned that value.
    void agree(const Format& format, NumberView got);
};

/// Returns the outputs of the declared machine. Errors: throws Declined if the declaration does not determine the bits.
/// Examples are a machine that allows several orders of summation, scales that may be applied in any order, and an
/// epilogue that no machine specifies. For operations on rows, see fp32_outputs().
MachineOutputs machine_outputs(const Problem& problem, ThreadPool& pool);

BitsCount compare_bits(const Format& format, NumberView got, NumberView want);

/// Returns a reason with the code KC040 if the code of any output differs from the machine's, otherwise nothing.
std::optional<Reason> bits_reason(const Problem& problem, const BitsCount& bits, NumberView got, NumberView want);

}  // namespace macheps::check
