// SPDX-License-Identifier: Apache-2.0
// Cache of device memory: a freed block is kept for the next tensor of the same size. All work is on one stream, so a
// later launch cannot overwrite memory that an earlier launch still reads.
#pragma once
#include "core/hd.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace macheps::gpu {

/// Allocator of device memory that keeps freed blocks. It owns the device, so that tensors may outlive the engine that
/// made them.
template <class Device>
class DeviceMemory : public std::enable_shared_from_this<DeviceMemory<Device>> {
  public:
    template <class... Args>
    explicit DeviceMemory(Args&&... args) : device_(std::forward<Args>(args)...) {}
    ~DeviceMemory() {
        for (const auto& [bytes, block] : free_) device_.release(block);
    }
    DeviceMemory(const DeviceMemory&) = delete;
    DeviceMemory& operator=(const DeviceMemory&) = delete;

    Device& device() { return device_; }

    std::shared_ptr<void> take(std::size_t bytes) {
        bytes = (max_of(bytes, std::size_t{1}) + 511) / 512 * 512;
        void* block = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (const auto found = free_.find(bytes); found != free_.end()) {
                block = found->second;
                free_.erase(found);
            }
        }
        if (block == nullptr) block = device_.allocate(bytes);
        return {block, [self = this->shared_from_this(), bytes](void* freed) {
                    const std::lock_guard lock(self->mutex_);
                    self->free_.emplace(bytes, freed);
                }};
    }

  private:
    Device device_;
    std::mutex mutex_;
    std::multimap<std::size_t, void*> free_;
};

/// Temporary array of `count` elements of T for one operation.
template <class T, class Device>
class ScratchArray {
  public:
    ScratchArray(DeviceMemory<Device>& memory, std::int64_t count)
        : memory_(memory), block_(memory.take(bytes(count))), count_(count) {}
    ScratchArray(DeviceMemory<Device>& memory, const std::vector<T>& values)
        : ScratchArray(memory, static_cast<std::int64_t>(values.size())) {
        if (count_ != 0) memory.device().copy_in(data(), values.data(), bytes(count_));
    }

    T* data() const { return static_cast<T*>(block_.get()); }
    void clear() { memory_.device().clear(data(), bytes(count_)); }
    /// Waits for all launched kernels, and returns a copy of the elements.
    std::vector<T> download() const {
        std::vector<T> host(static_cast<std::size_t>(count_));
        if (count_ != 0) memory_.device().copy_out(host.data(), data(), bytes(count_));
        return host;
    }
    T value() const {
        T host;
        memory_.device().copy_out(&host, data(), sizeof(T));
        return host;
    }

  private:
    static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(T); }

    DeviceMemory<Device>& memory_;
    std::shared_ptr<void> block_;
    std::int64_t count_;
};

}  // namespace macheps::gpu
