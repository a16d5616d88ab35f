// SPDX-License-Identifier: Apache-2.0
// Parts that the tables of several vendors share.
#pragma once
#include "emulation/machine/machine.hpp"

namespace macheps::machine_row {

inline constexpr std::string_view mma_sim = "MMA-Sim, arXiv 2511.10909";

/// Completes the row of a chain of correctly rounded fma in one format: fp64 for all vendors, fp32 for AMD.
constexpr Machine fma_unit(Format format, Machine row) {
    row.operands = {format};
    row.addend = row.result = row.sum.addend = format;
    row.sum.delivery = format == fp64 ? Delivery::fp64_nearest_even : Delivery::fp32_nearest_even;
    row.evidence = Evidence::published;
    row.source = mma_sim;
    return row;
}

}  // namespace macheps::machine_row
