// SPDX-License-Identifier: Apache-2.0
// CpuBackend's operations on the rows and columns of a tensor, and on attention heads.
#include "core/host/float_environment.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "emulation/cpu/ops/elementwise.hpp"
#include "emulation/cpu/ops/rotary.hpp"
#include "emulation/cpu/ops/rows.hpp"
#include "emulation/cpu/ops/softmax.hpp"
#include "emulation/definitions.hpp"
#include "emulation/shape_checks.hpp"

#include <algorithm>
#include <vector>

namespace macheps {

namespace {

constexpr std::int64_t column_grain = 32;  ///< two cache lines, so that threads do not write to the same line

std::span<const std::int32_t> host_tokens(TokenView tokens) {
    return {tokens.data, static_cast<std::size_t>(tokens.count())};
}

}  // namespace

void CpuBackend::embedding(TokenView tokens, ConstView wte, ConstView wpe, View out) {
    const DefaultFloatModes modes;
    const std::int64_t times = tokens.columns(), n = wte.columns();
    const bool placed = wpe.data != nullptr;
    shapes::embedding(tokens.shape, wte.shape, wpe, out.shape);
    shapes::tokens("embedding", host_tokens(tokens), wte.rows());
    const auto add = elementwise_kernels(simd_).of(elementwise::Add{});
    const auto scale = elementwise_kernels(simd_).by_number(elementwise::Multiply{});
    share(tokens.count(), n, [&](auto first, auto last) {
        for (auto r = first; r < last; ++r) {
            const float* row = wte.data + tokens.data[r] * n;
            if (placed) {
                add(row, wpe.data + r % times * n, n, out.data + r * n);
            } else {
                scale(row, 1.0f, n, out.data + r * n);
            }
        }
    });
}

void CpuBackend::embedding_backward(TokenView tokens, ConstView dout, View dwte, View dwpe) {
    const DefaultFloatModes modes;
    const std::int64_t rows = tokens.count(), times = tokens.columns(), n = dwte.columns();
    const bool placed = dwpe.data != nullptr;
    shapes::embedding_backward(tokens.shape, dout.shape, dwte.shape, dwpe);
    shapes::tokens("embedding_backward", host_tokens(tokens), dwte.rows());
    const auto add_to = elementwise_kernels(simd_).of(elementwise::Add{});
    share(
        n, 2 * rows + dwte.rows() + (placed ? dwpe.rows() : 0),
        [&](auto first, auto last) {
            for (const View& table : {dwte, dwpe}) {
                if (table.data == nullptr) continue;
                for (std::int64_t r = 0; r < table.rows(); ++r)
                    std::fill(table.data + r * n + first, table.data + r * n + last, 0.0f);
            }
            for (std::int64_t r = 0; r < rows; ++r) {
                const float* d = dout.data + r * n + first;
                float* sum = dwte.data + tokens.data[r] * n + first;
                add_to(sum, d, last - first, sum);
                if (!placed) continue;
                sum = dwpe.data + r % times * n + first;
                add_to(sum, d, last - first, sum);
            }
        },
        column_grain);
}

void CpuBackend::layernorm(ConstView x, ConstView gamma, ConstView beta, float eps, View out, View mean, View rstd) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns(), rows = x.rows();
    shapes::layernorm(x.shape, gamma.shape, beta.shape, out.shape, mean.shape, rstd.shape);
    const auto kernel = row_kernels(simd_).layernorm;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, gamma.data, beta.data, last - first, n, eps, out.data + first * n, mean.data + first,
               rstd.data + first);
    });
}

void CpuBackend::layernorm_backward(ConstView x, ConstView gamma, ConstView mean, ConstView rstd, ConstView dout,
                                    View dx, View dgamma, View dbeta) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns(), rows = x.rows();
    shapes::layernorm_backward(x.shape, gamma.shape, mean.shape, rstd.shape, dout.shape, dx.shape, dgamma.shape,
                               dbeta.shape);
    // Sum the columns first, because dx may be the same memory as dout or x.
    const auto columns = row_kernels(simd_).layernorm_backward_columns;
    share(
        n, 4 * rows,
        [&](auto first, auto last) {
            columns(x.data, mean.data, rstd.data, dout.data, rows, n, first, last, dgamma.data, dbeta.data);
        },
        column_grain);
    const auto kernel = row_kernels(simd_).layernorm_backward;
    share(rows, 8 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, gamma.data, mean.data + first, rstd.data + first, dout.data + first * n,
               last - first, n, dx.data + first * n);
    });
}

void CpuBackend::rms_normalise(ConstView x, float eps, View out, View rstd) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns(), rows = x.rows();
    shapes::rms_normalise(x.shape, out.shape, rstd.shape);
    const auto kernel = row_kernels(simd_).rms_normalise;
    share(rows, 3 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, last - first, n, eps, out.data + first * n, rstd.data + first);
    });
}

void CpuBackend::rms_normalise_backward(ConstView x, ConstView rstd, ConstView dout, View dx) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns(), rows = x.rows();
    shapes::rms_normalise_backward(x.shape, rstd.shape, dout.shape, dx.shape);
    const auto kernel = row_kernels(simd_).rms_normalise_backward;
    share(rows, 6 * n, [&](auto first, auto last) {
        kernel(x.data + first * n, rstd.data + first, dout.data + first * n, last - first, n, dx.data + first * n);
    });
}

void CpuBackend::multiply_columns(ConstView x, ConstView factors, View out) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns();
    shapes::multiply_columns(x.shape, factors.shape, out.shape);
    const auto kernel = row_kernels(simd_).multiply_columns;
    share(x.rows(), n, [&](auto first, auto last) {
        kernel(x.data + first * n, factors.data, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal(ConstView scores, View out) {
    const DefaultFloatModes modes;
    const std::int64_t n = scores.columns(), rows = scores.rows();
    shapes::softmax_causal(scores.shape, out.shape);
    const auto kernel = softmax_kernels(simd_).softmax_causal;
    share(rows, 12 * n, [&](auto first, auto last) {
        kernel(scores.data + first * n, first, last - first, n, out.data + first * n);
    });
}

void CpuBackend::softmax_causal_backward(ConstView p, ConstView dp, View dscores) {
    const DefaultFloatModes modes;
    const std::int64_t n = p.columns(), rows = p.rows();
    shapes::softmax_causal_backward(p.shape, dp.shape, dscores.shape);
    const auto kernel = softmax_kernels(simd_).softmax_causal_backward;
    share(rows, 4 * n, [&](auto first, auto last) {
        kernel(p.data + first * n, dp.data + first * n, first, last - first, n, dscores.data + first * n);
    });
}

void CpuBackend::log_softmax(ConstView x, View out) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns();
    shapes::log_softmax(x.shape, out.shape);
    const auto kernel = softmax_kernels(simd_).log_softmax;
    share(x.rows(), 12 * n,
          [&](auto first, auto last) { kernel(x.data + first * n, last - first, n, out.data + first * n); });
}

float CpuBackend::nll(ConstView logp, TokenView targets) {
    const DefaultFloatModes modes;
    shapes::nll(logp.shape, targets.shape);
    shapes::tokens("nll", host_tokens(targets), logp.columns());
    return definition::nll(logp.data, targets.data, logp.rows(), logp.columns());
}

double CpuBackend::cross_entropy(ConstView logits, TokenView targets) {
    const DefaultFloatModes modes;
    shapes::cross_entropy(logits.shape, targets.shape);
    const std::int64_t rows = logits.rows(), n = logits.columns();
    shapes::tokens("cross_entropy", host_tokens(targets), n);
    std::vector<double> losses(static_cast<std::size_t>(rows));
    const auto kernel = softmax_kernels(simd_).cross_entropy;
    share(rows, 20 * n, [&](auto first, auto last) {
        kernel(logits.data + first * n, targets.data + first, last - first, n, losses.data() + first);
    });
    const double sum = lane_sum<double>(rows, [&](std::int64_t r) { return losses[static_cast<std::size_t>(r)]; });
    return definition::canonical(sum / static_cast<double>(rows));
}

void CpuBackend::nll_backward(ConstView logp, TokenView targets, float factor, View dx) {
    const DefaultFloatModes modes;
    const std::int64_t n = logp.columns();
    shapes::nll_backward(logp.shape, targets.shape, dx.shape);
    shapes::tokens("nll_backward", host_tokens(targets), n);
    const auto kernel = softmax_kernels(simd_).nll_backward;
    share(logp.rows(), 8 * n, [&](auto first, auto last) {
        kernel(logp.data + first * n, targets.data + first, last - first, n, factor, dx.data + first * n);
    });
}

void CpuBackend::column_sum(ConstView x, View out) {
    const DefaultFloatModes modes;
    const std::int64_t n = x.columns();
    shapes::column_sum(x.shape, out.shape);
    const auto kernel = row_kernels(simd_).column_sum;
    share(
        n, x.rows(), [&](auto first, auto last) { kernel(x.data, x.rows(), n, first, last, out.data); }, column_grain);
}

void CpuBackend::split_heads(ConstView x, std::int64_t first_column, View out) {
    const auto s = shapes::heads("split_heads", x.shape, first_column, out.shape);
    share(s.batch * s.heads, s.times * s.width, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            for (std::int64_t t = 0; t < s.times; ++t) {
                const float* from = x.data + definition::joined_index(i / s.heads, t, i % s.heads, 0, s.times,
                                                                      s.columns, first_column, s.width);
                std::copy(from, from + s.width, out.data + (i * s.times + t) * s.width);
            }
        }
    });
}

void CpuBackend::merge_heads(ConstView x, std::int64_t first_column, View out) {
    const auto s = shapes::heads("merge_heads", out.shape, first_column, x.shape);
    share(s.batch * s.times, s.heads * s.width, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            for (std::int64_t h = 0; h < s.heads; ++h) {
                const float* from = x.data + (((i / s.times) * s.heads + h) * s.times + i % s.times) * s.width;
                std::copy(from, from + s.width,
                          out.data + definition::joined_index(i / s.times, i % s.times, h, 0, s.times, s.columns,
                                                              first_column, s.width));
            }
        }
    });
}

void CpuBackend::sum_head_groups(ConstView x, View out) {
    const DefaultFloatModes modes;
    shapes::sum_head_groups(x.shape, out.shape);
    const std::int64_t group = x.shape[1] / out.shape[1], n = out.shape[2] * out.shape[3];
    const auto add_to = elementwise_kernels(simd_).of(elementwise::Add{});
    share(out.shape[0] * out.shape[1], group * n, [&](auto first, auto last) {
        for (auto i = first; i < last; ++i) {
            float* sum = out.data + i * n;
            std::fill(sum, sum + n, 0.0f);
            for (std::int64_t g = 0; g < group; ++g) add_to(sum, x.data + (i * group + g) * n, n, sum);
        }
    });
}

void CpuBackend::rotate(ConstView x, ConstView cos, ConstView sin, Turn turn, View direct, View rotated) {
    const DefaultFloatModes modes;
    const std::int64_t columns = x.columns(), n = direct.columns(), width = 2 * cos.columns();
    shapes::rotate(x.shape, cos.shape, sin.shape, direct.shape, rotated.shape);
    const std::int64_t times = x.shape[1], half = width / 2;
    const auto kernel = rotate_kernel(simd_);
    share(x.rows(), 2 * n, [&](auto first, auto last) {
        for (auto r = first; r < last; ++r) {
            const std::int64_t t = r % times;
            kernel(x.data + r * columns, cos.data + t * half, sin.data + t * half, turn, n / width, width,
                   direct.data + r * n, rotated.data + r * n);
        }
    });
}

}  // namespace macheps
