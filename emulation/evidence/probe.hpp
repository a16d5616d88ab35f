// SPDX-License-Identifier: Apache-2.0
// Interface of the probes that `macheps verify` runs on a device. All kinds of probes return the same kind of rows.
#pragma once
#include "emulation/evidence/traces/trace_row.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace macheps::evidence {

enum class Verdict : std::uint8_t {
    equal,     ///< every trial returned the model's bits
    differs,   ///< at least one did not
    recorded,  ///< nothing is claimed; the note gives the finding
    declined,  ///< the device or the library does not offer it
    absent,    ///< this CPU has no such unit, or this computer no such library
    failed,    ///< it did not run to its end
};

/// Result of one instruction (or operation, or library call) on one class of operands.
struct ProbeResult {
    std::string kind{};         ///< `matrix`, `sparse`, `convert`, `scalar`, `math`, `question`, `library`
    std::string instruction{};  ///< `wgmma.m64n64k32.f32.e4m3.e4m3`, `cvt.rn.f16.f32`, `__hdiv`
    std::string operands{};     ///< the class of operands: `normal`, `all 2^32`
    std::string model{};        ///< what it is compared with: name of a Machine or MatmulRule, `codec`, `IEEE 754`
    std::uint64_t trials = 0, mismatches = 0;
    Verdict verdict = Verdict::equal;
    std::string note{};  ///< the first mismatch, the answer to a question, an error in ulp
    double seconds = 0;
    /// For scalar operations: one sum of result hashes per launch or group of blocks, in order.
    std::vector<std::uint64_t> sums{};
};

/// Raw outputs of a device, for a file of JSON Lines that is evaluated later.
struct Capture {
    std::string name{};    ///< of the file, without its extension
    std::string header{};  ///< a JSON object; the writer of the file adds the origin and the date
    std::string lines{};   ///< JSON objects, each with its end of line
};

struct ProbeOptions {
    int device = 0;
    std::string only{};    ///< a glob over `kind:instruction`; empty: everything
    double seconds = 180;  ///< for all probes together, shared evenly
    std::uint64_t seed = 1;
    bool fault = false;  ///< for tests: the models are deliberately wrong
    /// Receives operands and results from which a trace may be made. If empty, nothing is kept.
    CandidateSink record{};
    /// Receives raw outputs that are evaluated later. If empty, nothing is kept.
    std::function<void(const Capture&)> keep{};
    bool only_captures = false;  ///< probes of libraries keep outputs but do not compare them with rules
};

/// Called for each row as soon as the row is known.
using ProbeSink = std::function<void(const ProbeResult&)>;

/// Instructions or operations that share code: a list of names, and a function that runs one of them.
struct ProbeGroup {
    std::string kind{};
    std::vector<std::string> instructions{};
    /// Runs one instruction for about `seconds`. Throws Error if the device fails.
    std::function<void(const std::string& instruction, double seconds, const ProbeOptions&, const ProbeSink&)> run{};
    /// Returns whether an instruction is a variant of one that a trace records. If empty, no instruction is one.
    std::function<bool(const std::string& instruction)> is_variant{};
};

/// Returns the rows of one instruction. An Error becomes the last row, with the verdict `failed`. It is thrown instead
/// if all other instructions would fail too: if the device is missing, or if the trace cannot be written.
std::vector<ProbeResult> run_probe(const ProbeGroup& group, const std::string& instruction, double seconds,
                                   const ProbeOptions& options);

}  // namespace macheps::evidence
