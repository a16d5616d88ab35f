// SPDX-License-Identifier: Apache-2.0
// A matrix of numbers as codes and scales, made by the scaled cast of training, and the values that they represent.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/scaling/scaling.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::study {

/// Selects a cast, in the words of a policy.
struct ScaledArrayChoice {
    Format format{};
    std::string granularity, scale_rule{};  ///< `scale_rule` empty: the usual rule of the granularity
    std::optional<int> axis{};              ///< axis along which blocks run: 1, the last, or 0, the first
    Round round = Round::nearest_even;
    RngKey key = RngKey::none();  ///< for stochastic rounding
};

struct ScaledArray {
    std::vector<std::uint32_t> codes;  ///< containers, in the shape of the matrix
    ScaleGrid grid{};
    std::vector<float> scales;                ///< decode scales of the groups, without that of the tensor
    std::vector<std::uint8_t> scale_codes{};  ///< the scales as stored, if that is a byte: e8m0, e4m3
    std::optional<float> tensor_scale{};      ///< decode scale of an NVFP4 tensor
    std::vector<float> decoded;               ///< fl32(fl32(value(code) scale) tensor_scale)
};

/// Returns the cast that `choice` selects for a matrix of this shape. Errors: throws FieldError (usage) with the
/// nearest name for unknown words, for a rule that does not make such scales, for an axis that contradicts the
/// granularity, and for blocks of MX and NVFP4 that do not divide their axis, which the libraries refuse as well.
ScaledCast scaled_cast_of(const ScaledArrayChoice& choice, std::int64_t rows, std::int64_t columns);

/// Casts `values`, which are row-major, rows x columns.
ScaledArray scale_array(Backend& backend, const ScaledCast& how, std::span<const float> values, std::int64_t rows,
                        std::int64_t columns);

}  // namespace macheps::study
