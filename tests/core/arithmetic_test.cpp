// SPDX-License-Identifier: Apache-2.0
// Compares core/arithmetic.hpp with MPFR, with the processor's fp32 and fp64 arithmetic (results and flags), and with
// vectors that expose double rounding.
#include "core/arithmetic.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "core/ulp.hpp"
#include "tests/oracle/arithmetic_oracle.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace arithmetic_test {

using namespace macheps;
using oracle::ArithmeticOracle;

namespace {

constexpr std::array all_operations{Operation::add, Operation::sub,  Operation::mul,
                                    Operation::div, Operation::sqrt, Operation::fma};
constexpr std::array all_modes{Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up,
                               Round::down,         Round::stochastic,   Round::to_odd};
constexpr std::string_view operation_names[] = {"add", "sub", "mul", "div", "sqrt", "fma"};

std::string flag_names(Flags f) {
    return fmt::format("{}{}{}{}{}", f.invalid ? 'v' : '-', f.divide_by_zero ? 'i' : '-', f.overflow ? 'o' : '-',
                       f.underflow ? 'u' : '-', f.inexact ? 'x' : '-');
}

/// Result of one thread's comparisons. The first ten mismatches are described; the rest are only counted.
struct Count {
    std::uint64_t compared = 0, mismatches = 0;
    std::string report{};

    void check(const NamedFormat& named, Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c,
               Round mode, Rounded got, Rounded want) {
        ++compared;
        if (got == want || ++mismatches > 10) return;
        report += fmt::format("{} {}({:x}, {:x}, {:x}) mode {}: {:x} {}, oracle {:x} {}\n", named.name,
                              operation_names[static_cast<int>(operation)], a, b, c, static_cast<int>(mode), got.bits,
                              flag_names(got.flags), want.bits, flag_names(want.flags));
    }
    Count& operator+=(const Count& other) {
        compared += other.compared;
        mismatches += other.mismatches;
        report += other.report;
        return *this;
    }
};

/// Runs work(job, count) for each of `jobs` jobs on all cores, and returns the sum of the counts.
Count in_parallel(std::uint64_t jobs, const std::function<void(std::uint64_t, Count&)>& work) {
    std::atomic<std::uint64_t> next{0};
    std::mutex mutex;
    Count total;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
        threads.emplace_back([&] {
            Count own;
            for (std::uint64_t job = next++; job < jobs; job = next++) work(job, own);
            const std::lock_guard lock(mutex);
            total += own;
        });
    }
    for (auto& thread : threads) thread.join();
    return total;
}

/// Returns a code that is likely to expose errors: arbitrary bits, small integers, numbers near one, powers of two, the
/// ends of the ranges, and sometimes the negated neighbour of another operand, so that sums cancel.
std::uint64_t any_code(Format f, std::uint64_t random, std::uint64_t other) {
    const std::uint64_t mask = f.sign_bit() | f.magnitude_mask(), any = random >> 8 & mask;
    const std::uint64_t one = encode64(f, 1.0, Round::nearest_even, Overflow::saturate) >> f.padding;
    std::uint64_t code = any;
    switch (random & 15) {
        case 0:
            code = (one + (any & 3) - 1) | (any & f.sign_bit());
            break;
        case 1:
            code = (any & 7) | (any & f.sign_bit());
            break;
        case 2:
            code = f.max_finite_code() - (any & 1);
            break;
        case 3:
            code = (f.min_normal_code() + (any & 3)) | (any & f.sign_bit());
            break;
        case 4:
            code = f.inf_code() | (any & f.sign_bit());
            break;
        case 5:
            code = any & ~(f.min_normal_code() - 1);
            break;
        case 6:
        case 7:
            code = ((other >> f.padding) + (any & 1)) ^ f.sign_bit();
            break;
        default:
            break;
    }
    return (code & mask) << f.padding;
}

RandomBits any_random(std::uint64_t bits) {
    constexpr int widths[] = {32, 20, 13, 8, 1};
    const int width = widths[bits % std::size(widths)];
    return {static_cast<std::uint32_t>(bits >> 32) >> (32 - width), width};
}

/// Checks random operands in every mode, under both overflow rules and with both definitions of tininess.
void check_random(const NamedFormat& named, ArithmeticOracle& wanted, std::uint64_t first, std::uint64_t count,
                  Count& result) {
    const Format f = named.format;
    const bool draws = f.precision <= 19;
    for (std::uint64_t i = first; i < first + count; ++i) {
        const PhiloxBlock words = random_block({.seed = 11}, i), more = random_block({.seed = 12}, i);
        const auto word = [](const PhiloxBlock& block, int at) {
            return std::uint64_t{block.word[at]} << 32 | block.word[at + 1];
        };
        const std::uint64_t a = any_code(f, word(words, 0), 0), b = any_code(f, word(words, 2), a),
                            c = any_code(f, word(more, 0), a), choice = more.word[2];
        const Operation operation = all_operations[choice % 6];
        const Round mode = all_modes[choice / 6 % 7];
        if (mode == Round::stochastic && !draws) continue;
        const auto overflow = static_cast<Overflow>(choice / 42 % 2);
        const auto tininess = static_cast<Tininess>(choice / 84 % 2);
        const RandomBits random = any_random(word(more, 2));
        result.check(named, operation, a, b, c, mode, op(operation, f, a, b, c, mode, overflow, random, tininess),
                     wanted.result(operation, a, b, c, mode, overflow, random, tininess));
    }
}

/// Checks every pair of codes with every operation except sqrt and fma, in one mode and under one overflow rule.
void check_pairs(const NamedFormat& named, Round mode, Overflow overflow, Count& result) {
    ArithmeticOracle wanted(named.name);
    const std::uint64_t codes = std::uint64_t{1} << named.format.bits;
    for (const Operation operation : {Operation::add, Operation::sub, Operation::mul, Operation::div}) {
        for (std::uint64_t a = 0; a < codes; ++a) {
            for (std::uint64_t b = 0; b < codes; ++b) {
                const RandomBits random = any_random((a * 0x9e3779b97f4a7c15u) ^ (b * 0xc2b2ae3d27d4eb4fu));
                result.check(named, operation, a, b, 0, mode,
                             op(operation, named.format, a, b, 0, mode, overflow, random),
                             wanted.result(operation, a, b, 0, mode, overflow, random));
            }
        }
    }
}

}  // namespace

TEST_CASE("fma in a narrow format rounds once, in cases where a detour through a wider type rounds twice",
          "[core][arithmetic]") {
    struct Case {
        Format format;
        std::uint64_t a, b, c, result;
        const char* why;
    };
    const Case cases[] = {
        {fp16, 0x3e00, 0x3956, 0x0001, 0x3c01, "through fp32: 3c00"},
        {bf16, 0x40e0, 0x3e14, 0x8001, 0x3f81, "through fp32 and through fp64: 3f82"},
        {e5m2, 0x4e, 0x4a, 0x01, 0x5d, "through fp32: 5c"},
    };
    for (const auto& [format, a, b, c, result, why] : cases) {
        CAPTURE(why);
        CHECK(fma(format, a, b, c).bits == result);
    }
}

TEST_CASE("special operands give the results and flags of IEEE 754-2019, clauses 6 and 7", "[core][arithmetic]") {
    struct Case {
        Operation operation;
        std::uint64_t a, b, c;
        Round mode;
        std::uint64_t bits;
        Flags flags;
        const char* why;
    };
    constexpr auto rne = Round::nearest_even;
    constexpr std::uint64_t one = 0x3c00, inf = 0x7c00, minus = 0x8000, quiet = 0x7e00, signaling = 0x7c01;
    const Case cases[] = {
        {Operation::sub, one, one, 0, rne, 0, {}, "an exact difference of zero is +0"},
        {Operation::sub, one, one, 0, Round::down, minus, {}, "and -0 when rounding down"},
        {Operation::add, minus, minus, 0, rne, minus, {}, "-0 + -0"},
        {Operation::add, minus, 0, 0, Round::to_odd, 0, {}, "-0 + +0"},
        {Operation::sub, inf, inf, 0, rne, quiet, {.invalid = true}, "inf - inf"},
        {Operation::add, inf, inf, 0, rne, inf, {}, "inf + inf"},
        {Operation::mul, inf, minus, 0, rne, quiet, {.invalid = true}, "inf * 0"},
        {Operation::mul, minus, one, 0, rne, minus, {}, "-0 * 1"},
        {Operation::div, one, minus, 0, rne, minus | inf, {.divide_by_zero = true}, "1 / -0"},
        {Operation::div, 0, 0, 0, rne, quiet, {.invalid = true}, "0 / 0"},
        {Operation::div, inf, inf, 0, rne, quiet, {.invalid = true}, "inf / inf"},
        {Operation::div, one, minus | inf, 0, rne, minus, {}, "1 / -inf"},
        {Operation::sqrt, minus, 0, 0, rne, minus, {}, "sqrt(-0)"},
        {Operation::sqrt, minus | one, 0, 0, rne, quiet, {.invalid = true}, "sqrt(-1)"},
        {Operation::add,
         minus | quiet | 5,
         one,
         0,
         rne,
         quiet,
         {},
         "a quiet NaN raises no flag and loses sign and payload"},
        {Operation::add, one, signaling, 0, rne, quiet, {.invalid = true}, "a signaling NaN raises invalid"},
        {Operation::fma, inf, 0, quiet, rne, quiet, {.invalid = true}, "inf * 0 + NaN"},
        {Operation::fma, one, one, minus | one, Round::down, minus, {}, "1 * 1 - 1 rounding down"},
        {Operation::add, 0x7bff, 0x7bff, 0, rne, inf, {.overflow = true, .inexact = true}, "65504 + 65504"},
        {Operation::add, 0x7bff, 0x7bff, 0, Round::down, 0x7bff, {.overflow = true, .inexact = true}, "held"},
        {Operation::mul, 0x0400, 0x3bff, 0, rne, 0x0400, {.underflow = true, .inexact = true}, "tiny before and after"},
        {Operation::mul,
         0x0001,
         0x3800,
         0,
         rne,
         0,
         {.underflow = true, .inexact = true},
         "half the smallest: a tie, and zero is even"},
        {Operation::sub, 0x0400, 0x0001, 0, rne, 0x03ff, {}, "an exact subnormal raises no flag"},
    };
    for (const auto& [operation, a, b, c, mode, bits, flags, why] : cases) {
        CAPTURE(why);
        const Rounded result = op(operation, fp16, a, b, c, mode);
        CHECK(result.bits == bits);
        CHECK(flag_names(result.flags) == flag_names(flags));
    }
}

TEST_CASE("formats without Inf, NaN, -0 or 0 give their defined replacement codes and flags", "[core][arithmetic]") {
    CHECK(div(e4m3fn, 0x38, 0x00) == Rounded{0x7f, {.divide_by_zero = true}});
    CHECK(op(Operation::div, e4m3fn, 0x38, 0x80, 0, Round::nearest_even, Overflow::saturate).bits == 0xfe);
    CHECK(div(e2m1fn, 0x0, 0x0) == Rounded{0x7, {.invalid = true}});
    CHECK(mul(e4m3fnuz, 0x00, 0xc0) == Rounded{0x00, {}});
    CHECK(mul(e8m0fnu, 0x00, 0x00) == Rounded{0x00, {.underflow = true, .inexact = true}});
    CHECK(mul(e8m0fnu, 0x80, 0x80) == Rounded{0x81, {}});
    CHECK(add(mxint8, 0x40, 0x40) == Rounded{0x7f, {.overflow = true, .inexact = true}});
}

TEST_CASE("operations on tf32 take and return codes in fp32 containers", "[core][arithmetic]") {
    const std::uint64_t third = div(tf32, 0x3f800000, 0x40400000).bits;
    CHECK(third == 0x3eaaa000);
    CHECK(mul(tf32, third, 0x40400000).bits == 0x3f800000);  // 3 * 0.33325195 = 1 - 2^-12, a tie: 1 is even
}

TEST_CASE("+ - * / of every pair of codes of every 4-bit and 6-bit format agree with MPFR in every mode",
          "[core][arithmetic]") {
    Count total;
    for (const NamedFormat& named : all_formats) {
        if (named.format.bits > 6) continue;
        for (const Round mode : all_modes) check_pairs(named, mode, Overflow::nonsaturate, total);
    }
    INFO(total.report);
    CHECK(total.mismatches == 0);
    CHECK(total.compared == 7 * 4 * (2 * 64 * 64 + 16 * 16));
}

TEST_CASE("random and hard operands of every narrow format agree with MPFR, flags included", "[core][arithmetic]") {
    Count total;
    for (const NamedFormat& named : all_formats) {
        if (named.format.precision > 24) continue;
        ArithmeticOracle wanted(named.name);
        check_random(named, wanted, 0, 40000, total);
    }
    INFO(total.report);
    CHECK(total.mismatches == 0);
    CHECK(total.compared > 600000);
}

namespace {

/// Returns the bits and flags of one operation of the processor.
template <class Number, class Bits>
Rounded on_the_machine(Operation operation, Bits a, Bits b, Bits c, int direction) {
    // volatile, so that the compiler neither moves the operation across the change of mode nor folds it.
    volatile Number x = bit_cast<Number>(a), y = bit_cast<Number>(b), z = bit_cast<Number>(c), r = 0;
    std::fesetround(direction);
    std::feclearexcept(FE_ALL_EXCEPT);
    switch (operation) {
        case Operation::add:
            r = x + y;
            break;
        case Operation::sub:
            r = x - y;
            break;
        case Operation::mul:
            r = x * y;
            break;
        case Operation::div:
            r = x / y;
            break;
        case Operation::sqrt:
            r = std::sqrt(x);
            break;
        case Operation::fma:
            r = std::fma(x, y, z);
            break;
    }
    const int raised = std::fetestexcept(FE_ALL_EXCEPT);
    std::fesetround(FE_TONEAREST);
    const Number result = r;
    return {bit_cast<Bits>(result),
            {(raised & FE_INVALID) != 0, (raised & FE_DIVBYZERO) != 0, (raised & FE_OVERFLOW) != 0,
             (raised & FE_UNDERFLOW) != 0, (raised & FE_INEXACT) != 0}};
}

template <class Number, class Bits>
Count against_the_machine(const NamedFormat& named, std::uint64_t count) {
    constexpr std::array<std::pair<Round, int>, 4> directions{{{Round::nearest_even, FE_TONEAREST},
                                                               {Round::toward_zero, FE_TOWARDZERO},
                                                               {Round::up, FE_UPWARD},
                                                               {Round::down, FE_DOWNWARD}}};
    const Format f = named.format;
    Count total;
    for (std::uint64_t i = 0; i < count; ++i) {
        const PhiloxBlock words = random_block({.seed = 21}, i), more = random_block({.seed = 22}, i);
        const auto word = [](const PhiloxBlock& block, int at) {
            return std::uint64_t{block.word[at]} << 32 | block.word[at + 1];
        };
        const auto a = static_cast<Bits>(any_code(f, word(words, 0), 0)),
                   b = static_cast<Bits>(any_code(f, word(words, 2), a)),
                   c = static_cast<Bits>(any_code(f, word(more, 0), a));
        const Operation operation = all_operations[more.word[2] % 6];
        // IEEE 754-2019 7.2 leaves open whether inf * 0 + quiet NaN raises invalid, and processors differ. The test
        // accepts both.
        const auto [mode, direction] = directions[more.word[2] / 6 % 4];
        const Rounded got = op(operation, f, a, b, c, mode);
        Rounded want = on_the_machine<Number, Bits>(operation, a, b, c, direction);
        if (is_nan(f, want.bits)) {
            want.bits = f.nan_code();
            if (operation == Operation::fma && is_nan(f, c)) want.flags.invalid = got.flags.invalid;
        }
        total.check(named, operation, a, b, c, mode, got, want);
    }
    return total;
}

}  // namespace

TEST_CASE("fp32 and fp64 agree with the processor in bits and flags, in four rounding directions",
          "[core][arithmetic]") {
    for (const Count& total : {against_the_machine<float, std::uint32_t>(*find_format("fp32"), 400000),
                               against_the_machine<double, std::uint64_t>(*find_format("fp64"), 400000)}) {
        INFO(total.report);
        CHECK(total.mismatches == 0);
    }
}

TEST_CASE("fp64 rounding to odd, to nearest away and stochastic rounding agree with MPFR", "[core][arithmetic]") {
    const Format f = fp64;
    mpfr_t x, y, low, high, exact;
    mpfr_inits2(53, x, y, low, high, nullptr);
    mpfr_init2(exact, 2300);
    int checked = 0, wrong = 0;
    for (std::uint64_t i = 0; i < 30000; ++i) {
        const PhiloxBlock words = random_block({.seed = 31}, i);
        // Returns a number 1.f * 2^e, with a random fraction f and e from -45 to 44.
        const auto number = [&](int at) {
            const std::uint32_t high = words.word[at];
            const double significand =
                bit_cast<double>(std::uint64_t{0x3ff00000u | (high & 0xfffff)} << 32 | words.word[at + 1]);
            return std::ldexp(significand, static_cast<int>(high >> 20) % 90 - 45);
        };
        const double a = number(0), b = number(2);
        const Operation operation = all_operations[i % 4];
        mpfr_set_d(x, a, MPFR_RNDN);
        mpfr_set_d(y, b, MPFR_RNDN);
        const auto apply = [&](mpfr_t out, mpfr_rnd_t mode) {
            switch (operation) {
                case Operation::add:
                    return mpfr_add(out, x, y, mode);
                case Operation::sub:
                    return mpfr_sub(out, x, y, mode);
                case Operation::mul:
                    return mpfr_mul(out, x, y, mode);
                default:
                    return mpfr_div(out, x, y, mode);
            }
        };
        const bool inexact = apply(low, MPFR_RNDZ) != 0;
        apply(high, MPFR_RNDA);
        apply(exact, MPFR_RNDZ);
        const auto code = [](mpfr_t value) { return bit_cast<std::uint64_t>(mpfr_get_d(value, MPFR_RNDN)); };
        const auto got = [&](Round mode, RandomBits random = {}) {
            return op(operation, f, bit_cast<std::uint64_t>(a), bit_cast<std::uint64_t>(b), 0, mode,
                      Overflow::nonsaturate, random)
                .bits;
        };
        const std::uint64_t odd = !inexact ? code(low) : (code(low) & 1) != 0 ? code(low) : code(high);
        wrong += got(Round::to_odd) != odd;
        // `low` and `high` are neighbouring fp64 numbers, so their midpoint has 54 bits.
        mpfr_t middle;
        mpfr_init2(middle, 60);
        mpfr_add(middle, low, high, MPFR_RNDN);
        mpfr_div_2ui(middle, middle, 1, MPFR_RNDN);
        const bool away = inexact && mpfr_cmpabs(exact, middle) >= 0;
        wrong += got(Round::nearest_away) != (away ? code(high) : code(low));
        // With the random number r, stochastic rounding goes away from zero if floor(2^32 fraction) + r carries, that
        // is, if r >= 2^32 - floor(2^32 fraction).
        mpfr_sub(exact, exact, low, MPFR_RNDN);
        mpfr_sub(middle, high, low, MPFR_RNDN);
        if (inexact) {
            mpfr_div(exact, exact, middle, MPFR_RNDN);
            mpfr_mul_2ui(exact, exact, 32, MPFR_RNDN);
            const auto seen = static_cast<std::uint64_t>(mpfr_get_d(exact, MPFR_RNDD));
            const std::uint64_t first = (std::uint64_t{1} << 32) - seen;
            if (seen > 0) wrong += got(Round::stochastic, {static_cast<std::uint32_t>(first), 32}) != code(high);
            if (first > 0) wrong += got(Round::stochastic, {static_cast<std::uint32_t>(first - 1), 32}) != code(low);
        }
        mpfr_clear(middle);
        ++checked;
    }
    mpfr_clears(x, y, low, high, exact, nullptr);
    CHECK(wrong == 0);
    CHECK(checked == 30000);
}

TEST_CASE("+ - * / of every pair of codes of every 8-bit format agree with MPFR in every mode and overflow rule",
          "[core][arithmetic][slow]") {
    struct Job {
        const NamedFormat* named;
        Round mode;
        Overflow overflow;
    };
    std::vector<Job> jobs;
    for (const NamedFormat& named : all_formats) {
        if (named.format.bits != 8) continue;
        for (const Round mode : all_modes) {
            for (const Overflow overflow : {Overflow::nonsaturate, Overflow::saturate})
                jobs.push_back({&named, mode, overflow});
        }
    }
    const Count total = in_parallel(jobs.size(), [&](std::uint64_t job, Count& own) {
        check_pairs(*jobs[job].named, jobs[job].mode, jobs[job].overflow, own);
    });
    INFO(total.report);
    CHECK(total.mismatches == 0);
    WARN(total.compared << " results of pairs compared");
    CHECK(total.compared == jobs.size() * 4 * 65536);
}

TEST_CASE("fma of every triple of every 4-bit and 6-bit format agrees with MPFR in every mode",
          "[core][arithmetic][slow]") {
    std::vector<std::pair<const NamedFormat*, Round>> jobs;
    for (const NamedFormat& named : all_formats) {
        if (named.format.bits > 6) continue;
        for (const Round mode : all_modes) jobs.emplace_back(&named, mode);
    }
    const Count total = in_parallel(jobs.size(), [&](std::uint64_t job, Count& own) {
        const auto [named, mode] = jobs[job];
        ArithmeticOracle wanted(named->name);
        const std::uint64_t codes = std::uint64_t{1} << named->format.bits;
        for (std::uint64_t i = 0; i < codes * codes * codes; ++i) {
            const std::uint64_t a = i % codes, b = i / codes % codes, c = i / codes / codes;
            const RandomBits random = any_random(i * 0x9e3779b97f4a7c15u);
            own.check(*named, Operation::fma, a, b, c, mode,
                      op(Operation::fma, named->format, a, b, c, mode, Overflow::nonsaturate, random),
                      wanted.result(Operation::fma, a, b, c, mode, Overflow::nonsaturate, random));
        }
    });
    INFO(total.report);
    CHECK(total.mismatches == 0);
    WARN(total.compared << " results of triples compared");
}

TEST_CASE("fma of 10^8 triples of the 8-bit formats agrees with MPFR", "[core][arithmetic][slow]") {
    std::vector<const NamedFormat*> formats;
    for (const NamedFormat& named : all_formats) {
        if (named.format.bits == 8) formats.push_back(&named);
    }
    constexpr std::uint64_t per_job = 100000, wanted_total = 100000000;
    const std::uint64_t jobs = wanted_total / per_job;
    const Count total = in_parallel(jobs, [&](std::uint64_t job, Count& own) {
        const NamedFormat& named = *formats[job % formats.size()];
        ArithmeticOracle wanted(named.name);
        for (std::uint64_t i = 0; i < per_job; ++i) {
            const PhiloxBlock words = random_block({.seed = 41}, job * per_job + i);
            const std::uint64_t a = words.word[0] & 255, b = words.word[0] >> 8 & 255, c = words.word[0] >> 16 & 255;
            const Round mode = all_modes[words.word[1] % 7];
            const RandomBits random = any_random(std::uint64_t{words.word[2]} << 32 | words.word[3]);
            own.check(named, Operation::fma, a, b, c, mode,
                      op(Operation::fma, named.format, a, b, c, mode, Overflow::nonsaturate, random),
                      wanted.result(Operation::fma, a, b, c, mode, Overflow::nonsaturate, random));
        }
    });
    INFO(total.report);
    CHECK(total.mismatches == 0);
    CHECK(total.compared == wanted_total);
}

TEST_CASE("sqrt of every code up to 19 bits agrees with MPFR in every mode", "[core][arithmetic][slow]") {
    Count total;
    for (const NamedFormat& named : all_formats) {
        if (named.format.bits > 19) continue;
        ArithmeticOracle wanted(named.name);
        for (std::uint64_t code = 0; code < std::uint64_t{1} << named.format.bits; ++code) {
            const std::uint64_t a = code << named.format.padding;
            for (const Round mode : all_modes) {
                const RandomBits random = any_random(code * 0x9e3779b97f4a7c15u);
                total.check(named, Operation::sqrt, a, 0, 0, mode,
                            op(Operation::sqrt, named.format, a, 0, 0, mode, Overflow::nonsaturate, random),
                            wanted.result(Operation::sqrt, a, 0, 0, mode, Overflow::nonsaturate, random));
            }
        }
    }
    INFO(total.report);
    CHECK(total.mismatches == 0);
    WARN(total.compared << " square roots compared");
}

TEST_CASE("10^9 random operations of fp16 and bf16 agree with MPFR, flags included", "[core][arithmetic][slow]") {
    constexpr std::uint64_t per_job = 1000000, jobs = 1000;
    const Count total = in_parallel(jobs, [&](std::uint64_t job, Count& own) {
        const NamedFormat& named = *find_format(job % 2 == 0 ? "fp16" : "bf16");
        ArithmeticOracle wanted(named.name);
        check_random(named, wanted, job * per_job, per_job, own);
    });
    INFO(total.report);
    CHECK(total.mismatches == 0);
    CHECK(total.compared == per_job * jobs);
}

}  // namespace arithmetic_test
