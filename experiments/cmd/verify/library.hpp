// SPDX-License-Identifier: Apache-2.0
// `macheps verify --library`: finds the order in which a library adds, from its results.
#pragma once
#include "core/error.hpp"

#include <string>

namespace macheps::cmd::verify {

struct LibraryOptions {
    std::string library;  ///< openblas, onednn, mkl, blis, torch, torch.bf16, torch.fp16, torch.cuda.*, or a path
    std::string rule;     ///< rule whose bits the library must have; if empty: the one that fits best
    int shapes = 60;
    std::uint64_t seed = 1;
    bool require = false, json = false;
};

/// Examines a library and prints the findings. Returns Exit::ok, also if the library is absent. Returns
/// Exit::check_failed if the bits of its results change from call to call, or if they differ from the bits of the
/// expected rule. The expected rule is `rule`. If `rule` is empty, only PyTorch on a GPU has an expected rule, which is
/// the claimed rule. Throws Error: no_device if the library is absent and required, check_failed if it crashes.
Exit verify_library(const LibraryOptions& options);

}  // namespace macheps::cmd::verify
