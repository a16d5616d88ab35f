// SPDX-License-Identifier: Apache-2.0
// A matrix of numbers as codes and scales, as a scaled cast of training makes them, and the values that they stand for.
#pragma once
#include "emulation/backend.hpp"
#include "emulation/scaling/scaling.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps::study {

/// Which cast, in the words of a policy.
struct ScaledArrayChoice {
    Format format{};
    std::string granularity, scale_rule{};  ///< a rule that is not named is the granularity's usual one
    std::optional<int> axis{};              ///< along which blocks run: 1, the last, or 0, the first
    Round round = Round::nearest_even;
    RngKey key = RngKey::none();  ///< of stochastic rounding
};

struct ScaledArray {
    std::vector<std::uint32_t> codes;  ///< containers, of the matrix's shape
    ScaleGrid grid{};
    std::vector<float> scales;                ///< decode scales of the groups, without the tensor's
    std::vector<std::uint8_t> scale_codes{};  ///< the scales as they are stored, where that is a byte: e8m0, e4m3
    std::optional<float> tensor_scale{};      ///< decode scale of an NVFP4 tensor
    std::vector<float> decoded;               ///< fl32(fl32(value(code) scale) tensor_scale)
};

/// The cast that the words mean for a matrix of this shape. Errors: throws FieldError (usage) with the nearest name, for
/// a rule that makes no such scales, for an axis that the granularity contradicts, and for blocks of MX and NVFP4 that
/// do not divide their axis, which the libraries refuse too.
ScaledCast scaled_cast_of(const ScaledArrayChoice& choice, std::int64_t rows, std::int64_t columns);

/// `values` is row-major, rows x columns.
ScaledArray scale_array(Backend& backend, const ScaledCast& how, std::span<const float> values, std::int64_t rows,
                        std::int64_t columns);

}  // namespace macheps::study
