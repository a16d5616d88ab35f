// SPDX-License-Identifier: Apache-2.0
// Exact numbers for the oracle of matrix units: an integer of any size times a power of two. Nothing here rounds unless
// its name says so, and nothing of macheps is used.
#pragma once
#include <boost/multiprecision/cpp_int.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace macheps::machine_oracle {

/// An unbounded integer; the first 256 bits need no allocation.
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
/// Returns floor(log2 |x|). x must not be zero.
[[nodiscard]] int leading_exponent(const Exact& x);
/// Returns the integer x / 2^q, with its fraction cut off (towards zero).
[[nodiscard]] Integer cut(const Exact& x, int q);
/// Returns the integer x / 2^q, rounded towards minus infinity.
[[nodiscard]] Integer floored(const Exact& x, int q);

/// The special codes of a format.
enum class Specials {
    ieee,     ///< largest exponent field: inf, NaN
    e4m3fn,   ///< all ones: NaN; no inf
    fnuz,     ///< minus zero's code: NaN; no inf
    none,     ///< no inf and no NaN
    integer,  ///< two's complement (or unsigned if `bias` is 1)
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
    /// Returns the largest value of the exponent field.
    [[nodiscard]] int max_field() const;
    /// Returns the exponent of the largest finite value.
    [[nodiscard]] int emax() const;
};

/// Returns the type of that name (f64 f32 tf32 xf32 f16 bf16 e5m2 e4m3 fp8 bf8 e3m2 e2m3 e2m1 ue8m0 ue4m3 s8 u8 s4 u4
/// s32). Throws std::invalid_argument.
[[nodiscard]] const Type& find_type(std::string_view name);

enum class Kind { finite, infinite, nan };

/// A decoded operand. A finite one is (-1)^negative * significand * 2^(exponent - precision + 1). Subnormals and zero
/// keep exponent = emin: nothing is normalised.
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

/// Returns the code of x, rounded once to `precision` significand bits of an IEEE-like type, with gradual underflow. If
/// `precision` is less than type.precision, the low bits of the code are zero. Numbers that are too large become
/// infinity in either mode. Zero gives +0. A negative number that underflows gives -0, which a tensor core changes to
/// +0.
[[nodiscard]] std::uint64_t rounded(const Exact& x, const Type& type, Rounding mode, int precision);
[[nodiscard]] std::uint64_t infinity(const Type& type, bool negative);

}  // namespace macheps::machine_oracle
