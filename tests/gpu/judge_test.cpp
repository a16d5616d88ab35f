// SPDX-License-Identifier: Apache-2.0
// Tests that the diagnosis of recorded traces names the cause of a difference. The tests take traces that were recorded
// on an H100, and replace their results. The new results are those of a wrong model (from the oracle in tests/machine),
// or results of other rows.
#include "emulation/evidence/traces/diagnosis.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/replay.hpp"
#include "tests/machine/oracle.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace judge_test {

using namespace macheps;
namespace oracle = macheps::machine_oracle;

namespace {

evidence::Trace recorded(const std::string& form) {
    return evidence::read_trace(std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests/traces/h100-80gb-hbm3" /
                                ("sm_90." + form + ".jsonl.zst"));
}

/// Returns `trace` with its results replaced by those of a mutated model.
evidence::Trace planted(evidence::Trace trace, oracle::Mutation mutation) {
    const auto instruction = oracle::find_instruction(trace.form.arch, trace.form.instr, trace.form.qual);
    for (evidence::TraceRow& row : trace.rows)
        row.d = oracle::evaluate(instruction, row.a, row.b, row.c, {}, {}, mutation);
    return trace;
}

/// Returns the notes of the rows that differ.
std::vector<std::string> notes_of(const evidence::Trace& trace) {
    std::vector<std::string> notes;
    evidence::replay(trace, [&](const evidence::ProbeResult& row) {
        if (row.verdict == evidence::Verdict::differs) notes.push_back(row.note);
    });
    return notes;
}

}  // namespace

TEST_CASE("the diagnosis names each field of a model that may be wrong", "[gpu][judge]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    using M = oracle::Mutation;
    struct Case {
        const char* form;
        M mutation;
        const char *name, *why;
    };
    constexpr Case cases[] = {
        {"wgmma.m64n8k32.f32.e4m3.e4m3", M::fewer_fraction_bits, "fraction_bits-1", "alignment_edge, swamp"},
        {"wgmma.m64n8k32.f32.e4m3.e4m3", M::more_fraction_bits, "fraction_bits+1", "alignment_edge, swamp"},
        {"wgmma.m64n8k32.f32.e4m3.e4m3", M::split_groups, "terms/2", "close_exponents"},
        {"wgmma.m64n8k32.f32.e4m3.e4m3", M::full_output, "delivery=fp32_toward_zero", "tie"},
        {"wgmma.m64n8k32.f32.e4m3.e4m3", M::product_renormalised, "products_normalised", "close_exponents"},
        {"wgmma.m64n8k16.f32.bf16.bf16", M::nearest_output, "delivery=fp32_nearest_even", "tie"},
        {"wgmma.m64n8k16.f32.bf16.bf16", M::e_zero_lower, "zero_exponent-1", "zeros"},
        {"wgmma.m64n8k16.f32.bf16.bf16", M::e_zero_higher, "zero_exponent+1", "zeros"},
        {"wgmma.m64n8k16.f32.bf16.bf16", M::underflow_minus_zero, "underflow_keeps_sign", "underflow"},
        {"wgmma.m64n8k16.f32.bf16.bf16", M::zero_reads_m126, "zeros_read_-126", "zeros"},
        {"mma.m16n8k16.f32.f16.f16.f32", M::split_groups, "terms/2", "two steps, as on Ampere"},
        {"mma.m16n8k8.f32.tf32.tf32.f32", M::split_groups, "terms/2", "two steps"},
        {"mma.m16n8k32.f32.e4m3.e4m3.f32", M::native_fp8, "sm90.wgmma.fp8", "only fp8 of mma.sync: through_fp16"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.form, c.name, c.why);
        const evidence::Trace right = recorded(c.form);
        CHECK(evidence::diagnose(right) == "");
        const std::vector<std::string> notes = notes_of(planted(right, c.mutation));
        REQUIRE(!notes.empty());
        CAPTURE(notes.front());
        for (const std::string& note : notes) CHECK(note.find("scalar gives ") != std::string::npos);
        const std::string& note = notes.front();
        const std::size_t cause = note.find("; cause: ");
        REQUIRE(cause != std::string::npos);
        // If both factors of a product are zero, the oracle's mutation zero_reads_m126 and the candidate
        // zeros_read_-126 give different results. Therefore this candidate does not reproduce four of the rows.
        CHECK(note.find(c.mutation == M::zero_reads_m126 ? "reproduces all rows except 4" : "reproduces every row",
                        cause) != std::string::npos);
        // The cause may list several names, joined by "or".
        const std::string names = note.substr(cause);
        CHECK((" " + names + " ").find(" " + std::string(c.name) + " ") != std::string::npos);
    }
}

TEST_CASE("the diagnosis distinguishes a wrong layout, NaN bits and signs of zeros from wrong fields of the model",
          "[gpu][judge]") {
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    const evidence::Trace right = recorded("wgmma.m64n8k32.f32.e4m3.e4m3");
    const Format& f = right.form.c;
    // Neighbouring rows exchange their results.
    evidence::Trace moved = right;
    for (std::size_t i = 0; i + 1 < moved.rows.size(); ++i) {
        if (moved.rows[i].cls == moved.rows[i + 1].cls) std::swap(moved.rows[i].d, moved.rows[i + 1].d);
    }
    CAPTURE(evidence::diagnose(moved));
    CHECK(evidence::diagnose(moved).ends_with(
        "including most rows of normal operands: the fragment layout or a descriptor of this instruction shape is "
        "wrong"));
    // The first case changes the bits of NaN results. The second case changes the signs of zero results.
    struct Case {
        const char* words;
        bool (*takes)(const Format&, std::uint64_t);
        std::uint64_t change;
    };
    const Case cases[] = {
        {"only the bits of NaN results differ (check the rule for NaN)",
         [](const Format& g, std::uint64_t d) { return (d & g.magnitude_mask()) > g.inf_code(); }, 1},
        {"signs of zeros", [](const Format& g, std::uint64_t d) { return (d & g.magnitude_mask()) == 0; },
         0x80000000u}};
    for (const Case& c : cases) {
        CAPTURE(c.words);
        evidence::Trace changed = right;
        std::size_t rows = 0;
        for (evidence::TraceRow& row : changed.rows) {
            if (!c.takes(f, row.d)) continue;
            row.d ^= c.change;
            ++rows;
        }
        REQUIRE(rows > 0);
        CAPTURE(evidence::diagnose(changed));
        CHECK(evidence::diagnose(changed).starts_with(std::to_string(rows) + " of "));
        CHECK(evidence::diagnose(changed).find(c.words) != std::string::npos);
    }
    // No candidate reproduces results in which every term is floored, so the diagnosis names the nearest candidate.
    const std::string floored = evidence::diagnose(planted(right, oracle::Mutation::floor_terms));
    CAPTURE(floored);
    CHECK(floored.find("nearest is the model with model=floored") != std::string::npos);
    CHECK(floored.find("swamp") != std::string::npos);
    CHECK(floored.find("fraction_bits, terms") != std::string::npos);
    // If no candidate explains a difference that occurs in one class, the diagnosis names the fields of that class.
    for (const auto& [cls, fields] : std::map<std::string, std::string>{{"alignment_edge", "fraction_bits, terms"},
                                                                        {"tie", "delivery"},
                                                                        {"specials", "the rule for NaN"},
                                                                        {"mixed", "none"}}) {
        CAPTURE(cls);
        evidence::Trace odd = right;
        for (evidence::TraceRow& row : odd.rows) {
            const bool is_number = (row.d & f.magnitude_mask()) < f.inf_code() && (row.d & f.magnitude_mask()) != 0;
            if (row.cls == cls && (is_number || cls == "specials")) row.d = 0x3f123456;
        }
        CAPTURE(evidence::diagnose(odd));
        CHECK(evidence::diagnose(odd).ends_with(fmt::format("classes {}: {}", cls, fields)));
    }
}

}  // namespace judge_test
