// SPDX-License-Identifier: Apache-2.0
// The bits of a claimed machine, or of rows in fp32 (T4). Here, and nowhere else in this folder, the emulation is asked: it is
// the claim. The references and bounds of the other tests know nothing of it.
#pragma once
#include "core/host/thread_pool.hpp"
#include "experiments/check/judge/judge.hpp"

#include <map>
#include <optional>
#include <span>
#include <vector>

namespace macheps::check {

/// What the declared machine gives: of every output the fp32 number before the last rounding, and behind it.
struct MachineOutputs {
    std::vector<float> before{};
    std::vector<double> outputs{};
    /// By output: another number that is as good, where the rounding of a function is not decided by what is known of it.
    std::map<std::int64_t, double> others{};

    /// Of two that are as good the kernel's, where it has one of them.
    void agree(const Format& format, NumberView got);
};

/// Errors: throws Declined where the declaration leaves bits open: any machine, scales in any order, an epilogue that no
/// machine's rule knows; of rows what fp32_outputs() says.
MachineOutputs machine_outputs(const Problem& problem, ThreadPool& pool);

BitsCount compare_bits(const Format& format, NumberView got, NumberView want);

/// KC040, where an output has another code than the machine gives.
std::optional<Reason> bits_reason(const Problem& problem, const BitsCount& bits, NumberView got, NumberView want);

}  // namespace macheps::check
