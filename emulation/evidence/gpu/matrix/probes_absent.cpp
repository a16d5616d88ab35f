// SPDX-License-Identifier: Apache-2.0
// The probes of matrix instructions in a build without CUDA. They can be listed, but running one throws Error
// (no_device).
#include "emulation/evidence/gpu/matrix/forms.hpp"
#include "emulation/evidence/gpu/matrix/probes.hpp"
#include "emulation/evidence/gpu/matrix/questions.hpp"
#include "emulation/evidence/gpu/matrix/sparse_forms.hpp"
#include "emulation/gpu/gpu.hpp"

namespace macheps::evidence {

/// Returns a group of probes with an empty list of instructions, which the caller fills. Running one of the probes
/// throws Error (no_device).
static evidence::ProbeGroup absent_group(const char* kind, int device) {
    const auto none = [device](const std::string&, double, const evidence::ProbeOptions&, const evidence::ProbeSink&) {
        (void)gpu::device_info(device);
    };
    return {.kind = kind, .instructions = {}, .run = none};
}

std::vector<evidence::ProbeGroup> instruction_probe_groups(int device) {
    evidence::ProbeGroup matrix = absent_group("matrix", device), questions = absent_group("question", device);
    for (int i = 0; i < instruction_forms; ++i) matrix.instructions.push_back(instruction_form(i).name());
    matrix.is_variant = is_variant_form;
    for (const Question& question : instruction_questions()) questions.instructions.push_back(question.name());
    return {matrix, questions};
}

std::vector<evidence::ProbeGroup> sparse_probe_groups(int device) {
    evidence::ProbeGroup group = absent_group("sparse", device);
    for (int i = 0; i < sparse_forms; ++i) group.instructions.push_back(sparse_name(dense_form(i)));
    return {group};
}

}  // namespace macheps::evidence
