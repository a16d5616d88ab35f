// SPDX-License-Identifier: Apache-2.0
// The probes of scalars in a build without CUDA: their names, and why none runs.
#include "emulation/gpu/gpu.hpp"
#include "emulation/gpu/probe/scalar/arithmetic_rows.hpp"
#include "emulation/gpu/probe/scalar/convert_rows.hpp"
#include "emulation/gpu/probe/scalar/function_rows.hpp"
#include "emulation/gpu/probe/scalar/probes.hpp"
#include "emulation/gpu/probe/scalar/tasks.hpp"

namespace macheps::gpu {

std::vector<verify::ProbeGroup> scalar_probe_groups(int device) {
    const auto none = [device](const std::string&, double, const verify::ProbeOptions&, const verify::ProbeSink&) {
        (void)device_info(device);
    };
#define MACHEPS_SECOND(id, name, ...) name,
#define MACHEPS_THIRD(id, operands, name, ...) name,
    verify::ProbeGroup convert{.kind = "convert",
                               .instructions = {MACHEPS_CVT_SM80(MACHEPS_THIRD) MACHEPS_CVT_SM90(MACHEPS_THIRD)
                                                    MACHEPS_CVT_FUNCTIONS(MACHEPS_SECOND)},
                               .run = none};
    verify::ProbeGroup scalar{
        .kind = "scalar",
        .instructions = {MACHEPS_ARITHMETIC_FUNCTIONS(MACHEPS_SECOND) MACHEPS_ARITHMETIC_PTX(MACHEPS_SECOND)
                             MACHEPS_FUNCTIONS_SM80(MACHEPS_SECOND) MACHEPS_FUNCTIONS_SM90(MACHEPS_SECOND)
                                 MACHEPS_FUNCTIONS_CUDA(MACHEPS_SECOND)},
        .run = none};
#undef MACHEPS_SECOND
#undef MACHEPS_THIRD
    verify::ProbeGroup math{.kind = "math", .instructions = {}, .run = none};
    for (const sweep::NamedTask& named : sweep::math_tasks()) math.instructions.push_back(named.name);
    return {convert, scalar, math};
}

}  // namespace macheps::gpu
