// SPDX-License-Identifier: Apache-2.0
// Dumps a CUTLASS matrix product for `macheps check`, as .npy files: fp16 operands, fp32 sums, fp16 output.
//
// nvcc -std=c++17 -arch=sm_80 -I cutlass/include cutlass_dump.cu -o cutlass_dump && ./cutlass_dump, then
// macheps check a.npy b.npy out.npy --op gemm --machine sm80.mma.fp16
#include <cutlass/gemm/device/gemm.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace {

/// Writes an .npy file, version 1.0, of fp16 in row-major order.
bool save(const char* path, int rows, int columns, const std::vector<cutlass::half_t>& values) {
    std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (" + std::to_string(rows) + ", " +
                         std::to_string(columns) + "), }";
    header.resize(117, ' ');
    header += '\n';
    std::FILE* file = std::fopen(path, "wb");
    if (file == nullptr) return false;
    const unsigned char begin[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118, 0};
    std::fwrite(begin, 1, sizeof begin, file);
    std::fwrite(header.data(), 1, header.size(), file);
    std::fwrite(values.data(), sizeof(cutlass::half_t), values.size(), file);
    return std::fclose(file) == 0;
}

cutlass::half_t* on_device(const std::vector<cutlass::half_t>& values) {
    void* at = nullptr;
    if (cudaMalloc(&at, values.size() * sizeof values[0]) != cudaSuccess) return nullptr;
    cudaMemcpy(at, values.data(), values.size() * sizeof values[0], cudaMemcpyHostToDevice);
    return static_cast<cutlass::half_t*>(at);
}

}  // namespace

int main() {
    using Rows = cutlass::layout::RowMajor;
    using Gemm = cutlass::gemm::device::Gemm<cutlass::half_t, Rows, cutlass::half_t, Rows, cutlass::half_t, Rows, float,
                                             cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80>;
    constexpr int m = 192, n = 160, k = 1000;  // not multiples of the tile size, so there are partial tiles
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    std::vector<cutlass::half_t> a(m * k), b(k * n), out(m * n, cutlass::half_t(NAN));
    for (auto& x : a) x = cutlass::half_t(normal(random));
    for (auto& x : b) x = cutlass::half_t(normal(random));
    cutlass::half_t *a_at = on_device(a), *b_at = on_device(b), *out_at = on_device(out);
    if (a_at == nullptr || b_at == nullptr || out_at == nullptr) return 1;
    Gemm gemm;
    const cutlass::Status status = gemm({{m, n, k}, {a_at, k}, {b_at, n}, {out_at, n}, {out_at, n}, {1.0f, 0.0f}});
    cudaMemcpy(out.data(), out_at, out.size() * sizeof out[0], cudaMemcpyDeviceToHost);
    if (status != cutlass::Status::kSuccess || cudaGetLastError() != cudaSuccess) return 1;
    return save("a.npy", m, k, a) && save("b.npy", k, n, b) && save("out.npy", m, n, out) ? 0 : 1;
}
