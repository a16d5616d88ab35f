// SPDX-License-Identifier: Apache-2.0
// Matrix products by an external library in a separate process, because a library may crash, take over threads, or
// refuse to be unloaded. Nothing is linked; a library that is not installed is reported as absent. Host only.
#pragma once
#include "core/format.hpp"

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// C [m, n] = A [m, k] B [k, n], row-major, alpha = 1, beta = 0. torch.cuda.scaled has decode scales: one for each
/// operand, or [m] and [n].
struct LibraryJob {
    int m = 0, n = 0, k = 0;
    std::vector<float> a{}, b{};
    std::vector<float> a_scales{}, b_scales{};
};

/// A library's description of itself.
struct LibraryIdentity {
    std::string path{}, version{}, kernel{}, function{};
    std::string architecture{};  ///< of the GPU of torch.cuda: `sm_90`
};

/// A process that runs the library. Errors: multiply throws Error (check_failed) that names the signal if the process
/// died.
class LibraryChild {
  public:
    /// Starts the process. Returns nothing if the library cannot be loaded or has no matrix product; `why` is then the
    /// reason.
    /// `library`: openblas, onednn, mkl, blis, a path with a slash in it, or a name that begins with torch. The latter
    /// needs PyTorch in the Python that MACHEPS_PYTHON names (default: python3). `threads`: as the library counts them.
    /// `without`: an environment variable that the process does not get.
    static std::optional<LibraryChild> open(const std::string& library, int threads, std::string& why,
                                            const std::string& without = {});
    LibraryChild(LibraryChild&& other) noexcept;
    LibraryChild& operator=(LibraryChild&&) = delete;
    ~LibraryChild();

    const LibraryIdentity& identity() const { return identity_; }
    std::vector<float> multiply(const LibraryJob& job);
    /// Returns the names of the kernels of the last product of torch.cuda, separated by commas. Empty if PyTorch's
    /// profiler records none.
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

/// An environment variable that is set here and may change what libraries compute.
struct LibrarySetting {
    std::string name{}, value{};
};
std::vector<LibrarySetting> library_environment();

}  // namespace macheps::evidence
