// SPDX-License-Identifier: Apache-2.0
// Replay of scalar operations. Uses the models to recompute sums of hashes that were recorded on a device. A sum covers
// the results of one launch (2^24 inputs). If the recomputed sum is equal, every result of the launch equals the
// model's result. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/probe.hpp"

#include <string_view>
#include <thread>

namespace macheps::evidence {

/// Content of a file of recorded sums.
struct RecordedSums {
    struct Row {
        std::string instruction{};
        std::string model{};  ///< name of the model at the time of the recording
        std::uint64_t trials = 0;
        std::vector<std::uint64_t> sums{};
    };
    std::string kind{};  ///< `convert`, `scalar`, `math`
    std::string gpu{}, driver{}, toolkit{}, date{};
    std::uint64_t seed = 1;  ///< seed of the hard operands
    std::vector<Row> rows{};
};

/// Returns whether `header` belongs to a file of sums.
bool is_sums(const Json& header);
/// Parses a file of sums. Errors: throws Error that names `where` and the line if the text is not valid.
RecordedSums parse_sums(std::string_view text, const std::string& where);

/// Selects the sums to recompute. Sums of at most 2^16 results are always recomputed.
struct SumsShare {
    std::uint64_t sums = 4;  ///< number of larger sums to recompute per file
    std::uint64_t seed = 1;  ///< consecutive seeds select different sums until all have been selected
    bool all = false;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

/// Emits one row of the kind `replay` for each operation. Its number of trials is the number of recomputed sums. Its
/// verdict is:
/// - `equal` or `differs`: whether the recomputed sums are equal to the recorded ones
/// - `absent`: this program does not have the operation
/// - `recorded`: no model gives the bits, none of the sums was recomputed, or a sum differs but was recorded with
///   another model. (Another model may use other NaN codes. If an operation accepts any NaN, its sums contain the
///   model's codes.)
void replay_sums(const RecordedSums& recorded, const SumsShare& share, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
