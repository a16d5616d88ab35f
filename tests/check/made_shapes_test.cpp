// SPDX-License-Identifier: Apache-2.0
// Tests that the inputs of recipes have the shapes that checks require, for example for block scales, for a loss of all
// rows and for rotary embeddings.
#include "experiments/check/check.hpp"
#include "experiments/check/inputs.hpp"
#include "tests/check/problems.hpp"

namespace made_shapes_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::check;

TEST_CASE("a check accepts the shapes of the inputs of every recipe", "[check][recipes]") {
    const char* const texts[] = {
        "op = 'gemm'; a = 'e4m3fn/1x128'; b = 'e4m3fn/128x128'; out = 'bf16'; m = 20; n = 140; k = 300",
        "op = 'gemm'; a = 'e2m1fn/mx32'; b = 'e2m1fn/mx32'; out = 'bf16'; m = 20; n = 18; k = 64",
        "op = 'gemm'; a = 'e4m3fn/row'; b = 'e4m3fn/column'; batches = 3; m = 5; n = 7; k = 33",
        "op = 'cross_entropy'; x = 'bf16'; reduction = 'mean'; rows = 6; columns = 40",
        "op = 'cross_entropy'; x = 'bf16'; reduction = 'sum'; rows = 6; columns = 40; canaries = 2",
        "op = 'rope'; rows = 4; columns = 30",
        "op = 'quantize'; x = 'bf16'; out = 'e4m3fn'; granularity = '1x128'; rows = 4; columns = 300",
        "op = 'quantize'; x = 'bf16'; out = 'e2m1fn'; granularity = 'nvfp4'; rows = 4; columns = 64",
        "op = 'embedding'; table = 'bf16'; out = 'bf16'; rows = 9; columns = 20",
    };
    for (const char* text : texts) {
        const auto plans = parse_plans(std::string("[recipe]\n") + text + "\n", "r.toml");
        REQUIRE(plans.size() == 1);
        for (const MadeInputs& inputs : all_inputs(plans.front())) {
            CAPTURE(text, inputs.name);
            CHECK_NOTHROW(pose(inputs.request.declaration, stored_inputs(inputs), pool()));
        }
    }
}

TEST_CASE("keys of a recipe may share a line, separated by semicolons", "[check][recipes]") {
    const auto plans =
        parse_plans("[recipe]\nop = 'softmax'; x = 'bf16' ; rows = 3; columns = 5 # ; rows = 4\n", "r.toml");
    CHECK(plans.at(0).request.out_shape() == std::vector<std::int64_t>{3, 5});
    try {
        parse_plans("[recipe]\nop = 'softmax'; rwos = 3\n", "r.toml");
        FAIL("a misspelt key was accepted");
    } catch (const Error& error) {
        CHECK(error.parts().where.starts_with("r.toml:2:17"));
    }
}

}  // namespace made_shapes_test
