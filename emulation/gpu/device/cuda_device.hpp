// SPDX-License-Identifier: Apache-2.0
// CudaDevice launches kernels on one stream of a GPU. It has the same interface as HostDevice (tests/gpu). Include only
// from .cu files.
#pragma once
#include "emulation/gpu/device/device.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <algorithm>

namespace macheps::gpu {

namespace detail {

constexpr int each_threads = 256, warps_per_block = 8;

template <class F>
__global__ void each_kernel(std::int64_t n, const __grid_constant__ F f) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

template <class F>
__global__ void warps_kernel(std::int64_t n, const __grid_constant__ F f) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * warps_per_block;
    const Warp warp;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warps_per_block + threadIdx.x / warp_lanes; i < n;
         i += step) {
        f(warp, i);
    }
}

/// Kernel that declares how many threads a block has, and how many of its blocks should fit on a multiprocessor at the
/// same time.
template <class F>
concept Bounded = requires {
    F::threads;
    F::blocks_per_processor;
};

template <class F>
__global__ void blocks_kernel(const __grid_constant__ F f) {
    extern __shared__ __align__(128) std::byte shared[];
    Block block(shared);
    f(block);
}
template <Bounded F>
__global__ void __launch_bounds__(F::threads, F::blocks_per_processor)
    bounded_blocks_kernel(const __grid_constant__ F f) {
    extern __shared__ __align__(128) std::byte shared[];
    Block block(shared);
    f(block);
}

template <class F>
constexpr auto blocks_kernel_of() {
    if constexpr (Bounded<F>) {
        return &bounded_blocks_kernel<F>;
    } else {
        return &blocks_kernel<F>;
    }
}

}  // namespace detail

class CudaDevice {
  public:
    explicit CudaDevice(int index) {
        MACHEPS_CUDA_CHECK(cudaSetDevice(index));
        // Makes the stack at least min_stack, which is four times the default of CUDA. Some functions of the scalar
        // definitions are recursive, so the compiler cannot compute how much stack they need.
        std::size_t stack = 0;
        MACHEPS_CUDA_CHECK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
        if (stack < min_stack) MACHEPS_CUDA_CHECK(cudaDeviceSetLimit(cudaLimitStackSize, min_stack));
        MACHEPS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        MACHEPS_CUDA_CHECK(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, index));
    }
    ~CudaDevice() {
        if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
    }
    CudaDevice(const CudaDevice&) = delete;
    CudaDevice& operator=(const CudaDevice&) = delete;

    cudaStream_t stream() const { return stream_; }

    void* allocate(std::size_t bytes) {
        void* memory = nullptr;
        MACHEPS_CUDA_CHECK(cudaMalloc(&memory, std::max(bytes, std::size_t{1})));
        return memory;
    }
    void release(void* memory) noexcept { (void)cudaFree(memory); }
    void copy_in(void* device, const void* host, std::size_t bytes) {
        MACHEPS_CUDA_CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_));
        wait();  // the caller may change *host as soon as this function returns
    }
    void copy_out(void* host, const void* device, std::size_t bytes) {
        MACHEPS_CUDA_CHECK(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_));
        wait();
    }
    void copy(void* to, const void* from, std::size_t bytes) {
        MACHEPS_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_));
    }
    void clear(void* memory, std::size_t bytes) { MACHEPS_CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, stream_)); }
    /// Waits until everything launched so far is done, and throws the errors of these launches.
    void wait() { MACHEPS_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

    template <class F>
    void each(std::int64_t n, const F& f) {
        if (n <= 0) return;
        const std::int64_t wanted = (n + detail::each_threads - 1) / detail::each_threads;
        detail::each_kernel<<<grid_size(wanted), detail::each_threads, 0, stream_>>>(n, f);
        MACHEPS_CUDA_CHECK_LAUNCH();
    }
    template <class F>
    void warps(std::int64_t n, const F& f) {
        if (n <= 0) return;
        const std::int64_t wanted = (n + detail::warps_per_block - 1) / detail::warps_per_block;
        detail::warps_kernel<<<grid_size(wanted), detail::warps_per_block * warp_lanes, 0, stream_>>>(n, f);
        MACHEPS_CUDA_CHECK_LAUNCH();
    }
    template <class F>
    void blocks(const Grid& grid, const F& f) {
        if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
        constexpr auto kernel = detail::blocks_kernel_of<F>();
        if (grid.shared_bytes > std::size_t{48} << 10) {
            MACHEPS_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(grid.shared_bytes)));
        }
        const dim3 size(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z));
        kernel<<<size, static_cast<unsigned>(grid.threads), grid.shared_bytes, stream_>>>(f);
        MACHEPS_CUDA_CHECK_LAUNCH();
    }

  private:
    static constexpr std::size_t min_stack = 4096;  ///< bytes per thread

    /// Returns the number of blocks to launch: `wanted`, but at most a number that fills the device several times. If
    /// fewer blocks than `wanted` are launched, the grid-stride loops of the kernels process the remaining elements.
    unsigned grid_size(std::int64_t wanted) const {
        return static_cast<unsigned>(std::min(wanted, std::int64_t{32} * processors_));
    }

    cudaStream_t stream_ = nullptr;
    int processors_ = 1;
};

}  // namespace macheps::gpu
