// SPDX-License-Identifier: Apache-2.0
// Checks the addend C of Backend::matmul on every machine and in every engine. The expected result is computed one
// instruction after another, starting from C.
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "emulation/matmul/matmul.hpp"
#include "emulation/matmul/rules.hpp"
#include "tests/gpu/host_backend.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace addend_test {

using namespace macheps;

namespace {

/// Returns a number of `format`. Usually it is a number of moderate size, and sometimes a zero, a subnormal, an
/// infinity or NaN.
float some_number(std::mt19937& random, const Format& format) {
    const double sign = random() % 2 != 0 ? -1 : 1, size = 1 + static_cast<double>(random()) * 0x1p-32;
    double x = sign * std::ldexp(size, static_cast<int>(random() % 7) - 4);
    switch (random() % 24) {
        case 0:
            x = sign * 0.0;
            break;
        case 1:
            x = sign * std::ldexp(size, format.emin() - 2);
            break;
        case 2:
            x = random() % 8 == 0 ? (random() % 2 != 0 ? INFINITY : NAN) : -0.0;
            break;
        default:
            break;
    }
    return decode(format, encode64(format, x, Round::nearest_even, Overflow::nonsaturate));
}

std::vector<float> numbers(std::mt19937& random, const Format& format, std::int64_t count) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < count; ++i) x.push_back(some_number(random, format));
    return x;
}

/// A batch of two matrix products, in host memory.
struct Product {
    std::int64_t m = 0, n = 0, k = 0, ld_c = 0;
    static constexpr std::int64_t matrices = 2;
    Format format{};
    MatmulRule rule{};
    std::vector<float> a{}, b{}, c{};

    Product(std::mt19937& random, const MatmulRule& with, const Format& operands, std::int64_t rows,
            std::int64_t columns, std::int64_t terms)
        : m(rows), n(columns), k(terms), ld_c(columns + 3), format(operands), rule(with) {
        a = numbers(random, operands, matrices * m * k);
        b = numbers(random, operands, matrices * k * n);
        c = numbers(random, rule.machine->addend, matrices * m * ld_c);
    }

    Matmul args() const {
        Matmul x{.m = m, .n = n, .k = k, .batch_outer = matrices, .rule = rule};
        x.a = {.ld = k, .stride_outer = m * k, .format = format};
        x.b = {.ld = n, .stride_outer = k * n, .format = format};
        return x;
    }

    /// Computes the product in `engine`. With `in_place`, the output overwrites C.
    std::vector<float> on(Backend& engine, bool in_place) const {
        const auto tensor = [&](const std::vector<float>& host) {
            Tensor t = engine.empty({static_cast<std::int64_t>(host.size())});
            engine.upload(host, t);
            return t;
        };
        const Tensor ta = tensor(a), tb = tensor(b);
        Tensor tc = tensor(c), other = engine.empty({matrices * m * ld_c});
        engine.copy(tc, other);
        Tensor& out = in_place ? tc : other;
        Matmul x = args();
        x.a.data = ta.data(), x.b.data = tb.data();
        x.addend = tc.data(), x.ld_addend = ld_c, x.stride_addend_outer = m * ld_c;
        x.out = out.data(), x.ld_out = ld_c, x.stride_out_outer = m * ld_c;
        engine.matmul(x);
        std::vector<float> host(c.size());
        engine.download(out, host);
        return host;
    }

    /// Returns the expected value of one element, computed instruction by instruction.
    float expected(std::int64_t matrix, std::int64_t i, std::int64_t j) const {
        Matmul x = args();
        x.a.format = x.b.format = decoded_format(*rule.machine, format);
        const definition::DotOperands dot =
            definition::dot_operands(x, a.data() + matrix * m * k, b.data() + matrix * k * n, i, j);
        const auto chain = [&](std::int64_t first, std::int64_t last, float start) {
            const Machine& machine = *rule.machine;
            if (!(machine.result == fp32 && machine.sum.is_plain_chain() &&
                  machine.sum.delivery == Delivery::fp32_nearest_even)) {
                return definition::instruction_chain(x, dot, first, last, start);
            }
            for (std::int64_t p = first; p < last; ++p)
                start = std::fma(dot.a[p * dot.a_step], dot.b[p * dot.b_step], start);
            return start;
        };
        float main = c[static_cast<std::size_t>((matrix * m + i) * ld_c + j)];
        if (rule.promotion == Promotion::none) return definition::canonical(chain(0, k, main));
        for (std::int64_t p = 0; p < k; p += rule.promotion_interval) {
            main = main + chain(p, std::min(p + rule.promotion_interval, k), 0);
        }
        return definition::canonical(main);
    }

    std::vector<float> expected_all() const {
        std::vector<float> out = c;
        for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
            for (std::int64_t i = 0; i < m; ++i) {
                for (std::int64_t j = 0; j < n; ++j) {
                    out[static_cast<std::size_t>((matrix * m + i) * ld_c + j)] = expected(matrix, i, j);
                }
            }
        }
        return out;
    }
};

/// Returns the number of elements whose bits differ. Also compares the gaps between rows, because a matmul must not
/// change them.
std::size_t different(const std::vector<float>& x, const std::vector<float>& y) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool both_nan = x[i] != x[i] && y[i] != y[i];
        count += !both_nan && bit_cast<std::uint32_t>(x[i]) != bit_cast<std::uint32_t>(y[i]);
    }
    return count;
}

std::vector<MatmulRule> rules_with_addend() {
    std::vector<MatmulRule> rules;
    for (const Machine* machine : all_machines) {
        const MatmulRule rule{.machine = machine};
        if (machine->addend != machine->result || machine->result == fp64 || machine->has_scales()) continue;
        if (why_no_addend(rule).empty()) rules.push_back(rule);
    }
    rules.push_back({.machine = find_machine("sm90.wgmma.fp8"), .promotion = Promotion::add, .promotion_interval = 64});
    rules.push_back({.machine = find_machine("sm80.mma.bf16"), .promotion = Promotion::add, .promotion_interval = 32});
    return rules;
}

std::vector<std::unique_ptr<Backend>> engines() {
    std::vector<std::unique_ptr<Backend>> all;
    for (const Simd level : available_simd()) all.push_back(std::make_unique<CpuBackend>(1, level));
    all.push_back(std::make_unique<CpuBackend>(3));
    all.push_back(test::host_device_backend());
    return all;
}

}  // namespace

TEST_CASE("every sum begins with the addend, on every machine and in every engine", "[emulation][matmul][addend]") {
    struct Size {
        std::int64_t m, n, k;
    };
    const auto all = engines();
    std::mt19937 random(5);
    for (const MatmulRule& rule : rules_with_addend()) {
        std::vector<Format> formats;
        for (const Format& format : FormatSet::known) {
            if (format != fp64 && rule.machine->operands.contains(format)) formats.push_back(format);
        }
        for (const Size& s : {Size{1, 1, 1}, Size{5, 37, 70}, Size{3, 16, 0}}) {
            const Product x(random, rule, formats[random() % formats.size()], s.m, s.n, s.k);
            const std::vector<float> want = x.expected_all();
            for (const auto& engine : all) {
                INFO(to_string(rule) << " in " << engine->name() << ", " << s.m << " x " << s.n << " x " << s.k);
                CHECK(different(x.on(*engine, false), want) == 0);
                CHECK(different(x.on(*engine, true), want) == 0);
            }
        }
    }
}

TEST_CASE("an addend is refused if the rule cannot begin sums with it, or if its row stride is too small",
          "[emulation][matmul][addend]") {
    CpuBackend engine(1);
    float x[4] = {};
    Matmul args{.m = 2, .n = 2, .k = 2};
    args.a = args.b = {.data = x, .ld = 2};
    float out[4] = {}, c[4] = {};
    args.out = out, args.ld_out = 2;
    args.addend = c, args.ld_addend = 2;
    CHECK_NOTHROW(engine.matmul(args));
    for (const char* name : {"fp32.pairwise", "fp32.kahan", "exact"}) {
        args.rule = {.machine = find_machine(name)};
        INFO(name);
        CHECK_THROWS_AS(engine.matmul(args), Error);
    }
    args.rule = {};
    args.rule.slices = 2;
    CHECK_THROWS_AS(engine.matmul(args), Error);
    args.rule = {};
    args.ld_addend = 1;
    CHECK_THROWS_AS(engine.matmul(args), Error);
}

}  // namespace addend_test
