// SPDX-License-Identifier: Apache-2.0
// Tests the table of declaration keys: each row, for each operation.
#include "experiments/check/checked.hpp"
#include "experiments/check/declare/operations.hpp"
#include "tests/test.hpp"

#include <set>
#include <string>
#include <vector>

namespace declare_test {

using namespace macheps;
using namespace macheps::check;
using namespace macheps::files;

namespace {

/// Sets the key. Returns the error message, or an empty string on success.
std::string error_of(Declaration& d, const std::string& key, const std::string& text) {
    try {
        declare(d, *find_declare_key(key), text, "suite.toml:3:1");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("the JSON of a declaration contains each value that was declared", "[check][declare]") {
    struct Case {
        const char *operation, *key, *text, *json;
    };
    for (const Case& c : {
             Case{"gemm", "a", "e4m3fn", R"("e4m3fn")"},
             Case{"gemm", "a", "e2m1fn/packed", R"("e2m1fn/packed")"},
             Case{"gemm", "out", "float16", R"("fp16")"},
             Case{"gemm", "a_scale", "row", R"("row")"},
             Case{"gemm", "b_scale", "fp32/column", R"("fp32/column")"},
             Case{"gemm", "machine", "sm90.wgmma.fp8+promote128", R"("sm90.wgmma.fp8+promote128")"},
             Case{"gemm", "machine", "any", R"("any")"},
             Case{"gemm", "alpha", "0x1p-3", "0.125"},
             Case{"gemm", "scale_order", "b_first", R"("b_first")"},
             Case{"gemm", "bits", "false", "false"},
             Case{"gemm", "bits", "true", "true"},
             Case{"gemm", "need_bits", "12", "12.0"},
             Case{"gemm", "a_scale", "fp32/1x128", R"("fp32/1x128")"},
             Case{"gemm", "b_scale", "e8m0fnu/mx32", R"("e8m0fnu/mx32")"},
             Case{"gemm", "slices", "4", "4"},
             Case{"gemm", "partials", "bf16", R"("bf16")"},
             Case{"gemm", "atomics", "true", "true"},
             Case{"gemm", "operands", "tf32:toward_zero", R"("tf32:toward_zero")"},
             Case{"gemm", "scale_layout", "cublas128x4", R"("cublas128x4")"},
             Case{"gemm", "b_layout", "nk", R"("nk")"},
             Case{"gemm", "activation", "silu", R"("silu")"},
             Case{"rmsnorm", "eps", "1e-5", "1e-05"},
             Case{"softmax", "functions", "exact", R"("exact")"},
             Case{"cross_entropy", "form", "lse", R"("lse")"},
             Case{"tanh", "form", "exp", R"("exp")"},
             Case{"gemm", "form", "tanh", R"("tanh")"},
             Case{"gemm", "rounding", "toward_zero", R"("toward_zero")"},
             Case{"gemm", "operands", "tf32:nearest_even", R"("tf32:nearest_even")"},
             Case{"gemm", "machine", "sliced", R"("sliced")"},
             Case{"logsumexp", "inner", "bf16", R"("bf16")"},
             Case{"quantize", "given_scale", "0.02", R"("0.02")"},
             Case{"quantize", "scaling", "divide", R"("divide")"},
             Case{"quantize", "scale_rule", "amax_over_max", R"("amax_over_max")"},
             Case{"softmax", "saturate", "true", "true"},
         }) {
        CAPTURE(c.operation, c.key, c.text);
        Declaration d{.operation = &find_operation(c.operation)};
        CHECK(error_of(d, c.key, c.text).empty());
        CHECK(declared_json(d).at(c.key).dump() == c.json);
    }
}

TEST_CASE("the suffix of an operand's format declares which elements share a scale", "[check][declare]") {
    Declaration d{.operation = &find_operation("gemm")};
    CHECK(error_of(d, "a", "e4m3fn/row").empty());
    CHECK(error_of(d, "b", "e2m1fn/packed/column").empty());
    CHECK(d.formats.at("a").format == e4m3fn);
    CHECK(d.scale_shapes.at("a_scale") == "row");
    CHECK(d.formats.at("b").is_packed);
    CHECK(d.scale_shapes.at("b_scale") == "column");
}

TEST_CASE("scales whose shape contradicts the declaration are bad input", "[check][declare]") {
    ThreadPool pool(1);
    const auto outcome = [&](const char* a, std::vector<float> scale) {
        Declaration d{.operation = &find_operation("gemm")};
        check::declare(d, "a", a);
        std::vector<StoredArray> arrays{stored_array("a", {3, 1}, std::vector<float>{1, 2, 3}),
                                        stored_array("b", {1, 2}, std::vector<float>{5, 7}),
                                        stored_array("out", {3, 2}, std::vector<float>{10, 14, 20, 28, 30, 42})};
        const auto count = static_cast<std::int64_t>(scale.size());
        if (count > 0) arrays.push_back(stored_array("a_scale", {count}, scale));
        try {
            return std::string(to_string(check_arrays(d, arrays, {.require = Power::null}, pool).outcome));
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::bad_input);
            return std::string(error.what());
        }
    };
    CHECK(outcome("fp32/row", {2, 2, 2}) == "pass");
    CHECK(outcome("fp32/tensor", {2}) == "pass");
    CHECK(outcome("fp32", {2, 2, 2}) == "pass");
    CHECK(outcome("fp32/tensor", {2, 2, 2}).find("declared scales, one for each tensor") != std::string::npos);
    CHECK(outcome("fp32/row", {2}).find("declared scales, one for each row") != std::string::npos);
    CHECK(outcome("fp32/column", {2, 2, 2}).find("declared scales, one for each column") != std::string::npos);
    CHECK(outcome("fp32/row", {}).find("there is no array 'a_scale'") != std::string::npos);
}

TEST_CASE("if operands fit only when transposed, the error names the layout to declare", "[check][declare]") {
    ThreadPool pool(1);
    const auto refusal = [&](std::vector<std::int64_t> a, std::vector<std::int64_t> b, const char* key = nullptr) {
        Declaration d{.operation = &find_operation("gemm")};
        if (key != nullptr) check::declare(d, key, key[0] == 'a' ? "km" : "nk");
        const auto ones = [](const std::vector<std::int64_t>& shape) {
            return std::vector<float>(static_cast<std::size_t>(shape[0] * shape[1]), 1.0f);
        };
        try {
            check_arrays(d,
                         {stored_array("a", a, ones(a)), stored_array("b", b, ones(b)),
                          stored_array("out", {3, 5}, std::vector<float>(15, 4))},
                         {.require = Power::null}, pool);
        } catch (const Error& error) {
            return error.parts().what + "; " + error.parts().fix;
        }
        return std::string("judged");
    };
    CHECK(refusal({3, 4}, {5, 4}) ==
          "shapes disagree: a [3, 4], b [5, 4], out [3, 5]; declare --b-layout nk; with transposed operands the shapes "
          "agree");
    CHECK(refusal({4, 3}, {4, 5}).find("declare --a-layout km;") != std::string::npos);
    CHECK(refusal({4, 3}, {5, 4}).find("declare --a-layout km --b-layout nk;") != std::string::npos);
    CHECK(refusal({3, 4}, {4, 5}, "b_layout").find("b [4, 5], out [3, 5]; declare --b-layout kn;") !=
          std::string::npos);
    CHECK(refusal({3, 4}, {6, 4}).find("a [m,k], b [k,n], out [m,n]") != std::string::npos);
    CHECK(refusal({3, 4}, {5, 4}, "b_layout") == "judged");
}

TEST_CASE("a scaled product is declined if its machine joins the slices of k serially (split-k)", "[check][declare]") {
    ThreadPool pool(1);
    const auto judged = [&](std::vector<float> scale) {
        Declaration d{.operation = &find_operation("gemm")};
        for (const char* name : {"a", "b", "out"}) check::declare(d, name, "fp16");
        check::declare(d, "machine", "sm80.mma.fp16+cutlass2.splitk.serial+slices2");
        const std::vector<std::uint16_t> one{0x3c00};
        std::vector<StoredArray> arrays{stored_array("a", fp16, {1, 1}, std::as_bytes(std::span(one))),
                                        stored_array("b", fp16, {1, 1}, std::as_bytes(std::span(one))),
                                        stored_array("out", fp16, {1, 1}, std::as_bytes(std::span(one)))};
        if (!scale.empty()) arrays.push_back(stored_array("a_scale", {1}, scale));
        return check_arrays(d, arrays, {.require = Power::null}, pool).outcome;
    };
    CHECK_NOTHROW(judged({}));
    CHECK_THROWS_AS(judged({1}), Declined);
}

TEST_CASE("the error for an invalid declaration gives its place and the valid alternatives", "[check][declare]") {
    struct Case {
        const char *operation, *key, *text, *says;
    };
    for (const Case& c : {
             Case{"gemm", "eps", "1e-5", "gemm has no eps"},
             Case{"gemm", "x", "fp32", "gemm has no array 'x' (remove it; gemm has a, b, out"},
             Case{"softmax", "machine", "any", "softmax has no machine"},
             Case{"gemm", "a", "e4m3fm", "did you mean e4m3fn?"},
             Case{"gemm", "a", "int8", "'int8' is an integer type"},
             Case{"gemm", "b", "torch.uint4", "'torch.uint4' is an integer type"},
             Case{"gemm", "partials", "s32", "'s32' is an integer type"},
             Case{"softmax", "form", "shifted", "use one of quotient (e^(x - m) / s), lse (e^(x - (m + log s)))"},
             Case{"relu", "form", "exp", "relu has no form"},
             Case{"quantize", "given_scale", "static", "'static' is not a number in the allowed range"},
             Case{"gemm", "a", "bf16/rows", "'rows' is not a valid part of a format"},
             Case{"softmax", "x", "bf16/row", "write packed after the slash"},
             Case{"gemm", "a", "row", "row"},
             Case{"gemm", "alpha", "one", "'one' is not a number in the allowed range"},
             Case{"rmsnorm", "eps", "-1", "give 0 to 1"},
             Case{"gemm", "machine", "sm81", "sm81"},
             Case{"gemm", "scale_order", "a_frist", "did you mean 'a_first'?"},
             Case{"softmax", "functions", "cudda", "did you mean 'cuda'?"},
         }) {
        CAPTURE(c.operation, c.key, c.text);
        Declaration d{.operation = &find_operation(c.operation)};
        const std::string error = error_of(d, c.key, c.text);
        CAPTURE(error);
        CHECK(error.starts_with("suite.toml:3:1: "));
        CHECK(error.find(c.says) != std::string::npos);
    }
}

TEST_CASE("a known feature that cannot be judged is declined", "[check][declare]") {
    Declaration d{.operation = &find_operation("gemm")};
    CHECK_THROWS_AS(declare(d, *find_declare_key("a"), "e4m3fn/none", "--a"), Declined);
}

TEST_CASE("every array of an operation can be declared, and every key has a unique name and a help text",
          "[check][declare]") {
    std::set<std::string> names;
    for (const DeclareKey& key : declare_keys()) {
        CAPTURE(key.name);
        CHECK(names.insert(key.name).second);
        CHECK(!key.help.empty());
        CHECK((key.takes == DeclareKey::Takes::flag) == key.value.empty());
        bool is_of_any = false;
        for (const Operation& operation : all_operations()) is_of_any = is_of_any || key.applies(operation, key);
        CHECK(is_of_any);
    }
    for (const Operation& operation : all_operations()) {
        for (const ArrayRole& role : operation.arrays) {
            if (role.is_layout) continue;  // contains integers, which have no format
            REQUIRE(find_declare_key(role.name) != nullptr);
            CHECK(find_declare_key(role.name)->applies(operation, *find_declare_key(role.name)));
        }
    }
}

}  // namespace declare_test
