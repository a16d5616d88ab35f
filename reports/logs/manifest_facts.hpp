// SPDX-License-Identifier: Apache-2.0
// What a summary says of the settings of its runs. A manifest is read leniently: what it does not say stays empty.
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
    /// Of a policy: what it trains with that fp32 does not, beside its formats: "beta2 0.999 (fp32: 0.95)".
    std::map<std::string, std::string> beside_precision{};

    bool operator==(const ManifestFacts&) const = default;
};
ManifestFacts manifest_facts(const RunFolder& folder);
ManifestFacts manifest_facts(const Json& manifest);

/// "2^-12" for a power of two below a quarter or above 4, "0.3" for any other number.
std::string power_words(double x);

/// One line, without its line end: the seeds and the token weight, and why there is one: "seeds 0, 1, 2; every token's loss weighted
/// 2^-12 in the backward pass, a stand-in for a batch 4096 times as large, in which gradients are that small (--seeds,
/// --token-weight)". Empty where folders differ in either or none says them.
std::string setup_words(std::span<const ManifestFacts> folders);

}  // namespace macheps::reports
