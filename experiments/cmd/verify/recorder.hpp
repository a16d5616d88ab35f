// SPDX-License-Identifier: Apache-2.0
// VerifyRecorder: the files of `macheps verify --record`.
#pragma once
#include "emulation/evidence/probe.hpp"
#include "emulation/evidence/traces/trace.hpp"

#include <fstream>
#include <map>

namespace macheps::cmd::verify {

/// Writes each trace and each capture to its own file. The results of scalar instructions are not written: they are
/// hashed, and the sums of the hashes are written to one file for each kind of probe. Errors: every function throws
/// Error (cannot_write) if a file cannot be written.
class VerifyRecorder {
  public:
    /// `origin` names the device. A trace of a CPU's unit is refused (check_failed) unless, for each wrong model of the
    /// unit, at least two rows of the trace differ from what that model computes. Traces of a GPU are always written,
    /// because it is not yet known in every detail how GPUs compute.
    VerifyRecorder(std::filesystem::path folder, evidence::Trace origin, bool on_cpu);

    void trace(const evidence::Candidates& candidates);
    void capture(const evidence::Capture& capture);
    /// Appends the sums of hashes in these rows to `KIND.sums.jsonl` at once, so that an interrupted run keeps its
    /// results.
    void sums(const std::vector<evidence::ProbeResult>& rows);

    /// Compresses the sums. Returns the paths of all files. Errors: throws Error (check_failed) if the files exceed 20
    /// MB in total, which is too much for a repository.
    std::vector<std::string> finish();

  private:
    struct Sums {
        std::ofstream file{};
        std::string header{}, lines{};
    };

    std::string header_with_origin(const std::string& header) const;
    void written(const std::filesystem::path& file);

    std::filesystem::path folder_;
    evidence::Trace origin_;
    bool on_cpu_;
    std::map<std::string, Sums> sums_{};  ///< by kind
    std::vector<std::string> files_{};
    std::uintmax_t bytes_ = 0;
};

}  // namespace macheps::cmd::verify
