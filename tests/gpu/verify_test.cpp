// SPDX-License-Identifier: Apache-2.0
// Tests the probes of matrix instructions on the host: generators, layouts, kernels, questions and traces. The matrix
// instruction itself is emulated, so the tests cover everything else.
#include "core/error.hpp"
#include "core/host/read_file.hpp"
#include "emulation/evidence/gpu/matrix/probe.hpp"
#include "emulation/evidence/gpu/matrix/replay.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/record.hpp"
#include "emulation/evidence/traces/recorded.hpp"
#include "emulation/evidence/traces/replay.hpp"
#include "emulation/machine/table.hpp"
#include "tests/gpu/host_device.hpp"
#include "tests/machine/oracle.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

namespace verify_test {

using namespace macheps;
using namespace macheps::evidence;
using namespace macheps::gpu;
namespace oracle = macheps::machine_oracle;

namespace {

InstructionProbe<HostDevice> host_probe(InstructionEffort effort = {.outputs = 1, .max_tiles = 1},
                                        InstructionTarget target = {"sm_90", 90, 90, true}) {
    return {std::make_unique<HostDevice>(), std::move(target), effort};
}

std::vector<evidence::ProbeResult> run_form(InstructionProbe<HostDevice>& probe, const std::string& name,
                                            const evidence::ProbeOptions& options = {}) {
    std::vector<evidence::ProbeResult> rows;
    const int index = find_instruction_form(name);
    REQUIRE(index >= 0);
    probe.run_form(index, 0, options, [&](const evidence::ProbeResult& row) { rows.push_back(row); });
    return rows;
}

void check_forms(const std::function<bool(const InstructionForm&)>& takes) {
    InstructionProbe<HostDevice> probe = host_probe();
    int forms = 0;
    for (int i = 0; i < instruction_forms; ++i) {
        const InstructionForm& form = instruction_form(i);
        if (!takes(form)) continue;
        ++forms;
        CAPTURE(form.name());
        const auto rows = run_form(probe, form.name());
        CHECK(rows.size() >= 17);
        for (const evidence::ProbeResult& row : rows) {
            CAPTURE(row.operands, row.note);
            CHECK(row.verdict == evidence::Verdict::equal);
            CHECK(row.trials == static_cast<std::uint64_t>(form.m * form.n));
        }
    }
    CHECK(forms > 0);
}

bool is_wide(const InstructionForm& form) { return form.n > 16; }
/// Returns whether the quick test of wgmma runs this form if it is not wide. This holds for every plain form, and for a
/// variant if f16 operands give f32 results, or if e4m3 times e5m2 gives f32 results. The slow test runs all other
/// forms.
bool is_frequent(const InstructionForm& form) {
    return form.is_plain() || (form.a == PtxType::f16 && form.d == PtxType::f32) ||
           (form.a == PtxType::e4m3 && form.b == PtxType::e5m2 && form.d == PtxType::f32);
}

FormData data_of(const InstructionForm& form) {
    const Instruction instruction = find_instruction("sm_90", form.instruction(), form.qualifier());
    FormData data{.form = form};
    data.rule = data.truth = instruction.machine->sum;
    data.canonical_nan = instruction.machine->fixes_nan();
    data.shape = evidence::operand_shape(form.m, form.n, form.k, form.chain, format_of(form.a), format_of(form.b),
                                         data.rule, site_id(form.name()));
    return data;
}

}  // namespace

TEST_CASE("every form of mma gives the model's bits for operands in registers", "[gpu][verify]") {
    check_forms([](const InstructionForm& form) { return form.unit == Unit::mma; });
}

TEST_CASE("wgmma gives the model's bits for operands in registers and in shared memory", "[gpu][verify]") {
    check_forms([](const InstructionForm& f) { return f.unit == Unit::wgmma && !is_wide(f) && is_frequent(f); });
}

TEST_CASE("the forms of wgmma that the quick test leaves out give the model's bits", "[gpu][verify][slow]") {
    check_forms([](const InstructionForm& f) { return f.unit == Unit::wgmma && (is_wide(f) || !is_frequent(f)); });
}

TEST_CASE("with a wrong model, every row has the verdict 'differs'", "[gpu][verify]") {
    evidence::ProbeOptions options;
    options.fault = true;
    InstructionProbe<HostDevice> probe = host_probe({.outputs = 1 << 12, .max_tiles = 12});
    for (const char* name :
         {"mma.m16n8k16.f32.f16.f16.f32", "mma.m16n8k8.f32.tf32.tf32.f32", "mma.m16n8k16.f16.f16.f16.f16",
          "mma.m16n8k32.f32.e4m3.e5m2.f32", "mma.m8n8k4.f64.f64.f64.f64", "wgmma.m64n8k32.f32.e4m3.e4m3",
          "wgmma.m64n8k16.f32.bf16.bf16", "wgmma.m64n8k16.f32.f16.f16+registers"}) {
        for (const evidence::ProbeResult& row : run_form(probe, name, options)) {
            CAPTURE(name, row.operands);
            CHECK(row.verdict == evidence::Verdict::differs);
            CHECK(row.mismatches > 0);
            CHECK(row.note.find("the model gives ") != std::string::npos);
            CHECK(row.note.find("{\"arch\":\"sm_90\"") != std::string::npos);
        }
    }
    for (const Question& question : instruction_questions()) {
        probe.run_question(question, options, [&](const evidence::ProbeResult& row) {
            CAPTURE(row.instruction, row.note);
            CHECK((row.verdict == evidence::Verdict::differs || question.only_recorded));
        });
    }
}

TEST_CASE("the probes of open questions give the results that the models assume, and their notes explain the results",
          "[gpu][verify]") {
    InstructionProbe<HostDevice> probe = host_probe();
    std::map<std::string, std::string> notes;
    for (const Question& question : instruction_questions()) {
        REQUIRE(find_instruction_form(question.form) >= 0);
        probe.run_question(question, {}, [&](const evidence::ProbeResult& row) {
            CAPTURE(row.instruction, row.note);
            CHECK(row.verdict == (question.only_recorded ? evidence::Verdict::recorded : evidence::Verdict::equal));
            CHECK(row.note.find("no published model") == std::string::npos);
            notes[row.instruction] = row.note;
        });
    }
    const struct {
        const char *question, *bits;
    } answers[] = {{"P1.mma.m16n8k16.f32.bf16.bf16.f32", "30800000"},
                   {"P2a.wgmma.m64n8k16.f32.bf16.bf16", "00000002"},
                   {"P2b.158.mma.m16n8k16.f32.bf16.bf16.f32", "00000000"},
                   {"P2b.159.mma.m16n8k16.f32.bf16.bf16.f32", "00000001"},
                   {"P3.46.mma.m16n8k16.f16.f16.f16.f16", "0001"},
                   {"P3.47.mma.m16n8k16.f16.f16.f16.f16", "0000"},
                   {"P3w.48.wgmma.m64n8k16.f16.f16.f16", "0000"},
                   {"P4.mma.m16n8k16.f16.f16.f16.f16", "0002"},
                   {"P5.mma.m16n8k16.f16.f16.f16.f16", "0000"},
                   {"P6.wgmma.m64n8k16.f32.bf16.bf16", "00000000"},
                   {"P7.mma.m16n8k8.f32.tf32.tf32.f32", "7f800000"},
                   {"P8.bits.wgmma.m64n8k32.f32.e4m3.e4m3", "3f800000"}};
    for (const auto& [question, bits] : answers) {
        CAPTURE(question);
        CHECK(notes[question].starts_with(std::string("got ") + bits + ": "));
    }
}

TEST_CASE("a form that the device or the build lacks is declined, with the reason", "[gpu][verify]") {
    const struct {
        InstructionTarget target;
        const char *form, *why;
    } cases[] = {
        {{"sm_80", 80, 80, false}, "wgmma.m64n8k16.f32.f16.f16", "not an instruction of sm_80"},
        {{"sm_89", 89, 80, false}, "mma.m16n8k32.f32.e4m3.e4m3.f32", "not in the code of this build"},
        {{"sm_90", 90, 90, false}, "wgmma.m64n8k16.f32.f16.f16", "needs code for sm_90a"},
        {{"sm_87", 87, 80, false}, "mma.m16n8k16.f32.f16.f16.f32", "no machine models this instruction on sm_87"}};
    for (const auto& c : cases) {
        InstructionProbe<HostDevice> probe = host_probe({.outputs = 1, .max_tiles = 1}, c.target);
        const auto rows = run_form(probe, c.form);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0].verdict == evidence::Verdict::declined);
        CHECK(rows[0].note.find(c.why) != std::string::npos);
    }
    // On an A100 (sm_80), the probe uses the machine that models the matrix unit of the A100.
    InstructionProbe<HostDevice> a100 = host_probe({.outputs = 1, .max_tiles = 1}, {"sm_80", 80, 80, false});
    for (const evidence::ProbeResult& row : run_form(a100, "mma.m16n8k16.f32.f16.f16.f32"))
        CHECK(row.model == "sm80.mma.fp16");
}

TEST_CASE("elements are where the figures of the PTX ISA show them", "[gpu][verify]") {
    const struct {
        int m, thread, r, row, word;
        const char* why;
    } a_places[] = {{16, 0, 0, 0, 0, "a0 of lane 0"},          {16, 5, 0, 1, 1, "a0: row lane / 4, word lane % 4"},
                    {16, 5, 1, 9, 1, "a1: 8 rows down"},       {16, 5, 2, 1, 5, "a2: the second half of k"},
                    {16, 31, 3, 15, 7, "a3 of the last lane"}, {8, 31, 0, 7, 3, "m8n8k4"},
                    {16, 6, 7, 9, 14, "m16n8k16 of fp64: a7"}, {64, 127, 3, 63, 7, "wgmma: the fourth warp"}};
    for (const auto& p : a_places) {
        CAPTURE(p.why);
        CHECK(a_place(p.m, p.thread, p.r).row == p.row);
        CHECK(a_place(p.m, p.thread, p.r).word == p.word);
    }
    const struct {
        int thread, i, row, column;
        const char* why;
    } outputs[] = {{0, 1, 0, 1, "c1"},
                   {5, 0, 1, 2, "c0: row lane / 4, column 2 (lane % 4)"},
                   {5, 3, 9, 3, "c3"},
                   {31, 3, 15, 7, "the last of m16n8"},
                   {37, 4, 17, 10, "the next 8 columns of wgmma"},
                   {127, 127, 63, 255, "the last of m64n256"}};
    for (const auto& p : outputs) {
        CAPTURE(p.why);
        CHECK(output_place(p.thread, p.i).row == p.row);
        CHECK(output_place(p.thread, p.i).column == p.column);
    }
    // The operand starts at address 0x400 and has 64 rows. Neighbouring core matrices are 128 bytes apart along m.
    // Along k, they are 1024 bytes apart, because a column of 64 rows with 16 bytes each lies between them.
    CHECK(shared_descriptor(0x400, 64) == (0x40 | std::uint64_t{1024 / 16} << 16 | std::uint64_t{128 / 16} << 32));
    CHECK(shared_offset(64, 9, 9, 2, false) == 1024 + 128 + 16 + 2);      // K-major
    CHECK(shared_offset(64, 9, 10, 2, true) == 1024 + 128 + 2 * 16 + 2);  // M-major: a line is 8 rows at the same k
    for (int i = 0; i < instruction_forms; ++i) {                         // every place occurs once
        const InstructionForm& form = instruction_form(i);
        if (form.ptx() != form) continue;
        const int threads = form.unit == Unit::mma ? 32 : 128;
        std::set<int> places, offsets;
        for (int thread = 0; thread < threads; ++thread) {
            for (int at = 0; at < form.m * form.n / threads; ++at) {
                const OutputPlace place = output_place(thread, at);
                if (place.row < form.m && place.column < form.n) places.insert(place.row * form.n + place.column);
            }
        }
        CAPTURE(form.name());
        CHECK(places.size() == static_cast<std::size_t>(form.m * form.n));
        if (form.unit == Unit::mma) continue;
        for (int row = 0; row < form.n; ++row) {
            for (int k = 0; k < form.k; ++k)
                offsets.insert(shared_offset(form.n, row, k, bytes_of(form.b), form.transposes_b));
        }
        CHECK(offsets.size() == static_cast<std::size_t>(form.n * form.k));
        CHECK(*offsets.rbegin() + bytes_of(form.b) == form.n * form.k * bytes_of(form.b));
    }
}

TEST_CASE("all rows and columns of a test tile differ, so that a wrong layout is detected", "[gpu][verify]") {
    for (int i = 0; i < instruction_forms; ++i) {
        const InstructionForm& form = instruction_form(i);
        if (!form.is_plain() || form.n != 8) continue;
        const FormData data = data_of(form);
        for (const evidence::OperandClass cls :
             {evidence::OperandClass::random_bits, evidence::OperandClass::normal, evidence::OperandClass::mixed,
              evidence::OperandClass::close_exponents}) {
            CAPTURE(form.name(), evidence::name_of(cls));
            const evidence::Tile tile(data.shape, cls, 1, 3);
            std::set<std::vector<std::uint64_t>> rows, columns, in_k;
            for (int row = 0; row < form.m; ++row) {
                rows.emplace();
                std::vector<std::uint64_t> codes;
                for (int k = 0; k < form.k; ++k) codes.push_back(tile.a(row, k));
                rows.insert(codes);
            }
            for (int column = 0; column < form.n; ++column) {
                std::vector<std::uint64_t> codes;
                for (int k = 0; k < form.k; ++k) codes.push_back(tile.b(k, column));
                columns.insert(codes);
            }
            CHECK(rows.size() == static_cast<std::size_t>(form.m + 1));  // m rows, and the empty row of emplace()
            CHECK(columns.size() == static_cast<std::size_t>(form.n));
        }
    }
}

TEST_CASE("operands are the same on every computer, and finite unless their class has special numbers",
          "[gpu][verify]") {
    std::uint64_t digest = 0xcbf29ce484222325u;
    for (const char* name : {"mma.m16n8k16.f16.f16.f16.f16", "mma.m16n8k4.f32.tf32.tf32.f32",
                             "mma.m16n8k32.f32.e4m3.e5m2.f32", "mma.m8n8k4.f64.f64.f64.f64"}) {
        const FormData data = data_of(instruction_form(find_instruction_form(name)));
        const auto finite = [](const Format& f, std::uint64_t code) {
            return (code >> f.padding & f.magnitude_mask()) <= f.max_finite_code();
        };
        for (int c = 0; c < evidence::operand_classes; ++c) {
            const auto cls = static_cast<evidence::OperandClass>(c);
            const bool any = cls == evidence::OperandClass::random_bits || cls == evidence::OperandClass::specials ||
                             cls == evidence::OperandClass::exhaustive;
            int infinite = 0;
            for (std::uint64_t t = 0; t < 6; ++t) {
                const evidence::Tile tile(data.shape, cls, 1, t);
                const auto observe = [&](const Format& f, std::uint64_t code) {
                    infinite += !finite(f, code);
                    CHECK((f.container_bits() == 64 || code >> f.container_bits() == 0));
                    digest = (digest ^ code) * 0x100000001b3u;
                };
                for (int k = 0; k < data.form.k; ++k) {
                    for (int row = 0; row < data.form.m; ++row) observe(data.shape.a, tile.a(row, k));
                    for (int column = 0; column < data.form.n; ++column) observe(data.shape.b, tile.b(k, column));
                }
                for (int at = 0; at < data.outputs() && !tile.addend_is_opposite(); ++at)
                    observe(data.shape.c, tile.c(at / data.form.n, at % data.form.n));
            }
            CAPTURE(name, evidence::name_of(cls), infinite);
            CHECK((any || infinite == 0));
        }
    }
    CAPTURE(digest);
    CHECK(digest == 0x3bc0ff20c8b15acf);
}

namespace {

/// Runs a form on the host, and returns its trace. `kept` receives the candidate rows.
evidence::Trace host_trace(const std::string& name, evidence::Candidates* kept = nullptr, std::uint64_t tiles = 128) {
    InstructionProbe<HostDevice> probe = host_probe({.outputs = 1 << 18, .max_tiles = tiles});
    evidence::ProbeOptions options;
    evidence::Trace trace;
    options.record = [&](const evidence::Candidates& candidates) {
        trace = evidence::make_trace(candidates);
        if (kept != nullptr) *kept = candidates;
    };
    run_form(probe, name, options);
    trace.gpu = "host";
    trace.driver = "none";
    trace.toolkit = "none";
    trace.date = "2000-01-01";
    return trace;
}

/// Checks that at least 16 rows of the trace refute each wrong model. For a wrong model of macheps, it is also correct
/// if no row refutes it. A wrong model of the oracle is skipped if no input can refute it.
void check_refuted(const evidence::Trace& trace) {
    CAPTURE(trace.form.instr, trace.form.qual);
    REQUIRE(!trace.rows.empty());
    for (const auto& [mutant, rows] : trace.refuted) {
        CAPTURE(mutant, rows);
        CHECK((rows == 0 || rows >= 16));
    }
    const auto in = oracle::find_instruction(trace.form.arch, trace.form.instr, trace.form.qual);
    for (int m = 1; m < static_cast<int>(oracle::Mutation::count); ++m) {
        const auto mutation = static_cast<oracle::Mutation>(m);
        if (oracle::judge(in, mutation).kind != oracle::Verdict::visible) continue;
        int refuted = 0;
        for (const evidence::TraceRow& row : trace.rows) {
            const std::uint64_t d = oracle::evaluate(in, row.a, row.b, row.c, {}, {}, mutation);
            refuted += !oracle::same_result(in, d, row.d);
        }
        CAPTURE(oracle::name_of(mutation), refuted);
        CHECK(refuted >= 16);
    }
    CHECK(evidence::trace_text(trace).size() < 1'000'000);
}

std::string refuted_by(const evidence::Trace& trace, const std::string& mutant) {
    for (const auto& [name, rows] : trace.refuted) {
        if (name == mutant) return rows == 0 ? "none" : "some";
    }
    return "unknown";
}

}  // namespace

TEST_CASE("a trace refutes every wrong model at least 16 times", "[gpu][verify]") {
    check_refuted(host_trace("mma.m16n8k16.f32.f16.f16.f32"));
    // These traces contain inputs that refute the wrong models named below.
    const evidence::Trace bf16 = host_trace("mma.m16n8k8.f32.bf16.bf16.f32"),
                          half = host_trace("mma.m16n8k8.f16.f16.f16.f16");
    check_refuted(bf16);
    check_refuted(half);
    CHECK(refuted_by(bf16, "zero_exponent-1") == "some");
    CHECK(refuted_by(bf16, "zero_exponent+1") == "some");
    CHECK(refuted_by(bf16, "underflow_keeps_sign") == "some");
    CHECK(refuted_by(bf16, "zeros_keep_sign") == "some");
    CHECK(refuted_by(half, "normalises_addend") == "some");
}

TEST_CASE("for every instruction form without variants, the trace refutes every wrong model at least 16 times",
          "[gpu][verify][slow]") {
    for (int i = 0; i < instruction_forms; ++i) {
        const InstructionForm& form = instruction_form(i);
        if (form.is_plain() && form.n == 8) check_refuted(host_trace(form.name(), nullptr, 512));
    }
}

TEST_CASE("a written trace is read back unchanged, its replay agrees with the model, and changes are detected",
          "[gpu][verify]") {
    const std::filesystem::path folder = test::disk_folder() / "verify";
    evidence::Candidates candidates;
    const evidence::Trace trace = host_trace("mma.m16n8k8.f32.f16.f16.f32", &candidates);
    CHECK(evidence::trace_text(evidence::make_trace(candidates)).size() > 1000);
    const std::filesystem::path file = evidence::write_trace(trace, folder / "a" / "b");
    CHECK(file.filename() == evidence::trace_name(trace.form) + (evidence::has_zstd() ? ".jsonl.zst" : ".jsonl"));
    CHECK(evidence::trace_files(folder) == std::vector<std::filesystem::path>{file});
    const evidence::Trace back = evidence::read_trace(file);
    CHECK(evidence::trace_text(back) == evidence::trace_text(trace));
    CHECK(back.rows == trace.rows);
    CHECK(back.gpu == "host");
    std::uint64_t rows = 0;
    evidence::replay(back, [&](const evidence::ProbeResult& row) {
        rows += row.trials;
        CAPTURE(row.operands, row.note);
        CHECK(row.verdict == evidence::Verdict::equal);
        CHECK(row.model == "sm90.mma.fp16");
    });
    CHECK(rows == trace.rows.size());

    // One result is changed, so that no backend gives it.
    evidence::Trace wrong = trace;
    wrong.rows[0].d ^= 1;
    int red = 0;
    evidence::replay(wrong, [&](const evidence::ProbeResult& row) {
        red += row.verdict == evidence::Verdict::differs;
        if (row.verdict == evidence::Verdict::differs) CHECK(row.note.starts_with("scalar gives "));
    });
    CHECK(red == 1);

    const std::string text = evidence::trace_text(trace);
    const auto replaced = [&](const std::string& from, const std::string& to) {
        std::string other = text;
        const std::size_t at = other.find(from);
        REQUIRE(at != std::string::npos);
        return other.replace(at, from.size(), to);
    };
    const std::size_t second = text.find('\n') + 1, third = text.find('\n', second) + 1;
    const struct {
        std::string text;
        const char *where, *what, *why;
    } cases[] = {
        {"", "t:1", "the header is missing", "nothing"},
        {text.substr(second), "t:1", "not the header of a trace", "rows alone"},
        {replaced("\"macheps_trace\":1", "\"macheps_trace\":2"), "t:1", "version 2", "a later version"},
        {replaced("\"gpu\":\"host\"", "\"gpu\":\"moon\""), "t:1", "digest", "a forged header"},
        {replaced("\"cls\":\"random_bits\"", "\"cls\":\"normal\""), "t:1", "digest", "a forged row"},
        {text.substr(0, third), ":2", "there are 1 rows, but the header gives", "rows are gone"},
        {text.substr(0, text.size() - 5), "", "cut off", "the last line has no end"},
        {text.substr(0, third) + "{\"arch\":\"sm_80\"" + text.substr(third + 15), "t:3", "another instruction",
         "a foreign row"},
        {text.substr(0, second) + "?" + text.substr(second), "t:2", "not valid JSON", "no JSON"},
        {replaced("\"d\":\"", "\"d\":\"0"), "t:2", "does not contain a code of 8 digits", "a code of another width"},
        {replaced("\"a\":[", "\"a\":[\"0000\","), "t:2", "does not contain 8 codes", "an operand too many"},
        {replaced("\"qual\":\"m16n8k8.f32.f16.f16.f32\"", "\"qual\":\"m16n8k8.f32.f16.f17.f32\""), "t:1",
         "does not have the form", "an unknown instruction"}};
    for (const auto& c : cases) {
        CAPTURE(c.why);
        try {
            (void)evidence::parse_trace(c.text, "t");
            FAIL_CHECK("the damaged file was accepted");
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(std::string(error.what()).find(c.what) != std::string::npos);
            CHECK(error.parts().where.find(c.where) != std::string::npos);
            CHECK(error.exit() == Exit::bad_input);
        }
    }

    // Reads damaged compressed files.
    if (!evidence::has_zstd()) return;
    std::ifstream in(file, std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    const std::string whole = bytes.str();
    for (const auto& [damaged, what] :
         {std::pair<std::string, const char*>{whole.substr(0, whole.size() / 2), "ends early"},
          {whole.substr(0, whole.size() - 2), "ends early"},
          {whole + "x", "further data"},
          {"no zstd at all", "damaged"}}) {
        std::ofstream(folder / "x.jsonl.zst", std::ios::binary) << damaged;
        CAPTURE(what);
        try {
            (void)evidence::read_trace(folder / "x.jsonl.zst");
            FAIL_CHECK("the damaged file was accepted");
        } catch (const Error& error) {
            CAPTURE(error.what());
            CHECK(std::string(error.what()).find(what) != std::string::npos);
            CHECK(error.parts().where.find("x.jsonl.zst") != std::string::npos);
        }
    }
    std::filesystem::remove_all(folder);
}

TEST_CASE("differing outputs of an instruction variant can be replayed from a file, and the note names the cause",
          "[gpu][verify]") {
    const struct {
        const char *form, *cause;
    } cases[] = {{"wgmma.m64n8k16.f32.f16.f16+chain4",
                  "cause: the accumulator keeps more bits between the instructions of a group"},
                 {"wgmma.m64n8k16.f32.f16.f16+transposed_b", "cause: strides of transposed operands"},
                 {"wgmma.m64n8k16.f32.f16.f16+registers", "cause: the registers of operand a"},
                 {"wgmma.m64n8k16.f32.f16.f16+negated_a", "cause: the negation of an operand"},
                 {"wgmma.m64n8k16.f32.f16.f16+no_addend", "cause: the ignored addend"},
                 {"wgmma.m64n16k16.f32.f16.f16", "cause: strides of instruction shapes with more than 8 columns"}};
    for (const auto& c : cases) {
        CAPTURE(c.form);
        std::vector<evidence::Capture> kept;
        evidence::ProbeOptions options;
        options.fault = true;  // the probe's model is wrong on purpose, so that outputs differ
        options.keep = [&](const evidence::Capture& capture) { kept.push_back(capture); };
        options.record = [](const evidence::Candidates&) {};
        InstructionProbe<HostDevice> probe = host_probe({.outputs = 256, .max_tiles = 2});
        run_form(probe, c.form, options);
        REQUIRE(kept.size() == 1);
        Json header = Json::parse(kept.front().header);
        for (const char* key : {"gpu", "driver", "toolkit", "date"}) header[key] = "host";
        REQUIRE(is_variant_capture(header));
        CHECK(variant_of(header, "t:1") == c.form);
        // The replay uses the right model, with which all recorded outputs agree.
        const auto replayed = [&](const std::string& lines) {
            std::vector<evidence::ProbeResult> rows;
            replay_variant(evidence::json_lines_text(header, lines), "t",
                           [&](const evidence::ProbeResult& row) { rows.push_back(row); });
            REQUIRE(!rows.empty());
            return rows;
        };
        for (const evidence::ProbeResult& row : replayed(kept.front().lines)) {
            CAPTURE(row.operands, row.note);
            CHECK(row.verdict == evidence::Verdict::equal);
            CHECK(row.kind == "replay");
        }
        // Changes one output.
        std::string changed = kept.front().lines;
        const std::size_t d = changed.find("\"d\":\"") + 5;
        changed.replace(d, changed.find('"', d) - d, "3f123456");
        const evidence::ProbeResult row = replayed(changed).front();
        CAPTURE(row.note);
        CHECK(row.verdict == evidence::Verdict::differs);
        CHECK(row.mismatches == 1);
        CHECK(row.note.find(c.cause) != std::string::npos);
    }
    CHECK_THROWS_AS(
        replay_variant(
            evidence::json_lines_text(Json{{"macheps_capture", 1}, {"instruction", "mma.none"}, {"arch", "sm_90"}}, ""),
            "t", [](const evidence::ProbeResult&) {}),
        Error);
}

TEST_CASE("the smaller shape of emulated fp8 is computed in two steps, also on vector engines", "[gpu][verify]") {
    evidence::Trace trace = host_trace("mma.m16n8k16.f32.e4m3.e4m3.f32", nullptr, 32);
    CHECK(trace.rows.size() > 500);
    evidence::replay(trace, [](const evidence::ProbeResult& row) {
        CAPTURE(row.operands, row.note);
        CHECK(row.verdict == evidence::Verdict::equal);
    });
}

TEST_CASE("a line of the index gives the machine that a trace covers, the device and the date", "[gpu][verify]") {
    const struct {
        const char *line, *arch, *instr, *qual;
    } cases[] = {
        {"h200/sm_90.wgmma.m64n8k32.f32.e4m3.e4m3.jsonl.zst,NVIDIA H200,2026-11-26,774,zero_exponent-1 zero_exponent+1",
         "sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m3"},
        {"h200/sm_90.wgmma.sp.m64n8k64.f32.e4m3.e5m2.jsonl.zst,NVIDIA H200,2026-12-01,26,zero_exponent-1", "sm_90",
         "wgmma.sp", "m64n8k64.f32.e4m3.e5m2"},
        {"h100/sm_90.wgmma.m64n8k32.f32.e5m2.e5m2.jsonl,NVIDIA H100,2026-11-25,100,zero_exponent-1 terms/2", "sm_90",
         "wgmma", "m64n8k32.f32.e5m2.e5m2"},
        {"h200/sm_90.mma.m16n8k16.f32.f16.f16.f32.jsonl,NVIDIA H200,2026-11-26,5,", "sm_90", "mma",
         "m16n8k16.f32.f16.f16.f32"},
        {"x/sm_100.tcgen05.mxf4.m128n8k64.f32.jsonl.zst,X,2026-11-26,5,", "sm_100", "tcgen05.mxf4", "m128n8k64.f32"},
        {"readme,,,,", "", "", ""}};
    std::vector<evidence::RecordedTrace> traces;
    for (const auto& c : cases) {
        CAPTURE(c.line);
        traces.push_back(evidence::parse_index_line(c.line));
        CHECK(traces.back().arch == c.arch);
        CHECK(traces.back().instr == c.instr);
        CHECK(traces.back().qual == c.qual);
    }
    CHECK(traces[0].not_refuted == std::vector<std::string>{"zero_exponent-1", "zero_exponent+1"});
    const Machine& fp8 = *find_machine("sm90.wgmma.fp8");
    const std::vector<evidence::DeviceEvidence> devices = evidence::devices_with_traces(fp8, traces);
    REQUIRE(devices.size() == 2);
    CHECK(devices[0].device == "NVIDIA H200");
    CHECK(devices[0].first_date == "2026-11-26");
    CHECK(devices[0].last_date == "2026-12-01");
    CHECK(devices[0].outputs == 800);
    CHECK(devices[0].forms ==
          std::vector<std::string>{"wgmma.m64n8k32.f32.e4m3.e4m3", "wgmma.sp.m64n8k64.f32.e4m3.e5m2"});
    CHECK(devices[1].device == "NVIDIA H100");
    CHECK(evidence::not_refuted(fp8, traces) == std::vector<std::string>{"zero_exponent-1"});
    CHECK(evidence::devices_with_traces(*find_machine("sm90.wgmma.fp16"), traces).empty());
    CHECK(evidence::not_refuted(*find_machine("sm90.wgmma.fp16"), traces).empty());
}

TEST_CASE("the results in recorded traces agree with the models", "[gpu][verify]") {
    const std::filesystem::path folder = std::filesystem::path(MACHEPS_SOURCE_DIR) / "tests" / "traces";
    std::size_t replayed = 0;
    std::string index(evidence::index_header);
    for (const auto& file : evidence::trace_files(folder)) {
        if ((file.extension() == ".zst" && !evidence::has_zstd()) || !evidence::is_instruction_trace(file)) continue;
        CAPTURE(file.string());
        ++replayed;
        const evidence::Trace trace = evidence::read_trace(file);
        index += '\n' + evidence::index_line(file.lexically_relative(folder).string(), trace);
        evidence::replay(trace, [&](const evidence::ProbeResult& row) {
            CAPTURE(row.instruction, row.operands, row.note);
            CHECK(row.verdict == evidence::Verdict::equal);
        });
        // Each wrong model is refuted by no row or by at least two rows.
        for (const auto& [mutant, rows] : evidence::count_refuted(trace.form, trace.rows)) {
            CAPTURE(mutant, rows);
            if (evidence::is_sparse(trace.form)) continue;
            CHECK((rows == 0 || rows >= 2));
            const bool is_bf16_or_tf32 = trace.form.a == bf16 || trace.form.a == tf32;
            if (is_bf16_or_tf32) CHECK(rows >= 2);
        }
    }
    if (!evidence::has_zstd()) SKIP_TEST("this build reads no .zst");
    CHECK(replayed == evidence::recorded_traces().size());
    CHECK(replayed >= 131);  // 64 of an H100, 64 of an H200, 3 of a CPU
    if (read_file(folder / "index.csv") == index + '\n') return;
    if (const char* file = std::getenv("MACHEPS_TRACE_INDEX")) std::ofstream(file, std::ios::binary) << index << '\n';
    FAIL_CHECK(
        "tests/traces/index.csv does not match the traces; MACHEPS_TRACE_INDEX=FILE writes the right index to FILE");
}

}  // namespace verify_test
