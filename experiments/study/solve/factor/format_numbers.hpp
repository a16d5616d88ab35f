// SPDX-License-Identifier: Apache-2.0
// Selects the machine type in which a kernel holds the numbers of a format: the narrowest in which the first rounding
// is innocuous.
#pragma once
#include "experiments/study/solve/factor/row_update.hpp"
#include "experiments/study/solve/matrix.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace macheps::study {

/// Returns whether all values are finite. If not, replaces every NaN by that of core, because the NaN of a kernel
/// depends on its vectors.
inline bool are_finite_made_canonical(std::vector<double>& values) {
    if (all_finite(values)) return true;
    for (double& x : values) {
        if (x != x) x = std::numeric_limits<double>::quiet_NaN();
    }
    return false;
}

/// Copies `narrow` to `result`. Returns false if a number is not finite. The numbers are checked here because they are
/// in the cache.
inline bool widen(const std::vector<float>& narrow, std::vector<double>& result) {
    constexpr std::size_t together = 4096;
    result.clear();
    result.reserve(narrow.size());
    std::uint32_t overflows = 0;
    for (std::size_t first = 0; first < narrow.size(); first += together) {
        const std::size_t last = std::min(first + together, narrow.size());
        // Adding one to an exponent of only ones carries into the sign.
        for (std::size_t i = first; i < last; ++i)
            overflows |= (bit_cast<std::uint32_t>(narrow[i]) & 0x7fffffffu) + 0x00800000u;
        result.insert(result.end(), narrow.begin() + static_cast<std::ptrdiff_t>(first),
                      narrow.begin() + static_cast<std::ptrdiff_t>(last));
    }
    return overflows >> 31 == 0 || are_finite_made_canonical(result);
}

/// Calls use(numbers, round) on a copy of `values`, held as float or double, and stores the changed numbers in
/// `result`, which may be `values`. `round` rounds to the format; it is Unrounded for fp32 in float and for fp64 in
/// double. Returns true if `use` does and the result is finite. Every NaN in the result is that of core.
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
