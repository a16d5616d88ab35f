// SPDX-License-Identifier: Apache-2.0
// Runs matrix products of an external library in a separate process, because a library may crash, take over threads, or
// refuse to be unloaded. The library is loaded at run time. If it is not installed, it is reported as absent. Host
// only.
#pragma once
#include "core/format.hpp"

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// A matrix product C [m, n] = A [m, k] B [k, n] with row-major matrices, alpha = 1 and beta = 0. Only
/// torch.cuda.scaled has decode scales: one for each operand, or one for each row of A and each column of B.
struct LibraryJob {
    int m = 0, n = 0, k = 0;
    std::vector<float> a{}, b{};
    std::vector<float> a_scales{}, b_scales{};
};

/// A library's description of itself.
struct LibraryIdentity {
    std::string path{}, version{}, kernel{}, function{};
    std::string architecture{};  ///< only for torch.cuda: the architecture of its GPU, `sm_90`
};

/// A process that runs the library. Errors: if the process died, multiply() throws Error (check_failed) that names the
/// signal.
class LibraryChild {
  public:
    /// Starts the process. If the library cannot be loaded or has no matrix product, returns an empty result and sets
    /// `why` to the reason.
    /// `library`: openblas, onednn, mkl, blis, a path that contains a slash, or a name that begins with torch. Names
    /// that begin with torch need PyTorch in the Python that MACHEPS_PYTHON names (default: python3).
    /// `threads`: number of threads, as the library counts them.
    /// `without`: name of an environment variable that is removed from the environment of the process.
    static std::optional<LibraryChild> open(const std::string& library, int threads, std::string& why,
                                            const std::string& without = {});
    LibraryChild(LibraryChild&& other) noexcept;
    LibraryChild& operator=(LibraryChild&&) = delete;
    ~LibraryChild();

    const LibraryIdentity& identity() const { return identity_; }
    std::vector<float> multiply(const LibraryJob& job);
    /// Returns the names of the kernels that the last product of torch.cuda ran, separated by commas. Returns an empty
    /// string if PyTorch's profiler records no kernels.
    std::string kernels();

  private:
    LibraryChild() = default;
    std::string ask(const std::string& line);

    LibraryIdentity identity_;
    pid_t process_ = -1;
    int to_ = -1, from_ = -1;
    float* memory_ = nullptr;
    std::string file_;
};

/// Returns the format of the operands and results of a library.
Format library_format(const std::string& library);
/// Returns whether the library is torch, in any format.
bool is_torch(const std::string& library);
/// Returns whether the library is PyTorch on a GPU, torch.cuda.*.
bool is_torch_cuda(const std::string& library);

/// An environment variable that is set in this process and may change the results of a library.
struct LibrarySetting {
    std::string name{}, value{};
};
std::vector<LibrarySetting> library_environment();

}  // namespace macheps::evidence
