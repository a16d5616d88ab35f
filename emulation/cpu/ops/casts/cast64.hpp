// SPDX-License-Identifier: Apache-2.0
// Casts of fp64 arrays with one rounding. Rounding to fp32 first and then to the format would round twice. The fast
// path therefore rounds to odd first: the last place records whether anything was cut off, so the second rounding knows
// on which side of a tie the number was. For formats of at most 22 significand bits whose quanta are at least four of
// fp32's, the result is that of one rounding (Boldo and Melquiond, IEEE Trans. Computers 57, 2008). Stochastic rounding
// reads up to 32 of the bits that are cut off. It is done in fp64, and only its result is converted to fp32, which
// holds it exactly.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Tally of fp64 numbers. The largest and smallest magnitudes are not rounded to fp32.
struct Tally64 {
    Tally counts{};  ///< its amax and amin_nz are not used
    double amax = 0, amin_nz = 0;

    /// Counts one element: x before scaling, z after it, q its rounded value in the units of z.
    void add(const Format& f, double x, double z, double q);
    Tally64& operator+=(const Tally64& other);
};

/// Rounds x to fp32 toward zero and makes the last place odd if anything was cut off. A NaN stays a NaN.
float round_to_odd(double x);
/// Computes out[i] = round_to_odd(x[i]).
void round_to_odd(Simd simd, const double* x, float* out, std::int64_t n);

/// Returns true if a cast from fp64 can use round_to_odd(): all casts except stochastic ones and those to formats that
/// are nearly as fine as fp32.
bool goes_by_odd(const Cast& cast);

/// Returns true if a stochastic cast from fp64 can use round_by_draws(): with vectors, to binary formats of at most 20
/// significand bits, if the first element begins a block of the random stream.
bool goes_by_draws(Simd simd, const Cast& cast, std::int64_t first_element);
/// Computes out[i] = x[i], rounded stochastically to the cast's format as if that had no largest number. A number that
/// is too large stays too large, and a NaN stays a NaN. Casting the results to nearest even then gives the results of
/// the cast. encode_scale is not read.
void round_by_draws(Simd simd, const Cast& cast, const double* x, float* out, std::int64_t n,
                    std::uint64_t first_element);

/// Computes out[i] = decode64(encode64(fl64(x[i] * scale))). It differs from cast_array() in that `scale` multiplies in
/// fp64 and replaces cast.encode_scale, which is not read. x == out is allowed. Adds to *tally if `tally` is not null.
void cast_array64(Simd simd, ThreadPool& pool, const double* x, double* out, std::int64_t n, const Cast& cast,
                  double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

/// Computes the codes of the results of cast_array64(). Code is std::uint8_t, uint16_t, uint32_t or uint64_t. Throws
/// Error if a code does not fit.
template <class Code>
void encode_array64(Simd simd, ThreadPool& pool, const double* x, Code* codes, std::int64_t n, const Cast& cast,
                    double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

}  // namespace macheps
