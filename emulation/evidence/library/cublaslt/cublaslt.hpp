// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded at run time. Nothing links with it, and a machine without it lacks only its probes. Host only; the
// .cpp needs the toolkit's headers.
#pragma once
#include "emulation/evidence/library/probes.hpp"

namespace macheps::evidence {

/// Returns cuBLASLt on a device, or the reason why it is missing. The library is taken from MACHEPS_CUBLASLT (a path),
/// or else from the loader's or the toolkit's folders.
LoadedLibrary load_cublaslt(int device);

/// Makes and fills in the descriptors of a problem, which needs the library but no device. Returns an empty string, or
/// the call that failed.
std::string check_cublaslt_descriptors(const LibraryProblem& problem);

}  // namespace macheps::evidence
