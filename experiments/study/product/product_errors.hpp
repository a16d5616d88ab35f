// SPDX-License-Identifier: Apache-2.0
// Errors of the outputs of a matrix product, compared with the exact outputs.
#pragma once
#include "core/format.hpp"
#include "experiments/study/product/exact_product.hpp"
#include "reports/rows/gemm_row.hpp"

#include <span>

namespace macheps::study {

/// Returns 10 log10(signal / noise), or infinity if the noise is 0.
double decibels(double signal, double noise);

/// Returns x - y. If x and y differ by at most a factor of two, x - y.high is exact.
inline double difference(double x, const WideValue& y) { return (x - y.high) - y.low; }

/// Returns the largest |error| / (sum of |a||b|) of all finite outputs, or 0 if no output is finite.
double largest_error(std::span<const double> out, std::span<const ExactOutput> exact);

/// Sets the error statistics of `row` from the outputs `out`, which are numbers of `format` (Real: float or double).
/// `saturated` is empty, or it has one element per output. The element is 1 if the output is finite although an
/// intermediate result overflowed. Such outputs count only in row.outputs and row.saturated.
template <class Real>
void measure(reports::GemmRow& row, std::span<const Real> out, std::span<const ExactOutput> exact, const Format& format,
             std::span<const unsigned char> saturated = {});

}  // namespace macheps::study
