// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, loaded when it is wanted: nothing links it, and a machine without it loses only its probes. Host only; the
// .cpp needs the toolkit's headers.
#pragma once
#include "emulation/evidence/library/probes.hpp"

namespace macheps::evidence {

/// cuBLASLt on a device, or why there is none: no library in MACHEPS_CUBLASLT (a path), in the loader's folders and in
/// the toolkit's; or no device that it works with.
LoadedLibrary load_cublaslt(int device);

/// Makes and fills in the descriptors of a problem, which needs the library and no device. Empty, or the failing call.
std::string check_cublaslt_descriptors(const LibraryProblem& problem);

}  // namespace macheps::evidence
