// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/probe/probes.hpp"

#include "emulation/gpu/probe/library/probes.hpp"
#include "emulation/gpu/probe/matrix/probes.hpp"
#include "emulation/gpu/probe/scalar/probes.hpp"

namespace macheps::gpu {

std::vector<verify::ProbeGroup> probe_groups(int device) {
    std::vector<verify::ProbeGroup> groups = instruction_probe_groups(device);
    const auto append = [&](std::vector<verify::ProbeGroup> more) {
        for (verify::ProbeGroup& group : more) groups.push_back(std::move(group));
    };
    append(sparse_probe_groups(device));
    append(scalar_probe_groups(device));
    append(library_probe_groups(device));
    return groups;
}

}  // namespace macheps::gpu
