// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/gpu/probes.hpp"

#include "emulation/evidence/gpu/matrix/probes.hpp"
#include "emulation/evidence/gpu/scalar/probes.hpp"
#include "emulation/evidence/library/probes.hpp"

namespace macheps::evidence {

std::vector<evidence::ProbeGroup> probe_groups(int device) {
    std::vector<evidence::ProbeGroup> groups = instruction_probe_groups(device);
    const auto append = [&](std::vector<evidence::ProbeGroup> more) {
        for (evidence::ProbeGroup& group : more) groups.push_back(std::move(group));
    };
    append(sparse_probe_groups(device));
    append(scalar_probe_groups(device));
    append(library_probe_groups(device));
    return groups;
}

}  // namespace macheps::evidence
