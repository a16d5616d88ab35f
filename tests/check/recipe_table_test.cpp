// SPDX-License-Identifier: Apache-2.0
// Compares a published table, which says which recipe reveals which wrong kernel, with wrong kernels that this test
// runs. They have fp16 operands, k = 500 and 64 x 64 outputs, and use the units of sm_80 with fp32 accumulators. Every
// cell is compared for three seeds. power_table_test.cpp does the same with the wrong kernels that checks simulate.
#include "experiments/check/inputs.hpp"
#include "tests/check/product_checks.hpp"
#include "tests/check/recipe_columns.hpp"

#include <algorithm>

namespace recipe_table_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;

namespace {

constexpr std::size_t kernel_m = 64, kernel_n = 64, kernel_k = 500;

/// The operands of a kernel, and the format of its output.
struct Launch {
    MachineGemm g;
    Format out;
    std::uint64_t seed;

    Floats stored(Floats y) const {
        for (float& each : y) each = rounded(out, Round::nearest_even, each);
        return y;
    }
    static float rounded(const Format& format, Round mode, float x) {
        return decode(format, encode(format, x, mode, Overflow::nonsaturate));
    }
    static Floats run(const MachineGemm& g, const char* machine = "sm80.mma.fp16") {
        return g.run(parse_machine(machine).rule);
    }
    Floats right() const { return stored(run(g)); }
};

MachineGemm with_operands(MachineGemm g, float (*function)(float)) {
    for (Floats* x : {&g.a, &g.b}) std::transform(x->begin(), x->end(), x->begin(), function);
    return g;
}

Floats without_last(const Launch& l, std::size_t terms) {
    MachineGemm g = l.g;
    for (std::size_t i = 0; i < kernel_m; ++i) std::fill_n(&g.a[(i + 1) * kernel_k - terms], terms, 0.0f);
    return l.stored(Launch::run(g));
}

/// Returns the sum of four products, each over a quarter of k. Each partial product is rounded to the format
/// `partials`.
Floats split(const Launch& l, const Format& partials) {
    Floats sum(kernel_m * kernel_n);
    for (std::size_t first = 0; first < kernel_k; first += kernel_k / 4) {
        MachineGemm g{.m = kernel_m, .n = kernel_n, .k = kernel_k / 4, .a_format = fp16, .b_format = fp16};
        for (std::size_t i = 0; i < kernel_m; ++i)
            g.a.insert(g.a.end(), &l.g.a[i * kernel_k + first], &l.g.a[i * kernel_k + first] + kernel_k / 4);
        g.b.assign(&l.g.b[first * kernel_n], &l.g.b[first * kernel_n] + kernel_k / 4 * kernel_n);
        const Floats part = Launch::run(g);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += Launch::rounded(partials, Round::nearest_even, part[i]);
    }
    return l.stored(sum);
}

/// Returns the right outputs, except in the tile with rows and columns 16 to 31. There, from(right, i, j) gives the
/// outputs.
template <class From>
Floats moved_tile(const Launch& l, From from) {
    const Floats right = l.right();
    Floats y = right;
    for (std::size_t i = 16; i < 32; ++i) {
        for (std::size_t j = 16; j < 32; ++j) y[i * kernel_n + j] = from(right, i, j);
    }
    return y;
}

struct WrongRun {
    const char* what;
    /// One character for each column, as seen_by() returns it. The character is '/' if the seeds differ, and ' ' if the
    /// bug does not exist for the output format of the column.
    const char* published;
    Floats (*run)(const Launch&);
    /// The expected cells for macheps's own recipes. If they differ from `published`, `why` gives the reason.
    const char* ours = published;
    const char* why = "";
};
const WrongRun runs[] = {
    {"correct", "------------", [](const Launch& l) { return l.right(); }},
    {"correct, split-K 4", "------------", [](const Launch& l) { return split(l, fp32); }},
    {"zeros", "111111111111", [](const Launch&) { return Floats(kernel_m * kernel_n); }},
    {"tile shifted by a column", "111111111111",
     [](const Launch& l) {
         return moved_tile(l, [](const Floats& y, std::size_t i, std::size_t j) { return y[i * kernel_n + j + 1]; });
     }},
    {"tile transposed", "111111111111",
     [](const Launch& l) {
         return moved_tile(l, [](const Floats& y, std::size_t i, std::size_t j) { return y[j * kernel_n + i]; });
     }},
    {"accumulator not cleared", "111111111111",
     [](const Launch& l) {
         // The accumulator still contains the sums of the tile above.
         const Floats sums = Launch::run(l.g);
         Floats y = sums;
         for (std::size_t i = 16; i < 32; ++i) {
             for (std::size_t j = 16; j < 32; ++j) y[i * kernel_n + j] += sums[(i - 16) * kernel_n + j];
         }
         return l.stored(y);
     }},
    {"last k dropped", "111111-11111", [](const Launch& l) { return without_last(l, 1); }, "111111111111",
     "our one-hot rows select the last terms first"},
    {"K mod 16 dropped", "111111-11111", [](const Launch& l) { return without_last(l, kernel_k % 16); }, "111111111111",
     "our one-hot rows select the last terms first"},
    {"fp16 accumulator", "111-1---111-",
     [](const Launch& l) { return l.stored(Launch::run(l.g, "sm80.mma.fp16.acc16")); }, "111-01--1111",
     "our 'resolution' overflows fp16 (seen as infinities), our 'ties' needs more digits than fp16 has, and in our "
     "'specials', rows without NaN or infinity are N(0, 1)"},
    {"split-K 4, bf16 partials", "1111111-1111", [](const Launch& l) { return split(l, bf16); }, "111/111-1111",
     "integers show it only if a partial sum beyond 256 is odd; two of three seeds have one"},
    {"operands through bf16", "111--11-111-",
     [](const Launch& l) { return l.stored(Launch::run(with_operands(l.g, kernels::to_bf16))); }, "111--11-1111",
     "in our 'specials', rows without NaN or infinity are N(0, 1), which bf16 cannot represent"},
    {"one element stale", "11111111/111",
     [](const Launch& l) {
         Floats y = l.right();
         const std::size_t at = 1 + l.seed * 1000003 % (kernel_m * kernel_n - 1);
         y[at] = y[at - 1];
         return y;
     },
     "11111111111/", "in a row of NaN, a stale element is also NaN; it depends on the seed which element is stale"},
    {"row 9 x 1.001", "1/111111-111",
     [](const Launch& l) {
         Floats y = Launch::run(l.g);
         for (std::size_t j = 0; j < kernel_n; ++j) y[9 * kernel_n + j] *= 1.001f;
         return l.stored(y);
     },
     "11111111-111", "the running bound is tighter than the bound that the table was made with"},
    {"subnormals flushed", "----------1-",
     [](const Launch& l) {
         return l.stored(Launch::run(with_operands(l.g, [](float x) { return std::fabs(x) < 0x1p-14f ? 0 : x; })));
     }},
    {"NaN swallowed", "-----------0",
     [](const Launch& l) {
         return l.stored(Launch::run(with_operands(l.g, [](float x) { return std::isnan(x) ? 0 : x; })));
     }},
    {"output truncated", " 1   1      ",
     [](const Launch& l) {
         Floats y = Launch::run(l.g);
         for (float& each : y) each = Launch::rounded(l.out, Round::toward_zero, each);
         return y;
     }},
    {"ties away", " -   1      ",
     [](const Launch& l) {
         Floats y = Launch::run(l.g);
         for (float& each : y) each = Launch::rounded(l.out, Round::nearest_away, each);
         return y;
     }},
};

/// Returns the first kind of test that refuses the kernel: '1' for a test of single outputs, '3' for a test of many
/// outputs together, '0' for the test of NaN and infinities. Returns '-' if the kernel passes.
char seen_by(const Judgement& judgement) {
    bool single = false, together = false, special = false;
    for (const Reason& reason : judgement.reasons) {
        single = single || reason.code == "KC020" || reason.code == "KC021" || reason.code == "KC041";
        together = together || reason.code == "KC030" || reason.code == "KC031" || reason.code == "KC032";
        special = special || reason.code == "KC010";
    }
    return single ? '1' : together ? '3' : special ? '0' : '-';
}

std::vector<double> wide(const Floats& y) { return {y.begin(), y.end()}; }

/// Returns the cells of one column and seed, in the order of `runs`.
std::string cells_of(const Column& column, std::uint64_t seed) {
    const InputPlan plan = parse_plans(std::string("[recipe]\nop = 'gemm'\na = 'fp16'\nb = 'fp16'\n") +
                                           "machine = 'sm80.mma.fp16'\nm = 64\nn = 64\nk = 500\nout = '" + column.out +
                                           "'\nseed = " + std::to_string(seed) + "\n",
                                       "table")
                               .front();
    std::vector<MadeInputs> all = all_inputs(plan);
    const auto inputs =
        std::find_if(all.begin(), all.end(), [&](const MadeInputs& each) { return each.name == column.recipe; });
    REQUIRE(inputs != all.end());
    const std::vector<double>&a = inputs->at("a").values, &b = inputs->at("b").values;
    const Launch launch{.g = {.m = kernel_m,
                              .n = kernel_n,
                              .k = kernel_k,
                              .a_format = fp16,
                              .b_format = fp16,
                              .a = Floats(a.begin(), a.end()),
                              .b = Floats(b.begin(), b.end())},
                        .out = std::string(column.out) == "bf16" ? bf16 : fp32,
                        .seed = seed};
    const Posed posed = pose(inputs->request.declaration, stored_inputs(*inputs), pool());
    const Limits limits = limits_of(posed.problem, 1e-9, pool());
    REQUIRE(limits.declined < 0);
    std::string cells;
    for (const WrongRun& wrong : runs) cells += seen_by(judge(limits, wide(wrong.run(launch))));
    return cells;
}

}  // namespace

TEST_CASE("wrong kernels fail on the recipes that the published table names", "[check][recipes][table]") {
    std::vector<std::string> seen(std::size(runs), std::string(std::size(columns), '?'));
    for (std::size_t c = 0; c < std::size(columns); ++c) {
        std::vector<std::string> by_seed;
        for (const std::uint64_t seed : {7u, 8u, 9u}) by_seed.push_back(cells_of(columns[c], seed));
        for (std::size_t r = 0; r < std::size(runs); ++r) {
            char cell = by_seed[0][r];
            for (const std::string& other : by_seed) {
                if (other[r] != cell) cell = '/';
            }
            seen[r][c] = runs[r].published[c] == ' ' ? ' ' : cell;
        }
    }
    for (std::size_t r = 0; r < std::size(runs); ++r) {
        CAPTURE(runs[r].what, runs[r].published, runs[r].why);
        CHECK(seen[r] == runs[r].ours);
    }
}

}  // namespace recipe_table_test
