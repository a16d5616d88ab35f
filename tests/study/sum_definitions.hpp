// SPDX-License-Identifier: Apache-2.0
// Independent definitions of the orders of summation, in plain loops over single numbers. The numbers are Float<F>,
// which rounds to nearest, or codes, on which op() computes in any rounding mode.
#pragma once
#include "core/rng.hpp"
#include "core/types/float.hpp"
#include "experiments/study/sum/kernel.hpp"

#include <bit>
#include <cmath>
#include <vector>

namespace macheps::test {

template <Format F>
Float<F> fused(Float<F> a, Float<F> b, Float<F> c) {
    return fma(a, b, c);
}

/// Arithmetic with the operators of Float<F>.
template <Format F>
struct FloatSteps {
    using Number = Float<F>;
    Number from(double x) const { return Number(x); }
    double size(Number x) const { return std::fabs(double(x)); }
    double value(Number x) const { return double(x); }
    Number add(Number a, Number b) { return a + b; }
    Number sub(Number a, Number b) { return a - b; }
    Number mul(Number a, Number b) { return a * b; }
    Number fma(Number a, Number b, Number c) { return fused(a, b, c); }
    Number minus(Number a) { return -a; }
};

/// Arithmetic with op(). Each operation takes one word of the random stream `key`.
struct CodeSteps {
    using Number = std::uint64_t;
    Format format{};
    Round mode = Round::nearest_even;
    RngKey key{};
    std::uint64_t element = 0;

    Number from(double x) const { return encode64(format, x, Round::nearest_even, Overflow::nonsaturate); }
    double value(Number x) const { return decode64(format, x); }
    double size(Number x) const { return std::fabs(value(x)); }
    Number run(Operation operation, Number a, Number b, Number c) {
        return op(operation, format, a, b, c, mode, Overflow::nonsaturate, {random_bits(key, element++), 32}).bits;
    }
    Number add(Number a, Number b) { return run(Operation::add, a, b, 0); }
    Number sub(Number a, Number b) { return run(Operation::sub, a, b, 0); }
    Number mul(Number a, Number b) { return run(Operation::mul, a, b, 0); }
    Number fma(Number a, Number b, Number c) { return run(Operation::fma, a, b, c); }
    Number minus(Number a) const { return from(-value(a)); }
};

template <class Steps>
class PlainSum {
  public:
    using Number = typename Steps::Number;
    PlainSum(Steps& steps, const std::vector<double>& x, const std::vector<double>& y) : r(steps), x_(x), y_(y) {}

    double run(study::SumMethod method, std::size_t parameter) {
        using study::SumMethod;
        const std::size_t n = x_.size();
        switch (method) {
            case SumMethod::recursive:
                return r.value(range(0, n));
            case SumMethod::pairwise:
                return r.value(halves(0, n));
            case SumMethod::blocked:
                return r.value(blocks(parameter));
            case SumMethod::splitk:
                return r.value(blocks((n + parameter - 1) / parameter));
            case SumMethod::lanes:
                return r.value(warp(0, n));
            case SumMethod::torch:
                return r.value(torch_sum());
            case SumMethod::kahan:
                return r.value(kahan());
            case SumMethod::neumaier:
                return r.value(neumaier());
            case SumMethod::sum2:
                return r.value(sum2());
            case SumMethod::sum_k:
                return r.value(sum_k(parameter));
            case SumMethod::chain:
                return r.value(chain());
            case SumMethod::dot2:
                return r.value(dot2());
            default:
                return NAN;
        }
    }

  private:
    Number term(std::size_t i) { return y_.empty() ? r.from(x_[i]) : r.mul(r.from(x_[i]), r.from(y_[i])); }
    Number range(std::size_t first, std::size_t last) {
        Number s = r.from(0);
        for (std::size_t i = first; i < last; ++i) s = r.add(s, term(i));
        return s;
    }
    Number halves(std::size_t first, std::size_t n) {
        if (n == 1) return term(first);
        const std::size_t half = std::bit_floor(n - 1);
        const Number left = halves(first, half), right = halves(first + half, n - half);
        return r.add(left, right);
    }
    Number blocks(std::size_t size) {
        Number s = r.from(0);
        for (std::size_t i = 0; i < x_.size(); i += size) s = r.add(s, range(i, std::min(i + size, x_.size())));
        return s;
    }
    Number warp(std::size_t first, std::size_t n) {
        std::vector<Number> lane(32, r.from(0));
        if (n <= 1024) {
            for (std::size_t i = 0; i < n; ++i) lane[i % 32] = r.add(lane[i % 32], term(first + i));
        } else {
            for (std::size_t i = 0; i * 1024 < n; ++i) {  // enough for 2^20 terms
                lane[i % 32] = r.add(lane[i % 32], warp(first + i * 1024, std::min<std::size_t>(1024, n - i * 1024)));
            }
        }
        for (std::size_t half = 16; half > 0; half /= 2)
            for (std::size_t l = 0; l < half; ++l) lane[l] = r.add(lane[l], lane[l + half]);
        return lane[0];
    }
    /// Iterates over the terms that one accumulator of torch.sum adds: every `step`-th term from `first` on.
    struct Strand {
        std::size_t first, step, at = 0;
        std::size_t next() { return first + step * at++; }
    };
    Number group(Strand& strand, std::size_t full, int level) {
        Number s = r.from(0);
        for (std::size_t i = 0; i < full; ++i)
            s = r.add(s, level == 0 ? term(strand.next()) : group(strand, full, level - 1));
        return s;
    }
    Number torch_sum() {
        const std::size_t n = x_.size(), vectors = n / 8, rows = vectors / 4;
        const std::size_t full = 16;  // terms of a full group in PyTorch for up to 2^19 rows
        Number total = r.from(0);
        for (std::size_t i = vectors * 8; i < n; ++i) total = r.add(total, term(i));
        for (std::size_t lane = 0; lane < 8; ++lane) {
            Number folded = r.from(0);
            for (std::size_t j = 0; j < 4; ++j) {
                Strand strand{.first = 8 * j + lane, .step = 32};
                Number level[4] = {r.from(0), r.from(0), r.from(0), r.from(0)};
                for (int l = 3; l >= 0; --l) {
                    const std::size_t size = l == 3 ? full * full * full : l == 2 ? full * full : l == 1 ? full : 1;
                    while (rows - strand.at >= size) {
                        level[l] = r.add(level[l], l == 0 ? term(strand.next()) : group(strand, full, l - 1));
                    }
                }
                Number sum = level[0];
                for (int l = 1; l < 4; ++l) sum = r.add(sum, level[l]);
                for (std::size_t v = 4 * rows; j == 0 && v < vectors; ++v) sum = r.add(sum, term(8 * v + lane));
                folded = j == 0 ? sum : r.add(folded, sum);
            }
            total = r.add(total, folded);
        }
        return total;
    }
    Number kahan() {
        Number s = r.from(0), c = r.from(0);
        for (std::size_t i = 0; i < x_.size(); ++i) {
            const Number y = r.sub(term(i), c), t = r.add(s, y);
            const Number back = r.sub(t, s);
            c = r.sub(back, y);
            s = t;
        }
        return s;
    }
    Number neumaier() {
        Number s = r.from(0), c = r.from(0);
        for (std::size_t i = 0; i < x_.size(); ++i) {
            const Number x = term(i), t = r.add(s, x);
            Number e;
            if (r.size(s) >= r.size(x)) {
                e = r.sub(s, t);
                e = r.add(e, x);
            } else {
                e = r.sub(x, t);
                e = r.add(e, s);
            }
            c = r.add(c, e);
            s = t;
        }
        return r.add(s, c);
    }
    void two_sum(Number a, Number b, Number& s, Number& e) {
        s = r.add(a, b);
        const Number z = r.sub(s, a);
        const Number virtual_a = r.sub(s, z);
        const Number left = r.sub(a, virtual_a);
        const Number right = r.sub(b, z);
        e = r.add(left, right);
    }
    Number sum2() {
        Number s = r.from(0), c = r.from(0), e;
        for (std::size_t i = 0; i < x_.size(); ++i) {
            const Number x = term(i), before = s;
            two_sum(before, x, s, e);
            c = r.add(c, e);
        }
        return r.add(s, c);
    }
    Number sum_k(std::size_t passes) {
        std::vector<Number> x;
        for (std::size_t i = 0; i < x_.size(); ++i) x.push_back(term(i));
        for (std::size_t pass = 1; pass < passes; ++pass) {
            for (std::size_t i = 1; i < x.size(); ++i) {
                const Number a = x[i], b = x[i - 1];
                two_sum(a, b, x[i], x[i - 1]);
            }
        }
        Number s = r.from(0);
        for (std::size_t i = 0; i + 1 < x.size(); ++i) s = r.add(s, x[i]);
        return r.add(x.back(), s);
    }
    Number chain() {
        Number s = r.from(0);
        for (std::size_t i = 0; i < x_.size(); ++i) s = r.fma(r.from(x_[i]), r.from(y_[i]), s);
        return s;
    }
    Number dot2() {
        Number p = r.mul(r.from(x_[0]), r.from(y_[0])), c = r.fma(r.from(x_[0]), r.from(y_[0]), r.minus(p)), q;
        for (std::size_t i = 1; i < x_.size(); ++i) {
            const Number h = r.mul(r.from(x_[i]), r.from(y_[i])), e = r.fma(r.from(x_[i]), r.from(y_[i]), r.minus(h));
            const Number before = p;
            two_sum(before, h, p, q);
            const Number low = r.add(q, e);
            c = r.add(c, low);
        }
        return r.add(p, c);
    }

    Steps& r;
    const std::vector<double>&x_, &y_;
};

}  // namespace macheps::test
