// SPDX-License-Identifier: Apache-2.0
// Exports Eigen's matrix product as cblas_sgemm, so that `macheps verify --library FILE` can find Eigen's order of
// summation.
#include <Eigen/Core>

namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Stride = Eigen::OuterStride<>;

}  // namespace

extern "C" void cblas_sgemm(int, int, int, int m, int n, int k, float, const float* a, int lda, const float* b, int ldb,
                            float, float* c, int ldc) {
    Eigen::Map<Rows, 0, Stride>(c, m, n, Stride(ldc)).noalias() =
        Eigen::Map<const Rows, 0, Stride>(a, m, k, Stride(lda)) *
        Eigen::Map<const Rows, 0, Stride>(b, k, n, Stride(ldb));
}
