// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/host_device.hpp"

#include <sys/mman.h>

#include <cstring>
#include <iterator>
#include <new>

namespace macheps::gpu {

namespace {

constexpr std::size_t arena_bytes = std::size_t{16} << 30;  // only addresses; a page is allocated when it is written
constexpr std::size_t page = 4096;

}  // namespace

HostDevice::HostDevice(bool guarded) : guarded_(guarded) {
    void* const memory = mmap(nullptr, arena_bytes, guarded ? PROT_NONE : PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    arena_ = static_cast<std::byte*>(memory);
}

HostDevice::~HostDevice() { munmap(arena_, arena_bytes); }

void HostDevice::protect(bool open) noexcept {
    if (guarded_ && used_ != 0) mprotect(arena_, used_, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void* HostDevice::allocate(std::size_t bytes) {
    bytes = (max_of(bytes, std::size_t{1}) + page - 1) / page * page;
    for (auto at = free_.begin(); at != free_.end(); ++at) {
        const auto [memory, size] = *at;
        if (size < bytes) continue;
        free_.erase(at);
        if (size > bytes) free_[memory + bytes] = size - bytes;
        taken_[memory] = bytes;
        return memory;
    }
    if (used_ + bytes > arena_bytes) throw std::bad_alloc();
    std::byte* const memory = arena_ + used_;
    used_ += bytes;
    taken_[memory] = bytes;
    return memory;
}

void HostDevice::release(void* memory) noexcept {
    const auto found = taken_.find(static_cast<std::byte*>(memory));
    if (found == taken_.end()) return;
    auto here = free_.insert(*found).first;
    taken_.erase(found);
    const auto next = std::next(here);
    if (next != free_.end() && here->first + here->second == next->first) {
        here->second += next->second;
        free_.erase(next);
    }
    if (here != free_.begin()) {
        const auto before = std::prev(here);
        if (before->first + before->second == here->first) {
            before->second += here->second;
            free_.erase(here);
            here = before;
        }
    }
    // Every launch opens and closes the first used_ bytes of the arena. If the last of them are free now, used_
    // shrinks. Memory beyond used_ stays closed.
    if (here->first + here->second != arena_ + used_) return;
    used_ -= here->second;
    free_.erase(here);
}

void HostDevice::copy_in(void* device, const void* host, std::size_t bytes) {
    if (bytes == 0) return;  // an empty vector has no address
    const Opened opened(*this);
    std::memcpy(device, host, bytes);
}
void HostDevice::copy_out(void* host, const void* device, std::size_t bytes) {
    if (bytes == 0) return;
    const Opened opened(*this);
    std::memcpy(host, device, bytes);
}
void HostDevice::copy(void* to, const void* from, std::size_t bytes) {
    const Opened opened(*this);
    std::memmove(to, from, bytes);
}
void HostDevice::clear(void* memory, std::size_t bytes) {
    const Opened opened(*this);
    std::memset(memory, 0, bytes);
}

}  // namespace macheps::gpu
