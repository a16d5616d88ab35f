// SPDX-License-Identifier: Apache-2.0
// Tests the running bound, an error bound for matrix products that is computed from the partial sums of each output. It
// must agree with values worked out by hand and be as tight as a published table says. No emulated kernel may exceed
// it.
#include "emulation/matmul/machine_spelling.hpp"
#include "experiments/check/truth/multiply.hpp"
#include "tests/check/machine_kernels.hpp"
#include "tests/check/problems.hpp"

#include <algorithm>
#include <map>

namespace running_check_test {

using namespace macheps;
using namespace macheps::test;

namespace {

MatmulRule rule_of(const std::string& name) { return parse_machine(name).rule; }

std::vector<check::SumError> running(const MachineGemm& g, const MatmulRule& rule) {
    const check::ProductOperands of = g.operands();
    std::vector<double> magnitudes(g.m * g.n);
    for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        for (std::size_t p = 0; p < g.k; ++p)
            magnitudes[i] += std::fabs(static_cast<double>(g.a[i / g.n * g.k + p]) * g.b[p * g.n + i % g.n]);
    }
    return check::running_bound(of, rule, magnitudes, pool());
}

MachineGemm equal(std::size_t k, const Format& format, float a, float b) {
    return {.m = 1, .n = 1, .k = k, .a_format = format, .b_format = format, .a = Floats(k, a), .b = Floats(k, b)};
}

double median(std::vector<double> x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
}

/// Sums up how close the errors of legal kernels come to the bounds for one rule.
struct Fared {
    double rho = 0;  ///< the largest error divided by its bound
    int refused = 0, runs = 0, unlikely = 0;
};

void judge_sums(const MachineGemm& g, const MatmulRule& rule, Fared& fared) {
    const Floats out = g.run(rule);
    const check::Products products(g.operands(), rule, pool());
    std::vector<check::ProductSum> sums;
    bool is_refused = false, is_unlikely = false;
    for (std::size_t i = 0; i < g.m; ++i) {
        products.row(static_cast<std::int64_t>(i), 0, sums);
        for (std::size_t j = 0; j < g.n; ++j) {
            const float y = out[i * g.n + j];
            const check::ProductSum& s = sums[j];
            if (!std::isfinite(y)) continue;  // an fp16 accumulator overflowed
            const double off = std::fabs(y - s.sum.high);
            if (off == 0) continue;
            const double ratio = off / (s.certain + s.certificate);
            fared.rho = std::max(fared.rho, ratio);
            is_refused = is_refused || ratio > 1;
            is_unlikely = is_unlikely || off > s.mean + 7.8 * s.spread + s.certificate;
        }
    }
    fared.refused += is_refused;
    fared.unlikely += is_unlikely;
    ++fared.runs;
}

/// Returns a rule for every machine, every named rule, and some machines with promotion or slices. If a named rule
/// leaves the machine or the number of slices open, the function chooses it.
std::map<std::string, MatmulRule> all_rules() {
    std::map<std::string, MatmulRule> all;
    for (const Machine* machine : all_machines) all[std::string(machine->name)] = {.machine = machine};
    for (const NamedMatmulRule& named : all_matmul_rules()) {
        MatmulRule rule = named.rule;
        if (rule.machine == nullptr) rule.machine = find_machine("sm90.wgmma.fp16");
        if (rule.slices == 0) rule.slices = 3;
        all[std::string(named.name)] = rule;
    }
    for (const char* name : {"sm90.wgmma.fp8", "sm80.mma.fp16", "sm89.mma.fp8"}) {
        all[std::string(name) + "+promote64"] = rule_of(std::string(name) + "+promote64");
        all[std::string(name) + "+slices3"] = rule_of(std::string(name) + "+slices3");
    }
    return all;
}

std::vector<Format> formats_of(const MatmulRule& rule) {
    std::vector<Format> all;
    for (const Format& format : {fp16, bf16, e4m3fn, e5m2, e2m3fn, e3m2fn, e2m1fn, tf32, fp32, e4m3fnuz, e5m2fnuz}) {
        MatmulUse use{.a = format, .b = format};
        try {
            require_possible(rule, use, "test");
        } catch (const Error&) {
            continue;
        }
        if (decoded_format(*rule.machine, format) == format) all.push_back(format);
    }
    return all;
}

std::map<std::string, Fared> fared_of_all(int runs, std::size_t max_k, unsigned seed) {
    std::map<std::string, Fared> all;
    for (const auto& [name, rule] : all_rules()) {
        const std::vector<Format> formats = formats_of(rule);
        if (formats.empty() || rule.machine->has_scales()) continue;
        std::mt19937 random(seed);
        Fared& fared = all[name];
        for (int run = 0; run < runs; ++run) {
            const std::size_t m = 1 + random() % 4, n = 1 + random() % 9, k = 1 + random() % max_k;
            const auto draw = static_cast<Draw>(run % draws);
            const Format a = formats[random() % formats.size()], b = formats[random() % formats.size()];
            judge_sums(machine_gemm(m, n, k, a, b, draw, random), rule, fared);
        }
    }
    return all;
}

void check_fared(const std::map<std::string, Fared>& all) {
    double most = 0;
    for (const auto& [name, fared] : all) {
        CAPTURE(name, fared.rho, fared.runs);
        CHECK(fared.refused == 0);
        CHECK(fared.unlikely == 0);
        most = std::max(most, fared.rho);
    }
    CHECK(all.size() > 60);
    CHECK(most > 0.3);  // if no error came near its bound, this test would be meaningless
    std::printf("%zu rules, the largest error %.3f of its bound\n", all.size(), most);
}

}  // namespace

TEST_CASE("the running error bound agrees with values computed by hand", "[check][running]") {
    // The sum has two steps of 8 products. The unit of truncation is 2^-20, which divides every product. All products
    // are positive, so the range R of the partial sums is the result.
    MachineGemm g = equal(16, fp16, 1.5f, 1.25f);
    g.a[3] = 1.5f * 0x1p-11f;
    const check::SumError one = running(g, rule_of("sm80.mma.fp16")).front();
    CHECK(one.range == Approx(2 * 28.1259).epsilon(1e-5));
    CHECK(one.certain == Approx(1.197e-5).epsilon(4e-4));
    // Hopper's fp8 sums stall: from 64 on, every product is truncated to zero.
    const auto relative = [](const std::string& machine, std::size_t k) {
        return running(equal(k, e4m3fn, 0.0625f, 0.0625f), rule_of(machine)).front().certain /
               (static_cast<double>(k) / 256);
    };
    CHECK(relative("sm90.wgmma.fp8", 128) == Approx(9.77e-4).epsilon(1e-3));
    CHECK(relative("sm90.wgmma.fp8", 1024) == Approx(7.83e-3).epsilon(1e-3));
    CHECK(relative("sm90.wgmma.fp8", 16384) == Approx(1.17).epsilon(5e-3));
    CHECK(relative("sm90.wgmma.fp8+promote128", 1024) == Approx(9.8e-4).epsilon(2e-2));
    CHECK(relative("sm90.wgmma.fp8+promote128", 16384) == Approx(9.8e-4).epsilon(2e-2));
    // An exact sum is rounded once, so its bound is half an ulp.
    CHECK(running(equal(3, fp16, 1.5f, 1.25f), rule_of("exact")).front().certain == 0x1p-22);
}

TEST_CASE("the running error bound is small relative to the sum of magnitudes if products cancel", "[check][running]") {
    struct Row {
        const char* machine;
        Format format;
        std::size_t k;
        Draw draw;
        double relative;  ///< median of bound / sum of |a b|
        double refused;   ///< share of outputs for which the bound excludes a result of 0
    };
    // The published value 1.64e-6 for sm80 holds for products with 16 bits. Products of fp16 numbers have 22 bits, and
    // more of their bits are truncated. The published value 0.31 for positive data holds for |N(0, 1)|. Products of
    // U(0, 1) are smaller, so a larger part of each is truncated.
    const Row row = GENERATE(Row{"sm80.mma.bf16", bf16, 1024, Draw::normal, 1.64e-6, 1.00},
                             Row{"sm80.mma.fp16", fp16, 1024, Draw::normal, 3.56e-6, 1.00},
                             Row{"sm90.wgmma.fp8", e4m3fn, 1024, Draw::normal, 0.00209, 0.98},
                             Row{"sm90.wgmma.fp8", e4m3fn, 4096, Draw::normal, 0.00567, 0.85},
                             Row{"sm90.wgmma.fp8", e4m3fn, 4096, Draw::folded, 0.31, 1.00},
                             Row{"sm90.wgmma.fp8", e4m3fn, 4096, Draw::positive, 0.403, 1.00},
                             Row{"sm90.wgmma.fp8+promote128", e4m3fn, 4096, Draw::normal, 0.000342, 0.99},
                             Row{"sm100.tcgen05.fp8", e4m3fn, 4096, Draw::normal, 6.5e-7, 1.00});
    std::mt19937 random(7);
    const MachineGemm g = machine_gemm(32, 32, row.k, row.format, row.format, row.draw, random);
    const check::Products products(g.operands(), rule_of(row.machine), pool());
    std::vector<double> relative;
    double refused = 0, rho = 0;
    for (const int slices : {1, 2, 4, 8}) {
        MatmulRule rule = rule_of(row.machine);
        rule.slices = slices;
        const Floats out = g.run(rule);
        std::vector<check::ProductSum> sums;
        for (std::int64_t i = 0; i < 32; ++i) {
            products.row(i, 0, sums);
            for (std::size_t j = 0; j < 32; ++j) {
                const check::ProductSum& s = sums[j];
                const auto at = static_cast<std::size_t>(i) * 32 + j;
                rho = std::max(rho, std::fabs(out[at] - s.sum.high) / s.certain);
                if (slices > 1) continue;
                relative.push_back(s.certain / products.magnitudes(static_cast<std::int64_t>(at)));
                refused += std::fabs(s.sum.high) > s.certain ? 1 : 0;
            }
        }
    }
    CAPTURE(row.machine, row.k, median(relative), refused / 1024, rho);
    // The random operands differ from those of the table, so the medians of 1024 outputs may differ by a few per cent.
    CHECK(median(relative) == Approx(row.relative).epsilon(0.06));
    CHECK(refused / 1024 == Approx(row.refused).margin(0.03));
    CHECK(rho < 0.35);
}

TEST_CASE("no emulated kernel exceeds the bounds of its machine", "[check][running]") {
    check_fared(fared_of_all(32, 400, 11));
}
TEST_CASE("none of 1000 emulated kernels of each rule exceeds the bounds of its machine", "[check][running][slow]") {
    check_fared(fared_of_all(1000, 1448, 20260102));
}

TEST_CASE("products in references have the same bits for every instruction set and number of threads",
          "[check][products]") {
    std::mt19937 random(13);
    for (const auto& [m, n, k] : {std::array<std::size_t, 3>{1, 1, 1}, {5, 67, 33}, {13, 130, 200}, {64, 64, 7}}) {
        const MachineGemm g = machine_gemm(m, n, k, fp32, fp32, Draw::normal, random);
        const check::ProductOperands of = g.operands();
        std::vector<double> plain(m * n);
        for (std::size_t i = 0; i < plain.size(); ++i) {
            for (std::size_t p = 0; p < k; ++p) plain[i] += of.a[i / n * k + p] * of.b[p * n + i % n];
        }
        ThreadPool one(1);
        for (const Simd simd : available_simd()) {
            CAPTURE(m, n, k, simd_name(simd));
            CHECK(check::multiply(of, of.a, of.b, pool(), simd) == plain);
            CHECK(check::multiply(of, of.a, of.b, one, simd) == plain);
        }
    }
}

}  // namespace running_check_test
