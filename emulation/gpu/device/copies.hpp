// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from global to shared memory (cp.async), which run while the thread computes. On the host, a copy
// is complete when the function returns.
#pragma once
#include "emulation/gpu/device/threads.hpp"

#include <cstring>

namespace macheps::gpu {

/// Starts a copy of 16 bytes from global to shared memory. Both addresses must be multiples of 16. wait_copies waits
/// for the end of the copy.
MACHEPS_KERNEL inline void start_copy(void* shared, const void* global) {
#if defined(__CUDA_ARCH__)
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(__cvta_generic_to_global(global))
        : "memory");
#else
    std::memcpy(shared, global, 16);
#endif
}
/// Ends a group of copies. The group consists of the copies that this thread has started since its previous group.
MACHEPS_KERNEL inline void end_copy_group() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.commit_group;\n" ::: "memory");
#endif
}
/// Waits until all groups of copies of this thread except the last `left` are done.
template <int left>
MACHEPS_KERNEL void wait_copies() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_group %0;\n" ::"n"(left) : "memory");
#endif
}

/// Starts a copy of 4 bytes, or writes +0 if `there` is false. In that case `global` may be any address.
MACHEPS_KERNEL inline void start_copy(float* shared, const float* global, bool there) {
#if defined(__CUDA_ARCH__)
    asm volatile(
        "cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(__cvta_generic_to_global(global)), "r"(there ? 4 : 0)
        : "memory");
#else
    *shared = there ? *global : 0.0f;
#endif
}

}  // namespace macheps::gpu
