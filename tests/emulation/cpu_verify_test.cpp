// SPDX-License-Identifier: Apache-2.0
// Compares the multiply-and-add instructions of the CPU that runs the tests with the machines that emulate them.
#include "core/error.hpp"
#include "core/profile.hpp"
#include "emulation/evidence/cpu/cpu_probe.hpp"
#include "emulation/evidence/operands/mutants.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/record.hpp"
#include "emulation/evidence/traces/recorded.hpp"
#include "emulation/evidence/traces/replay.hpp"
#include "emulation/machine/table.hpp"
#include "tests/test.hpp"

#include <cstdio>
#include <map>
#include <set>

namespace cpu_verify_test {

using namespace macheps;
using namespace macheps::evidence;

namespace {

std::vector<ProbeResult> rows_of(const std::vector<ProbeGroup>& groups, const ProbeOptions& options, double seconds) {
    std::vector<ProbeResult> rows;
    for (const ProbeGroup& group : groups) {
        for (const std::string& instruction : group.instructions) {
            for (ProbeResult& row : run_probe(group, instruction, seconds, options)) rows.push_back(std::move(row));
        }
    }
    return rows;
}

}  // namespace

TEST_CASE("this CPU's units give the bits of their machines or are reported as absent", "[emulation][cpu_units]") {
    constexpr std::uint64_t asked = 200'000;
    const std::vector<ProbeResult> rows = rows_of(cpu_probe_groups(asked), {}, 20);
    REQUIRE((rows.empty() || rows.size() >= cpu_units().size()));
    std::map<std::string, std::uint64_t> results;
    for (const ProbeResult& row : rows) results[row.instruction] += row.trials;
    for (const auto& [name, count] : results) {
        CAPTURE(name, count);
        CHECK((count == 0 || count >= asked));  // if a class has few operands, other classes get more results
    }
    std::set<std::string> equal, absent;
    for (const ProbeResult& row : rows) {
        CAPTURE(row.instruction, row.operands, row.note);
        CHECK((row.verdict == Verdict::equal || row.verdict == Verdict::absent || row.verdict == Verdict::declined));
        CHECK((row.verdict == Verdict::absent) == (row.trials == 0 && row.verdict != Verdict::declined));
        (row.verdict == Verdict::equal ? equal : absent).insert(row.instruction);
    }
    for (const std::string& name : equal) std::printf("verified on this CPU: %s\n", name.c_str());
    for (const std::string& name : absent) std::printf("absent on this CPU: %s\n", name.c_str());
    for (const CpuUnit& unit : cpu_units()) {
        const std::string name = std::string(unit.instr) + "." + std::string(unit.qual);
        CAPTURE(name);
        CHECK((equal.count(name) != 0) == (unit.present() && unit.run != nullptr));
    }
}

TEST_CASE("this CPU differs from every wrong model, and a trace recorded on this CPU refutes each wrong model",
          "[emulation][cpu_units]") {
    for (const CpuUnit& unit : cpu_units()) {
        if (!unit.present() || unit.run == nullptr || unit.feature.find("128") != std::string_view::npos) continue;
        const std::string name = std::string(unit.instr) + "." + std::string(unit.qual);
        const Machine& machine = *find_instruction(unit.arch, unit.instr, unit.qual).machine;
        for (const Mutant& mutant : mutants(machine.sum, unit.k)) {
            std::uint64_t mismatches = 0;
            const auto groups = cpu_probe_groups(19 * 4096, mutant.name);
            for (const ProbeResult& row : run_probe(groups[0], name, 20, {})) mismatches += row.mismatches;
            CAPTURE(name, mutant.name);
            CHECK(mismatches > 0);
        }
        Candidates found;
        ProbeOptions options;
        options.record = [&](const Candidates& candidates) { found = candidates; };
        (void)run_probe(cpu_probe_groups(19 * 4096)[0], name, 20, options);
        const Trace trace = make_trace(found);
        for (const auto& [mutant, count] : trace.refuted) {
            CAPTURE(name, mutant, count);
            CHECK(count >= 2);
        }
        CHECK_NOTHROW(require_evidence(trace));
        const Trace again = parse_trace(trace_text(trace), "memory");
        CHECK(again.rows == trace.rows);
        replay(again, [&](const ProbeResult& row) { CHECK(row.verdict == Verdict::equal); });
        // Results for normal operands alone do not refute every wrong model, so they are not accepted as evidence.
        Candidates everyday = found;
        std::erase_if(everyday.rows, [](const TraceRow& row) { return row.cls != "normal"; });
        if (machine.name == std::string_view("x86.vdpbf16ps")) {
            REQUIRE_FALSE(everyday.rows.empty());
            try {
                require_evidence(make_trace(everyday));
                FAIL("results of one class were accepted as evidence");
            } catch (const Error& error) {
                CHECK(error.exit() == Exit::check_failed);
                CHECK(std::string(error.what()).find("refute the wrong model") != std::string::npos);
            }
        }
    }
    CHECK_THROWS_AS(cpu_probe_groups(0, "no such model"), Error);
}

TEST_CASE("the traces of CPUs in tests/traces agree with the machines, on every engine", "[emulation][cpu_units]") {
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces";
    if (!std::filesystem::exists(folder)) SKIP_TEST("no traces");
    std::size_t rows = 0;
    for (const auto& file : trace_files(folder)) {
        if ((file.extension() == ".zst" && !has_zstd()) || !is_instruction_trace(file)) continue;
        const Trace trace = read_trace(file);
        if (!is_cpu_unit({.arch = trace.form.arch})) continue;
        CAPTURE(file.string());
        rows += trace.rows.size();
        for (const auto& [mutant, count] : trace.refuted) CHECK(count >= 2);
        replay(trace, [&](const ProbeResult& row) {
            CAPTURE(row.note);
            CHECK(row.verdict == Verdict::equal);
        });
        CHECK_FALSE(devices_with_traces(*row_instruction(trace.form).machine, recorded_traces()).empty());
    }
    std::printf("%zu rows of traces of CPUs\n", rows);
}

TEST_CASE("check_on_this_cpu finds no mismatch in the machines that emulate this CPU's units",
          "[emulation][cpu_units]") {
    for (const Machine* machine : all_machines) {
        for (const LiveCheck& check : check_on_this_cpu(*machine)) {
            CAPTURE(machine->name);
            CHECK(is_cpu_unit(*machine));
            CHECK(check.results > 1000);
            CHECK(check.mismatches == 0);
        }
    }
    CHECK_FALSE(cpu_identity().cpu.empty());
}

TEST_CASE("2^30 random results of vdpbf16ps agree with its machine", "[emulation][cpu_units][slow]") {
    std::uint64_t trials = 0, mismatches = 0;
    // Half of the results come from the 512-bit form of the instruction and half from its 128-bit form.
    const auto groups = cpu_probe_groups(std::uint64_t{1} << 29);
    for (const ProbeResult& row : run_probe(groups[0], "vdpbf16ps.k2.f32.bf16.bf16.f32", 1e6, {})) {
        if (row.verdict == Verdict::absent) SKIP_TEST("absent: this CPU has no avx512_bf16");
        trials += row.trials;
        mismatches += row.mismatches;
    }
    std::printf("%llu results\n", static_cast<unsigned long long>(trials));
    CHECK(trials >= std::uint64_t{1} << 30);
    CHECK(mismatches == 0);
}

TEST_CASE("all 2^32 inputs of vcvtneps2bf16 convert as its profile says", "[emulation][cpu_units][slow]") {
    for (const ProbeGroup& group : cpu_probe_groups()) {
        if (group.kind != "convert") continue;
        for (const ProbeResult& row : run_probe(group, "vcvtneps2bf16.k1.bf16.f32", 1e6, {})) {
            if (row.verdict == Verdict::absent) continue;
            CHECK(row.operands == "all 2^32");
            CHECK(row.mismatches == 0);
        }
    }
}

}  // namespace cpu_verify_test
