// SPDX-License-Identifier: Apache-2.0
// Libraries that a test loads: one sums in fp64, one gives other bits from call to call, one crashes.
#include <csignal>
#include <cstddef>

extern "C" void cblas_sgemm(int, int, int, int m, int n, int k, float, const float* a, int lda, const float* b, int ldb,
                            float, float* c, int ldc) {
    static int calls = 0;
    ++calls;
    if (MACHEPS_STUB == 3 && calls > 1) raise(SIGSEGV);
    for (int i = 0; i < m; ++i) {
        for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int p = 0; p < k; ++p) {
                sum += static_cast<double>(a[static_cast<std::ptrdiff_t>(i) * lda + p]) *
                       static_cast<double>(b[static_cast<std::ptrdiff_t>(p) * ldb + j]);
            }
            c[static_cast<std::ptrdiff_t>(i) * ldc + j] =
                static_cast<float>(sum) * (MACHEPS_STUB == 2 ? 1 + static_cast<float>(calls) * 0x1p-20f : 1);
        }
    }
}
