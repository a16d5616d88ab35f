// SPDX-License-Identifier: Apache-2.0
// Casts of fp64 arrays with one rounding. Rounding to fp32 first and to the format then would round twice; the fast path
// rounds to odd instead, which remembers in the last place whether anything was cut off, so that the second rounding sees
// on which side of a tie the number lay. A format of at most 22 significand bits, whose quanta are four of fp32's or more,
// cannot tell the two apart (Boldo and Melquiond, IEEE Trans. Computers 57, 2008). Stochastic rounding sees 32 of the bits
// that are cut off: it takes place in fp64, and only what comes out is made fp32, which holds it.
#pragma once
#include "core/host/thread_pool.hpp"
#include "emulation/backend.hpp"
#include "emulation/cpu/simd/simd.hpp"

namespace macheps {

/// Tally of fp64 numbers: largest and least magnitudes are those of the numbers themselves.
struct Tally64 {
    Tally counts{};  ///< amax and amin_nz are not kept here
    double amax = 0, amin_nz = 0;

    /// Counts one element: x before scaling, z after it, q its rounded value in the units of z.
    void add(const Format& f, double x, double z, double q);
    Tally64& operator+=(const Tally64& other);
};

/// x rounded to fp32 toward zero, with an odd last place where that cut something off. A NaN stays one.
float round_to_odd(double x);
/// out[i] = round_to_odd(x[i]).
void round_to_odd(Simd simd, const double* x, float* out, std::int64_t n);

/// True where a cast from fp64 goes by round_to_odd: all but the stochastic, and those to formats that are nearly as fine as
/// fp32.
bool goes_by_odd(const Cast& cast);

/// True where a stochastic cast from fp64 goes by round_by_draws: with vectors, to binary formats of at most 20 significand
/// bits, from elements that begin where the random stream begins a block.
bool goes_by_draws(Simd simd, const Cast& cast, std::int64_t first_element);
/// out[i] = x[i] rounded stochastically as the cast has it, but to its format without an upper end: a number that is too large
/// becomes one that is, a NaN stays one, and the cast to nearest even of what comes out is the cast. encode_scale is not read.
void round_by_draws(Simd simd, const Cast& cast, const double* x, float* out, std::int64_t n,
                    std::uint64_t first_element);

/// out[i] = decode64(encode64(fl64(x[i] * scale))): as cast_array, but that scale multiplies in fp64 and stands for
/// cast.encode_scale, which is not read. in == out is allowed. Adds to *tally when it is not null.
void cast_array64(Simd simd, ThreadPool& pool, const double* x, double* out, std::int64_t n, const Cast& cast,
                  double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

/// The codes of that. Code is std::uint8_t, uint16_t, uint32_t or uint64_t; throws Error where a code does not fit.
template <class Code>
void encode_array64(Simd simd, ThreadPool& pool, const double* x, Code* codes, std::int64_t n, const Cast& cast,
                    double scale, Tally64* tally = nullptr, std::int64_t first_element = 0);

}  // namespace macheps
