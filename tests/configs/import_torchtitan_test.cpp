// SPDX-License-Identifier: Apache-2.0
// Tests imports of torchtitan's configs: the choice between FSDP and autocast, full bf16, and converters to 8 bits. The
// configs are written in YAML, which gives the same tree as TOML.
#include "tests/configs/imported.hpp"

namespace import_torchtitan_test {

using namespace macheps;
using namespace macheps::test;

namespace {

constexpr const char* model = "model: {name: llama3, flavor: 8B}\n";

std::string config(std::string_view rest) { return fmt::format("{}{}\n", model, rest); }
/// Returns a config with a converter and its section.
std::string converted(std::string_view converter, std::string_view section) {
    return fmt::format("model: {{flavor: 8B, converters: [{}]}}\n{}\n", converter, section);
}

}  // namespace

TEST_CASE("torchtitan's parallelism decides whether FSDP or autocast lowers the precision", "[import][torchtitan]") {
    const auto [text, expected] = GENERATE(table<const char*, const char*>({
        {"training: {local_batch_size: 1}", "store=F compute=B oplist=none grad=F reduce=F opt_state=F embed=B"},
        {"parallelism: {data_parallel_shard_degree: 8}",
         "store=F compute=B oplist=none grad=F reduce=F opt_state=F embed=B"},
        {"parallelism: {data_parallel_shard_degree: 1}",
         "store=F compute=B oplist=torch-cuda grad=F reduce=F opt_state=F embed=F"},
        {"parallelism: {data_parallel_shard_degree: 1, context_parallel_degree: 2}",
         "store=F compute=B oplist=none grad=F reduce=F opt_state=F embed=B"},
        {"parallelism: {data_parallel_shard_degree: 1, tensor_parallel_degree: 2}",
         "store=F compute=F oplist=none grad=F reduce=F opt_state=F embed=F"},
        {"training: {mixed_precision_param: float32}",
         "store=F compute=F oplist=none grad=F reduce=F opt_state=F embed=F"},
        {"training: {dtype: bfloat16}", "store=B compute=B oplist=none grad=B reduce=F opt_state=B embed=B"},
        {"training: {dtype: bfloat16}\nparallelism: {data_parallel_shard_degree: 1}",
         "store=B compute=B oplist=torch-cuda grad=B reduce=B opt_state=B embed=B"},
    }));
    CAPTURE(text);
    const Imported found(config(text));
    CHECK(found.result().framework->name == "torchtitan");
    CHECK(fields_of(found.result(), {"store", "compute", "oplist", "grad", "reduce", "opt_state", "embed"}) ==
          expected);
    CHECK(found.field("scaler") == "none");
    CHECK(found.field("buffers") == "F");
    CHECK(found.field("logits") == "F");
    CHECK(found.field("clip") == "torch");
    CHECK(found.has("W torchtitan/no-master") == (found.field("store") == "B"));
    CHECK(found.has("W torchtitan/no-mixed-precision") == (std::string_view(text).find("tensor") != std::string::npos));
    CHECK_FALSE(found.result().refused());
}

TEST_CASE("torchtitan computes in 8 bits only if a converter is named", "[import][torchtitan]") {
    const auto [converter, section, version, device, fp8,
                recipe] = GENERATE(table<const char*, const char*, const char*, const char*, const char*, const char*>({
        {"quantize.linear.float8", "", "", "h100", "ao_tensorwise all_gather=false", "\"ao-tensorwise\""},
        {"quantize.linear.float8", "quantize: {linear: {float8: {recipe_name: rowwise}}}", "", "h100",
         "ao_rowwise all_gather=false", "\"ao-rowwise\""},
        {"quantize.linear.float8", "quantize: {linear: {float8: {recipe_name: rowwise_with_gw_hp}}}", "", "h100",
         "ao_rowwise_with_gw_hp all_gather=false", "\"ao-rowwise-gw-hp\""},
        {"quantize.linear.float8",
         "quantize: {linear: {float8: {enable_fsdp_float8_all_gather: true, filter_fqns: [output]}}}", "", "h100",
         "ao_tensorwise all_gather=true filter=blocks", "\"ao-tensorwise\""},
        {"quantize.linear.float8", "quantize: {linear: {float8: {filter_fqns: [auto_filter_small_kn]}}}", "", "h100",
         "ao_tensorwise all_gather=false filter=torchao-auto-tensorwise", "\"ao-tensorwise\""},
        {"quantize.linear.float8",
         "quantize: {linear: {float8: {recipe_name: rowwise, filter_fqns: [auto_filter_small_kn]}}}", "", "h100",
         "ao_rowwise all_gather=false filter=torchao-auto-rowwise", "\"ao-rowwise\""},
        {"quantize.linear.mx", "", "", "b200", "ao_mxfp8_floor filter=blocks", "\"ao-mxfp8-floor\""},
        {"quantize.linear.mx", "quantize: {linear: {mx: {recipe_name: mxfp8_cublas_rceil}}}", "", "b200",
         "ao_mxfp8_rceil filter=blocks", "\"ao-mxfp8-rceil\""},
        {"float8", "float8: {recipe_name: rowwise}", "0.1.0", "h100", "ao_rowwise all_gather=false", "\"ao-rowwise\""},
        {"mx", "", "0.1.0", "b200", "ao_mxfp8_floor filter=blocks", "\"ao-mxfp8-floor\""},
        {"", "quantize: {linear: {float8: {recipe_name: rowwise}}}", "", "h100", "none", ""},
    }));
    CAPTURE(converter, section, version);
    const Imported found(converted(converter, section), {.version = version, .device = device});
    CHECK(field_of(found.result(), "fp8") == fp8);
    CHECK_FALSE(found.result().refused());
    if (*recipe == '\0') {
        CHECK(found.result().policy.find("recipe") == std::string::npos);
    } else {
        CHECK(found.result().policy.find(fmt::format("recipe      = {}", recipe)) != std::string::npos);
        // FSDP gathers bf16 weights, so the matmuls around fp8 are in bf16.
        CHECK(found.result().policy.find("extends     = \"pure-bf16\"") != std::string::npos);
    }
}

TEST_CASE("torchtitan refuses, warns about and ignores these settings", "[import][torchtitan]") {
    const std::string
        gather = converted("quantize.linear.float8",
                           "quantize: {linear: {float8: {recipe_name: rowwise, "
                           "enable_fsdp_float8_all_gather: true}}}"),
        old_gather = converted("float8", "float8: {recipe_name: rowwise, enable_fsdp_float8_all_gather: true}"),
        recompute = converted("float8", "float8: {recipe_name: rowwise, force_recompute_fp8_weight_in_bwd: true}"),
        plain = converted("quantize.linear.float8", ""),
        emulated = converted("quantize.linear.float8", "quantize: {linear: {float8: {emulate: true}}}"),
        compiled = converted("quantize.linear.float8",
                             "quantize: {linear: {float8: {emulate: true}}}\ncompile: {enable: true}"),
        loss_only = converted("quantize.linear.float8",
                              "quantize: {linear: {float8: {emulate: true}}}\ncompile: {enable: true, "
                              "components: [loss]}"),
        mx = converted("quantize.linear.mx", ""), old_name = converted("float8", ""), misspelt = converted("fp8", ""),
        asks = config("quantize: {linear: {float8: {enable_fsdp_float8_all_gather: true}}}"),
        filter = config("quantize: {linear: {float8: {filter_fqns: [output]}}}"),
        names = converted("quantize.linear.float8", "quantize: {linear: {float8: {filter_fqns: [attention.wk]}}}"),
        routers = converted("quantize.linear.float8", "quantize: {linear: {float8: {filter_fqns: [router.gate]}}}"),
        experts = converted("quantize.grouped_mm.float8", ""), half = config("training: {dtype: float16}"),
        low_sum = config("training: {mixed_precision_reduce: bfloat16}"),
        unknown = config("training: {precision: bf16}"),
        own = config("training: {precision: bf16}\njob: {custom_config_module: my.config}");
    check_triggers(
        "torchtitan",
        {{gather.c_str(), "", "h100", "torchtitan/recipe-and-all-gather", 'E', true, "an assert of float8.py"},
         {old_gather.c_str(), "torchtitan=0.1.0", "h100", "torchtitan/recipe-and-all-gather", 'E', true, "as in 0.2"},
         {recompute.c_str(), "torchtitan=0.1.0", "h100", "torchtitan/recipe-and-recompute", 'E', true, "an assert"},
         {plain.c_str(), "", "a100", "torchtitan/float8-unsupported", 'E', true, "8.0 is below 8.9"},
         {plain.c_str(), "", "h100", "torchtitan/float8-unsupported", 'E', false, "9.0"},
         {emulated.c_str(), "", "a100", "torchtitan/float8-unsupported", 'E', false, "emulated"},
         {compiled.c_str(), "", "a100", "torchtitan/float8-unsupported", 'E', true, "no emulation when compiled"},
         {loss_only.c_str(), "", "a100", "torchtitan/float8-unsupported", 'E', false, "only the loss is compiled"},
         {compiled.c_str(), "", "a100", "torchtitan/torch-compile", 'W', true, "compiled"},
         {loss_only.c_str(), "", "a100", "torchtitan/torch-compile", 'W', false, "only the loss is compiled"},
         {mx.c_str(), "", "h100", "torchtitan/mx-unsupported", 'E', true, "9.0 is below 10.0"},
         {mx.c_str(), "", "b200", "torchtitan/mx-unsupported", 'E', false, "10.0"},
         {old_name.c_str(), "", "h100", "torchtitan/converter-name", 'W', true, "renamed in 0.2.0"},
         {old_name.c_str(), "torchtitan=0.1.0", "h100", "torchtitan/converter-name", 'W', false, "its name in 0.1.0"},
         {plain.c_str(), "torchtitan=0.1.0", "h100", "torchtitan/unknown-converter", 'E', true, "not in 0.1.0"},
         {misspelt.c_str(), "", "h100", "torchtitan/unknown-converter", 'E', true, "no such converter"},
         {asks.c_str(), "", "h100", "torchtitan/float8-off", 'W', true, "asks for float8, but no converter"},
         {filter.c_str(), "", "h100", "torchtitan/float8-off", 'W', false, "asks for nothing"},
         {filter.c_str(), "", "h100", "torchtitan/float8-unused", 'I', true, "asks for nothing"},
         {plain.c_str(), "", "h100", "torchtitan/float8-unused", 'I', false, "no section"},
         {experts.c_str(), "", "h100", "torchtitan/experts", 'N', true, "only experts"},
         {routers.c_str(), "", "h100", "torchtitan/layer-names", 'N', false, "no routers in a dense model"},
         {names.c_str(), "", "h100", "torchtitan/layer-names", 'N', true, "no filter of macheps"},
         {half.c_str(), "", "h100", "torchtitan/no-such-choice", 'E', true, "no fp16"},
         {low_sum.c_str(), "", "h100", "torchtitan/no-such-choice", 'E', true, "sums only in fp32"},
         {unknown.c_str(), "", "h100", "torchtitan/unknown-key", 'U', true, "no field of Training"},
         {model, "", "v100", "torchtitan/bf16-emulated", 'W', true, "no bf16 units"},
         {model, "", "h100", "torchtitan/single-gpu", 'N', true, "the number of ranks is not in the config"}});
    CHECK(Imported(unknown).result().refused());
    CHECK_FALSE(Imported(own).result().refused());
    CHECK(
        Imported(config("training: {dtype: bfloat16}"), {.version = "0.1.0"}).has("U torchtitan/key-of-other-version"));
}

}  // namespace import_torchtitan_test
