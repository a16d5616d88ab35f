// SPDX-License-Identifier: Apache-2.0
// In what numbers of the processor a kernel holds those of a format: the narrowest that rounds innocuously.
#pragma once
#include "experiments/analysis/matrix.hpp"
#include "experiments/analysis/row_update.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace macheps::analysis {

/// Calls use(numbers, round) on a copy of `values`, held as float or double, and puts what becomes of them into `result`, which
/// may be `values`. `round` is that of the format, Unrounded for fp32 in float and fp64 in double.
template <class Use>
bool with_numbers_of(const Format& format, const std::vector<double>& values, std::vector<double>& result,
                     const Use& use) {
    if (format != fp32 && !fits_float(format) && !is_prefix_of_fp32(format)) {
        if (&result != &values) result = values;
        return format == fp64 ? use(result.data(), Unrounded{}) : use(result.data(), Rounder<double>(format));
    }
    std::vector<float> narrow(values.begin(), values.end());
    const auto in_float = [&](const auto& round) { return use(narrow.data(), round); };
    const bool done = format == fp32          ? in_float(Unrounded{})
                      : fits_float(format)    ? in_float(Rounder<float>(format))
                      : format.precision <= 8 ? in_float(PrefixRounder<false>(format))
                                              : in_float(PrefixRounder<true>(format));
    result.assign(narrow.begin(), narrow.end());
    return done;
}

/// True where all are finite. Else every NaN becomes the one that core makes: which one a kernel leaves depends on its vectors.
inline bool are_finite_made_canonical(std::vector<double>& values) {
    if (all_finite(values)) return true;
    for (double& x : values) {
        if (x != x) x = std::numeric_limits<double>::quiet_NaN();
    }
    return false;
}

}  // namespace macheps::analysis
