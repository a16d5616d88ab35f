// SPDX-License-Identifier: Apache-2.0
// RAII owners of CUDA runtime objects, and the function that checks the status of every runtime call. Include only from
// .cu files.
#pragma once
#include "core/error.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace macheps::gpu {

/// Throws an Error that names the call, its file and its line, unless `status` is cudaSuccess. The exit code is
/// no_device if a usable device is missing, bad_input if the device's memory is too small, and check_failed in all
/// other cases.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();  // clears a non-sticky error, so that the next check does not report it again
    Error::Parts parts{.what = std::string(call) + ": " + cudaGetErrorString(status),
                       .where = std::string(file) + ":" + std::to_string(line),
                       .fix = "run compute-sanitizer to find the kernel, and report it",
                       .exit = Exit::check_failed};
    switch (status) {
        case cudaErrorNoDevice:
        case cudaErrorInsufficientDriver:
        case cudaErrorInvalidDevice:
        case cudaErrorInitializationError:
        case cudaErrorSystemNotReady:
        case cudaErrorSystemDriverMismatch:
        case cudaErrorDevicesUnavailable:
        case cudaErrorNoKernelImageForDevice:
            parts.fix = "check nvidia-smi; if the driver is older than the toolkit, no device is found";
            parts.exit = Exit::no_device;
            break;
        case cudaErrorMemoryAllocation:
            parts.fix = "use a smaller model, batch or matrix";
            parts.exit = Exit::bad_input;
            break;
        default:
            break;
    }
    throw Error(std::move(parts));
}
#define MACHEPS_CUDA_CHECK(call) ::macheps::gpu::check((call), #call, __FILE__, __LINE__)

/// Checks whether the last kernel was launched, without waiting for its end.
#define MACHEPS_CUDA_CHECK_LAUNCH() ::macheps::gpu::check(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)

/// Returns 10 major + minor, for example 90 for an H100. Throws the errors of check().
inline int compute_capability(int device) {
    int major = 0, minor = 0;
    MACHEPS_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    MACHEPS_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    return 10 * major + minor;
}

/// Device memory for `count` elements of T, uninitialised.
template <class T>
class DeviceArray {
  public:
    explicit DeviceArray(std::size_t count) : count_(count) {
        MACHEPS_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
    }
    ~DeviceArray() { (void)cudaFree(data_); }  // cannot throw here; the next call reports a broken context
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* data() const { return data_; }
    void clear() { MACHEPS_CUDA_CHECK(cudaMemset(data_, 0, count_ * sizeof(T))); }
    /// Waits for the kernels launched so far, and returns a copy of the elements.
    std::vector<T> download() const {
        std::vector<T> host(count_);
        MACHEPS_CUDA_CHECK(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }

  private:
    T* data_ = nullptr;
    std::size_t count_;
};

/// CUDA event, which marks a point in a stream.
class Event {
  public:
    Event() { MACHEPS_CUDA_CHECK(cudaEventCreate(&event_)); }
    ~Event() { (void)cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void record(cudaStream_t stream) { MACHEPS_CUDA_CHECK(cudaEventRecord(event_, stream)); }
    /// Waits for this event. Returns the milliseconds on the device between `begin` and this event.
    double ms_since(const Event& begin) const {
        float ms = 0;
        MACHEPS_CUDA_CHECK(cudaEventSynchronize(event_));
        MACHEPS_CUDA_CHECK(cudaEventElapsedTime(&ms, begin.event_, event_));
        return static_cast<double>(ms);
    }

  private:
    cudaEvent_t event_ = nullptr;
};

}  // namespace macheps::gpu
