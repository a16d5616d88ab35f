// SPDX-License-Identifier: Apache-2.0
// `macheps verify --library`: in what order a library adds, by its results.
#pragma once
#include "core/error.hpp"

#include <string>

namespace macheps::cmd::verify {

struct LibraryOptions {
    std::string library;  ///< openblas, onednn, mkl, blis, torch, torch.bf16, torch.fp16, torch.cuda.*, or a path
    std::string rule;     ///< whose bits the library must have; empty: whichever fits best
    int shapes = 60;
    std::uint64_t seed = 1;
    bool require = false, json = false;
};

/// Exit::ok, also where the library is absent; Exit::no_device where it is absent and required; Exit::check_failed where it
/// crashed, gives other bits from call to call, or has not those of the rule that was asked for.
Exit verify_library(const LibraryOptions& options);

}  // namespace macheps::cmd::verify
