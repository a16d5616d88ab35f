// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/sum/kernel.hpp"

#include "emulation/reduce.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace macheps::study {

namespace {

/// The orders of summation that docs/sums.md defines. `r` computes every addition, product and fma, and rounds each
/// result once.
class LaneOrders {
  public:
    LaneOrders(LaneArithmetic& arithmetic, const SumTerms& terms) : r(arithmetic), terms_(terms) {}

    LanePack recursive(LaneSteps& moved) {
        LanePack s{};
        add_terms(0, terms_.n, s, moved);
        return s;
    }

    /// Adds the terms of each slice of `size` terms recursively, and then adds the sums of the slices recursively.
    LanePack slices(std::int64_t size) {
        LanePack s{};
        for (std::int64_t first = 0; first < terms_.n; first += size) {
            LanePack slice{};
            LaneSteps moved{};
            add_terms(first, std::min(first + size, terms_.n), slice, moved);
            s = r.add(s, slice);
        }
        return s;
    }

    /// Sums with a binary tree that splits n terms at the largest power of two below n. Works like a binary counter:
    /// the sum of a complete subtree waits for another subtree of the same size.
    LanePack pairwise() {
        LanePack waiting[64];
        int depth = 0;
        const auto join = [&] {
            waiting[depth - 2] = r.add(waiting[depth - 2], waiting[depth - 1]);
            --depth;
        };
        for (std::int64_t i = 0; i < terms_.n; ++i) {
            waiting[depth++] = term(i);
            for (std::int64_t whole = i + 1; (whole & 1) == 0; whole >>= 1) join();
        }
        while (depth > 1) join();
        return depth == 0 ? LanePack{} : waiting[0];
    }

    /// Sums by the lane rule of emulation/reduce.hpp: computes 32 partial sums, and then repeatedly adds the upper half
    /// of them to the lower half. If there are more than 1024 terms, first sums chunks of terms in this way, and then
    /// the sums of the chunks.
    LanePack lane_rule(std::int64_t first, std::int64_t n) {
        std::int64_t width = 1;
        while ((n + width - 1) / width > chunk) width *= chunk;
        std::vector<LanePack> part(lanes);
        for (std::int64_t i = 0; i * width < n; ++i) {
            const std::int64_t at = first + i * width;
            LanePack& sum = part[static_cast<std::size_t>(i % lanes)];
            sum = r.add(sum, width == 1 ? term(at) : lane_rule(at, std::min(width, n - i * width)));
        }
        for (std::size_t half = lanes / 2; half > 0; half /= 2) {
            for (std::size_t j = 0; j < half; ++j) part[j] = r.add(part[j], part[j + half]);
        }
        return part[0];
    }

    /// Sums as torch.sum does for contiguous numbers on a CPU, in one thread (aten/src/ATen/native/cpu/SumKernel.cpp).
    /// Vectors of 8 terms are added to 4 accumulators in turn. Each accumulator has 4 levels, and a full level is added
    /// to the next level.
    LanePack torch_sum() {
        constexpr std::int64_t vector = 8, accumulators = 4, levels = 4;
        const std::int64_t vectors = terms_.n / vector, rows = vectors / accumulators;
        const int power = std::max(
            4, (rows < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows) - 1))) / int{levels});
        const std::int64_t full = (std::int64_t{1} << power) - 1;
        LanePack total{};
        for (std::int64_t i = vectors * vector; i < terms_.n; ++i) total = r.add(total, term(i));
        for (std::int64_t lane = 0; lane < vector; ++lane) {
            LanePack folded{};
            for (std::int64_t j = 0; j < accumulators; ++j) {
                LanePack level[levels] = {};
                for (std::int64_t row = 0; row < rows; ++row) {
                    level[0] = r.add(level[0], term((row * accumulators + j) * vector + lane));
                    // The last rows do not fill a level and stay in the lower levels.
                    for (std::int64_t l = 1; l < levels && ((row + 1) & (full << (l - 1) * power)) == 0; ++l) {
                        level[l] = r.add(level[l], level[l - 1]);
                        level[l - 1] = {};
                    }
                }
                for (std::int64_t l = 1; l < levels; ++l) level[0] = r.add(level[0], level[l]);
                for (std::int64_t v = rows * accumulators; j == 0 && v < vectors; ++v) {
                    level[0] = r.add(level[0], term(v * vector + lane));
                }
                folded = j == 0 ? level[0] : r.add(folded, level[0]);
            }
            total = r.add(total, folded);
        }
        return total;
    }

    LanePack kahan() {
        LanePack s{}, c{};
        for (std::int64_t i = 0; i < terms_.n; ++i) {
            const LanePack y = r.sub(term(i), c), t = r.add(s, y);
            c = r.sub(r.sub(t, s), y);
            s = t;
        }
        return s;
    }
    LanePack neumaier() {
        LanePack s{}, c{};
        for (std::int64_t i = 0; i < terms_.n; ++i) {
            const LanePack x = term(i), t = r.add(s, x);
            LanePack large, small;
            for (int l = 0; l < sum_lanes; ++l) {
                const bool is_sum = std::fabs(s.lane[l]) >= std::fabs(x.lane[l]);
                large.lane[l] = is_sum ? s.lane[l] : x.lane[l];
                small.lane[l] = is_sum ? x.lane[l] : s.lane[l];
            }
            c = r.add(c, r.add(r.sub(large, t), small));
            s = t;
        }
        return r.add(s, c);
    }
    LanePack sum2() {
        LanePack s{}, c{}, e;
        for (std::int64_t i = 0; i < terms_.n; ++i) {
            two_sum(LanePack(s), term(i), s, e);
            c = r.add(c, e);
        }
        return r.add(s, c);
    }
    /// Sums with the algorithm SumK (Ogita, Rump, Oishi 2005).
    LanePack sum_k(std::int64_t passes) {
        const std::int64_t n = terms_.n;
        if (n == 0) return {};
        std::vector<LanePack> x;
        for (std::int64_t i = 0; i < n; ++i) x.push_back(term(i));
        for (std::int64_t pass = 1; pass < passes; ++pass) {
            for (std::size_t i = 1; i < x.size(); ++i) two_sum(LanePack(x[i]), LanePack(x[i - 1]), x[i], x[i - 1]);
        }
        LanePack s{};
        for (std::size_t i = 0; i + 1 < x.size(); ++i) s = r.add(s, x[i]);
        return r.add(x.back(), s);
    }
    LanePack chain() {
        LanePack s{};
        for (std::int64_t i = 0; i < terms_.n; ++i) s = r.fma(loaded(terms_.x, i), loaded(terms_.y, i), s);
        return s;
    }
    LanePack dot2() {
        LanePack p{}, c{}, h, q, e;
        if (terms_.n > 0) two_prod(0, p, c);
        for (std::int64_t i = 1; i < terms_.n; ++i) {
            two_prod(i, h, e);
            two_sum(LanePack(p), h, p, q);
            c = r.add(c, r.add(q, e));
        }
        return r.add(p, c);
    }

  private:
    LanePack loaded(const double* from, std::int64_t i) const {
        LanePack out;
        if (terms_.is_shared) {
            for (double& x : out.lane) x = from[i];
        } else {
            std::memcpy(out.lane, from + i * sum_lanes, sizeof out.lane);
        }
        return out;
    }
    /// Computes s = s + term i for i from `first` to `end` - 1. `moved` is set as in add_run, with indices counted from
    /// `first`.
    void add_terms(std::int64_t first, std::int64_t end, LanePack& s, LaneSteps& moved) {
        if (terms_.y == nullptr) {
            return r.add_run(terms_.x + first * (terms_.is_shared ? 1 : sum_lanes), terms_.is_shared, end - first, s,
                             moved);
        }
        // Each product is added before the next one is computed, so products and additions take random words in turn.
        for (std::int64_t i = first; i < end; ++i) {
            LaneSteps step{};
            r.add_run(term(i).lane, false, 1, s, step);
            for (std::size_t l = 0; l < sum_lanes; ++l) moved[l] = step[l] == 0 ? moved[l] : i - first + 1;
        }
    }
    LanePack term(std::int64_t i) {
        return terms_.y == nullptr ? loaded(terms_.x, i) : r.mul(loaded(terms_.x, i), loaded(terms_.y, i));
    }
    void two_sum(const LanePack& a, const LanePack& b, LanePack& s, LanePack& e) {
        const LanePack sum = r.add(a, b), z = r.sub(sum, a);
        const LanePack left = r.sub(a, r.sub(sum, z)), right = r.sub(b, z);
        e = r.add(left, right);
        s = sum;
    }
    void two_prod(std::int64_t i, LanePack& p, LanePack& e) {
        const LanePack x = loaded(terms_.x, i), y = loaded(terms_.y, i);
        p = r.mul(x, y);
        LanePack minus;
        for (int l = 0; l < sum_lanes; ++l) minus.lane[l] = -p.lane[l];
        e = r.fma(x, y, minus);
    }

    LaneArithmetic& r;
    const SumTerms& terms_;
};

}  // namespace

LaneSums sum_in_lanes(LaneArithmetic& arithmetic, SumMethod method, std::int64_t parameter, const SumTerms& terms) {
    LaneOrders orders(arithmetic, terms);
    LaneSums out;
    switch (method) {
        case SumMethod::recursive:
            out.value = orders.recursive(out.moved);
            break;
        case SumMethod::pairwise:
            out.value = orders.pairwise();
            break;
        case SumMethod::blocked:
            out.value = orders.slices(parameter);
            break;
        case SumMethod::splitk:
            out.value = orders.slices((terms.n + parameter - 1) / parameter);
            break;
        case SumMethod::lanes:
            out.value = orders.lane_rule(0, terms.n);
            break;
        case SumMethod::torch:
            out.value = orders.torch_sum();
            break;
        case SumMethod::kahan:
            out.value = orders.kahan();
            break;
        case SumMethod::neumaier:
            out.value = orders.neumaier();
            break;
        case SumMethod::sum2:
            out.value = orders.sum2();
            break;
        case SumMethod::sum_k:
            out.value = orders.sum_k(parameter);
            break;
        case SumMethod::chain:
            out.value = orders.chain();
            break;
        case SumMethod::dot2:
            out.value = orders.dot2();
            break;
        case SumMethod::exact:
        case SumMethod::machine:
            break;  // computed in sum.cpp
    }
    return out;
}

}  // namespace macheps::study
