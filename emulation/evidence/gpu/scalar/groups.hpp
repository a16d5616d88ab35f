// SPDX-License-Identifier: Apache-2.0
// Groups of scalar probes for `macheps verify`, on a CudaDevice or (in tests) a HostDevice.
#pragma once
#include "core/error.hpp"
#include "emulation/evidence/gpu/scalar/blocks.hpp"
#include "emulation/evidence/gpu/scalar/function.hpp"
#include "emulation/evidence/probe.hpp"

#include <cinttypes>
#include <cstdio>
#include <iterator>
#include <memory>

namespace macheps::evidence {

/// Limits on the work for one row of the report.
struct ScalarLimits {
    Batches batches{};
    std::uint32_t blocks = sweep::blocks;  ///< for the kind `math`: number of blocks of 2^16 inputs
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

template <class Device>
using DeviceSource = std::function<Device&()>;

namespace detail {

template <class... Args>
std::string print(const char* format, Args... args) {
    char text[200];
    std::snprintf(text, sizeof text, format, args...);
    return text;
}

inline std::string hex(int bits, std::uint64_t code) { return print("%0*" PRIx64, (bits + 3) / 4, code); }

/// Returns the codes of a trial as a text of the form `a b c -> got, model want`.
inline std::string show(const Trial& trial, int operands, int operand_bits, int result_bits) {
    std::string text = hex(operand_bits, trial.a);
    if (operands > 1) text += ' ' + hex(operand_bits, trial.b);
    if (operands > 2) text += ' ' + hex(operand_bits, trial.c);
    return text + " -> " + hex(result_bits, trial.got) + ", model " + hex(result_bits, trial.want);
}

inline std::string counted(std::uint64_t inputs, const ScalarComparison& found, const char* of) {
    if (inputs == 0) return std::string("hard ") + of;
    const int bits = 63 - countl_zero(inputs);
    if (found.complete) return print("all 2^%d ", bits) + of;
    return print("%" PRIu64 " of 2^%d ", found.trials, bits) + of + ", evenly spaced";
}

/// Returns a row with the fields that all kinds of scalar probes share. `operands`, `operand_bits` and `result_bits`
/// determine how mismatches are printed.
inline evidence::ProbeResult result_of(const char* kind, const char* instruction, std::string model,
                                       const ScalarComparison& found, int operands, int operand_bits, int result_bits) {
    evidence::ProbeResult result{
        .kind = kind,
        .instruction = instruction,
        .operands = {},
        .model = std::move(model),
        .trials = found.trials,
        .mismatches = found.mismatches(),
        .verdict = found.mismatches() == 0 ? evidence::Verdict::equal : evidence::Verdict::differs,
        .note = {},
        .seconds = found.seconds,
        .sums = found.hashes};
    if (found.trials == 0) {
        result.sums.clear();
        result.verdict = evidence::Verdict::declined;
        result.note = "not available on this device";
        return result;
    }
    for (const Trial& trial : found.first) {
        const auto k = static_cast<int>(trial.kind);
        if (!result.note.empty()) result.note += "; ";
        result.note += print("%" PRIu64 " ", found.differing[k]) + input_class_names[k] + ", first " +
                       show(trial, operands, operand_bits, result_bits);
    }
    if (found.nan_codes != 0) {
        if (!result.note.empty()) result.note += "; ";
        result.note += print("%" PRIu64 " NaNs with other codes", found.nan_codes);
    }
    return result;
}

/// Completes the row of an operation that does not claim correct rounding. The verdict is `differs` if an error exceeds
/// the bound, and `recorded` otherwise.
inline void record(evidence::ProbeResult& result, const ScalarComparison& found, const std::string& bound, int operands,
                   int operand_bits, int result_bits, const char* unit = " ulp") {
    if (result.verdict == evidence::Verdict::declined) return;
    const Trial& worst = found.worst;
    std::string note = print("%" PRIu64 " not correctly rounded; largest error %.4g", found.mismatches(),
                             static_cast<double>(worst.error)) +
                       unit;
    if (worst.error > 0) note += " at " + show(worst, operands, operand_bits, result_bits);
    if (found.beyond != 0) {
        note = print("%" PRIu64 " beyond ", found.beyond) + bound + ", first " +
               show(found.first_beyond, operands, operand_bits, result_bits) + "; " + note;
    } else {
        note += "; within " + bound;
    }
    if (found.nan_codes != 0) note += print("; %" PRIu64 " NaNs with other codes", found.nan_codes);
    result.note = note;
    result.verdict = found.beyond == 0 ? evidence::Verdict::recorded : evidence::Verdict::differs;
}

template <class Device>
evidence::ProbeResult run_convert(Device& device, const ConvertRow& row, double seconds, const ScalarLimits& limits,
                                  bool fault) {
    const ConvertProbe probe{row, fault};
    const ScalarComparison found = compare(device, probe, probe.inputs(), seconds, limits.batches);
    const bool two = row.elements == Elements::two, wide = row.from.container_bits() >= 32;
    const int from_bits = row.from.container_bits() * (two && !wide ? 2 : 1);
    evidence::ProbeResult result = result_of("convert", row.instruction, row.model.name, found, two && wide ? 2 : 1,
                                             from_bits, packed_bits(row.to) * (two ? 2 : 1));
    result.operands = counted(probe.inputs(), found,
                              row.from.bits == 64 ? "samples near the floats"
                              : two && wide       ? "inputs in each half"
                              : two               ? "pairs"
                                                  : "inputs");
    if (row.nan == NanResult::any && !result.note.empty()) result.note += "; any NaN is accepted";
    return result;
}

template <class Device>
evidence::ProbeResult run_arithmetic(Device& device, const ArithmeticRow& row, double seconds,
                                     const ScalarLimits& limits, const evidence::ProbeOptions& options) {
    const ArithmeticProbe probe{row, options.seed, options.fault};
    const ScalarComparison found = compare(device, probe, probe.inputs(), seconds, limits.batches);
    const int bits = row.format.bits * (row.elements == Elements::two ? 2 : 1);
    evidence::ProbeResult result = result_of("scalar", row.instruction, std::string("IEEE 754 ") + mode_name(row.mode),
                                             found, row.operands(), bits, bits);
    result.operands = counted(probe.inputs(), found, row.operands() == 1 ? "operands" : "tuples");
    if (row.codes != 0) record(result, found, print("%d codes", row.codes), row.operands(), bits, bits);
    return result;
}

inline std::string bound_text(const FunctionRow& row) {
    std::string text;
    const auto term = [&](double value, const char* unit) {
        if (value == 0) return;
        if (!text.empty()) text += " + ";
        text += print("%.3g", value) + unit;
    };
    term(row.relative, " |y|");
    term(row.absolute, "");
    term(row.ulps, " ulp");
    if (row.domain == Domain::turn) text += " up to 2 pi";
    if (row.domain == Domain::moderate) text += " up to 10";
    return text + (row.claim == Claim::gross      ? " (no documented bound)"
                   : row.claim == Claim::exceeded ? " (above the documented bound)"
                                                  : " (documented)");
}

template <class Device>
evidence::ProbeResult run_function(Device& device, const FunctionRow& row, double seconds, const ScalarLimits& limits,
                                   bool fault) {
    const FunctionProbe probe{row, fault};
    const ScalarComparison found = compare(device, probe, probe.inputs(), seconds, limits.batches);
    const int bits = row.format.bits;
    evidence::ProbeResult result = result_of("scalar", row.instruction, "fp64 reference", found, 1, bits, bits);
    result.operands = counted(probe.inputs(), found, "inputs");
    if (row.claim != Claim::correct) {
        record(result, found, bound_text(row), 1, bits, bits, row.absolute_error() ? "" : " ulp");
    }
    if (result.verdict == evidence::Verdict::declined) return result;
    if (found.turns != 0) {
        result.note +=
            print("; not monotonic: %" PRIu64 " steps back, first after ", found.turns) + hex(bits, found.first_turn.a);
    } else if (!fault) {
        result.note += std::string(result.note.empty() ? "" : "; ") + "monotonic";
    }
    return result;
}

template <class Device>
evidence::ProbeResult run_math(Device& device, const sweep::NamedTask& named, double seconds,
                               const ScalarLimits& limits, bool fault) {
    const auto start = sweep::Clock::now();
    const sweep::Spoil spoil{fault ? sweep::Spoil::Which::all : sweep::Spoil::Which::none};
    const sweep::Engine there = sweep::device_engine(device, named.task, spoil, limits.blocks);
    const sweep::Engine here = sweep::host_engine(named.task, sweep::has_fma());
    const auto deadline =
        start + std::chrono::duration_cast<sweep::Clock::duration>(std::chrono::duration<double>(seconds));
    const sweep::Outcome outcome = sweep::compare_blocks(there, here, limits.blocks, limits.threads, deadline);
    evidence::ProbeResult result{
        .kind = "math",
        .instruction = named.name,
        .operands = print("%u of %u blocks of 2^16 inputs, evenly spaced", outcome.compared, sweep::blocks),
        .model = "the same on the host",
        .trials = std::uint64_t{outcome.compared} * sweep::block_inputs,
        .mismatches = outcome.inputs,
        .verdict = outcome.differing == 0 ? evidence::Verdict::equal : evidence::Verdict::differs,
        .note = {},
        .seconds = std::chrono::duration<double>(sweep::Clock::now() - start).count()};
    if (limits.blocks == sweep::blocks) result.sums = sweep::hash_sums(there);
    if (outcome.differing == 0) return result;
    result.note = print("%u blocks differ; the lowest, %04x, differs in %u inputs", outcome.differing, outcome.lowest,
                        outcome.inputs);
    if (!outcome.shown.empty()) {
        const sweep::Difference& first = outcome.shown.front();
        result.note +=
            print(", first %08x -> %016" PRIx64 ", host %016" PRIx64, first.input, first.first, first.second);
    }
    return result;
}

[[noreturn]] inline void unknown(const char* kind, const std::string& instruction) {
    throw Error({.what = "unknown " + std::string(kind) + " probe '" + instruction + "'",
                 .where = "scalar_probe_groups",
                 .fix = "use a name from the list of the group",
                 .exit = Exit::usage});
}

}  // namespace detail

template <class Device>
std::vector<evidence::ProbeGroup> scalar_groups(DeviceSource<Device> device, ScalarLimits limits = {}) {
    evidence::ProbeGroup convert{.kind = "convert", .instructions = {}, .run = {}};
    evidence::ProbeGroup scalar{.kind = "scalar", .instructions = {}, .run = {}};
    evidence::ProbeGroup math{.kind = "math", .instructions = {}, .run = {}};
    for (const ConvertRow& row : convert_rows) convert.instructions.push_back(row.instruction);
    for (const ArithmeticRow& row : arithmetic_rows) scalar.instructions.push_back(row.instruction);
    for (const FunctionRow& row : function_rows) scalar.instructions.push_back(row.instruction);
    for (const sweep::NamedTask& named : sweep::math_tasks()) math.instructions.push_back(named.name);

    convert.run = [=](const std::string& name, double seconds, const evidence::ProbeOptions& options,
                      const evidence::ProbeSink& sink) {
        for (const ConvertRow& row : convert_rows) {
            if (name == row.instruction) {
                return sink(detail::run_convert(device(), row, seconds, limits, options.fault));
            }
        }
        detail::unknown("convert", name);
    };
    scalar.run = [=](const std::string& name, double seconds, const evidence::ProbeOptions& options,
                     const evidence::ProbeSink& sink) {
        for (const ArithmeticRow& row : arithmetic_rows) {
            if (name == row.instruction) {
                return sink(detail::run_arithmetic(device(), row, seconds, limits, options));
            }
        }
        for (const FunctionRow& row : function_rows) {
            if (name == row.instruction) {
                return sink(detail::run_function(device(), row, seconds, limits, options.fault));
            }
        }
        detail::unknown("scalar", name);
    };
    math.run = [=](const std::string& name, double seconds, const evidence::ProbeOptions& options,
                   const evidence::ProbeSink& sink) {
        for (const sweep::NamedTask& named : sweep::math_tasks()) {
            if (name == named.name) return sink(detail::run_math(device(), named, seconds, limits, options.fault));
        }
        detail::unknown("math", name);
    };
    return {convert, scalar, math};
}

}  // namespace macheps::evidence
