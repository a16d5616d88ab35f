// SPDX-License-Identifier: Apache-2.0
// --device: the engine that a verb computes on.
#pragma once
#include "emulation/backend.hpp"
#include "experiments/cmd/frame/cli.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace macheps::cmd {

/// Upper limit of --threads and --jobs. It is more than any machine has, and each thread takes memory for a stack.
inline constexpr int max_threads = 4096;

struct DeviceChoice {
    std::string device = "cpu";           ///< cpu, cuda, cuda:1
    std::string matrix_units = "native";  ///< native or emulated matrix units of a GPU
    int threads = 0;                      ///< threads on the CPU; 0: every core that this process may use
    std::string memory{};                 ///< memory to plan for, such as `8G`; if empty: memory_limit()

    /// Returns `memory` in bytes, or nothing if it is empty. Throws Error (usage) if it is not a size.
    std::optional<std::int64_t> memory_bytes() const;
};

/// Adds --device, --matrix-units, --threads and --memory.
void add_device_options(Command& verb, DeviceChoice& choice);

/// Returns the chosen engine. Throws Error (usage) for an unknown device, and Error (no_device) for a GPU that does not
/// exist.
std::unique_ptr<Backend> make_backend(const DeviceChoice& choice);
/// Returns engines that work in parallel. On the CPU there are `count` of them, and they share its threads. On a GPU
/// there is always a single engine.
std::vector<std::unique_ptr<Backend>> make_backends(const DeviceChoice& choice, int count);

}  // namespace macheps::cmd
