// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/probe.hpp"

#include "core/error.hpp"

namespace macheps::evidence {

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

}  // namespace macheps::evidence
