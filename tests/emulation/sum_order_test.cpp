// SPDX-License-Identifier: Apache-2.0
// Tests sums in each order of summation. They are compared with a second implementation that computes on codes, with
// machines that add in the same order, and with the error bounds of the orders.
#include "emulation/matmul/sum_order.hpp"

#include "core/arithmetic.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "core/rounding_names.hpp"
#include "core/ulp.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/study/product/gemm.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace sum_order_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;

namespace {

constexpr RngKey stream{3, 0, 9};

/// A second implementation of the orders of summation, on codes of the format, with core/arithmetic.hpp.
struct OnCodes {
    Format f;
    Round mode;
    std::uint64_t element = 0;

    std::uint64_t apply(Operation operation, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
        const RandomBits random{mode == Round::stochastic ? random_bits(stream, element++) : 0, 32};
        return op(operation, f, a, b, c, mode, Overflow::nonsaturate, random).bits;
    }
    std::uint64_t chain(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < a.size(); ++i) sum = apply(Operation::fma, a[i], b[i], sum);
        return sum;
    }
    std::uint64_t pairwise(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
        std::vector<std::uint64_t> terms;
        for (std::size_t i = 0; i < a.size(); ++i) terms.push_back(apply(Operation::mul, a[i], b[i]));
        const std::function<std::uint64_t(std::size_t, std::size_t)> sum = [&](std::size_t from, std::size_t to) {
            if (to - from == 1) return terms[from];
            std::size_t half = 1;
            while (2 * half < to - from) half *= 2;
            const std::uint64_t left = sum(from, from + half), right = sum(from + half, to);
            return apply(Operation::add, left, right);
        };
        return sum(0, terms.size());
    }
    std::uint64_t kahan(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
        std::uint64_t sum = 0, error = 0;
        for (std::size_t i = 0; i < a.size(); ++i) {
            const std::uint64_t p = apply(Operation::mul, a[i], b[i]), y = apply(Operation::sub, p, error),
                                t = apply(Operation::add, sum, y);
            error = apply(Operation::sub, apply(Operation::sub, t, sum), y);
            sum = t;
        }
        return sum;
    }
};

}  // namespace

TEST_CASE("an order of summation in a format rounds every operation as the format's arithmetic does", "[gemm][order]") {
    for (const char* name : {"fp32", "tf32", "fp16", "bf16", "e5m6", "e4m3ieee", "e5m2", "e3m4", "e8m3", "e2m5"}) {
        const Format f = format_named(name);
        for (const RoundName& round : round_names) {
            for (int k : {1, 2, 3, 7, 64, 100}) {
                CAPTURE(name, round.name, k);
                std::vector<std::uint64_t> a, b;
                std::vector<double> products;
                for (int i = 0; i < k; ++i) {
                    const auto draw = [&](int which) {
                        const double x =
                            (random_bits({7, std::uint32_t(k), std::uint32_t(which)}, std::uint64_t(i)) / 0x1p31 - 1) *
                            std::ldexp(1.0, i % 5 - 2);
                        return encode64(f, x, Round::nearest_even, Overflow::saturate);
                    };
                    a.push_back(draw(0)), b.push_back(draw(1));
                    products.push_back(decode64(f, a.back()) * decode64(f, b.back()));
                }
                const std::string spelled = std::string(":") + name + ":" + std::string(round.name);
                for (const char* order : {"chain", "pairwise", "kahan"}) {
                    const SumOrder parsed = *parse_sum_order(order + spelled);
                    OnCodes codes{f, round.value};
                    const std::uint64_t expected = order == std::string("chain")      ? codes.chain(a, b)
                                                   : order == std::string("pairwise") ? codes.pairwise(a, b)
                                                                                      : codes.kahan(a, b);
                    CAPTURE(order);
                    const double sum = parsed.sum(products, stream, 0);
                    if (std::isnan(sum)) {
                        CHECK(is_nan(f, expected));
                    } else {
                        CHECK(encode64(f, sum, Round::nearest_even, Overflow::nonsaturate) == expected);
                    }
                }
            }
        }
    }
}

TEST_CASE("an order of summation gives the same rows of gemm as the machine that adds in this order", "[gemm][order]") {
    CpuBackend backend(1);
    ThreadPool pool(2);
    struct Case {
        const char *order, *machine;
    };
    for (const Case& c :
         {Case{"chain:fp32", "fp32.chain"}, Case{"pairwise:fp32", "fp32.pairwise"}, Case{"kahan:fp32", "fp32.kahan"},
          Case{"exact:fp32", "exact"}, Case{"chain:bf16", "bf16.chain"}, Case{"chain:fp16", "fp16.chain"}}) {
        for (const OperandScaling scaling : {OperandScaling::none, OperandScaling::tensor}) {
            GemmGrid grid{.machines = {parse_machine(c.order), parse_machine(c.machine)},
                          .formats = {{fp16, bf16}, {format_named("e5m6"), e3m4}},
                          .scalings = {scaling},
                          .k = {1, 37, 300}};
            std::vector<GemmRow> rows;
            run_gemm(backend, pool, grid, [&](const GemmRow& row) { rows.push_back(row); });
            REQUIRE(rows.size() == 2 * 2 * 3);
            for (std::size_t i = 0; i < rows.size(); i += 2) {
                CAPTURE(c.order, rows[i].format_a, rows[i].k);
                CHECK(rows[i].output == rows[i + 1].output);
                // If the operands are scaled to bf16's range, products overflow.
                const bool is_nan = std::isnan(rows[i].first) && std::isnan(rows[i + 1].first);
                CHECK((is_nan || rows[i].first == rows[i + 1].first));
                CHECK(rows[i].nonfinite == rows[i + 1].nonfinite);
                CHECK(rows[i].max_error == rows[i + 1].max_error);
                CHECK(rows[i].bias == rows[i + 1].bias);
                CHECK(rows[i].beyond_bound == 0u);
                CHECK(rows[i].evidence == "definition");
            }
        }
    }
}

TEST_CASE("no order of summation exceeds its certain error bound, and stochastic sums have no drift", "[gemm][order]") {
    CpuBackend backend(1);
    ThreadPool pool(2);
    GemmGrid grid{
        .formats = {{bf16, bf16}}, .distributions = {Distribution::normal, Distribution::positive}, .k = {64, 1024}};
    for (const SumOrderRow& order : sum_orders()) {
        for (const char* format : {"fp16", "bf16", "e5m6"}) {
            for (const RoundName& round : round_names)
                grid.machines.push_back(
                    parse_machine(std::string(order.name) + ":" + format + ":" + std::string(round.name)));
        }
    }
    double drift = 0, cut = 0;
    std::uint64_t beyond = 0, probable = 0, outputs = 0;
    run_gemm(backend, pool, grid, [&](const GemmRow& row) {
        beyond += row.beyond_bound.value_or(1);
        probable += row.beyond_probable.value_or(1);
        outputs += row.outputs;
        if (row.k == 1024 && row.distribution == "positive" && row.machine == "chain:bf16:stochastic")
            drift = row.drift;
        if (row.k == 1024 && row.distribution == "positive" && row.machine == "chain:bf16:nearest_even")
            cut = row.drift;
    });
    CHECK(beyond == 0);
    CHECK(probable < outputs / 100);
    CHECK(outputs > 80000);
    CHECK(std::fabs(drift) < 0.02);  // mean relative error of 256 outputs, each of which is below 0.2
    CHECK(cut < -0.2);               // with rounding to nearest, the sum stalls
}

TEST_CASE("an order is spelled ORDER:FORMAT:ROUND, and a misspelt part is refused", "[gemm][order]") {
    const SumOrder order = *parse_sum_order("kahan:e5m6:sr");
    CHECK(order.row->name == "kahan");
    CHECK(format_name(order.format) == "e5m6");
    CHECK(order.round == Round::stochastic);
    CHECK_FALSE(parse_sum_order("fp32.chain"));
    CHECK(parse_machine("pairwise:fp16").result() == fp16);
    CHECK_THROWS_AS(parse_sum_order("chain:bf61"), Error);
    CHECK_THROWS_AS(parse_sum_order("chain:fp64"), Error);
    CHECK_THROWS_AS(parse_sum_order("chain:e8m0fnu"), Error);
    CHECK_THROWS_AS(parse_sum_order("chain:bf16:sideways"), Error);
    CHECK_THROWS_AS(parse_machine("chian:bf16"), Error);
    // The index of the output selects the random words of its sum.
    const SumOrder random = *parse_sum_order("chain:e5m2:stochastic");
    const std::vector<double> terms(200, 0.3);
    CHECK(random.sum(terms, stream, 1) == random.sum(terms, stream, 1));
    CHECK(random.sum(terms, stream, 1) != random.sum(terms, stream, 2));
}

}  // namespace sum_order_test
