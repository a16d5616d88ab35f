// SPDX-License-Identifier: Apache-2.0
// Tests checks of matrix products with scales that change along k, groups, layouts of arrays, converted operands, split
// sums and activations. Legal kernels must pass, and wrong kernels must fail.
#include "experiments/check/pose/arrange.hpp"
#include "tests/check/product_checks.hpp"

namespace scaled_check_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

std::size_t parts(std::size_t n, std::size_t each) { return (n + each - 1) / each; }

/// Returns `count` random scales of a format.
Floats drawn_scales(std::size_t count, const Format& format, std::mt19937& random) {
    Floats x(count);
    for (float& each : x) {
        const float power = std::ldexp(1.0f, static_cast<int>(random() % 7) - 3);
        each = format == e8m0fnu ? power : rounded_to(format, power * (1 + static_cast<float>(random() % 64) / 64));
    }
    return x;
}

/// A matrix product with block scales. One scale of a covers `block` elements along k in one row. One scale of b covers
/// `block` elements along k in each of `b_outer` columns.
struct Scaled {
    MachineGemm g{};
    std::size_t block = 128, b_outer = 1;
    Format scale = fp32;
    Floats a_scales{}, b_scales{};  ///< shapes: [m, blocks()] and [blocks(), ceil(n / b_outer)]

    std::size_t blocks() const { return parts(g.k, block); }
    Floats expanded_b() const {
        Floats all(blocks() * g.n);
        for (std::size_t c = 0; c < blocks(); ++c) {
            for (std::size_t j = 0; j < g.n; ++j) all[c * g.n + j] = b_scales[c * parts(g.n, b_outer) + j / b_outer];
        }
        return all;
    }
    Floats run(const MatmulRule& rule, const Format& out = fp32) const {
        static CpuBackend backend(1);
        const Floats b_all = expanded_b();
        Floats y(g.m * g.n);
        const auto m = static_cast<std::int64_t>(g.m), n = static_cast<std::int64_t>(g.n),
                   k = static_cast<std::int64_t>(g.k), each = static_cast<std::int64_t>(block);
        Matmul args{.m = m, .n = n, .k = k};
        args.a = {.data = g.a.data(), .ld = k, .format = g.a_format};
        args.a.scales = {
            .data = a_scales.data(), .k_block = each, .outer_stride = (k + each - 1) / each, .k_stride = 1};
        args.b = {.data = g.b.data(), .ld = n, .format = g.b_format};
        args.b.scales = {.data = b_all.data(), .k_block = each, .outer_stride = 1, .k_stride = n};
        args.out = y.data();
        args.ld_out = n;
        args.rule = rule;
        args.out_cast.format = out;
        backend.matmul(args);
        return y;
    }
    check::ProductOperands operands() const {
        check::ProductOperands of = g.operands();
        of.scale_format = scale;
        Floats columns(g.n * blocks());
        const Floats b_all = expanded_b();
        for (std::size_t j = 0; j < g.n; ++j) {
            for (std::size_t c = 0; c < blocks(); ++c) columns[j * blocks() + c] = b_all[c * g.n + j];
        }
        const auto each = static_cast<std::int64_t>(block);
        check::set_block_factors(of, {a_scales.begin(), a_scales.end()}, each, {columns.begin(), columns.end()}, each);
        return of;
    }
};

Scaled scaled(std::size_t m, std::size_t n, std::size_t k, const Format& format, Draw draw, const Format& scale,
              std::size_t block, std::size_t b_outer, std::mt19937& random) {
    Scaled s{
        .g = machine_gemm(m, n, k, format, format, draw, random), .block = block, .b_outer = b_outer, .scale = scale};
    s.a_scales = drawn_scales(m * s.blocks(), scale, random);
    s.b_scales = drawn_scales(parts(n, b_outer) * s.blocks(), scale, random);
    return s;
}

struct Unit {
    const char* name;
    Format operand, scale;
    std::size_t block, b_outer;
};
const Unit scaled_units[] = {
    {"deepgemm.sm90.1d2d", e4m3fn, fp32, 128, 128},     {"deepgemm.sm90.1d1d", e4m3fn, fp32, 128, 1},
    {"cutlass.fp8.blockwise", e4m3fn, fp32, 128, 1},    {"sm100.tcgen05.mxfp8", e4m3fn, e8m0fnu, 32, 1},
    {"sm100.tcgen05.mxf8f6f4", e3m2fn, e8m0fnu, 32, 1}, {"sm100.tcgen05.mxfp4", e2m1fn, e8m0fnu, 32, 1},
    {"sm100.tcgen05.nvfp4", e2m1fn, e4m3fn, 16, 1},     {"sm100.tcgen05.nvfp4.ue8m0", e2m1fn, e8m0fnu, 32, 1},
    {"sm120.mma.mxfp8", e5m2, e8m0fnu, 32, 1},          {"sm120.mma.mxf8f6f4", e2m3fn, e8m0fnu, 32, 1},
    {"sm120.mma.mxfp4", e2m1fn, e8m0fnu, 32, 1},        {"sm120.mma.nvfp4", e2m1fn, e4m3fn, 16, 1},
};
MatmulRule rule(const std::string& name) { return parse_machine(name).rule; }

std::int64_t i64(std::size_t x) { return static_cast<std::int64_t>(x); }

StoredArray integers(const std::string& name, const std::vector<std::int64_t>& values) {
    StoredArray out{.name = name, .where = "test", .type = "<i8", .width = 8, .shape = {i64(values.size())}};
    out.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 8);
    return out;
}

check::Declaration declared(const std::vector<std::pair<const char*, std::string>>& keys) {
    check::Declaration d{.operation = &check::find_operation("gemm")};
    for (const auto& [key, text] : keys) {
        CAPTURE(key, text);
        REQUIRE(check::find_declare_key(key) != nullptr);
        check::declare(d, *check::find_declare_key(key), text, key);
    }
    return d;
}

std::string message(const check::Declaration& d, const std::vector<StoredArray>& arrays) {
    try {
        judge_arrays(d, arrays);
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}

}  // namespace

void judge_scaled_units(int runs) {
    double all = 0;
    for (const Unit& unit : scaled_units) {
        std::mt19937 random(3);
        double most = 0;
        for (int run = 0; run < runs; ++run) {
            const std::size_t m = 1 + random() % 4, n = 1 + random() % 9, k = 1 + random() % 700;
            const Scaled s = scaled(m, n, k, unit.operand, static_cast<Draw>(run % draws), unit.scale, unit.block,
                                    unit.b_outer, random);
            const Floats out = s.run(rule(unit.name));
            const check::Products products(s.operands(), rule(unit.name), pool());
            std::vector<check::ProductSum> sums;
            for (std::size_t i = 0; i < m * n; ++i) {
                if (i % n == 0) products.row(i64(i / n), 0, sums);
                const check::ProductSum& sum = sums[i % n];
                const double off = std::fabs(out[i] - sum.sum.high);
                CAPTURE(unit.name, run, m, n, k, i, out[i], sum.sum.high, sum.certain);
                REQUIRE(off <= sum.certain + sum.certificate);
                REQUIRE(off <= sum.mean + 7.8 * sum.spread + sum.certificate);
                if (off > 0) most = std::max(most, off / sum.certain);
                // The sum that is computed with exact integers agrees with the sum in fp64.
                const check::ProductSum exact = products.exact(i64(i / n), i64(i % n), pool());
                REQUIRE(std::fabs(exact.sum.high - sum.sum.high) <= sum.certificate);
            }
        }
        std::printf("%-24s largest error %.3f of its bound\n", unit.name, most);
        all = std::max(all, most);
    }
    CHECK(all > 0.1);  // the largest ratio of all units; in units for fp4 alone, it is almost 0
}

TEST_CASE("errors of block-scaled sums stay within the bounds of their matrix units", "[check][scaled]") {
    judge_scaled_units(40);
}
TEST_CASE("errors of 1000 block-scaled sums stay within the bounds of each matrix unit", "[check][scaled][slow]") {
    judge_scaled_units(1000);
}

TEST_CASE("block scales are read from their arrays, and a kernel that uses a neighbour's scale fails",
          "[check][scaled]") {
    std::mt19937 random(4);
    const Scaled s = scaled(48, 256, 512, e4m3fn, Draw::normal, fp32, 128, 128, random);
    const auto arrays = [&](const Floats& y, const Floats& a_scales) {
        return std::vector<StoredArray>{coded("a", {48, 512}, s.g.a, e4m3fn), coded("b", {512, 256}, s.g.b, e4m3fn),
                                        coded("out", {48, 256}, y, bf16), array("a_scale", {48, 4}, a_scales),
                                        array("b_scale", {4, 2}, s.b_scales)};
    };
    const check::Declaration d = declared({{"a", "e4m3fn/1x128"},
                                           {"b", "e4m3fn/128x128"},
                                           {"out", "bf16"},
                                           {"machine", "deepgemm.sm90.1d2d"},
                                           {"bits", "true"}});
    const Floats right = s.run(rule("deepgemm.sm90.1d2d"), bf16);
    const check::Verdict v = judge_arrays(d, arrays(right, s.a_scales));
    CAPTURE(codes(v));
    CHECK(v.outcome == Outcome::pass);
    REQUIRE(v.bits);
    CHECK(v.bits->differ == 0);
    Scaled wrong = s;
    std::rotate(wrong.a_scales.begin(), wrong.a_scales.begin() + 1, wrong.a_scales.end());
    CHECK(judge_arrays(d, arrays(wrong.run(rule("deepgemm.sm90.1d2d"), bf16), s.a_scales)).outcome == Outcome::fail);
    // Without a declared machine, a kernel may multiply and sum dequantised operands in fp32.
    check::Declaration any = declared({{"a", "e4m3fn/1x128"}, {"b", "e4m3fn/128x128"}, {"out", "fp32"}});
    MachineGemm plain = s.g;
    const Floats b_all = s.expanded_b();
    for (std::size_t i = 0; i < plain.a.size(); ++i) plain.a[i] *= s.a_scales[i / 128];
    for (std::size_t i = 0; i < plain.b.size(); ++i) plain.b[i] *= b_all[i / 256 / 128 * 256 + i % 256];
    auto stored = arrays(right, s.a_scales);
    stored[2] = coded("out", {48, 256}, plain.run({}), fp32);
    CHECK(judge_arrays(any, stored).outcome == Outcome::pass);
    bool has_mutant = false;
    for (const check::Mutant& mutant : v.mutants)
        has_mutant = has_mutant || mutant.name == "scales of a off by one block";
    CHECK(has_mutant);
    stored = arrays(right, Floats(48 * 5, 1.0f));
    CHECK(message(d, stored).find("3 test (a_scale): the scales have shape [48, 4]") == 0);
    stored[3] = array("a_scale", {48, 3}, Floats(48 * 3, 1.0f));
    CHECK(
        message(d, stored).starts_with("3 test (a_scale): the scales have shape [48, 3], but there are 48 x 4 blocks"));
}

TEST_CASE("microscaled operands may have e8m0 codes, cuBLAS's tiles of scales, and packed transposed fp4",
          "[check][scaled]") {
    std::mt19937 random(5);
    // In cuBLAS's tiles of scales, row 33 is the second row of the second quarter.
    CHECK(check::place_in_128x4(33, 2, 8) == 1 * 16 + 1 * 4 + 2);
    CHECK(check::place_in_128x4(128, 5, 8) == 3 * 512 + 1);
    Scaled s = scaled(40, 24, 320, e4m3fn, Draw::normal, e8m0fnu, 32, 1, random);
    const auto tiled = [](const Floats& scales, std::size_t outer, std::size_t columns, bool is_k_first) {
        Floats out(parts(outer, 128) * parts(columns, 4) * 512, 1.0f);
        for (std::size_t o = 0; o < outer; ++o) {
            for (std::size_t c = 0; c < columns; ++c)
                out[static_cast<std::size_t>(check::place_in_128x4(i64(o), i64(c), i64(columns)))] =
                    scales[is_k_first ? c * outer + o : o * columns + c];
        }
        return out;
    };
    const Floats a_tiles = tiled(s.a_scales, 40, 10, false), b_tiles = tiled(s.b_scales, 24, 10, true);
    check::Declaration d = declared({{"a", "e4m3fn/mx32"},
                                     {"b", "e4m3fn/mx32"},
                                     {"out", "bf16"},
                                     {"machine", "sm100.tcgen05.mxfp8"},
                                     {"scale_layout", "cublas128x4"},
                                     {"bits", "true"}});
    const Floats y = s.run(rule("sm100.tcgen05.mxfp8"), bf16);
    const std::vector<StoredArray> arrays{coded("a", {40, 320}, s.g.a, e4m3fn), coded("b", {320, 24}, s.g.b, e4m3fn),
                                          coded("out", {40, 24}, y, bf16),
                                          coded("a_scale", {i64(a_tiles.size())}, a_tiles, e8m0fnu),
                                          coded("b_scale", {i64(b_tiles.size())}, b_tiles, e8m0fnu)};
    const check::Verdict v = judge_arrays(d, arrays);
    CAPTURE(codes(v));
    CHECK(v.outcome == Outcome::pass);
    CHECK(v.bits->differ == 0);
    d.scale_layout = "linear";
    CHECK(message(d, arrays).find(", but there are 40 x 10 blocks") != std::string::npos);

    // fp4: two codes per byte along k, with b transposed, and an e4m3 scale for each 16 elements.
    Scaled f = scaled(32, 32, 192, e2m1fn, Draw::normal, e4m3fn, 16, 1, random);
    const auto packed = [](const char* name, const Floats& x, std::size_t rows, std::size_t k, bool is_b) {
        StoredArray out{.name = name, .where = "test", .type = "|u1", .width = 1, .shape = {i64(rows), i64(k / 2)}};
        for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t p = 0; p < k; p += 2) {
                unsigned byte = 0;
                for (std::size_t q = 0; q < 2; ++q)
                    byte |= encode(e2m1fn, x[is_b ? (p + q) * rows + r : r * k + p + q], Round::nearest_even,
                                   Overflow::saturate)
                            << (4 * q);
                out.bytes += static_cast<char>(byte);
            }
        }
        return out;
    };
    Floats b_scales(f.b_scales.size());
    for (std::size_t j = 0; j < 32; ++j) {
        for (std::size_t c = 0; c < 12; ++c) b_scales[j * 12 + c] = f.b_scales[c * 32 + j];
    }
    const check::Declaration fp4 = declared({{"a", "e2m1fn/packed/nvfp4"},
                                             {"b", "e2m1fn/packed/nvfp4"},
                                             {"out", "fp32"},
                                             {"b_layout", "nk"},
                                             {"machine", "sm100.tcgen05.nvfp4"},
                                             {"bits", "true"}});
    const check::Verdict four = judge_arrays(
        fp4, {packed("a", f.g.a, 32, 192, false), packed("b", f.g.b, 32, 192, true),
              array("out", {32, 32}, f.run(rule("sm100.tcgen05.nvfp4"))),
              coded("a_scale", {32, 12}, f.a_scales, e4m3fn), coded("b_scale", {32, 12}, b_scales, e4m3fn)});
    CAPTURE(codes(four));
    CHECK(four.outcome == Outcome::pass);
    CHECK(four.bits->differ == 0);
}

TEST_CASE("each group is judged with its own b, and groups may be empty", "[check][scaled]") {
    std::mt19937 random(6);
    const std::vector<std::int64_t> sizes{17, 0, 40, 16}, ends{17, 17, 57, 73}, starts{0, 17, 17, 57, 73};
    const std::size_t k = 96, n = 32;
    Floats a, b, y, wrong;
    for (std::size_t group = 0; group < sizes.size(); ++group) {
        const MachineGemm g =
            machine_gemm(static_cast<std::size_t>(sizes[group]), n, k, bf16, bf16, Draw::normal, random);
        a.insert(a.end(), g.a.begin(), g.a.end());
        b.insert(b.end(), g.b.begin(), g.b.end());
        if (g.m == 0) continue;
        const Floats out = g.run({}, bf16);
        y.insert(y.end(), out.begin(), out.end());
        MachineGemm other = g;
        if (group == 2) std::copy_n(b.begin(), k * n, other.b.begin());
        const Floats bad = other.run({}, bf16);
        wrong.insert(wrong.end(), bad.begin(), bad.end());
    }
    const check::Declaration d = declared({{"a", "bf16"}, {"b", "bf16"}, {"out", "bf16"}});
    const auto arrays = [&](const Floats& out, const char* name, const std::vector<std::int64_t>& numbers) {
        return std::vector<StoredArray>{coded("a", {73, i64(k)}, a, bf16), coded("b", {4, i64(k), i64(n)}, b, bf16),
                                        coded("out", {73, i64(n)}, out, bf16), integers(name, numbers)};
    };
    for (const auto& given : {arrays(y, "groups", sizes), arrays(y, "offsets", ends), arrays(y, "offsets", starts)}) {
        const check::Verdict v = judge_arrays(d, given);
        CAPTURE(codes(v));
        CHECK(v.outcome == Outcome::pass);
        CHECK(v.limits->starts == starts);
    }
    const check::Verdict bad = judge_arrays(d, arrays(wrong, "groups", sizes));
    CHECK(bad.outcome == Outcome::fail);
    CHECK(bad.reasons.front().index / i64(n) >= 17);
    CHECK(bad.reasons.front().index / i64(n) < 57);
    for (const std::vector<std::int64_t>& numbers :
         {std::vector<std::int64_t>{17, 0, 40}, {17, 0, 40, 15}, {17, -1, 41, 16}, {std::int64_t{1} << 62, 0, 40, 16}})
        CHECK(message(d, arrays(y, "groups", numbers)).starts_with("3 "));
    for (const std::vector<std::int64_t>& numbers : {std::vector<std::int64_t>{17, 16, 57, 73}, {1, 17, 17, 57, 73}})
        CHECK(message(d, arrays(y, "offsets", numbers)).starts_with("3 "));
}

TEST_CASE("transposed operands, operands converted to tf32, and sums of rounded slices pass if they are declared",
          "[check][scaled]") {
    std::mt19937 random(7);
    const MachineGemm g = machine_gemm(32, 24, 256, fp32, fp32, Draw::normal, random);
    const auto turned = [](const Floats& x, std::size_t rows, std::size_t columns) {
        Floats out(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) out[i % columns * rows + i / columns] = x[i];
        return out;
    };
    const auto verdict = [&](const Floats& y, std::vector<std::pair<const char*, std::string>> keys,
                             bool is_turned = false, const Format& out = fp32) {
        keys.emplace_back("out", out == bf16 ? "bf16" : "fp32");
        return judge_arrays(declared(keys),
                            {is_turned ? array("a", {256, 32}, turned(g.a, 32, 256)) : array("a", {32, 256}, g.a),
                             is_turned ? array("b", {24, 256}, turned(g.b, 256, 24)) : array("b", {256, 24}, g.b),
                             coded("out", {32, 24}, y, out)});
    };
    CHECK(verdict(g.run({}), {{"a_layout", "km"}, {"b_layout", "nk"}}, true).outcome == Outcome::pass);

    MachineGemm cut = g, near = g;
    for (Floats* x : {&cut.a, &cut.b, &near.a, &near.b}) {
        const bool is_cut = x == &cut.a || x == &cut.b;
        for (float& each : *x)
            each = decode(tf32,
                          encode(tf32, each, is_cut ? Round::toward_zero : Round::nearest_away, Overflow::nonsaturate));
    }
    for (MachineGemm* each : {&cut, &near}) each->a_format = each->b_format = tf32;
    const Floats by_cut = cut.run(rule("sm80.mma.tf32")), by_near = near.run(rule("sm80.mma.tf32"));
    CHECK(verdict(by_cut, {{"machine", "sm80.mma.tf32"}, {"operands", "tf32:toward_zero"}, {"bits", "true"}})
              .bits->differ == 0);
    CHECK(verdict(by_near, {{"machine", "sm80.mma.tf32"}, {"operands", "tf32:nearest_away"}, {"bits", "true"}})
              .bits->differ == 0);
    CHECK(verdict(by_cut, {{"machine", "sm80.mma.tf32"}, {"operands", "tf32:nearest_away"}}).outcome == Outcome::fail);
    CHECK(verdict(by_cut, {}).outcome == Outcome::fail);
    for (const Floats* y : {&by_cut, &by_near}) {
        CHECK(verdict(*y, {{"operands", "any"}}).outcome != Outcome::fail);
        CHECK(verdict(*y, {{"machine", "sm80.mma.tf32"}, {"operands", "any"}}).outcome != Outcome::fail);
    }
    CHECK_THROWS_AS(verdict(by_cut, {{"machine", "sm80.mma.tf32"}, {"operands", "any"}, {"bits", "true"}}),
                    check::Declined);

    // The sums of four slices are each rounded to bf16.
    Floats sliced(32 * 24);
    for (std::size_t i = 0; i < sliced.size(); ++i) {
        float sum = 0;
        for (std::size_t s = 0; s < 4; ++s) {
            float part = 0;
            for (std::size_t p = s * 64; p < (s + 1) * 64; ++p)
                part = std::fma(g.a[i / 24 * 256 + p], g.b[p * 24 + i % 24], part);
            sum += kernels::to_bf16(part);
        }
        sliced[i] = kernels::to_bf16(sum);
    }
    CHECK(verdict(sliced, {}, false, bf16).outcome == Outcome::fail);
    CHECK(verdict(sliced, {{"slices", "4"}, {"partials", "bf16"}}, false, bf16).outcome != Outcome::fail);
    CHECK(verdict(g.run({}), {{"slices", "4"}, {"atomics", "true"}}).outcome == Outcome::pass);
}

TEST_CASE("an activation is applied after the bias, and a kernel that omits it fails", "[check][scaled]") {
    std::mt19937 random(8);
    const MachineGemm g = machine_gemm(32, 24, 64, bf16, bf16, Draw::normal, random);
    const Floats bias = normal(24, random);
    const auto activated = [&](const std::string& name) {
        Floats y = g.run({});
        for (std::size_t i = 0; i < y.size(); ++i) {
            const float x = y[i] + bias[i % 24];
            y[i] = name == "relu"        ? std::max(x, 0.0f)
                   : name == "gelu"      ? 0.5f * x * (1 + std::erf(x * 0.70710678f))
                   : name == "gelu_tanh" ? 0.5f * x * (1 + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)))
                   : name == "silu"      ? x / (1 + std::exp(-x))
                                         : x;
        }
        return y;
    };
    for (const char* name : {"relu", "gelu", "gelu_tanh", "silu"}) {
        const auto outcome = [&](const Floats& y) {
            return judge_arrays(declared({{"a", "bf16"}, {"b", "bf16"}, {"activation", name}}),
                                {coded("a", {32, 64}, g.a, bf16), coded("b", {64, 24}, g.b, bf16),
                                 array("out", {32, 24}, y), array("bias", {24}, bias)});
        };
        const check::Verdict v = outcome(activated(name));
        CAPTURE(name, codes(v));
        CHECK(v.outcome == Outcome::pass);
        CHECK(outcome(activated("none")).outcome == Outcome::fail);
    }
}

}  // namespace scaled_check_test
