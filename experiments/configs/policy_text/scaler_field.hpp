// SPDX-License-Identifier: Apache-2.0
// Creates values of the config fields `scaler` and `clip`. A value has a kind, and parameters with the names that the
// policy language gives them.
#pragma once
#include "experiments/configs/resolved.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace macheps::configs {

inline FieldValue no_scaler_field() { return {.value = std::string("none"), .parts = {}}; }

/// Parameters of torch.amp.GradScaler, or of ShardedGradScaler of FSDP 1.
struct TorchScalerField {
    double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5, growth_interval = 2000;
    bool sharded = false;   ///< ShardedGradScaler of FSDP 1
    bool is_fused = false;  ///< a fused optimiser itself divides by the scale, unless unscale_ was called before
};
inline FieldValue torch_scaler_field(const TorchScalerField& scaler) {
    return {.value = std::string(scaler.sharded ? "torch-sharded" : "torch"),
            .parts = {{"init_scale", scaler.init_scale},
                      {"growth_factor", scaler.growth_factor},
                      {"backoff_factor", scaler.backoff_factor},
                      {"growth_interval", scaler.growth_interval},
                      {"unscale_by_division", scaler.is_fused}}};
}

inline FieldValue static_scaler_field(double scale, bool skips) {
    return {.value = std::string("static"),
            .parts = {{"init_scale", scale}, {"skip", skips}, {"unscale_by_division", false}}};
}

/// A dynamic scale that starts above 2^large_scale_power needs many skipped steps until it fits.
inline constexpr double large_scale_power = 20;
/// Describes what happens if a dynamic scale starts at 2^power. A skipped step multiplies it by `backoff`.
inline std::string large_scale_text(double power, double backoff = 0.5) {
    return fmt::format(
        "the loss scale starts at 2^{:.4g}: a gradient above {:.2g} overflows fp16 after scaling, so about {:.0f} "
        "steps are skipped until the scale is 2^16, which is the usual start",
        power, 65504 / std::exp2(power), std::ceil((power - 16) / -std::log2(backoff)));
}

/// Returns the value of the field `clip`: "none" if `max` is 0 or less, otherwise the formula and the maximum norm.
inline FieldValue clip_field(std::string formula, double max) {
    if (!(max > 0)) return {.value = std::string("none"), .parts = {}};
    return {.value = std::move(formula), .parts = {{"max", max}}};
}

}  // namespace macheps::configs
