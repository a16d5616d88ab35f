// SPDX-License-Identifier: Apache-2.0
// Measures emulated sums. One call computes sixteen sums in parallel, each with its own random bits for stochastic
// rounding. For comparison, a native fp64 sum of the same number of terms is measured in the same process. Unit of
// work: one term of one sum. Before a row is timed, its first sum is compared with plain loops. A row that differs
// reports an error, not a time.
#include "core/format_table.hpp"
#include "core/host/float_environment.hpp"
#include "core/rounding_names.hpp"
#include "experiments/study/sum/kernel.hpp"
#include "tests/study/sum_definitions.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <string>
#include <vector>

using namespace macheps;
using namespace macheps::study;

namespace {

constexpr std::int64_t terms_of_sum = 1 << 14;

std::vector<double> positive_terms(const Format& format) {
    std::vector<double> x;
    for (std::int64_t i = 0; i < terms_of_sum; ++i) {
        const double u = static_cast<double>(random_bits({.seed = 1}, static_cast<std::uint64_t>(i))) * 0x1p-32;
        x.push_back(decode64(format, encode64(format, u, Round::nearest_even, Overflow::nonsaturate)));
    }
    return x;
}

void run_native(benchmark::State& state) {
    const std::vector<double> x = positive_terms(fp64);
    for (auto _ : state) {
        double s = 0;
        for (const double each : x) s += each;
        benchmark::DoNotOptimize(s);
    }
    state.SetItemsProcessed(state.iterations() * terms_of_sum);
}

void run_sum(benchmark::State& state, Simd simd, const Format& format, Round round, SumMethod method) {
    const DefaultFloatModes modes;
    const std::vector<double> x = positive_terms(format), none;
    LaneKeys keys{};
    for (int l = 0; l < sum_lanes; ++l)
        keys[static_cast<std::size_t>(l)] = {.seed = 1, .step = static_cast<std::uint32_t>(l), .site = 2};
    const SumTerms terms{.x = x.data(), .n = terms_of_sum, .is_shared = true};
    const auto sums = [&] {
        LaneArithmetic arithmetic(simd, format, round, keys);
        return sum_in_lanes(arithmetic, method, 128, terms);
    };
    test::CodeSteps steps{.format = format, .mode = round, .key = keys[0]};
    // Sums in small formats may overflow to NaN. Then both results have to be NaN.
    const double got = sums().value.lane[0], expected = test::PlainSum(steps, x, none).run(method, 128);
    if (got != expected && (got == got || expected == expected)) {
        state.SkipWithError("differs from the definition");
        return;
    }
    for (auto _ : state) benchmark::DoNotOptimize(sums());
    state.SetItemsProcessed(state.iterations() * terms_of_sum * sum_lanes);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::RegisterBenchmark("native/fp64/recursive", run_native);
    for (const Simd simd : available_simd()) {
        for (const Format& format : {fp32, fp16, bf16, e4m3fn}) {
            for (const Round round : {Round::nearest_even, Round::toward_zero, Round::stochastic}) {
                const auto add = [&](const char* name, SumMethod method) {
                    benchmark::RegisterBenchmark(
                        fmt::format("{}/{}/{}/{}", simd_name(simd), format_name(format), name_of(round), name).c_str(),
                        run_sum, simd, format, round, method);
                };
                add("recursive", SumMethod::recursive);
                if (format == fp16) add("kahan", SumMethod::kahan);
            }
        }
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
