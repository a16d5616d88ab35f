// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/casts/cast64.hpp"

#include "core/error.hpp"
#include "emulation/cpu/ops/casts/cast.hpp"
#include "emulation/cpu/ops/casts/codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <string>
#include <type_traits>

namespace macheps {

namespace {

constexpr std::int64_t block64 = 1 << 16, stretch64 = 4096;  ///< elements per task and per pass (a pass fits in cache)

RandomBits bits_of(const Cast& cast, std::uint64_t element) {
    if (cast.round != Round::stochastic) return {};
    return {.value = random_bits(cast.key, element) >> (32 - cast.random_bits), .bits = cast.random_bits};
}

void require_words(const Cast& cast) {
    if (cast.round == Round::stochastic && !cast.can_draw()) require_random_bits(cast.round, {});
}

/// Divides [0, n) into stretches, calls work(first, count, tally) for each stretch on all threads, and adds up the
/// tallies.
template <class Work>
void over_stretches(ThreadPool& pool, std::int64_t n, Tally64* tally, const Work& work) {
    std::mutex adding;
    pool.run((n + block64 - 1) / block64, [&](std::int64_t b) {
        Tally64 part;
        for (std::int64_t i = b * block64, end = std::min(n, i + block64); i < end; i += stretch64)
            work(i, std::min(stretch64, end - i), tally != nullptr ? &part : nullptr);
        if (tally != nullptr) {
            const std::lock_guard lock(adding);
            *tally += part;
        }
    });
}

/// A cast from fp64 in two steps: a conversion to fp32, and a cast from fp32.
class Narrowing {
  public:
    Narrowing(Simd simd, const Cast& cast, double scale, std::int64_t first_element)
        : simd_(simd),
          given_(cast),
          scale_(scale),
          first_(first_element),
          draws_(goes_by_draws(simd, cast, first_element)) {
        rest_.encode_scale = 1;
        if (draws_) rest_.round = Round::nearest_even;
    }

    /// Returns false if only the definition can compute the cast.
    bool is_there() const { return draws_ || goes_by_odd(given_); }
    const Cast& rest() const { return rest_; }

    /// Converts fl64(x[i] * scale) to fp32 for i in [at, at + count).
    void operator()(const double* x, std::int64_t at, float* out, std::int64_t count) const {
        std::array<double, stretch64> scaled;
        const double* z = x + at;
        if (scale_ != 1) {
            for (std::int64_t i = 0; i < count; ++i) scaled[static_cast<std::size_t>(i)] = z[i] * scale_;
            z = scaled.data();
        }
        if (draws_) return round_by_draws(simd_, given_, z, out, count, static_cast<std::uint64_t>(first_ + at));
        round_to_odd(simd_, z, out, count);
    }

  private:
    Simd simd_;
    Cast given_, rest_ = given_;
    double scale_;
    std::int64_t first_;
    bool draws_;
};

}  // namespace

void Tally64::add(const Format& f, double x, double z, double q) {
    ++counts.count;
    if (std::isnan(x)) ++counts.nan_in;
    if (std::isinf(x)) ++counts.inf_in;
    if (!std::isfinite(x)) return;
    const double size = std::fabs(x), q_size = std::fabs(q);
    const double limit = decode64(f, f.max_finite_code() << f.padding);
    amax = std::max(amax, size);
    if (size == 0) {
        ++counts.zero_in;
    } else {
        amin_nz = amin_nz == 0 ? size : std::min(amin_nz, size);
        if (q == 0) ++counts.underflow;
    }
    if (f.encoding == Encoding::binary && q != 0 && q_size < Format::power_of_two(f.emin())) ++counts.to_subnormal;
    if (std::fabs(z) > limit) ++counts.overflow;
    if (q_size == limit) ++counts.saturated;
}

Tally64& Tally64::operator+=(const Tally64& other) {
    counts += other.counts;
    amax = std::max(amax, other.amax);
    if (other.amin_nz != 0) amin_nz = amin_nz == 0 ? other.amin_nz : std::min(amin_nz, other.amin_nz);
    return *this;
}

bool goes_by_odd(const Cast& cast) {
    const Format& f = cast.format;
    const bool has_room = f.precision <= 22 && f.emin() - f.fraction_bits() >= -147;
    return cast.round != Round::stochastic && has_room;
}

void cast_array64(Simd simd, ThreadPool& pool, const double* x, double* out, std::int64_t n, const Cast& cast,
                  double scale, Tally64* tally, std::int64_t first_element) {
    require_words(cast);
    const Format f = cast.format;
    const Narrowing narrow(simd, cast, scale, first_element);
    const Caster caster(simd, narrow.rest());
    const bool is_fast = narrow.is_there() && tally == nullptr;
    over_stretches(pool, n, tally, [&](std::int64_t first, std::int64_t count, Tally64* part) {
        if (is_fast) {
            std::array<float, stretch64> value;
            narrow(x, first, value.data(), count);
            caster(value.data(), value.data(), count, nullptr, 0);
            for (std::int64_t i = 0; i < count; ++i) out[first + i] = double{value[static_cast<std::size_t>(i)]};
            return;
        }
        for (std::int64_t i = first; i < first + count; ++i) {
            const double z = scale == 1 ? x[i] : x[i] * scale, given = x[i];
            const auto element = static_cast<std::uint64_t>(first_element + i);
            out[i] = decode64(f, encode64(f, z, cast.round, cast.overflow, bits_of(cast, element)));
            if (part != nullptr) part->add(f, given, z, out[i]);
        }
    });
}

template <class Code>
void encode_array64(Simd simd, ThreadPool& pool, const double* x, Code* codes, std::int64_t n, const Cast& cast,
                    double scale, Tally64* tally, std::int64_t first_element) {
    require_words(cast);
    const Format f = cast.format;
    if (f.container_bits() > static_cast<int>(8 * sizeof(Code))) {
        throw Error({.what = "codes of " + std::to_string(f.container_bits()) + " bits do not fit in integers of " +
                             std::to_string(8 * sizeof(Code)),
                     .where = "encode_array64",
                     .fix = "use a wider integer type",
                     .exit = Exit::usage});
    }
    const Narrowing narrow(simd, cast, scale, first_element);
    bool is_fast = narrow.is_there() && tally == nullptr;
    if constexpr (std::is_same_v<Code, std::uint64_t>) is_fast = false;
    over_stretches(pool, n, tally, [&](std::int64_t first, std::int64_t count, Tally64* part) {
        if constexpr (!std::is_same_v<Code, std::uint64_t>) {
            if (is_fast) {
                std::array<float, stretch64> value;
                narrow(x, first, value.data(), count);
                encode_array(simd, pool, value.data(), codes + first, count,
                             narrow.rest());  // runs in this thread, because the pool is busy with these tasks
                return;
            }
        }
        for (std::int64_t i = first; i < first + count; ++i) {
            const double z = scale == 1 ? x[i] : x[i] * scale;
            const auto element = static_cast<std::uint64_t>(first_element + i);
            const std::uint64_t code = encode64(f, z, cast.round, cast.overflow, bits_of(cast, element));
            codes[i] = static_cast<Code>(code);
            if (part != nullptr) part->add(f, x[i], z, decode64(f, code));
        }
    });
}

template void encode_array64(Simd, ThreadPool&, const double*, std::uint8_t*, std::int64_t, const Cast&, double,
                             Tally64*, std::int64_t);
template void encode_array64(Simd, ThreadPool&, const double*, std::uint16_t*, std::int64_t, const Cast&, double,
                             Tally64*, std::int64_t);
template void encode_array64(Simd, ThreadPool&, const double*, std::uint32_t*, std::int64_t, const Cast&, double,
                             Tally64*, std::int64_t);
template void encode_array64(Simd, ThreadPool&, const double*, std::uint64_t*, std::int64_t, const Cast&, double,
                             Tally64*, std::int64_t);

}  // namespace macheps
