// SPDX-License-Identifier: Apache-2.0
// The summary of one policy from its runs, one after the other: none of them stays in memory.
#pragma once
#include "reports/findings/divergence.hpp"
#include "reports/logs/manifest_facts.hpp"

#include <memory>
#include <string>

namespace macheps::reports {

class PolicyFold {
  public:
    PolicyFold(std::string name, const SummaryOptions& options);
    ~PolicyFold();
    PolicyFold(PolicyFold&&) noexcept;
    PolicyFold& operator=(PolicyFold&&) = delete;

    /// `baseline`, the fp32 run of the same seed, may be null, and may be the run itself.
    void add(const RunLog& run, const RunLog* baseline, const ManifestFacts& manifest);
    /// Of what was added, as summarise() has it. Called once, after one run at least.
    PolicySummary summary();

  private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace macheps::reports
