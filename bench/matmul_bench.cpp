// SPDX-License-Identifier: Apache-2.0
// Compares the CPU engine's matmul on the machine fp32.chain with OpenBLAS's sgemm. Unit of work: one matmul (a batch
// counts as one). One thread is measured in its own processor time, so that other programs disturb it little; several
// threads are measured in wall time.
#include "bench/best.hpp"
#include "bench/fma_peak.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/matmul/matmul.hpp"

#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace macheps;
using bench::Best;

namespace {

struct Work {
    const char* name;
    std::int64_t m, n, k;
    bool a_transposed = false, b_transposed = false;
    std::int64_t batch = 1;
};

/// The matmuls of a linear layer whose weights w have the shape [out, in] are x w^T (forward), dy w (input_grad) and
/// dy^T x (weight_grad).
constexpr Work works[] = {
    {.name = "square", .m = 256, .n = 256, .k = 256},
    {.name = "square", .m = 512, .n = 512, .k = 512},
    {.name = "square", .m = 1024, .n = 1024, .k = 1024},
    {.name = "square", .m = 1024, .n = 1024, .k = 1024, .b_transposed = true},
    {.name = "square", .m = 1024, .n = 1024, .k = 1024, .a_transposed = true},
    {.name = "square", .m = 1000, .n = 1000, .k = 1000},
    {.name = "tiny.qkv.forward", .m = 512, .n = 192, .k = 64, .b_transposed = true},
    {.name = "tiny.proj.forward", .m = 512, .n = 64, .k = 64, .b_transposed = true},
    {.name = "tiny.up.forward", .m = 512, .n = 256, .k = 64, .b_transposed = true},
    {.name = "tiny.down.forward", .m = 512, .n = 64, .k = 256, .b_transposed = true},
    {.name = "tiny.up.input_grad", .m = 512, .n = 64, .k = 256},
    {.name = "tiny.up.weight_grad", .m = 256, .n = 64, .k = 512, .a_transposed = true},
    {.name = "tiny.scores", .m = 32, .n = 32, .k = 16, .b_transposed = true, .batch = 64},
    {.name = "tiny.mix", .m = 32, .n = 16, .k = 32, .batch = 64},
    {.name = "tiny.mix.grad_b", .m = 32, .n = 16, .k = 32, .a_transposed = true, .batch = 64},
    {.name = "small.up.forward", .m = 1024, .n = 512, .k = 128, .b_transposed = true},
    {.name = "small.up.input_grad", .m = 1024, .n = 128, .k = 512},
    {.name = "small.up.weight_grad", .m = 512, .n = 128, .k = 1024, .a_transposed = true},
    {.name = "small.scores", .m = 128, .n = 128, .k = 32, .b_transposed = true, .batch = 32},
    {.name = "small.mix", .m = 128, .n = 32, .k = 128, .batch = 32},
    {.name = "base.up.forward", .m = 1024, .n = 1536, .k = 384, .b_transposed = true},
    {.name = "base.up.input_grad", .m = 1024, .n = 384, .k = 1536},
    {.name = "base.up.weight_grad", .m = 1536, .n = 384, .k = 1024, .a_transposed = true},
    {.name = "base.scores", .m = 256, .n = 256, .k = 64, .b_transposed = true, .batch = 24},
    {.name = "base.mix", .m = 256, .n = 64, .k = 256, .batch = 24},
};

std::vector<float> random_values(std::int64_t count, std::uint32_t site) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(random_bits({.seed = 1, .site = site}, i)) * 0x1p-31f - 1.0f;
    }
    return values;
}

/// Operands, and their product computed by macheps (`ours`) and by OpenBLAS (`theirs`).
struct Contest {
    Work work;
    std::vector<float> a, b, ours, theirs;
    Matmul args;

    explicit Contest(const Work& w) : work(w) {
        a = random_values(w.batch * w.m * w.k, 1);
        b = random_values(w.batch * w.k * w.n, 2);
        ours.resize(static_cast<std::size_t>(w.batch * w.m * w.n));
        theirs = ours;
        args = {.m = w.m,
                .n = w.n,
                .k = w.k,
                .batch_inner = w.batch,
                .a = {.data = a.data(),
                      .ld = w.a_transposed ? w.m : w.k,
                      .transposed = w.a_transposed,
                      .stride_inner = w.m * w.k},
                .b = {.data = b.data(),
                      .ld = w.b_transposed ? w.k : w.n,
                      .transposed = w.b_transposed,
                      .stride_inner = w.k * w.n},
                .out = ours.data(),
                .ld_out = w.n,
                .stride_out_inner = w.m * w.n};
    }
    double operations() const { return 2.0 * static_cast<double>(work.batch * work.m * work.n * work.k); }

    void run_ours(Simd simd, ThreadPool& pool) { matmul(simd, pool, args); }
    void run_theirs() {
        const auto size = [](std::int64_t x) { return static_cast<int>(x); };
        for (std::int64_t i = 0; i < work.batch; ++i) {
            cblas_sgemm(CblasRowMajor, work.a_transposed ? CblasTrans : CblasNoTrans,
                        work.b_transposed ? CblasTrans : CblasNoTrans, size(work.m), size(work.n), size(work.k), 1,
                        a.data() + i * work.m * work.k, size(args.a.ld), b.data() + i * work.k * work.n,
                        size(args.b.ld), 0, theirs.data() + i * work.m * work.n, size(work.n));
        }
    }

    /// Compares the bits of some elements of our product with the definition, and every element of OpenBLAS's product
    /// with ours. OpenBLAS adds the terms of a sum in another order. The rounding error of a sum of k terms, added in
    /// any order, is at most k u / (1 - k u) * sum |a b| (Higham, Accuracy and Stability, 3.1), where |a|, |b| <= 1.
    /// Therefore the two products may differ by at most twice this bound. Returns an error text, or an empty text if
    /// both comparisons succeed.
    std::string fault() const {
        const double bound = 2.0 * static_cast<double>(work.k * work.k) * 0x1.001p-24;
        for (std::size_t i = 0; i < ours.size(); ++i) {
            if (!(std::fabs(ours[i] - theirs[i]) <= bound)) return "OpenBLAS disagrees at " + std::to_string(i);
        }
        for (std::int64_t sample = 0; sample < 1000; ++sample) {
            const std::int64_t q = sample % work.batch, i = sample * 31 % work.m, j = sample * 17 % work.n;
            const float want = definition::matmul_element(args, a.data() + q * args.a.stride_inner,
                                                          b.data() + q * args.b.stride_inner, i, j, 0)
                                   .after;
            const float got = ours[static_cast<std::size_t>((q * work.m + i) * work.n + j)];
            if (bit_cast<std::uint32_t>(want) != bit_cast<std::uint32_t>(got))
                return "the bits differ from those of the definition";
        }
        return "";
    }
};

/// Takes one more sample of the speed of fma that uses only registers. Returns the highest speed of all samples so far,
/// in operations per second of one thread.
double sample_peak(Simd simd) {
    static Best best;
    double operations = 0;
    best.sample(CLOCK_THREAD_CPUTIME_ID, 1, [&] { operations = bench::fma_rounds(simd, 400'000); });
    return operations / best.least();
}

/// Measures our product and OpenBLAS's alternately. The counters are computed from the best sample of each.
void against_openblas(benchmark::State& state, const Work& work, Simd simd, int threads) {
    ThreadPool pool(threads);
    openblas_set_num_threads(threads);
    Contest contest(work);
    contest.run_ours(simd, pool);
    contest.run_theirs();
    if (const std::string fault = contest.fault(); !fault.empty()) return state.SkipWithError(fault.c_str());

    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const auto calls = static_cast<std::int64_t>(std::max(1.0, 1e8 / contest.operations()));  // about 0.5 ms
    Best ours, theirs;
    double peak = 0;
    for (auto _ : state) {
        peak = sample_peak(simd);
        state.SetIterationTime(ours.sample(clock, calls, [&] { contest.run_ours(simd, pool); }));
        theirs.sample(clock, calls, [&] { contest.run_theirs(); });
    }
    state.counters["GFLOP/s"] = contest.operations() / ours.least() * 1e-9;
    state.counters["openblas"] = contest.operations() / theirs.least() * 1e-9;
    state.counters["ratio"] = theirs.least() / ours.least();
    state.counters["peak_share"] = contest.operations() / ours.least() / (peak * threads);
}

/// Measures the speedup of several threads over one thread in wall time. The two measurements alternate.
void against_one_thread(benchmark::State& state, const Work& work, Simd simd, int threads) {
    ThreadPool one(1), several(threads);
    Contest contest(work);
    contest.run_theirs();
    contest.run_ours(simd, several);
    if (const std::string fault = contest.fault(); !fault.empty()) return state.SkipWithError(fault.c_str());
    Best alone, together;
    for (auto _ : state) {
        state.SetIterationTime(together.sample(CLOCK_MONOTONIC, 1, [&] { contest.run_ours(simd, several); }));
        alone.sample(CLOCK_MONOTONIC, 1, [&] { contest.run_ours(simd, one); });
    }
    state.counters["GFLOP/s"] = contest.operations() / together.least() * 1e-9;
    state.counters["speedup"] = alone.least() / together.least();
}

std::string name_of(const std::string& first, const Work& w, Simd simd, int threads) {
    return first + "/" + w.name + "/" + std::to_string(w.m) + "x" + std::to_string(w.n) + "x" + std::to_string(w.k) +
           (w.a_transposed ? "/at" : "") + (w.b_transposed ? "/bt" : "") +
           (w.batch > 1 ? "/batch:" + std::to_string(w.batch) : "") + "/" + std::string(simd_name(simd)) +
           "/threads:" + std::to_string(threads);
}

}  // namespace

int main(int argc, char** argv) {
    if (std::getenv("OPENBLAS_CORETYPE") != nullptr) {
        std::fputs(
            "bench_matmul: OPENBLAS_CORETYPE is set and restricts OpenBLAS; "
            "run `env -u OPENBLAS_CORETYPE bench_matmul` instead\n",
            stderr);
        return 2;
    }
    const Simd simd = chosen_simd();
    benchmark::AddCustomContext("openblas_core", openblas_get_corename());
    benchmark::AddCustomContext("openblas", openblas_get_config());
    benchmark::AddCustomContext("simd", std::string(simd_name(simd)));
    for (const Work& work : works) {
        benchmark::RegisterBenchmark(name_of("openblas", work, simd, 1).c_str(), [=](benchmark::State& state) {
            against_openblas(state, work, simd, 1);
        })->UseManualTime();
    }
    if (const int threads = available_threads(); threads > 1) {
        for (const Work& work : works) {
            if (work.batch * work.m * work.n * work.k < (1 << 21)) continue;
            benchmark::RegisterBenchmark(name_of("scaling", work, simd, 2).c_str(), [=](benchmark::State& state) {
                against_one_thread(state, work, simd, 2);
            })->UseManualTime();
        }
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
