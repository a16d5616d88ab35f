// SPDX-License-Identifier: Apache-2.0
// Casts of fp64 arrays with one rounding. Rounding to fp32 first and then to the format would round twice. Therefore
// the fast path rounds to fp32 with rounding to odd. The last bit then records whether the conversion was inexact, so
// the second rounding knows on which side of a tie the number was. The result is the same as with one rounding if the
// format has at most 22 significand bits and its quanta are at least four times those of fp32 (Boldo and Melquiond,
// IEEE Trans. Computers 57, 2008). Stochastic rounding reads up to 32 of the bits that are cut off, so it is done in
// fp64. fp32 holds its result exactly.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Tally of fp64 numbers. The largest and smallest magnitudes are not rounded to fp32.
struct Tally64 {
    Tally counts{};  ///< its amax and amin_nz are not used
    double amax = 0, amin_nz = 0;

    /// Counts one element. `x` is its value before scaling, `z` its value after scaling, and `q` is `z` after rounding.
    void add(const Format& f, double x, double z, double q);
    Tally64& operator+=(const Tally64& other);
};

/// Rounds x to fp32 toward zero and sets the last bit if the result is inexact. A NaN stays a NaN.
float round_to_odd(double x);
/// Computes out[i] = round_to_odd(x[i]).
void round_to_odd(Simd simd, const double* x, float* out, std::int64_t n);

/// Returns true if a cast from fp64 can use round_to_odd(). The exceptions are stochastic casts and casts to formats
/// that are nearly as fine as fp32.
bool goes_by_odd(const Cast& cast);

/// Returns true if a stochastic cast from fp64 can use round_by_draws(). The cast must use vectors, its format must be
/// binary with at most 20 significand bits and representable in fp32, and its first element must begin a block of the
/// random stream.
bool goes_by_draws(Simd simd, const Cast& cast, std::int64_t first_element);
/// Rounds x[i] stochastically to the grid of the cast's format and writes the result to out[i]. A number that is too
/// large for the format stays too large, and a NaN stays a NaN. A second cast of `out`, to nearest even, then gives the
/// results of the stochastic cast. encode_scale is not used.
void round_by_draws(Simd simd, const Cast& cast, const double* x, float* out, std::int64_t n,
                    std::uint64_t first_element);

/// Computes out[i] = decode64(encode64(fl64(x[i] * scale))). Unlike cast_array(), it multiplies by `scale` in fp64 and
/// does not use cast.encode_scale. x == out is allowed. Adds to *tally if `tally` is not null.
void cast_array64(Simd simd, ThreadPool& pool, const double* x, double* out, std::int64_t n, const Cast& cast,
                  double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

/// Computes the codes of the results of cast_array64(). Code is std::uint8_t, uint16_t, uint32_t or uint64_t. Throws
/// Error if a code does not fit.
template <class Code>
void encode_array64(Simd simd, ThreadPool& pool, const double* x, Code* codes, std::int64_t n, const Cast& cast,
                    double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

}  // namespace macheps
