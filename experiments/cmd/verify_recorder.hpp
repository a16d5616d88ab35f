// SPDX-License-Identifier: Apache-2.0
// What `macheps verify --record` writes.
#pragma once
#include "emulation/verify/probe.hpp"
#include "emulation/verify/trace.hpp"

#include <fstream>
#include <map>

namespace macheps {

/// Traces and captures, each in a file of its own, and the sums of the hashes of scalar results, in a file for each kind.
/// Errors: all throw Error (cannot_write).
class VerifyRecorder {
  public:
    /// `origin` says where the results come from. Results of a CPU's units are written only where they tell the model
    /// from wrong ones: of a GPU's disputed points some are open.
    VerifyRecorder(std::filesystem::path folder, verify::Trace origin, bool on_cpu);

    void trace(const verify::Candidates& candidates);
    void capture(const verify::Capture& capture);
    /// What is known of a kind when the run is cut off stands in `KIND.sums.jsonl`.
    void sums(const std::vector<verify::ProbeResult>& rows);

    /// Compresses the sums. Returns the paths of all files. Errors: throws Error (check_failed) when together they are
    /// larger than what a repository should keep.
    std::vector<std::string> finish();

  private:
    struct Sums {
        std::ofstream file{};
        std::string header{}, lines{};
    };

    std::string header_with_origin(const std::string& header) const;
    void written(const std::filesystem::path& file);

    std::filesystem::path folder_;
    verify::Trace origin_;
    bool on_cpu_;
    std::map<std::string, Sums> sums_{};  ///< by kind
    std::vector<std::string> files_{};
    std::uintmax_t bytes_ = 0;
};

}  // namespace macheps
