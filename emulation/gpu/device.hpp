// SPDX-License-Identifier: Apache-2.0
// Owners for what the CUDA runtime hands out, and the check that every call goes through. Include from .cu files.
#pragma once
#include "core/error.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <vector>

namespace macheps::gpu {

/// Throws Error (no_device) naming the call, its file and its line.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
    if (status == cudaSuccess) return;
    throw Error({.what = std::string(call) + ": " + cudaGetErrorString(status),
                 .where = std::string(file) + ":" + std::to_string(line),
                 .fix = "see nvidia-smi; a driver older than the toolkit reads as no device",
                 .exit = Exit::no_device});
}
#define MACHEPS_CUDA_CHECK(call) ::macheps::gpu::check((call), #call, __FILE__, __LINE__)

/// Checks the launch just made, without waiting for it.
#define MACHEPS_CUDA_CHECK_LAUNCH() ::macheps::gpu::check(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

/// Device memory for `count` elements of T, uninitialised.
template <class T>
class DeviceArray {
  public:
    explicit DeviceArray(std::size_t count) : count_(count) {
        MACHEPS_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    }
    ~DeviceArray() { (void)cudaFree(data_); }  // a destructor cannot throw; the next call reports a broken context
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() const { return data_; }
    void clear() { MACHEPS_CUDA_CHECK(cudaMemset(data_, 0, count_ * sizeof(T))); }
    /// Waits for the kernels launched so far.
    std::vector<T> download() const {
        std::vector<T> host(count_);
        MACHEPS_CUDA_CHECK(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }

  private:
    T* data_ = nullptr;
    std::size_t count_;
};

}  // namespace macheps::gpu
