// SPDX-License-Identifier: Apache-2.0
// What `macheps verify` asks of a device and what it gets back: rows that every kind of probe makes alike.
#pragma once
#include "emulation/evidence/traces/trace_row.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace macheps::evidence {

enum class Verdict : std::uint8_t {
    equal,     ///< every trial gave the model's bits
    differs,   ///< at least one did not
    recorded,  ///< nothing is claimed: the note says what was found
    declined,  ///< the device or the library does not offer it
    absent,    ///< this CPU has no such unit, or this computer no such library
    failed,    ///< it did not run to its end
};

/// One instruction (or operation, or library call) on one class of operands.
struct ProbeResult {
    std::string kind{};         ///< `matrix`, `sparse`, `convert`, `scalar`, `math`, `question`, `library`
    std::string instruction{};  ///< `wgmma.m64n64k32.f32.e4m3.e4m3`, `cvt.rn.f16.f32`, `__hdiv`
    std::string operands{};     ///< the class of operands: `normal`, `all 2^32`
    std::string model{};        ///< what it is compared with: a Machine's or a MatmulRule's name, `codec`, `IEEE 754`
    std::uint64_t trials = 0, mismatches = 0;
    Verdict verdict = Verdict::equal;
    std::string note{};  ///< the first mismatch, the answer to a question, an error in ulp
    double seconds = 0;
    /// For scalar operations: one sum of result hashes per launch or group of blocks, in order.
    std::vector<std::uint64_t> sums{};
};

/// Raw outputs of a device, for a file of JSON Lines that is judged later.
struct Capture {
    std::string name{};    ///< of the file, without its extension
    std::string header{};  ///< a JSON object; whoever writes the file adds the origin and the date
    std::string lines{};   ///< JSON objects, each with its end of line
};

struct ProbeOptions {
    int device = 0;
    std::string only{};    ///< a glob over `kind:instruction`; empty: everything
    double seconds = 180;  ///< for all of it, shared evenly
    std::uint64_t seed = 1;
    bool fault = false;  ///< for tests: the models are wrong on purpose
    /// Where operands and results go that a trace may be made of; none: nothing is kept.
    CandidateSink record{};
    /// Receives raw outputs that are judged later. If empty, nothing is kept.
    std::function<void(const Capture&)> keep{};
    bool only_captures = false;  ///< probes of libraries keep outputs, and compare them with no rule
};

/// Called for every row as soon as it is known.
using ProbeSink = std::function<void(const ProbeResult&)>;

/// Instructions or operations that share code: a list of names, and a way to run one of them.
struct ProbeGroup {
    std::string kind{};
    std::vector<std::string> instructions{};
    /// Runs one within about `seconds`; throws Error when the device fails.
    std::function<void(const std::string& instruction, double seconds, const ProbeOptions&, const ProbeSink&)> run{};
    /// Whether an instruction is a variant of one that a trace records; none: nothing is.
    std::function<bool(const std::string& instruction)> is_variant{};
};

/// The rows of one instruction. An Error is its last row, `failed`, unless the next one would fail alike: no device, or
/// a trace that cannot be written.
std::vector<ProbeResult> run_probe(const ProbeGroup& group, const std::string& instruction, double seconds,
                                   const ProbeOptions& options);

}  // namespace macheps::evidence
