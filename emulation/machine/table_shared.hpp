// SPDX-License-Identifier: Apache-2.0
// Definitions for the machine tables of several vendors.
#pragma once
#include "emulation/machine/machine.hpp"

namespace macheps::machine_row {

inline constexpr std::string_view mma_sim = "MMA-Sim, arXiv 2511.10909";

/// Completes the row of a unit that computes a chain of correctly rounded fma in one format. NVIDIA and AMD have such
/// units for fp64, and AMD also for fp32.
constexpr Machine fma_unit(Format format, Machine row) {
    row.operands = {format};
    row.addend = row.result = row.sum.addend = format;
    row.sum.delivery = format == fp64 ? Delivery::fp64_nearest_even : Delivery::fp32_nearest_even;
    row.evidence = Evidence::published;
    row.source = mma_sim;
    return row;
}

}  // namespace macheps::machine_row
