// SPDX-License-Identifier: Apache-2.0
// Tests imports of configs of Composer and llm-foundry: the words of FSDP's mixed precision, low master weights, fp8,
// and clipping.
#include "tests/configs/imported.hpp"

namespace import_composer_test {

using namespace macheps;
using namespace macheps::test;

namespace {

std::string config(std::string_view rest) {
    return fmt::format("{{max_duration: 10ba, train_loader: {{name: text}}, {}}}", rest);
}
std::string fsdp(std::string_view precision, std::string_view mixed) {
    return config(fmt::format("precision: {}, fsdp_config: {{mixed_precision: {}}}", precision, mixed));
}

constexpr const char* low_weights = "model: {master_weights_dtype: bfloat16}";

}  // namespace

TEST_CASE("the word of mixed_precision decides what Composer's FSDP keeps in low precision", "[import][composer]") {
    const auto [precision, mixed, expected, scaler] =
        GENERATE(table<const char*, const char*, const char*, const char*>({
            {"amp_bf16", "PURE", "store=F compute=B reduce=B buffers=B embed=B opt_state=F", "none"},
            {"amp_bf16", "pure", "store=F compute=B reduce=B buffers=B embed=B opt_state=F", "none"},
            {"amp_bf16", "DEFAULT", "store=F compute=B reduce=F buffers=B embed=B opt_state=F", "none"},
            {"amp_bf16", "FULL", "store=F compute=B reduce=F buffers=F embed=F opt_state=F", "none"},
            {"amp_fp16", "DEFAULT", "store=F compute=H reduce=F buffers=H embed=H opt_state=F", "torch-sharded"},
            {"fp32", "PURE", "store=F compute=F reduce=F buffers=F embed=F opt_state=F", "none"},
            {"amp_bf16", "{param_dtype: bf16, reduce_dtype: fp32}",
             "store=F compute=B reduce=F buffers=F embed=B opt_state=F", "none"},
            {"amp_bf16", "{param_dtype: bfloat16}", "store=F compute=B reduce=B buffers=F embed=B opt_state=F", "none"},
            {"amp_fp16", "{param_dtype: bf16}", "store=F compute=H reduce=B buffers=F embed=B opt_state=F",
             "torch-sharded"},
            {"amp_bf16", "{reduce_dtype: amp_bf16, buffer_dtype: half}",
             "store=F compute=B reduce=B buffers=H embed=F opt_state=F", "none"},
        }));
    CAPTURE(precision, mixed);
    const Imported found(fsdp(precision, mixed));
    CHECK(found.result().framework->name == "composer");
    CHECK(fields_of(found.result(), {"store", "compute", "reduce", "buffers", "embed", "opt_state"}) == expected);
    CHECK(found.field("scaler") == scaler);
    CHECK(found.field("predivide") == "split");
    CHECK(found.has("W composer/fsdp-low-reduce") == (found.field("reduce") != "F"));
    CHECK(found.has("W composer/buffers-cast") == (found.field("buffers") != "F"));
    CHECK(found.has("C composer/two-formats") == (found.field("compute") == "H" && found.field("embed") == "B"));
    CHECK_FALSE(found.result().refused());
}

TEST_CASE("Composer without FSDP uses autocast and DDP", "[import][composer]") {
    const Imported half(config("precision: amp_fp16"));
    CHECK(fields_of(half.result(), {"store", "compute", "oplist", "reduce", "scaler"}) ==
          "store=F compute=H oplist=torch-cuda reduce=F scaler=torch");
    const Imported standard(config("seed: 1"));
    CHECK(standard.field("compute") == "B");
    CHECK(Imported(config("fsdp_config: {sharding_strategy: FULL_SHARD}")).field("reduce") == "F");
}

TEST_CASE("llm-foundry's low master weights leave no fp32 copy, and replace the words of mixed_precision",
          "[import][composer]") {
    const Imported found(
        config(fmt::format("precision: amp_bf16, fsdp_config: {{mixed_precision: DEFAULT}}, {}", low_weights)));
    CHECK(fields_of(found.result(), {"store", "compute", "grad", "reduce", "opt_state"}) ==
          "store=B compute=B grad=B reduce=B opt_state=B");
    CHECK(found.has("W composer/no-master"));
    CHECK(found.has("I composer/mixed-precision-unread"));
    const Imported map(
        config(fmt::format("fsdp_config: {{mixed_precision: {{reduce_dtype: fp32}}}}, {}", low_weights)));
    CHECK(map.field("reduce") == "F");
    CHECK_FALSE(map.has("I composer/mixed-precision-unread"));
    const Imported param(
        config(fmt::format("fsdp_config: {{mixed_precision: {{param_dtype: fp32}}}}, {}", low_weights)));
    const configs::Finding* unread = find_rule(param.result(), "composer/mixed-precision-unread", 'I');
    REQUIRE(unread != nullptr);
    CHECK(unread->key == "fsdp_config.mixed_precision.param_dtype");
    CHECK(find_rule(found.result(), "composer/mixed-precision-unread")->key == "fsdp_config.mixed_precision");
}

TEST_CASE("amp_fp8 of Composer changes only layers of Transformer Engine", "[import][composer]") {
    const Asked h100{.device = "h100"};
    const Imported with(config("precision: amp_fp8, fsdp_config: {mixed_precision: DEFAULT}, model: {fc_type: te}"),
                        h100);
    CHECK(with.field("fp8") == "te_delayed");
    CHECK(with.part("fp8", "history") == "16");
    CHECK(with.part("fp8", "algorithm") == "max");
    CHECK(with.field("embed") == "B");
    const auto block = [&](const char* type) {
        return Imported(
            config(fmt::format("precision: amp_fp8, fsdp_config: {{mixed_precision: DEFAULT}}, model: {{ffn_config: "
                               "{{ffn_type: {}}}}}",
                               type)),
            h100);
    };
    CHECK(block("te_ln_mlp").field("fp8") == "te_delayed");
    CHECK(block("gated").field("fp8") == "none");
    CHECK(block("gated").has("W composer/fp8-without-layers"));
    const Imported without(config("precision: amp_fp8, fsdp_config: {mixed_precision: DEFAULT}"), h100);
    CHECK(without.field("fp8") == "none");
    CHECK(without.has("W composer/fp8-without-layers"));
}

TEST_CASE("Composer refuses, warns about and ignores these settings", "[import][composer]") {
    const std::string word = fsdp("amp_bf16", "LOW"), fp8 = config("precision: amp_fp8, model: {fc_type: te}"),
                      adaptive = config(
                          "fsdp_config: {}, algorithms: {gradient_clipping: {clipping_type: adaptive, "
                          "clipping_threshold: 0.1}}"),
                      adaptive_ddp = config(
                          "algorithms: {gradient_clipping: {clipping_type: adaptive, "
                          "clipping_threshold: 0.1}}"),
                      value = config("algorithms: {gradient_clipping: {clipping_type: value, clipping_threshold: 1}}"),
                      value_fsdp = config(
                          "fsdp_config: {}, algorithms: {gradient_clipping: {clipping_type: value, "
                          "clipping_threshold: 1}}"),
                      norm = config("algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1}}"),
                      scaled = config("precision: amp_fp16, model: {master_weights_dtype: float16}"),
                      unknown = config("learning_rat: 1"), amp = config("precision: amp_bf16"),
                      bare = "{max_duration: 1ep, precision: amp_fp16, own_key: 1}";
    check_triggers("composer",
                   {{word.c_str(), "", "a100", "composer/mixed-precision-word", 'E', true, "an unknown word"},
                    {amp.c_str(), "", "cpu", "composer/cpu-precision", 'E', true, "only fp32 on a CPU"},
                    {fp8.c_str(), "", "a100", "composer/fp8-unsupported", 'E', true, "no fp8 units"},
                    {fp8.c_str(), "", "h100", "composer/fp8-unsupported", 'E', false, "fp8 units"},
                    {fp8.c_str(), "", "h100", "composer/fp8-without-autocast", 'W', true, "fp32 around fp8"},
                    {adaptive.c_str(), "", "a100", "composer/adaptive-clip-with-fsdp", 'E', true, "ValueError"},
                    {adaptive_ddp.c_str(), "", "a100", "composer/adaptive-clip-with-fsdp", 'E', false, "DDP has it"},
                    {value.c_str(), "", "a100", "composer/other-clip", 'W', true, "element by element"},
                    {value_fsdp.c_str(), "", "a100", "composer/other-clip", 'W', true, "by the largest element"},
                    {adaptive_ddp.c_str(), "", "a100", "composer/other-clip", 'W', true, "unit by unit"},
                    {adaptive.c_str(), "", "a100", "composer/other-clip", 'W', false, "refused"},
                    {norm.c_str(), "", "a100", "composer/other-clip", 'W', false, "by norm"},
                    {scaled.c_str(), "", "a100", "composer/low-weights-under-scaler", 'E', true, "fp16 gradients"},
                    {unknown.c_str(), "", "a100", "composer/unknown-key", 'U', true, "no field of TrainConfig"},
                    {amp.c_str(), "", "v100", "composer/bf16-emulated", 'W', true, "no bf16 units"}});
    CHECK(Imported(unknown).result().refused());
    CHECK_FALSE(Imported(bare).result().refused());
    CHECK(Imported(norm).part("clip", "max") == "1");
    for (const std::string& other : {value, value_fsdp, adaptive_ddp}) {
        CAPTURE(other);
        const Imported found(other);
        CHECK(found.field("clip") == "none");
        const configs::Finding* finding = find_rule(found.result(), "composer/other-clip");
        REQUIRE(finding != nullptr);
        CHECK_FALSE(finding->not_emulated.empty());
    }
}

TEST_CASE("variables of llm-foundry are replaced as OmegaConf replaces them", "[import][composer]") {
    const Imported found("variables: {p: amp_fp16}\nmax_duration: 1ba\nprecision: ${variables.p}\n");
    CHECK(found.field("compute") == "H");
    CHECK_FALSE(found.result().refused());
}

}  // namespace import_composer_test
