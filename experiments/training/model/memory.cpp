// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/model/memory.hpp"

#include <string>

namespace macheps::training {

MemoryEstimate estimate_memory(const policy::SiteList& sites, const policy::ResolvedPolicy& policy, std::int64_t batch,
                               int moments, bool recomputes) {
    const auto bytes = [&](const std::string& name, std::string_view slot, std::int64_t count) {
        return count * policy.cast(name + ":" + std::string(slot)).format.container_bits() / 8;
    };
    const bool keeps_inputs = recomputes || policy.training.recompute.value_or(false);
    MemoryEstimate estimate;
    for (const auto& [name, count] : sites.parameters) {
        estimate.parameters += bytes(name, "value", count);
        estimate.gradients += bytes(name, "grad", count);
        estimate.optimizer += bytes(name, "moment1", count);
        if (moments > 1) estimate.optimizer += bytes(name, "moment2", count);
        if (policy.has_sum(name)) estimate.gradients += bytes(name, "accum", count);
        if (policy.has_master(name)) estimate.master += bytes(name, "master", count);
    }
    for (const policy::Site& site : sites.sites) {
        if (site.saved == 0) continue;
        // Only block inputs are kept. The first block reads the output of `embed`, every later block the output of the
        // previous `residual2`.
        if (keeps_inputs && site.name.starts_with("block.") && !site.name.ends_with(".residual2")) continue;
        estimate.activations += bytes(site.name, "forward.out", batch * site.saved);
        if (!site.saved_beside.empty()) estimate.activations += bytes(site.name, site.saved_beside, batch * site.saved);
    }
    return estimate;
}

double min_memory(const ModelConfig& config, std::int64_t batch, int moments, bool compares_gradients) {
    // Bytes that each layer takes for names, rules and small tensors. Even a small tensor takes a whole block of
    // memory. Measured on models with many thin layers.
    constexpr double beside_a_layer = 250e3;
    constexpr double value_bytes = sizeof(float);
    // Number of passes whose values are held: forward, backward, and the forward pass of the fp32 evaluation. The
    // comparison of gradients adds the backward pass of the fp32 copy.
    const double passes = compares_gradients ? 4 : 3;
    struct Counts {
        double parameters = 0, saved = 0;
    };
    const auto counts_of = [&](std::int64_t layers) {
        ModelConfig model = config;
        model.layers = layers;
        const policy::SiteList sites = model_sites(model);
        Counts counts;
        for (const policy::Parameter& parameter : sites.parameters)
            counts.parameters += static_cast<double>(parameter.count);
        for (const policy::Site& site : sites.sites) counts.saved += static_cast<double>(site.saved);
        return counts;
    };
    // All layers have the same size, so each further layer adds the difference between a model of two layers and a
    // model of one.
    const Counts one = counts_of(1), two = counts_of(2);
    const auto layers = static_cast<double>(config.layers);
    const double parameters = one.parameters + (layers - 1) * (two.parameters - one.parameters);
    const double saved = one.saved + (layers - 1) * (two.saved - one.saved);
    // Tensors per parameter: value, gradient, the value that is evaluated in fp32, the moments, and the gradient of the
    // fp32 copy if gradients are compared.
    const double copies = 3 + moments + (compares_gradients ? 1 : 0);
    return value_bytes * (copies * parameters + passes * static_cast<double>(batch) * saved) + beside_a_layer * layers;
}

}  // namespace macheps::training
