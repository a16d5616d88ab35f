// SPDX-License-Identifier: Apache-2.0
// The frameworks, each defined in the file of its name; frameworks.cpp lists them.
#pragma once
#include "experiments/configs/framework.hpp"

namespace macheps::configs {

extern const Framework accelerate_framework;
extern const Framework apex_framework;
extern const Framework axolotl_framework;
extern const Framework deepspeed_framework;
extern const Framework llamafactory_framework;
extern const Framework longspec_framework;
extern const Framework megatron_framework;
extern const Framework nanogpt_framework;
extern const Framework torch_framework;
extern const Framework transformers_framework;

}  // namespace macheps::configs
