// SPDX-License-Identifier: Apache-2.0
// Kernels of operations on rows and columns. One warp computes a row, so its lanes are the lanes of the lane rule
// (emulation/reduce.hpp). One thread adds up a column.
#pragma once
#include "emulation/definitions.hpp"
#include "emulation/gpu/device/threads.hpp"

#include <vector>

namespace macheps::gpu {

/// Finds the largest of x[0 .. n - 1] and returns it to every lane. The result is NaN if any element is NaN, and -Inf
/// if n is 0.
MACHEPS_KERNEL inline float warp_max(const Warp& warp, const float* x, std::int64_t n) {
    Lanes<float> top(bit_cast<float>(0xff800000u));
    warp.each([&](int lane) {
        float mine = top[lane];
        for (std::int64_t i = lane; i < n; i += lanes) mine = definition::max_or_nan(mine, x[i]);
        top[lane] = mine;
    });
    return warp.fold(top, [](float a, float b) { return definition::max_or_nan(a, b); });
}

/// Calls f(i) for i = 0 .. n - 1 in lane i mod 32. In warp_sum, the same lane adds term i.
template <class F>
MACHEPS_KERNEL void for_each_of_row(const Warp& warp, std::int64_t n, const F& f) {
    warp.each([&](int lane) {
        for (std::int64_t i = lane; i < n; i += lanes) f(i);
    });
}

template <class Device>
void layernorm(Device& device, const float* x_all, const float* gamma, const float* beta, std::int64_t rows,
               std::int64_t n, float eps, float* out_all, float* means, float* rstds) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float* x = x_all + r * n;
        float* out = out_all + r * n;
        const float count = static_cast<float>(n);
        const float mean = warp_sum<float>(warp, n, [=](std::int64_t i) { return x[i]; }) / count;
        const float variance =
            warp_sum<float>(warp, n, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
        const float rstd = 1.0f / sqrt(variance + eps);
        for_each_of_row(warp, n, [=](std::int64_t i) {
            out[i] = definition::canonical(((x[i] - mean) * rstd) * gamma[i] + beta[i]);
        });
        warp.each([=](int lane) {
            if (lane != 0) return;
            means[r] = definition::canonical(mean);
            rstds[r] = definition::canonical(rstd);
        });
    });
}

/// Computes the sum of each column c = 0 .. n - 1 and calls sums(c, sum). The sum is +0 + term(0,c) + term(1,c) + ...
/// over `rows` rows, in this order. The threads of a block first compute the terms of some rows in parallel. Then one
/// thread per column adds them.
template <class T, class Device, class Term, class Sums>
void column_sums(Device& device, std::int64_t rows, std::int64_t n, const Term& term, const Sums& sums) {
    constexpr int columns = 32, threads = 256;
    constexpr std::int64_t tile_rows = static_cast<std::int64_t>(16384 / sizeof(T) / columns);
    const Grid grid{.x = (n + columns - 1) / columns, .threads = threads, .shared_bytes = 16384};
    device.blocks(grid, [=] MACHEPS_KERNEL(const Block& block) {
        T* const tile = reinterpret_cast<T*>(block.shared());
        const std::int64_t first = block.x() * columns;
        PerThread<T> sum(block);
        for (std::int64_t r0 = 0; r0 < rows; r0 += tile_rows) {
            const std::int64_t here = min_of(tile_rows, rows - r0);
            block.each([&](int thread) {
                const std::int64_t c = first + thread % columns;
                if (c >= n) return;
                for (std::int64_t r = thread / columns; r < here; r += threads / columns) {
                    tile[r * columns + thread % columns] = term(r0 + r, c);
                }
            });
            block.each([&](int thread) {
                if (thread >= columns || first + thread >= n) return;
                T mine = sum[thread];
                for (std::int64_t r = 0; r < here; ++r) mine += tile[r * columns + thread];
                sum[thread] = mine;
            });
        }
        block.each([&](int thread) {
            if (thread < columns && first + thread < n) sums(first + thread, sum[thread]);
        });
    });
}

/// Sums of one column for dgamma and dbeta.
struct NormSums {
    float gamma = 0, beta = 0;

    MACHEPS_KERNEL NormSums& operator+=(const NormSums& other) {
        gamma += other.gamma;
        beta += other.beta;
        return *this;
    }
};

/// Computes dgamma and dbeta first, because dx may be the same memory as dout or x.
template <class Device>
void layernorm_backward(Device& device, const float* x_all, const float* gamma, const float* means, const float* rstds,
                        const float* dout_all, std::int64_t rows, std::int64_t n, float* dx_all, float* dgamma,
                        float* dbeta) {
    column_sums<NormSums>(
        device, rows, n,
        [=] MACHEPS_KERNEL(std::int64_t r, std::int64_t c) {
            const float d = dout_all[r * n + c];
            return NormSums{d * ((x_all[r * n + c] - means[r]) * rstds[r]), d};
        },
        [=] MACHEPS_KERNEL(std::int64_t c, const NormSums& sum) {
            dgamma[c] = definition::canonical(sum.gamma);
            dbeta[c] = definition::canonical(sum.beta);
        });
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float *x = x_all + r * n, *dout = dout_all + r * n;
        float* dx = dx_all + r * n;
        const float count = static_cast<float>(n), mean = means[r], rstd = rstds[r];
        const float g_mean = warp_sum<float>(warp, n, [=](std::int64_t i) { return dout[i] * gamma[i]; }) / count;
        const float gx_mean =
            warp_sum<float>(warp, n, [=](std::int64_t i) { return (dout[i] * gamma[i]) * ((x[i] - mean) * rstd); }) /
            count;
        for_each_of_row(warp, n, [=](std::int64_t i) {
            const float xhat = (x[i] - mean) * rstd, g = dout[i] * gamma[i];
            dx[i] = definition::canonical(rstd * ((g - g_mean) - xhat * gx_mean));
        });
    });
}

template <class Device>
void rms_normalise(Device& device, const float* x_all, std::int64_t rows, std::int64_t n, float eps, float* out_all,
                   float* rstds) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float* x = x_all + r * n;
        float* out = out_all + r * n;
        const float mean_square =
            warp_sum<float>(warp, n, [=](std::int64_t i) { return x[i] * x[i]; }) / static_cast<float>(n);
        const float rstd = 1.0f / sqrt(mean_square + eps);
        for_each_of_row(warp, n, [=](std::int64_t i) { out[i] = definition::canonical(x[i] * rstd); });
        warp.each([=](int lane) {
            if (lane == 0) rstds[r] = definition::canonical(rstd);
        });
    });
}

template <class Device>
void rms_normalise_backward(Device& device, const float* x_all, const float* rstds, const float* dout_all,
                            std::int64_t rows, std::int64_t n, float* dx_all) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float *x = x_all + r * n, *dout = dout_all + r * n;
        float* dx = dx_all + r * n;
        const float rstd = rstds[r];
        const float dx_mean =
            warp_sum<float>(warp, n, [=](std::int64_t i) { return dout[i] * (x[i] * rstd); }) / static_cast<float>(n);
        for_each_of_row(warp, n, [=](std::int64_t i) {
            dx[i] = definition::canonical(rstd * (dout[i] - (x[i] * rstd) * dx_mean));
        });
    });
}

template <class Device>
void softmax_causal(Device& device, const float* scores_all, std::int64_t rows, std::int64_t n, float* out_all) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const std::int64_t visible = r % n + 1;
        const float* scores = scores_all + r * n;
        float* out = out_all + r * n;
        const float top = warp_max(warp, scores, visible);
        const float sum =
            warp_sum<float>(warp, visible, [=](std::int64_t i) { return out[i] = math::exp(scores[i] - top); });
        for_each_of_row(warp, n,
                        [=](std::int64_t i) { out[i] = i < visible ? definition::canonical(out[i] / sum) : 0.0f; });
    });
}

template <class Device>
void softmax_causal_backward(Device& device, const float* p_all, const float* dp_all, std::int64_t rows, std::int64_t n,
                             float* dscores_all) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const std::int64_t visible = r % n + 1;
        const float *p = p_all + r * n, *dp = dp_all + r * n;
        float* dscores = dscores_all + r * n;
        const float sum = warp_sum<float>(warp, visible, [=](std::int64_t i) { return p[i] * dp[i]; });
        for_each_of_row(warp, n, [=](std::int64_t i) {
            dscores[i] = i < visible ? definition::canonical(p[i] * (dp[i] - sum)) : 0.0f;
        });
    });
}

template <class Device>
void log_softmax(Device& device, const float* x_all, std::int64_t rows, std::int64_t n, float* out_all) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float* x = x_all + r * n;
        float* out = out_all + r * n;
        const float top = warp_max(warp, x, n);
        const float sum = warp_sum<float>(warp, n, [=](std::int64_t i) { return math::exp(x[i] - top); });
        const float total = top + math::log(sum);
        for_each_of_row(warp, n, [=](std::int64_t i) { out[i] = definition::canonical(x[i] - total); });
    });
}

/// Writes the mean negative log-likelihood over all rows to *mean.
template <class Device>
void nll(Device& device, const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n,
         float* mean) {
    device.warps(1, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t) {
        const float sum = warp_sum<float>(warp, rows, [=](std::int64_t r) { return -logp[r * n + targets[r]]; });
        warp.each([=](int lane) {
            if (lane == 0) *mean = definition::canonical(sum / static_cast<float>(rows));
        });
    });
}

/// Writes the cross entropy of each row of logits to `losses`.
template <class Device>
void cross_entropy(Device& device, const float* logits, const std::int32_t* targets, std::int64_t rows, std::int64_t n,
                   double* losses) {
    device.warps(rows, [=] MACHEPS_KERNEL(const Warp& warp, std::int64_t r) {
        const float* x = logits + r * n;
        const double top = warp_max(warp, x, n);
        const double sum = warp_sum<double>(warp, n, [=](std::int64_t i) { return math::exp(x[i] - top); });
        warp.each([=](int lane) {
            if (lane == 0) losses[r] = definition::canonical(math::log(sum) + (top - x[targets[r]]));
        });
    });
}

/// Rows grouped by token, in row order: the rows of token t are order[begin[t]] .. order[begin[t + 1] - 1].
struct RowsByToken {
    std::vector<std::int32_t> begin, order;
};
inline RowsByToken rows_by_token(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary) {
    const auto count = static_cast<std::size_t>(vocabulary);
    RowsByToken rows{std::vector<std::int32_t>(count + 1), std::vector<std::int32_t>(tokens.size())};
    for (const std::int32_t token : tokens) ++rows.begin[static_cast<std::size_t>(token) + 1];
    for (std::size_t t = 0; t < count; ++t) rows.begin[t + 1] += rows.begin[t];
    std::vector<std::int32_t> next(rows.begin.begin(), rows.begin.end() - 1);
    for (std::size_t r = 0; r < tokens.size(); ++r) {
        const auto place = static_cast<std::size_t>(next[static_cast<std::size_t>(tokens[r])]++);
        rows.order[place] = static_cast<std::int32_t>(r);
    }
    return rows;
}

/// Computes out[t,c] = +0 + x[r,c] + ... over the rows r of token t (RowsByToken), for t = 0 .. count - 1.
template <class Device>
void gather_rows(Device& device, const float* x, std::int64_t n, const std::int32_t* begin, const std::int32_t* order,
                 std::int64_t count, float* out) {
    device.each(count * n, [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t t = i / n, c = i % n;
        float sum = 0;
        for (std::int32_t at = begin[t]; at < begin[t + 1]; ++at) {
            sum = definition::add(sum, x[static_cast<std::int64_t>(order[at]) * n + c]);
        }
        out[i] = sum;
    });
}

/// For each t < times, computes out[t,c] = +0 + x[t,c] + x[t + times,c] + ..., where x has `rows` rows. The rows t >=
/// times of `out` become +0.
template <class Device>
void gather_positions(Device& device, const float* x, std::int64_t rows, std::int64_t times, std::int64_t n,
                      std::int64_t table_rows, float* out) {
    device.each(table_rows * n, [=] MACHEPS_KERNEL(std::int64_t i) {
        const std::int64_t t = i / n, c = i % n;
        float sum = 0;
        for (std::int64_t r = t; t < times && r < rows; r += times) sum = definition::add(sum, x[r * n + c]);
        out[i] = sum;
    });
}

/// Computes element i of Backend::rotate, a rotary embedding of heads in a tensor [B,T,N].
struct Rotation {
    const float *x, *cos, *sin;
    Turn turn;
    std::int64_t times, columns, n, half;
    float *direct, *rotated;

    MACHEPS_KERNEL void operator()(std::int64_t i) const {
        const std::int64_t r = i / n, c = i % n, d = c % (2 * half), angle = r % times * half + d % half;
        const float* row = x + r * columns + (c - d);
        const float s = turn == Turn::forward ? sin[angle] : -sin[angle];
        direct[i] = definition::canonical(row[d] * cos[angle]);
        rotated[i] = definition::canonical(d < half ? -row[d + half] * s : row[d - half] * s);
    }
};

}  // namespace macheps::gpu
