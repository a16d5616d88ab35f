// SPDX-License-Identifier: Apache-2.0
// Compares references (the exact results that a check computes) with MPFR at 200 bits, for matrix products with every
// kind of epilogue.
#include "tests/check/big.hpp"
#include "tests/check/product_checks.hpp"

#include <cstdio>

namespace product_reference_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

/// A product with a random epilogue.
struct Epilogue {
    ProductCheck c;
    Floats residual{}, addend{};
    double alpha = 1, beta = 1;
    std::string activation = "none";
};

Epilogue random_epilogue(std::mt19937& random) {
    constexpr std::array<Format, 4> formats{bf16, fp16, e4m3fn, fp32};
    const std::size_t m = 1 + random() % 6, n = 1 + random() % 6, k = 1 + random() % 500;
    const Format format = formats[random() % formats.size()];
    Epilogue e{.c = {.g = machine_gemm(m, n, k, format, format, static_cast<Draw>(random() % draws), random)}};
    if (random() % 2) e.c.bias = normal(n, random);
    if (random() % 2) {
        e.c.a_scale = normal(m, random, 1, 0.1f);
        e.c.b_scale = normal(n, random, 1, 0.1f);
    }
    if (random() % 3 == 0) e.addend = normal(m * n, random), e.beta = 0.75;
    if (random() % 3 == 0) e.residual = normal(m * n, random);
    if (random() % 3 == 0) e.alpha = 1.25;
    constexpr std::array<const char*, 5> activations{"none", "none", "relu", "silu", "gelu"};
    e.activation = activations[random() % activations.size()];
    return e;
}

Big exact_of(const Epilogue& e, std::size_t i, std::size_t j) {
    const MachineGemm& g = e.c.g;
    Big y;
    for (std::size_t p = 0; p < g.k; ++p) y = y + Big(g.a[i * g.k + p]) * Big(g.b[p * g.n + j]);
    if (!e.c.a_scale.empty()) y = y * Big(e.c.a_scale[i]) * Big(e.c.b_scale[j]);
    y = y * Big(e.alpha);
    if (!e.c.bias.empty()) y = y + Big(e.c.bias[j]);
    if (!e.addend.empty()) y = y + Big(e.addend[i * g.n + j]) * Big(e.beta);
    if (e.activation == "relu" && y < Big(0)) y = Big(0);
    if (e.activation == "silu") y = y / (Big(1) + exp(-y));
    if (e.activation == "gelu") y = y * (Big(1) + erf(y / sqrt(Big(2)))) / Big(2);
    if (!e.residual.empty()) y = y + Big(e.residual[i * g.n + j]);
    return y;
}

void compare_products(int cases, unsigned seed) {
    std::mt19937 random(seed);
    const check::Defect none{};
    int judged = 0;
    double most = 0, worst = 0;
    while (judged < cases) {
        const Epilogue e = random_epilogue(random);
        check::Declaration d = e.c.declaration();
        d.alpha = e.alpha;
        d.beta = e.beta;
        d.activation = e.activation;
        const auto m = static_cast<std::int64_t>(e.c.g.m), n = static_cast<std::int64_t>(e.c.g.n);
        std::vector<StoredArray> arrays = e.c.arrays(Floats(e.c.g.m * e.c.g.n));
        if (!e.addend.empty()) arrays.push_back(array("c", {m, n}, e.addend));
        if (!e.residual.empty()) arrays.push_back(array("residual", {m, n}, e.residual));
        const check::Posed posed = check::pose(d, arrays, pool());
        const check::Limits limits = check::limits_of(posed.problem, 1e-9, pool());
        if (limits.declined >= 0) continue;
        // A certificate is an error bound for a reference. It covers the fp64 sum and the steps after the sum.
        check::Listing listing{.declaration = posed.problem.declaration,
                               .inputs = posed.problem.inputs,
                               .defect = none,
                               .columns = posed.problem.columns};
        d.operation->list(listing);
        check::Columns<check::Wide> values;
        check::Columns<double> certificates;
        std::vector<check::ProductSum> sums;
        for (std::int64_t r = 0; r < m; ++r) {
            posed.problem.products->row(r, 0, sums);
            const check::Row row{
                .row = r, .columns = n, .count = n, .inputs = &posed.problem.inputs, .products = &sums};
            check::reference(listing.nodes.list(), row, values);
            check::bound(listing.nodes.list(), row, values, check::reference_arithmetic(), certificates);
            for (std::int64_t j = 0; j < n; ++j, ++judged) {
                const auto at = static_cast<std::size_t>(j);
                const check::Wide y = values.back()[at];
                const double error =
                    std::fabs((exact_of(e, static_cast<std::size_t>(r), at) - Big(y.high) - Big(y.low)).value());
                const double certificate = certificates.back()[at],
                             bound = limits.before[static_cast<std::size_t>(r * n + j)];
                CAPTURE(r, j, y.high, error, certificate, e.activation, e.c.g.k);
                CHECK(error <= certificate);
                if (certificate > 0) most = std::max(most, error / certificate);
                if (bound > 0) worst = std::max(worst, certificate / bound);
            }
        }
    }
    std::printf("%d products: error at most %.3f certificates, certificates at most %.1e of a bound\n", judged, most,
                worst);
    // If a certificate were a quarter of the bound or more, a check would compute the output again with exact integers.
    CHECK(worst < 0.25);
}

}  // namespace

TEST_CASE("references of products differ from MPFR by at most their certified error", "[check]") {
    compare_products(500, 300);
}
TEST_CASE("references of ten thousand products differ from MPFR by at most their certified error", "[check][slow]") {
    compare_products(10000, 301);
}

}  // namespace product_reference_test
