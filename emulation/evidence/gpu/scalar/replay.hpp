// SPDX-License-Identifier: Apache-2.0
// Sums of hashes that a device gave for scalar operations, recomputed from the models. A sum covers the results of one
// launch, 2^24 inputs, so an equal sum shows that all of them are the model's. Host only.
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

/// Returns whether the header is one of a file of sums.
bool is_sums(const Json& header);
/// Errors: throws Error that names `where` and the line when anything is off.
RecordedSums parse_sums(std::string_view text, const std::string& where);

/// How many sums are recomputed. A sum of at most 2^16 results always is.
struct SumsShare {
    std::uint64_t sums = 4;  ///< of one file
    std::uint64_t seed = 1;  ///< each seed takes other ones, until all have been taken
    bool all = false;
    unsigned threads = std::max(1u, std::thread::hardware_concurrency());
};

/// Gives one row of the kind `replay` for each operation: `equal` or `differs` after the sums that were recomputed,
/// which are its trials; `recorded` if no model gives the bits, if the share has none of its sums, or if a sum differs
/// but was recorded against another model, whose NaN codes are in the sum where any NaN was accepted; `absent` if this
/// program has no such operation.
void replay_sums(const RecordedSums& recorded, const SumsShare& share, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
