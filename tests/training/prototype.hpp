// SPDX-License-Identifier: Apache-2.0
// Reconstructs the prototype that gave the figures in sections 10.2 and 10.3 of the specification fp8-recipes: the
// model T128, the language, the training steps, and the precision outside a recipe. The linears in the blocks read and
// return bf16. Their weight gradients stay in fp32, and all other sites are fp32.
#pragma once
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/run/step.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

namespace macheps::test {

/// The prototype's language (fp8-recipes 9). A token is one of four successors of the previous token with probability
/// 0.45, the first successor of the token before that with probability 0.40, and otherwise any token. The first two
/// tokens of a sample may be any. Each seed has its own table of successors.
class PrototypeLanguage final : public training::Data {
  public:
    explicit PrototypeLanguage(std::int64_t seed) {
        std::mt19937 random(static_cast<std::uint32_t>(seed));
        for (std::int32_t& token : successors_) token = static_cast<std::int32_t>(random() % 64);
    }
    training::Batch batch(training::Split split, std::uint64_t seed, std::uint32_t step, std::int64_t batch,
                          std::int64_t context) const override {
        std::seed_seq words{static_cast<std::uint32_t>(split == training::Split::train ? 1 : 2),
                            static_cast<std::uint32_t>(seed), step};
        std::mt19937 random(words);
        training::Batch made;
        for (std::int64_t sample = 0; sample < batch; ++sample) {
            std::int32_t before = 0, last = 0;
            for (std::int64_t t = 0; t <= context; ++t) {
                const std::uint32_t choice = random() % 100, word = random();
                std::int32_t next = static_cast<std::int32_t>(word % 64);
                if (t >= 2 && choice < 45) {
                    next = successors_[static_cast<std::size_t>(last * 4) + word % 4];
                } else if (t >= 2 && choice < 85) {
                    next = successors_[static_cast<std::size_t>(before * 4)];
                }
                if (t < context) made.tokens.push_back(next);
                if (t >= 1) made.targets.push_back(next);
                before = last;
                last = next;
            }
        }
        made.entropy_floor = std::nan("");
        return made;
    }
    std::int64_t vocabulary() const override { return 64; }
    std::string describe() const override { return "the prototype's language"; }

  private:
    std::array<std::int32_t, 256> successors_{};  ///< [64, 4]
};

// --- policies

inline const std::string prototype_linears = "[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}\"\n";

/// Returns the prototype's policy with a recipe and with the lines `more` for the same sites. If `recipe` is empty, the
/// policy has no recipe.
inline policy::Policy prototype(const std::string& recipe, const std::string& more = "") {
    std::string text = "extends = \"fp32\"\n" + prototype_linears +
                       "forward     = { in = \"bf16\", a = \"bf16\", b = \"bf16\", bias = \"bf16\", out = \"bf16\" }\n"
                       "grad        = { in = \"bf16\" }\n"
                       "input_grad  = { a = \"bf16\", b = \"bf16\", out = \"bf16\" }\n"
                       "weight_grad = { a = \"bf16\", b = \"bf16\" }\n";
    if (!recipe.empty()) text += prototype_linears + "recipe = \"" + recipe + "\"\n";
    if (!more.empty()) text += prototype_linears + more;
    // torchao returns weight gradients in bf16 and adds a bias to the rounded product. Some sums are then exactly zero
    // that would otherwise be small numbers, which could underflow. With every recipe, the prototype keeps weight
    // gradients in fp32 and adds the bias in fp32 before it rounds.
    return policy::parse_policy(
        text + prototype_linears + "forward = { bias_after = false }\nweight_grad = { out = \"fp32\" }\n",
        "prototype " + recipe);
}

/// Returns a policy with the cast `gradient` for gradients, and the cast `text` for all other operands of the three
/// matmuls.
inline policy::Policy prototype_all_by(const std::string& text, const std::string& gradient) {
    const auto key = [](const char* matmul, const std::string& a, const std::string& b) {
        return std::string(matmul) + " = { a = \"" + a + "\", b = \"" + b + "\" }\n";
    };
    return prototype(
        "", key("forward", text, text) + key("input_grad", gradient, text) + key("weight_grad", gradient, text));
}

inline policy::Policy current_with_e4m3() {
    return prototype("te-current",
                     "input_grad = { a = \"e4m3fn/tensor:te_current\" }\n"
                     "weight_grad = { a = \"e4m3fn/tensor:te_current\" }\n");
}
inline policy::Policy nvfp4_without_stochastic() {
    return prototype("te-nvfp4",
                     "input_grad = { a = \"e2m1fn/nvfp4\" }\nweight_grad = { a = \"e2m1fn/nvfp4:hadamard\" }\n");
}
inline policy::Policy nvfp4_without_hadamard() {
    return prototype("te-nvfp4",
                     "weight_grad = { a = \"e2m1fn/nvfp4:stochastic:random_bits=8\", b = \"e2m1fn/nvfp4\" }\n");
}
inline policy::Policy nvfp4_with_flat_weights() {
    return prototype("te-nvfp4", "forward = { b = \"e2m1fn/nvfp4\" }\ninput_grad = { b = \"e2m1fn/nvfp4\" }\n");
}
inline policy::Policy nvfp4_plain() { return prototype_all_by("e2m1fn/nvfp4", "e2m1fn/nvfp4"); }
inline policy::Policy mxfp4(const std::string& rule, bool stochastic) {
    const std::string text = "e2m1fn/mx32:" + rule;
    return prototype_all_by(text, stochastic ? text + ":stochastic:random_bits=8" : text);
}

// --- runs

inline training::ModelConfig t128() {
    return {.layers = 2,
            .width = 128,
            .heads = 4,
            .context = 64,
            .vocabulary = 64,
            .hidden = 512,
            .tied = false,
            .activation = elementwise::GeluTanh{}};
}

inline training::TrainOptions t128_options() {
    training::TrainOptions o;
    o.steps = 300;
    o.batch = 16;
    o.lr = o.min_lr = 2e-3;
    return o;
}

/// T128 under a policy. The seed determines the weights, the table of the language, and the batches.
struct PrototypeRun {
    PrototypeRun(const policy::Policy& policy, std::int64_t seed)
        : data(seed),
          sites(training::model_sites(model)),
          resolved(resolve(policy, sites)),
          fp32(resolve(policy::load_policy("fp32"), sites)),
          options(training::options_under(policy.training, t128_options())),
          setup{.policy = resolved,
                .fp32 = fp32,
                .model = model,
                .options = options,
                .data = data,
                .seed = seed,
                .drawn = options.batch},
          step(backend, setup) {}

    PrototypeLanguage data;
    CpuBackend backend{1};
    training::ModelConfig model = t128();
    policy::SiteList sites;
    policy::ResolvedPolicy resolved, fp32;
    training::TrainOptions options;
    training::RunSetup setup;
    training::Step step;
};

}  // namespace macheps::test
