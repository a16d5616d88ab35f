// SPDX-License-Identifier: Apache-2.0
// Exact numbers for the oracle of matrix units. A number is an integer of any size times a power of two. Only `cut`,
// `floored` and `rounded` can lose bits. No code of macheps is used.
#pragma once
#include <boost/multiprecision/cpp_int.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace macheps::machine_oracle {

/// An unbounded integer. Integers of up to 256 bits need no allocation.
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
/// Returns x / 2^q, rounded to an integer towards zero.
[[nodiscard]] Integer cut(const Exact& x, int q);
/// Returns x / 2^q, rounded to an integer towards minus infinity.
[[nodiscard]] Integer floored(const Exact& x, int q);

/// Kinds of formats. Each kind has its own special codes.
enum class Specials {
    ieee,     ///< the largest exponent field means inf or NaN
    e4m3fn,   ///< NaN is the magnitude with all bits set; no code is inf
    fnuz,     ///< NaN has the code of minus zero; no code is inf
    none,     ///< no code is inf or NaN
    integer,  ///< an integer in two's complement (or unsigned if `bias` is 1)
    e8m0,     ///< the value is 2^(code - 127), NaN is 0xff; no code is negative or zero
    ue4m3     ///< e4m3fn with an ignored sign bit
};

/// A type of operand, addend, result or scale.
struct Type {
    std::string_view name;
    int bits;       ///< width of the container
    int precision;  ///< significand bits, including the leading one
    int bias;       ///< bias of the exponent field
    Specials specials;
    int ignored = 0;  ///< low container bits that the unit does not read
    [[nodiscard]] int emin() const { return 1 - bias; }
    /// Returns the largest value of the exponent field.
    [[nodiscard]] int max_field() const;
    /// Returns the exponent of the largest finite value.
    [[nodiscard]] int emax() const;
};

/// Returns the type with this name: f64, f32, tf32, xf32, f16, bf16, e5m2, e4m3, fp8, bf8, e3m2, e2m3, e2m1, ue8m0,
/// ue4m3, s8, u8, s4, u4 or s32. Throws std::invalid_argument for any other name.
[[nodiscard]] const Type& find_type(std::string_view name);

enum class Kind { finite, infinite, nan };

/// A decoded operand. A finite operand has the value (-1)^negative * significand * 2^(exponent - precision + 1), where
/// precision is that of the type. Operands are not normalised: subnormals and zero have the exponent emin.
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
