// SPDX-License-Identifier: Apache-2.0
// Runs every verb on emulated CPUs without AVX-512 and without AVX2. No illegal instruction may occur, and the output
// must be the same as on this machine's CPU.
#include "tests/dispatch/other_cpus.hpp"

#include <cmath>
#include <random>
#include <set>
#include <sstream>
#include <vector>

namespace other_cpus_test {

using namespace macheps::test;

namespace {

/// One use of a verb. The output of the script on another CPU is compared with its output on this CPU.
struct Use {
    const char *verb, *script;
};
constexpr Use uses[] = {
    {"train",
     "macheps train --steps 2 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --eval-batches 1 --warmup 1 "
     "--seeds 0 "
     "--policy amp-bf16,h100-fp8-fast,pure-bf16-sr --out run -q && cat run/steps.csv run/evals.csv run/sites.csv "
     "run/summary.csv"},
    {"report", "macheps report run --json"},
    {"sweep", "macheps sweep run plan.toml --out swept -q && macheps sweep status swept"},
    {"merge", "macheps merge swept >/dev/null && cat swept/merged/steps.csv swept/merged/evals.csv"},
    {"show", "macheps show 1/3"},
    {"formats", "macheps formats --csv"},
    {"compute", "macheps compute 'fma(0.1, 10, -1)' && macheps compute '1 / 3' --round stochastic --random 7"},
    {"convert",
     "macheps convert --to e4m3fn <numbers.f32 | od -An -tx1; "
     "macheps convert --to bf16 --round stochastic <numbers.f32 | od -An -tx1"},
    {"policy", "macheps policy explain amp-fp16"},
    {"scale", "macheps scale te_delayed --amax 1,2,0,inf,3 --csv"},
    {"scaler", "macheps scaler torch --window 3 --overflow-at 3,4,9 --csv"},
    {"gemm",
     "macheps gemm -k 64 -m 8 -n 8 -q; "
     "macheps gemm -k 64 -m 8 -n 8 -q --format fp16 -M bf16.chain,fp16.chain,fp32.pairwise,fp32.kahan"},
    {"solve", "macheps solve -n 16 -q"},
    {"sum", "macheps sum -n 256 -q"},
    {"eval", "macheps eval 'log1p(exp(x))' --x -20:20 -f e4m3fn,bf16 --points 200 -q"},
    {"check",
     "macheps check a.npy b.npy out.npy --op gemm --json && macheps check x.npy softmax.npy out=softmax --op softmax "
     "--json"},
    {"check",
     "macheps check make-inputs --op gemm --a fp16 --b fp16 --out fp16 --shape 16,16,64 -o inputs >/dev/null && cksum "
     "inputs/*"},
    {"check", "macheps check power --op gelu --x bf16 --out bf16 --shape 4,64 --json"},
    {"machine",
     "macheps machine eval vectors.jsonl --json | grep -E 'name|lines|wrong|disputed'; macheps machine show "
     "sm90.wgmma.fp8"},
    {"reveal", "macheps reveal"},
    {"testfloat", "macheps testfloat bf16_add --generate | head -200"},
    {"verify", "macheps verify --replay traces"},
    {"why", "macheps why the loss does not decrease"},
    {"diagnose", "macheps diagnose fp16.enabled=true fp16.initial_scale_power=32 --framework deepspeed"},
    {"version", "macheps version | grep -v '^device'"},
    {"help", "macheps help gemm"},
    {"completion", "macheps completion bash"},
    {"man", "macheps man"},
};

std::string npy(const std::string& shape, const std::vector<float>& values) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
    header.append(117 - header.size(), ' ');
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(118) + '\0' + header + '\n' +
           std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

/// Makes a folder with the input files of the scripts.
fs::path make_folder(const std::string& name) {
    const fs::path folder = scratch() / name;
    fs::remove_all(folder);
    fs::create_directories(folder);
    const auto put = [&](const char* file, const std::string& text) {
        std::ofstream(folder / file, std::ios::binary) << text;
    };
    std::mt19937 random(1);
    const auto draw = [&](std::size_t count) {
        std::vector<float> numbers(count);
        for (float& x : numbers) x = static_cast<float>(static_cast<int>(random() % 4097) - 2048) / 512;
        return numbers;
    };
    constexpr std::size_t m = 6, n = 8, k = 48, rows = 4, width = 64;
    const std::vector<float> numbers = draw(300), a = draw(m * k), b = draw(k * n), x = draw(rows * width);
    std::vector<float> out(m * n), softmax(rows * width);
    for (std::size_t i = 0; i < out.size(); ++i) {
        for (std::size_t p = 0; p < k; ++p) out[i] += a[i / n * k + p] * b[p * n + i % n];
    }
    for (std::size_t first = 0; first < x.size(); first += width) {
        double sum = 0;
        for (std::size_t i = first; i < first + width; ++i) sum += std::exp(double{x[i]});
        for (std::size_t i = first; i < first + width; ++i)
            softmax[i] = static_cast<float>(std::exp(double{x[i]}) / sum);
    }
    put("numbers.f32", std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)));
    put("a.npy", npy("(6, 48)", a));
    put("b.npy", npy("(48, 8)", b));
    put("out.npy", npy("(6, 8)", out));
    put("x.npy", npy("(4, 64)", x));
    put("softmax.npy", npy("(4, 64)", softmax));
    put("plan.toml",
        "[train]\nsteps = 2\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\nbatch = 2\nwarmup = 1\neval-batches = 1\n"
        "[axes]\npolicy = [\"amp-bf16\"]\nseeds = [\"0\"]\n");
    const fs::path root = MACHEPS_SOURCE_DIR;
    fs::copy(root / "examples/vectors.jsonl", folder / "vectors.jsonl");
    fs::copy(root / "tests/traces/intel-xeon-amx", folder / "traces", fs::copy_options::recursive);
    return folder;
}

/// Returns the first line in which two outputs differ, in both versions, or an empty text if they are equal.
std::string first_difference(const std::string& output, const std::string& expected) {
    std::istringstream left(output), right(expected);
    for (std::string a, b; output != expected;) {
        const bool has_left = static_cast<bool>(std::getline(left, a)),
                   has_right = static_cast<bool>(std::getline(right, b));
        if (has_left != has_right || a != b || !has_left) return "'" + a + "' for '" + b + "'";
    }
    return {};
}

/// Returns the verbs that --help lists.
std::set<std::string> listed_verbs() {
    std::istringstream help(run("--help").out);
    std::set<std::string> verbs;
    bool is_list = false;
    for (std::string line; std::getline(help, line);) {
        if (is_list && line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
            verbs.insert(line.substr(2, line.find(' ', 2) - 2));
        is_list = is_list || line == "Verbs:";
    }
    return verbs;
}

}  // namespace

TEST_CASE("every verb in --help occurs in a script that is run on other CPUs", "[other_cpus]") {
    std::set<std::string> used;
    for (const Use& use : uses) used.insert(use.verb);
    CHECK(used == listed_verbs());
    fs::remove_all(scratch());
}

TEST_CASE("every verb gives the same bits on CPUs without AVX-512 and without AVX2", "[other_cpus]") {
    if (!has_emulator()) SKIP_TEST("absent: qemu-x86_64 (Debian: qemu-user)");
    const fs::path native = make_folder("native");
    std::vector<Outcome> expected;
    for (const Use& use : uses) {
        expected.push_back(run_on(this_cpu, native, use.script));
        CAPTURE(use.script, expected.back().err);
        REQUIRE(expected.back().code == 0);
        REQUIRE(!expected.back().out.empty());
    }
    for (const OtherCpu& cpu : other_cpus) {
        const fs::path folder = make_folder(cpu.name);
        CAPTURE(cpu.name);
        for (std::size_t i = 0; i < std::size(uses); ++i) {
            const Outcome outcome = run_on(cpu, folder, uses[i].script);
            CAPTURE(uses[i].script, outcome.err);
            CHECK(outcome.code == 0);
            CHECK(first_difference(outcome.out, expected[i].out) == "");
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("a program chooses the instruction set of the CPU that it runs on", "[other_cpus]") {
    if (!has_emulator()) SKIP_TEST("absent: qemu-x86_64 (Debian: qemu-user)");
    const fs::path folder = make_folder("levels");
    for (const OtherCpu& cpu : {other_cpus[0], other_cpus[1], baseline_cpu}) {
        const Outcome outcome = run_on(cpu, folder, "macheps version");
        CAPTURE(cpu.name, outcome.out, outcome.err);
        CHECK(outcome.code == 0);
        const bool has_level = outcome.out.find(std::string("cpu.") + cpu.level) != std::string::npos;
        CHECK((has_level || outcome.out.find("cpu.scalar") != std::string::npos));  // a native build has one set only
        const Outcome forced = run_on(cpu, folder, "export MACHEPS_SIMD=avx512; macheps gemm -k 16 -m 2 -n 2 -q");
        CHECK(forced.code == 2);
        CHECK(forced.err.find("this CPU does not support avx512") != std::string::npos);
    }
    for (const char* script : {uses[0].script, "macheps check a.npy b.npy out.npy --op gemm --json"}) {
        const Outcome outcome = run_on(baseline_cpu, folder, script);
        CAPTURE(script, outcome.err);
        CHECK(outcome.code == 0);
        CHECK(first_difference(outcome.out, run_on(this_cpu, make_folder("native"), script).out) == "");
    }
    fs::remove_all(scratch());
}

}  // namespace other_cpus_test
