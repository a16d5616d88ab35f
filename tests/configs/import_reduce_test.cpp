// SPDX-License-Identifier: Apache-2.0
// Tests that the settings with which a config reduces gradients over ranks become the section [reduce] of its policy.
#include "experiments/policy/policy.hpp"
#include "tests/configs/imported.hpp"
#include "tests/test.hpp"

namespace import_reduce_test {

using namespace macheps;
using namespace macheps::policy;
using test::Imported;

TEST_CASE("a config's settings for reducing gradients over ranks become the section `reduce` of its policy",
          "[import][ranks]") {
    struct Case {
        const char *framework, *version, *text, *reduce;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}})",
              "wire grad, order ring, average after, bucket model"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "communication_data_type": "fp32"})",
              "wire fp32, order ring, average after, bucket model"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "prescale_gradients": true})",
              "wire grad, order ring, average before, bucket model"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "gradient_predivide_factor": 4})",
              "wire grad, order ring, average after, predivide 4, bucket model"},
             {"deepspeed", "0.16.5", R"({"fp16": {"enabled": true}, "gradient_predivide_factor": 0.5})",
              "wire grad, order ring, average after, predivide 0.5, bucket model"},
             {"composer", "", "{precision: amp_bf16, fsdp_config: {mixed_precision: PURE}}",
              "wire bf16, order ring, average split, bucket model"},
             {"kohya", "", "{mixed_precision: bf16}", "wire grad, order ring, average before, bucket ddp"},
             {"lightning", "", "{trainer: {precision: bf16-mixed}}",
              "wire grad, order ring, average before, bucket ddp"},
             {"lightning", "", "{trainer: {precision: bf16-mixed, strategy: fsdp}}",
              "wire bf16, order ring, average split, bucket model"},
             {"torchtitan", "", "{model: {flavor: 8B}}", "wire grad, order ring, average before, bucket model"},
             {"nanogpt", "", "{dtype: bfloat16, device: cuda}", "wire grad, order ring, average before, bucket ddp"},
             {"torch", "", "{autocast: {dtype: bfloat16}}", "wire grad, order ring, average before, bucket ddp"},
             {"torch", "", "{autocast: {dtype: bfloat16}, comm_hook: bf16}",
              "wire bf16, order ring, average before, by_division true, bucket ddp"},
             {"torch", "", "{fsdp: {param_dtype: bfloat16, reduce_dtype: float32, buffer_dtype: float32}}",
              "wire grad, order ring, average split, bucket model"},
             {"torch", "", "{fsdp: {param_dtype: bfloat16}}", "wire bf16, order ring, average split, bucket model"}}) {
        CAPTURE(c.framework, c.text);
        const Imported config(c.text, {.framework = c.framework, .version = c.version});
        CAPTURE(config.result().policy);
        CHECK(to_string(parse_policy(config.result().policy, "imported").reduce) == c.reduce);
    }
}

}  // namespace import_reduce_test
