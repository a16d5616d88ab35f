// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/directory/site_hash.hpp"

#include "emulation/definitions.hpp"
#include "experiments/training/run/checkpoint.hpp"

#include <fmt/format.h>

namespace macheps::training {

void SiteHasher::take(const Slot& slot, ConstView values, float decode_scale) {
    add(slot.name, values.count(), backend_.bit_hash(values));
    if (decode_scale != 1) add(slot.name + ".decode_scale", 1, definition::hash_term(0, decode_scale));
}

void SiteHasher::add_gradients(Transformer& model, const std::string& ending) {
    for (const auto& parameter : model.parameters()) {
        add(parameter->name + ":grad" + ending, parameter->grad.count(), backend_.bit_hash(parameter->grad));
    }
}

void SiteHasher::add_update(Transformer& model, const Optimizer& optimizer) {
    add_gradients(model, ".applied");
    Checkpoint state;
    optimizer.save(state);
    for (const Checkpoint::State& tensor : state.state) {
        std::uint64_t hash = 0;
        for (std::size_t i = 0; i < tensor.values.size(); ++i) {
            hash += definition::hash_term(static_cast<std::int64_t>(i), tensor.values[i]);
        }
        add(tensor.name, static_cast<std::int64_t>(tensor.values.size()), hash);
    }
}

void SiteHasher::add(const std::string& site, std::int64_t count, std::uint64_t hash) {
    rows_.append({.run = run_,
                  .step = step_,
                  .micro_batch = micro_batch_,
                  .site = site,
                  .count = static_cast<std::uint64_t>(count),
                  .hash = fmt::format("{:016x}", hash)});
}

}  // namespace macheps::training
