// SPDX-License-Identifier: Apache-2.0
#include "emulation/gpu/probe/probes.hpp"

#include "core/error.hpp"
#include "emulation/gpu/probe/library/probes.hpp"
#include "emulation/gpu/probe/matrix/probes.hpp"
#include "emulation/gpu/probe/scalar/probes.hpp"

namespace macheps::gpu {

std::vector<ProbeGroup> probe_groups(int device) {
    std::vector<ProbeGroup> groups = instruction_probe_groups(device);
    const auto append = [&](std::vector<ProbeGroup> more) {
        for (ProbeGroup& group : more) groups.push_back(std::move(group));
    };
    append(sparse_probe_groups(device));
    append(scalar_probe_groups(device));
    append(library_probe_groups(device));
    return groups;
}

std::vector<ProbeResult> run_probe(const ProbeGroup& group, const std::string& instruction, double seconds,
                                   const ProbeOptions& options) {
    std::vector<ProbeResult> rows;
    try {
        group.run(instruction, seconds, options, [&](const ProbeResult& row) { rows.push_back(row); });
    } catch (const Error& error) {
        if (error.exit() == Exit::no_device || error.exit() == Exit::cannot_write) throw;
        rows.push_back(
            {.kind = group.kind, .instruction = instruction, .verdict = Verdict::failed, .note = error.what()});
    }
    return rows;
}

}  // namespace macheps::gpu
