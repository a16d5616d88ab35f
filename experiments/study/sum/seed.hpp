// SPDX-License-Identifier: Apache-2.0
// The terms of one seed, their exact sum, and the magnitudes to which errors and bounds of `macheps sum` are relative.
#pragma once
#include "experiments/study/sum/data.hpp"
#include "experiments/study/sum/exact.hpp"

#include <cmath>
#include <cstdint>

namespace macheps::study {

struct SumSeed {
    SumVectors vectors{};
    ExactTotal sum{};
    double magnitudes = 0;  ///< sum of the magnitudes, rounded once to fp64
    double exact = 0;       ///< `sum`, rounded once to fp64
    ProductUnderflows underflows{};
};

inline SumSeed prepared_seed(const SumData& data, const Format& format, std::uint64_t seed, std::int64_t n,
                             bool is_dot) {
    SumSeed out{.vectors = sum_vectors(data, format, seed, n, is_dot)};
    ExactTotal magnitudes;
    for (std::size_t i = 0; i < out.vectors.x.size(); ++i) {
        const double x = out.vectors.x[i];
        if (is_dot) {
            out.sum.add_product(x, out.vectors.y[i]);
            magnitudes.add_product(std::fabs(x), std::fabs(out.vectors.y[i]));
        } else {
            out.sum.add(x);
            magnitudes.add(std::fabs(x));
        }
    }
    out.exact = out.sum.to_double();
    out.magnitudes = magnitudes.to_double();
    out.underflows = product_underflows(format, out.vectors);
    return out;
}

}  // namespace macheps::study
