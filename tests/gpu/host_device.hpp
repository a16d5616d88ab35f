// SPDX-License-Identifier: Apache-2.0
// HostDevice runs kernels on the host in one thread, with loops in place of the grid. It is for tests: a kernel that
// passes here has the right indices and the right order, and only the hardware remains to be tested.
#pragma once
#include "core/host/float_environment.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <map>
#include <memory>

namespace macheps::gpu {

/// Memory that host code must not touch: except during a launch or a copy, it is closed to all access (mprotect).
class HostDevice {
  public:
    /// If not `guarded`, the memory stays open, which is several times as fast.
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
    /// Calls f(warp, i) for i = 0 .. n - 1, with a warp for each.
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
    /// While an Opened exists, the memory is open, and the host's floating-point modes are those of the GPU's kernels.
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
    std::size_t used_ = 0;  ///< of the arena
    std::map<std::byte*, std::size_t> taken_, free_;
};

}  // namespace macheps::gpu
