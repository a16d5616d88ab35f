// SPDX-License-Identifier: Apache-2.0
// Tests the conditions in importers with pairs of configs. The two configs of a pair differ in a single setting.
#include "tests/configs/imported.hpp"
#include "tests/test.hpp"

#include <string>

namespace import_edges_test {

using macheps::test::Asked;
using macheps::test::Imported;

TEST_CASE(
    "FSDP 1 has its own clipping; it divides gradients both before and after the sum, as FSDP 2 does only in fp16",
    "[import][torch]") {
    const Asked torch{.framework = "torch"};
    const auto fsdp = [&](const std::string& version, const std::string& reduce) {
        return Imported(
            "{fsdp: {version: " + version + ", param_dtype: bfloat16, reduce_dtype: " + reduce + "}, max_norm: 1.0}",
            torch);
    };
    CHECK(fsdp("1", "bfloat16").field("clip") == "fsdp1");
    CHECK(fsdp("2", "bfloat16").field("clip") == "torch");
    CHECK(Imported("{autocast: {dtype: bfloat16}, max_norm: 1.0}", torch).field("clip") == "torch");
    for (const char* reduce : {"float16", "bfloat16", "float32"}) {
        CAPTURE(reduce);
        CHECK(fsdp("1", reduce).field("predivide") == "split");
        CHECK(fsdp("2", reduce).field("predivide") == (std::string(reduce) == "float16" ? "split" : "average"));
    }
}

TEST_CASE("Apex starts with a scale of 2^16, or with its largest scale if that is smaller", "[import][apex]") {
    for (const auto& [largest, first] :
         {std::pair{"1024", "1024"}, {"32768", "32768"}, {"65536", "65536"}, {"131072", "65536"}}) {
        CAPTURE(largest);
        const Imported config("{opt_level: O2, loss_scale: dynamic, max_loss_scale: " + std::string(largest) + "}",
                              {.framework = "apex"});
        CHECK(config.part("scaler", "init_scale") == first);
        CHECK(config.part("scaler", "max_scale") == largest);
    }
}

TEST_CASE("DeepSpeed clips like torch only in fp32 without ZeRO", "[import][deepspeed]") {
    const auto clip = [](const std::string& section) {
        return Imported("{\"gradient_clipping\": 1.0" + section + "}", {.framework = "deepspeed", .version = "0.16.5"})
            .field("clip");
    };
    CHECK(clip("") == "torch");
    for (const std::string stage : {"1", "2", "3"})
        CHECK(clip(", \"zero_optimization\": {\"stage\": " + stage + "}") == "deepspeed");
    CHECK(clip(", \"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 2}") == "deepspeed");
}

TEST_CASE("each recipe of Transformer Engine requires a minimum compute capability", "[import][megatron]") {
    const auto refused = [](const char* recipe, const char* device) {
        return Imported(std::string("--bf16 --fp8-format e4m3 --fp8-recipe ") + recipe,
                        {.framework = "megatron", .device = device, .file = "run.sh"})
            .result()
            .refused();
    };
    CHECK_FALSE(refused("blockwise", "h100"));
    CHECK(refused("blockwise", "l40"));
    CHECK_FALSE(refused("mxfp8", "b200"));
    CHECK(refused("mxfp8", "h100"));
}

TEST_CASE("Accelerate all-gathers in fp8 only under FSDP 2", "[import][accelerate]") {
    for (const char* version : {"1", "2"}) {
        const Imported config(
            "{compute_environment: LOCAL_MACHINE, distributed_type: FSDP, mixed_precision: fp8, num_processes: 8, "
            "fp8_config: {backend: AO, enable_fsdp_float8_all_gather: true}, fsdp_config: {fsdp_version: " +
                std::string(version) + "}}",
            {.framework = "accelerate", .device = "h100"});
        CAPTURE(version);
        CHECK(config.part("fp8", "all_gather") == (std::string(version) == "2" ? "true" : "false"));
    }
}

TEST_CASE("torch_compile switches tf32 on unless fp16 is requested, and a requested fp16 runs in fp32 under Apex O0",
          "[import][transformers]") {
    const Asked old{.framework = "transformers", .version = "4.41"};
    CHECK(Imported("{torch_compile: true}", old).field("compute") == "T");
    CHECK(Imported("{torch_compile: true, fp16: true, half_precision_backend: apex, fp16_opt_level: O0}", old)
              .field("compute") == "F");
}

}  // namespace import_edges_test
