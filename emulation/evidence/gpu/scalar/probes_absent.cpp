// SPDX-License-Identifier: Apache-2.0
// The scalar probes in a build without CUDA. They can be listed, but running one throws Error (no_device).
#include "emulation/evidence/gpu/scalar/arithmetic_rows.hpp"
#include "emulation/evidence/gpu/scalar/convert_rows.hpp"
#include "emulation/evidence/gpu/scalar/function_rows.hpp"
#include "emulation/evidence/gpu/scalar/probes.hpp"
#include "emulation/evidence/gpu/scalar/tasks.hpp"
#include "emulation/gpu/gpu.hpp"

namespace macheps::evidence {

std::vector<evidence::ProbeGroup> scalar_probe_groups(int device) {
    const auto none = [device](const std::string&, double, const evidence::ProbeOptions&, const evidence::ProbeSink&) {
        (void)gpu::device_info(device);
    };
#define MACHEPS_SECOND(id, name, ...) name,
#define MACHEPS_THIRD(id, operands, name, ...) name,
    evidence::ProbeGroup convert{.kind = "convert",
                                 .instructions = {MACHEPS_CVT_SM80(MACHEPS_THIRD) MACHEPS_CVT_SM90(MACHEPS_THIRD)
                                                      MACHEPS_CVT_FUNCTIONS(MACHEPS_SECOND)},
                                 .run = none};
    evidence::ProbeGroup scalar{
        .kind = "scalar",
        .instructions = {MACHEPS_ARITHMETIC_FUNCTIONS(MACHEPS_SECOND) MACHEPS_ARITHMETIC_PTX(MACHEPS_SECOND)
                             MACHEPS_FUNCTIONS_SM80(MACHEPS_SECOND) MACHEPS_FUNCTIONS_SM90(MACHEPS_SECOND)
                                 MACHEPS_FUNCTIONS_CUDA(MACHEPS_SECOND)},
        .run = none};
#undef MACHEPS_SECOND
#undef MACHEPS_THIRD
    evidence::ProbeGroup math{.kind = "math", .instructions = {}, .run = none};
    for (const sweep::NamedTask& named : sweep::math_tasks()) math.instructions.push_back(named.name);
    return {convert, scalar, math};
}

}  // namespace macheps::evidence
