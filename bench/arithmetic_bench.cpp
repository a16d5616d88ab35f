// SPDX-License-Identifier: Apache-2.0
// Measures emulated arithmetic on arrays. For comparison, loops over native fp32 instructions are measured on arrays of
// the same size in the same process. Unit of work: one result. Before a row is timed, its result is compared with the
// definition. A row that differs reports an error, not a time.
#include "bench/native_loops.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/ops/arithmetic.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <new>
#include <string>

using namespace macheps;

namespace {

constexpr std::int64_t in_cache = 1 << 15;  // four arrays of 128 KiB fill half of a 1 MiB L2 cache

struct FreeAligned {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
};
using Array = std::unique_ptr<float[], FreeAligned>;

Array array(std::int64_t n) {
    return Array(
        static_cast<float*>(::operator new (static_cast<std::size_t>(n) * sizeof(float), std::align_val_t{64})));
}

/// Three operand arrays and space for the results. The operands are approximately normal numbers times random powers of
/// two from 2^-4 to 2^3, rounded to `format`.
struct Operands {
    explicit Operands(Format format) : out(array(in_cache)) {
        std::uint64_t drawn = 0;
        for (Array* x : {&a, &b, &c}) {
            *x = array(in_cache);
            for (std::int64_t i = 0; i < in_cache; ++i) {
                const std::uint32_t r = random_bits({.seed = 1}, drawn++);
                const int sum = static_cast<int>((r & 255) + (r >> 8 & 255) + (r >> 16 & 255) + (r >> 24)) - 510;
                const auto factor = static_cast<float>(Format::power_of_two(static_cast<int>(r % 8) - 4));
                (*x)[i] = quantize(format, static_cast<float>(sum) / 256 * factor, Round::nearest_even,
                                   Overflow::nonsaturate);
            }
        }
    }
    Array a, b, c, out;
};

void run_native(benchmark::State& state, Simd simd, Operation operation) {
    Operands x(fp32);
    for (auto _ : state) {
        bench::native_loop(simd, operation, x.a.get(), x.b.get(), x.c.get(), x.out.get(), in_cache);
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * in_cache);
}

void run_emulated(benchmark::State& state, Simd simd, Operation operation, Cast to) {
    Operands x(to.format);
    ThreadPool one(1);
    const auto run = [&] {
        arithmetic_array(simd, one, operation, to, x.a.get(), x.b.get(), x.c.get(), x.out.get(), in_cache);
    };
    run();
    const auto code = [&](const Array& from, std::int64_t i) {
        return encode64(to.format, from[i], Round::nearest_even, Overflow::nonsaturate);
    };
    for (std::int64_t i = 0; i < in_cache; ++i) {
        const auto rounded = op(operation, to.format, code(x.a, i), code(x.b, i), code(x.c, i), to.round, to.overflow);
        if (bit_cast<std::uint32_t>(decode(to.format, rounded.bits)) != bit_cast<std::uint32_t>(x.out[i])) {
            return state.SkipWithError("wrong result");
        }
    }
    for (auto _ : state) {
        run();
        benchmark::ClobberMemory();
    }
    state.SetItemsProcessed(state.iterations() * in_cache);
}

void add_rows() {
    struct Named {
        const char* name;
        Operation operation;
    };
    for (const Simd simd : available_simd()) {
        for (const auto& [name, operation] :
             {Named{"add", Operation::add}, {"mul", Operation::mul}, {"fma", Operation::fma}}) {
            benchmark::RegisterBenchmark(fmt::format("{}/native/{}", name, simd_name(simd)).c_str(), run_native, simd,
                                         operation);
            for (const Format& format : {fp32, tf32, fp16, bf16, e4m3fn, e5m2, e4m3fnuz, e2m1fn}) {
                benchmark::RegisterBenchmark(
                    fmt::format("{}/{}/{}", name, format_name(format), simd_name(simd)).c_str(), run_emulated, simd,
                    operation, Cast{.format = format});
            }
        }
        const Cast toward_zero{.format = bf16, .round = Round::toward_zero};
        benchmark::RegisterBenchmark(fmt::format("add/bf16.toward_zero/{}", simd_name(simd)).c_str(), run_emulated,
                                     simd, Operation::add, toward_zero);
    }
}

}  // namespace

int main(int argc, char** argv) {
    add_rows();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
