// SPDX-License-Identifier: Apache-2.0
// Kernels as people write them: plain float loops with the orders of summation that libraries use. They use no code of
// macheps, so this file has its own functions for rounding.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace macheps::test::kernels {

using Floats = std::vector<float>;

/// Rounds x to bf16, to nearest even. The function works on the bits of the fp32 number; bf16 has the upper 16 bits.
inline float to_bf16(float x) {
    if (!std::isfinite(x)) return x;
    auto bits = std::bit_cast<std::uint32_t>(x);
    bits += 0x7fff + ((bits >> 16) & 1);
    return std::bit_cast<float>(bits & 0xffff0000u);
}
inline float truncated_to_bf16(float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff0000u); }
/// Rounds x to fp16 in fp64 arithmetic. Adding and then subtracting `magic` rounds to a multiple of `unit`.
inline float to_fp16(float x) {
    if (!std::isfinite(x) || x == 0) return x;
    const int exponent = std::max(std::ilogb(x), -14);
    const double unit = std::ldexp(1.0, exponent - 10), magic = unit * 0x1.8p52;
    const double rounded = (static_cast<double>(x) + magic) - magic;
    return std::copysign(std::fabs(rounded) >= 65520 ? INFINITY : static_cast<float>(rounded), x);
}

/// The format of stored numbers.
enum class Store { fp32, bf16, fp16 };
inline float stored(Store store, float x) {
    return store == Store::bf16 ? to_bf16(x) : store == Store::fp16 ? to_fp16(x) : x;
}

/// An order of summation that some library uses.
struct Order {
    std::string name;
    std::function<float(const Floats&)> sum;
};

inline float chain(const Floats& x) {
    float s = 0;
    for (const float t : x) s += t;
    return s;
}
inline float tree(const float* x, std::size_t n) {
    return n == 0 ? 0 : n == 1 ? *x : tree(x, n / 2) + tree(x + n / 2, n - n / 2);
}

inline std::vector<Order> orders() {
    std::vector<Order> all;
    all.push_back({"chain", chain});
    all.push_back({"backwards", [](const Floats& x) { return chain(Floats(x.rbegin(), x.rend())); }});
    all.push_back({"tree", [](const Floats& x) { return tree(x.data(), x.size()); }});
    for (const std::size_t lanes : {4u, 32u, 128u}) {
        all.push_back({"lanes" + std::to_string(lanes), [lanes](const Floats& x) {
                           Floats s(lanes);
                           for (std::size_t i = 0; i < x.size(); ++i) s[i % lanes] += x[i];
                           return tree(s.data(), lanes);
                       }});
    }
    for (const std::size_t slices : {2u, 3u, 8u}) {  // split k
        all.push_back({"slices" + std::to_string(slices), [slices](const Floats& x) {
                           const std::size_t each = (x.size() + slices - 1) / slices;
                           float s = 0;
                           for (std::size_t at = 0; at < x.size(); at += each) {
                               float part = 0;
                               for (std::size_t i = at; i < std::min(at + each, x.size()); ++i) part += x[i];
                               s += part;
                           }
                           return s;
                       }});
    }
    return all;
}

struct Gemm {
    std::size_t m, n, k;
    Floats a, b, bias{}, c{};
    float alpha = 1, beta = 1;

    float term_sum(std::size_t i, std::size_t j, const Order* order, std::size_t terms) const {
        if (order == nullptr) {  // a chain of fma
            float s = 0;
            for (std::size_t p = 0; p < terms; ++p) s = std::fma(a[i * k + p], b[p * n + j], s);
            return s;
        }
        Floats products(terms);
        for (std::size_t p = 0; p < terms; ++p) products[p] = a[i * k + p] * b[p * n + j];
        return order->sum(products);
    }
    /// Returns the outputs, without the last `dropped` terms of each sum.
    Floats run(Store store, const Order* order, std::size_t dropped = 0) const {
        Floats out(m * n);
        for (std::size_t i = 0; i < m; ++i) {
            for (std::size_t j = 0; j < n; ++j) {
                float y = alpha * term_sum(i, j, order, k - dropped);
                if (!bias.empty()) y += bias[j];
                if (!c.empty()) y = std::fma(beta, c[i * n + j], y);
                out[i * n + j] = stored(store, y);
            }
        }
        return out;
    }
};

/// Functions with random errors. The errors stay within the bounds that CUDA documents for its functions.
struct Functions {
    std::mt19937* random;
    float moved(float x, int ulps) const {
        const int by = std::uniform_int_distribution<int>(-ulps, ulps)(*random);
        for (int i = 0; i < std::abs(by); ++i) x = std::nextafterf(x, by > 0 ? INFINITY : -INFINITY);
        return x;
    }
    float exp(float x) const { return x == 0 ? 1 : moved(static_cast<float>(std::exp(static_cast<double>(x))), 1); }
    float log(float x) const { return static_cast<float>(std::log(static_cast<double>(x))); }
    float rsqrt(float x) const { return moved(static_cast<float>(1 / std::sqrt(static_cast<double>(x))), 1); }
};

/// One of several legal ways in which a row kernel may compute.
struct Way {
    Order order;
    bool reciprocal = false;  ///< multiplies by a rounded reciprocal
    bool binary = false;      ///< computes e^x as 2^(x log2 e)
};

/// Faults of a wrong kernel. By default there are none.
struct Wrong {
    std::size_t dropped = 0;
    bool narrow_inside = false;  ///< rounds an intermediate result to bf16
    float eps = 0;               ///< if not 0, replaces the declared eps
    bool one_pass = false;       ///< computes the variance as E[x^2] - mean^2
    int less = 0;                ///< divides by n - less
};

inline float total(const Floats& x, const Way& way, const Wrong& wrong) {
    if (wrong.narrow_inside) {
        float s = 0;
        for (const float t : x) s = to_bf16(s + t);
        return s;
    }
    return way.order.sum(Floats(x.begin(), x.end() - static_cast<std::ptrdiff_t>(wrong.dropped)));
}
inline float mean(const Floats& x, const Way& way, const Wrong& wrong) {
    const auto n = static_cast<float>(x.size() - static_cast<std::size_t>(wrong.less));
    return way.reciprocal ? total(x, way, wrong) * (1 / n) : total(x, way, wrong) / n;
}

inline Floats exponentials(const Floats& x, const Way& way, const Functions& f, float& most) {
    most = *std::max_element(x.begin(), x.end());
    Floats e(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (way.binary) {
            const float t = (x[i] - most) * 1.44269504f;
            e[i] = f.moved(static_cast<float>(std::exp2(static_cast<double>(t))), 1);
        } else {
            e[i] = f.exp(x[i] - most);
        }
    }
    return e;
}

inline Floats softmax(const Floats& x, const Way& way, const Functions& f, const Wrong& wrong) {
    float most = 0;
    Floats e = exponentials(x, way, f, most);
    const float s = total(e, way, wrong);
    for (float& y : e) y = way.reciprocal ? y * (1 / s) : y / s;
    return e;
}
inline Floats log_softmax(const Floats& x, const Way& way, const Functions& f, const Wrong& wrong) {
    float most = 0;
    const float s = f.log(total(exponentials(x, way, f, most), way, wrong));
    Floats y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = (x[i] - most) - s;
    return y;
}
inline Floats rms_norm(const Floats& x, const Floats& gain, float eps, const Way& way, const Functions& f,
                       const Wrong& wrong) {
    Floats squares(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) squares[i] = x[i] * x[i];
    const float r = f.rsqrt(mean(squares, way, {.dropped = wrong.dropped, .less = wrong.less}) +
                            (wrong.eps != 0 ? wrong.eps : eps));
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = (wrong.narrow_inside ? to_bf16(x[i] * r) : x[i] * r) * gain[i];
    return y;
}
inline Floats layer_norm(const Floats& x, const Floats& gain, const Floats& shift, float eps, const Way& way,
                         const Functions& f, const Wrong& wrong) {
    const float mu = mean(x, way, {.dropped = wrong.dropped});
    Floats squares(x.size()), y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) squares[i] = wrong.one_pass ? x[i] * x[i] : (x[i] - mu) * (x[i] - mu);
    float v = mean(squares, way, {.less = wrong.less});
    if (wrong.one_pass) v -= mu * mu;
    const float r = f.rsqrt(v + (wrong.eps != 0 ? wrong.eps : eps));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const float d = (x[i] - mu) * r;
        y[i] = std::fma(wrong.narrow_inside ? to_bf16(d) : d, gain[i], shift[i]);
    }
    return y;
}

}  // namespace macheps::test::kernels
