// SPDX-License-Identifier: Apache-2.0
// Tests the probes of sparse matrix instructions on the host: metadata, places in registers and shared memory,
// hypotheses and traces. On the host, the dense instruction over the selected products replaces the sparse instruction.
#include "emulation/evidence/gpu/matrix/sparse_probe.hpp"
#include "emulation/evidence/traces/record.hpp"
#include "emulation/evidence/traces/replay.hpp"
#include "emulation/machine/instruction.hpp"
#include "tests/gpu/host_device.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

namespace sparse_test {

using namespace macheps;
using namespace macheps::evidence;
using namespace macheps::gpu;

namespace {

constexpr std::uint64_t tiles = 6;  // one for each pattern of metadata

std::vector<evidence::ProbeResult> run(int index, const evidence::ProbeOptions& options = {},
                                       InstructionTarget target = {"sm_90", 90, 90, true}) {
    SparseProbe<HostDevice> probe(std::make_unique<HostDevice>(), std::move(target),
                                  {.outputs = 512, .max_tiles = tiles});
    std::vector<evidence::ProbeResult> rows;
    probe.run_form(index, 1000, options, [&](const evidence::ProbeResult& row) { rows.push_back(row); });
    return rows;
}

/// For each of two hypotheses, the number of outputs that agree with it, read from the note of a row. The hypothesis
/// `one` is a dense instruction over the selected products. The hypothesis `two` is two dense steps over all products.
struct Counts {
    unsigned long long one = 0, two = 0;
};
Counts counts_of(const evidence::ProbeResult& row) {
    Counts counts;
    unsigned long long all[2] = {0, 0};
    CHECK(std::sscanf(row.note.c_str(),
                      "equal to one dense step over the selected products: %llu of %llu; equal to two dense steps over "
                      "all products: "
                      "%llu of %llu",
                      &counts.one, &all[0], &counts.two, &all[1]) == 4);
    CHECK(all[0] == row.trials);
    CHECK(all[1] == row.trials);
    return counts;
}

int find(const std::string& name) {
    for (int i = 0; i < sparse_forms; ++i) {
        if (sparse_name(dense_form(i)) == name) return i;
    }
    return -1;
}

}  // namespace

TEST_CASE("sparse instructions have the same names as in PTX", "[gpu][sparse]") {
    CHECK(sparse_forms == 24);
    for (const char* name :
         {"mma.sp.m16n8k16.f32.f16.f16.f32", "mma.sp.m16n8k32.f32.f16.f16.f32", "mma.sp.m16n8k32.f16.f16.f16.f16",
          "mma.sp.m16n8k32.f32.bf16.bf16.f32", "mma.sp.m16n8k8.f32.tf32.tf32.f32", "mma.sp.m16n8k16.f32.tf32.tf32.f32",
          "mma.sp.m16n8k64.f32.e5m2.e4m3.f32", "wgmma.sp.m64n8k32.f32.f16.f16", "wgmma.sp.m64n8k32.f32.bf16.bf16",
          "wgmma.sp.m64n8k16.f32.tf32.tf32", "wgmma.sp.m64n8k64.f16.e4m3.e5m2"}) {
        CAPTURE(name);
        CHECK(find(name) >= 0);
    }
    CHECK(sparse_sass(dense_form(find("mma.sp.m16n8k64.f32.e5m2.e4m3.f32"))) == "F2FP HMMA.SP FADD");
    for (const char* name : {"mma.sp.m16n8k32.f32.e4m3.e4m3.f32", "mma.sp.m16n8k64.f16.e4m3.e4m3.f16"}) {
        CAPTURE(name);
        CHECK(find(name) < 0);
    }
}

TEST_CASE("metadata selects the products that the PTX ISA specifies", "[gpu][sparse]") {
    const struct {
        PtxType type;
        std::uint32_t metadata;
        int first, second;
        const char* why;
    } cases[] = {{PtxType::f16, 0x44444444, 0, 1, "0b0100"},
                 {PtxType::f16, 0x88888888, 0, 2, "0b1000"},
                 {PtxType::bf16, 0xcccccccc, 0, 3, "0b1100"},
                 {PtxType::e4m3, 0x99999999, 1, 2, "0b1001"},
                 {PtxType::e5m2, 0xdddddddd, 1, 3, "0b1101"},
                 {PtxType::f16, 0xeeeeeeee, 2, 3, "0b1110"},
                 {PtxType::tf32, 0x44444444, 0, 2, "one of two, the first"},
                 {PtxType::tf32, 0xeeeeeeee, 1, 3, "one of two, the second"}};
    for (const auto& c : cases) {
        CAPTURE(c.why);
        CHECK(chosen_product(c.type, c.metadata, 0) == c.first);
        CHECK(chosen_product(c.type, c.metadata, 1) == c.second);
        CHECK(chosen_product(c.type, c.metadata, 30) == 60 + c.first);
    }
    for (const PtxType type : {PtxType::f16, PtxType::tf32}) {
        const int count = sparse_patterns(type);
        std::set<std::uint32_t> words;
        for (int p = 0; p < count; ++p) {
            words.insert(sparse_metadata(type, static_cast<std::uint64_t>(p)));
            CHECK(sparse_metadata(type, static_cast<std::uint64_t>(p + count)) ==
                  sparse_metadata(type, static_cast<std::uint64_t>(p)));
            std::set<int> places;  // a pattern and its complement together select each of 64 places once
            for (int i = 0; i < 32; ++i) {
                places.insert(chosen_product(type, sparse_metadata(type, static_cast<std::uint64_t>(p)), i));
                places.insert(
                    chosen_product(type, sparse_metadata(type, static_cast<std::uint64_t>(count - 1 - p)), i));
            }
            CHECK(places.size() == 64);
        }
        CHECK(words.size() == static_cast<std::size_t>(count));
    }
}

TEST_CASE("every sparse instruction multiplies the selected operands, from registers and from shared memory",
          "[gpu][sparse]") {
    int telling = 0;
    for (int i = 0; i < sparse_forms; ++i) {
        CAPTURE(sparse_name(dense_form(i)));
        const std::vector<evidence::ProbeResult> rows = run(i);
        CHECK(rows.size() == sparse_classes.size());
        bool tells = false;
        for (const evidence::ProbeResult& row : rows) {
            CAPTURE(row.operands, row.note);
            CHECK(row.kind == "sparse");
            CHECK(row.instruction == sparse_name(dense_form(i)));
            CHECK(row.verdict == evidence::Verdict::equal);
            CHECK(row.trials == tiles * static_cast<std::uint64_t>(dense_form(i).m * dense_form(i).n));
            CHECK(row.mismatches == 0);
            const Counts counts = counts_of(row);
            CHECK(counts.one == row.trials);
            tells = tells || counts.two < counts.one;
        }
        telling += tells;
    }
    CHECK(telling == sparse_forms);
}

TEST_CASE("the report counts sparse results that also equal two dense steps over all products, and its count is right",
          "[gpu][sparse]") {
    const std::vector<std::array<int, 2>> of_four{{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}},
        of_two{{0, 2}, {1, 3}};
    for (const char* name : {"mma.sp.m16n8k32.f32.f16.f16.f32", "mma.sp.m16n8k8.f32.tf32.tf32.f32",
                             "mma.sp.m16n8k64.f32.e4m3.e5m2.f32", "wgmma.sp.m64n8k64.f16.e5m2.e4m3"}) {
        CAPTURE(name);
        const InstructionForm& form = dense_form(find(name));
        const Instruction dense = find_instruction("sm_90", form.instruction(), form.qualifier());
        const auto shape = evidence::operand_shape(form.m, form.n, form.k, 1, dense.a, dense.b, dense.machine->sum,
                                                   site_id(form.name()));
        const auto& patterns = form.a == PtxType::tf32 ? of_two : of_four;
        const auto k = static_cast<std::size_t>(form.k);
        for (const evidence::ProbeResult& row : run(find(name))) {
            // Tests only operand classes in which the addend c does not depend on the sum of the products.
            if (row.operands != "normal" && row.operands != "swamp" && row.operands != "finite_bits") continue;
            const auto cls = row.operands == "normal"  ? evidence::OperandClass::normal
                             : row.operands == "swamp" ? evidence::OperandClass::swamp
                                                       : evidence::OperandClass::finite_bits;
            unsigned long long alike = 0;
            for (std::uint64_t t = 0; t < tiles; ++t) {
                const evidence::Tile tile(shape, cls, evidence::ProbeOptions{}.seed, t);
                const auto& places = patterns[t % patterns.size()];
                for (int at = 0; at < form.m * form.n; ++at) {
                    InstructionOperands one{.c = tile.c(at / form.n, at % form.n)};
                    std::vector<std::uint64_t> a(2 * k), b(2 * k);
                    for (int i = 0; i < form.k; ++i) {
                        const auto place =
                            static_cast<std::size_t>(i / 2 * 4 + places[static_cast<std::size_t>(i % 2)]);
                        one.a.push_back(a[place] = tile.a(at / form.n, i));
                        one.b.push_back(b[place] = tile.b(i, at % form.n));
                    }
                    InstructionOperands step{.c = one.c};
                    for (const std::size_t first : {std::size_t{0}, k}) {
                        const auto half = static_cast<std::ptrdiff_t>(first), end = half + form.k;
                        step.a.assign(a.begin() + half, a.begin() + end);
                        step.b.assign(b.begin() + half, b.begin() + end);
                        step.c = evaluate_instruction(dense, step);
                    }
                    alike += step.c == evaluate_instruction(dense, one);
                }
            }
            CAPTURE(row.operands, row.note);
            CHECK(counts_of(row).two == alike);
        }
    }
}

TEST_CASE("sparse operands that are not where the metadata's pattern puts them are detected", "[gpu][sparse]") {
    evidence::ProbeOptions options;
    options.fault = true;
    for (int i = 0; i < sparse_forms; ++i) {
        for (const evidence::ProbeResult& row : run(i, options)) {
            CAPTURE(row.instruction, row.operands, row.note);
            CHECK(row.verdict == evidence::Verdict::differs);
            const Counts counts = counts_of(row);
            CHECK(counts.one == row.trials - row.mismatches);
            if (row.operands == "normal") CHECK(counts.one < row.trials / 8);
            if (row.operands == "normal") CHECK(counts.two < row.trials / 8);
        }
    }
}

TEST_CASE("a sparse form that the device or the build lacks is declined, with the reason", "[gpu][sparse]") {
    const struct {
        InstructionTarget target;
        const char *form, *why;
    } cases[] = {
        {{"sm_80", 80, 80, false}, "wgmma.sp.m64n8k32.f32.f16.f16", "not an instruction of sm_80"},
        {{"sm_80", 80, 80, false}, "mma.sp.m16n8k64.f32.e4m3.e4m3.f32", "not an instruction of sm_80"},
        {{"sm_89", 89, 80, false}, "mma.sp.m16n8k64.f32.e4m3.e4m3.f32", "not in the code of this build"},
        {{"sm_90", 90, 90, false}, "wgmma.sp.m64n8k32.f32.f16.f16", "needs code for sm_90a"},
        {{"sm_87", 87, 80, false}, "mma.sp.m16n8k32.f32.f16.f16.f32", "no machine models this instruction on sm_87"}};
    for (const auto& c : cases) {
        CAPTURE(c.form);
        const auto rows = run(find(c.form), {}, c.target);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].kind == "sparse");
        CHECK(rows[0].instruction == c.form);
        CHECK(rows[0].verdict == evidence::Verdict::declined);
        CHECK(rows[0].note.find(c.why) != std::string::npos);
    }
}

TEST_CASE("the trace of a sparse form contains the selected products, and a replay compares its results",
          "[gpu][sparse]") {
    evidence::ProbeOptions options;
    evidence::Trace trace;
    options.record = [&](const evidence::Candidates& candidates) { trace = evidence::make_trace(candidates); };
    (void)run(find("wgmma.sp.m64n8k64.f32.e4m3.e5m2"), options);
    CHECK(evidence::trace_name(trace.form) == "sm_90.wgmma.sp.m64n8k64.f32.e4m3.e5m2");
    CHECK(trace.machine == "sm90.wgmma.fp8");
    CHECK(trace.sass == "QGMMA.SP");
    REQUIRE(trace.rows.size() > 200);
    CHECK(trace.rows[0].a.size() == 32);
    CHECK(trace.rows[0].b.size() == 32);

    evidence::Trace back = evidence::parse_trace(evidence::trace_text(trace), "t");
    CHECK(back.rows == trace.rows);
    const auto replay = [&] {
        std::uint64_t rows = 0, mismatches = 0;
        evidence::replay(back, [&](const evidence::ProbeResult& row) {
            rows += row.trials;
            mismatches += row.mismatches;
            CHECK(row.instruction == "wgmma.sp.m64n8k64.f32.e4m3.e5m2");
            CHECK(row.verdict == (row.mismatches == 0 ? evidence::Verdict::equal : evidence::Verdict::differs));
        });
        CHECK(rows == trace.rows.size());
        return mismatches;
    };
    CHECK(replay() == 0);
    back.rows[0].d ^= 1;
    CHECK(replay() == 1);
}

}  // namespace sparse_test
