// SPDX-License-Identifier: Apache-2.0
// SiteHasher: writes a hash of the bits of every tensor of every step, in the order of execution. Two runs that should
// be equal can then be compared with diff.
#pragma once
#include "experiments/training/run/optimizer/optimizer.hpp"
#include "experiments/training/run/watch/step_watcher.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <string>

namespace macheps::training {

class SiteHasher final : public StepWatcher {
  public:
    /// Writes rows to `rows`, which must outlive this object. Everything that this object receives is forwarded to
    /// `next`, which may be null.
    SiteHasher(Backend& backend, std::string run, reports::CsvWriter<reports::HashRow>& rows, Observer* next)
        : StepWatcher(next), backend_(backend), run_(std::move(run)), rows_(rows) {}

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch&) override {
        step_ = step, micro_batch_ = micro_batch;
    }
    void on_gradients(Transformer& model) override { add_gradients(model, ""); }
    /// Adds hashes of the results of a step: the gradients that the optimiser applied, the parameters, and their
    /// optimiser state.
    void add_update(Transformer& model, const Optimizer& optimizer);

  private:
    /// Hashes the values without their decode scale. A decode scale that is not 1 has a separate row.
    void take(const Slot& slot, ConstView values, float decode_scale) override;
    /// Adds a hash of the gradient of every parameter. The name of the hash is the parameter's name, `:grad` and
    /// `ending`, as in `block.0.mlp.up.weight:grad.applied`.
    void add_gradients(Transformer& model, const std::string& ending);
    void add(const std::string& site, std::int64_t count, std::uint64_t hash);

    Backend& backend_;
    std::string run_;
    reports::CsvWriter<reports::HashRow>& rows_;
    std::int64_t step_ = 0, micro_batch_ = 0;
};

}  // namespace macheps::training
