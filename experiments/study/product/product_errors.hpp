// SPDX-License-Identifier: Apache-2.0
// Errors of the outputs of a matrix product, compared with the exact outputs.
#pragma once
#include "core/format.hpp"
#include "experiments/study/product/exact_product.hpp"
#include "reports/rows/gemm_row.hpp"

#include <span>

namespace macheps::study {

/// Returns 10 log10(signal / noise), or infinity without noise.
double decibels(double signal, double noise);

/// Returns x - y. If x and y agree to a factor of two, the leading parts cancel without rounding.
inline double difference(double x, const WideValue& y) { return (x - y.high) - y.low; }

/// Returns the largest |error| of a finite output, relative to the sum of |a||b| of that output, or 0 if there is none.
double largest_error(std::span<const double> out, std::span<const ExactOutput> exact);

/// Sets the figures of `row` that come from its outputs, which have the given format (Real: float or double).
/// `saturated` may be empty. It has a 1 for each finite output with an overflow on the way. Such outputs count only in
/// row.outputs and row.saturated.
template <class Real>
void measure(reports::GemmRow& row, std::span<const Real> out, std::span<const ExactOutput> exact, const Format& format,
             std::span<const unsigned char> saturated = {});

}  // namespace macheps::study
