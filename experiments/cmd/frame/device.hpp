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

/// Of --threads and --jobs: more than any machine has; each takes a stack.
inline constexpr int most_threads = 4096;

struct DeviceChoice {
    std::string device = "cpu";           ///< cpu, cuda, cuda:1
    std::string matrix_units = "native";  ///< of a GPU: native or emulated
    int threads = 0;                      ///< of the CPU; 0: every core this process may use
    std::string memory{};                 ///< that may be planned for, as `8G`; empty: what there is

    /// Throws Error (usage) where `memory` is no size.
    std::optional<std::int64_t> memory_bytes() const;
};

/// --device, --matrix-units, --threads and --memory.
void add_device_options(Command& verb, DeviceChoice& choice);

/// Throws Error: usage for a name that there is not, no_device where there is no such GPU.
std::unique_ptr<Backend> make_backend(const DeviceChoice& choice);
/// Engines for work that is done side by side, which share the threads. A GPU is one engine.
std::vector<std::unique_ptr<Backend>> make_backends(const DeviceChoice& choice, int count);

}  // namespace macheps::cmd
