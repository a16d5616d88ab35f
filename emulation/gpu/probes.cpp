// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/probes.hpp"

#include "emulation/gpu/instruction_probes.hpp"
#include "emulation/gpu/library_probes.hpp"
#include "emulation/gpu/scalar_probes.hpp"

namespace macheps::gpu {

std::vector<ProbeGroup> probe_groups(int device) {
    std::vector<ProbeGroup> groups = instruction_probe_groups(device);
    const auto append = [&](std::vector<ProbeGroup> more) {
        for (ProbeGroup& group : more) groups.push_back(std::move(group));
    };
    append(scalar_probe_groups(device));
    append(library_probe_groups(device));
    return groups;
}

}  // namespace macheps::gpu
