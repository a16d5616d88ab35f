// SPDX-License-Identifier: Apache-2.0
// `macheps gemm --via`: wide products computed from narrow ones.
#pragma once
#include "experiments/cmd/frame/cli.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/row_output.hpp"
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

/// Returns the machines with these names, which may include the integer unit. Errors: throws Error (usage) for an
/// unknown name.
std::vector<SpelledRule> via_machines(const std::vector<std::string>& names);

/// Output options of `macheps gemm`, which also apply with --via.
struct ViaOutput {
    std::string out;
    RowForm form;
    bool quiet = false, dry_run = false;
};

/// Runs the products. `grid` has the machines, data and sizes. `formats` are the formats of the data as typed: fp64 or
/// fp32.
Exit run_gemm_via(const ViaArguments& a, const study::GemmGrid& grid, const std::vector<std::string>& formats,
                  const DeviceChoice& device, const ViaOutput& output);

}  // namespace macheps::cmd::gemm
