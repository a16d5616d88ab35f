// SPDX-License-Identifier: Apache-2.0
// Properties of numbers that some formats cannot hold: NaN, infinities, a sign, zero, -0.
#pragma once
#include "core/codec.hpp"

#include <array>
#include <string_view>

namespace macheps {

enum class Property : std::uint8_t { nan, infinity, sign, zero, negative_zero };

struct PropertyName {
    std::string_view name;  ///< used in options and files: `inf`
    Property value;
    std::string_view noun;  ///< used in sentences: `infinity`
};
inline constexpr std::array<PropertyName, 5> property_names{{
    {"nan", Property::nan, "NaN"},
    {"inf", Property::infinity, "infinity"},
    {"sign", Property::sign, "sign"},
    {"zero", Property::zero, "zero"},
    {"negative_zero", Property::negative_zero, "-0"},
}};

/// Returns whether `f` can represent numbers with this property.
constexpr bool can_hold(const Format& f, Property property) {
    switch (property) {
        case Property::nan:
            return f.has_nan();
        case Property::infinity:
            return f.has_inf();
        case Property::sign:
            return f.has_sign();
        case Property::zero:
            return f.has_zero();
        default:
            return f.has_negative_zero();
    }
}

/// A set of properties.
class PropertySet {
  public:
    constexpr PropertySet() = default;
    constexpr void add(Property property) { bits_ |= bit(property); }
    constexpr bool contains(Property property) const { return (bits_ & bit(property)) != 0; }
    constexpr bool empty() const { return bits_ == 0; }
    constexpr PropertySet operator&(PropertySet other) const { return PropertySet(bits_ & other.bits_); }
    constexpr bool operator==(const PropertySet&) const = default;

  private:
    constexpr explicit PropertySet(unsigned bits) : bits_(bits) {}
    static constexpr unsigned bit(Property property) { return 1u << static_cast<unsigned>(property); }
    unsigned bits_ = 0;
};

/// Returns the properties of `x` that `f` cannot represent. Negative nonzero numbers and -Inf have the property `sign`.
/// A NaN never has this property, and -0 has the property `negative_zero` instead. A format without zero has no -0
/// either.
constexpr PropertySet unheld(const Format& f, const Unpacked& x) {
    using Kind = Unpacked::Kind;
    PropertySet properties;
    const auto add = [&](Property property) {
        if (!can_hold(f, property)) properties.add(property);
    };
    if (x.kind == Kind::nan) {
        add(Property::nan);
        return properties;
    }
    if (x.kind == Kind::finite && x.significand == 0) {
        add(Property::zero);
        if (x.negative) add(Property::negative_zero);
        return properties;
    }
    if (x.kind == Kind::infinite) add(Property::infinity);
    if (x.negative) add(Property::sign);
    return properties;
}

}  // namespace macheps
