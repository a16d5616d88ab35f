// SPDX-License-Identifier: Apache-2.0
// How fast casts are, beside memcpy of the same array in the same process. Unit of work: one fp32 number read and one
// written, so GB/s counts 8 bytes per element for casts and memcpy alike. Before a row is timed, its result is compared
// with the definition; a row that differs is an error, not a time.
#include "core/format_table.hpp"
#include "emulation/cpu/cast.hpp"
#include "emulation/cpu/stats.hpp"
#include "emulation/definitions.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>

using namespace macheps;

namespace {

constexpr std::int64_t in_cache = 1 << 16, in_memory = 1 << 26;

struct FreeAligned {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Array = std::unique_ptr<float[], FreeAligned>;

Array array(std::int64_t n) {
    return Array(
        static_cast<float*>(::operator new (static_cast<std::size_t>(n) * sizeof(float), std::align_val_t{64})));
}

/// About normal: sums of four uniform numbers, from -2 to 2, times 2^-6 .. 2^9.
void fill(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t r = random_bits({.seed = 1}, static_cast<std::uint64_t>(i & 0xfffff));
        const int sum = static_cast<int>((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
        x[i] = static_cast<float>(sum) / 256 * static_cast<float>(Format::power_of_two(static_cast<int>(r % 16) - 6));
    }
}

/// The operands and a place for results, made once per size.
struct Arrays {
    explicit Arrays(std::int64_t n) : in(array(n)), out(array(n)) {
        fill(in.get(), n);
        std::memset(out.get(), 0, static_cast<std::size_t>(n) * sizeof(float));
    }
    Array in, out;
};

Arrays& arrays(std::int64_t n) {
    static Arrays small(in_cache), large(in_memory);
    return n == in_cache ? small : large;
}

void count(benchmark::State& state, std::int64_t n) {
    state.SetItemsProcessed(state.iterations() * n);
    state.SetBytesProcessed(state.iterations() * n * 8);
}

void copy_memory(benchmark::State& state, std::int64_t n) {
    Arrays& a = arrays(n);
    for (auto _ : state) {
        std::memcpy(a.out.get(), a.in.get(), static_cast<std::size_t>(n) * sizeof(float));
        benchmark::ClobberMemory();
    }
    count(state, n);
}

void cast_numbers(benchmark::State& state, std::int64_t n, Simd simd, int threads, Cast cast, bool tallied) {
    Arrays& a = arrays(n);
    ThreadPool pool(threads);
    Tally tally, wanted;
    cast_array(simd, pool, a.in.get(), a.out.get(), n, cast, &tally);
    const std::int64_t checked = std::min(n, in_cache);
    for (std::int64_t i = 0; i < checked; ++i) {
        const float expected = definition::cast_element(cast, a.in[i], static_cast<std::uint64_t>(i));
        wanted.add(cast.format, a.in[i], a.in[i] * cast.encode_scale, expected);
        if (bit_cast<std::uint32_t>(expected) != bit_cast<std::uint32_t>(a.out[i]))
            return state.SkipWithError("wrong result");
    }
    if (checked == n && !(tally == wanted)) return state.SkipWithError("wrong tally");
    for (auto _ : state) {
        cast_array(simd, pool, a.in.get(), a.out.get(), n, cast, tallied ? &tally : nullptr);
        benchmark::ClobberMemory();
    }
    count(state, n);
}

void find_amax(benchmark::State& state, std::int64_t n, Simd simd) {
    Arrays& a = arrays(n);
    ThreadPool one(1);
    if (amax_array(simd, one, a.in.get(), n) != amax_array(Simd::scalar, one, a.in.get(), n)) {
        return state.SkipWithError("wrong result");
    }
    for (auto _ : state) benchmark::DoNotOptimize(amax_array(simd, one, a.in.get(), n));
    state.SetBytesProcessed(state.iterations() * n * 4);
}

void compare_numbers(benchmark::State& state, std::int64_t n, Simd simd) {
    Arrays& a = arrays(n);
    ThreadPool one(1);
    cast_array(simd, one, a.in.get(), a.out.get(), n, {.format = e4m3fn}, nullptr);
    if (compare_arrays(simd, one, a.in.get(), a.out.get(), n).error2 !=
        compare_arrays(Simd::scalar, one, a.in.get(), a.out.get(), n).error2) {
        return state.SkipWithError("wrong result");
    }
    for (auto _ : state) benchmark::DoNotOptimize(compare_arrays(simd, one, a.in.get(), a.out.get(), n));
    count(state, n);
}

void add_rows(std::int64_t n) {
    const std::string size = n == in_cache ? "64K" : "64M";
    benchmark::RegisterBenchmark(fmt::format("memcpy/{}", size).c_str(), copy_memory, n);
    struct Row {
        Format format;
        Round round;
        Overflow overflow = Overflow::nonsaturate;
        const char* note = "";
    };
    for (const Simd simd : available_simd()) {
        if (simd == Simd::scalar && n != in_cache) continue;
        for (const Row& row :
             {Row{.format = bf16, .round = Round::nearest_even}, Row{.format = fp16, .round = Round::nearest_even},
              Row{.format = tf32, .round = Round::nearest_even}, Row{.format = e4m3fn, .round = Round::nearest_even},
              Row{.format = e4m3fn, .round = Round::nearest_even, .overflow = Overflow::saturate, .note = ".saturate"},
              Row{.format = e5m2, .round = Round::nearest_even}, Row{.format = e4m3fnuz, .round = Round::nearest_even},
              Row{.format = e2m1fn, .round = Round::nearest_even},
              Row{.format = e4m3fn, .round = Round::toward_zero, .note = ".toward_zero"},
              Row{.format = bf16, .round = Round::stochastic, .note = ".stochastic"},
              Row{.format = e4m3fn, .round = Round::stochastic, .note = ".stochastic"}}) {
            const Cast cast{.format = row.format, .round = row.round, .overflow = row.overflow};
            for (const bool tallied : {false, true}) {
                const std::string name = fmt::format("cast/{}{}{}/{}/{}", format_name(row.format), row.note,
                                                     tallied ? ".tally" : "", simd_name(simd), size);
                benchmark::RegisterBenchmark(name.c_str(), cast_numbers, n, simd, 1, cast, tallied);
            }
        }
        benchmark::RegisterBenchmark(fmt::format("amax/{}/{}", simd_name(simd), size).c_str(), find_amax, n, simd);
        benchmark::RegisterBenchmark(fmt::format("compare/{}/{}", simd_name(simd), size).c_str(), compare_numbers, n,
                                     simd);
    }
    if (n == in_memory && available_threads() > 1) {
        const int threads = available_threads();
        const Simd best = available_simd().back();
        benchmark::RegisterBenchmark(fmt::format("cast/e4m3fn/{}.{}threads/{}", simd_name(best), threads, size).c_str(),
                                     cast_numbers, n, best, threads, Cast{.format = e4m3fn}, false)
            ->UseRealTime();
    }
}

}  // namespace

int main(int argc, char** argv) {
    add_rows(in_cache);
    add_rows(in_memory);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
