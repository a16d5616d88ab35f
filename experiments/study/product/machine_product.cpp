// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/product/machine_product.hpp"

#include <algorithm>

namespace macheps::study {

IntegerProduct::IntegerProduct(Backend& backend, const MatmulRule& rule, const WideOperands& x, const Format& format)
    : x_(x), got_(static_cast<std::size_t>(x.m * x.n)), sums_(static_cast<std::size_t>(x.n)) {
    if (!is_integer_unit(*rule.machine)) machine_.emplace(backend, rule, x, format);
}

const std::vector<double>& IntegerProduct::operator()(const std::vector<float>& a, const std::vector<float>& b) {
    if (machine_) {
        const std::vector<float>& got = (*machine_)(a, b);
        std::copy(got.begin(), got.end(), got_.begin());
    }
    for (std::int64_t i = 0; i < x_.m; ++i) {
        std::fill(sums_.begin(), sums_.end(), 0);
        for (std::int64_t p = 0; p < x_.k; ++p) {
            const auto q = static_cast<std::int64_t>(a[static_cast<std::size_t>(i * x_.k + p)]);
            if (q == 0) continue;
            for (std::int64_t j = 0; j < x_.n; ++j) {
                sums_[static_cast<std::size_t>(j)] +=
                    q * static_cast<std::int64_t>(b[static_cast<std::size_t>(p * x_.n + j)]);
            }
        }
        for (std::int64_t j = 0; j < x_.n; ++j) {
            double& got = got_[static_cast<std::size_t>(i * x_.n + j)];
            const std::int64_t sum = sums_[static_cast<std::size_t>(j)];
            if (!machine_) got = static_cast<std::int32_t>(static_cast<std::uint32_t>(sum));
            inexact_ += got != static_cast<double>(sum);
        }
    }
    return got_;
}

}  // namespace macheps::study
