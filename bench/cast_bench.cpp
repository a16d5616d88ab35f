// SPDX-License-Identifier: Apache-2.0
// Measures casts. For comparison, memcpy of the same array is measured in the same process. Unit of work: one element,
// of which 4 bytes are read and 4 bytes are written. GB/s therefore counts 8 bytes per element for casts and for
// memcpy. Before a row is timed, its result is compared with the definition. A row that differs reports an error, not a
// time.
#include "core/format_table.hpp"
#include "emulation/cpu/ops/casts/codes.hpp"
#include "emulation/cpu/ops/stats.hpp"
#include "emulation/definitions.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

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

/// Fills `x` with approximately normal numbers. Each is a sum of four uniform numbers, which is between -2 and 2, times
/// a power of two between 2^-6 and 2^9.
void fill(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const std::uint32_t r = random_bits({.seed = 1}, static_cast<std::uint64_t>(i & 0xfffff));
        const int sum = static_cast<int>((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
        x[i] = static_cast<float>(sum) / 256 * static_cast<float>(Format::power_of_two(static_cast<int>(r % 16) - 6));
    }
}

/// Operands and space for results, made once per size.
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

void cast_numbers(benchmark::State& state, std::int64_t n, Simd simd, int threads, Cast cast, bool tallied,
                  bool in_place) {
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
    // If the cast is in place, the first call rounds the numbers. Later calls do the same work but change nothing.
    const float* in = in_place ? a.out.get() : a.in.get();
    for (auto _ : state) {
        cast_array(simd, pool, in, a.out.get(), n, cast, tallied ? &tally : nullptr);
        benchmark::ClobberMemory();
    }
    count(state, n);
}

template <class Code>
std::vector<Code>& codes_of(std::int64_t n) {
    static std::vector<Code> small(in_cache), large;
    if (n != in_cache && large.empty()) large.resize(in_memory);
    return n == in_cache ? small : large;
}

/// Encodes the operands. Returns whether the codes match the definition.
template <class Code>
bool encode_and_check(std::int64_t n, Simd simd, ThreadPool& pool, Cast cast) {
    Arrays& a = arrays(n);
    std::vector<Code>& codes = codes_of<Code>(n);
    encode_array(simd, pool, a.in.get(), codes.data(), n, cast);
    for (std::int64_t i = 0; i < std::min(n, in_cache); ++i) {
        if (codes[static_cast<std::size_t>(i)] != encode(cast.format, a.in[i], cast.round, cast.overflow)) return false;
    }
    return true;
}

template <class Code>
void encode_numbers(benchmark::State& state, std::int64_t n, Simd simd, Cast cast) {
    ThreadPool one(1);
    if (!encode_and_check<Code>(n, simd, one, cast)) return state.SkipWithError("wrong code");
    for (auto _ : state) {
        encode_array(simd, one, arrays(n).in.get(), codes_of<Code>(n).data(), n, cast);
        benchmark::ClobberMemory();
    }
    count(state, n);
}

/// Decodes the codes of the operands, some of which are subnormal.
template <class Code>
void decode_numbers(benchmark::State& state, std::int64_t n, Simd simd, Cast cast) {
    ThreadPool one(1);
    Arrays& a = arrays(n);
    const std::vector<Code>& codes = codes_of<Code>(n);
    if (!encode_and_check<Code>(n, simd, one, cast)) return state.SkipWithError("wrong code");
    decode_array(simd, one, cast.format, codes.data(), a.out.get(), n);
    for (std::int64_t i = 0; i < std::min(n, in_cache); ++i) {
        const float expected = decode(cast.format, codes[static_cast<std::size_t>(i)]);
        if (bit_cast<std::uint32_t>(expected) != bit_cast<std::uint32_t>(a.out[i]))
            return state.SkipWithError("wrong result");
    }
    for (auto _ : state) {
        decode_array(simd, one, cast.format, codes.data(), a.out.get(), n);
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
        Cast cast;
        std::string note = "";
        bool tallied = false, in_place = false;
    };
    std::vector<Row> rows;
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        if (format.bits > 32) continue;
        rows.push_back({.cast = {.format = format}});
        if (n == in_cache) rows.push_back({.cast = {.format = format, .encode_scale = 0.75f}, .note = ".scaled"});
    }
    for (const Format& format : {bf16, fp16, e4m3fn, e5m2, e4m3fnuz, e2m1fn}) {
        rows.push_back({.cast = {.format = format}, .note = ".in_place", .in_place = true});
        rows.push_back({.cast = {.format = format}, .note = ".tally", .tallied = true});
    }
    for (const Format& format : {bf16, fp16, e4m3fn, e4m3fnuz}) {
        const Cast cast{.format = format, .overflow = Overflow::saturate};
        rows.push_back({.cast = cast, .note = ".saturate"});
    }
    for (const Format& format : {bf16, e4m3fn}) {
        for (const auto& [round, note] : {std::pair{Round::toward_zero, ".toward_zero"},
                                          {Round::up, ".up"},
                                          {Round::nearest_away, ".nearest_away"},
                                          {Round::to_odd, ".to_odd"},
                                          {Round::stochastic, ".stochastic"}}) {
            rows.push_back({.cast = {.format = format, .round = round, .key = {.seed = 1}}, .note = note});
        }
        const Cast drawn{.format = format, .round = Round::stochastic, .key = {.seed = 1}};
        rows.push_back({.cast = drawn, .note = ".stochastic.tally", .tallied = true});
    }
    for (const Simd simd : available_simd()) {
        if (simd == Simd::scalar && n != in_cache) continue;
        for (const Row& row : rows) {
            const std::string name =
                fmt::format("cast/{}{}/{}/{}", format_name(row.cast.format), row.note, simd_name(simd), size);
            benchmark::RegisterBenchmark(name.c_str(), cast_numbers, n, simd, 1, row.cast, row.tallied, row.in_place);
        }
        for (const Format& format : {e4m3fn, e5m2, e4m3fnuz, e2m1fn, bf16, fp16}) {
            const auto register_codes = [&](const char* what, auto encode, auto decode) {
                const bool encodes = what[0] == 'e';
                const std::string name = fmt::format("{}/{}/{}/{}", what, format_name(format), simd_name(simd), size);
                benchmark::RegisterBenchmark(name.c_str(), encodes ? encode : decode, n, simd, Cast{.format = format});
            };
            for (const char* what : {"encode", "decode"}) {
                format.bits > 8 ? register_codes(what, encode_numbers<std::uint16_t>, decode_numbers<std::uint16_t>)
                                : register_codes(what, encode_numbers<std::uint8_t>, decode_numbers<std::uint8_t>);
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
                                     cast_numbers, n, best, threads, Cast{.format = e4m3fn}, false, false)
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
