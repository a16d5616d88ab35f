// SPDX-License-Identifier: Apache-2.0
// The probes of instructions in a build without CUDA: their names, and why none runs.
#include "emulation/gpu/gpu.hpp"
#include "emulation/gpu/instruction_forms.hpp"
#include "emulation/gpu/instruction_probes.hpp"
#include "emulation/gpu/instruction_questions.hpp"

namespace macheps::gpu {

std::vector<ProbeGroup> instruction_probe_groups(int device) {
    const auto none = [device](const std::string&, double, const ProbeOptions&, const ProbeSink&) {
        (void)device_info(device);
    };
    ProbeGroup matrix{.kind = "matrix", .instructions = {}, .run = none},
        questions{.kind = "question", .instructions = {}, .run = none};
    for (int i = 0; i < instruction_forms; ++i) matrix.instructions.push_back(instruction_form(i).name());
    for (const Question& question : instruction_questions()) questions.instructions.push_back(question.name());
    return {matrix, questions};
}

}  // namespace macheps::gpu
