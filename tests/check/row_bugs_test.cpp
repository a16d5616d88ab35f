// SPDX-License-Identifier: Apache-2.0
// Tests row kernels with bugs. The acceptance table is a published list of bugs and of the verdicts that kernels with
// these bugs must get. Each kernel must get the listed verdict with every seed. Also tests the wrong kernels that
// checks simulate for each operation, and kernels with declared shortcuts.
#include "tests/check/row_kernels.hpp"

namespace row_bugs_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

Kernel lanes32(std::mt19937& random) {
    Kernel k = random_kernel(random);
    k.order = kernels::orders()[4];
    k.f.is_one_sided = false;
    return k;
}

check::Verdict verdict_of(const std::string& op, const RowCase& c, const Kernel& k) {
    return judge_arrays(c.declaration, stored_case(op, c, k));
}

struct Bug {
    const char *id, *op, *what;
    std::int64_t rows, columns;
    Store in, out;
    float mean, sigma;
    Fault fault;
    Outcome expected = Outcome::fail;
    const char* code = "KC020";
};

const Bug bugs[] = {
    {"r20", "softmax", "sum accumulated in bf16", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.narrow_sum = true}},
    {"r21", "softmax", "last element left out of the sum", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.dropped = 1}},
    {"r23",
     "rmsnorm",
     "eps 1e-6 for 1e-5, rms ~ 1",
     32,
     4096,
     Store::bf16,
     Store::bf16,
     0,
     1,
     {.eps = 1e-6f},
     Outcome::weak,
     "KC050"},
    {"r24", "rmsnorm", "eps 1e-6 for 1e-5, rms ~ 2^-9", 32, 4096, Store::bf16, Store::bf16, 0, 0x1p-9f, {.eps = 1e-6f}},
    {"r25",
     "rmsnorm",
     "divides by n - 1",
     32,
     4096,
     Store::fp32,
     Store::fp32,
     0,
     1,
     {.less = 1},
     Outcome::fail,
     "KC021"},
    {"r26",
     "rmsnorm",
     "rounded to bf16 before the gain",
     32,
     4096,
     Store::bf16,
     Store::bf16,
     0,
     1,
     {.narrow_inner = true}},
    {"r27",
     "layernorm",
     "E[x^2] - E[x]^2 at mean 100",
     32,
     4096,
     Store::fp32,
     Store::fp32,
     100,
     1,
     {.one_pass = true},
     Outcome::fail,
     "KC02"},
    {"e28", "gelu", "tanh form for erf", 32, 4096, Store::bf16, Store::bf16, 0, 1, {.other_form = true}},
    {"c34", "cross_entropy", "mean over N - 1", 32, 4096, Store::fp32, Store::fp32, 0, 1, {.less = 1}},
};

/// Returns the e4m3fn code of x, computed in fp64: rounds to nearest, with ties to even or away, and saturates.
std::uint8_t to_e4m3(float x, bool is_away, bool flushes) {
    const double size = std::min(448.0, std::fabs(static_cast<double>(x)));
    const int exponent = std::max(size == 0 ? -6 : std::ilogb(size), -6);
    const double unit = std::ldexp(1.0, exponent - 3), steps = size / unit, down = std::floor(steps),
                 part = steps - down;
    double rounded = part > 0.5 || (part == 0.5 && (is_away || std::fmod(down, 2) == 1)) ? down + 1 : down;
    if (flushes && size < 0x1p-6) rounded = 0;
    const double y = std::min(rounded * unit, 448.0);
    const int top = y < 0x1p-6 ? -6 : std::ilogb(y);
    const int code = y < 0x1p-6 ? static_cast<int>(y / 0x1p-9)
                                : ((top + 7) << 3) + static_cast<int>(y / std::ldexp(1.0, top - 3)) - 8;
    return static_cast<std::uint8_t>(code | (std::signbit(x) ? 0x80 : 0));
}

/// Judges a row-wise quantiser with scales that are powers of two, as in torchao.
check::Verdict quantised(unsigned seed, bool is_away, bool flushes, float sigma = 1) {
    std::mt19937 random(seed);
    const Floats x = normal(64 * 512, random, 0, sigma, Store::bf16);
    Floats scales;
    StoredArray out{.name = "out", .where = "test", .type = "|u1", .width = 1, .shape = {64, 512}};
    for (std::size_t r = 0; r < 64; ++r) {
        float amax = 0;
        for (std::size_t c = 0; c < 512; ++c) amax = std::max(amax, std::fabs(x[r * 512 + c]));
        const auto scale = static_cast<float>(std::exp2(std::floor(std::log2(448.0 / static_cast<double>(amax)))));
        scales.push_back(1 / scale);
        for (std::size_t c = 0; c < 512; ++c)
            out.bytes += static_cast<char>(to_e4m3(x[r * 512 + c] * scale, is_away, flushes));
    }
    check::Declaration d = declare("quantize", Store::fp32, Store::bf16);
    d.formats["out"] = {e4m3fn, false};
    d.granularity = "row";
    d.scale_rule = "ao_fp8_power";
    return judge_arrays(d, {array("x", {64, 512}, x, Store::bf16), array("scale", {64}, scales), out});
}

void judge_bugs(unsigned seeds) {
    for (unsigned seed = 1000; seed < 1000 + seeds; ++seed) {
        for (const Bug& bug : bugs) {
            std::mt19937 random(seed);
            RowCase c = row_case(bug.op, random, bug.rows, bug.columns, bug.in, bug.out, bug.mean, bug.sigma);
            if (bug.op == std::string("cross_entropy")) {
                c.declaration.reduction = check::Reduction::mean;
                c.declaration.ignored = -100;
                c.out_shape = {};
            }
            Kernel k = lanes32(random);
            // A chain has the largest errors, so a one-pass variance that is summed by a chain is detected most easily.
            if (bug.fault.one_pass) k.order = kernels::orders()[0];
            const check::Verdict right = verdict_of(bug.op, c, k);
            k.fault = bug.fault;
            const check::Verdict wrong = verdict_of(bug.op, c, k);
            CAPTURE(bug.id, bug.what, seed, wrong.judgement.rho, codes(wrong), codes(right));
            CHECK(is_accepted(right));
            CHECK(wrong.outcome == bug.expected);
            CHECK(codes(wrong).find(bug.code) != std::string::npos);
        }
        CAPTURE(seed);
        CHECK(is_accepted(quantised(seed, false, false)));
        for (const check::Verdict& wrong : {quantised(seed, true, false), quantised(seed, false, true)}) {
            CHECK(wrong.outcome == Outcome::fail);
            CHECK(codes(wrong).find("KC041") != std::string::npos);
        }
    }
}

}  // namespace

TEST_CASE("row kernels with bugs get the verdicts of the acceptance table", "[check]") { judge_bugs(1); }
TEST_CASE("row kernels with bugs get the verdicts of the acceptance table with ten seeds", "[check][slow]") {
    judge_bugs(10);
}

TEST_CASE("a softmax that swallows a NaN fails", "[check]") {
    std::mt19937 random(39);
    RowCase c = row_case("softmax", random, 8, 100, Store::fp32, Store::bf16);
    Floats clean = c.x;
    c.x[350] = std::nanf("");
    const Kernel k = lanes32(random);
    RowCase swallowed = c;
    swallowed.x = clean;
    const std::vector<StoredArray> wrong = stored_case("softmax", swallowed, k);
    const check::Verdict v = judge_arrays(c.declaration, {array("x", {8, 100}, c.x), wrong.back()});
    REQUIRE(v.outcome == Outcome::fail);
    CHECK(v.reasons.front().code == "KC010");
    CHECK(v.reasons.front().count == 100);
}

TEST_CASE("a wrong kernel fails, and the check of the correct kernel states that it would have caught the wrong one",
          "[check]") {
    struct Case {
        const char *op, *mutant;
        Store out;
        Fault fault;
    };
    for (const Case& row : {
             Case{"max", "the extreme at the other end", Store::fp32, {.other_form = true}},
             Case{"min", "the extreme at the other end", Store::fp32, {.other_form = true}},
             Case{"amax", "signs kept", Store::fp32, {.other_form = true}},
             Case{"argmax", "the extreme at the other end", Store::fp32, {.other_form = true}},
             Case{"gelu", "tanh form for erf", Store::bf16, {.other_form = true}},
             Case{"gelu_tanh", "erf for the tanh form", Store::fp16, {.other_form = true}},
             Case{"swiglu", "gate and up exchanged", Store::bf16, {.exchanged = true}},
             Case{"geglu", "tanh form for erf", Store::bf16, {.other_form = true}},
             Case{"geglu_tanh", "gate and up exchanged", Store::bf16, {.exchanged = true}},
             Case{"rope", "the other layout of pairs", Store::bf16, {.other_form = true}},
             Case{"embedding", "index + 1", Store::bf16, {.index = true}},
             Case{"cross_entropy", "target + 1", Store::fp32, {.index = true}},
             Case{"cross_entropy", "mean over N - 1", Store::fp32, {.less = 1}},
             Case{"cross_entropy", "ignored rows counted", Store::fp32, {.counts_ignored = true}},
             Case{"swiglu", "activation rounded to bf16 before it meets up", Store::fp32, {.narrow_inner = true}},
             Case{"rope", "products rounded to bf16 before their sum", Store::fp32, {.narrow_inner = true}},
             Case{"layernorm", "rounded to bf16 before the gain", Store::bf16, {.narrow_inner = true}},
             Case{"logsumexp", "last term dropped", Store::fp32, {.dropped = 1}},
             Case{"norm2", "sum in bf16", Store::fp32, {.narrow_sum = true}},
         }) {
        for (unsigned seed = 1; seed < 4; ++seed) {
            std::mt19937 random(seed);
            RowCase c = row_case(row.op, random, 33, 130, Store::fp32, row.out);
            if (row.op == std::string("cross_entropy")) {
                c.declaration.reduction = check::Reduction::mean;
                c.declaration.ignored = -100;
                c.indices[5] = -100;
                c.arrays.back() = integers("target", {33}, c.indices);
                c.out_shape = {};
            }
            Kernel k = lanes32(random);
            const check::Verdict right = verdict_of(row.op, c, k);
            CAPTURE(row.op, row.mutant, seed, codes(right));
            CHECK(is_accepted(right));
            const auto mutant = std::find_if(right.mutants.begin(), right.mutants.end(),
                                             [&](const check::Mutant& m) { return m.name == row.mutant; });
            REQUIRE(mutant != right.mutants.end());
            CHECK(mutant->caught);
            k.fault = row.fault;
            CHECK(verdict_of(row.op, c, k).outcome == Outcome::fail);
        }
    }
}

TEST_CASE("kernels with a shortcut fail unless the shortcut is declared", "[check]") {
    struct Case {
        const char* op;
        Fault fault;
        void (*declare)(check::Declaration&);
        Store out;
        float mean;
        std::int64_t columns = 1024;
    };
    // Longer sums in bf16 and one-pass variances of numbers with a larger mean have no certain bound. Checks of them
    // are declined.
    for (const Case& row : {
             Case{"softmax",
                  {.narrow_sum = true},
                  [](check::Declaration& d) { d.sum_order = "bf16"; },
                  Store::fp32,
                  0,
                  50},
             Case{"rmsnorm", {.narrow_inner = true}, [](check::Declaration& d) { d.inner = bf16; }, Store::bf16, 0},
             Case{"swiglu", {.narrow_inner = true}, [](check::Declaration& d) { d.inner = bf16; }, Store::fp32, 0},
             Case{"rope", {.narrow_inner = true}, [](check::Declaration& d) { d.inner = bf16; }, Store::fp32, 0},
             Case{"layernorm",
                  {.one_pass = true},
                  [](check::Declaration& d) { d.has_one_pass_variance = true; },
                  Store::fp32,
                  100,
                  128},
             Case{"gelu",
                  {.truncates = true},
                  [](check::Declaration& d) { d.rounding = Round::toward_zero; },
                  Store::bf16,
                  0},
         }) {
        for (unsigned seed = 5; seed < 8; ++seed) {
            std::mt19937 random(seed);
            RowCase c = row_case(row.op, random, 16, row.columns, Store::fp32, row.out, row.mean);
            Kernel k = lanes32(random);
            if (row.fault.one_pass) k.order = kernels::orders()[0];
            k.fault = row.fault;
            CAPTURE(row.op, seed);
            CHECK(verdict_of(row.op, c, k).outcome == Outcome::fail);
            row.declare(c.declaration);
            const check::Verdict declared = verdict_of(row.op, c, k);
            CAPTURE(codes(declared), declared.judgement.rho, declared.judgement.z);
            CHECK(is_accepted(declared));
        }
    }
}

TEST_CASE("a declared order of summation tightens the limits, and declared approximate functions widen them",
          "[check]") {
    std::mt19937 random(64);
    RowCase c = row_case("sum", random, 40, 1000, Store::fp32, Store::fp32, 5);
    Kernel chain = lanes32(random), tree = chain;
    chain.order = kernels::orders()[0];
    tree.order = kernels::orders()[2];
    c.declaration.sum_order = "pairwise";
    CHECK(is_accepted(verdict_of("sum", c, tree)));
    CHECK(verdict_of("sum", c, chain).outcome == Outcome::fail);
    // tanh.approx has errors up to 2^-11, which are legal if they are declared.
    c = row_case("tanh", random, 8, 500, Store::fp32, Store::fp32);
    std::vector<StoredArray> arrays = c.arrays;
    Floats approximate;
    for (const float x : c.x) approximate.push_back(std::tanh(x) * (1 + 0x1p-12f));
    arrays.push_back(array("out", {8, 500}, approximate));
    CHECK(judge_arrays(c.declaration, arrays).outcome == Outcome::fail);
    for (const char* functions : {"cuda.fast", "exact,tanh=5000"}) {
        c.declaration.functions = functions;
        CHECK(is_accepted(judge_arrays(c.declaration, arrays)));
    }
}

TEST_CASE("online and unshifted softmaxes are accepted if they are declared", "[check]") {
    std::mt19937 random(99);
    const Jitter f{&random, true};
    for (int trial = 0; trial < 20; ++trial) {
        RowCase c = row_case("softmax", random, 6, 300, Store::fp32, Store::fp32, 0, 4);
        Floats online, plain;
        for (std::size_t r = 0; r < 6; ++r) {
            float most = -INFINITY, sum = 0, whole = 0;
            for (std::size_t begin = 0; begin < 300; begin += 16) {
                const std::size_t end = std::min<std::size_t>(begin + 16, 300);
                float block = most;
                for (std::size_t i = begin; i < end; ++i) block = std::max(block, c.x[r * 300 + i]);
                sum *= f.exp(most - block);
                most = block;
                for (std::size_t i = begin; i < end; ++i) sum += f.exp(c.x[r * 300 + i] - most);
            }
            for (std::size_t i = 0; i < 300; ++i) online.push_back(f.exp(c.x[r * 300 + i] - most) / sum);
            for (std::size_t i = 0; i < 300; ++i) whole += f.exp(c.x[r * 300 + i]);
            for (std::size_t i = 0; i < 300; ++i) plain.push_back(f.exp(c.x[r * 300 + i]) * (1 / whole));
        }
        const auto verdict = [&](const Floats& out) {
            return judge_arrays(c.declaration, {c.arrays[0], array("out", c.out_shape, out)});
        };
        c.declaration.block = 16;
        CAPTURE(trial);
        CHECK(is_accepted(verdict(online)));
        c.declaration.block = 0;
        c.declaration.subtracts_max = false;
        CHECK(is_accepted(verdict(plain)));
    }
    // If the maximum is not subtracted, e^x overflows. NaN is then a legal output, and the check is weak.
    RowCase c = row_case("softmax", random, 2, 10, Store::fp32, Store::fp32, 100);
    c.declaration.subtracts_max = false;
    CHECK(verdict_of("softmax", c, lanes32(random)).outcome == Outcome::weak);
}

TEST_CASE("normally distributed data reveals every wrong kernel that a check must catch, except a wrong eps",
          "[check]") {
    for (const std::string& op : row_operations()) {
        for (const Store store : {Store::fp32, Store::bf16}) {
            std::mt19937 random(33);
            RowCase c = row_case(op, random, 33, 130, Store::fp32, store);
            if (op == "cross_entropy") {
                c.declaration.reduction = check::Reduction::none;
                c.out_shape = {33};
            }
            // In three rows, the last element is set to the largest or smallest number of the row. Two of these
            // elements are positive, so relu keeps them. With other data, a lost tail may not change any result.
            if (op.find("max") != std::string::npos || op == "min" || op == "relu") {
                c.x[129] = 10, c.x[259] = -10, c.x.back() = 9;
                c.arrays[0] = array("x", {33, 130}, c.x);
            }
            const check::Verdict v = verdict_of(op, c, lanes32(random));
            std::string blind;
            for (const check::Mutant* mutant : v.blind(check::Power::structure)) blind += mutant->name + "; ";
            CAPTURE(op, static_cast<int>(store), blind, codes(v));
            CHECK(is_accepted(v));
            CHECK((blind.empty() || (op.ends_with("norm") && blind == "eps 1e-06 for 1e-05; ")));
        }
    }
}

TEST_CASE("for a long softmax, a tolerance that an output of zeros satisfies is refused", "[check]") {
    // The largest of 32768 probabilities is about 2e-3, so a tolerance of 1e-2, which test suites often use, accepts an
    // output of zeros.
    std::mt19937 random(1000);
    const RowCase c = row_case("softmax", random, 4, 32768, Store::fp32, Store::fp32, 0, 1);
    const std::vector<StoredArray> arrays = stored_case("softmax", c, lanes32(random));
    check::Options loose{.require = check::Power::null}, tight = loose;
    loose.rtol = loose.atol = 1e-2;
    tight.rtol = 1e-4;
    tight.atol = 1e-9;
    CHECK(judge_arrays(c.declaration, arrays, loose).outcome == Outcome::refused);
    CHECK(judge_arrays(c.declaration, arrays, tight).outcome == Outcome::pass);
}

}  // namespace row_bugs_test
