// SPDX-License-Identifier: Apache-2.0
// Tests checks of large matrix products. Such a check judges a sample of the outputs and screens all outputs: it tests
// sums of 64 outputs with random signs. The tests check which outputs a sample contains, that no legal kernel is
// refused, and that faults outside the sample are found.
#include "experiments/check/checked.hpp"
#include "tests/check/product_checks.hpp"

#include <map>
#include <set>

namespace sample_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

std::int64_t i64(std::size_t n) { return static_cast<std::int64_t>(n); }

check::ProductOperands counted(std::int64_t m, std::int64_t n, std::int64_t k, std::vector<std::int64_t> starts = {}) {
    check::ProductOperands of{.m = m, .n = n, .k = k};
    if (!starts.empty()) {
        of.batches = i64(starts.size()) - 1;
        of.has_one_b = false;
        of.starts = std::move(starts);
    }
    for (std::int64_t i = 0; i < of.rows() * k; ++i) of.a.push_back(static_cast<double>(i));
    for (std::int64_t i = 0; i < of.matrices_of_b() * k * n; ++i) of.b.push_back(static_cast<double>(i));
    return of;
}

/// Returns a product. If `has_epilogue`, it has a bias and scales, which the screen supports.
ProductCheck product(std::size_t m, std::size_t n, std::size_t k, const char* machine, const Format& format,
                     const Format& out, Draw draw, bool has_epilogue, std::mt19937& random) {
    ProductCheck c;
    c.machine = machine;
    c.out = out;
    c.g = machine_gemm(m, n, k, format, format, draw, random);
    if (has_epilogue) {
        c.bias = normal(n, random);
        c.a_scale = normal(m, random, 1, 0.1f);
        c.b_scale = normal(n, random, 1, 0.1f);
    }
    return c;
}

Floats legal(const ProductCheck& c) {
    kernels::Gemm plain{.m = c.g.m, .n = c.g.n, .k = c.g.k, .a = c.g.a, .b = c.g.b};
    const Floats sums =
        c.machine == "any" ? plain.run(kernels::Store::fp32, nullptr) : c.g.run(parse_machine(c.machine).rule);
    return c.stored(c.epilogue(sums));
}

check::Sampling one_of(std::int64_t every) { return {.every = every}; }

check::Posed posed(const ProductCheck& c, const Floats& out, std::int64_t every) {
    return check::pose(c.declaration(), c.arrays(out), pool(), one_of(every));
}

check::Verdict judged(const ProductCheck& c, const Floats& out, std::int64_t every) {
    const check::Options options{.sampling = one_of(every)};
    const check::Posed of = posed(c, out, every);
    return check::check(of.problem, of.out, options, pool());
}

}  // namespace

TEST_CASE("a sample contains an output of each row and column in every N x N square, and all border outputs",
          "[check][sample]") {
    struct Case {
        std::int64_t m, n, every;
        std::vector<std::int64_t> starts;
    };
    const auto [m, n, every, starts] =
        GENERATE(Case{64, 64, 8, {}}, Case{67, 130, 16, {}}, Case{5, 9, 16, {}}, Case{100, 33, 7, {}},
                 Case{50, 40, 4, {0, 20, 20, 50}}, Case{1, 1, 4, {}});
    CAPTURE(m, n, every);
    const check::ProductOperands of = counted(m, n, 3, starts);
    const check::Sample sample(of, every);
    const check::ProductOperands part = sample.operands(of);
    CHECK(part.rows() == sample.rows());
    CHECK(part.n == sample.columns());
    CHECK(part.parts == every);
    CHECK(part.batches == of.batches * every);
    std::map<std::int64_t, std::set<std::int64_t>> rows, columns;
    std::vector<double> numbers(static_cast<std::size_t>(m * n));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i);
    const std::vector<double> outputs = sample.outputs(numbers);
    std::set<std::int64_t> sampled;
    for (std::int64_t i = 0; i < sample.rows() * sample.columns(); ++i) {
        const std::int64_t place = sample.place(i), row = place / n, column = place % n;
        CHECK(outputs[static_cast<std::size_t>(i)] == static_cast<double>(place));
        sampled.insert(place);
        rows[row].insert(column);
        columns[column].insert(row);
        // For this output, the sampled product multiplies the same operands as the whole product.
        const std::int64_t r = i / part.n, j = i % part.n, matrix = of.batch_of_b(row);
        for (std::int64_t p = 0; p < of.k; ++p) {
            CHECK(part.a_at(r, p) == static_cast<double>(row * of.k + p));
            CHECK(part.b_at(r, p, j) == static_cast<double>((matrix * of.k + p) * n + column));
        }
    }
    CHECK(i64(rows.size()) == m);
    CHECK(i64(columns.size()) == n);
    for (const auto& [row, of_row] : rows) CHECK((of_row.contains(0) && of_row.contains(n - 1)));
    for (const auto& [column, of_column] : columns) CHECK((of_column.contains(0) && of_column.contains(m - 1)));
    if (!starts.empty()) return;
    for (std::int64_t top = 0; top + every <= m; top += every) {
        for (std::int64_t left = 0; left + every <= n; left += every) {
            std::set<std::int64_t> of_rows, of_columns;
            for (const std::int64_t place : sampled) {
                const std::int64_t row = place / n - top, column = place % n - left;
                if (row < 0 || row >= every || column < 0 || column >= every) continue;
                of_rows.insert(row);
                of_columns.insert(column);
            }
            CHECK(i64(of_rows.size()) == every);
            CHECK(i64(of_columns.size()) == every);
        }
    }
}

TEST_CASE("sampled outputs have the same limits as in a check of all outputs", "[check][sample]") {
    std::mt19937 random(5);
    const char* machine = GENERATE("any", "sm90.wgmma.fp8+promote128");
    const bool is_any = std::string_view(machine) == "any";
    const ProductCheck c = product(70, 90, 200, machine, is_any ? bf16 : e4m3fn, bf16, Draw::normal, true, random);
    const Floats out = legal(c);
    const check::Posed all = posed(c, out, 1), part = posed(c, out, 8);
    const check::Limits whole = check::limits_of(all.problem, 1e-9, pool()),
                        some = check::limits_of(part.problem, 1e-9, pool());
    REQUIRE(part.problem.sample);
    REQUIRE(some.size() < whole.size() / 4);
    for (std::int64_t i = 0; i < some.size(); ++i) {
        const auto at = static_cast<std::size_t>(i), place = static_cast<std::size_t>(part.problem.sample->place(i));
        CAPTURE(i, place);
        REQUIRE(part.out[at] == all.out[place]);
        REQUIRE(some.exact[at] == whole.exact[place]);
        REQUIRE(some.certain[at] == whole.certain[place]);
        REQUIRE(some.deviation[at] == whole.deviation[place]);
    }
}

TEST_CASE(
    "if outputs are screened by their sum, the guaranteed limit of the sum is at least the sum of the outputs' bounds",
    "[check][sample]") {
    struct Case {
        const char* machine;
        Format format, out;
        Draw draw;
    };
    const auto [machine, format, out, draw] = GENERATE(
        Case{"any", bf16, bf16, Draw::normal}, Case{"any", fp32, fp32, Draw::cancelling},
        Case{"any", fp16, bf16, Draw::wide}, Case{"sm80.mma.fp16", fp16, fp32, Draw::outliers},
        Case{"sm90.wgmma.fp8", e4m3fn, bf16, Draw::normal}, Case{"sm100.tcgen05.fp8", e4m3fn, fp16, Draw::positive},
        Case{"cdna2.mfma.fp16", fp16, fp32, Draw::wide},
        Case{"sm90.wgmma.fp8+promote128+slices3", e4m3fn, bf16, Draw::normal});
    for (const bool has_epilogue : {false, true}) {
        CAPTURE(machine, has_epilogue);
        std::mt19937 random(9);
        const ProductCheck c = product(24, 150, 300, machine, format, out, draw, has_epilogue, random);
        const check::Posed all = posed(c, legal(c), 1);
        const check::Limits limits = check::limits_of(all.problem, 1e-9, pool());
        REQUIRE(limits.declined < 0);
        // Every output has the largest legal error, with the sign that the screen gives to its column.
        std::vector<double> worst(all.out.size()), shifted = worst;
        for (std::size_t i = 0; i < worst.size(); ++i) {
            const double sign = check::Screen::sign(i64(i) % limits.columns);
            worst[i] = limits.exact[i] + sign * limits.before[i];
            shifted[i] = limits.exact[i] + sign * 300 * limits.certain[i];
        }
        const check::Declaration d = c.declaration();
        const check::ScreenedProduct product{
            .of = all.problem.products->operands(), .rule = d.machine, .inputs = all.problem.inputs, .output = c.out};
        const check::Screen legal_screen = check::screen(product, worst, 1e-9, pool());
        CHECK(legal_screen.sums == 24 * 3);
        CHECK(legal_screen.certain.sums == 0);
        // The errors of a legal kernel do not depend on the signs, so they are also within the probable limit.
        CHECK(check::screen(product, all.out, 1e-9, pool()).probable.sums == 0);
        const check::Screen wrong = check::screen(product, shifted, 1e-9, pool());
        const bool is_blunt =
            std::string_view(machine) == "sm90.wgmma.fp8" || std::string_view(machine).starts_with("cdna2");
        if (!is_blunt) CHECK(wrong.certain.sums > 0);
    }
}

TEST_CASE("the screening of all outputs refuses no legal product", "[check][sample]") {
    double most = 0;
    for (int run = 0; run < 150; ++run) {
        std::mt19937 random(static_cast<unsigned>(run));
        const char* machines[] = {"any", "sm80.mma.bf16", "sm90.wgmma.fp16", "any"};
        const Format outs[] = {bf16, fp32, fp16};
        const bool is_half = run % 4 == 2;
        const ProductCheck c =
            product(1 + random() % 40, 1 + random() % 200, 1 + random() % 300, machines[run % 4], is_half ? fp16 : bf16,
                    outs[random() % 3], static_cast<Draw>(run % draws), random() % 2, random);
        const check::Posed of = posed(c, legal(c), 1 + i64(random() % 12) + 1);
        REQUIRE(of.problem.screen);
        const check::Screen& s = *of.problem.screen;
        CAPTURE(run, c.machine, c.g.m, c.g.n, c.g.k, c.out.bits, s.ratio);
        CHECK(s.special.sums + s.certain.sums + s.probable.sums == 0);
        most = std::max(most, s.ratio);
    }
    std::printf("150 screens, the largest sum %.3f of its probable bound\n", most);
    CHECK(most > 0.1);  // if no sum came near its limit, this test would be meaningless
}

TEST_CASE("the screening of all outputs refuses no legal product with alpha, beta and c", "[check][sample]") {
    for (int run = 0; run < 12; ++run) {
        std::mt19937 random(static_cast<unsigned>(run));
        const Format outs[] = {bf16, fp32, fp16};
        const ProductCheck c = product(1 + random() % 40, 65 + random() % 100, 1 + random() % 300, "any", bf16,
                                       outs[run % 3], Draw::normal, false, random);
        const kernels::Gemm plain{.m = c.g.m, .n = c.g.n, .k = c.g.k, .a = c.g.a, .b = c.g.b};
        const float alpha = run % 2 == 0 ? 1.0f : 0.5f, beta = run % 4 < 2 ? -0.75f : 3.0f;
        const Floats added = normal(c.g.m * c.g.n, random, 1, 0.5f);
        Floats out = plain.run(kernels::Store::fp32, nullptr);
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = alpha * out[i] + beta * added[i];
        out = c.stored(out);
        check::Declaration d = c.declaration();
        d.alpha = alpha;
        d.beta = beta;
        std::vector<StoredArray> arrays = c.arrays(out);
        arrays.push_back(array("c", {i64(c.g.m), i64(c.g.n)}, added));
        const check::Posed of = check::pose(d, arrays, pool(), one_of(5));
        REQUIRE(of.problem.screen);
        const check::Screen& s = *of.problem.screen;
        CAPTURE(run, alpha, beta, s.ratio);
        CHECK(s.special.sums + s.certain.sums + s.probable.sums == 0);
    }
}

TEST_CASE("outputs that may overflow are not screened, and are judged only if they are sampled", "[check][sample]") {
    std::mt19937 random(17);
    // The screen adds 64 outputs at a time. The total of the sums of magnitudes of 64 outputs exceeds the largest fp16
    // number, although the sum of magnitudes of each single output does not.
    ProductCheck c = product(20, 128, 2048, "sm80.mma.fp16", fp16, fp16, Draw::normal, false, random);
    const check::Posed all = posed(c, legal(c), 4);
    REQUIRE(all.problem.screen);
    CHECK(all.problem.screen->outputs == 20 * 128);
    CHECK(all.problem.screen->certain.sums + all.problem.screen->probable.sums + all.problem.screen->special.sums == 0);
    // Sums with a NaN from a or from the bias cannot be screened, so they are not counted.
    c.g.a[5 * 2048 + 3] = std::numeric_limits<float>::quiet_NaN();
    c.bias = normal(128, random);
    c.bias[70] = std::numeric_limits<float>::quiet_NaN();
    const check::Posed some = posed(c, legal(c), 4);
    CHECK(some.problem.screen->outputs == 19 * 64);
    CHECK(some.problem.screen->certain.sums + some.problem.screen->probable.sums + some.problem.screen->special.sums ==
          0);
}

TEST_CASE("faults outside the sample are found, with their place", "[check][sample]") {
    std::mt19937 random(3);
    const ProductCheck c = product(128, 256, 256, "sm80.mma.bf16", bf16, bf16, Draw::normal, true, random);
    const Floats right = legal(c);
    const check::Verdict pass = judged(c, right, 16);
    CAPTURE(codes(pass));
    CHECK(pass.outcome == check::Outcome::pass);
    REQUIRE(pass.screen);
    CHECK(pass.screen->outputs == 128 * 256);
    CHECK(pass.screen_bounds < 200);
    // The sample has one output in 16. Find an output that is not in the sample, and is large enough for a fault to be
    // detected.
    const check::Posed of = posed(c, right, 16);
    std::set<std::int64_t> sampled;
    for (std::int64_t i = 0; i < of.problem.sample->rows() * of.problem.sample->columns(); ++i)
        sampled.insert(of.problem.sample->place(i));
    CHECK(sampled.size() < right.size() / 6);
    std::size_t place = 70 * 256 + 100;
    while (sampled.contains(i64(place)) || std::fabs(right[place]) < 8) ++place;
    const auto refused = [&](Floats wrong, const std::string& codes_wanted) {
        const check::Verdict verdict = judged(c, wrong, 16);
        CAPTURE(codes(verdict));
        CHECK(verdict.outcome == check::Outcome::fail);
        for (const check::Reason& reason : verdict.reasons) CHECK(reason.test == "screen");
        CHECK(codes(verdict).find(codes_wanted) != std::string::npos);
        return verdict.reasons.empty() ? -1 : verdict.reasons.front().index;
    };
    Floats wrong = right;
    wrong[place] = -wrong[place];
    CHECK(refused(wrong, "KC022") == i64(place));
    wrong = right;
    wrong[place] = std::numeric_limits<float>::quiet_NaN();
    CHECK(refused(wrong, "KC010") == i64(place));
    // Sampled outputs are judged as usual.
    wrong = right;
    wrong[70 * 256] *= 1.02f;
    CHECK(judged(c, wrong, 16).reasons.front().index == 70 * 256);
    // Outputs of an activation are not sums, so they are not screened. The report gives the reason.
    check::Declaration d = c.declaration();
    d.activation = "relu";
    Floats rectified = right;
    for (float& y : rectified) y = std::max(y, 0.0f);
    const check::Posed posed_relu = check::pose(d, c.arrays(rectified), pool(), one_of(16));
    CHECK(!posed_relu.problem.screen);
    CHECK(posed_relu.problem.unscreened.find("relu") != std::string::npos);
}

TEST_CASE("a sample catches the wrong kernels that a check of all outputs catches", "[check][sample]") {
    std::mt19937 random(8);
    const ProductCheck c = product(256, 256, 300, "any", bf16, bf16, Draw::normal, true, random);
    const Floats right = legal(c);
    const check::Verdict all = judged(c, right, 1), some = judged(c, right, 8);
    std::set<std::string> blind;
    for (const check::Mutant* mutant : all.blind(check::Power::structure)) blind.insert(mutant->name);
    for (const check::Mutant* mutant : some.blind(check::Power::structure)) {
        CAPTURE(mutant->name);
        CHECK(blind.contains(mutant->name));
    }
    CHECK(some.mutants.size() >= all.mutants.size());
    // A kernel that is wrong everywhere fails in the sample.
    Floats shifted = right;
    for (std::size_t row = 0; row < 256; ++row) {
        for (std::size_t j = 0; j + 1 < 256; ++j) shifted[row * 256 + j] = right[row * 256 + j + 1];
    }
    CHECK(judged(c, shifted, 8).outcome == check::Outcome::fail);
}

TEST_CASE("each batch is sampled with its own b, and declared bits are compared in the sample", "[check][sample]") {
    std::mt19937 random(6);
    const std::size_t m = 30, n = 70, k = 96, batches = 3;
    const Floats a = drawn(Draw::normal, bf16, batches * m, k, false, random),
                 b = drawn(Draw::normal, bf16, batches * k, n, false, random);
    check::Declaration d{.operation = &check::find_operation("gemm")};
    for (const char* name : {"a", "b"}) d.formats[name].format = bf16;
    d.machine_name = "sm80.mma.bf16";
    d.machine = parse_machine(d.machine_name).rule;
    d.bits = true;
    Floats out;
    for (std::size_t batch = 0; batch < batches; ++batch) {
        const MachineGemm g{.m = m,
                            .n = n,
                            .k = k,
                            .a_format = bf16,
                            .b_format = bf16,
                            .a = Floats(a.begin() + i64(batch * m * k), a.begin() + i64((batch + 1) * m * k)),
                            .b = Floats(b.begin() + i64(batch * k * n), b.begin() + i64((batch + 1) * k * n))};
        const Floats part = g.run(*d.machine);
        out.insert(out.end(), part.begin(), part.end());
    }
    const auto arrays = [&](const Floats& outputs) {
        return std::vector<StoredArray>{coded("a", {3, 30, 96}, a, bf16), coded("b", {3, 96, 70}, b, bf16),
                                        array("out", {3, 30, 70}, outputs)};
    };
    const auto verdict_of = [&](const Floats& outputs) {
        const check::Posed of = check::pose(d, arrays(outputs), pool(), one_of(4));
        return check::check(of.problem, of.out, {.sampling = one_of(4)}, pool());
    };
    const check::Verdict right = verdict_of(out);
    CAPTURE(codes(right));
    CHECK(right.outcome == check::Outcome::pass);
    REQUIRE(right.bits);
    CHECK(right.bits->differ == 0);
    // The check catches the simulated kernel in which a batch uses the b of the previous batch. The check also finds a
    // single wrong bit in a sampled output.
    const auto other = std::find_if(right.mutants.begin(), right.mutants.end(), [](const check::Mutant& mutant) {
        return mutant.name == "a group with the b of the one before it";
    });
    REQUIRE(other != right.mutants.end());
    CHECK(other->caught);
    Floats wrong = out;
    wrong[70 * 30] = std::nextafterf(wrong[70 * 30], 100.0f);
    const check::Verdict bit = verdict_of(wrong);
    REQUIRE(bit.bits);
    CHECK(bit.bits->differ > 0);
    CHECK(bit.bits->first == 70 * 30);
}

TEST_CASE("block-scaled operands are screened and sampled with their scales", "[check][sample]") {
    std::mt19937 random(12);
    check::ProductOperands of{.m = 20, .n = 80, .k = 64, .a_format = e4m3fn, .b_format = e4m3fn};
    const Floats a = drawn(Draw::normal, e4m3fn, 20, 64, false, random),
                 b = drawn(Draw::normal, e4m3fn, 64, 80, false, random);
    of.raw_a.assign(a.begin(), a.end());
    of.raw_b.assign(b.begin(), b.end());
    of.a = of.raw_a;
    of.b = of.raw_b;
    of.k_block = 32;
    for (int i = 0; i < 40; ++i) of.a_factors.push_back(std::ldexp(1.0, static_cast<int>(random() % 8) - 4));
    for (int i = 0; i < 160; ++i) of.b_factors.push_back(std::ldexp(1.0, static_cast<int>(random() % 8) - 4));
    of.scale();
    std::vector<double> out(20 * 80);
    for (std::size_t i = 0; i < out.size(); ++i) {
        float sum = 0;
        for (std::int64_t p = 0; p < 64; ++p)
            sum += static_cast<float>(of.a_at(i64(i / 80), p) * of.b_at(i64(i / 80), p, i64(i % 80)));
        out[i] = sum;
    }
    const std::optional<MatmulRule> any;
    const check::ScreenedProduct product{.of = of, .rule = any};
    CHECK(check::screen(product, out, 1e-9, pool()).probable.sums == 0);
    const check::Sample sample(of, 4);
    const check::ProductOperands part = sample.operands(of);
    for (std::int64_t i = 0; i < part.rows() * part.n; ++i) {
        const std::int64_t place = sample.place(i);
        for (std::int64_t p = 0; p < 64; ++p) {
            REQUIRE(part.a_at(i / part.n, p) * part.b_at(i / part.n, p, i % part.n) ==
                    of.a_at(place / 80, p) * of.b_at(place / 80, p, place % 80));
            REQUIRE(part.a_factor(i / part.n, p) == of.a_factor(place / 80, p));
        }
    }
    out[900] += 4;
    const check::Screen wrong = check::screen(product, out, 1e-9, pool());
    CHECK(wrong.certain.sums + wrong.probable.sums == 1);
}

TEST_CASE("a verdict reports its sample as text and in JSON", "[check][sample]") {
    std::mt19937 random(4);
    const ProductCheck c = product(64, 128, 64, "any", bf16, bf16, Draw::normal, false, random);
    const check::Checked checked =
        check::check_arrays(c.declaration(), c.arrays(legal(c)), {.sampling = one_of(4)}, pool());
    CHECK(checked.text().find("sampled: one output in 4 (--sample 4)") != std::string::npos);
    CHECK(checked.text().find("screened: 8192 of 8192 outputs, in sums of 64") != std::string::npos);
    CHECK(checked.problem.find("bf16[64, 64] x bf16[64, 128]") != std::string::npos);
    const Json json = checked.json();
    CHECK(json.at("sampled") == 4);
    CHECK(json.at("screen").at("outputs") == 8192);
    const Json plain = check::check_arrays(c.declaration(), c.arrays(legal(c)), {}, pool()).json();
    CHECK(plain.at("sampled") == false);
    CHECK(plain.at("screen").is_null());
    // A large budget allows all outputs, and a budget of zero gives the smallest sample.
    const auto every = [&](double seconds) {
        const check::Posed of = check::pose(c.declaration(), c.arrays(legal(c)), pool(), {.seconds = seconds});
        return of.problem.sample ? of.problem.sample->every() : 1;
    };
    CHECK(every(1e6) == 1);
    CHECK(every(0) == check::max_every);
}

}  // namespace sample_test
