// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/arithmetic.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <vector>

namespace arithmetic_test {

using namespace macheps;

namespace {

constexpr Operation all_operations[] = {Operation::add, Operation::sub,  Operation::mul,
                                        Operation::div, Operation::sqrt, Operation::fma};
constexpr Round all_rounds[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up,
                                Round::down,         Round::stochastic,   Round::to_odd};
constexpr const char* operation_names[] = {"add", "sub", "mul", "div", "sqrt", "fma"};

struct ArithmeticOperands {
    std::vector<std::uint64_t> a, b, c;  ///< codes
    std::size_t size() const { return a.size(); }
    void add(std::uint64_t x, std::uint64_t y, std::uint64_t z) {
        a.push_back(x);
        b.push_back(y);
        c.push_back(z);
    }
};

std::vector<float> values(Format f, const std::vector<std::uint64_t>& codes) {
    std::vector<float> x;
    for (const std::uint64_t code : codes) x.push_back(decode(f, code));
    return x;
}

/// Compares the bits of each result of arithmetic_array(), on each instruction set in `levels`, with those of op().
void check(Operation operation, const Cast& to, const ArithmeticOperands& operands, const std::vector<Simd>& levels) {
    const Format f = to.format;
    const std::vector<float> a = values(f, operands.a), b = values(f, operands.b), c = values(f, operands.c);
    std::vector<float> expected(a.size()), out(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        const RandomBits random{random_bits(to.key, i), 32};
        const auto rounded =
            op(operation, f, operands.a[i], operands.b[i], operands.c[i], to.round, to.overflow, random);
        expected[i] = decode(f, rounded.bits);
    }
    ThreadPool one(1);
    for (const Simd simd : levels) {
        arithmetic_array(simd, one, operation, to, a.data(), b.data(), c.data(), out.data(),
                         static_cast<std::int64_t>(a.size()));
        std::string wrong;
        int shown = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            const auto want = bit_cast<std::uint32_t>(expected[i]), got = bit_cast<std::uint32_t>(out[i]);
            if (want == got || ++shown > 5) continue;
            char line[160];
            std::snprintf(line, sizeof line, "\n  %llx %llx %llx (%a, %a, %a): expected %08x (%a), got %08x (%a)",
                          static_cast<unsigned long long>(operands.a[i]),
                          static_cast<unsigned long long>(operands.b[i]),
                          static_cast<unsigned long long>(operands.c[i]), double{a[i]}, double{b[i]}, double{c[i]},
                          want, double{expected[i]}, got, double{out[i]});
            wrong += line;
        }
        if (wrong.empty()) continue;
        INFO(format_name(f) << " " << operation_names[static_cast<int>(operation)] << " round " << int(to.round)
                            << " overflow " << int(to.overflow) << " " << simd_name(simd) << ", " << shown << " wrong");
        CHECK(wrong == "");
    }
}

std::vector<Simd> vector_simd() {
    std::vector<Simd> levels = available_simd();
    levels.erase(levels.begin());
    return levels;
}

/// Returns codes for which arithmetic could go wrong: zero, the smallest and the largest codes, special codes, powers
/// of two and their neighbours.
std::vector<std::uint64_t> hard_codes(Format f) {
    std::vector<std::uint64_t> codes{
        0, 1, 2, 3, f.max_finite_code(), f.max_finite_code() - 1, f.overflow_code(), f.nan_code()};
    for (std::uint64_t field = 0; field < (1u << f.exponent_bits()); field += f.exponent_bits() == 8 ? 11 : 3) {
        const std::uint64_t power = field << f.fraction_bits();
        for (const std::uint64_t code : {power - 1, power, power + 1}) codes.push_back(code & f.magnitude_mask());
    }
    const std::size_t positive = codes.size();
    for (std::size_t i = 0; i < positive; ++i) codes.push_back(codes[i] ^ f.sign_bit());
    for (std::uint64_t& code : codes) code <<= f.padding;
    return codes;
}

/// Returns all pairs of hard codes, and random pairs. The third operand, which only fma uses, is random, nearly cancels
/// the product, or is far smaller than the product.
ArithmeticOperands hard_operands(Operation operation, Format f, int random_count) {
    ArithmeticOperands operands;
    const std::vector<std::uint64_t> hard = hard_codes(f);
    std::uint64_t drawn = 0;
    const auto random = [&] {
        return std::uint64_t{random_bits({.seed = 11}, drawn++)} & ((f.sign_bit() | f.magnitude_mask()) << f.padding);
    };
    const auto third = [&](std::uint64_t x, std::uint64_t y, std::uint64_t kind) {
        const double product = decode64(f, x) * decode64(f, y);
        if (kind == 0 || product - product != 0) return random();
        const auto near = encode64(f, -product, Round::nearest_even, Overflow::saturate);
        if (kind == 1) return near;
        return std::uint64_t{kind % 5 + 1} << f.padding | (kind % 2 != 0 ? f.sign_bit() << f.padding : 0);
    };
    std::uint64_t kind = 0;
    for (const std::uint64_t x : hard) {
        for (const std::uint64_t y : hard) {
            operands.add(x, y, third(x, y, kind++ % 8));
            if (operation == Operation::fma) operands.add(x, y, hard[drawn++ % hard.size()]);
        }
    }
    for (int i = 0; i < random_count; ++i) {
        const std::uint64_t x = random();
        // Half of the pairs are close, so that sums cancel and carry.
        const std::uint64_t y = i % 2 == 0 ? random() : x ^ (random() & (std::uint64_t{0x1f} << f.padding));
        operands.add(x, y, third(x, y, static_cast<std::uint64_t>(i) % 8));
    }
    return operands;
}

}  // namespace

TEST_CASE("each operation on arrays of any format is rounded once, in every mode, on every instruction set",
          "[emulation][arithmetic]") {
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        if (format.bits > 32) continue;
        for (const Operation operation : all_operations) {
            const ArithmeticOperands operands = hard_operands(operation, format, 1500);
            for (const Round round : all_rounds) {
                Cast to{.format = format, .round = round};
                if (round == Round::stochastic) to.key = {.seed = 5, .step = 6, .site = 7};
                check(operation, to, operands, vector_simd());
                if (round == Round::nearest_even || round == Round::toward_zero) {
                    check(operation, {.format = format, .round = round, .overflow = Overflow::saturate}, operands,
                          vector_simd());
                }
            }
        }
    }
    SUCCEED();
}

TEST_CASE("arithmetic on all pairs of fp8 numbers agrees with op()", "[emulation][arithmetic]") {
    for (const Format format : {e4m3fn, e5m2, e4m3fnuz, e3m4}) {
        ArithmeticOperands pairs;
        for (std::uint64_t x = 0; x < 256; ++x) {
            for (std::uint64_t y = 0; y < 256; ++y) pairs.add(x, y, (x * 167 + y * 13) & 255);
        }
        for (const Operation operation : all_operations) check(operation, {.format = format}, pairs, vector_simd());
    }
    SUCCEED();
}

TEST_CASE("fma of all triples of codes agrees with op() in the formats whose fma may be computed in fp32",
          "[emulation][arithmetic][slow]") {
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        if (format.bits > 8 || !is_innocuous_through_fp32(Operation::fma, format)) continue;
        const std::uint64_t codes = std::uint64_t{1} << format.bits;
        for (std::uint64_t x = 0; x < codes; ++x) {
            ArithmeticOperands triples;
            for (std::uint64_t yz = 0; yz < codes * codes; ++yz) triples.add(x, yz / codes, yz % codes);
            check(Operation::fma, {.format = format}, triples, vector_simd());
        }
    }
    SUCCEED();
}

namespace {

/// Compares the results for all pairs of finite magnitudes with results computed in fp64. The precision of fp64 is more
/// than twice that of the format, so rounding its results again is harmless. Returns the number of pairs of a first
/// operand and an instruction set for which any result is wrong.
template <Format format>
std::int64_t wrong_stretches(Operation operation) {
    ThreadPool pool(available_threads()), one(1);
    const std::uint64_t codes = format.max_finite_code() + 1;
    std::atomic<std::int64_t> wrong = 0;
    std::vector<float> b;
    for (std::uint64_t y = 0; y < codes; ++y) b.push_back(decode(format, y));
    pool.run(static_cast<std::int64_t>(codes), [&](std::int64_t x) {
        const std::vector<float> a(codes, decode(format, static_cast<std::uint64_t>(x)));
        std::vector<float> expected(codes), out(codes);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const double p = a[i], q = b[i];
            const double exact = operation == Operation::add   ? p + q
                                 : operation == Operation::sub ? p - q
                                 : operation == Operation::mul ? p * q
                                                               : p / q;
            const double canonical = exact == exact ? exact : bit_cast<double>(std::uint64_t{0x7ff8000000000000});
            expected[i] = decode(format, encode64(format, canonical, Round::nearest_even, Overflow::nonsaturate));
        }
        for (const Simd simd : vector_simd()) {
            arithmetic_array(simd, one, operation, {.format = format}, a.data(), b.data(), nullptr, out.data(),
                             static_cast<std::int64_t>(codes));
            if (std::memcmp(out.data(), expected.data(), sizeof(float) * out.size()) != 0) ++wrong;
        }
    });
    return wrong;
}

}  // namespace

TEST_CASE("arithmetic on all pairs of fp16 and bf16 magnitudes agrees with fp64 arithmetic",
          "[emulation][arithmetic][slow]") {
    for (const Operation operation : {Operation::add, Operation::sub, Operation::mul, Operation::div}) {
        CAPTURE(int(operation));
        CHECK(wrong_stretches<fp16>(operation) == 0);
        CHECK(wrong_stretches<bf16>(operation) == 0);
    }
}

TEST_CASE("arithmetic on random fp16, bf16, tf32 and fp32 numbers agrees with op()", "[emulation][arithmetic]") {
    for (const Format format : {fp16, bf16, tf32, fp32}) {
        for (const Operation operation : all_operations) {
            check(operation, {.format = format}, hard_operands(operation, format, 60000), vector_simd());
        }
    }
    SUCCEED();
}

TEST_CASE("array length, number of threads and in-place results do not change the bits", "[emulation][arithmetic]") {
    ThreadPool pools[] = {ThreadPool(1), ThreadPool(3)};
    const ArithmeticOperands hard = hard_operands(Operation::fma, bf16, 100);
    const std::vector<float> values_a = values(bf16, hard.a), values_b = values(bf16, hard.b),
                             values_c = values(bf16, hard.c);
    for (const std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 33, 1023, 1025, 40001}) {
        const auto taken = [n](const std::vector<float>& from) {
            std::vector<float> x(static_cast<std::size_t>(n) + 1, 77.0f);
            for (std::size_t i = 0; i + 1 < x.size(); ++i) x[i] = from[i % from.size()];
            return x;
        };
        const std::vector<float> a = taken(values_a), b = taken(values_b), c = taken(values_c);
        for (const Operation operation : all_operations) {
            for (const Round round : {Round::nearest_even, Round::up, Round::stochastic}) {
                if (n > 2000 && round == Round::up) continue;
                const Cast to{.format = bf16, .round = round, .key = {.seed = 9}};
                std::vector<float> expected(a.size(), 77.0f);
                arithmetic_array(Simd::scalar, pools[0], operation, to, a.data(), b.data(), c.data(), expected.data(),
                                 n);
                for (const Simd simd : available_simd()) {
                    for (ThreadPool& pool : pools) {
                        CAPTURE(n, int(operation), int(round), simd_name(simd), pool.threads());
                        std::vector<float> apart(a.size(), 77.0f), in_a = a, in_b = b, in_c = c;
                        const auto run = [&](float* x, float* y, float* z, float* out) {
                            arithmetic_array(simd, pool, operation, to, x, y, z, out, n);
                            return std::memcmp(out, expected.data(), sizeof(float) * expected.size()) == 0;
                        };
                        std::vector<float> a2 = a, b2 = b, c2 = c;
                        CHECK(run(a2.data(), b2.data(), c2.data(), apart.data()));
                        CHECK(run(in_a.data(), b2.data(), c2.data(), in_a.data()));
                        CHECK(run(a2.data(), in_b.data(), c2.data(), in_b.data()));
                        CHECK(run(a2.data(), b2.data(), in_c.data(), in_c.data()));
                    }
                }
            }
        }
    }
}

TEST_CASE("operands that an operation does not use may be null, and unsupported formats and scales are refused",
          "[emulation][arithmetic]") {
    ThreadPool one(1);
    std::vector<float> x(40, 4.0f), out(40);
    for (const Simd simd : available_simd()) {
        arithmetic_array(simd, one, Operation::sqrt, {.format = bf16}, x.data(), nullptr, nullptr, out.data(), 40);
        CHECK(std::count(out.begin(), out.end(), 2.0f) == 40);
        arithmetic_array(simd, one, Operation::mul, {.format = bf16}, x.data(), x.data(), nullptr, out.data(), 40);
        CHECK(std::count(out.begin(), out.end(), 16.0f) == 40);
    }
    CHECK_THROWS_AS(arithmetic_array(Simd::scalar, one, Operation::add, {.format = fp64}, x.data(), x.data(), nullptr,
                                     out.data(), 40),
                    Error);
    CHECK_THROWS_AS(arithmetic_array(Simd::scalar, one, Operation::add, {.format = bf16, .encode_scale = 2}, x.data(),
                                     x.data(), nullptr, out.data(), 40),
                    Error);
}

TEST_CASE("an operation may be computed in fp32 only if rounding to fp32 first does not change its result",
          "[emulation][arithmetic]") {
    CHECK(is_innocuous_through_fp32(Operation::add, fp16));
    CHECK(is_innocuous_through_fp32(Operation::div, bf16));
    CHECK(is_innocuous_through_fp32(Operation::fma, e4m3fn));
    CHECK_FALSE(is_innocuous_through_fp32(Operation::fma, e5m2));
    CHECK_FALSE(is_innocuous_through_fp32(Operation::fma, fp16));
    CHECK_FALSE(is_innocuous_through_fp32(Operation::fma, bf16));
    CHECK_FALSE(is_innocuous_through_fp32(Operation::mul, tf32));  // subnormal results are rounded twice
}

}  // namespace arithmetic_test
