// SPDX-License-Identifier: Apache-2.0
// Probable bounds and mean squares assume independent rounding errors. The data of these tests violate this assumption:
// many outputs share intermediate roundings, and sums have equal terms. Correct kernels must pass on such data. Wrong
// kernels must still fail if errors are independent.
#include "experiments/check/checked.hpp"
#include "experiments/check/power/trial.hpp"
#include "tests/check/drawn_data.hpp"
#include "tests/check/product_checks.hpp"
#include "tests/check/row_kernels.hpp"

namespace independence_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

/// The intermediate results of a check.
struct Judged {
    check::Posed posed;
    check::Limits limits;
    check::Judgement judgement;
    std::optional<check::Dependence> dependence;
};

Judged judged(const check::Declaration& d, const std::vector<StoredArray>& arrays, bool asks = true) {
    Judged all{.posed = check::pose(d, arrays, pool()), .limits = {}, .judgement = {}, .dependence = {}};
    all.limits = check::limits_of(all.posed.problem, 1e-9, pool());
    REQUIRE(all.limits.declined < 0);
    check::Premise premise(all.posed.problem, all.limits);
    all.judgement = check::judge(all.limits, all.posed.out, {.premise = asks ? &premise : nullptr});
    all.dependence = premise.dependence();
    return all;
}

std::string codes_of(const check::Judgement& j) {
    std::string all;
    for (const check::Reason& reason : j.reasons) all += reason.code + " ";
    return all;
}

/// Makes an RMSNorm as in Hugging Face's Llama, which rounds x times the inverse root to bf16 before it applies the
/// gain. `factor` multiplies all outputs.
RowCase llama_norm(std::size_t rows, std::mt19937& random, Floats& out, float factor = 1) {
    constexpr std::size_t n = 4096;
    RowCase c{.declaration = declare("rmsnorm", Store::bf16, Store::bf16), .store = Store::bf16};
    c.declaration.formats["gain"] = {bf16, false};
    c.declaration.inner = bf16;
    c.declaration.eps = 1e-5f;
    c.out_shape = {static_cast<std::int64_t>(rows), n};
    c.x = normal(rows * n, random, 0, 1, Store::bf16);
    c.second = normal(n, random, 1, 0.2f, Store::bf16);
    out.clear();
    for (std::size_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::size_t i = 0; i < n; ++i)
            squares += static_cast<double>(c.x[r * n + i]) * static_cast<double>(c.x[r * n + i]);
        const auto root = static_cast<float>(1 / std::sqrt(squares / n + 1e-5));
        for (std::size_t i = 0; i < n; ++i)
            out.push_back(kernels::to_bf16(factor * (kernels::to_bf16(c.x[r * n + i] * root) * c.second[i])));
    }
    c.arrays = {array("x", c.out_shape, c.x, Store::bf16), array("gain", {n}, c.second, Store::bf16),
                array("out", c.out_shape, out, Store::bf16)};
    return c;
}

/// Makes a matrix product in which all terms of an output are equal. Its outputs are summed by a chain and multiplied
/// by `factor`.
ProductCheck constant_rows(Floats& out, float factor = 1) {
    std::mt19937 random(4);
    ProductCheck c;
    c.g = {.m = 64,
           .n = 64,
           .k = 1024,
           .a = drawn_data(Kind::constant_rows, 64, 1024, fp32, random),
           .b = Floats(1024 * 64, 0.1f)};
    const kernels::Gemm plain{.m = 64, .n = 64, .k = 1024, .a = c.g.a, .b = c.g.b};
    out = plain.run(kernels::Store::fp32, nullptr);
    for (float& y : out) y *= factor;
    return c;
}

}  // namespace

TEST_CASE("a norm that rounds to bf16 before multiplying by the gain passes with every seed", "[check][independence]") {
    // For normal data, the inverse root is close to one. Multiplying x by the inverse root changes x by a fraction of
    // an ulp that grows with the significand of x. In some rows, the products of most of the 128 significands are
    // therefore close to the midpoint of two bf16 numbers.
    int refused_as_independent = 0, refused_when_counted = 0;
    for (unsigned seed = 0; seed < 56; ++seed) {
        std::mt19937 random(seed);
        Floats out;
        const RowCase c = llama_norm(seed % 2 == 0 ? 1 : 4, random, out);
        const Judged right = judged(c.declaration, c.arrays);
        CAPTURE(seed, codes_of(right.judgement), right.judgement.z, right.judgement.z_part);
        CHECK(right.judgement.reasons.empty());
        CHECK(!right.dependence);  // the ideal kernel explains the errors, so no test had to be dismissed
        check::Limits plain = right.limits;
        plain.rounded_inside.clear();
        refused_when_counted += check::judge(plain, right.posed.out).reasons.empty() ? 0 : 1;
        plain.inner_kinds.clear();
        refused_as_independent += check::judge(plain, right.posed.out).reasons.empty() ? 0 : 1;
    }
    CHECK(refused_as_independent > 10);
    // Several outputs may contain the same rounding error of an intermediate result. Without the results of the ideal
    // kernel, a test can still count such outputs together as a single observation. This alone prevents more than half
    // of the refusals.
    CHECK(refused_when_counted < refused_as_independent / 2);
    // The declared rounding explains errors of less than one ulp of bf16, so an error of 2 % is detected.
    std::mt19937 random(1);
    Floats out;
    const RowCase larger = llama_norm(4, random, out, 1.02f);
    CHECK(!judged(larger.declaration, larger.arrays).judgement.reasons.empty());
}

TEST_CASE("every operation that rounds intermediate results as declared passes on data with few distinct values",
          "[check][independence]") {
    std::mt19937 random(20);
    int runs = 0;
    for (const std::string& op : row_operations()) {
        if (!check::find_operation(op).has_inner) continue;
        for (const Kind kind : {Kind::fp8_codes, Kind::fp4_codes, Kind::whole_numbers, Kind::constant,
                                Kind::constant_rows, Kind::two_values, Kind::normal}) {
            for (const Store inner : {Store::bf16, Store::fp16}) {
                for (const Store out : {Store::bf16, Store::fp16, Store::fp32}) {
                    RowCase c = row_case(op, random, op == "cross_entropy" ? 100 : 2, 512, Store::fp32, out);
                    c.x = drawn_data(kind, static_cast<std::size_t>(c.rows), 512, fp32, random);
                    c.arrays[0] = array(c.arrays[0].name, c.arrays[0].shape, c.x);
                    if (op == "rmsnorm" && random() % 2) {
                        c.second = drawn_data(kind, 1, 512, fp32, random);
                        c.arrays[1] = array("gain", {512}, c.second);
                    }
                    c.declaration.inner = inner == Store::bf16 ? bf16 : fp16;
                    Kernel k = random_kernel(random);
                    k.fault.narrow_inner = true;
                    k.inner_store = inner;
                    const Judged right = judged(c.declaration, stored_case(op, c, k));
                    CAPTURE(op, kind_names[static_cast<std::size_t>(kind)], static_cast<int>(inner),
                            static_cast<int>(out), codes_of(right.judgement), right.judgement.z,
                            right.judgement.z_part);
                    CHECK(right.judgement.reasons.empty());
                    ++runs;
                }
            }
        }
    }
    CHECK(runs >= 200);
}

TEST_CASE("sequential sums of equal terms pass, and the report names the tests that dependent errors invalidate",
          "[check][independence]") {
    Floats out;
    const ProductCheck c = constant_rows(out);
    const Judged right = judged(c.declaration(), c.arrays(out));
    CHECK(right.judgement.reasons.empty());
    CHECK(right.judgement.rho < 0.5);
    REQUIRE(right.dependence);
    CHECK(right.dependence->kernel.find("chain") != std::string::npos);
    // If the check does not test the premise (that errors are independent), the outputs fail.
    const std::string unasked = codes_of(judged(c.declaration(), c.arrays(out), false).judgement);
    CHECK(unasked.find("KC021") != std::string::npos);
    CHECK(unasked.find("KC030") != std::string::npos);
    // An error of 1 % is too large for any order of summation.
    Floats wrong;
    const ProductCheck larger = constant_rows(wrong, 1.01f);
    CHECK(codes_of(judged(larger.declaration(), larger.arrays(wrong)).judgement).find("KC020") != std::string::npos);

    const check::Checked checked =
        check::check_arrays(c.declaration(), c.arrays(out), {.require = check::Power::null}, pool());
    CHECK(checked.outcome == check::Outcome::pass);
    CHECK(checked.text().find("rounding errors are not independent on this data") != std::string::npos);
    const Json json = checked.json();
    CHECK(json["dependent_errors"]["dismissed"][0] == "KC021");

    for (const float size : {0.1f, 0.3f, 0.7f, 1.7f}) {
        for (const std::size_t n : {1000u, 10000u, 50000u}) {
            const Floats x(4 * n, size);
            Floats sums;
            for (std::size_t r = 0; r < 4; ++r) sums.push_back(kernels::chain(Floats(n, size)));
            const auto length = static_cast<std::int64_t>(n);
            const Judged sum =
                judged(declare("sum", Store::fp32), {array("x", {4, length}, x), array("out", {4}, sums)});
            CAPTURE(size, n, codes_of(sum.judgement));
            CHECK(sum.judgement.reasons.empty());
        }
    }
}

TEST_CASE("if errors are independent, the tests of probable bounds and mean squares decide the verdict",
          "[check][independence]") {
    std::mt19937 random(8);
    ProductCheck c;
    c.g = {.m = 32, .n = 32, .k = 2048, .a = normal(32 * 2048, random), .b = normal(2048 * 32, random)};
    const kernels::Gemm plain{.m = 32, .n = 32, .k = 2048, .a = c.g.a, .b = c.g.b};
    const Floats out = plain.run(kernels::Store::fp32, nullptr);
    const Judged right = judged(c.declaration(), c.arrays(out));
    CHECK(right.judgement.reasons.empty());
    const auto codes_with = [&](auto change) {
        check::Premise premise(right.posed.problem, right.limits);
        std::vector<double> wrong(right.posed.out);
        for (std::size_t i = 0; i < wrong.size(); ++i) wrong[i] = change(i, wrong[i]);
        const check::Judgement j = check::judge(right.limits, wrong, {.premise = &premise});
        CHECK(j.dismissed.empty());
        return codes_of(j);
    };
    // One output exceeds its probable bound, and the mean square of all outputs exceeds its limit.
    CHECK(codes_with([&](std::size_t i, double y) {
              return i == 77 ? right.limits.exact[i] + 1.5 * right.limits.probable[i] : y;
          }) == "KC021 ");
    CHECK(codes_with([&](std::size_t i, double) {
              return right.limits.exact[i] + (i % 2 == 0 ? 1.7 : -1.7) * right.limits.deviation[i];
          }).find("KC030") != std::string::npos);
    // The mean square of one tile exceeds its limit.
    CHECK(codes_with([&](std::size_t i, double y) {
              const bool is_inside = i / 32 < 16 && i % 32 < 16;
              return is_inside ? right.limits.exact[i] + (i % 2 == 0 ? 1.7 : -1.7) * right.limits.deviation[i] : y;
          }).find("KC032") != std::string::npos);
}

TEST_CASE("a mean square of errors fails if and only if it is more than six standard deviations too large",
          "[check][independence]") {
    std::mt19937 random(9);
    ProductCheck c;
    c.g = {.m = 32, .n = 32, .k = 512, .a = normal(32 * 512, random), .b = normal(512 * 32, random)};
    const kernels::Gemm plain{.m = 32, .n = 32, .k = 512, .a = c.g.a, .b = c.g.b};
    const Judged right = judged(c.declaration(), c.arrays(plain.run(kernels::Store::fp32, nullptr)));
    int near_below = 0, near_above = 0;
    for (double size = 1.1; size < 1.5; size += 0.002) {
        std::vector<double> wrong(right.posed.out);
        for (std::size_t i = 0; i < wrong.size(); ++i)
            wrong[i] = right.limits.exact[i] + (i % 2 == 0 ? size : -size) * right.limits.deviation[i];
        const check::Judgement j = check::judge(right.limits, wrong);
        CAPTURE(size, j.z);
        CHECK((codes_of(j).find("KC030") != std::string::npos) == (j.z > 6));
        near_below += j.z > 5.7 && j.z <= 6, near_above += j.z > 6 && j.z < 6.3;
    }
    CHECK(near_below > 0);
    CHECK(near_above > 0);
}

TEST_CASE("rows with dependent errors do not excuse wrong outputs in other rows", "[check][independence]") {
    std::mt19937 random(12);
    ProductCheck c;
    c.g = {.m = 64, .n = 32, .k = 1024, .a = normal(64 * 1024, random), .b = Floats(1024 * 32)};
    const Floats columns = drawn_data(Kind::positive, 32, 1024, fp32, random);
    for (std::size_t i = 0; i < columns.size(); ++i) c.g.b[i % 1024 * 32 + i / 1024] = i / 1024 < 4 ? 0.1f : columns[i];
    for (std::size_t i = 0; i < 8 * 1024; ++i) c.g.a[i] = 0.7f;  // eight rows of equal terms
    const kernels::Gemm plain{.m = 64, .n = 32, .k = 1024, .a = c.g.a, .b = c.g.b};
    const Floats out = plain.run(kernels::Store::fp32, nullptr);
    const Judged right = judged(c.declaration(), c.arrays(out));
    CAPTURE(codes_of(right.judgement));
    CHECK(right.judgement.reasons.empty());
    std::vector<double> wrong(right.posed.out);
    for (std::size_t i = 20 * 32; i < 30 * 32; ++i) wrong[i] = right.limits.exact[i] + 1.3 * right.limits.probable[i];
    check::Premise premise(right.posed.problem, right.limits);
    CHECK(codes_of(check::judge(right.limits, wrong, {.premise = &premise})).find("KC021") != std::string::npos);
}

TEST_CASE("the verdict does not depend on the number of threads", "[check][independence]") {
    Floats out;
    const ProductCheck c = constant_rows(out);
    ThreadPool one(1), four(4);
    const std::string text = check::check_arrays(c.declaration(), c.arrays(out), {}, one).json().dump();
    CHECK(text == check::check_arrays(c.declaration(), c.arrays(out), {}, four).json().dump());
}

TEST_CASE("a wrong kernel counts as not caught if the only test that refuses it was dismissed for dependent errors",
          "[check][independence][power]") {
    Floats out;
    const ProductCheck c = constant_rows(out);
    const Judged right = judged(c.declaration(), c.arrays(out));
    std::vector<check::Mutant> with, without;
    check::Premise premise(right.posed.problem, right.limits);
    check::WrongKernel wrong{.name = "beyond the probable bound",
                             .kind = "precision",
                             .results = [&](const check::OutputRange& range, std::span<double> exact) {
                                 for (std::size_t j = 0; j < exact.size(); ++j) {
                                     const std::size_t i = static_cast<std::size_t>(range.first) + j;
                                     exact[j] = right.limits.exact[i] + 0.9 * right.limits.certain[i];
                                 }
                             }};
    check::Trial unasked(right.limits, {{0, right.limits.size()}}, nullptr, pool(), without);
    check::Trial asked(right.limits, {{0, right.limits.size()}}, nullptr, pool(), with, &premise);
    unasked.add(wrong);
    asked.add(wrong);
    CHECK(without.front().caught);
    CHECK(!with.front().caught);
}

TEST_CASE("on random data, a check finds independent errors for every operation with sums", "[check][independence]") {
    std::mt19937 random(31);
    int asked = 0;
    for (const std::string& op : row_operations()) {
        if (!check::find_operation(op).has_reduction || op == "argmax") continue;
        for (const Kind kind : {Kind::normal, Kind::positive, Kind::outliers, Kind::wide, Kind::cancelling}) {
            for (const Store store : {Store::fp32, Store::bf16}) {
                RowCase c = row_case(op, random, check::find_operation(op).is_one_per_row ? 100 : 6, 700, store, store);
                c.declaration.reduction = check::Reduction::none;
                c.x =
                    drawn_data(kind, static_cast<std::size_t>(c.rows), 700, store == Store::bf16 ? bf16 : fp32, random);
                c.arrays[0] = array(c.arrays[0].name, c.arrays[0].shape, c.x, store);
                if (check::find_operation(op).is_one_per_row) c.out_shape = {c.rows};
                const Judged one = judged(c.declaration, stored_case(op, c, random_kernel(random)));
                check::Premise premise(one.posed.problem, one.limits);
                std::vector<std::int64_t> all(static_cast<std::size_t>(one.limits.size()));
                for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
                CAPTURE(op, kind_names[static_cast<std::size_t>(kind)], static_cast<int>(store));
                CHECK(premise.holds_at(all));
                // After an outlier, a chain loses small squares entirely, so its errors have a nonzero mean.
                if (op != "norm2" || kind != Kind::outliers)
                    CHECK(premise.holds_for({0, one.limits.rows, 0, one.limits.columns}));
                ++asked;
            }
        }
    }
    for (const Kind kind :
         {Kind::normal, Kind::positive, Kind::outliers, Kind::wide, Kind::cancelling, Kind::fp8_codes}) {
        for (const char* machine : {"any", "sm80.mma.bf16", "sm90.wgmma.fp16", "sm90.wgmma.fp8+promote128"}) {
            const std::string name = machine;
            const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
            const Format format = has("any") ? fp32 : has("fp8") ? e4m3fn : has("bf16") ? bf16 : fp16;
            ProductCheck c;
            c.machine = name;
            c.g = {.m = 24, .n = 24, .k = 1024, .a_format = format, .b_format = format};
            c.g.a = drawn_data(kind, 24, 1024, format, random);
            c.g.b = drawn_data(kind, 1024, 24, format, random);
            const Judged one =
                judged(c.declaration(), c.arrays(c.g.run(name == "any" ? MatmulRule{} : parse_machine(name).rule)));
            check::Premise premise(one.posed.problem, one.limits);
            std::vector<std::int64_t> all(24 * 24);
            for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
            CAPTURE(name, kind_names[static_cast<std::size_t>(kind)]);
            CHECK(premise.holds_at(all));
            CHECK(premise.holds_for({0, 24, 0, 24}));
            ++asked;
        }
    }
    CHECK(asked > 100);
}

}  // namespace independence_test
