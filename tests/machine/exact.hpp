// SPDX-License-Identifier: Apache-2.0
// Exact numbers for the oracle of matrix units: an integer of any size times a power of two. Nothing here rounds unless
// its name says so, and nothing of macheps is used.
#pragma once
#include <boost/multiprecision/cpp_int.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace macheps::machine_oracle {

/// An integer without bound; the first 256 bits need no allocation.
using Integer =
    boost::multiprecision::number<boost::multiprecision::cpp_int_backend<
                                      256, 0, boost::multiprecision::signed_magnitude, boost::multiprecision::unchecked,
                                      std::allocator<boost::multiprecision::limb_type>>,
                                  boost::multiprecision::et_off>;

/// The value m * 2^q.
struct Exact {
    Integer m = 0;
    int q = 0;
};

[[nodiscard]] Exact sum(const Exact& x, const Exact& y);
[[nodiscard]] Exact product(const Exact& x, const Exact& y);
/// floor(log2 |x|); x must not be zero.
[[nodiscard]] int leading_exponent(const Exact& x);
/// The integer x / 2^q, its fraction cut off (towards zero).
[[nodiscard]] Integer cut(const Exact& x, int q);
/// The integer x / 2^q, rounded towards minus infinity.
[[nodiscard]] Integer floored(const Exact& x, int q);

/// What the codes of a format mean beyond finite numbers.
enum class Specials {
    ieee,     ///< greatest exponent field: inf, NaN
    e4m3fn,   ///< all ones: NaN; no inf
    fnuz,     ///< minus zero's code: NaN; no inf
    none,     ///< neither
    integer,  ///< two's complement (or unsigned where `bias` is 1)
    e8m0,     ///< 2^(code - 127), 0xff NaN, no sign and no zero
    ue4m3     ///< e4m3fn with an ignored sign bit
};

/// A type of operand, addend, result or scale.
struct Type {
    std::string_view name;
    int bits;       ///< of the container
    int precision;  ///< significand bits with the leading one
    int bias;       ///< of the exponent field
    Specials specials;
    int ignored = 0;  ///< low container bits that the unit does not read
    [[nodiscard]] int emin() const { return 1 - bias; }
    /// The exponent field's greatest value.
    [[nodiscard]] int max_field() const;
    /// Exponent of the greatest finite value.
    [[nodiscard]] int emax() const;
};

/// The type of that name (f64 f32 tf32 xf32 f16 bf16 e5m2 e4m3 fp8 bf8 e3m2 e2m3 e2m1 ue8m0 ue4m3 s8 u8 s4 u4 s32).
/// Throws std::invalid_argument.
[[nodiscard]] const Type& find_type(std::string_view name);

enum class Kind { finite, infinite, nan };

/// A decoded operand. Finite: (-1)^negative * significand * 2^(exponent - precision + 1). A subnormal and zero keep
/// exponent = emin: nothing is normalised.
struct Number {
    Kind kind = Kind::finite;
    bool negative = false;
    std::uint64_t significand = 0;
    int exponent = 0;
    Exact value;
    [[nodiscard]] bool is_zero() const { return kind == Kind::finite && significand == 0; }
    [[nodiscard]] bool is_subnormal(const Type& type) const;
};

[[nodiscard]] Number decode(const Type& type, std::uint64_t code);

enum class Rounding { toward_zero, nearest_even };

/// The code of x rounded once to an IEEE-like type, `precision` significand bits kept (type.precision or fewer: the
/// low bits of the code are then zero), with gradual underflow; what is too great becomes infinity in either mode.
/// Zero gives +0, and a negative number that underflows gives -0, which a tensor core makes +0 of.
[[nodiscard]] std::uint64_t rounded(const Exact& x, const Type& type, Rounding mode, int precision);
[[nodiscard]] std::uint64_t infinity(const Type& type, bool negative);

}  // namespace macheps::machine_oracle
