// SPDX-License-Identifier: Apache-2.0
// Tests the machine fp32.dequantised. It multiplies dequantised values, whereas other machines read codes and scales.
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/machine/table.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/layers.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace dequantised_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

std::vector<float> random_values(std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(normal(random));
    return values;
}

/// Results of a linear layer without a bias: the output Y = X W^T and the weight gradient dW = dY^T X. X [tokens, 128],
/// W [32, 128] and dY are random.
struct Products {
    std::vector<float> y, dw;
};

constexpr std::int64_t tokens = 48, in = 128, out = 32;

Products products(const std::string& recipe, const std::string& machine) {
    CpuBackend backend(1);
    std::string text = "[[rule]]\nsites = \"block.*.mlp.up\"\nrecipe = \"" + recipe + "\"\n";
    for (const char* group : {"forward", "input_grad", "weight_grad"}) {
        if (!machine.empty()) text += std::string(group) + " = { machine = \"" + machine + "\" }\n";
    }
    const ResolvedPolicy policy = resolve(parse_policy(text, "mine.toml"), model_sites({}));
    ParameterState weight(backend, policy, "block.0.mlp.up.weight", {out, in});
    backend.upload(random_values(out * in, 1), weight.value);
    Linear linear(backend, policy, "block.0.mlp.up", weight, nullptr);
    Rounder rounder(backend, 0);
    const Tensor x = backend.empty({tokens, in}), dy = backend.empty({tokens, out});
    backend.upload(random_values(tokens * in, 2), x);
    backend.upload(random_values(tokens * out, 3), dy);
    Products all{std::vector<float>(tokens * out), std::vector<float>(out * in)};
    backend.download(linear.forward(rounder, {x.view()}).view, all.y);
    Tensor dx;
    linear.backward(rounder, {dy.view()}, dx);
    backend.download(weight.grad, all.dw);
    return all;
}

/// Casts a tensor [rows, columns], and returns the decoded values. `cast` is the text of the cast in a policy file.
std::vector<float> decoded(const std::string& cast, const std::vector<float>& values, std::int64_t columns,
                           bool k_is_last) {
    CpuBackend backend(1);
    const CastRule rule = [&] {
        const auto text = "[[rule]]\nsites = \"block.*.mlp.up\"\nforward = { a = \"" + cast + "\" }";
        return resolve(parse_policy(text, "mine.toml"), model_sites({})).cast("block.0.mlp.up:forward.a");
    }();
    const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
    const ScaleGrid grid = scale_grid(*rule.granularity, k_is_last, rows, columns);
    const Tensor x = backend.empty({rows, columns}), codes = backend.empty({rows, columns}),
                 y = backend.empty({rows, columns});
    const Tensor scales = backend.empty({grid.rows, grid.columns});
    backend.upload(values, x);
    const ScaledResult made = backend.scaled_cast(x, codes, scales,
                                                  {.cast = {.format = rule.format, .overflow = rule.overflow},
                                                   .granularity = rule.granularity,
                                                   .rule = rule.scale_rule,
                                                   .k_is_last = k_is_last});
    backend.decode_groups(codes, made.scales, k_is_last, made.tensor.decode, y);
    std::vector<float> out_values(values.size());
    backend.download(y, out_values);
    return out_values;
}

}  // namespace

TEST_CASE("fp32.dequantised multiplies the values that codes and scales represent", "[experiments][recipe]") {
    struct Case {
        const char *recipe, *x, *w, *dy;
    };
    for (const Case& c :
         {Case{"te-mxfp8", "e4m3fn/mx32", "e4m3fn/mx32", "e4m3fn/mx32"},
          Case{"te-current", "e4m3fn/tensor:te_current", "e4m3fn/tensor:te_current", "e5m2/tensor:te_current"},
          Case{"te-block", "e4m3fn/1x128", "e4m3fn/128x128", "e4m3fn/1x128"}}) {
        CAPTURE(c.recipe);
        const Products found = products(c.recipe, "fp32.dequantised"), cut = products(c.recipe, "");
        const auto x = decoded(c.x, random_values(tokens * in, 2), in, true);
        const auto w = decoded(c.w, random_values(out * in, 1), in, true);
        const auto dy = decoded(c.dy, random_values(tokens * out, 3), out, false);
        const auto x_down = decoded(c.x, random_values(tokens * in, 2), in, false);
        int different = 0;
        for (std::int64_t i = 0; i < tokens; ++i) {
            for (std::int64_t j = 0; j < out; ++j) {
                float sum = 0;
                for (std::int64_t p = 0; p < in; ++p) {
                    sum =
                        std::fma(x[static_cast<std::size_t>(i * in + p)], w[static_cast<std::size_t>(j * in + p)], sum);
                }
                CHECK(found.y[static_cast<std::size_t>(i * out + j)] == sum);
                different += cut.y[static_cast<std::size_t>(i * out + j)] != sum ? 1 : 0;
            }
        }
        for (std::int64_t i = 0; i < out; ++i) {
            for (std::int64_t j = 0; j < in; ++j) {
                float sum = 0;
                for (std::int64_t p = 0; p < tokens; ++p) {
                    sum = std::fma(dy[static_cast<std::size_t>(p * out + i)],
                                   x_down[static_cast<std::size_t>(p * in + j)], sum);
                }
                CHECK(found.dw[static_cast<std::size_t>(i * in + j)] == sum);
            }
        }
        // Other machines apply scales after the sum, which rounds differently. The difference shows only if scales are
        // not powers of two, because short sums of fp8 products are exact.
        CHECK((different > tokens * out / 10) == (std::string(c.recipe) == "te-current"));
    }
}

TEST_CASE("fp32.dequantised is printed by its name, needs a linear layer, and refuses scales",
          "[experiments][recipe]") {
    const auto rule = [](const char* text) {
        return resolve(parse_policy(std::string("extends = \"amp-bf16\"\n[[rule]]\n") + text, "mine.toml"),
                       model_sites({}));
    };
    const ResolvedPolicy p =
        rule("sites = \"block.*.mlp.up\"\nrecipe = \"te-block\"\nforward = { machine = \"fp32.dequantised\" }");
    CHECK(to_string(p.matmul("block.0.mlp.up", "forward")) == "fp32.dequantised");
    CHECK(to_string(p.matmul("block.0.mlp.up", "input_grad")) == "fp32.chain, promote fma_joint 128");
    CHECK_THROWS_WITH(rule("sites = \"block.*.attn.scores\"\nforward = { a = \"e4m3fn/tensor\", b = \"e4m3fn/tensor\", "
                           "machine = \"fp32.dequantised\" }"),
                      Catch::Contains("only on linear layers"));
    const ScaleLayout rows = scale_layout(*find_granularity("row"));
    CHECK_THROWS_WITH(require_possible({.machine = find_machine("fp32.dequantised")}, {.a_scales = rows}, "here"),
                      Catch::Contains("reads values"));
}

}  // namespace dequantised_test
