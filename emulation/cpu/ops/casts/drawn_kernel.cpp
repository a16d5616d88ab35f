// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/simd/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "emulation/cpu/ops/casts/drawn_kernel.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "core/codec.hpp"
#include "emulation/cpu/ops/casts/cast64.hpp"
#include "emulation/cpu/simd/philox-inl.hpp"
#include "emulation/cpu/simd/vec-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace macheps::HWY_NAMESPACE {
#if MACHEPS_SIMD_TARGET
namespace {

/// Rounds magnitudes stochastically in fp64. `bits` is the number of random bits. All operations except floor() are
/// exact:
///     t = floor(2^bits m / ulp)          the magnitude m in units of 2^-bits ulps, rounded down
///     floor((t + word) / 2^bits)         the result in ulps; `word` is a random integer below 2^bits
/// The integer t is below 2^(precision + bits), which is at most 2^52.
class DrawnRounder {
  public:
    HWY_INLINE explicit DrawnRounder(const Cast& cast) : shift_(32 - cast.random_bits) {
        const Format& f = cast.format;
        // All magnitudes beyond the binade of the largest finite value become limit_, which represents "too large".
        limit_ = Format::power_of_two(std::ilogb(decode64(f, f.max_finite_code() << f.padding)) + 1);
        min_binade_ = Format::power_of_two(f.emin());
        per_quantum_ = Format::power_of_two(f.fraction_bits() + cast.random_bits);
        quantum_ = Format::power_of_two(-f.fraction_bits());
        per_word_ = Format::power_of_two(-cast.random_bits);
    }

    HWY_INLINE F64 operator()(F64 x, const std::uint32_t* words) const {
        const auto m = hn::Min(hn::Abs(x.v), hn::Set(df, limit_));
        const auto exponent = hn::And(hn::BitCast(du, m), hn::Set(du, std::uint64_t{0x7ff0000000000000}));
        const auto binade = hn::Max(hn::BitCast(df, exponent), hn::Set(df, min_binade_));
        const auto inverse =
            hn::BitCast(df, hn::Sub(hn::Set(du, std::uint64_t{0x7fe0000000000000}), hn::BitCast(du, binade)));
        const auto seen = hn::Floor(hn::Mul(m, hn::Mul(inverse, hn::Set(df, per_quantum_))));
        const auto ulps = hn::Floor(hn::Mul(hn::Add(seen, word(words)), hn::Set(df, per_word_)));
        const auto made = hn::Mul(ulps, hn::Mul(binade, hn::Set(df, quantum_)));
        return F64(hn::IfThenElse(hn::Eq(x.v, x.v), hn::CopySign(made, x.v), x.v));  // a NaN stays a NaN
    }

  private:
    using DU64 = hn::RebindToUnsigned<DF64>;
    static constexpr DF64 df{};
    static constexpr DU64 du{};

    /// Converts random words to fp64: places them in the fraction of 2^52 and subtracts 2^52.
    HWY_INLINE hn::Vec<DF64> word(const std::uint32_t* words) const {
        const auto drawn =
            hn::ShiftRightSame(hn::PromoteTo(du, hn::Load(hn::Rebind<std::uint32_t, DF64>(), words)), shift_);
        const auto raised = hn::Or(drawn, hn::Set(du, std::uint64_t{0x4330000000000000}));
        return hn::Sub(hn::BitCast(df, raised), hn::Set(df, 0x1p52));
    }

    int shift_;
    double limit_, min_binade_, per_quantum_, quantum_, per_word_;
};

}  // namespace

void round_array_by_draws(const Cast& cast, const double* x, float* out, std::int64_t n, std::uint64_t first_element) {
    constexpr std::int64_t batch = Philox::chains * Philox::draw;
    constexpr auto lanes = static_cast<std::int64_t>(f32_lanes), half = static_cast<std::int64_t>(f64_lanes);
    const DrawnRounder round(cast);
    Philox philox(cast.key, first_element / 4);
    HWY_ALIGN std::uint32_t words[batch];
    const auto round_batch = [&](const double* from, float* to) HWY_ATTR {
        philox.next<Philox::chains>(words);
        for (std::int64_t i = 0; i < batch; i += lanes)
            store(demote(round(load(from + i), words + i), round(load(from + i + half), words + i + half)), to + i);
    };
    std::int64_t i = 0;
    for (; i + batch <= n; i += batch) round_batch(x + i, out + i);
    if (i == n) return;
    double from[batch] = {};
    float to[batch];
    std::copy(x + i, x + n, from);
    round_batch(from, to);
    std::copy(to, to + (n - i), out + i);
}

#endif
}  // namespace macheps::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace macheps {
namespace N_AVX2 {
void round_array_by_draws(const Cast& cast, const double* x, float* out, std::int64_t n, std::uint64_t first_element);
}
namespace N_AVX3 {
void round_array_by_draws(const Cast& cast, const double* x, float* out, std::int64_t n, std::uint64_t first_element);
}

bool goes_by_draws(Simd simd, const Cast& cast, std::int64_t first_element) {
    const Format& f = cast.format;
    const bool has_room = f.precision <= 20 && f.emin() - f.fraction_bits() >= -149;
    return simd != Simd::scalar && cast.round == Round::stochastic && cast.can_draw() && first_element % 4 == 0 &&
           f.encoding == Encoding::binary && has_room;
}

void round_by_draws(Simd simd, const Cast& cast, const double* x, float* out, std::int64_t n,
                    std::uint64_t first_element) {
    const auto never_called = [](const Cast&, const double*, float*, std::int64_t, std::uint64_t) {};
    MACHEPS_CHOOSE_TARGET(simd, never_called, round_array_by_draws)(cast, x, out, n, first_element);
}

}  // namespace macheps
#endif
