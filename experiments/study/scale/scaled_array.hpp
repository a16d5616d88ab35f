// SPDX-License-Identifier: Apache-2.0
// Converts a matrix to codes and scales with the scaled cast that training uses, and returns the values that they
// represent.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/scaling/scaling.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::study {

/// Selects a scaled cast. Names are written as in policies.
struct ScaledArrayChoice {
    Format format{};
    std::string granularity, scale_rule{};  ///< `scale_rule` empty: the usual rule of the granularity
    std::optional<int> axis{};              ///< axis along which blocks run, 0 or 1; absent: 0 for `column`, else 1
    Round round = Round::nearest_even;
    RngKey key = RngKey::none();  ///< for stochastic rounding
};

struct ScaledArray {
    std::vector<std::uint32_t> codes;  ///< one code per element, in the shape of the matrix
    ScaleGrid grid{};
    std::vector<float> scales;                ///< decode scale of each group, not multiplied by tensor_scale
    std::vector<std::uint8_t> scale_codes{};  ///< codes of the scales, if they are bytes (e8m0, e4m3)
    std::optional<float> tensor_scale{};      ///< decode scale of an NVFP4 tensor
    std::vector<float> decoded;               ///< fl32(fl32(value(code) scale) tensor_scale)
};

/// Returns the cast that `choice` selects for a matrix of this shape. Errors: throws FieldError (usage) for an unknown
/// name (the message suggests the nearest name), for a rule that cannot make scales of this granularity, and for an
/// axis that contradicts the granularity. It also throws if blocks of MX or NVFP4 do not divide their axis, which
/// libraries refuse as well.
ScaledCast scaled_cast_of(const ScaledArrayChoice& choice, std::int64_t rows, std::int64_t columns);

/// Casts `values`, a row-major matrix of rows x columns.
ScaledArray scale_array(Backend& backend, const ScaledCast& how, std::span<const float> values, std::int64_t rows,
                        std::int64_t columns);

}  // namespace macheps::study
