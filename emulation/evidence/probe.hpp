// SPDX-License-Identifier: Apache-2.0
// Interface of the probes that `macheps verify` runs on a device. All kinds of probes return rows of the type
// ProbeResult.
#pragma once
#include "emulation/evidence/traces/trace_row.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace macheps::evidence {

enum class Verdict : std::uint8_t {
    equal,     ///< every trial returned the model's bits
    differs,   ///< at least one trial returned other bits
    recorded,  ///< no model is claimed; the note contains the observation
    declined,  ///< the device or the library does not support the instruction or problem
    absent,    ///< this CPU lacks the unit, or the library is not installed
    failed,    ///< the probe did not run to completion
};

/// Result of one instruction (or operation, or library call) on one class of operands.
struct ProbeResult {
    std::string kind{};         ///< `matrix`, `sparse`, `convert`, `scalar`, `math`, `question`, `library`
    std::string instruction{};  ///< `wgmma.m64n64k32.f32.e4m3.e4m3`, `cvt.rn.f16.f32`, `__hdiv`
    std::string operands{};     ///< the class of operands: `normal`, `all 2^32`
    std::string model{};        ///< reference of the comparison: name of a Machine or MatmulRule, `codec`, `IEEE 754`
    std::uint64_t trials = 0, mismatches = 0;
    Verdict verdict = Verdict::equal;
    std::string note{};  ///< the first mismatch, the answer to a question, or an error in ulp
    double seconds = 0;
    /// For scalar operations: one sum of result hashes per launch or group of blocks, in order.
    std::vector<std::uint64_t> sums{};
};

/// Raw outputs of a device, for a file of JSON Lines that is evaluated later.
struct Capture {
    std::string name{};    ///< name of the file, without its extension
    std::string header{};  ///< a JSON object; the writer of the file adds the origin and the date
    std::string lines{};   ///< JSON objects, each followed by a newline
};

struct ProbeOptions {
    int device = 0;
    std::string only{};    ///< glob that selects probes by `kind:instruction`; empty: all
    double seconds = 180;  ///< time for all probes together, divided evenly among them
    std::uint64_t seed = 1;
    bool fault = false;  ///< for tests: the models are deliberately wrong
    /// Receives operands and results from which a trace may be made. If empty, nothing is kept.
    CandidateSink record{};
    /// Receives raw outputs that are evaluated later. If empty, nothing is kept.
    std::function<void(const Capture&)> keep{};
    bool only_captures = false;  ///< probes of libraries only keep the outputs, without comparing them with rules
};

/// Function that is called with each row as soon as the row is known.
using ProbeSink = std::function<void(const ProbeResult&)>;

/// Group of instructions or operations whose probes share code.
struct ProbeGroup {
    std::string kind{};
    std::vector<std::string> instructions{};
    /// Runs one instruction for about `seconds`. Throws Error if the device fails.
    std::function<void(const std::string& instruction, double seconds, const ProbeOptions&, const ProbeSink&)> run{};
    /// Returns whether an instruction is a variant of an instruction that has a trace. If the function is empty, no
    /// instruction is a variant.
    std::function<bool(const std::string& instruction)> is_variant{};
};

/// Runs one instruction and returns its rows. If the probe throws an Error, the last row has the verdict `failed`. The
/// Error is rethrown if all other instructions would fail as well: if the device is missing, or if the trace cannot be
/// written.
std::vector<ProbeResult> run_probe(const ProbeGroup& group, const std::string& instruction, double seconds,
                                   const ProbeOptions& options);

}  // namespace macheps::evidence
