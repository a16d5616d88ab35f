// SPDX-License-Identifier: Apache-2.0
// In what numbers of the processor a kernel holds those of a format: the narrowest that rounds innocuously.
#pragma once
#include "experiments/analysis/matrix.hpp"
#include "experiments/analysis/row_update.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace macheps::analysis {

/// Calls use(numbers, round) on the values, held as float or double, and puts what becomes of them back. `round` is that of
/// the format, Unrounded for fp32 in float and fp64 in double.
template <class Use>
bool with_numbers_of(const Format& format, std::vector<double>& values, const Use& use) {
    if (format == fp64) return use(values.data(), Unrounded{});
    if (format != fp32 && !fits_float(format)) return use(values.data(), Rounder<double>(format));
    std::vector<float> narrow(values.begin(), values.end());
    const bool done = format == fp32 ? use(narrow.data(), Unrounded{}) : use(narrow.data(), Rounder<float>(format));
    std::copy(narrow.begin(), narrow.end(), values.begin());
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
