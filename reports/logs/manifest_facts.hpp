// SPDX-License-Identifier: Apache-2.0
// Reads the facts about the settings of runs from their manifests, for a summary. A manifest may lack any of these
// facts; such a fact stays empty.
#pragma once
#include "reports/logs/run_log.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace macheps {
class Json;
}

namespace macheps::reports {

struct ManifestFacts {
    std::string model{};  ///< "2 layers x 64"
    std::optional<std::int64_t> parameters{};
    std::vector<std::int64_t> seeds{};
    std::optional<double> token_weight{};
    /// For each policy, the settings other than formats that differ from those of fp32: "beta2 0.999 (fp32: 0.95)".
    std::map<std::string, std::string> beside_precision{};
    /// For each policy that was imported from a config, what it does not emulate: "LoRA is not emulated: the whole
    /// model is trained".
    std::map<std::string, std::vector<std::string>> not_emulated{};
    /// For each policy, the machines of its matmuls: "sm80.mma.bf16", or "sm90.wgmma.fp8, cublaslt.fp8.fast" with the
    /// rule that uses the machine.
    std::map<std::string, std::vector<std::string>> machines{};

    bool operator==(const ManifestFacts&) const = default;
};
ManifestFacts manifest_facts(const RunFolder& folder);
ManifestFacts manifest_facts(const Json& manifest);

/// Formats a number: "2^-12" for a power of two below a quarter or above 4, "0.3" for any other number.
std::string power_words(double x);

/// Returns a line, without its line end, with the seeds, the token weight and the reason for the weight: "seeds 0, 1,
/// 2; the loss of every token is weighted by 2^-12 in the backward pass, which makes the gradients as small as those of
/// a batch 4096 times as large (--seeds, --token-weight)". Empty if the seeds or the weight differ between folders or
/// are unknown.
std::string setup_words(std::span<const ManifestFacts> folders);

}  // namespace macheps::reports
