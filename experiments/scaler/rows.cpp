// SPDX-License-Identifier: Apache-2.0
// The kinds of loss scaler. Each row stands in a file of its own.
#include "experiments/scaler/scaler.hpp"

#include <algorithm>

namespace macheps {

extern const ScalerKind static_scaler, torch_scaler;

namespace {

constexpr const ScalerKind* kinds[] = {&no_scaler, &static_scaler, &torch_scaler};

}  // namespace

std::span<const ScalerKind* const> scaler_kinds() { return kinds; }

const ScalerKind* find_scaler(std::string_view name) {
    const auto row =
        std::find_if(std::begin(kinds), std::end(kinds), [&](const auto* kind) { return kind->name == name; });
    return row == std::end(kinds) ? nullptr : *row;
}

}  // namespace macheps
