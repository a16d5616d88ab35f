// SPDX-License-Identifier: Apache-2.0
// Definition of every operation of emulation/backend.hpp for one element, one row or one column. The scalar engine runs
// this code; the vector and CUDA engines return the same bits. The code compiles for host and device. Pointers point to
// contiguous rows. Each operation is rounded separately; fma is used only in core/math.hpp and core/math64.hpp. Three
// definitions are in other files: matmul on a Machine in emulation/matmul, Adam with the roundings of the frameworks in
// emulation/adam.hpp, and the tally of a cast in core/tally.hpp, next to the codec.
#pragma once
#include "core/math.hpp"
#include "core/math64.hpp"
#include "emulation/backend.hpp"
#include "emulation/reduce.hpp"

namespace macheps::definition {

// --- NaN and casts

/// Returns x, or the one canonical quiet NaN if x is NaN. (The NaN bits of arithmetic differ between x86 and NVIDIA
/// GPUs.)
MACHEPS_HD inline float canonical(float x) { return x == x ? x : bit_cast<float>(0x7fc00000u); }
MACHEPS_HD inline double canonical(double x) {
    return x == x ? x : bit_cast<double>(std::uint64_t{0x7ff8000000000000});
}

/// Returns the cast of x, which is element `i`: x * encode_scale, rounded to the grid of the format. The result is not
/// divided by encode_scale.
MACHEPS_HD inline float cast_element(const Cast& cast, float x, std::uint64_t i) {
    const float z = cast.encode_scale == 1 ? x : canonical(x * cast.encode_scale);
    RandomBits random{};
    if (cast.round == Round::stochastic && cast.can_draw()) {
        random = {random_bits(cast.key, i) >> (32 - cast.random_bits), cast.random_bits};
    }
    return quantize(cast.format, z, cast.round, cast.overflow, random);
}

/// Returns whether f is fp32. The function compares f with a local copy of fp32, because device code may not refer to a
/// constexpr variable at namespace scope.
MACHEPS_HD inline bool is_fp32(const Format& f) {
    constexpr Format single = fp32;
    return f == single;
}

/// Casts a result of arithmetic like cast_element, but makes a NaN canonical first and skips a cast that changes
/// nothing.
MACHEPS_HD inline float store_as(const Cast& cast, float x, std::uint64_t i) {
    const bool is_identity = is_fp32(cast.format) && cast.encode_scale == 1;
    return is_identity ? canonical(x) : cast_element(cast, canonical(x), i);
}

/// Returns the larger number, or NaN if either is NaN. If both are zero, it returns `a`; no caller depends on the sign.
MACHEPS_HD inline float max_or_nan(float a, float b) { return b > a || b != b ? b : a; }

/// Returns max_or_nan over a row, or -Inf if the row is empty.
MACHEPS_HD inline float row_max(const float* x, std::int64_t n) {
    float top = bit_cast<float>(0xff800000u);
    for (std::int64_t i = 0; i < n; ++i) top = max_or_nan(top, x[i]);
    return top;
}

// --- elementwise operations, with the formulas of emulation/elementwise.inl

template <class F>
MACHEPS_HD inline float map(float x) {
    return canonical(F::value(x));
}
template <class F>
MACHEPS_HD inline float map(float a, float b) {
    return canonical(F::value(a, b));
}
template <class F>
MACHEPS_HD inline float map_backward(float x, float dy) {
    return canonical(F::backward(x, dy));
}

MACHEPS_HD inline float add(float a, float b) { return map<elementwise::Add>(a, b); }
MACHEPS_HD inline float multiply(float a, float b) { return map<elementwise::Multiply>(a, b); }

// --- rows

MACHEPS_HD inline void layernorm_row(const float* x, const float* gamma, const float* beta, std::int64_t n, float eps,
                                     float* out, float* mean_out, float* rstd_out) {
    const float count = static_cast<float>(n);
    const float mean = lane_sum<float>(n, [=](std::int64_t i) { return x[i]; }) / count;
    const float variance = lane_sum<float>(n, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / count;
    const float rstd = 1.0f / sqrt(variance + eps);
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(((x[i] - mean) * rstd) * gamma[i] + beta[i]);
    *mean_out = canonical(mean);
    *rstd_out = canonical(rstd);
}

MACHEPS_HD inline void layernorm_backward_row(const float* x, const float* gamma, float mean, float rstd,
                                              const float* dout, std::int64_t n, float* dx) {
    const float count = static_cast<float>(n);
    const float g_mean = lane_sum<float>(n, [=](std::int64_t i) { return dout[i] * gamma[i]; }) / count;
    const float gx_mean =
        lane_sum<float>(n, [=](std::int64_t i) { return (dout[i] * gamma[i]) * ((x[i] - mean) * rstd); }) / count;
    for (std::int64_t i = 0; i < n; ++i) {
        const float xhat = (x[i] - mean) * rstd, g = dout[i] * gamma[i];
        dx[i] = canonical(rstd * ((g - g_mean) - xhat * gx_mean));
    }
}

/// Computes element `c` of dgamma and dbeta: sums of column `c`, in row order. Rows have n elements.
MACHEPS_HD inline void layernorm_backward_column(const float* x, const float* mean, const float* rstd,
                                                 const float* dout, std::int64_t rows, std::int64_t n, std::int64_t c,
                                                 float* dgamma, float* dbeta) {
    float gamma_sum = 0, beta_sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
        const float d = dout[r * n + c];
        gamma_sum += d * ((x[r * n + c] - mean[r]) * rstd[r]);
        beta_sum += d;
    }
    dgamma[c] = canonical(gamma_sum);
    dbeta[c] = canonical(beta_sum);
}

MACHEPS_HD inline void rms_normalise_row(const float* x, std::int64_t n, float eps, float* out, float* rstd_out) {
    const float mean_square = lane_sum<float>(n, [=](std::int64_t i) { return x[i] * x[i]; }) / static_cast<float>(n);
    const float rstd = 1.0f / sqrt(mean_square + eps);
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(x[i] * rstd);
    *rstd_out = canonical(rstd);
}

MACHEPS_HD inline void rms_normalise_backward_row(const float* x, float rstd, const float* dout, std::int64_t n,
                                                  float* dx) {
    const float dx_mean =
        lane_sum<float>(n, [=](std::int64_t i) { return dout[i] * (x[i] * rstd); }) / static_cast<float>(n);
    for (std::int64_t i = 0; i < n; ++i) dx[i] = canonical(rstd * (dout[i] - (x[i] * rstd) * dx_mean));
}

/// Computes the softmax of the first `visible` scores of a row of n. The other outputs are +0.
MACHEPS_HD inline void softmax_row(const float* scores, std::int64_t visible, std::int64_t n, float* out) {
    const float top = row_max(scores, visible);
    const float sum = lane_sum<float>(visible, [=](std::int64_t i) { return out[i] = math::exp(scores[i] - top); });
    for (std::int64_t i = 0; i < n; ++i) out[i] = i < visible ? canonical(out[i] / sum) : 0.0f;
}

MACHEPS_HD inline void softmax_backward_row(const float* p, const float* dp, std::int64_t visible, std::int64_t n,
                                            float* dscores) {
    const float sum = lane_sum<float>(visible, [=](std::int64_t i) { return p[i] * dp[i]; });
    for (std::int64_t i = 0; i < n; ++i) dscores[i] = i < visible ? canonical(p[i] * (dp[i] - sum)) : 0.0f;
}

MACHEPS_HD inline void log_softmax_row(const float* x, std::int64_t n, float* out) {
    const float top = row_max(x, n);
    const float sum = lane_sum<float>(n, [=](std::int64_t i) { return math::exp(x[i] - top); });
    const float total = top + math::log(sum);
    for (std::int64_t i = 0; i < n; ++i) out[i] = canonical(x[i] - total);
}

MACHEPS_HD inline float nll(const float* logp, const std::int32_t* targets, std::int64_t rows, std::int64_t n) {
    const float sum = lane_sum<float>(rows, [=](std::int64_t r) { return -logp[r * n + targets[r]]; });
    return canonical(sum / static_cast<float>(rows));
}

/// Returns the cross entropy of a row of logits, log(sum(exp(x - top))) + (top - x[target]). It is computed in fp64,
/// whatever rounding the policy uses for the loss.
MACHEPS_HD inline double cross_entropy(const float* x, std::int64_t n, std::int32_t target) {
    const double top = row_max(x, n);
    const double sum = lane_sum<double>(n, [=](std::int64_t i) { return math::exp(x[i] - top); });
    return canonical(math::log(sum) + (top - x[target]));
}

MACHEPS_HD inline float nll_backward(float logp, bool is_target, float factor) {
    return canonical((math::exp(logp) - (is_target ? 1.0f : 0.0f)) * factor);
}

// --- columns and scatters

MACHEPS_HD inline float column_sum(const float* x, std::int64_t rows, std::int64_t n, std::int64_t c) {
    float sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += x[r * n + c];
    return canonical(sum);
}

/// Returns the index of element d of head h at time t of batch entry b in an array that has one row per entry and time.
/// A row has `columns` elements, and its heads begin at column `first`.
MACHEPS_HD constexpr std::int64_t joined_index(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d,
                                               std::int64_t times, std::int64_t columns, std::int64_t first,
                                               std::int64_t width) {
    return (b * times + t) * columns + first + h * width + d;
}

/// Rotates one row of heads with `width` elements each. There are width / 2 cosines and sines.
MACHEPS_HD inline void rotate_row(const float* x, const float* cos, const float* sin, Turn turn, std::int64_t heads,
                                  std::int64_t width, float* direct, float* rotated) {
    const std::int64_t half = width / 2;
    for (std::int64_t h = 0; h < heads; ++h, x += width, direct += width, rotated += width) {
        for (std::int64_t i = 0; i < half; ++i) {
            const float c = cos[i], s = turn == Turn::forward ? sin[i] : -sin[i];
            direct[i] = canonical(x[i] * c);
            direct[half + i] = canonical(x[half + i] * c);
            rotated[i] = canonical(-x[half + i] * s);
            rotated[half + i] = canonical(x[i] * s);
        }
    }
}

// --- whole tensors

/// Terms of ErrorSums for one pair. Each product and difference is rounded to fp64 (products of two fp32 numbers are
/// exact).
struct ErrorTerms {
    double error2 = 0, x2 = 0, y2 = 0, xy = 0;

    MACHEPS_HD constexpr ErrorTerms& operator+=(const ErrorTerms& other) {
        error2 += other.error2;
        x2 += other.x2;
        y2 += other.y2;
        xy += other.xy;
        return *this;
    }
};

MACHEPS_HD constexpr bool is_finite(float x) { return (bit_cast<std::uint32_t>(x) & 0x7fffffffu) < 0x7f800000u; }

/// Returns fl32(y * decode_scale), or y itself if the scale is 1.
MACHEPS_HD constexpr float decoded(float y, float decode_scale) { return decode_scale == 1 ? y : y * decode_scale; }

/// Returns the terms for the pair of x and y, where y is already decoded. Returns zeros if either is not finite.
MACHEPS_HD constexpr ErrorTerms error_terms(float x, float y) {
    if (!is_finite(x) || !is_finite(y)) return {};
    const double a = x, b = y, error = b - a;
    return {error * error, a * a, b * b, a * b};
}

/// Returns floor(log2 |x|) of a finite x != 0.
MACHEPS_HD constexpr int exponent_of(float x) {
    const std::uint32_t magnitude = bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    return magnitude >= 0x800000u ? static_cast<int>(magnitude >> 23) - 127 : -86 - countl_zero(magnitude);
}

/// Returns the term of element i in Backend::bit_hash: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA
/// 2014).
MACHEPS_HD constexpr std::uint64_t hash_term(std::int64_t i, float x) {
    std::uint64_t z = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u ^ bit_cast<std::uint32_t>(x);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

MACHEPS_HD inline float sum_of_squares(const float* x, std::int64_t n) {
    return canonical(lane_sum<float>(n, [=](std::int64_t i) { return x[i] * x[i]; }));
}

// --- optimizer

/// The sums in UpdateStats. Terms are added by the lane rule in fp64.
struct UpdateSums {
    double wanted2 = 0, moved2 = 0, moved_wanted = 0;

    MACHEPS_HD UpdateSums& operator+=(const UpdateSums& other) {
        wanted2 += other.wanted2;
        moved2 += other.moved2;
        moved_wanted += other.moved_wanted;
        return *this;
    }
};

/// Stored values of one parameter after a step, and the update u before rounding.
struct Updated {
    float p = 0, m = 0, v = 0;
    float wanted = 0;
};

/// Counts one element in `stats` and returns the terms that it adds to the sums. The change of the element, `moved`, is
/// rounded to fp64.
MACHEPS_HD inline UpdateSums observe(UpdateStats& stats, float before, float after, float wanted) {
    ++stats.count;
    stats.nonzero += wanted != 0;
    stats.lost += wanted != 0 && after == before;
    const double moved = double{after} - double{before}, u = double{wanted};
    return {u * u, moved * moved, moved * u};
}

/// Counts a second moment that did not change although its decay or the squared gradient should have changed it.
MACHEPS_HD inline void observe_moment(UpdateStats& stats, float g, float before, float after) {
    stats.frozen += after == before && (g != 0 || before != 0);
}

/// Stores one element after a step of Adam. Unless `stats` is null, counts the element there and returns the terms that
/// it adds to the sums. Otherwise returns zeros.
MACHEPS_HD inline UpdateSums store(const Updated& after, UpdateStats* stats, float& p, float g, float& m, float& v) {
    UpdateSums sums;
    if (stats != nullptr) {
        observe_moment(*stats, g, v, after.v);
        sums = observe(*stats, p, after.p, after.wanted);
    }
    p = after.p;
    m = after.m;
    v = after.v;
    return sums;
}

MACHEPS_HD inline void set_sums(UpdateStats& stats, const UpdateSums& sums) {
    stats.wanted2 = canonical(sums.wanted2);
    stats.moved2 = canonical(sums.moved2);
    stats.moved_wanted = canonical(sums.moved_wanted);
}

MACHEPS_HD inline Updated adamw_fp32(float p, float g, float m, float v, const AdamW& a, std::uint64_t i) {
    const float m_new = a.beta1 * m + a.one_minus_beta1 * g;
    const float v_new = a.beta2 * v + a.one_minus_beta2 * (g * g);
    const float denominator = sqrt(v_new) / a.sqrt_bias2 + a.eps;
    const float step = (a.step_size * m_new) / denominator;
    const float u = canonical(-(a.decay == 0 ? step : a.decay * p + step));
    return {store_as(a.value_cast, p + store_as(a.update_cast, u, i), i), store_as(a.moment1_cast, m_new, i),
            store_as(a.moment2_cast, v_new, i), u};
}

/// Computes a step as torch's single-tensor Adam does. The result of each line of torch's code is rounded to
/// a.arithmetic (RNE). As in torch, the line `p *= 1 - decay` is left out if decay == 0.
MACHEPS_HD inline Updated adamw_narrow(float p, float g, float m, float v, const AdamW& a, std::uint64_t i) {
    const auto rounded = [&](float x) {
        return quantize(a.arithmetic, canonical(x), Round::nearest_even, Overflow::nonsaturate);
    };
    const float decayed = a.decay == 0 ? p : rounded(p * (1.0f - a.decay));
    const float m_new = rounded(m + a.one_minus_beta1 * (g - m));
    const float v_kept = rounded(a.beta2 * v);
    const float v_new = rounded(v_kept + (a.one_minus_beta2 * g) * g);
    const float root = rounded(sqrt(v_new));
    const float corrected = rounded(root / a.sqrt_bias2);
    const float denominator = rounded(corrected + a.eps);
    const float p_new = decayed - a.step_size * (m_new / denominator);
    return {store_as(a.value_cast, rounded(p_new), i), store_as(a.moment1_cast, m_new, i),
            store_as(a.moment2_cast, v_new, i), canonical(p_new - p)};
}

MACHEPS_HD inline Updated adamw(float p, float g, float m, float v, const AdamW& a, std::uint64_t i) {
    return is_fp32(a.arithmetic) ? adamw_fp32(p, g, m, v, a, i) : adamw_narrow(p, g, m, v, a, i);
}

/// Computes a step of SGD. m is the momentum buffer. It does not change if momentum == 0.
MACHEPS_HD inline Updated sgd(float p, float g, float m, const Sgd& s, std::uint64_t i) {
    const float decayed = s.decay == 0 ? g : canonical(g + s.decay * p);
    const float b = s.momentum == 0 ? decayed : canonical(s.momentum * m + decayed);
    const float u = canonical(-(s.lr * b));
    return {store_as(s.value_cast, p + store_as(s.update_cast, u, i), i), s.momentum == 0 ? m : b, 0.0f, u};
}

}  // namespace macheps::definition
