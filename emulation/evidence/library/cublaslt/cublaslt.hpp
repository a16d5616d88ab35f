// SPDX-License-Identifier: Apache-2.0
// Access to cuBLASLt, which is loaded at run time. No program is linked with it. On a machine without it, only its
// probes are missing. Host only; cublaslt.cpp needs the headers of the CUDA toolkit.
#pragma once
#include "emulation/evidence/library/probes.hpp"

namespace macheps::evidence {

/// Returns cuBLASLt on a device, or the reason why it is missing. The environment variable MACHEPS_CUBLASLT gives the
/// path of the library. If it is not set, the folders of the loader and of the CUDA toolkit are searched.
LoadedLibrary load_cublaslt(int device);

/// Creates and fills in the descriptors of a problem. This needs the library but no device. Returns an empty string, or
/// a text that names the call that failed.
std::string check_cublaslt_descriptors(const LibraryProblem& problem);

}  // namespace macheps::evidence
