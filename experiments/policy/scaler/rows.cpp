// SPDX-License-Identifier: Apache-2.0
// The kinds of loss scaler. Each kind is defined in its own file, except none and static, which share constant.cpp.
#include "experiments/policy/scaler/scaler.hpp"

#include <algorithm>

namespace macheps::policy {

extern const ScalerKind apex_fp16_utils_scaler, apex_scaler, deepspeed_fused_scaler, deepspeed_zero_scaler,
    megatron_scaler, static_scaler, torch_scaler, torch_sharded_scaler;

namespace {

constexpr const ScalerKind* kinds[] = {&no_scaler,
                                       &static_scaler,
                                       &torch_scaler,
                                       &torch_sharded_scaler,
                                       &deepspeed_zero_scaler,
                                       &deepspeed_fused_scaler,
                                       &apex_scaler,
                                       &apex_fp16_utils_scaler,
                                       &megatron_scaler};

}  // namespace

std::span<const ScalerKind* const> scaler_kinds() { return kinds; }

const ScalerKind* find_scaler(std::string_view name) {
    const auto row = std::find_if(std::begin(kinds), std::end(kinds), [&](const auto* kind) {
        return kind->name == name || std::find(kind->aliases.begin(), kind->aliases.end(), name) != kind->aliases.end();
    });
    return row == std::end(kinds) ? nullptr : *row;
}

}  // namespace macheps::policy
