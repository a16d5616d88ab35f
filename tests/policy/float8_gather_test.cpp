// SPDX-License-Identifier: Apache-2.0
// Tests FSDP's float8 all-gather. Casting the shards must give the same codes as casting the whole weight. The cast
// must read the fp32 shards without rounding them to bf16 first. Policies that torchao refuses must be refused.
#include "core/error.hpp"
#include "core/math64.hpp"
#include "core/rng.hpp"
#include "tests/training/trained.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace float8_gather_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using test::policy_of;
using test::TinyRun;

namespace {

using Values = std::vector<float>;

/// Returns approximately normal random numbers. Each is the sum of twelve uniform numbers, minus 6.
Values normal(std::size_t count) {
    Values values(count);
    for (std::size_t i = 0; i < count; ++i) {
        double sum = -6;
        for (std::uint64_t k = 0; k < 12; ++k) sum += random_bits({3, 0, site_id("gather")}, 12 * i + k) * 0x1p-32;
        values[i] = static_cast<float>(sum);
    }
    return values;
}

/// Casts `x` to e4m3fn with one encode scale and returns the values of the codes.
Values cast(Backend& backend, const Values& x, float encode_scale) {
    const Tensor in = backend.empty({static_cast<std::int64_t>(x.size())}), out = backend.empty(in.shape());
    backend.upload(x, in);
    backend.cast(in, out, {.format = e4m3fn, .overflow = Overflow::saturate, .encode_scale = encode_scale});
    return test::values_of(backend, out);
}

float largest(Backend& backend, const Values& x) {
    const Tensor in = backend.empty({static_cast<std::int64_t>(x.size())});
    backend.upload(x, in);
    return backend.amax(in);
}

/// Returns torchao's encode scale for an amax, computed as in its source code: the amax is raised to at least 1e-12 in
/// fp64, and the quotient is rounded to fp32.
float scale_of(float amax) { return static_cast<float>(448.0 / std::max(double{amax}, 1e-12)); }

std::string fsdp(bool gathers) {
    return std::string(
               "{compute_environment: LOCAL_MACHINE, distributed_type: FSDP, mixed_precision: fp8, num_processes: 8, "
               "fp8_config: {backend: AO, enable_fsdp_float8_all_gather: ") +
           (gathers ? "true" : "false") +
           "}, fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false, fsdp_reshard_after_forward: "
           "true}}";
}

ModelConfig model() {
    return {
        .kind = ModelKind::gpt2, .layers = 2, .width = 32, .heads = 2, .context = 8, .vocabulary = 48, .hidden = 64};
}

std::vector<double> losses(const Policy& policy, std::int64_t ranks) {
    TrainOptions options = TinyRun::tiny_options();
    options.ranks = ranks;
    TinyRun run(policy, model(), options);
    std::vector<double> list;
    for (const StepResult& step : run.run(4)) list.push_back(step.loss);
    return list;
}

Policy with_gather(const std::string& recipe) {
    return parse_policy(
        "extends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}\"\nrecipe = \"" +
            recipe + "\"\nall_gather = \"fp8\"\n",
        "gather.toml");
}

}  // namespace

TEST_CASE("shards that are cast with their common scale have the same codes as the whole weight", "[policy][gather]") {
    CpuBackend backend(1);
    for (const float size : {1.0f, 1e-3f, 1e-14f, 0.0f}) {
        Values whole = normal(96 * 64);
        for (float& x : whole) x *= size;
        const Values expected = cast(backend, whole, scale_of(largest(backend, whole)));
        for (const std::size_t ranks : {1, 2, 4, 5}) {
            const std::size_t rows = (96 + ranks - 1) / ranks;  // FSDP splits the first axis
            std::vector<Values> shards;
            for (std::size_t at = 0; at < 96; at += rows) {
                const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at * 64);
                shards.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(std::min(rows, 96 - at) * 64));
            }
            float amax = 0;
            for (const Values& shard : shards) amax = std::max(amax, largest(backend, shard));
            Values gathered;
            for (const Values& shard : shards) {
                const Values codes = cast(backend, shard, scale_of(amax));
                gathered.insert(gathered.end(), codes.begin(), codes.end());
            }
            CAPTURE(size, ranks);
            CHECK(gathered == expected);
        }
    }
}

TEST_CASE("weights that are rounded to bf16 before they are gathered have different codes", "[policy][gather]") {
    CpuBackend backend(1);
    const Values whole = normal(256 * 256);
    Values low = whole;
    for (float& x : low) x = quantize(bf16, x, Round::nearest_even, Overflow::nonsaturate);
    const float scale = scale_of(largest(backend, whole));
    const Values once = cast(backend, whole, scale), twice = cast(backend, low, scale);
    int differ = 0;
    for (std::size_t i = 0; i < once.size(); ++i) differ += once[i] != twice[i] ? 1 : 0;
    CHECK(differ > 0.012 * 256 * 256);
    CHECK(differ < 0.016 * 256 * 256);
}

TEST_CASE("an all-gather in fp8 casts weights from their fp32 shards", "[policy][gather]") {
    const Policy gathers = policy_of(fsdp(true), {.framework = "accelerate"}),
                 copies = policy_of(fsdp(false), {.framework = "accelerate"});
    const SiteList sites = model_sites(model());
    const ResolvedPolicy with = resolve(gathers, sites), without = resolve(copies, sites);
    CHECK(to_string(with.cast("block.1.mlp.up.weight:value")) == "fp32");
    CHECK_FALSE(with.has_master("block.1.mlp.up.weight"));
    // Weights that are left out of fp8 and all biases are gathered in bf16.
    for (const char* parameter : {"block.0.attn.qkv.weight", "embed.token.weight", "block.1.mlp.up.bias"}) {
        CAPTURE(parameter);
        CHECK(to_string(with.cast(std::string(parameter) + ":value")) == "bf16");
        CHECK(with.has_master(parameter));
    }
    CHECK(to_string(without.cast("block.1.mlp.up.weight:value")) == "bf16");
    CHECK(without.has_master("block.1.mlp.up.weight"));
    for (const std::int64_t ranks : {1, 4}) {
        CAPTURE(ranks);
        const std::vector<double> gathered = losses(gathers, ranks);
        CHECK(gathered != losses(copies, ranks));
        // The same policy written by hand: the weights of the converted linears have no low-precision copies.
        Policy by_hand = copies;
        const Policy rule = parse_policy(
            "[[rule]]\nparams = "
            "\"{block.0.{attn.proj,mlp.up,mlp.down},block.1.{attn.qkv,attn.proj,mlp.up,mlp.down}}.weight\"\n"
            "value = \"fp32\"\n",
            "hand.toml");
        by_hand.rules.push_back(rule.rules.front());
        CHECK(gathered == losses(by_hand, ranks));
    }
}

TEST_CASE("an all-gather in fp8 requires tensorwise scaling, and never rounds the weight's scale to a power of two",
          "[policy][gather]") {
    const SiteList sites = model_sites(model());
    for (const char* recipe : {"ao-rowwise", "te-delayed", "te-block", "ao-mxfp8-rceil"}) {
        CAPTURE(recipe);
        try {
            resolve(with_gather(recipe), sites);
            FAIL("nothing was refused");
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find("torchao asserts tensorwise scaling") != std::string::npos);
            CHECK(std::string(error.what()).find("gather.toml:2:1") == 0);
        }
    }
    CHECK_NOTHROW(resolve(with_gather("ao-tensorwise"), sites));
    const ResolvedPolicy power = resolve(with_gather("ao-tensorwise:ao_fp8_power"), sites);
    CHECK(to_string(power.cast("block.0.mlp.up:forward.a")) == "e4m3fn/tensor:ao_fp8_power");
    CHECK(to_string(power.cast("block.0.mlp.up:forward.b")) == "e4m3fn/tensor");
    CHECK(to_string(power.cast("block.0.mlp.up:input_grad.b")) == "e4m3fn/tensor");
    try {
        parse_policy("[[rule]]\nsites = \"lm_head\"\nall_gather = \"bf16\"\nforward = { a = \"bf16\" }\n", "g.toml");
        FAIL("nothing was refused");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("unknown format of an all-gather 'bf16'") != std::string::npos);
    }
}

}  // namespace float8_gather_test
