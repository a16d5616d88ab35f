// SPDX-License-Identifier: Apache-2.0
// Matrix products by somebody else's library, in a process of its own: a library may crash, take over threads, or refuse to
// be unloaded. Nothing is linked; what is not there is said to be absent. Host only.
#pragma once
#include "core/format.hpp"

#include <sys/types.h>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::evidence {

/// C [m, n] = A [m, k] B [k, n], row-major, alpha = 1, beta = 0. Decode scales of torch.cuda.scaled: one each, or [m] and [n].
struct LibraryJob {
    int m = 0, n = 0, k = 0;
    std::vector<float> a{}, b{};
    std::vector<float> a_scales{}, b_scales{};
};

/// What a library says of itself.
struct LibraryIdentity {
    std::string path{}, version{}, kernel{}, function{};
    std::string architecture{};  ///< of the GPU of torch.cuda: `sm_90`
};

/// A process that holds the library. Errors: multiply throws Error (check_failed) when the process died, naming the signal.
class LibraryChild {
  public:
    /// `library`: openblas, onednn, mkl, blis, a path with a slash in it, or a name that begins with torch, which needs
    /// PyTorch in the Python that MACHEPS_PYTHON names (python3). `threads`: as the library counts them.
    /// Nothing where it cannot be loaded or has no matrix product; `why` says so.
    /// `without`: an environment variable that this process does not have.
    static std::optional<LibraryChild> open(const std::string& library, int threads, std::string& why,
                                            const std::string& without = {});
    LibraryChild(LibraryChild&& other) noexcept;
    LibraryChild& operator=(LibraryChild&&) = delete;
    ~LibraryChild();

    const LibraryIdentity& identity() const { return identity_; }
    std::vector<float> multiply(const LibraryJob& job);
    /// The names of the kernels of the last product of torch.cuda, with commas; empty where PyTorch's profiler sees none.
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

/// The format of the operands and results of that library.
Format library_format(const std::string& library);
/// True for torch and its formats.
bool is_torch(const std::string& library);
/// True for the products of PyTorch on a GPU, torch.cuda.*.
bool is_torch_cuda(const std::string& library);

/// An environment variable that is set here and may change what libraries compute.
struct LibrarySetting {
    std::string name{}, value{};
};
std::vector<LibrarySetting> library_environment();

}  // namespace macheps::evidence
