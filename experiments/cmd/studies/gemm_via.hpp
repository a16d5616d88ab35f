// SPDX-License-Identifier: Apache-2.0
// `macheps gemm --via`: wide products made of narrow ones.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/study/product/gemm.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::gemm {

/// The options that --via adds.
struct ViaArguments {
    std::string via, combine = "fp64", require;
    std::int64_t digit_bits = 0;
    bool full = false;
};
void describe_via(Command& verb, ViaArguments& a);

/// Machines by name, and the integer unit. Errors: throws Error (usage) for a name of neither.
std::vector<SpelledRule> via_machines(const std::vector<std::string>& names);

/// What the verb's other options say of the rows: where they go, and how much is said.
struct ViaOutput {
    std::string out;
    bool json = false, quiet = false, dry_run = false;
};

/// `grid` holds the machines, data and sizes; `formats` are those of the data, as they were typed: fp64 or fp32.
Exit run_gemm_via(const ViaArguments& a, const study::GemmGrid& grid, const std::vector<std::string>& formats,
                  const DeviceChoice& device, const ViaOutput& output);

}  // namespace macheps::cmd::gemm
