// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/memory.hpp"

#include <string>

namespace macheps {

MemoryEstimate estimate_memory(const SiteList& sites, const ResolvedPolicy& policy, std::int64_t batch, int moments) {
    const auto bytes = [&](const std::string& name, std::string_view slot, std::int64_t count) {
        return count * policy.cast(name + ":" + std::string(slot)).format.container_bits() / 8;
    };
    MemoryEstimate estimate;
    for (const auto& [name, count] : sites.parameters) {
        estimate.parameters += bytes(name, "value", count);
        estimate.gradients += bytes(name, "grad", count);
        estimate.optimizer += bytes(name, "moment1", count);
        if (moments > 1) estimate.optimizer += bytes(name, "moment2", count);
        if (policy.has_master(name)) estimate.master += bytes(name, "master", count);
    }
    for (const Site& site : sites.sites) {
        if (site.saved == 0) continue;
        estimate.activations += bytes(site.name, "forward.out", batch * site.saved);
        if (!site.saved_beside.empty()) estimate.activations += bytes(site.name, site.saved_beside, batch * site.saved);
    }
    return estimate;
}

}  // namespace macheps
