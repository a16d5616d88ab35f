// SPDX-License-Identifier: Apache-2.0
// HostDevice runs GPU kernels on the host, in one thread, with loops in place of the grid. Tests use it to check that a
// kernel has the right indices and the right order of operations. Only the behaviour of the hardware remains untested.
#pragma once
#include "core/host/float_environment.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <map>
#include <memory>

namespace macheps::gpu {

/// A device whose memory host code must not touch. Except during a launch or a copy, mprotect denies all access to it.
class HostDevice {
  public:
    /// If `guarded` is false, the memory stays accessible, which is several times faster.
    explicit HostDevice(bool guarded = true);
    ~HostDevice();
    HostDevice(const HostDevice&) = delete;
    HostDevice& operator=(const HostDevice&) = delete;

    void* allocate(std::size_t bytes);
    void release(void* memory) noexcept;
    void copy_in(void* device, const void* host, std::size_t bytes);
    void copy_out(void* host, const void* device, std::size_t bytes);
    void copy(void* to, const void* from, std::size_t bytes);
    void clear(void* memory, std::size_t bytes);
    void wait() {}

    /// Calls f(i) for i = 0 .. n - 1.
    template <class F>
    void each(std::int64_t n, const F& f) {
        const Opened opened(*this);
        for (std::int64_t i = 0; i < n; ++i) f(i);
    }
    /// Calls f(warp, i) for i = 0 .. n - 1. Each call gets its own warp.
    template <class F>
    void warps(std::int64_t n, const F& f) {
        const Opened opened(*this);
        for (std::int64_t i = 0; i < n; ++i) f(Warp{}, i);
    }
    /// Calls f(block) for every block of the grid.
    template <class F>
    void blocks(const Grid& grid, const F& f) {
        const Opened opened(*this);
        std::vector<Line> shared(grid.shared_bytes / sizeof(Line) + 1);
        for (int z = 0; z < grid.z; ++z) {
            for (int y = 0; y < grid.y; ++y) {
                for (std::int64_t x = 0; x < grid.x; ++x) {
                    Block block(x, y, z, grid.threads, reinterpret_cast<std::byte*>(shared.data()));
                    f(block);
                }
            }
        }
    }

  private:
    struct alignas(128) Line {
        std::byte bytes[128];
    };
    /// While an Opened exists, the memory is accessible, and the host has the floating-point modes of GPU kernels.
    class Opened {
      public:
        explicit Opened(HostDevice& device) : device_(device) { device_.protect(true); }
        ~Opened() { device_.protect(false); }
        Opened(const Opened&) = delete;
        Opened& operator=(const Opened&) = delete;

      private:
        HostDevice& device_;
        DefaultFloatModes modes_;
    };
    void protect(bool open) noexcept;

    bool guarded_;
    std::byte* arena_ = nullptr;
    std::size_t used_ = 0;  ///< bytes of the arena in use
    std::map<std::byte*, std::size_t> taken_, free_;
};

}  // namespace macheps::gpu
