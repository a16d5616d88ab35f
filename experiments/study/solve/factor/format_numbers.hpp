// SPDX-License-Identifier: Apache-2.0
// Selects the type (float or double) in which a kernel stores the numbers of a format. It is the narrowest type for
// which rounding to the type first does not change the result of rounding to the format.
#pragma once
#include "experiments/study/solve/factor/row_update.hpp"
#include "experiments/study/solve/matrix.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace macheps::study {

/// Returns whether all values are finite. If not, replaces every NaN with the canonical NaN, because the bits of a
/// kernel's NaN depend on its vector width.
inline bool are_finite_made_canonical(std::vector<double>& values) {
    if (all_finite(values)) return true;
    for (double& x : values) {
        if (x != x) x = std::numeric_limits<double>::quiet_NaN();
    }
    return false;
}

/// Copies `narrow` to `result`. Returns false if a number is not finite. The check is done during the copy, while the
/// numbers are in the cache.
inline bool widen(const std::vector<float>& narrow, std::vector<double>& result) {
    constexpr std::size_t together = 4096;
    result.clear();
    result.reserve(narrow.size());
    std::uint32_t overflows = 0;
    for (std::size_t first = 0; first < narrow.size(); first += together) {
        const std::size_t last = std::min(first + together, narrow.size());
        // The exponent bits of Inf and NaN are all ones, so adding one to the exponent carries into the sign bit. For
        // finite numbers, it does not.
        for (std::size_t i = first; i < last; ++i)
            overflows |= (bit_cast<std::uint32_t>(narrow[i]) & 0x7fffffffu) + 0x00800000u;
        result.insert(result.end(), narrow.begin() + static_cast<std::ptrdiff_t>(first),
                      narrow.begin() + static_cast<std::ptrdiff_t>(last));
    }
    return overflows >> 31 == 0 || are_finite_made_canonical(result);
}

/// Copies `values` to an array of float or double, calls use(numbers, round) on the copy, and stores the changed
/// numbers in `result`, which may be `values`. `round` rounds to the format. It is Unrounded for fp32 in float and for
/// fp64 in double. Returns true if `use` returns true and all results are finite. Every NaN in `result` is the
/// canonical NaN.
template <class Use>
bool with_numbers_of(const Format& format, const std::vector<double>& values, std::vector<double>& result,
                     const Use& use) {
    if (format != fp32 && !fits_float(format) && !is_prefix_of_fp32(format)) {
        if (&result != &values) result = values;
        const bool done =
            format == fp64 ? use(result.data(), Unrounded{}) : use(result.data(), Rounder<double>(format));
        return are_finite_made_canonical(result) && done;
    }
    std::vector<float> narrow(values.begin(), values.end());
    const auto in_float = [&](const auto& round) { return use(narrow.data(), round); };
    const bool done = format == fp32          ? in_float(Unrounded{})
                      : fits_float(format)    ? in_float(Rounder<float>(format))
                      : format.precision <= 8 ? in_float(PrefixRounder<false>(format))
                                              : in_float(PrefixRounder<true>(format));
    return widen(narrow, result) && done;
}

}  // namespace macheps::study
