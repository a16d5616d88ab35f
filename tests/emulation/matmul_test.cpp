// SPDX-License-Identifier: Apache-2.0
// Compares matmuls in fp32 with a triple loop of std::fma in this file. On samples, the results are also compared with
// chains that are computed with exact integers (tests/oracle/exact_dot.hpp).
#include "emulation/cpu/matmul/matmul.hpp"

#include "tests/emulation/backends.hpp"
#include "tests/oracle/exact_dot.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <span>

namespace matmul_test {

using namespace macheps;
using test::Operands;

namespace {

constexpr std::uint32_t quiet_nan = 0x7fc00000u;
constexpr float untouched = -1234.5f;

struct Engine {
    Simd simd;
    ThreadPool* pool;
};

/// Returns every instruction set of this CPU with 1, 2 and 3 threads.
std::vector<Engine> engines() {
    static ThreadPool one(1), two(2), three(3);
    std::vector<Engine> all;
    for (const Simd simd : available_simd()) {
        for (ThreadPool* pool : {&one, &two, &three}) all.push_back({simd, pool});
    }
    return all;
}

/// A matmul with its memory. Rows of a, b and out are `gap` elements longer than necessary. The gaps hold NaN in a and
/// b, and `untouched` in out.
struct Problem {
    struct Sizes {
        std::int64_t m, n, k, outer = 1, inner = 1;
    };
    std::vector<float> a, b, bias;
    Matmul args;
    std::int64_t out_count = 0;

    Problem(Sizes s, bool a_transposed, bool b_transposed, Operands kind, std::int64_t gap = 0,
            std::uint32_t seed = 1) {
        args = {.m = s.m, .n = s.n, .k = s.k, .batch_outer = s.outer, .batch_inner = s.inner};
        const auto fill = [&](MatmulOperand& o, std::vector<float>& memory, std::int64_t rows, std::int64_t columns,
                              std::uint32_t stream) {
            if (o.transposed) std::swap(rows, columns);
            o.ld = columns + gap;
            // There is a gap between inner batches and a larger one between outer batches.
            o.stride_inner = rows * o.ld + gap;
            o.stride_outer = s.inner * o.stride_inner + 2 * gap;
            memory = test::operands(kind, s.outer * o.stride_outer, stream);
            std::vector<bool> used(memory.size());
            for (std::int64_t q = 0; q < s.outer * s.inner; ++q) {
                for (std::int64_t r = 0; r < rows; ++r) {
                    const auto first = q / s.inner * o.stride_outer + q % s.inner * o.stride_inner + r * o.ld;
                    for (std::int64_t c = 0; c < columns; ++c) used[static_cast<std::size_t>(first + c)] = true;
                }
            }
            for (std::size_t i = 0; i < memory.size(); ++i) {
                if (!used[i]) memory[i] = bit_cast<float>(quiet_nan);
            }
        };
        args.a.transposed = a_transposed;
        args.b.transposed = b_transposed;
        fill(args.a, a, s.m, s.k, 2 * seed);
        fill(args.b, b, s.k, s.n, 2 * seed + 1);
        // Without gaps, the last row of the last matrix ends where its memory ends, so that a sanitizer reports a read
        // beyond it.
        args.a.data = a.data();
        args.b.data = b.data();
        args.ld_out = s.n + gap;
        args.stride_out_inner = s.m * args.ld_out + gap;
        args.stride_out_outer = s.inner * args.stride_out_inner + gap;
        out_count = s.outer * args.stride_out_outer;
        bias = test::operands(kind, s.n, 77);
    }
    Problem(const Problem&) = delete;
    Problem& operator=(const Problem&) = delete;

    // If k = 0, a and b are empty, and row_of_a and column_of_b return null.
    const float* row_of_a(std::int64_t q, std::int64_t i) const {
        if (a.empty()) return nullptr;
        return a.data() + q / args.batch_inner * args.a.stride_outer + q % args.batch_inner * args.a.stride_inner +
               (args.a.transposed ? i : i * args.a.ld);
    }
    const float* column_of_b(std::int64_t q, std::int64_t j) const {
        if (b.empty()) return nullptr;
        return b.data() + q / args.batch_inner * args.b.stride_outer + q % args.batch_inner * args.b.stride_inner +
               (args.b.transposed ? j * args.b.ld : j);
    }
    std::int64_t step_of_a() const { return args.a.transposed ? args.a.ld : 1; }
    std::int64_t step_of_b() const { return args.b.transposed ? 1 : args.b.ld; }
    std::size_t place(std::int64_t q, std::int64_t i, std::int64_t j) const {
        return static_cast<std::size_t>(q / args.batch_inner * args.stride_out_outer +
                                        q % args.batch_inner * args.stride_out_inner + i * args.ld_out + j);
    }

    std::vector<float> run(const Engine& engine, Tally* tally = nullptr) {
        std::vector<float> out(static_cast<std::size_t>(out_count), untouched);
        args.out = out.data();
        matmul(engine.simd, *engine.pool, args, tally);
        args.out = nullptr;
        return out;
    }
};

float canonical(float x) { return x == x ? x : bit_cast<float>(quiet_nan); }

/// Applies one cast of the epilogue, using only the codec.
float rounded(const Cast& cast, float x, std::uint64_t element) {
    if (cast.format == fp32 && cast.encode_scale == 1) return canonical(x);
    RandomBits random;
    if (cast.round == Round::stochastic)
        random = {random_bits(cast.key, element) >> (32 - cast.random_bits), cast.random_bits};
    return quantize(cast.format, canonical(x) * cast.encode_scale, cast.round, cast.overflow, random);
}

/// Returns the oracle's result: the formula of struct Matmul, evaluated naively.
std::vector<float> expected(const Problem& p, Tally* tally = nullptr) {
    const Matmul& x = p.args;
    std::vector<float> out(static_cast<std::size_t>(p.out_count), untouched);
    std::uint64_t element = 0;
    for (std::int64_t q = 0; q < x.batch_outer * x.batch_inner; ++q) {
        for (std::int64_t i = 0; i < x.m; ++i) {
            for (std::int64_t j = 0; j < x.n; ++j, ++element) {
                const float *a = p.row_of_a(q, i), *b = p.column_of_b(q, j);
                float acc = 0;
                for (std::int64_t k = 0; k < x.k; ++k) acc = std::fma(a[k * p.step_of_a()], b[k * p.step_of_b()], acc);
                if (x.out_scale != 1) acc = acc * x.out_scale;
                if (x.bias != nullptr && x.bias_after_cast) acc = rounded(x.out_cast, acc, element);
                if (x.bias != nullptr) acc = acc + x.bias[j];
                acc = canonical(acc);
                const float q_value = rounded(x.out_cast, acc, element);
                if (tally != nullptr) tally->add(x.out_cast.format, acc, acc * x.out_cast.encode_scale, q_value);
                out[p.place(q, i, j)] = q_value;
            }
        }
    }
    return out;
}

/// Requires every engine to return the oracle's bits and, if `counted`, the oracle's tally.
void require_all_engines(Problem& p, bool counted = false) {
    Tally wanted;
    const std::vector<float> reference = expected(p, counted ? &wanted : nullptr);
    for (const Engine& engine : engines()) {
        CAPTURE(simd_name(engine.simd), engine.pool->threads());
        Tally tally;
        const std::string wrong = test::differences(p.run(engine, counted ? &tally : nullptr), reference);
        if (!wrong.empty()) {
            CAPTURE(p.args.m, p.args.n, p.args.k, p.args.a.transposed, p.args.b.transposed, p.args.batch_outer,
                    p.args.batch_inner);
            FAIL(wrong);
        }
        if (counted && !(tally == wanted)) {
            CAPTURE(tally.count, tally.underflow, tally.to_subnormal, tally.overflow, tally.saturated, tally.amax);
            CAPTURE(wanted.count, wanted.underflow, wanted.to_subnormal, wanted.overflow, wanted.saturated,
                    wanted.amax);
            FAIL("the tallies differ");
        }
    }
    SUCCEED();
}

}  // namespace

TEST_CASE("for sizes around the edges of tiles, every engine gives the bits of the naive loop", "[emulation][matmul]") {
    const bool at = GENERATE(false, true), bt = GENERATE(false, true);
    const std::int64_t k = GENERATE(0, 1, 3, 4, 7, 33);
    for (const std::int64_t m : {0, 1, 5, 6, 7, 11, 12, 13, 31, 33}) {
        for (const std::int64_t n : {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 47, 65}) {
            Problem p({.m = m, .n = n, .k = k}, at, bt, Operands::hostile, (m + n) % 3);
            require_all_engines(p);
        }
    }
}

TEST_CASE("blocks of rows, columns and k, and the number of threads, do not change the bits", "[emulation][matmul]") {
    const auto [m, n, k, why] = GENERATE(table<std::int64_t, std::int64_t, std::int64_t, const char*>({
        {63, 65, 1500, "four blocks of k, packed and direct"},
        {64, 127, 385, "one term more than a block of k"},
        {12, 513, 384, "one block of k, two blocks of columns"},
        {127, 385, 129, "one column more than a block"},
        {257, 257, 130, "strips of unequal rows"},
        {513, 47, 257, "only rows are shared between threads"},
        {200, 700, 60, "rows and columns are shared between threads"},
    }));
    const bool at = GENERATE(false, true), bt = GENERATE(false, true);
    CAPTURE(why);
    Problem p({.m = m, .n = n, .k = k}, at, bt, Operands::wild, 3);
    require_all_engines(p);
}

TEST_CASE("the matrices of a batch are independent, whatever their strides", "[emulation][matmul]") {
    const bool at = GENERATE(false, true), bt = GENERATE(false, true);
    for (const Problem::Sizes s :
         {Problem::Sizes{32, 32, 16, 4, 4}, Problem::Sizes{5, 16, 9, 1, 3}, Problem::Sizes{32, 32, 64, 3, 41},
          Problem::Sizes{120, 300, 70, 2, 1}, Problem::Sizes{3, 3, 3, 0, 2}}) {
        Problem p(s, at, bt, Operands::hostile, 5);
        require_all_engines(p);
    }
    SECTION("a stride of 0 uses one operand for the whole batch, and heads may interleave") {
        Problem p({.m = 33, .n = 20, .k = 12, .outer = 2, .inner = 3}, at, bt, Operands::plain, 0);
        p.args.b.stride_outer = p.args.b.stride_inner = 0;
        p.args.stride_out_inner = 20;  // out is [outer, m, inner, n]
        p.args.ld_out = 60;
        p.args.stride_out_outer = 33 * 60;
        require_all_engines(p);
    }
}

TEST_CASE("skipping the work that a causal mask makes unnecessary does not change the bits", "[emulation][matmul]") {
    struct Case {
        Operands kind;
        Problem::Sizes sizes;
        const char* why;
    };
    const Case c = GENERATE(
        Case{Operands::wild, {.m = 64, .n = 64, .k = 64, .outer = 2, .inner = 3}, "heads"},
        Case{Operands::hostile, {.m = 31, .n = 45, .k = 31}, "0 times infinity is NaN: nothing may be skipped"},
        Case{
            Operands::plain, {.m = 450, .n = 70, .k = 430}, "two blocks of k, the second without a term for most rows"},
        Case{Operands::plain, {.m = 40, .n = 130, .k = 90}, "more terms than rows"},
        Case{Operands::plain, {.m = 90, .n = 33, .k = 40}, "more rows than terms"});
    const Triangle triangle = GENERATE(Triangle::a_lower, Triangle::a_upper, Triangle::out_lower);
    const bool at = GENERATE(false, true), bt = GENERATE(false, true);
    // Small operands underflow and may leave -0 in a sum. Adding a product of +0 changes this sum to +0. Skipping the
    // product does not.
    const float size = GENERATE(1.0f, 0x1p-80f);
    CAPTURE(c.why, static_cast<int>(triangle), size);
    Problem p(c.sizes, at, bt, c.kind, 2);
    const auto memory = [](const std::vector<float>& held, const float* at_const) {
        return const_cast<float*>(held.data()) + (at_const - held.data());
    };
    for (std::int64_t q = 0; q < p.args.batch_outer * p.args.batch_inner; ++q) {
        for (std::int64_t i = 0; i < p.args.m; ++i) {
            float* row = memory(p.a, p.row_of_a(q, i));
            for (std::int64_t k = 0; k < p.args.k; ++k) {
                float& x = row[k * p.step_of_a()];
                const bool zero = triangle == Triangle::a_lower ? k > i : triangle == Triangle::a_upper && k < i;
                x = zero ? 0.0f : x * size;
            }
        }
    }
    if (c.kind == Operands::plain) {
        for (float& x : p.b) x *= size;  // gaps stay NaN
    }
    p.args.triangle = triangle;
    if (triangle != Triangle::out_lower) return require_all_engines(p);
    std::vector<float> reference = expected(p);
    for (const Engine& engine : engines()) {
        CAPTURE(simd_name(engine.simd), engine.pool->threads());
        std::vector<float> out = p.run(engine);
        for (std::int64_t q = 0; q < p.args.batch_outer * p.args.batch_inner; ++q) {
            for (std::int64_t i = 0; i < p.args.m; ++i) {
                for (std::int64_t j = i + 1; j < p.args.n; ++j) {
                    out[p.place(q, i, j)] = reference[p.place(q, i, j)] = 0;
                }
            }
        }
        const std::string wrong = test::differences(out, reference);
        if (!wrong.empty()) FAIL(wrong);
    }
    SUCCEED();
}

TEST_CASE("every engine agrees with chains that are computed with exact integers", "[emulation][matmul]") {
    const Operands kind = GENERATE(Operands::plain, Operands::wild, Operands::hostile, Operands::all_bits);
    Problem p({.m = 37, .n = 70, .k = 40}, false, true, kind);
    for (const Engine& engine : engines()) {
        const std::vector<float> out = p.run(engine);
        for (std::int64_t sample = 0; sample < 60; ++sample) {
            const std::int64_t i = sample * 7 % 37, j = sample * 11 % 70;
            const std::span<const float> a(p.row_of_a(0, i), 40), b(p.column_of_b(0, j), 40);
            const float want = oracle::chain_fma_exact(a, b);
            CAPTURE(simd_name(engine.simd), engine.pool->threads(), i, j);
            REQUIRE(bit_cast<std::uint32_t>(out[p.place(0, i, j)]) == bit_cast<std::uint32_t>(want));
        }
    }
}

TEST_CASE("a chain of fma rounds only its sums, and handles subnormals, infinities and NaN", "[emulation][matmul]") {
    struct Case {
        std::vector<float> a, b;
        std::uint32_t want;
        const char* why;
    };
    const float tiny = 0x1p-149f, huge = 0x1.fffffep127f, inf = INFINITY;
    const std::vector<Case> cases = {
        {{0x1.000002p0f, -1.0f}, {0x1.000002p0f, 0x1.000004p0f}, 0, "(1+2u)^2 comes first and is rounded to 1+4u"},
        {{-1.0f, 0x1.000002p0f}, {0x1.000004p0f, 0x1.000002p0f}, 0x28800000u, "later, it is not rounded: 2^-46"},
        {{huge, -huge}, {2.0f, 2.0f}, 0x7f800000u, "an accumulator that overflowed stays infinite"},
        {{huge, -1.0f}, {1.0f, huge}, 0x00000000u, "exact cancellation is +0"},
        {{-0.0f}, {1.0f}, 0x00000000u, "the chain starts at +0, and +0 + -0 = +0"},
        {{tiny, tiny}, {0.5f, 0.75f}, 0x00000001u, "half a subnormal ties to zero, three quarters round up"},
        {{0x1p-75f, 0x1p-75f}, {0x1p-75f, 0x1.8p-75f}, 0x00000001u, "a product below the subnormals counts"},
        {{inf, -inf}, {1.0f, 1.0f}, quiet_nan, "Inf - Inf"},
        {{inf}, {0.0f}, quiet_nan, "Inf 0"},
        {{bit_cast<float>(0xffc12345u)}, {1.0f}, quiet_nan, "a NaN's sign and payload are dropped"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.why);
        for (const Engine& engine : engines()) {
            CAPTURE(simd_name(engine.simd));
            float out = untouched;
            const auto k = static_cast<std::int64_t>(c.a.size());
            matmul(engine.simd, *engine.pool,
                   {.m = 1,
                    .n = 1,
                    .k = k,
                    .a = {.data = c.a.data(), .ld = k},
                    .b = {.data = c.b.data(), .ld = 1},
                    .out = &out,
                    .ld_out = 1});
            CHECK(bit_cast<std::uint32_t>(out) == c.want);
        }
    }
}

TEST_CASE("scale, bias and cast are applied to the sum in this order", "[emulation][matmul]") {
    const RngKey key{.seed = 5, .step = 6, .site = 7};
    const Cast casts[] = {
        {},
        {.overflow = Overflow::saturate},  // still the identity: an infinity stays infinite
        {.format = bf16},
        {.format = fp16, .round = Round::toward_zero},
        {.format = e4m3fn, .overflow = Overflow::saturate, .encode_scale = 0x1.8p-3f},
        {.format = e5m2, .round = Round::stochastic, .key = key},
        {.format = bf16, .round = Round::stochastic, .key = key, .random_bits = 8},
    };
    const Operands kind = GENERATE(Operands::plain, Operands::hostile);
    const bool counted = GENERATE(false, true);
    for (const Problem::Sizes s :
         {Problem::Sizes{13, 47, 20}, Problem::Sizes{12, 32, 0}, Problem::Sizes{40, 16, 9, 2, 2},
          Problem::Sizes{200, 20, 1100}, Problem::Sizes{16, 16, 400, 4, 10}, Problem::Sizes{5, 700, 3}}) {
        const bool threaded = s.k >= 400;  // rows or matrices are shared between threads
        if (threaded && kind == Operands::plain) continue;
        for (const std::int64_t gap : {0, 2}) {
            if (threaded && gap != 0) continue;
            for (const Cast& cast : casts) {
                for (const float scale : {1.0f, -0x1.3p-2f}) {
                    for (const int bias : {0, 1, 2}) {
                        if (bias == 2 && cast.round == Round::stochastic) continue;  // refused: two stochastic casts
                        Problem p(s, false, true, kind, gap);
                        p.args.out_cast = cast;
                        p.args.out_scale = scale;
                        p.args.bias = bias == 0 ? nullptr : p.bias.data();
                        p.args.bias_after_cast = bias == 2;
                        CAPTURE(cast.format.bits, scale, bias, gap, counted);
                        require_all_engines(p, counted);
                    }
                }
            }
        }
    }
}

TEST_CASE("a matmul adds to the earlier counts of its tally, and counts only the last cast", "[emulation][matmul]") {
    const float a[] = {1.0f}, b[] = {0x1p-10f, 500.0f}, bias[] = {1.0f, -400.0f};
    for (const Engine& engine : engines()) {
        float out[2] = {};
        Tally tally;
        tally.count = 10;
        matmul(engine.simd, *engine.pool,
               {.m = 1,
                .n = 2,
                .k = 1,
                .a = {.data = a, .ld = 1},
                .b = {.data = b, .ld = 2},
                .out = out,
                .ld_out = 2,
                .bias = bias,
                .bias_after_cast = true,
                .out_cast = {.format = e4m3fn, .overflow = Overflow::saturate}},
               &tally);
        CHECK(out[0] == 1.0f);   // 2^-10 underflows to 0 in the first cast, which is not counted
        CHECK(out[1] == 48.0f);  // 500 saturates at 448
        CHECK(tally.count == 12);
        CHECK(tally.underflow == 0);
        CHECK(tally.saturated == 0);
        CHECK(tally.amax == 48.0f);
    }
}

}  // namespace matmul_test
