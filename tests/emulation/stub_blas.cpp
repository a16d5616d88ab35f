// SPDX-License-Identifier: Apache-2.0
// BLAS libraries for a test. MACHEPS_STUB selects a library. Library 1 sums in fp64. Library 2 also sums in fp64, but
// its results change from call to call. Library 3 crashes in the second call.
#include <csignal>
#include <cstddef>
#include <vector>

extern "C" void cblas_sgemm(int, int, int, int m, int n, int k, float, const float* a, int lda, const float* b, int ldb,
                            float, float* c, int ldc) {
    static int calls = 0;
    ++calls;
    if (MACHEPS_STUB == 3 && calls > 1) raise(SIGSEGV);
    std::vector<double> sums(static_cast<std::size_t>(n));
    for (int i = 0; i < m; ++i) {
        sums.assign(sums.size(), 0);
        for (int p = 0; p < k; ++p) {
            const double x = a[static_cast<std::ptrdiff_t>(i) * lda + p];
            const float* const row = b + static_cast<std::ptrdiff_t>(p) * ldb;
            for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += x * static_cast<double>(row[j]);
        }
        for (int j = 0; j < n; ++j) {
            c[static_cast<std::ptrdiff_t>(i) * ldc + j] =
                static_cast<float>(sums[static_cast<std::size_t>(j)]) *
                (MACHEPS_STUB == 2 ? 1 + static_cast<float>(calls) * 0x1p-20f : 1);
        }
    }
}
