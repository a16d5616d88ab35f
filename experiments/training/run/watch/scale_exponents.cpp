// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/watch/scale_exponents.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

namespace macheps::training {

void ScaleExponents::add(float decode_scale) {
    if (decode_scale == 0) {
        ++zeros_;
    } else if (std::isfinite(decode_scale)) {
        ++numbers_[std::ilogb(decode_scale)];
    } else {
        ++(std::isnan(decode_scale) ? nans_ : infinities_);
    }
}

std::string ScaleExponents::text() const {
    std::string all;
    const auto add_bin = [&](const auto& name, std::uint64_t count) {
        if (count > 0) all += fmt::format("{}{}:{}", all.empty() ? "" : ";", name, count);
    };
    add_bin(std::string_view("zero"), zeros_);
    for (const auto& [exponent, count] : numbers_) add_bin(exponent, count);
    add_bin(std::string_view("inf"), infinities_);
    add_bin(std::string_view("nan"), nans_);
    return all;
}

}  // namespace macheps::training
