// SPDX-License-Identifier: Apache-2.0
// Tests the inputs that recipes make. Correct kernels pass on them, they have the properties that their recipes
// promise, and they are unchanged after writing them to a file and reading them back.
#include "core/codec.hpp"
#include "experiments/check/inputs.hpp"
#include "experiments/check/pose/canary.hpp"
#include "tests/check/problems.hpp"

#include <cmath>
#include <map>
#include <set>

namespace recipes_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;
using namespace macheps::files;

namespace {

InputPlan plan(const std::string& keys) { return parse_plans("[recipe]\n" + keys, "recipe.toml").front(); }

InputPlan product_plan(const std::string& out, const std::string& more = {}) {
    return plan("op = 'gemm'\na = 'fp16'\nb = 'fp16'\nout = '" + out + "'\nm = 64\nn = 64\nk = 500\n" + more);
}

MadeInputs one(const InputPlan& of, std::string_view recipe) {
    return make_inputs(find_recipe(*of.request.declaration.operation, recipe, ""), of.request).front();
}

/// Returns the verdict on an ideal kernel, which makes no error except the rounding of its outputs.
Verdict verdict_on(const MadeInputs& inputs) {
    std::vector<StoredArray> arrays = stored_inputs(inputs);
    const Declaration& d = inputs.request.declaration;
    const Posed posed = pose(d, arrays, pool());
    const Limits limits = limits_of(posed.problem, 1e-9, pool());
    std::vector<double> out(limits.exact.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = stored(limits, limits.exact[i]);
    return check::check(posed.problem, out, {.require = Power::null}, pool());
}

double value(const MadeInputs& inputs, const char* array, std::int64_t row, std::int64_t column) {
    const MadeArray& a = *inputs.find(array);
    return a.values[static_cast<std::size_t>(row * a.shape.back() + column)];
}

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a correct kernel passes on the inputs of every recipe, in formats of every width", "[check][recipes]") {
    const std::vector<std::string> declarations{
        "op = 'gemm'\nm = 33\nn = 30\nk = 200\n",
        "op = 'gemm'\na = 'bf16'\nb = 'bf16'\nout = 'bf16'\nbias = 'bf16'\nm = 17\nn = 40\nk = 193\n",
        "op = 'gemm'\na = 'fp16'\nb = 'fp16'\nout = 'fp16'\nc = 'fp16'\nbeta = 0.5\nbatches = 2\nm = 20\nn = 18\nk = "
        "200\n",
        "op = 'gemm'\na = 'e4m3fn/row'\nb = 'e4m3fn/column'\nout = 'bf16'\nmachine = 'sm90.wgmma.fp8'\nm = 19\nn = "
        "21\nk = 192\n",
        "op = 'gemm'\na = 'e5m2'\nb = 'e4m3fn'\nout = 'fp16'\nm = 16\nn = 16\nk = 200\n",
        "op = 'gemm'\na = 'e2m1fn/packed'\nb = 'e2m1fn/packed'\nout = 'bf16'\nm = 16\nn = 16\nk = 200\n",
        "op = 'gemm'\na = 'fp16'\nb = 'fp16'\nout = 'bf16'\nm = 1\nn = 1\nk = 1\n",
        "op = 'softmax'\nx = 'bf16'\nout = 'bf16'\nrows = 9\ncolumns = 70\n",
        "op = 'log_softmax'\nrows = 9\ncolumns = 70\n",
        "op = 'rmsnorm'\nx = 'fp16'\nout = 'bf16'\ngain = 'fp16'\neps = 1e-5\nrows = 9\ncolumns = 70\n",
        "op = 'layernorm'\ngain = 'fp32'\nshift = 'fp32'\neps = 1e-5\nrows = 9\ncolumns = 70\n",
        "op = 'sum'\nx = 'fp16'\nrows = 70\ncolumns = 50\n",
        "op = 'mean'\nx = 'e4m3fn'\nout = 'bf16'\nrows = 70\ncolumns = 50\n",
        "op = 'max'\nx = 'fp16'\nout = 'bf16'\nrows = 9\ncolumns = 50\n",
        "op = 'quantize'\nx = 'bf16'\nout = 'e4m3fn'\ngranularity = 'tensor'\nrows = 9\ncolumns = 50\n",
    };
    std::set<std::string_view> tried;
    for (const std::string& keys : declarations) {
        const InputPlan of = plan(keys);
        for (const Recipe& recipe : recipes_of(*of.request.declaration.operation)) {
            if (!recipe.applies(of.request)) continue;
            tried.insert(recipe.name);
            for (const MadeInputs& inputs : make_inputs(recipe, of.request)) {
                CAPTURE(keys, inputs.name);
                const Verdict v = verdict_on(inputs);
                CAPTURE(codes(v));
                CHECK(v.outcome != Outcome::fail);
                CHECK((v.outcome != Outcome::declined || recipe.name == "wide"));
                for (const MadeArray& array : inputs.arrays) {
                    for (const double x : array.values) {
                        const Format f = array.format.format;
                        const double again = decode64(f, encode64(f, x, Round::toward_zero, Overflow::nonsaturate));
                        if (!(again == x || (std::isnan(x) && std::isnan(again)))) FAIL_CHECK(array.name << " " << x);
                    }
                }
            }
        }
    }
    // groups_test.cpp tests the recipe `groups`.
    for (const Recipe& recipe : product_recipes()) CHECK((tried.count(recipe.name) == 1 || recipe.name == "groups"));
    for (const Recipe& recipe : row_recipes()) CHECK(tried.count(recipe.name) == 1);
}

TEST_CASE("the inputs of exact recipes make every sum exact, so every output has only one correct code",
          "[check][recipes]") {
    for (const char* out : {"bf16", "fp16", "fp32"}) {
        for (const char* recipe : {"integers", "resolution", "one-hot", "tail", "ties", "subnormal"}) {
            const InputPlan of = product_plan(out);
            const Recipe& row = find_recipe(*of.request.declaration.operation, recipe, "");
            if (!row.applies(of.request)) {
                CHECK((std::string(recipe) == "ties" && std::string(out) == "fp32"));
                continue;
            }
            for (const MadeInputs& inputs : make_inputs(row, of.request)) {
                const Verdict v = verdict_on(inputs);
                CAPTURE(out, inputs.name);
                CHECK(v.judgement.exact_outputs == v.judgement.outputs);
            }
        }
    }
}

TEST_CASE("inputs have the properties that the names of their recipes promise", "[check][recipes]") {
    const InputPlan of = product_plan("bf16");
    const MadeInputs tie = one(of, "ties");
    // The sums have 10 bits, and bf16 has 8. Each sum is therefore 1, 2 or 3 quarters of an ulp above a bf16 number.
    // The bf16 number is even or odd, so there are six cases.
    std::map<std::pair<int, bool>, int> seen;
    for (std::int64_t i = 0; i < 64; ++i) {
        for (std::int64_t j = 0; j < 64; ++j) {
            std::int64_t sum = 0;
            for (std::int64_t p = 0; p < 500; ++p)
                sum +=
                    static_cast<std::int64_t>(value(tie, "a", i, p)) * static_cast<std::int64_t>(value(tie, "b", p, j));
            const std::int64_t size = std::abs(sum);
            REQUIRE((size >= 512 && size < 1024));
            ++seen[{static_cast<int>(size % 4), size / 4 % 2 == 1}];
        }
    }
    CHECK(seen.size() == 6);
    for (const auto& [kind, count] : seen) {
        CHECK(kind.first != 0);
        CHECK(count > 300);
    }
    const MadeInputs hot = one(of, "one-hot");
    std::set<std::int64_t> places;
    for (std::int64_t i = 0; i < 64; ++i) {
        int ones = 0;
        for (std::int64_t p = 0; p < 500; ++p) {
            if (value(hot, "a", i, p) == 0) continue;
            CHECK(value(hot, "a", i, p) == 1);
            places.insert(p);
            ++ones;
        }
        CHECK(ones == 1);
    }
    CHECK(places.size() == 64);
    CHECK(places.count(499) == 1);
    const MadeInputs resolution = one(of, "resolution");
    double a = 0, b = 0;
    for (const double x : resolution.find("a")->values) a = std::max(a, std::fabs(x));
    for (const double x : resolution.find("b")->values) b = std::max(b, std::fabs(x));
    CHECK(500 * a * b <= 0x1p24);
    CHECK(a * b * std::sqrt(500.0) / 3 > 0x1p12);  // far beyond fp16's 2^11
    const MadeInputs subnormal = one(of, "subnormal");
    for (const double x : subnormal.find("a")->values) CHECK((x != 0 && std::fabs(x) < 0x1p-14));
    for (const double x : subnormal.find("b")->values) CHECK(std::fabs(x) >= 0x1p-14);
    std::set<std::string> names;
    for (const MadeInputs& inputs : make_inputs(find_recipe(*of.request.declaration.operation, "tail", ""), of.request))
        names.insert(inputs.name);
    CHECK(names == std::set<std::string>{"tail-1", "tail-4", "tail-20", "tail-52", "tail-116", "tail-first"});
    int nan = 0, infinite = 0;
    for (const double x : one(of, "specials").find("a")->values) nan += std::isnan(x), infinite += std::isinf(x);
    CHECK(nan == 1);
    CHECK(infinite == 5);
}

TEST_CASE("the same recipe gives the same bytes, and another seed gives other bytes", "[check][recipes]") {
    const auto bytes = [](const std::string& more) {
        const MadeInputs inputs = one(product_plan("bf16", more), "normal");
        return npz_of(stored_inputs(inputs), recipe_text(inputs));
    };
    CHECK(bytes("") == bytes("seed = 7\n"));
    CHECK(bytes("") != bytes("seed = 8\n"));
    // The numbers are from N(0, 1): mean and mean square are within four standard errors.
    const MadeInputs inputs = one(product_plan("fp32"), "normal");
    double sum = 0, squares = 0;
    for (const double x : inputs.find("a")->values) sum += x, squares += x * x;
    CHECK(std::fabs(sum / 32000) < 4 / std::sqrt(32000.0));
    CHECK(std::fabs(squares / 32000 - 1) < 4 * std::sqrt(2 / 32000.0));
}

TEST_CASE("files of made inputs read back unchanged, and contain their recipe", "[check][recipes]") {
    const InputPlan of = plan(
        "op = 'gemm'\na = 'e4m3fn'\nb = 'e2m1fn/packed'\nbias = 'bf16'\nout = 'fp16'\ncanaries = 2\nm = 20\nn = 18\nk "
        "= 64\n");
    const MadeInputs inputs = one(of, "normal");
    const std::vector<StoredArray> stored = stored_inputs(inputs);
    const std::string recipe = recipe_text(inputs);
    CHECK(holds(recipe, R"("recipe":"normal")"));
    CHECK(holds(recipe, R"("b":"e2m1fn/packed")"));
    for (const std::string& file : {npz_of(stored, recipe), safetensors_of(stored, recipe)}) {
        CHECK(holds(file, "e2m1fn/packed"));
        const std::vector<StoredArray> arrays = parse_arrays(file, "x", "test");
        for (const MadeArray& made : inputs.arrays) {
            CAPTURE(made.name);
            const auto array = std::find_if(arrays.begin(), arrays.end(),
                                            [&](const StoredArray& each) { return each.name == made.name; });
            REQUIRE(array != arrays.end());
            CHECK(values_of(*array, made.format.format, made.format.is_packed) == made.values);
        }
        const auto out =
            std::find_if(arrays.begin(), arrays.end(), [](const StoredArray& each) { return each.name == "out"; });
        REQUIRE(out != arrays.end());
        CHECK(out->shape == std::vector<std::int64_t>{22, 18});
    }
}

TEST_CASE("a write beyond the end of an output is detected", "[check][recipes]") {
    const InputPlan of = product_plan("bf16", "canaries = 3\n");
    const MadeInputs inputs = one(of, "normal");
    std::vector<StoredArray> arrays = stored_inputs(inputs);
    const Posed untouched = pose(of.request.declaration, arrays, pool());
    CHECK_FALSE(untouched.problem.changed_canary);
    CHECK(untouched.out_shape == std::vector<std::int64_t>{64, 64});
    const Limits limits = limits_of(untouched.problem, 1e-9, pool());
    std::vector<double> right(limits.exact.size());
    for (std::size_t i = 0; i < right.size(); ++i) right[i] = stored(limits, limits.exact[i]);
    CHECK(check::check(untouched.problem, right, {}, pool()).outcome == Outcome::pass);
    arrays.back().bytes[(64 * 64 + 70) * 2] ^= 1;
    const Posed touched = pose(of.request.declaration, arrays, pool());
    CHECK(touched.problem.changed_canary == 70);
    const Verdict v = check::check(touched.problem, right, {}, pool());
    CHECK(v.outcome == Outcome::fail);
    CHECK(codes(v) == "KC011 ");
    arrays.back().shape = {3, 64};
    arrays.back().bytes.resize(3 * 64 * 2);
    CHECK(error_of([&] { pose(of.request.declaration, arrays, pool()); }).starts_with("3 "));
    for (const Format& format : {fp32, fp16, bf16, e4m3fn, e5m2}) {
        for (std::int64_t i = 0; i < 1000; ++i) CHECK(std::isfinite(decode64(format, canary_code(format, i))));
    }
}

}  // namespace recipes_test
