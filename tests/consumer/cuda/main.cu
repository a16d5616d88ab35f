// SPDX-License-Identifier: Apache-2.0
// Compares a function on host and device bit for bit. Without a GPU it checks only the host.
#include "core/codec.hpp"
#include "core/math.hpp"
#include "core/rng.hpp"

#include <cstdio>
#include <vector>

namespace {

constexpr int count = 1 << 16;

MACHEPS_HD float input(int i) { return macheps::bit_cast<float>(static_cast<std::uint32_t>(i) * 65537u); }

MACHEPS_HD std::uint32_t result(int i) {
    constexpr macheps::Format format{
        .bits = 8, .precision = 4, .exponent_bias = 7, .specials = macheps::Specials::nan_only};
    const float x = input(i);
    const auto code = encode(format, x, macheps::Round::stochastic, macheps::Overflow::saturate,
                             {.value = macheps::random_bits({.seed = 1}, static_cast<std::uint64_t>(i)), .bits = 32});
    return macheps::bit_cast<std::uint32_t>(macheps::math::tanh(x)) ^ code;
}

__global__ void results(std::uint32_t* out) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count) out[i] = result(i);
}

}  // namespace

int main() {
    if (macheps::encode(macheps::e4m3fn, 464.0f, macheps::Round::nearest_even, macheps::Overflow::nonsaturate) !=
        0x7e) {
        std::printf("FAILED: the host's encode\n");
        return 1;
    }
    std::uint32_t* device = nullptr;
    if (cudaMalloc(&device, count * sizeof *device) != cudaSuccess) {
        std::printf("the host is right; no GPU here\n");
        return 0;
    }
    results<<<count / 256, 256>>>(device);
    std::vector<std::uint32_t> got(count);
    if (cudaMemcpy(got.data(), device, count * sizeof *device, cudaMemcpyDeviceToHost) != cudaSuccess) {
        std::printf("FAILED: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    int wrong = 0;
    for (int i = 0; i < count; ++i) wrong += got[static_cast<std::size_t>(i)] != result(i);
    std::printf("%d of %d results differ between host and device\n", wrong, count);
    cudaFree(device);
    return wrong == 0 ? 0 : 1;
}
