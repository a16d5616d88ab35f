// SPDX-License-Identifier: Apache-2.0
// Measures LU factorisations in emulated formats. Unit of work: one factorisation.
//
// The rows lu/ compare LU with OpenBLAS's dgetrf, and `ratio` is our time divided by the time of dgetrf. Before the
// timing, the factors of a small matrix are compared with plain loops over Float.
//
// The rows lu_on/ compare blocked LU on an emulated matrix unit with a matmul on the same unit. Both are measured in
// multiply-adds per second, of which LU does n^3 / 3. `ratio` is the speed of LU divided by the speed of the matmul.
//
// Our work and the work that it is compared with run alternately on one thread. The shortest processor time of each
// counts.
#include "bench/best.hpp"
#include "core/format_table.hpp"
#include "core/types/float.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/definitions.hpp"
#include "experiments/study/solve/factor/lu.hpp"
#include "experiments/study/solve/gallery.hpp"

#include <benchmark/benchmark.h>
#include <cblas.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

extern "C" void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* pivots, int* info);

using namespace macheps;
using namespace macheps::study;

namespace {

Matrix uniform_in(const Format& format, std::int64_t n) {
    CastCounts counts;
    return cast_matrix(make_matrix(parse_matrix("uniform"), n, 0), {}, format, counts);
}

template <Format F>
bool is_right(Simd simd) {
    constexpr std::int64_t n = 40;
    ThreadPool pool(1);
    const Matrix a = uniform_in(F, n);
    std::vector<Float<F>> expected;
    for (const double x : a.values) expected.push_back(Float<F>(x));
    std::vector<std::int64_t> rows;
    study::definition::lu(n, expected.data(), rows);
    const Factors got = factor_lu(a, {.format = F}, pool, simd);
    bool same = got.rows == rows;
    for (std::size_t i = 0; i < expected.size(); ++i)
        same = same && got.lu.values[i] == static_cast<double>(expected[i]);
    return same;
}

/// Runs `our_work` and `their_work` alternately, and records the shortest time of each.
struct Turns {
    bench::Best ours{}, theirs{};

    Turns(benchmark::State& state, const std::function<void()>& our_work, const std::function<void()>& their_work) {
        for (auto _ : state) {
            state.SetIterationTime(ours.sample(CLOCK_THREAD_CPUTIME_ID, 1, our_work));
            theirs.sample(CLOCK_THREAD_CPUTIME_ID, 1, their_work);
        }
        state.counters["milliseconds"] = ours.least() * 1e3;
        state.counters["yardstick_milliseconds"] = theirs.least() * 1e3;
    }
};

template <Format F>
void against_dgetrf(benchmark::State& state, Simd simd, std::int64_t n) {
    if (!is_right<F>(simd)) return state.SkipWithError("differs from the definition");
    openblas_set_num_threads(1);
    ThreadPool pool(1);
    const Matrix a = uniform_in(F, n), wide = make_matrix(parse_matrix("uniform"), n, 0);
    const auto size = static_cast<int>(n);
    std::vector<double> copy;
    std::vector<int> pivots(static_cast<std::size_t>(n));
    const Turns turns(
        state, [&] { benchmark::DoNotOptimize(factor_lu(a, {.format = F}, pool, simd)); },
        [&] {
            int info = 0;
            copy = wide.values;
            dgetrf_(&size, &size, copy.data(), &size, pivots.data(), &info);
            benchmark::DoNotOptimize(copy.data());
        });
    state.counters["ratio"] = turns.ours.least() / turns.theirs.least();
}

/// Compares two rates of multiply-adds on the same machine: LU does n^3 / 3 of them, and a square matmul does n^3.
void against_gemm(benchmark::State& state, const char* name, const Format& format, Simd simd, std::int64_t n) {
    ThreadPool pool(1);
    const Machine* machine = find_machine(name);
    const Matrix a = uniform_in(format, n);
    const LuPlan plan{.format = format, .block = 64, .rule = MatmulRule{.machine = machine}, .operands = format};
    std::vector<float> x(a.values.begin(), a.values.end()), out(x.size());
    CpuBackend engine(pool, simd);
    Matmul args{.m = n, .n = n, .k = n};
    args.rule.machine = machine;
    args.a = args.b = {.data = x.data(), .ld = n, .format = format};
    args.out = out.data();
    args.ld_out = n;
    Factors factors;  // every call reuses its memory, as the matmul reuses `out`
    const Turns turns(
        state, [&] { factors = factor_lu(a, plan, pool, simd, std::move(factors)); }, [&] { engine.matmul(args); });
    state.counters["ratio"] = turns.theirs.least() / (3 * turns.ours.least());
}

}  // namespace

int main(int argc, char** argv) {
    for (const Simd simd : available_simd()) {
        if (simd == Simd::scalar) continue;
        const auto add = [&](const char* format, auto* run) {
            benchmark::RegisterBenchmark(fmt::format("lu/{}/256/{}", format, simd_name(simd)).c_str(), run, simd, 256)
                ->Iterations(60)
                ->UseManualTime();
        };
        add("fp16", against_dgetrf<fp16>);
        add("bf16", against_dgetrf<bf16>);
        add("tf32", against_dgetrf<tf32>);
        add("e4m3fn", against_dgetrf<e4m3fn>);
        add("fp32", against_dgetrf<fp32>);
        for (const auto& [name, format] : {std::pair{"sm90.wgmma.fp16", fp16},
                                           {"sm90.wgmma.bf16", bf16},
                                           {"sm80.mma.fp16", fp16},
                                           {"fp32.chain", fp16}}) {
            benchmark::RegisterBenchmark(
                fmt::format("lu_on/{}/{}/1024/{}", name, format_name(format), simd_name(simd)).c_str(), against_gemm,
                name, format, simd, 1024)
                ->Iterations(3)
                ->UseManualTime();
        }
    }
    benchmark::AddCustomContext("openblas_core", openblas_get_corename());
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
}
