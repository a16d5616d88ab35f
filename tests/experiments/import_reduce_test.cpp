// SPDX-License-Identifier: Apache-2.0
// What a config says of ranks is what [reduce] of its policy says.
#include "experiments/policy/policy.hpp"
#include "tests/experiments/imported.hpp"
#include "tests/test.hpp"

using namespace macheps;
using test::Imported;

TEST_CASE("what a config says of ranks is [reduce] of its policy", "[import][ranks]") {
    struct Case {
        const char *framework, *version, *text, *reduce;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}})", "wire grad, order ring, average after"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "communication_data_type": "fp32"})",
              "wire fp32, order ring, average after"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "prescale_gradients": true})",
              "wire grad, order ring, average before"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "gradient_predivide_factor": 4})",
              "wire grad, order ring, average after, predivide 4"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "gradient_predivide_factor": 0.5})",
              "wire grad, order ring, average after, predivide 0.5"},
             {"nanogpt", "", "{dtype: bfloat16, device: cuda}", "wire grad, order ring, average before"},
             {"torch", "", "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}}",
              "wire grad, order ring, average split"},
             {"torch", "", "{fsdp: {param_dtype: bfloat16}}", "wire bf16, order ring, average split"}}) {
        CAPTURE(c.framework, c.text);
        const Imported config(c.text, {.framework = c.framework, .version = c.version});
        CAPTURE(config.result().policy);
        CHECK(to_string(parse_policy(config.result().policy, "imported").reduce) == c.reduce);
    }
}
