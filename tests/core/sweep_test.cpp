// SPDX-License-Identifier: Apache-2.0
// Tests the codec on every fp32 number. Rounding is monotone, so the magnitudes that get the same code form an
// interval. The oracle is the list of these intervals. It is built with comparisons only, from the values of the format
// (tests/oracle, which shares no code with core/codec.hpp). The slow test encodes every number of every interval, with
// both signs. The codes of NaN, infinity and overflow are those of the profile `ieee`.
#include "core/codec.hpp"
#include "core/host/thread_pool.hpp"
#include "core/rng.hpp"
#include "tests/oracle/rounding_oracle.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace sweep_test {

using namespace macheps;
using oracle::RoundingOracle;
using oracle::Row;

namespace {

constexpr std::uint32_t infinity_bits = 0x7f800000;

/// A step of the staircase: all magnitudes from `from` up to the next step get `code`.
struct Step {
    double from;
    bool included;  ///< whether `from` itself belongs to the step
    bool overflow;  ///< beyond the largest finite value
    std::uint32_t code;

    bool contains(double size) const { return size > from || (included && size == from); }
};

/// Rounding to a format in one mode, as a staircase of codes over magnitudes.
class Staircase {
  public:
    Staircase(std::string_view name, Round mode) : row_(RoundingOracle(name).row()) {
        const RoundingOracle format(name);
        const std::vector<double>& values = format.values();
        top_ = static_cast<std::uint32_t>(values.size() - 1);
        const bool scale = row_.kind == Row::scale;
        for (std::uint32_t code = 0; code <= top_ + 1; ++code) {
            if (code == 0) {
                steps_.push_back({0, true, false, 0});  // a scale has no zero: small numbers become the smallest scale
                continue;
            }
            const bool beyond = code > top_;
            // If the format has neither infinity nor NaN, or if the mode is toward_zero, all magnitudes beyond the
            // largest value get the code of the largest value.
            if (beyond && (row_.kind == Row::finite || mode == Round::toward_zero)) break;
            const double low = values[code - 1];
            const double high = !beyond ? values[code] : scale ? 2 * low : low + (low - values[code - 2]);
            Step step{high, true, beyond, code};
            if (mode == Round::nearest_even) {
                // Ties go to the even code. The only significand of a scale is 1, which is odd, so its ties go up.
                step.from = low + (high - low) / 2;
                step.included = (code - 1) % 2 == 1 || scale;
            }
            steps_.push_back(step);
        }
    }

    const std::vector<Step>& steps() const { return steps_; }

    std::uint32_t finite(const Step& step, bool negative, bool saturate) const {
        if (step.overflow) return saturate ? sign(negative, top_) : infinite(negative, false);
        return sign(negative, step.code);
    }
    std::uint32_t infinite(bool negative, bool saturate) const {
        if (saturate || row_.kind == Row::finite) return sign(negative, top_);
        if (row_.kind == Row::fnuz) return 0x80;
        return sign(negative, top_ + 1);  // Inf, or NaN if the kind is one_nan or scale
    }
    std::uint32_t nan(bool negative) const {
        switch (row_.kind) {
            case Row::ieee:
                return sign(negative, top_ + 1 + (1u << (row_.fraction_bits - 1)));
            case Row::one_nan:
                return sign(negative, top_ + 1);
            case Row::fnuz:
                return 0x80;
            case Row::scale:
                return 0xff;
            default:
                return top_;
        }
    }
    std::uint32_t code_of(double x, bool saturate) const {
        const bool negative = std::signbit(x);
        if (std::isnan(x)) return nan(negative);
        const double size = std::fabs(x);
        if (std::isinf(x)) return infinite(negative, saturate);
        const auto above =
            std::partition_point(steps_.begin(), steps_.end(), [=](const Step& s) { return s.contains(size); });
        return finite(*(above - 1), negative, saturate);
    }

  private:
    std::uint32_t sign(bool negative, std::uint32_t magnitude) const {
        const bool positive = !negative || row_.kind == Row::scale || (row_.kind == Row::fnuz && magnitude == 0);
        return (magnitude | (positive ? 0u : 1u << (row_.width - 1))) << row_.padding;
    }

    Row row_;
    std::uint32_t top_;
    std::vector<Step> steps_;
};

/// The fp32 magnitudes with bit patterns from `first` up to, but not including, `last`. Within each of the four
/// combinations of sign and overflow rule, all these magnitudes have the same code.
struct Run {
    std::uint32_t first, last;
    std::uint32_t plus, plus_saturated, minus, minus_saturated;
};

std::vector<Run> runs_of(const Staircase& stairs) {
    std::vector<Run> runs;
    for (const Step& step : stairs.steps()) {
        std::uint32_t low = 0, high = infinity_bits;  // bisection: both become the first magnitude within the step
        while (low < high) {
            const std::uint32_t middle = low + (high - low) / 2;
            if (step.contains(bit_cast<float>(middle)))
                high = middle;
            else
                low = middle + 1;
        }
        if (!runs.empty()) runs.back().last = low;
        runs.push_back({low, infinity_bits, stairs.finite(step, false, false), stairs.finite(step, false, true),
                        stairs.finite(step, true, false), stairs.finite(step, true, true)});
    }
    runs.push_back({infinity_bits, infinity_bits + 1, stairs.infinite(false, false), stairs.infinite(false, true),
                    stairs.infinite(true, false), stairs.infinite(true, true)});
    runs.push_back(
        {infinity_bits + 1, 0x80000000u, stairs.nan(false), stairs.nan(false), stairs.nan(true), stairs.nan(true)});
    return runs;
}

/// Returns the number of wrong codes for the magnitudes in [first, last), with both signs and both overflow rules.
/// These magnitudes lie within the run `expected`. The format and the mode are template arguments, so that the compiler
/// shares work between the four calls of encode().
template <Format f, Round mode>
inline std::uint64_t mismatches_in(std::uint32_t first, std::uint32_t last, const Run& expected) {
    const Run run = expected;
    std::uint32_t count = 0;
    for (std::uint32_t u = first; u < last; ++u) {
        const float x = bit_cast<float>(u), y = bit_cast<float>(u | 0x80000000u);
        count += encode(f, x, mode, Overflow::nonsaturate) != run.plus;
        count += encode(f, x, mode, Overflow::saturate) != run.plus_saturated;
        count += encode(f, y, mode, Overflow::nonsaturate) != run.minus;
        count += encode(f, y, mode, Overflow::saturate) != run.minus_saturated;
    }
    return count;
}

using Mismatches = std::uint64_t (*)(std::uint32_t, std::uint32_t, const Run&);

template <Format f, Round mode>
std::uint64_t mismatches_as_built(std::uint32_t first, std::uint32_t last, const Run& run) {
    return mismatches_in<f, mode>(first, last, run);
}

#if defined(__x86_64__)
/// Does the same as mismatches_as_built() in half the time. It is compiled with the BMI and LZCNT instructions for
/// shifts and leading zeros.
template <Format f, Round mode>
__attribute__((target("bmi,bmi2,lzcnt"), flatten)) std::uint64_t mismatches_with_bmi(std::uint32_t first,
                                                                                     std::uint32_t last,
                                                                                     const Run& run) {
    return mismatches_in<f, mode>(first, last, run);
}
#endif

template <Format f, Round mode>
Mismatches quickest() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("bmi2") && __builtin_cpu_supports("avx2")) return mismatches_with_bmi<f, mode>;
#endif
    return mismatches_as_built<f, mode>;
}

struct Subject {
    std::string_view name;
    Format format;
    Round mode;
    Mismatches mismatches;
};

template <Format f>
void add(std::vector<Subject>& subjects, std::string_view name) {
    subjects.push_back({name, f, Round::nearest_even, quickest<f, Round::nearest_even>()});
    subjects.push_back({name, f, Round::toward_zero, quickest<f, Round::toward_zero>()});
}

std::vector<Subject> all_subjects() {
    std::vector<Subject> subjects;
    add<fp16>(subjects, "fp16");
    add<bf16>(subjects, "bf16");
    add<tf32>(subjects, "tf32");
    add<e4m3fn>(subjects, "e4m3fn");
    add<e5m2>(subjects, "e5m2");
    add<e4m3fnuz>(subjects, "e4m3fnuz");
    add<e5m2fnuz>(subjects, "e5m2fnuz");
    add<e2m3fn>(subjects, "e2m3fn");
    add<e3m2fn>(subjects, "e3m2fn");
    add<e2m1fn>(subjects, "e2m1fn");
    add<e8m0fnu>(subjects, "e8m0fnu");
    return subjects;
}

const char* name_of(Round mode) { return mode == Round::nearest_even ? "RNE" : "RZ"; }

}  // namespace

TEST_CASE("the codec is right at both ends and in the middle of every interval that rounds to one value",
          "[core][sweep]") {
    for (const Subject& subject : all_subjects()) {
        const Staircase stairs(subject.name, subject.mode);
        CAPTURE(subject.name, name_of(subject.mode));
        std::uint64_t wrong = 0;
        for (const Run& run : runs_of(stairs)) {
            if (run.first >= run.last) continue;
            const std::uint32_t middle = run.first + (run.last - run.first) / 2;
            for (const std::uint32_t u : {run.first, middle, run.last - 1}) wrong += subject.mismatches(u, u + 1, run);
        }
        CHECK(wrong == 0);
    }
}

TEST_CASE("every fp32 number gets the oracle's code in every format, rounded to nearest and toward zero",
          "[core][sweep][slow]") {
    ThreadPool pool(available_threads());
    for (const Subject& subject : all_subjects()) {
        const auto begin = std::chrono::steady_clock::now();
        const std::vector<Run> runs = runs_of(Staircase(subject.name, subject.mode));
        std::atomic<std::uint64_t> wrong{0}, asked{0};
        constexpr std::uint32_t block = 1u << 20;
        pool.run(0x80000000u / block, [&](std::int64_t i) {
            const std::uint32_t begin_of_block = static_cast<std::uint32_t>(i) * block, end = begin_of_block + block;
            std::uint32_t u = begin_of_block;
            auto run = std::partition_point(runs.begin(), runs.end(), [=](const Run& r) { return r.last <= u; });
            for (; u < end; ++run) {
                const std::uint32_t last = std::min(run->last, end);
                wrong += subject.mismatches(u, last, *run);
                asked += last - u;
                u = last;
            }
        });
        CAPTURE(subject.name, name_of(subject.mode));
        CHECK(wrong == 0);
        CHECK(asked == 0x80000000u);
        std::printf("%-11s %-3s %llu inputs, saturating and not: %llu mismatches, %.0f s\n",
                    std::string(subject.name).c_str(), name_of(subject.mode),
                    2 * static_cast<unsigned long long>(asked.load()), static_cast<unsigned long long>(wrong.load()),
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        std::fflush(stdout);
    }
}

namespace {

class Comparison64 {
  public:
    Comparison64(const Subject& subject) : subject_(subject), stairs_(subject.name, subject.mode) {}

    void ask(double x) {
        for (const bool saturate : {false, true}) {
            const auto got =
                encode(subject_.format, x, subject_.mode, saturate ? Overflow::saturate : Overflow::nonsaturate);
            const auto want = stairs_.code_of(x, saturate);
            ++asked;
            if (got != want && ++wrong <= 10)
                report +=
                    fmt::format("{} {} {:a}: {:x}, oracle {:x}\n", subject_.name, name_of(subject_.mode), x, got, want);
        }
    }

    /// Checks the start of every step and the fp64 numbers up to two ulps away. Also checks inputs that rounding to
    /// fp32, bf16 or fp16 would move onto the start of a step. A codec that rounds these inputs twice may give a wrong
    /// code.
    void ask_hard_cases() {
        for (const Step& step : stairs_.steps()) {
            const double up = std::nextafter(step.from, 1e300), down = std::nextafter(step.from, -1e300);
            for (const double x : {step.from, up, down, std::nextafter(up, 1e300), std::nextafter(down, -1e300)}) {
                ask(x);
                ask(-x);
            }
            for (const double distance : {0x1p-40, 0x1p-30, 0x1p-25, 0x1p-24, 0x1p-13, 0x1p-11, 0x1p-9}) {
                for (const double x : {step.from * (1 + distance), step.from * (1 - distance)}) {
                    ask(x);
                    ask(-x);
                }
            }
        }
    }

    /// Checks random inputs. In 15 of 16 inputs, the exponent is in the range of the format, extended by a few binades
    /// at each end. The other inputs have any exponent.
    void ask_random(std::uint64_t count) {
        const auto& steps = stairs_.steps();
        const double least = steps[1].from, largest = steps.back().from;
        const int low = std::ilogb(least) - 3, range = std::ilogb(largest) + 3 - low;
        for (std::uint64_t i = 0; i < count; ++i) {
            const auto words = random_block({.seed = 5}, i);
            std::uint64_t bits = std::uint64_t{words.word[0]} << 32 | words.word[1];
            if (words.word[2] % 16 != 0) {
                const auto exponent = static_cast<std::uint64_t>(
                    low + static_cast<int>(words.word[3] % static_cast<unsigned>(range)) + 1023);
                bits = (bits & 0x800fffffffffffffull) | exponent << 52;
            }
            ask(bit_cast<double>(bits));
        }
    }

    std::uint64_t asked = 0, wrong = 0;
    std::string report;

  private:
    const Subject& subject_;
    Staircase stairs_;
};

void check_fp64(std::uint64_t random) {
    std::uint64_t asked = 0;
    for (const Subject& subject : all_subjects()) {
        Comparison64 comparison(subject);
        comparison.ask_hard_cases();
        comparison.ask_random(random);
        for (const double x :
             {0.0, 0x1p-1074, 0x1p-1022, 0x1p-127, 0x1p127, 0x1.8p127, 0x1p128, std::numeric_limits<double>::max(),
              std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
            comparison.ask(x);
            comparison.ask(-x);
        }
        INFO(comparison.report);
        CHECK(comparison.wrong == 0);
        asked += comparison.asked;
    }
    std::printf("fp64 sources: %llu encodes compared\n", static_cast<unsigned long long>(asked));
}

}  // namespace

TEST_CASE("fp64 inputs are rounded only once, for random numbers and for ties at which rounding twice is wrong",
          "[core][sweep]") {
    check_fp64(2'000);
}

TEST_CASE("fp64 inputs are rounded only once, for ten million random numbers per format and mode",
          "[core][sweep][slow]") {
    check_fp64(10'000'000);
}

#if defined(__x86_64__)
namespace {

/// Converts eight floats to fp16 with the processor's F16C instruction. The `mode` is 0 to round to nearest even and 3
/// to round toward zero.
template <int mode>
__attribute__((target("avx,f16c"))) void convert_by_f16c(const float* x, std::uint16_t* codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes), _mm256_cvtps_ph(_mm256_loadu_ps(x), mode));
}

template <Round mode, int f16c_mode>
void check_f16c(std::uint32_t stride) {
    ThreadPool pool(available_threads());
    std::atomic<std::uint64_t> wrong{0}, asked{0};
    pool.run(1 << 10, [&](std::int64_t task) {
        std::uint64_t wrong_here = 0, asked_here = 0;
        const std::uint64_t begin = static_cast<std::uint64_t>(task) << 22, end = begin + (1 << 22);
        for (std::uint64_t u = begin; u < end; u += 8 * stride) {
            float x[8];
            std::uint16_t codes[8];
            for (std::uint32_t i = 0; i < 8; ++i) x[i] = bit_cast<float>(static_cast<std::uint32_t>(u) + i);
            convert_by_f16c<f16c_mode>(x, codes);
            for (int i = 0; i < 8; ++i) {
                const auto input = bit_cast<std::uint32_t>(x[i]);
                // F16C keeps the high bits of a NaN's payload. The codec has one quiet NaN per sign.
                const bool nan = (input & 0x7fffffff) > infinity_bits;
                const std::uint32_t want = nan ? (codes[i] & 0xfe00u) : codes[i];
                wrong_here += encode(fp16, x[i], mode, Overflow::nonsaturate) != want;
                ++asked_here;
            }
        }
        wrong += wrong_here;
        asked += asked_here;
    });
    CHECK(wrong == 0);
    std::printf("fp16 %s against F16C: %llu inputs, %llu mismatches\n", name_of(mode),
                static_cast<unsigned long long>(asked.load()), static_cast<unsigned long long>(wrong.load()));
}

bool has_f16c() { return __builtin_cpu_supports("avx2"); }  // Clang 14 cannot test for F16C; CPUs with AVX2 have it

}  // namespace

TEST_CASE("fp16 codes equal the results of the processor's F16C instruction, on a sample", "[core][sweep]") {
    if (!has_f16c()) SKIP_TEST("this processor has no F16C");
    check_f16c<Round::nearest_even, 0>(509);
    check_f16c<Round::toward_zero, 3>(509);
}

TEST_CASE("fp16 codes equal the results of the processor's F16C instruction, for every fp32 number",
          "[core][sweep][slow]") {
    if (!has_f16c()) SKIP_TEST("this processor has no F16C");
    check_f16c<Round::nearest_even, 0>(1);
    check_f16c<Round::toward_zero, 3>(1);
}
#endif

}  // namespace sweep_test
