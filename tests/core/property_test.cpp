// SPDX-License-Identifier: Apache-2.0
// Checks which properties (NaN, infinity, sign, zero, negative zero) each format can hold. The expected properties are
// found by decoding the codes of the format.
#include "core/property.hpp"

#include "core/format_table.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <limits>

namespace property_test {

using namespace macheps;

namespace {

bool has(double x, Property property) {
    switch (property) {
        case Property::nan:
            return std::isnan(x);
        case Property::infinity:
            return std::isinf(x);
        case Property::sign:
            return x < 0;
        case Property::zero:
            return x == 0;
        default:
            return x == 0 && std::signbit(x);
    }
}

}  // namespace

TEST_CASE("can_hold returns true if and only if some code of the format has the property", "[core]") {
    for (const NamedFormat& named : all_formats) {
        const Format& f = named.format;
        CAPTURE(named.name);
        // Wide formats follow IEEE 754. Their upper 16 bits are enough to find a code with each property.
        const int skipped = f.bits > 16 ? f.bits - 16 : 0;
        for (const PropertyName& property : property_names) {
            CAPTURE(property.name);
            bool found = false;
            for (std::uint64_t code = 0; code < std::uint64_t{1} << (f.bits - skipped) && !found; ++code) {
                found = has(decode64(f, (code << skipped) << f.padding), property.value);
            }
            CHECK(can_hold(f, property.value) == found);
        }
    }
}

TEST_CASE("unheld returns the properties that a number loses when it is encoded, and none if nothing is lost",
          "[core]") {
    constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
    for (const NamedFormat& named : all_formats) {
        const Format& f = named.format;
        CAPTURE(named.name);
        for (const double x : {nan, -nan, infinity, -infinity, 0.0, -0.0, 1.0, -1.0}) {
            CAPTURE(x);
            const PropertySet lost = unheld(f, unpack(x));
            const double made = decode64(f, encode64(f, x, Round::nearest_even, Overflow::nonsaturate));
            for (const PropertyName& property : property_names) {
                CAPTURE(property.name);
                if (!lost.contains(property.value)) continue;
                CHECK((property.value == Property::negative_zero || has(x, property.value)));
                CHECK_FALSE(has(made, property.value));
            }
            // Every format with a sign can hold 1 and -1.
            const bool same = std::isnan(x) ? std::isnan(made) : made == x && std::signbit(made) == std::signbit(x);
            CHECK(lost.empty() == same);
        }
    }
    CHECK(unheld(e8m0fnu, unpack(-0.0)).contains(Property::zero));
    CHECK(unheld(e8m0fnu, unpack(-0.0)).contains(Property::negative_zero));
    CHECK_FALSE(unheld(e8m0fnu, unpack(0.0)).contains(Property::negative_zero));
    CHECK(unheld(e8m0fnu, unpack(-infinity)).contains(Property::sign));
}

}  // namespace property_test
