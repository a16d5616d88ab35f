// SPDX-License-Identifier: Apache-2.0
// Training steps: forward, backward, clip, AdamW. Unit of work: a token. The loss is checked before it is timed.
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/train/data.hpp"
#include "experiments/train/optimizer.hpp"

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace {

using namespace macheps;

/// A model ready to take steps on one batch, as the trainer takes them, without rows and evaluations.
struct Steps {
    Steps(const ModelSize& size, const char* policy_name, int threads)
        : backend(threads),
          policy(resolve(load_policy(policy_name), model_sites(size.model))),
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

/// The counter tokens_per_second is that of the fastest step, which other programs disturb least: one thread in its
/// own processor time, several in wall time.
void train_step(benchmark::State& state, const char* size_name, const char* policy) {
    const ModelSize& size = named_size(size_name);
    const int threads = static_cast<int>(state.range(0));
    Steps steps(size, policy, threads);
    const float first = steps.step();
    if (std::abs(first - std::log(static_cast<double>(size.model.vocabulary))) > 0.5) {
        state.SkipWithError("the first loss is not near log(vocabulary)");
        return;
    }
    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double fastest = std::numeric_limits<double>::infinity();
    for (auto _ : state) {
        const double start = seconds(clock);
        benchmark::DoNotOptimize(steps.step());
        const double each = seconds(clock) - start;
        state.SetIterationTime(each);
        fastest = std::min(fastest, each);
    }
    state.counters["tokens_per_second"] = static_cast<double>(size.batch * size.model.context) / fastest;
}

void register_all() {
    for (const char* size : {"tiny", "small", "base"}) {
        for (const char* policy : {"fp32", "amp-bf16", "fp8-tensorwise"}) {
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
