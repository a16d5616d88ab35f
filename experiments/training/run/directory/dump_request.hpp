// SPDX-License-Identifier: Apache-2.0
// A request for a dump of one optimiser step.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace macheps::training {

/// The step to dump, and the file for it.
struct DumpRequest {
    std::filesystem::path file{};  ///< empty: no dump
    std::int64_t step = 0;         ///< counted from 0, as in steps.csv
    std::string policy{};
    std::int64_t seed = 0;
    std::map<std::string, std::string> metadata{};
};

}  // namespace macheps::training
