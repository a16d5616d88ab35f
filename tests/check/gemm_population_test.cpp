// SPDX-License-Identifier: Apache-2.0
// Runs large random samples of legal matrix products, none of which may fail. Some products are fp32 sums in the orders
// of libraries, and the others are computed by emulated matrix units. The formats, the epilogues and the distributions
// of the operands vary.
#include "tests/check/product_checks.hpp"

#include <cstdlib>

namespace gemm_population_test {

using namespace macheps;
using namespace macheps::test;

namespace {

constexpr std::array<const char*, 7> units{
    "sm70.mma.fp16",     "sm80.mma.bf16",  "sm90.wgmma.fp16", "sm89.mma.fp8", "sm90.wgmma.fp8+promote128",
    "sm100.tcgen05.fp8", "cdna3.mfma.bf16"};

/// Returns the sums of products in one of the orders of plain fp32 kernels. A null order is a chain of fused
/// multiply-adds.
Floats sums_in_order(const MachineGemm& g, const kernels::Order* order) {
    kernels::Gemm plain{.m = g.m, .n = g.n, .k = g.k, .a = g.a, .b = g.b};
    return plain.run(kernels::Store::fp32, order);
}

struct Refusals {
    int certain = 0, probable = 0, squares = 0, specials = 0, runs = 0;
    double rho = 0, z = 0;

    void add(const check::Judgement& j) {
        ++runs;
        rho = std::max(rho, j.rho);
        z = std::max({z, j.z, j.z_part});
        for (const check::Reason& reason : j.reasons) {
            (reason.code == "KC010"                             ? specials
             : reason.code == "KC020" || reason.code == "KC041" ? certain
             : reason.code == "KC021"                           ? probable
                                                                : squares)++;
        }
    }
};

/// Judges the outputs of `runs` legal kernels with `least` to `most` rows and columns. The tests are T0 (special
/// values), T1 (certain bounds), T2 (probable bounds) and T3 (mean squares).
Refusals judged(int runs, unsigned seed, std::size_t least, std::size_t most, std::size_t max_k) {
    std::mt19937 random(seed);
    const std::vector<kernels::Order> orders = kernels::orders();
    constexpr std::array<Format, 4> formats{bf16, fp16, e4m3fn, fp32};
    constexpr std::array<Format, 3> outputs{fp32, bf16, fp16};
    Refusals all;
    for (int run = 0; run < runs; ++run) {
        const std::size_t m = least + random() % (most - least + 1), n = least + random() % (most - least + 1),
                          k = 1 + static_cast<std::size_t>(std::exp2(std::uniform_real_distribution<double>(
                                      0, std::log2(static_cast<double>(max_k)))(random)));
        const std::size_t way = random() % (orders.size() + 1 + units.size());
        const bool is_unit = way > orders.size();
        ProductCheck c;
        Format a = formats[random() % formats.size()], b = a;
        MatmulRule rule{};
        if (is_unit) {
            c.machine = units[way - orders.size() - 1];
            rule = parse_machine(c.machine).rule;
            while (!rule.machine->operands.contains(a)) a = formats[random() % formats.size()];
            b = a;
            // Slices begin at multiples of 64. This is a multiple of the instruction's number of terms for every unit
            // used here.
            if (c.machine != "sm89.mma.fp8" && random() % 3 == 0) {
                rule.slices = 1 + static_cast<int>(random() % 4);
                c.machine += rule.slices > 1 ? "+slices" + std::to_string(rule.slices) : "";
                rule = parse_machine(c.machine).rule;
            }
        }
        c.g = machine_gemm(m, n, k, a, b, static_cast<Draw>(run % draws), random);
        c.out = outputs[random() % outputs.size()];
        if (random() % 2) c.bias = normal(n, random);
        if (random() % 2) {
            c.a_scale = normal(random() % 2 ? m : 1, random, 1, 0.1f);
            c.b_scale = normal(random() % 2 ? n : 1, random, 1, 0.1f);
        }
        const Floats sums = is_unit ? c.g.run(rule) : sums_in_order(c.g, way == orders.size() ? nullptr : &orders[way]);
        const Floats out = c.stored(c.epilogue(sums, random() % 2));
        const check::Posed posed = check::pose(c.declaration(), c.arrays(out), pool());
        const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
        if (limits.declined >= 0) continue;
        const check::Judgement j = check::judge(limits, posed.out);
        std::string what;
        for (const check::Reason& reason : j.reasons) what += reason.code + " " + std::to_string(reason.ratio) + " ";
        CAPTURE(run, way, c.machine, m, n, k, a.bits, c.out.bits, run % draws, what);
        CHECK(what.empty());
        all.add(j);
    }
    std::printf("%d legal products of %zu to %zu rows: T0 %d, T1 %d, T2 %d, T3 %d refused; rho %.4f, z %.2f\n",
                all.runs, least, most, all.specials, all.certain, all.probable, all.squares, all.rho, all.z);
    return all;
}

}  // namespace

TEST_CASE("no legal product is refused: 700 small products and 40 larger ones", "[check][population]") {
    const Refusals small = judged(700, 20260101, 4, 16, 1448), large = judged(40, 4242, 48, 48, 724);
    CHECK(small.runs > 690);
    CHECK(large.runs == 40);
    CHECK(small.rho > 0.99);  // some roundings almost attain their bound
}
TEST_CASE("no legal product is refused: 10000 small products and 1000 larger ones", "[check][population][slow]") {
    const Refusals small = judged(10000, 20260101, 4, 16, 1448), large = judged(1000, 4242, 48, 48, 724);
    CHECK(small.runs > 9900);
    CHECK(large.runs > 990);
}

// This test takes hours. scripts/nightly runs it with another seed every night.
TEST_CASE("none of a million legal products is refused; the seed changes every night", "[.][nightly]") {
    const auto number = [](const char* name, int otherwise) {
        const char* const text = std::getenv(name);
        return text == nullptr ? otherwise : std::stoi(text);
    };
    const int products = number("MACHEPS_NIGHTLY_PRODUCTS", 1'000'000), seed = number("MACHEPS_NIGHTLY_SEED", 1);
    constexpr int together = 10'000;  // products for each seed; a failure can be reproduced within a minute
    std::int64_t runs = 0;
    for (int done = 0; done < products; done += together) {
        const unsigned part = static_cast<unsigned>(seed) * 1000u + static_cast<unsigned>(done / together);
        CAPTURE(part);
        runs += judged(std::min(together, products - done), part, 4, 16, 1448).runs;
    }
    CHECK(runs >= products / 100 * 99);
}

}  // namespace gemm_population_test
