// SPDX-License-Identifier: Apache-2.0
// Tests checks of row kernels for which exact bits are declared: fp32 arithmetic in a declared order of summation, with
// correctly rounded functions. Plain float loops must have these bits. Wrong kernels must differ in about as many
// outputs as the acceptance table (published results for wrong kernels) says.
#include "tests/check/row_kernels.hpp"

#include <bit>
#include <cstdio>

namespace row_bits_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

// --- orders of summation, as people write them

float fold(Floats s) {
    for (std::size_t half = s.size() / 2; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) s[i] += s[i + half];
    }
    return s[0];
}
/// Adds neighbours until one sum is left. A last element without a neighbour is kept for the next round.
float pairs(Floats x) {
    while (x.size() > 1) {
        Floats next;
        for (std::size_t i = 0; i + 1 < x.size(); i += 2) next.push_back(x[i] + x[i + 1]);
        if (x.size() % 2 == 1) next.push_back(x.back());
        x = next;
    }
    return x.front();
}
float by_lanes(const Floats& x, std::size_t width) {
    Floats s(width);
    for (std::size_t i = 0; i < x.size(); ++i) s[i % width] += x[i];
    return fold(s);
}
float by_blocks(const Floats& x, std::size_t width) {
    Floats s((x.size() + width - 1) / width);
    for (std::size_t i = 0; i < x.size(); ++i) s[i / width] += x[i];
    return pairs(s);
}
float by_kahan(const Floats& x) {
    float s = 0, lost = 0;
    for (const float t : x) {
        const float y = t - lost, next = s + y;
        lost = (next - s) - y;
        s = next;
    }
    return s;
}
const kernels::Order orders[] = {
    {"lanes32", [](const Floats& x) { return by_lanes(x, 32); }},
    {"lanes8", [](const Floats& x) { return by_lanes(x, 8); }},
    {"pairwise", pairs},
    {"blocks16", [](const Floats& x) { return by_blocks(x, 16); }},
    {"kahan", by_kahan},
};

Kernel stepwise(std::mt19937& random, const kernels::Order& order) {
    return {.order = order, .f = {.random = &random, .is_exact = true}, .fuses = false};
}

/// Returns the case with exact bits declared. If the operation has a sum, `order` is declared as well.
RowCase claimed(RowCase c, const std::string& order) {
    c.declaration.bits = true;
    c.declaration.functions = "exact";
    if (c.declaration.operation->has_reduction) c.declaration.sum_order = order;
    return c;
}

std::int64_t differing(const std::string& op, const RowCase& c, const Kernel& k) {
    const check::Verdict v = judge_arrays(c.declaration, stored_case(op, c, k));
    REQUIRE(v.bits);
    CHECK(v.bits->equal + v.bits->differ == static_cast<std::int64_t>(v.limits->exact.size()));
    CHECK((codes(v).find("KC040") != std::string::npos) == (v.bits->differ > 0));
    return v.bits->differ;
}

}  // namespace

TEST_CASE("row kernels that sum in the declared order have the declared bits", "[check][bits]") {
    for (const std::string& op : row_operations()) {
        if (op == "argmax") continue;
        for (const kernels::Order& order : orders) {
            for (const Store store : {Store::fp32, Store::bf16}) {
                std::mt19937 random(41);
                const RowCase c = claimed(row_case(op, random, 20, 301, Store::fp32, store, 0, 2), order.name);
                const Kernel k = stepwise(random, order);
                CAPTURE(op, order.name, static_cast<int>(store));
                CHECK(differing(op, c, k) == 0);
                if (!c.declaration.operation->has_reduction) break;
            }
            if (!check::find_operation(op).has_reduction) break;
        }
    }
}

TEST_CASE("if bits are declared for a row kernel, a changed bit, another order and fused steps are detected",
          "[check][bits]") {
    std::mt19937 random(5);
    const RowCase c = claimed(row_case("softmax", random, 8, 500, Store::fp32, Store::bf16, 0, 2), "lanes32");
    const Kernel k = stepwise(random, orders[0]);
    std::vector<StoredArray> arrays = stored_case("softmax", c, k);
    arrays.back().bytes[2 * 77] = static_cast<char>(arrays.back().bytes[2 * 77] ^ 1);
    const check::Verdict one = judge_arrays(c.declaration, arrays);
    REQUIRE(one.bits);
    CHECK(one.bits->differ == 1);
    CHECK(one.bits->first == 77);
    REQUIRE(one.reasons.size() >= 1);
    CHECK(one.reasons.back().code == "KC040");
    CHECK(one.reasons.back().text.find("the bits of fp32 with sums in lanes32 order") != std::string::npos);
    // One different bit is enough to fail.
    CHECK(one.outcome == Outcome::fail);
    Kernel other = k;
    other.order = orders[2];
    const RowCase wide = claimed(row_case("sum", random, 40, 1000, Store::fp32, Store::fp32, 1), "lanes32");
    CHECK(differing("sum", wide, other) > 10);
    Kernel fused = k;
    fused.fuses = true;
    const RowCase norm = claimed(row_case("layernorm", random, 16, 200, Store::fp32, Store::fp32), "lanes32");
    CHECK(differing("layernorm", norm, fused) > 100);
    CHECK(differing("layernorm", norm, k) == 0);
    // The check also simulates wrong kernels if bits are declared.
    CHECK(one.mutants.size() > 5);
}

TEST_CASE("bits can be declared for a loss over all rows and for kernels with rounded intermediate results",
          "[check][bits]") {
    for (const check::Reduction reduction : {check::Reduction::mean, check::Reduction::sum}) {
        std::mt19937 random(8);
        RowCase c = row_case("cross_entropy", random, 50, 200, Store::bf16, Store::fp32, 0, 3);
        c.declaration.reduction = reduction;
        c.out_shape = {};
        CHECK(differing("cross_entropy", claimed(c, "lanes32"), stepwise(random, orders[0])) == 0);
    }
    for (const std::string op : {"rmsnorm", "swiglu", "rope"}) {
        std::mt19937 random(9);
        RowCase c = row_case(op, random, 16, 200, Store::fp32, Store::fp32);
        c.declaration.inner = bf16;
        Kernel k = stepwise(random, orders[0]);
        k.fault.narrow_inner = true;
        CAPTURE(op);
        CHECK(differing(op, claimed(c, "lanes32"), k) == 0);
    }
}

TEST_CASE("a declaration of bits for a row kernel is declined if it does not determine the bits", "[check][bits]") {
    std::mt19937 random(3);
    const auto declined = [&](const std::string& op, auto change) {
        RowCase c = claimed(row_case(op, random, 4, 64, Store::fp32, Store::fp32), "lanes32");
        change(c.declaration);
        std::string said;
        try {
            judge_arrays(c.declaration, stored_case(op, c, stepwise(random, orders[0])));
        } catch (const check::Declined& error) {
            said = error.what();
        }
        return said;
    };
    using D = check::Declaration&;
    CHECK(declined("sum", [](D d) { d.sum_order = "any"; }).find("order in which a row is summed") !=
          std::string::npos);
    CHECK(declined("sum", [](D d) { d.sum_order = "bf16.lanes32"; }).find("narrow sum") != std::string::npos);
    CHECK(declined("sum", [](D d) { d.sum_order = "lanes24"; }).find("power of two") != std::string::npos);
    CHECK(declined("softmax", [](D d) { d.functions = "cuda"; }).find("exp is within 2 ulp") != std::string::npos);
    CHECK(declined("mean", [](D d) { d.functions = "cuda.fast"; }).find("div is within 2 ulp") != std::string::npos);
    CHECK(declined("softmax", [](D d) { d.block = 16; }).find("in blocks") != std::string::npos);
    CHECK(declined("layernorm", [](D d) { d.has_one_pass_variance = true; }).find("two_pass") != std::string::npos);
    CHECK(declined("argmax", [](D) {}).find("index of the largest") != std::string::npos);
    CHECK(declined("gelu", [](D d) { d.rounding = Round::stochastic; }).find("stochastic") != std::string::npos);
    CHECK(declined("relu", [](D d) { d.functions = "cuda"; }).empty());  // relu calls no function
}

namespace {

/// Computes the sum of the wrong kernel r20: 32 lanes, with every partial sum rounded to bf16.
float by_narrow_lanes(const Floats& x) {
    Floats s(32);
    for (std::size_t i = 0; i < x.size(); ++i) s[i % 32] = kernels::to_bf16(s[i % 32] + x[i]);
    for (std::size_t half = 16; half > 0; half /= 2) {
        for (std::size_t i = 0; i < half; ++i) s[i] = kernels::to_bf16(s[i] + s[i + half]);
    }
    return s[0];
}
/// A line of the acceptance table. It counts the outputs of a wrong kernel whose codes differ from the declared bits.
struct Counted {
    const char *id, *op;
    std::int64_t rows, columns;
    Store in, out;
    float mean, sigma;
    Fault fault;
    std::int64_t least, most;  ///< the published range over ten seeds
};
const Counted counted[] = {
    {"r20", "softmax", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.narrow_sum = true}, 94795, 111214},
    {"r21", "softmax", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.dropped = 1}, 4239, 8143},
    {"r23", "rmsnorm", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.eps = 1e-6f}, 78, 128},
    {"r24", "rmsnorm", 32, 4096, Store::bf16, Store::bf16, 0, 0x1p-9f, {.eps = 1e-6f}, 131072, 131072},
    {"r25", "rmsnorm", 32, 4096, Store::fp32, Store::fp32, 0, 1, {.less = 1}, 131072, 131072},
    {"r26", "rmsnorm", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.narrow_inner = true}, 29779, 34741},
    {"r27", "layernorm", 32, 1024, Store::fp32, Store::fp32, 100, 1, {.one_pass = true}, 32767, 32768},
    {"e28", "gelu", 32, 1024, Store::bf16, Store::bf16, 0, 1, {.other_form = true}, 7066, 7204},
    {"c34", "cross_entropy", 32, 4096, Store::fp32, Store::fp32, 0, 1, {.less = 1}, 1, 1},
};

void count_bits(unsigned seeds) {
    for (const Counted& row : counted) {
        std::int64_t least = std::int64_t{1} << 40, most = 0;
        for (unsigned seed = 1000; seed < 1000 + seeds; ++seed) {
            std::mt19937 random(seed);
            RowCase c = row_case(row.op, random, row.rows, row.columns, row.in, row.out, row.mean, row.sigma);
            if (row.op == std::string("cross_entropy")) {
                c.declaration.reduction = check::Reduction::mean;
                c.out_shape = {};
            }
            c = claimed(c, "lanes32");
            Kernel k = stepwise(random, orders[0]);
            CAPTURE(row.id, seed);
            CHECK(differing(row.op, c, k) == 0);
            k.fault = row.fault;
            if (row.fault.narrow_sum) {
                k.fault = {};
                k.order = {"bf16 lanes", by_narrow_lanes};
            }
            const std::int64_t count = differing(row.op, c, k);
            least = std::min(least, count);
            most = std::max(most, count);
        }
        std::printf("%s: %lld to %lld codes differ, published %lld to %lld\n", row.id, static_cast<long long>(least),
                    static_cast<long long>(most), static_cast<long long>(row.least), static_cast<long long>(row.most));
        CAPTURE(row.id, least, most);
        // The inputs and gains here are drawn differently from those of the table, so counts may differ by a factor of
        // three.
        CHECK(3 * least >= row.least);
        CHECK(most <= 3 * row.most);
    }
}

}  // namespace

TEST_CASE("for wrong kernels on rows, the number of differing outputs is close to that in the acceptance table",
          "[check][bits]") {
    count_bits(2);
}
TEST_CASE("with ten seeds, the number of differing outputs of wrong kernels on rows is close to that in the table",
          "[check][bits][slow]") {
    count_bits(10);
}

}  // namespace row_bits_test
