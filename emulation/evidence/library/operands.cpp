// SPDX-License-Identifier: Apache-2.0
#include "emulation/evidence/library/operands.hpp"

#include "core/codec.hpp"
#include "core/error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace macheps::evidence {

namespace {

/// Sequence of random numbers.
class Draw {
  public:
    Draw(std::uint64_t seed, std::string_view stream) : key_{.seed = seed, .site = site_id(stream)} {}

    std::uint32_t bits() {
        if (next_ % 4 == 0) block_ = random_block(key_, next_ / 4);
        return block_.word[next_++ % 4];
    }
    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
    float unit() { return static_cast<float>(bits() >> 8) * 0x1p-24f; }  ///< in [0, 1)
    float bell() {                                                       ///< nearly N(0, 1): sum of 12 unit() minus 6
        float sum = -6;
        for (int i = 0; i < 12; ++i) sum += unit();
        return sum;
    }
    float sign() { return (bits() & 1) != 0 ? -1.0f : 1.0f; }

  private:
    RngKey key_;
    PhiloxBlock block_{};
    std::uint64_t next_ = 0;
};

float on_grid(const LibraryProblem& problem, const Format& format, float x) {
    if (problem.whole_words || !std::isfinite(x)) return x;
    return decode(format, encode(format, x, Round::nearest_even, Overflow::saturate));
}

/// Returns a limit for the exponents of operands. Sums stay finite if all exponents are in [-limit, limit].
int exponent_span(const LibraryProblem& problem) {
    const Format &a = problem.a, &b = problem.b;
    const int narrowest = std::min(-a.emin(), -b.emin());
    const bool is_half = problem.accumulator == fp16 || problem.out == fp16;
    return is_half ? 3 : std::min(narrowest - 1, 12);
}

float scaled_by(float x, int exponent) { return std::ldexp(x, exponent); }

void fill_wide(const LibraryProblem& p, LibraryOperands& x, Draw& draw) {
    const int span = exponent_span(p);
    const auto value = [&] {
        return draw.sign() * scaled_by(1 + draw.unit(), static_cast<int>(draw.below(2 * span + 1)) - span);
    };
    for (float& a : x.a) a = value();
    for (float& b : x.b) b = value();
}

void fill_normal(LibraryOperands& x, Draw& draw) {
    for (float& a : x.a) a = draw.bell();
    for (float& b : x.b) b = draw.bell();
}

void fill_cancelling(const LibraryProblem& p, LibraryOperands& x, Draw& draw) {
    fill_wide(p, x, draw);
    for (std::int64_t t = 0; t < p.k / 2; ++t) {
        const std::int64_t mirror = p.k - 1 - t;
        for (std::int64_t i = 0; i < p.m; ++i) x.a[i * p.k + mirror] = -x.a[i * p.k + t];
        for (std::int64_t j = 0; j < p.n; ++j) {
            const float b = x.b[t * p.n + j];
            // In even columns, the mirrored terms cancel the other half and only rounding errors remain. In odd
            // columns, about a quarter of the mirrored terms are too large by about an ulp.
            const bool is_off = j % 2 == 1 && draw.below(4) == 0;
            x.b[mirror * p.n + j] = is_off ? b * (1 + std::ldexp(1.0f, 1 - p.b.precision)) : b;
        }
    }
}

void fill_drift(LibraryOperands& x, Draw& draw) {
    for (float& a : x.a) a = 0.25f + draw.unit();
    for (float& b : x.b) b = (draw.below(16) == 0 ? -1.0f : 1.0f) * (0.25f + draw.unit());
}

void fill_ramp(const LibraryProblem& p, LibraryOperands& x, Draw& draw) {
    const int span = exponent_span(p);
    for (std::int64_t i = 0; i < p.m; ++i) {
        for (std::int64_t t = 0; t < p.k; ++t) {
            const int down = span - static_cast<int>(2 * span * t / p.k);
            x.a[i * p.k + t] = draw.sign() * scaled_by(1 + draw.unit(), i % 2 == 0 ? down : -down);
        }
    }
    for (float& b : x.b) b = draw.bell();
}

/// Makes operands whose exponents are far enough apart to test every number of fraction bits (SumRule::fraction_bits).
/// The products of large terms are near 2^14, and the other products go down to 2^-14.
void fill_swamp(const LibraryProblem& p, LibraryOperands& x, Draw& draw) {
    const bool is_half = p.accumulator == fp16 || p.out == fp16;
    const int top = is_half ? 5 : 7, bottom = std::max({p.a.emin(), p.b.emin(), -7});
    // All small terms of a row have the same exponent. Rows differ in this exponent, so large terms absorb the small
    // terms in some rows but not in others.
    for (std::int64_t i = 0; i < p.m; ++i) {
        const int band = bottom + static_cast<int>(i % (2 - bottom));
        for (std::int64_t t = 0; t < p.k; ++t) x.a[i * p.k + t] = draw.sign() * scaled_by(1 + draw.unit(), band);
    }
    for (float& b : x.b) b = scaled_by(1 + draw.unit(), bottom + static_cast<int>(draw.below(2)));
    // Add pairs of large terms that cancel: in the same step, a few steps apart, or far apart.
    for (std::int64_t t = 0; t + 1 < p.k; t += 1 + draw.below(24)) {
        const std::int64_t reach = draw.below(3), gap = 1 + draw.below(reach == 0 ? 7 : reach == 1 ? 31 : 127);
        const std::int64_t other = std::min(t + gap, p.k - 1);
        for (std::int64_t i = 0; i < p.m; ++i) {
            x.a[i * p.k + t] = draw.sign() * scaled_by(1 + draw.unit(), top);
            x.a[i * p.k + other] = -x.a[i * p.k + t];
        }
        for (std::int64_t j = 0; j < p.n; ++j) {
            x.b[t * p.n + j] = x.b[other * p.n + j] = scaled_by(1 + draw.unit(), top);
        }
        t = std::max(t, std::min(other, t + 8));
    }
}

void strew_specials(const LibraryProblem& p, LibraryOperands& x, Draw& draw) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const auto one_of = [&](const Format& f) {
        const float least = static_cast<float>(std::ldexp(1.0, f.emin() - f.fraction_bits()));
        switch (draw.below(8)) {
            case 0:
                return f.has_nan() ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
            case 1:
                return f.has_inf() ? infinity : 1.0f;
            case 2:
                return f.has_inf() ? -infinity : -1.0f;
            case 3:
            case 4:
                return -0.0f;
            case 5:
                return 0.0f;
            case 6:
                return least;
            default:
                return -3 * least;
        }
    };
    // Every third row of a and every third column of b gets a special value. The other rows and columns show what
    // happens next to it.
    for (std::int64_t i = 0; i < p.m; i += 3) x.a[i * p.k + draw.below(p.k)] = one_of(p.a);
    for (std::int64_t j = 1; j < p.n; j += 3) x.b[draw.below(p.k) * p.n + j] = one_of(p.b);
    if (p.m > 4) std::fill_n(x.a.begin() + 4 * p.k, p.k, -0.0f);  // row 4 has only -0
}

}  // namespace

ScaleCounts scale_counts(const LibraryProblem& p) {
    const std::int64_t blocks = blocks_of_128(p.k);
    switch (p.scaling) {
        case LibraryScaling::tensor:
            return {1, 1};
        case LibraryScaling::outer:
            return {p.m, p.n};
        case LibraryScaling::blocks_1x1:
            return {p.m * blocks, p.n * blocks};
        case LibraryScaling::blocks_1x2:
            return {p.m * blocks, blocks_of_128(p.n) * blocks};
        default:
            return {};
    }
}

LibraryOperands library_operands(const LibraryProblem& p, std::string_view operand_class, std::uint64_t seed) {
    LibraryOperands x{.name = std::string(operand_class),
                      .a = std::vector<float>(static_cast<std::size_t>(p.m * p.k)),
                      .b = std::vector<float>(static_cast<std::size_t>(p.k * p.n))};
    Draw draw(seed, operand_class);
    if (operand_class == "wide") {
        fill_wide(p, x, draw);
    } else if (operand_class == "cancelling") {
        fill_cancelling(p, x, draw);
    } else if (operand_class == "drift") {
        fill_drift(x, draw);
    } else if (operand_class == "swamp") {
        fill_swamp(p, x, draw);
    } else if (operand_class == "ramp") {
        fill_ramp(p, x, draw);
    } else {
        fill_normal(x, draw);
    }
    if (operand_class == special_class) strew_specials(p, x, draw);
    for (float& a : x.a) a = on_grid(p, p.a, a);
    for (float& b : x.b) b = on_grid(p, p.b, b);
    const ScaleCounts counts = scale_counts(p);
    for (std::int64_t i = 0; i < counts.a; ++i) x.a_scales.push_back(0.5f + draw.unit());
    for (std::int64_t i = 0; i < counts.b; ++i) x.b_scales.push_back(0.5f + draw.unit());
    if (operand_class == "cancelling" && counts.a > p.m) {
        // The terms of a block cancel those of its mirrored block only if both blocks have the same scale.
        const std::int64_t blocks = blocks_of_128(p.k);
        for (std::vector<float>* scales : {&x.a_scales, &x.b_scales}) {
            for (std::size_t i = 0; i < scales->size(); ++i) {
                const auto s = static_cast<std::int64_t>(i) % blocks, mirror = blocks - 1 - s;
                if (s < mirror) (*scales)[i + static_cast<std::size_t>(mirror - s)] = (*scales)[i];
            }
        }
    }
    return x;
}

std::vector<std::int64_t> spread(std::int64_t n, std::int64_t most) {
    std::vector<std::int64_t> places;
    const std::int64_t count = std::min(n, most);
    for (std::int64_t i = 0; i < count; ++i) places.push_back(count == 1 ? 0 : i * (n - 1) / (count - 1));
    return places;
}

}  // namespace macheps::evidence
