// SPDX-License-Identifier: Apache-2.0
// In a build without CUDA, cuBLASLt is always missing.
#include "emulation/evidence/library/cublaslt/cublaslt.hpp"

namespace macheps::evidence {

LoadedLibrary load_cublaslt(int) { return {nullptr, "macheps was built without CUDA"}; }

std::string check_cublaslt_descriptors(const LibraryProblem&) { return load_cublaslt(0).missing; }

}  // namespace macheps::evidence
