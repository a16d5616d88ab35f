// SPDX-License-Identifier: Apache-2.0
// The bits of a claimed machine, or of row operations in fp32 (T4). The emulation computes them, because it is what the
// kernel claims. The references and bounds of the other tests do not use it.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/judge/judge.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

/// Outputs of the declared machine: the fp32 numbers before the last rounding, and the numbers after it.
struct MachineOutputs {
    std::vector<float> before{};
    std::vector<double> outputs{};
    /// By output: a second correct number, if the known digits of a function do not decide its rounding.
    std::map<std::int64_t, double> others{};

    /// Replaces an output by the second correct number if the kernel returned that one.
    void agree(const Format& format, NumberView got);
};

/// Returns the outputs of the declared machine. Errors: throws Declined if the declaration does not determine bits: any
/// machine, scales in any order, an epilogue that no machine's rule has; for row operations, as fp32_outputs() does.
MachineOutputs machine_outputs(const Problem& problem, ThreadPool& pool);

BitsCount compare_bits(const Format& format, NumberView got, NumberView want);

/// Returns KC040 if an output has another code than the machine's.
std::optional<Reason> bits_reason(const Problem& problem, const BitsCount& bits, NumberView got, NumberView want);

}  // namespace macheps::check
