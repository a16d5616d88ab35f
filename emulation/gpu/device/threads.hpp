// SPDX-License-Identifier: Apache-2.0
// The operations that kernels are written with. The same kernel code runs in two ways. nvcc compiles it for a GPU. Any
// C++ compiler compiles it for the host, where loops take the place of lanes, threads and blocks (tests/gpu). Tests can
// therefore check the indices, the phases and the order of operations of every kernel without a GPU.
//
// The lanes of a warp and the threads of a block work in phases: `each(f)` calls f(index) for every lane or thread and
// returns when all calls are done. A value that a lane or a thread keeps from one phase to the next is in a Lanes<T> or
// a PerThread<T>, that is, in registers on a GPU.
#pragma once
#include "emulation/reduce.hpp"

#include <cstddef>

#if defined(__CUDA_ARCH__)
#define MACHEPS_UNROLL _Pragma("unroll")
#else
#define MACHEPS_UNROLL
#endif
#if defined(__CUDACC__)
#define MACHEPS_NOINLINE __noinline__
#else
#define MACHEPS_NOINLINE
#endif
#if defined(__CUDACC__)
#define MACHEPS_KERNEL __device__
#else
#define MACHEPS_KERNEL
#include <array>
#include <vector>
#endif

namespace macheps::gpu {

inline constexpr int warp_lanes = static_cast<int>(lanes);

/// Blocks and threads of a launch.
struct Grid {
    std::int64_t x = 1;  ///< blocks along x; y and z are at most 65535
    int y = 1, z = 1;
    int threads = 256;             ///< threads per block: a multiple of 32, at most 1024
    std::size_t shared_bytes = 0;  ///< bytes per block
};

/// Returns a + b. The lane rule (emulation/reduce.hpp) combines lanes with this operation.
struct Plus {
    template <class T>
    MACHEPS_KERNEL T operator()(T a, const T& b) const {
        a += b;
        return a;
    }
};

#if defined(__CUDACC__)

template <class T>
class Lanes {
  public:
    __device__ explicit Lanes(const T& start = T{}) : value_(start) {}
    __device__ T& operator[](int) { return value_; }
    __device__ const T& operator[](int) const { return value_; }

  private:
    T value_;
};

/// A warp of 32 active lanes that run in lockstep.
class Warp {
  public:
    template <class F>
    __device__ void each(const F& f) const {
        f(static_cast<int>(threadIdx.x % warp_lanes));
        __syncwarp();
    }

    /// Combines the values of the lanes in the order of the lane rule: for h = 16, 8, 4, 2, 1, each lane l < h gets
    /// join(its value, the value of lane l + h). Returns the result of lane 0 to every lane.
    template <class T, class Join = Plus>
    __device__ T fold(const Lanes<T>& lanes, const Join& join = {}) const {
        T value = lanes[0];
        for (int half = warp_lanes / 2; half > 0; half /= 2) value = join(value, from_lane(value, half, true));
        return from_lane(value, 0, false);
    }

  private:
    /// Returns the value of another lane. If `relative` is set, the index of that lane is `lane` plus the index of the
    /// caller; otherwise it is `lane`.
    template <class T>
    __device__ static T from_lane(const T& value, int lane, bool relative) {
        static_assert(sizeof(T) % 4 == 0);
        struct Words {
            unsigned word[sizeof(T) / 4];
        };
        Words words = __builtin_bit_cast(Words, value);
        for (unsigned& word : words.word) {
            word = relative ? __shfl_down_sync(0xffffffffu, word, lane) : __shfl_sync(0xffffffffu, word, lane);
        }
        return __builtin_bit_cast(T, words);
    }
};

class Block {
  public:
    __device__ explicit Block(std::byte* shared) : shared_(shared) {}
    __device__ std::int64_t x() const { return blockIdx.x; }
    __device__ int y() const { return static_cast<int>(blockIdx.y); }
    __device__ int z() const { return static_cast<int>(blockIdx.z); }
    __device__ int threads() const { return static_cast<int>(blockDim.x); }

    template <class F>
    __device__ void each(const F& f) const {
        f(static_cast<int>(threadIdx.x));
        __syncthreads();
    }
    /// Calls f like each(), but without the barrier at its end. Memory that f has written may be read by other threads
    /// only after the next each().
    template <class F>
    __device__ void apart(const F& f) const {
        f(static_cast<int>(threadIdx.x));
    }

    /// Returns the block's shared memory, which is 128-byte aligned and uninitialised.
    __device__ std::byte* shared() const { return shared_; }

  private:
    std::byte* shared_;
};

template <class T>
class PerThread {
  public:
    __device__ explicit PerThread(const Block&, const T& start = T{}) : value_(start) {}
    __device__ T& operator[](int) { return value_; }
    __device__ const T& operator[](int) const { return value_; }

  private:
    T value_;
};

__device__ inline void atomic_add(std::uint64_t* p, std::uint64_t x) {
    atomicAdd(reinterpret_cast<unsigned long long*>(p), static_cast<unsigned long long>(x));
}
__device__ inline void atomic_add(std::uint32_t* p, std::uint32_t x) { atomicAdd(p, x); }
__device__ inline void atomic_max(std::uint32_t* p, std::uint32_t x) { atomicMax(p, x); }
__device__ inline void atomic_min(std::uint32_t* p, std::uint32_t x) { atomicMin(p, x); }

#else

template <class T>
class Lanes {
  public:
    explicit Lanes(const T& start = T{}) { value_.fill(start); }
    T& operator[](int lane) { return value_[static_cast<std::size_t>(lane)]; }
    const T& operator[](int lane) const { return value_[static_cast<std::size_t>(lane)]; }

  private:
    std::array<T, warp_lanes> value_;
};

class Warp {
  public:
    template <class F>
    void each(const F& f) const {
        for (int lane = 0; lane < warp_lanes; ++lane) f(lane);
    }

    template <class T, class Join = Plus>
    T fold(Lanes<T> lanes, const Join& join = {}) const {
        for (int half = warp_lanes / 2; half > 0; half /= 2) {
            for (int l = 0; l < half; ++l) lanes[l] = join(lanes[l], lanes[l + half]);
        }
        return lanes[0];
    }
};

class Block {
  public:
    Block(std::int64_t x, int y, int z, int threads, std::byte* shared)
        : x_(x), y_(y), z_(z), threads_(threads), shared_(shared) {}
    std::int64_t x() const { return x_; }
    int y() const { return y_; }
    int z() const { return z_; }
    int threads() const { return threads_; }

    /// Runs the threads in descending order, because no kernel may rely on an ascending order.
    template <class F>
    void each(const F& f) const {
        for (int thread = threads_ - 1; thread >= 0; --thread) f(thread);
    }
    template <class F>
    void apart(const F& f) const {
        each(f);
    }
    std::byte* shared() const { return shared_; }

  private:
    std::int64_t x_;
    int y_, z_, threads_;
    std::byte* shared_;
};

template <class T>
class PerThread {
  public:
    explicit PerThread(const Block& block, const T& start = T{})
        : value_(static_cast<std::size_t>(block.threads()), start) {}
    T& operator[](int thread) { return value_[static_cast<std::size_t>(thread)]; }
    const T& operator[](int thread) const { return value_[static_cast<std::size_t>(thread)]; }

  private:
    std::vector<T> value_;
};

inline void atomic_add(std::uint64_t* p, std::uint64_t x) { *p += x; }
inline void atomic_add(std::uint32_t* p, std::uint32_t x) { *p += x; }
inline void atomic_max(std::uint32_t* p, std::uint32_t x) { *p = max_of(*p, x); }
inline void atomic_min(std::uint32_t* p, std::uint32_t x) { *p = min_of(*p, x); }

#endif

/// Computes the sum of term(first) .. term(first + n - 1) by the lane rule, and returns it to every lane of a warp.
/// Lane i mod 32 calls term(first + i).
template <class T, class Term>
MACHEPS_KERNEL T warp_sum(const Warp& warp, std::int64_t n, const Term& term, std::int64_t first = 0) {
    Lanes<T> sum;
    if (n <= chunk) {
        warp.each([&](int lane) {
            // A local variable lets the host compiler keep the sum in a register. It would store sum[lane] in memory
            // after each addition.
            T mine{};
            for (std::int64_t i = lane; i < n; i += lanes) mine += term(first + i);
            sum[lane] = mine;
        });
        return warp.fold(sum);
    }
    std::int64_t width = chunk;
    while ((n + width - 1) / width > chunk) width *= chunk;
    for (std::int64_t i = 0; i * width < n; ++i) {
        const T part = warp_sum<T>(warp, min_of(width, n - i * width), term, first + i * width);
        warp.each([&](int lane) {
            if (i % lanes == lane) sum[lane] += part;
        });
    }
    return warp.fold(sum);
}

}  // namespace macheps::gpu
