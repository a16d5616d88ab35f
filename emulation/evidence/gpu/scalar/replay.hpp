// SPDX-License-Identifier: Apache-2.0
// Replay of scalar operations: recomputes from the models the sums of hashes that a device gave. A sum covers the
// results of one launch, 2^24 inputs, so an equal sum shows that all of them equal the model's results. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/probe.hpp"

#include <string_view>
#include <thread>

namespace macheps::evidence {

/// The content of a file of sums.
struct RecordedSums {
    struct Row {
        std::string instruction{};
        std::string model{};  ///< the model in use at the time of the recording
        std::uint64_t trials = 0;
        std::vector<std::uint64_t> sums{};
    };
    std::string kind{};  ///< `convert`, `scalar`, `math`
    std::string gpu{}, driver{}, toolkit{}, date{};
    std::uint64_t seed = 1;  ///< of the hard operands
    std::vector<Row> rows{};
};

/// Returns whether the header is that of a file of sums.
bool is_sums(const Json& header);
/// Parses a file of sums. Errors: throws Error that names `where` and the line if the text is not valid.
RecordedSums parse_sums(std::string_view text, const std::string& where);

/// Number of sums to recompute. Sums of at most 2^16 results are always recomputed.
struct SumsShare {
    std::uint64_t sums = 4;  ///< sums of one file
    std::uint64_t seed = 1;  ///< each seed chooses other sums, until all have been chosen
    bool all = false;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

/// Gives one row of the kind `replay` for each operation. The recomputed sums are its trials, and its verdict is
/// `equal` or `differs`. It is `absent` if this program does not have the operation. It is `recorded` if no model gives
/// the bits, if none of the operation's sums is recomputed, or if a sum differs but was recorded against another model:
/// where any NaN was accepted, the sum contains the NaN codes of that model.
void replay_sums(const RecordedSums& recorded, const SumsShare& share, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
