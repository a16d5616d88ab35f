// SPDX-License-Identifier: Apache-2.0
// Trains a tiny model for a few steps under a policy, or under the policy of a framework's config.
#pragma once
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/run/step.hpp"
#include "tests/configs/import_case.hpp"

#include <bit>
#include <map>
#include <string>
#include <vector>

namespace macheps::test {

inline training::ModelConfig tiny_model(training::ModelKind kind) {
    return {.kind = kind,
            .layers = 2,
            .width = 16,
            .heads = 2,
            .context = 8,
            .vocabulary = 24,
            .kv_heads = kind == training::ModelKind::llama ? 1 : 0,
            .tied = kind == training::ModelKind::gpt2};
}

/// Imports the text of a config and returns its policy. Checks that the framework does not refuse the config.
inline policy::Policy policy_of(std::string_view config, const Told& told) {
    const configs::ImportResult result = import_text(config, told);
    for (const configs::Finding& one : result.findings) {
        CAPTURE(one.rule, one.message);
        CHECK(severity(one) != configs::FindingSeverity::error);
    }
    CAPTURE(result.policy);
    return policy::parse_policy(result.policy, "config.yaml");
}

inline std::vector<float> values_of(Backend& backend, ConstView view) {
    std::vector<float> values(static_cast<std::size_t>(view.count()));
    backend.download(view, values);
    return values;
}

/// Rounds to bf16, to nearest with ties to even, by integer arithmetic on the bits.
inline float to_bf16(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

/// A model in training that a test can inspect between steps.
class TinyRun {
  public:
    explicit TinyRun(const policy::Policy& policy, training::ModelKind kind = training::ModelKind::gpt2,
                     training::TrainOptions options = tiny_options())
        : TinyRun(policy, tiny_model(kind), std::move(options)) {}
    TinyRun(const policy::Policy& policy, const training::ModelConfig& shape,
            training::TrainOptions options = tiny_options())
        : model(shape),
          sites(training::model_sites(model)),
          resolved(resolve(policy, sites)),
          fp32_policy(resolve(policy::load_policy("fp32"), sites)),
          run_options(training::options_under(policy.training, options)),
          data(model.vocabulary),
          step(backend, training::RunSetup{.policy = resolved,
                                           .fp32 = fp32_policy,
                                           .model = model,
                                           .options = run_options,
                                           .data = data,
                                           .seed = 0,
                                           .drawn = options.batch}) {}

    static training::TrainOptions tiny_options() {
        training::TrainOptions options;
        options.steps = 20;
        options.batch = 4;
        options.warmup = 0;
        options.probe_every = 0;
        return options;
    }

    training::StepResult next() { return step.run(next_step++, training::Sampling::counts); }
    std::vector<training::StepResult> run(int steps) {
        std::vector<training::StepResult> results;
        for (int i = 0; i < steps; ++i) results.push_back(next());
        return results;
    }

    /// Returns the tensors of a checkpoint by name: `parameter:value` and so on.
    std::map<std::string, std::vector<float>> state() const {
        training::Checkpoint checkpoint;
        step.save(checkpoint);
        std::map<std::string, std::vector<float>> all;
        for (const training::Checkpoint::State& tensor : checkpoint.state) all[tensor.name] = tensor.values;
        return all;
    }
    training::ParameterState& parameter(const std::string& name) {
        for (const auto& one : step.model().parameters()) {
            if (one->name == name) return *one;
        }
        FAIL("no parameter " + name);
        return *step.model().parameters().front();
    }
    std::vector<float> gradient(const std::string& name) { return values_of(backend, parameter(name).grad); }

    CpuBackend backend{1};
    training::ModelConfig model;
    policy::SiteList sites;
    policy::ResolvedPolicy resolved, fp32_policy;
    training::TrainOptions run_options;
    training::SyntheticLanguage data;
    training::Step step;
    std::int64_t next_step = 0;
};

}  // namespace macheps::test
