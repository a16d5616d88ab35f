// SPDX-License-Identifier: Apache-2.0
// StepDump: writes all values of one optimiser step to a safetensors file. Its tensors have names such as these:
//
//   tokens, targets                        I32 [micro-batches, batch, context]; with several ranks:
//                                          [ranks x micro-batches, batch / ranks, context]
//   block.0.mlp.up:forward.a               F32: the output of a slot in the last micro-batch (of the last rank). If the
//                                          tensor has a single scale, these are its codes before decoding
//   block.0.mlp.up:forward.a.decode_scale  F32: the factor that decodes these codes
//   block.0.mlp.up.weight:value            the value before the step; likewise :master, :moment1, :moment2
//   block.0.mlp.up.weight:grad             the gradient after the backward passes and the reduction over ranks. It is
//                                          still multiplied by the loss scale and the token weight
//   block.0.mlp.up.weight:grad.rank1       with several ranks: the gradient of rank 1 before the reduction
//   block.0.mlp.up.weight:grad.applied     the unscaled and clipped gradient, which the optimiser reads
//   block.0.mlp.up.weight:value.after      the value after the step; likewise :master.after and so on
//   loss_rounded, loss_scale, grad_norm    F32 scalars
//   loss, lr, beta1_power, beta2_power     F64 scalars; the last two are from before the step
//   skipped                                U8 scalar
//
// Metadata: manifest (the text of manifest.json), run, policy, seed, step, created_by, git. If a slot has a scale,
// `holds:NAME` says whether its array holds codes or decoded values. With several ranks, `buckets` lists the gradients
// that are reduced together as one vector, in their order: [["lm_head.weight", ...], ...].
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

/// Collects the values of one step in memory and writes them in write(). They take about ten times as much memory as
/// the activations that training keeps.
class StepDump final : public StepWatcher {
  public:
    /// Forwards everything that it receives to `next`, which may be null.
    StepDump(Backend& backend, Observer* next) : StepWatcher(next), backend_(backend) {}

    void on_batch(std::int64_t step, std::int64_t micro_batch, const Batch& batch) override;
    void on_rank(Transformer& model, std::int64_t rank) override;
    void on_gradients(Transformer& model) override { add_gradients(model, ""); }

    /// Adds the parameters and their optimiser state. Appends `ending` to each name.
    void add_state(const Optimizer& optimizer, const std::string& ending);
    void add_gradients(Transformer& model, const std::string& ending);
    template <class T>
    void add_scalar(const std::string& name, T value) {
        writer_.add(name, {}, std::span<const T>(&value, 1));
    }

    /// Writes the file. Throws Error if it cannot be written.
    void write(const std::filesystem::path& path, std::int64_t batch, std::int64_t context,
               const std::map<std::string, std::string>& metadata);

  private:
    /// If a slot is used several times (in another micro-batch, or for a second gradient of a tied weight), only its
    /// last values are kept.
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
