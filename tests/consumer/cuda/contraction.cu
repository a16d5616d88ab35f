// SPDX-License-Identifier: Apache-2.0
__global__ void rounded_twice(const float* a, const float* b, const float* c, float* out) {
    out[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x] - c[threadIdx.x];
}
