// SPDX-License-Identifier: Apache-2.0
// Step: trains one model, one optimiser step at a time. Results are returned; no files are written.
#pragma once
#include "experiments/training/run/checkpoint.hpp"
#include "experiments/training/run/data/data.hpp"
#include "experiments/training/run/optimizer/optimizer.hpp"
#include "experiments/training/run/optimizer/ranks.hpp"
#include "experiments/training/run/watch/probe.hpp"
#include "experiments/training/run/watch/step_watcher.hpp"
#include "reports/rows/event.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

/// Returns the name of a run, such as `fp32/0` for the policy fp32 and seed 0.
std::string run_name(const std::string& policy, std::int64_t seed);

/// All inputs that determine the results of a run. The objects that it refers to must outlive the run.
struct RunSetup {
    const policy::ResolvedPolicy& policy;
    const policy::ResolvedPolicy& fp32;  ///< the policy of evaluations in fp32
    const ModelConfig& model;
    const TrainOptions& options;
    const Data& data;
    std::int64_t seed = 0;
    std::int64_t drawn = 0;  ///< samples drawn at a time, a multiple of options.batch; 0: options.batch
    const std::atomic<bool>* stop_now = nullptr;  ///< once set, forward/backward passes throw Abandoned; may be null

    std::string name() const { return run_name(policy.name, seed); }
    std::int64_t draws() const { return drawn > 0 ? drawn : options.batch; }
    /// Returns the number of samples that one rank processes in a micro-batch.
    std::int64_t rank_batch() const { return options.batch / options.ranks; }
    /// Returns the seed of the streams of random numbers.
    std::uint64_t stream_seed() const { return static_cast<std::uint64_t>(seed); }
    /// Returns the number of tokens that `steps` steps read.
    std::int64_t tokens(std::int64_t steps) const {
        return steps * options.micro_batches * options.batch * model.context;
    }
};

/// The data that a step records about its casts.
enum class Sampling : std::uint8_t {
    counts,      ///< totals over all casts of the step
    sites,       ///< totals, and the figures of each site
    histograms,  ///< totals, and the figures and the exponent histogram of each site
};
/// Returns which data the step number `step` of a run records.
Sampling sampling_of(const TrainOptions& options, std::int64_t step);

struct StepResult {
    std::int64_t step = 0;
    double loss = 0;         ///< mean of Loss::exact over the micro-batches of all ranks
    float loss_rounded = 0;  ///< mean of Loss::rounded over the micro-batches of all ranks
    float loss_scale = 1;    ///< of this step
    StepOutcome outcome{};
    double seconds = 0;
};

class Step {
  public:
    /// Initialises the weights of the model.
    Step(Backend& backend, const RunSetup& setup);
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

    /// Computes the gradients of all micro-batches of step `step`, then runs the optimiser. Steps must be run in order.
    /// Throws Abandoned if `stop_now` of the setup is set before the optimiser begins. The weights and the state of the
    /// optimiser are then unchanged.
    StepResult run(std::int64_t step, Sampling sampling);
    StepResult run(std::int64_t step) { return run(step, sampling_of(setup_.options, step)); }

    /// Returns the row of steps.csv for the step that was run last. `baseline_loss` is the loss of the fp32 run at this
    /// step.
    reports::StepRow row(const StepResult& result, std::optional<double> baseline_loss) const;
    /// Returns the probe of the step that was run last.
    const Probe& probe() const { return probe_; }

    /// Attaches a watcher, which observes all following steps. release() removes the watcher that was attached last.
    void attach(StepWatcher& watcher);
    void release();
    /// Returns the current observer of the casts, or null. A watcher that is attached next must forward all its calls
    /// to this observer.
    Observer* observer() { return model_.rounder().observer(); }

    /// Returns the factor by which the next step multiplies the loss before the backward pass. The gradients are
    /// divided by the same factor afterwards.
    double gradient_factor() const { return static_cast<double>(scaler_->scale()) * setup_.options.token_weight; }

    Transformer& model() { return model_; }
    const Optimizer& optimizer() const { return optimizer_; }
    const Ranks& ranks() const { return ranks_; }

    /// Stores the state of the optimiser, the loss scaler and the amax histories in `checkpoint`.
    void save(Checkpoint& checkpoint) const;
    /// Restores the state that save() stored. The checkpoint must have passed check_state().
    void load(const Checkpoint& checkpoint);

  private:
    Batch upload(std::int64_t part);
    void accumulate_gradients(StepResult& result);

    Backend& backend_;
    const RunSetup setup_;
    Transformer model_;
    std::unique_ptr<policy::LossScaler> scaler_;
    Probe probe_;
    Optimizer optimizer_;
    Ranks ranks_;
    TokenTensor tokens_, targets_;
    Batch drawn_;  ///< the samples that were drawn last; a micro-batch may be a part of them
    std::int64_t draw_ = -1;
    std::vector<StepWatcher*> watchers_;
};

}  // namespace macheps::training
