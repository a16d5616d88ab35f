// SPDX-License-Identifier: Apache-2.0
// Tests the parsers of recipe files and of file arguments such as `a.bin:bf16[192,1000]`, and their errors.
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "experiments/check/inputs.hpp"
#include "experiments/files/arrays/raw_word.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <functional>

namespace recipe_file_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;
using namespace macheps::files;

namespace {

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}
std::string plan_error(const std::string& text) {
    return error_of([&] {
        for (const MadeInputs& inputs : all_inputs(parse_plans(text, "r.toml").front())) stored_inputs(inputs);
    });
}
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a recipe sets the operation, formats, sizes, seed and inputs", "[check][recipes]") {
    const auto plans = parse_plans(
        "[recipe]\nop = 'gemm'\na = 'e4m3fn/row'\nb = 'e4m3fn'\nout = 'bf16'\nm = 20\nn = 18\nk = 64\nseed = 3\n"
        "inputs = ['normal', 'tail']\n",
        "r.toml");
    REQUIRE(plans.size() == 1);
    const InputRequest& r = plans[0].request;
    CHECK(r.seed == 3);
    CHECK(r.out_shape() == std::vector<std::int64_t>{20, 18});
    CHECK(r.arrays() == std::vector<std::string_view>{"a", "b", "a_scale"});
    CHECK(r.shape_of("a_scale") == std::vector<std::int64_t>{20, 1});
    CHECK(r.format("a") == e4m3fn);
    const auto all = all_inputs(plans[0]);
    REQUIRE(all.size() == 3);  // k is a multiple of every tile, so 'tail' makes only tail-1 and tail-first
    CHECK(all[1].name == "tail-1");

    const auto suite = parse_plans(
        "[suite]\nrequire = 'structure'\n[[check]]\nname = 'one'\nop = 'softmax'\nfiles = 'x*.npz'\nx = 'bf16'\n"
        "[[check]]\nop = 'adam'\nfiles = 'y.npz'\n",
        "suite.toml");
    REQUIRE(suite.size() == 2);
    CHECK(suite[0].name == "one");
    CHECK(suite[0].request.out_shape() == std::vector<std::int64_t>{64, 1000});
    CHECK(holds(suite[1].declined, "unknown operation 'adam'"));
}

TEST_CASE("errors in a recipe are reported with their place as usage errors", "[check][recipes]") {
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nkk = 3\n"), "2 r.toml:3:1: unknown key 'kk' in [recipe]"));
    CHECK(holds(plan_error("[recipe]\nop = 'gem'\n"),
                "2 r.toml:2:6 (op): unknown operation 'gem' (did you mean 'gemm'?"));
    CHECK(holds(plan_error("[recipe]\na = 'fp16'\n"), "the key 'op' is missing"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\ninputs = ['swmp']\n"), "gemm has no recipe 'swmp'"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\ninputs = ['swmp']\n"), "did you mean 'swamp'?"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nrows = 3\n"), "gemm has no size 'rows'"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nm = 0\n"), "2 r.toml:3:5 (m): m = 0"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nm = 100000\nk = 100000\n"), "2^28"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nm = 'many'\n"), "'m' is a string"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\na = 'fp15'\n"), "fp15"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\nseed = -1\n"), "seed -1"));
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\ninputs = ['ties']\n"), "recipe 'ties'"));  // the output is fp32
    CHECK(holds(plan_error("[recipe]\nop = 'gemm'\na = 'e2m1fn/packed'\nk = 31\n"), "rows of 31"));
    CHECK(holds(plan_error("x = 1\n"), "unknown key 'x'"));
    CHECK(holds(plan_error(""), "neither a [recipe] nor a [[check]]"));
    CHECK(holds(plan_error("[recipe\n"), "2 r.toml:1:"));
    CHECK(holds(error_of([] { load_plans("/nowhere.toml"); }), "3 /nowhere.toml"));
}

TEST_CASE("a file argument of the command line may declare the format and shape of raw numbers", "[check][files]") {
    const FileWord word = parse_file_word("dir/a.bin:bf16[192,1000]@4096");
    CHECK(word.path == "dir/a.bin");
    REQUIRE(word.raw);
    CHECK(word.raw->name == "a");
    CHECK(word.raw->format == bf16);
    CHECK(word.raw->shape == std::vector<std::int64_t>{192, 1000});
    CHECK(word.raw->offset == std::uint64_t{4096});
    CHECK(parse_file_word("a.bin:e2m1fn/packed[4]").raw->is_packed);
    CHECK(parse_file_word("a.bin:fp32/columns[4,2]").raw->is_column_major);
    CHECK(parse_file_word("a.bin:fp32[]").raw->shape.empty());
    CHECK_FALSE(parse_file_word("a.bin:fp32[]").raw->offset);
    for (const char* plain : {"a.npz", "C:a.npz", "a[1].npz", "a:b[1", "a:b[1]x", ":fp32[1]"}) {
        CAPTURE(plain);
        CHECK_FALSE(parse_file_word(plain).raw);
        CHECK(parse_file_word(plain).path == plain);
    }
    CHECK(holds(error_of([] { parse_file_word("a.bin:fp31[4]"); }), "2 "));
    CHECK(holds(error_of([] { parse_file_word("a.bin:fp32[4,x]"); }), "the sizes between the brackets are not valid"));
    CHECK(holds(error_of([] { parse_file_word("a.bin:fp32[9223372036854775808]"); }), "the sizes"));
    CHECK(holds(error_of([] { parse_file_word("a.bin:fp32[4]@-1"); }), "number of bytes after '@' is missing"));
    const TemporaryFolder folder;
    publish(folder / "x.bin", std::string("\x80\x3f\x00\xc0", 4));
    const auto arrays = read_arrays(parse_file_word((folder / "x.bin").string() + ":bf16[2]"));
    REQUIRE(arrays.size() == 1);
    CHECK(values_of(arrays[0], bf16) == std::vector<double>{1, -2});
}

}  // namespace recipe_file_test
