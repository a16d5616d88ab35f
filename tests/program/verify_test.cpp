// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/traces/trace.hpp"
#include "emulation/machine/instruction.hpp"
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>

namespace verify_test {

using namespace macheps::test;
using nlohmann::json;
namespace evidence = macheps::evidence;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Writes a trace of three rows and returns its path. The first result is wrong in each bit that is set in `error`.
std::string trace_of(const std::string& folder, std::uint64_t error) {
    evidence::Trace trace;
    trace.form = {"sm_90", "wgmma", "m64n8k32.f32.e4m3.e4m3", macheps::e4m3fn, macheps::e4m3fn, macheps::fp32};
    trace.machine = "sm90.wgmma.fp8";
    trace.gpu = "NVIDIA <Test> GPU";
    trace.driver = trace.toolkit = "13.0";
    trace.date = "2000-01-01";
    const auto instruction = macheps::find_instruction(trace.form.arch, trace.form.instr, trace.form.qual);
    for (std::uint64_t i = 0; i < 3; ++i) {
        evidence::TraceRow row{.cls = i < 2 ? "normal" : "tie"};
        for (std::uint64_t k = 0; k < 32; ++k) {
            row.a.push_back((37 * k + 11 * i + 5) % 0x7e);
            row.b.push_back(0x80 ^ ((29 * k + 7 * i) % 0x7e));
        }
        row.c = 0x42c80080 + i;
        row.d = macheps::evaluate_instruction(instruction, {.a = row.a, .b = row.b, .c = row.c}) ^ (i == 0 ? error : 0);
        trace.rows.push_back(row);
    }
    return evidence::write_trace(trace, scratch() / folder).string();
}

}  // namespace

TEST_CASE("without a device, verify --list lists the instructions that verify would run", "[program]") {
    const Outcome all = run("verify --list");
    CHECK(all.code == 0);
    CHECK(std::count(all.out.begin(), all.out.end(), '\n') > 240);
    for (const char* name :
         {"matrix:wgmma.m64n8k32.f32.e4m3.e5m2\n", "matrix:mma.m8n8k4.f64.f64.f64.f64\n",
          "matrix:wgmma.m64n8k16.f32.f16.f16+chain8\n", "question:P2b.158.mma.m16n8k16.f32.bf16.bf16.f32\n",
          "sparse:mma.sp.m16n8k32.f32.f16.f16.f32\n", "sparse:wgmma.sp.m64n8k64.f32.e4m3.e5m2\n"})
        CHECK(has(all.out, name));
    const Outcome some = run("verify --list --only 'question:P3*' --json");
    const json list = json::parse(some.out);
    CHECK(list.size() == 6);
    CHECK(list[0] == json({{"kind", "question"}, {"instruction", "P3.46.mma.m16n8k16.f16.f16.f16.f16"}}));
    fs::remove_all(scratch());
}

TEST_CASE("an error of verify is one line with a remedy, and the kind of error decides the exit code", "[program]") {
    fs::create_directories(scratch() / "empty");
    write("not-a-trace.jsonl", "{}\n");
    const struct {
        const char *arguments, *says;
        int code;
    } cases[] = {{"verify --quick", "", 4},
                 {"verify --only 'matrix:*' --record traces", "", 4},
                 {"verify --only 'matrix:nothing*'", "--only: no instruction matches", 2},
                 {"verify --only mma.m16n8k16.f32.f16.f16.f33", "did you mean", 2},
                 {"verify --quick --full", "excludes", 2},
                 {"verify --quick --seconds 5", "excludes", 2},
                 {"verify --record x --replay y", "excludes", 2},
                 {"verify --list --replay y", "excludes", 2},
                 {"verify --seconds -1", "--seconds", 2},
                 {"verify --replay missing", "missing: no such folder", 3},
                 {"verify --replay empty", "empty: there are no traces", 3},
                 {"verify --replay .", "not-a-trace.jsonl:1: the first line is not the header of a trace", 3}};
    for (const auto& c : cases) {
        const Outcome outcome = run(c.arguments, "CUDA_VISIBLE_DEVICES=");
        CAPTURE(c.arguments, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(has(outcome.err, c.says));
        CHECK(has(outcome.err, "("));  // the remedy is in parentheses
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK(outcome.out.empty());
    }
    CHECK(!fs::exists(scratch() / "traces"));
    fs::remove_all(scratch());
}

TEST_CASE("verify --library prints a verdict on a library, and the verdict decides the exit code", "[program]") {
    const std::string few = " --shapes 3";
    struct Case {
        std::string arguments;
        int code;
        const char *out, *err;
    };
    for (const Case& c : {
             Case{"./nothing.so", 0, "./nothing.so: absent: ", ""},
             Case{"./nothing.so --require", 4, "./nothing.so: absent: ", "--require: ./nothing.so is absent"},
             Case{MACHEPS_STUB_FP64 + few, 0, "bits       order only: 0 of 3 shapes", ""},
             Case{MACHEPS_STUB_FP64 + few + " --rule blas.openblas.44", 2, "", "did you mean"},
             Case{MACHEPS_STUB_FP64 + few + " --rule sm90.wgmma.fp8", 2, "",
                  "--rule: sm90.wgmma.fp8 is not a rule for products of fp32"},
             Case{MACHEPS_STUB_UNSTEADY + few, 1, "bits       nondeterministic: ", ""},
             Case{MACHEPS_STUB_CRASH + few, 1, "", "signal 11"},
         }) {
        const Outcome outcome = run("verify --library " + c.arguments);
        CAPTURE(c.arguments, outcome.code, outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(has(outcome.out, c.out));
        CHECK(has(outcome.err, c.err));
    }
    CHECK(run("verify --rule fp32.chain").code == 2);
    const Outcome asked = run("verify --json --rule fp32.chain --library " + (MACHEPS_STUB_FP64 + few));
    CHECK(asked.code == 1);
    const json found = json::parse(asked.out);
    CHECK(found["verdict"] == "order only");
    CHECK(found["rule"] == "fp32.chain");
    CHECK(found["shapes"] == 3);
    CHECK(found["bound_u_at_4096"].is_null());
    fs::remove_all(scratch());
}

TEST_CASE("verify replays traces, and exits with 1 if a result is wrong", "[program]") {
    trace_of("right", 0);
    const Outcome right = run("verify --replay right");
    CAPTURE(right.out, right.err);
    CHECK(right.code == 0);
    CHECK(has(right.out, "wgmma.m64n8k32.f32.e4m3.e4m3  2 classes  sm90.wgmma.fp8       3           0  equal\n"));
    CHECK(has(right.out, "NVIDIA <Test> GPU: 2 rows: 2 equal, 0 differ, 0 recorded, 0 declined; 3 trials"));

    const std::string file = trace_of("wrong", 0x400);
    const Outcome wrong = run("verify --replay wrong --csv rows.csv --junit rows.xml");
    CHECK(wrong.code == 1);
    CHECK(has(wrong.out, "normal"));
    CHECK(has(wrong.out, "differs\n    scalar gives "));
    const std::string csv = contents(scratch() / "rows.csv"), xml = contents(scratch() / "rows.xml");
    CHECK(csv.starts_with("kind,instruction,class,model,trials,mismatches,verdict,seconds,note\n"));
    CHECK(has(csv, "replay,wgmma.m64n8k32.f32.e4m3.e4m3,normal,sm90.wgmma.fp8,2,1,differs,"));
    CHECK(has(csv, "replay,wgmma.m64n8k32.f32.e4m3.e4m3,tie,sm90.wgmma.fp8,1,0,equal,"));
    CHECK(has(xml, "tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""));
    CHECK(has(xml, "<failure message=\"1 of 2 differ from sm90.wgmma.fp8\">scalar gives "));
    const json object = json::parse(run("verify --replay wrong --json").out);
    CHECK(object["differ"] == 1);
    CHECK(object["equal"] == 1);
    CHECK(object["mismatches"] == 1);
    CHECK(object["rows"][0]["class"] == "normal");
    CHECK(object["device"] == "NVIDIA <Test> GPU");
    CHECK(object["traces"].size() == 1);
    CHECK(run("verify --replay wrong --csv missing/rows.csv").code == 5);
    CHECK(run("verify --replay wrong --only 'replay:mma*'").code == 2);
    CHECK(run("verify --replay right --only 'wgmma*'").code == 0);

    // verify refuses a truncated trace. `machine eval` reads the uncompressed text of a trace.
    if (file.ends_with(".zst")) {
        fs::resize_file(file, fs::file_size(file) - 3);
        const Outcome cut = run("verify --replay wrong");
        CHECK(cut.code == 3);
        CHECK(has(cut.err, "ends early"));
        CHECK(has(cut.err, fs::path(file).filename().string()));
    }
    evidence::Trace trace = evidence::read_trace(scratch() / "right" / fs::path(file).filename());
    write("plain.jsonl", evidence::trace_text(trace));
    const Outcome eval = run("machine eval plain.jsonl");
    CHECK(eval.code == 0);
    CHECK(has(eval.out, "3 lines of 1 instructions: 3 agree"));
    fs::remove_all(scratch());
}

}  // namespace verify_test
