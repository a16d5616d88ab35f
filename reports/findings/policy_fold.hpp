// SPDX-License-Identifier: Apache-2.0
// Summarises one policy from its runs, which are added one after the other and are not kept in memory.
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

    /// Adds a run. `baseline` is the fp32 run of the same seed. It may be null, and it may be the run itself.
    void add(const RunLog& run, const RunLog* baseline, const ManifestFacts& manifest);
    /// Returns the summary of the added runs, as described at summarise(). Call it once, after at least one call of
    /// add().
    PolicySummary summary();

  private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace macheps::reports
