// SPDX-License-Identifier: Apache-2.0
// StepDump: every number of one optimiser step, by name, as a safetensors file.
//
//   tokens, targets                        I32 [micro-batches, batch, context]; with ranks:
//                                          [ranks x micro-batches, batch / ranks, context]
//   block.0.mlp.up:forward.a               F32: the values that left each slot in the last micro-batch (of the last
//                                          rank). If one scale serves the tensor: the numbers of its codes, without
//                                          the scale
//   block.0.mlp.up:forward.a.decode_scale  ... and the factor that undoes that scale
//   block.0.mlp.up.weight:value            before the step; the same for :master, :moment1, :moment2
//   block.0.mlp.up.weight:grad             after the backward passes and the reduction over ranks: times loss scale and
//                                          token weight
//   block.0.mlp.up.weight:grad.rank1       ... of one of several ranks, before the reduction
//   block.0.mlp.up.weight:grad.applied     unscaled and clipped: read by the optimiser
//   block.0.mlp.up.weight:value.after      after the step; the same for the others
//   loss_rounded, loss_scale, grad_norm    F32 scalars; loss, lr, beta1_power, beta2_power (before the step): F64;
//                                          skipped: U8
//
// Metadata: manifest (the text of manifest.json), run, policy, seed, step, created_by, git. For each array of a slot
// with a scale, `holds:NAME` says whether it holds the numbers of codes or values decoded from codes. With ranks,
// `buckets` lists the gradients that are reduced as one vector, in their order: [["lm_head.weight", ...], ...].
#pragma once
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/training/run/data/data.hpp"
#include "experiments/training/run/directory/dump_request.hpp"
#include "experiments/training/run/optimizer/optimizer.hpp"
#include "experiments/training/run/watch/step_watcher.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace macheps::training {

/// Collects one step. Everything is kept in memory until write(): about ten times the activations that training keeps.
class StepDump final : public StepWatcher {
  public:
    /// Forwards everything that it receives to `next`, which may be null.
    StepDump(Backend& backend, Observer* next) : StepWatcher(next), backend_(backend) {}

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) override;
    void on_rank(Transformer& model, std::int64_t rank) override;
    void on_gradients(Transformer& model) override { add_gradients(model, ""); }

    /// Adds the parameters and their optimiser state. `ending` is appended to each name.
    void add_state(const Optimizer& optimizer, const std::string& ending);
    void add_gradients(Transformer& model, const std::string& ending);
    template <class T>
    void add_scalar(const std::string& name, T value) {
        writer_.add(name, {}, std::span<const T>(&value, 1));
    }

    /// Writes the file. Throws Error if that fails.
    void write(const std::filesystem::path& path, std::int64_t batch, std::int64_t context,
               const std::map<std::string, std::string>& metadata);

  private:
    /// If a slot occurs again (in another micro-batch, or for a second gradient of a tied weight), only the last values
    /// are kept.
    void take(const Slot& slot, ConstView values, float decode_scale) override;

    struct Captured {
        std::string name;
        std::vector<std::int64_t> shape;
        std::vector<float> values;
    };
    Captured& entry(const std::string& name);
    void add(const std::string& name, ConstView values);

    Backend& backend_;
    std::vector<Captured> captured_;
    std::map<std::string, std::size_t> index_;
    std::map<std::string, std::string> holds_;
    std::vector<std::int32_t> tokens_, targets_;
    files::SafetensorsWriter writer_;
};

}  // namespace macheps::training
