// SPDX-License-Identifier: Apache-2.0
// Measures training steps (forward, backward, gradient clipping, AdamW). Unit of work: one token. Before the steps are
// timed, the first loss is compared with log(vocabulary).
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/configs/import.hpp"
#include "experiments/policy/language/recipes.hpp"
#include "experiments/training/run/data/data.hpp"
#include "experiments/training/run/optimizer/optimizer.hpp"

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::configs;
using namespace macheps::training;

/// A policy that is imported from the config of a framework. `overrides` are the settings of that config.
struct BenchConfig {
    const char *name, *framework;
    std::vector<std::string> overrides;
};
const BenchConfig configs[] = {
    {"deepspeed-fp16",
     "deepspeed",
     {"fp16.enabled=true", "zero_optimization.stage=2", "data_types.grad_accum_dtype=fp32", "gradient_clipping=1.0"}},
    {"deepspeed-bf16", "deepspeed", {"bf16.enabled=true", "zero_optimization.stage=1", "gradient_clipping=1.0"}},
    {"fsdp",
     "torch",
     {"fsdp.param_dtype=bfloat16", "fsdp.reduce_dtype=float32", "fsdp.buffer_dtype=float32", "fused=true"}},
    {"transformers-bf16", "transformers", {"bf16=true", "fp16=false"}},
    {"transformers-fp16", "transformers", {"fp16=true", "bf16=false"}},
    {"torch-pure-bf16", "torch", {"autocast.enabled=false", "model_dtype=bfloat16"}},
    {"torch-cpu-bf16", "torch", {"autocast.dtype=bfloat16", "autocast.device_type=cpu"}},
    {"apex-o1", "apex", {"opt_level=O1"}},
    {"apex-o2", "apex", {"opt_level=O2"}},
    {"nanogpt-fp16", "nanogpt", {"dtype=float16", "device=cuda"}},
    {"accelerate-bf16", "accelerate", {"compute_environment=LOCAL_MACHINE", "mixed_precision=bf16"}},
    {"llamafactory-pure-bf16",
     "llamafactory",
     {"stage=pt", "do_train=true", "finetuning_type=full", "use_galore=true", "pure_bf16=true"}},
    {"axolotl-bf16", "axolotl", {"base_model=my/model", "bf16=true", "micro_batch_size=1"}},
    {"longspec-fp16", "longspec", {"fp16=true", "ds_cfg.bf16.enabled=false", "ds_cfg.fp16.enabled=true"}},
    {"megatron-bf16", "megatron", {"bf16=true"}},
};

/// A recipe whose linear layers run on an emulated matrix unit. All other matmuls of the model stay on fp32.chain. The
/// name of the row is, for example, `te-mxfp8@sm100.tcgen05.mxfp8`.
struct RecipeOnMachine {
    const char *recipe, *machine,
        *weight_grad = nullptr;  ///< machine of weight-gradient matmuls, if it differs from `machine`
};
const RecipeOnMachine recipes_on_machines[] = {
    {"te-delayed", "sm90.wgmma.fp8"},
    {"te-current", "sm90.wgmma.fp8"},
    {"te-block", "sm90.wgmma.fp8"},
    {"te-mxfp8", "sm90.wgmma.fp8"},
    {"ao-tensorwise", "sm90.wgmma.fp8"},
    {"ao-rowwise", "sm90.wgmma.fp8"},
    {"ao-rowwise-gw-hp", "sm90.wgmma.fp8", "sm90.wgmma.bf16"},
    {"ao-mxfp8-rceil", "sm90.wgmma.fp8"},
    {"mx-microxcaling", "sm90.wgmma.fp8"},
    {"e5m2-direct", "sm90.wgmma.fp8"},
    {"te-delayed", "sm100.tcgen05.fp8"},
    {"te-current", "sm100.tcgen05.fp8"},
    {"te-block", "sm100.tcgen05.fp8"},
    {"te-mxfp8", "sm100.tcgen05.mxfp8"},
    {"te-nvfp4", "sm100.tcgen05.nvfp4"},
    {"ao-tensorwise", "sm100.tcgen05.fp8"},
    {"ao-rowwise", "sm100.tcgen05.fp8"},
    {"ao-rowwise-gw-hp", "sm100.tcgen05.fp8", "sm100.tcgen05.bf16"},
    {"ao-mxfp8-rceil", "sm100.tcgen05.mxfp8"},
    {"ao-mxfp8-floor", "sm100.tcgen05.mxfp8"},
    {"ao-mxfp8-even", "sm100.tcgen05.mxfp8"},
    {"ao-mxfp8-ceil", "sm100.tcgen05.mxfp8"},
    {"mx-microxcaling", "sm100.tcgen05.mxfp8"},
    {"e5m2-direct", "sm100.tcgen05.fp8"},
};
std::string name_of(const RecipeOnMachine& row) { return std::string(row.recipe) + "@" + row.machine; }

Policy policy_of(const RecipeOnMachine& row) {
    const auto key = [](const char* matmul, const char* machine) {
        return std::string(matmul) + " = { machine = \"" + machine + "\" }\n";
    };
    return parse_policy("extends = \"" + std::string(row.recipe) +
                            "\"\n[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.gate,mlp.up,mlp.down}\"\n" +
                            key("forward", row.machine) + key("input_grad", row.machine) +
                            key("weight_grad", row.weight_grad != nullptr ? row.weight_grad : row.machine),
                        name_of(row));
}

Policy policy_called(const std::string& name) {
    for (const RecipeOnMachine& row : recipes_on_machines) {
        if (name == name_of(row)) return policy_of(row);
    }
    for (const BenchConfig& config : configs) {
        if (name != config.name) continue;
        ImportOptions options;
        options.framework = config.framework;
        options.policy_name = name;
        return parse_policy(import_config(config.overrides, options).policy, name);
    }
    return load_policy(name);
}

/// A model that takes training steps on one batch. Unlike the trainer, it does not evaluate the model or write output.
struct Steps {
    Steps(const ModelSize& size, const std::string& policy_name, int threads)
        : backend(threads),
          policy(resolve(policy_called(policy_name), model_sites(size.model))),
          options(options_under(policy.training, {})),
          model(backend, size.model, size.batch, policy, 0),
          scaler(make_loss_scaler(policy.loss_scaler)),
          tokens(backend.empty_tokens({size.batch, size.model.context})),
          targets(backend.empty_tokens({size.batch, size.model.context})) {
        model.initialise(0);
        optimizer = std::make_unique<Optimizer>(backend, policy, options, model, 0);
        const SyntheticLanguage language(size.model.vocabulary);
        const Batch batch = language.batch(Split::train, 0, 0, size.batch, size.model.context);
        backend.upload(batch.tokens, tokens);
        backend.upload(batch.targets, targets);
    }
    float step() {
        model.clear_gradients();
        model.rounder().begin(static_cast<std::uint32_t>(index), 0);
        const float loss = model.forward(tokens, targets).rounded;
        model.backward(static_cast<float>(scaler->scale()));
        model.end_micro_batch();
        model.rounder().histories().update();
        optimizer->step(index++, *scaler);
        return loss;
    }

    CpuBackend backend;
    ResolvedPolicy policy;
    TrainOptions options;
    Transformer model;
    std::unique_ptr<LossScaler> scaler;
    std::unique_ptr<Optimizer> optimizer;
    TokenTensor tokens, targets;
    std::int64_t index = 0;
};

double seconds(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Measures steps with `policy` and steps with the policy fp32 alternately. The counter tokens_per_second is the speed
/// of the fastest step of `policy`, because other programs disturb the fastest step least. The counter of_fp32 is the
/// time of that step divided by the time of the fastest fp32 step. One thread is measured in its own processor time,
/// several threads in wall time.
void train_step(benchmark::State& state, const char* size_name, const std::string& policy) {
    const ModelSize& size = named_size(size_name);
    const int threads = static_cast<int>(state.range(0));
    Steps steps(size, policy, threads);
    const float first = steps.step();
    if (std::abs(first - std::log(static_cast<double>(size.model.vocabulary))) > 0.5) {
        state.SkipWithError("the first loss is not near log(vocabulary)");
        return;
    }
    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const auto timed = [clock](Steps& one, double& fastest) {
        const double start = seconds(clock);
        benchmark::DoNotOptimize(one.step());
        const double each = seconds(clock) - start;
        fastest = std::min(fastest, each);
        return each;
    };
    Steps reference(size, "fp32", threads);
    reference.step();
    double fastest = std::numeric_limits<double>::infinity(), fastest_reference = fastest;
    for (auto _ : state) {
        timed(reference, fastest_reference);
        state.SetIterationTime(timed(steps, fastest));
    }
    state.counters["tokens_per_second"] = static_cast<double>(size.batch * size.model.context) / fastest;
    state.counters["of_fp32"] = fastest / fastest_reference;
}

void register_all() {
    std::vector<std::string> policies{"fp32",     "amp-bf16",   "fp8-tensorwise", "h100-fp8-fast", "h100-fp8-promoted",
                                      "b200-fp8", "b200-mxfp8", "b200-nvfp4"};
    for (const Recipe& recipe : all_recipes()) policies.emplace_back(recipe.name);
    for (const RecipeOnMachine& row : recipes_on_machines) policies.push_back(name_of(row));
    for (const BenchConfig& config : configs) policies.push_back(config.name);
    for (const char* size : {"tiny", "small", "base"}) {
        for (const std::string& policy : policies) {
            for (const int threads : {1, 2}) {
                benchmark::RegisterBenchmark((std::string("train_step/") + size + "/" + policy).c_str(), train_step,
                                             size, policy)
                    ->Arg(threads)
                    ->ArgName("threads")
                    ->UseManualTime()
                    ->Unit(benchmark::kMillisecond);
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    register_all();
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
