// SPDX-License-Identifier: Apache-2.0
// Compares the vector code for chains and for orders of summation with the scalar definition.
#include "emulation/cpu/matmul/order/order_kernel.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/cpu/matmul/matmul.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <random>
#include <set>

namespace order_kernel_test {

using namespace macheps;

namespace {

enum class Draw { normal, wide, bits, small, cancelling, grid, specials, subnormal, large, count };

float drawn(std::mt19937& random, Draw how, const Format& format) {
    const auto uniform = [&] { return static_cast<double>(random()) * 0x1p-32; };
    const double sign = random() % 2 != 0 ? -1 : 1;
    double x = 0;
    switch (how) {
        case Draw::normal:
        case Draw::cancelling:
            x = sign * (0.5 + uniform());
            break;
        case Draw::wide:
            x = sign * std::ldexp(1 + uniform(), static_cast<int>(random() % 60) - 30);
            break;
        case Draw::bits:
            return decode(format, random() & ((std::uint64_t{1} << (format.bits - 1) << 1) - 1) << format.padding);
        case Draw::small:
            x = sign * std::ldexp(1 + uniform(), format.emin() / 2 - static_cast<int>(random() % 12));
            break;
        case Draw::subnormal:  // multiplied by large numbers, so that flushing to zero changes the sum
            x = sign * std::ldexp(1 + uniform(), format.emin() - 1 - static_cast<int>(random() % 3));
            break;
        case Draw::large:  // sums that exceed the largest number or come close to it
            x = sign *
                std::ldexp(1 + uniform(), (std::min(-format.emin(), 126) + 1) / 2 - static_cast<int>(random() % 4));
            break;
        case Draw::grid:  // sums of numbers with few bits, which are often ties
            x = sign * static_cast<double>(random() % 9) * 0.125;
            break;
        default:
            x = random() % 40 == 0  ? (random() % 2 != 0 ? INFINITY : NAN)
                : random() % 3 == 0 ? sign * 0.0
                                    : sign * uniform();
            break;
    }
    return decode(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

struct Result {
    std::uint64_t outputs = 0, wrong = 0;
    std::string first;
};

/// Runs one matmul on `level` and by the scalar definition, and compares the outputs.
void compare(Simd level, Matmul args, Result& result, const std::string& what) {
    ThreadPool one(1);
    std::vector<float> want(static_cast<std::size_t>(args.m * args.n)), got(want.size());
    args.ld_out = args.n;
    args.out = want.data();
    matmul(Simd::scalar, one, args);
    args.out = got.data();
    matmul(level, one, args);
    for (std::size_t i = 0; i < want.size(); ++i, ++result.outputs) {
        const auto x = bit_cast<std::uint32_t>(want[i]), y = bit_cast<std::uint32_t>(got[i]);
        if (x == y || (want[i] != want[i] && got[i] != got[i])) continue;
        if (result.wrong++ != 0) continue;
        char text[96];
        std::snprintf(text, sizeof text, " element %zu: %08x for %08x", i, y, x);
        result.first = what + text;
    }
}

struct Sizes {
    std::int64_t m, n, k;
};

Result compare_rule(Simd level, const MatmulRule& rule, std::mt19937& random, const std::vector<Sizes>& shapes,
                    int rounds) {
    Result result;
    std::vector<Format> formats;
    for (const Format& format : FormatSet::known) {
        if (format == fp64 || !rule.machine->operands.contains(format)) continue;
        formats.push_back(format);
    }
    for (int round = 0; round < rounds; ++round) {
        for (const Sizes& s : shapes) {
            for (int d = 0; d < static_cast<int>(Draw::count); ++d) {
                const Format& a_format = formats[random() % formats.size()];
                const Format& b_format =
                    is_order_of_summation(*rule.machine) ? a_format : formats[random() % formats.size()];
                Matmul args{.m = s.m, .n = s.n, .k = s.k};
                args.rule = rule;
                args.a = {.ld = s.k, .format = a_format};
                args.b = {.ld = s.n, .format = b_format};
                args.a.transposed = random() % 2 != 0;
                args.b.transposed = random() % 2 != 0;
                args.a.ld = args.a.transposed ? s.m : s.k;
                args.b.ld = args.b.transposed ? s.k : s.n;
                const Draw of_b = static_cast<Draw>(d) == Draw::subnormal ? Draw::large : static_cast<Draw>(d);
                std::vector<float> a, b, bias;
                for (std::int64_t i = 0; i < s.m * s.k; ++i) a.push_back(drawn(random, static_cast<Draw>(d), a_format));
                for (std::int64_t i = 0; i < s.k * s.n; ++i) b.push_back(drawn(random, of_b, b_format));
                for (std::int64_t i = 0; i < s.n; ++i) bias.push_back(drawn(random, Draw::normal, fp32));
                if (static_cast<Draw>(d) == Draw::cancelling && !args.a.transposed && !args.b.transposed) {
                    for (std::int64_t p = 0; p + 1 < s.k; p += 2) {
                        for (std::int64_t i = 0; i < s.m; ++i)
                            a[static_cast<std::size_t>(i * s.k + p + 1)] = -a[static_cast<std::size_t>(i * s.k + p)];
                        for (std::int64_t j = 0; j < s.n; ++j)
                            b[static_cast<std::size_t>((p + 1) * s.n + j)] = b[static_cast<std::size_t>(p * s.n + j)];
                    }
                }
                args.a.data = a.data();
                args.b.data = b.data();
                if (random() % 3 == 0) args.bias = bias.data();
                compare(level, args, result, "draw " + std::to_string(d) + " k " + std::to_string(s.k));
            }
        }
    }
    return result;
}

}  // namespace

TEST_CASE("in bf16.chain, if a product is a tie, a tiny previous sum breaks the tie, in every column and row",
          "[emulation][order_kernel]") {
    // (1 + 2^-7) 1.5 is a tie between two bf16 numbers. The previous sum of 2^-40 or -2^-40 breaks the tie. An addition
    // in fp32 loses the previous sum.
    constexpr std::int64_t m = 7, n = 37, k = 63;
    ThreadPool one(1);
    for (const std::int64_t at : {0, 1, 6, 20, 40, 41, 46, 60}) {
        const std::int64_t parity = at / 40;  // in the other columns, the previous sum is 2^-20, which fp32 keeps
        std::vector<float> a(m * k, 0x1p-20f), b(k * n), out(m * n);
        for (std::int64_t i = 0; i < m; ++i) a[static_cast<std::size_t>(i * k + at + 1)] = 1 + 0x1p-7f;
        const auto is_tiny = [&](std::int64_t j) { return j % 2 == parity; };
        const auto is_less = [&](std::int64_t j) { return is_tiny(j) && j % 3 == 1; };
        for (std::int64_t j = 0; j < n; ++j) {
            b[static_cast<std::size_t>(at * n + j)] = is_less(j) ? -0x1p-20f : is_tiny(j) ? 0x1p-20f : 1;
            b[static_cast<std::size_t>((at + 1) * n + j)] = 1.5f;
        }
        Matmul args{.m = m,
                    .n = n,
                    .k = k,
                    .a = {.data = a.data(), .ld = k, .format = bf16},
                    .b = {.data = b.data(), .ld = n, .format = bf16},
                    .out = out.data(),
                    .ld_out = n};
        args.rule.machine = find_machine("bf16.chain");
        for (const Simd level : available_simd()) {
            matmul(level, one, args);
            std::int64_t wrong = 0;
            for (std::int64_t i = 0; i < m * n; ++i)
                wrong += out[static_cast<std::size_t>(i)] != (is_less(i % n) ? 1.5f + 0x1p-7f : 1.5f + 0x1p-6f);
            CAPTURE(at, simd_name(level));
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("an infinite fp16 sum does not hide the overflow of neighbouring sums", "[emulation][order_kernel]") {
    // The kinds of rows: rows that overflow with the first term, with the second term or never, and rows with NaN.
    // Overflow happens only in columns of large numbers. These columns come in runs of `run` columns.
    constexpr std::int64_t n = 37, k = 3;
    constexpr unsigned kinds = 4;
    constexpr float first[kinds] = {65504, 0, 1, NAN}, second[kinds] = {0, 65504, 1, 0};
    ThreadPool one(1);
    for (const std::int64_t run : {4, 8, 16, 64}) {
        std::vector<float> b(k * n, 1.0f);
        for (std::int64_t j = 0; j < n; ++j) {
            const bool is_large = j / run % 2 == 0;
            b[static_cast<std::size_t>(j)] = is_large ? 2 : 0.5f;
            b[static_cast<std::size_t>(n + j)] = is_large ? 1.25f : 0.5f;
        }
        for (std::int64_t m = 1; m <= 4; ++m) {
            Result result;
            for (unsigned rows = 0; rows < 1u << 2 * m; ++rows) {
                std::vector<float> a(static_cast<std::size_t>(m * k));
                for (std::int64_t i = 0; i < m; ++i) {
                    const unsigned kind = (rows >> 2 * i) % kinds;
                    a[static_cast<std::size_t>(i * k)] = first[kind];
                    a[static_cast<std::size_t>(i * k + 1)] = second[kind];
                }
                Matmul args{.m = m,
                            .n = n,
                            .k = k,
                            .a = {.data = a.data(), .ld = k, .format = fp16},
                            .b = {.data = b.data(), .ld = n, .format = fp16}};
                args.rule.machine = find_machine("fp16.chain");
                for (const Simd level : available_simd()) compare(level, args, result, "rows " + std::to_string(rows));
            }
            CAPTURE(run, m, result.first);
            CHECK(result.wrong == 0);
        }
    }
}

TEST_CASE("vector code of every chain and order gives the bits of the definition", "[emulation][order_kernel]") {
    const std::vector<Sizes> shapes{{1, 1, 1}, {3, 17, 33}, {5, 33, 64}, {7, 65, 130}};
    std::set<std::string_view> served;
    for (const Machine* machine : all_machines) {
        if (machine->addend != machine->result || machine->result == fp64) continue;
        Matmul args;
        args.rule.machine = machine;
        for (const Format& format : FormatSet::known) {
            if (format != fp64 && machine->operands.contains(format)) args.a.format = args.b.format = format;
        }
        for (const Simd level : available_simd()) {
            if (!runs_as_order(level, args)) continue;
            served.insert(machine->name);
            std::mt19937 random(3);
            const Result result = compare_rule(level, {.machine = machine}, random, shapes, 1);
            INFO(machine->name << " on " << simd_name(level) << ": " << result.outputs << " outputs, first "
                               << result.first);
            CHECK(result.wrong == 0);
            CHECK(result.outputs > 1000);
        }
    }
    for (const char* name :
         {"bf16.chain", "fp16.chain", "fp32.pairwise", "fp32.kahan", "fp32.unfused", "exact", "x86.vdpbf16ps",
          "x86.vdpphps", "x86.amx.bf16", "x86.amx.fp16", "x86.amx.fp8", "arm.bfdot", "arm.bfmmla", "arm.bfdot.ebf",
          "arm.sme.fmopa", "arm.fp8dot2", "power10.xvbf16ger2", "x86.vfmaddph"}) {
        CAPTURE(name);
        CHECK(served.count(name) == 1);
    }
}

TEST_CASE("rules with blocks of k give the bits of the definition on every engine", "[emulation][order_kernel]") {
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        if (!named.rule.has_blocks()) continue;
        for (const Simd level : available_simd()) {
            if (level == Simd::scalar) continue;
            std::mt19937 random(5);
            const Result result = compare_rule(level, named.rule, random, {{2, 5, 193}, {3, 33, 681}, {2, 3, 1025}}, 1);
            INFO(named.name << " on " << simd_name(level) << ": first " << result.first);
            CHECK(result.wrong == 0);
        }
    }
}

}  // namespace order_kernel_test
