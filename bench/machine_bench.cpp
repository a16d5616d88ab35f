// SPDX-License-Identifier: Apache-2.0
// Compares matmuls on emulated matrix units, including packing, with OpenBLAS's sgemm. Unit of work: one matmul. Rows
// whose names begin with openblas/ measure the processor time of one thread. Rows whose names begin with scaling/
// compare the wall time of two threads with that of one. `openblas_core` in the context of the output names the
// OpenBLAS kernels that ran. To measure AVX-512, leave OPENBLAS_CORETYPE unset. To measure AVX2, set MACHEPS_SIMD=avx2
// and OPENBLAS_CORETYPE=Haswell.
#include "bench/best.hpp"
#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/rng.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

using namespace macheps;
using bench::Best;

namespace {

struct Work {
    std::string_view machine;
    Format a, b;
    int promotion = 0;
};

constexpr Work works[] = {
    {"fp32.chain", fp32, fp32},
    {"sm90.wgmma.fp16", fp16, fp16},
    {"sm90.wgmma.bf16", bf16, bf16},
    {"sm90.wgmma.tf32", tf32, tf32},
    {"sm90.wgmma.fp16.acc16", fp16, fp16},
    {"sm90.wgmma.fp8", e4m3fn, e4m3fn},
    {"sm90.wgmma.fp8", e5m2, e4m3fn},
    {"sm90.wgmma.fp8", e4m3fn, e4m3fn, 128},
    {"sm90.mma.fp8", e4m3fn, e4m3fn},
    {"sm70.mma.fp16", fp16, fp16},
    {"sm80.mma.fp16", fp16, fp16},
    {"sm80.mma.tf32", tf32, tf32},
    {"sm89.mma.fp8", e4m3fn, e4m3fn},
    {"sm100.tcgen05.fp8", e4m3fn, e4m3fn},
    {"sm100.tcgen05.mxfp8", e4m3fn, e4m3fn},
    {"sm100.tcgen05.nvfp4", e2m1fn, e2m1fn},
    {"cdna1.mfma.fp16", fp16, fp16},
    {"cdna2.mfma.bf16_1k", bf16, bf16},
    {"cdna3.mfma.fp16", fp16, fp16},
    {"cdna3.mfma.fp8", e4m3fnuz, e4m3fnuz},
};

/// Returns the entries of `works`, and one more entry for each machine without an entry there. The operands of a matrix
/// unit have the first format that it accepts. The operands of an order of summation have fp32, or the format in its
/// name (bf16.chain, fp16.chain). Machines that cannot run a matmul of fp32 tensors are left out: fp64 machines, and
/// instructions whose result and addend have different formats.
std::vector<Work> all_works() {
    std::vector<Work> all(std::begin(works), std::end(works));
    for (const Machine* machine : all_machines) {
        const auto is_it = [&](const Work& work) { return work.machine == machine->name; };
        if (std::any_of(all.begin(), all.end(), is_it) || machine->addend != machine->result || machine->result == fp64)
            continue;
        const std::string_view name = machine->name;
        const Format any = name == "bf16.chain" ? bf16 : name == "fp16.chain" ? fp16 : fp32;
        for (const Format& format : FormatSet::known) {
            if (format == fp64 || !machine->operands.contains(format)) continue;
            const Format taken = is_order_of_summation(*machine) ? any : format;
            all.push_back({name, taken, taken});
            break;
        }
    }
    return all;
}

/// Returns approximately normal numbers (sums of four uniform numbers), rounded to `format`.
std::vector<float> values(std::int64_t count, const Format& format, std::uint32_t site) {
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i) {
        float sum = 0;
        for (std::uint64_t t = 0; t < 4; ++t) {
            sum += static_cast<float>(random_bits({.seed = 1, .site = site}, 4 * i + t)) * 0x1p-31f - 1.0f;
        }
        x[i] = quantize(format, sum, Round::nearest_even, Overflow::saturate);
    }
    return x;
}

struct Contest {
    std::int64_t n;
    std::vector<float> a, b, ours, theirs, scales;
    Matmul args;

    Contest(const Work& w, std::int64_t size) : n(size), a(values(n * n, w.a, 1)), b(values(n * n, w.b, 2)) {
        ours.resize(a.size());
        theirs = ours;
        args = {.m = n,
                .n = n,
                .k = n,
                .a = {.data = a.data(), .ld = n, .format = w.a},
                .b = {.data = b.data(), .ld = n, .format = w.b},
                .out = ours.data(),
                .ld_out = n};
        args.rule.machine = find_machine(w.machine);
        if (w.promotion != 0) {
            args.rule.promotion = Promotion::add;
            args.rule.promotion_interval = w.promotion;
        }
        const Machine& machine = *args.rule.machine;
        if (!machine.has_scales()) return;
        const std::int64_t blocks = n / machine.scale_block;
        for (std::int64_t i = 0; i < n * blocks; ++i) scales.push_back(i % 3 == 0 ? 1.0f : 0.5f);
        args.a.scales = args.b.scales = {scales.data(), 1, machine.scale_block, blocks, 1};
    }

    double operations() const { return static_cast<double>(n * n * n); }
    void run_theirs() {
        const auto size = static_cast<int>(n);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1, a.data(), size, b.data(), size, 0,
                    theirs.data(), size);
    }
    /// Compares the bits of some elements with the definition. Returns an error text, or an empty text if all agree.
    std::string fault() const {
        for (std::int64_t sample = 0; sample < 20; ++sample) {
            const std::int64_t i = sample * 31 % n, j = sample * 17 % n;
            const float want = definition::matmul_element(args, a.data(), b.data(), i, j, 0).after;
            const float got = ours[static_cast<std::size_t>(i * n + j)];
            if (bit_cast<std::uint32_t>(want) != bit_cast<std::uint32_t>(got))
                return "the bits differ from those of the definition";
        }
        return "";
    }
};

void against_openblas(benchmark::State& state, const Work& work, std::int64_t n, Simd simd) {
    ThreadPool pool(1);
    openblas_set_num_threads(1);
    Contest contest(work, n);
    matmul(simd, pool, contest.args);
    contest.run_theirs();
    if (const std::string fault = contest.fault(); !fault.empty()) return state.SkipWithError(fault.c_str());
    Best ours, theirs;
    for (auto _ : state) {
        state.SetIterationTime(ours.sample(CLOCK_THREAD_CPUTIME_ID, 1, [&] { matmul(simd, pool, contest.args); }));
        theirs.sample(CLOCK_THREAD_CPUTIME_ID, 1, [&] { contest.run_theirs(); });
    }
    state.counters["GMAC/s"] = contest.operations() / ours.least() * 1e-9;
    state.counters["openblas"] = contest.operations() / theirs.least() * 1e-9;
    state.counters["ratio"] = theirs.least() / ours.least();
}

void against_one_thread(benchmark::State& state, const Work& work, std::int64_t n, Simd simd) {
    ThreadPool one(1), two(2);
    Contest contest(work, n);
    Best alone, together;
    for (auto _ : state) {
        state.SetIterationTime(together.sample(CLOCK_MONOTONIC, 1, [&] { matmul(simd, two, contest.args); }));
        alone.sample(CLOCK_MONOTONIC, 1, [&] { matmul(simd, one, contest.args); });
    }
    state.counters["GMAC/s"] = contest.operations() / together.least() * 1e-9;
    state.counters["speedup"] = alone.least() / together.least();
}

std::string name_of(const char* kind, const Work& w, std::int64_t n, Simd simd) {
    return std::string(kind) + "/" + std::string(w.machine) + (w.a == w.b ? "" : "/mixed") +
           (w.promotion != 0 ? "/promotion:" + std::to_string(w.promotion) : "") + "/" + std::to_string(n) + "/" +
           std::string(simd_name(simd));
}

}  // namespace

int main(int argc, char** argv) {
    const Simd simd = chosen_simd();
    benchmark::AddCustomContext("openblas_core", openblas_get_corename());
    benchmark::AddCustomContext("simd", std::string(simd_name(simd)));
    for (const std::int64_t n : {512, 1024}) {
        for (const Work& work : all_works()) {
            benchmark::RegisterBenchmark(name_of("openblas", work, n, simd).c_str(), [=](benchmark::State& state) {
                against_openblas(state, work, n, simd);
            })->UseManualTime();
        }
    }
    for (const Work& work : works) {
        benchmark::RegisterBenchmark(name_of("scaling", work, 512, simd).c_str(), [=](benchmark::State& state) {
            against_one_thread(state, work, 512, simd);
        })->UseManualTime();
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
