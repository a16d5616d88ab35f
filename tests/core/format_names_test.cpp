// SPDX-License-Identifier: Apache-2.0
// Tests formats that are named by their widths: e5m10 has 5 exponent bits and 10 fraction bits.
#include "core/codec.hpp"
#include "core/error.hpp"
#include "core/format_table.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

namespace format_names_test {

using namespace macheps;

TEST_CASE("a name eXmY gives a format of X exponent and Y fraction bits, and the format's name leads back to it",
          "[core][format]") {
    int own = 0;
    for (int exponent = 2; exponent <= 8; ++exponent) {
        for (int fraction = 1; fraction <= 23; ++fraction) {
            const std::string name = fmt::format("e{}m{}", exponent, fraction);
            CAPTURE(name);
            if (name == "e4m3") continue;  // ambiguous
            const Format f = format_named(name);
            CHECK(f.exponent_bits() == exponent);
            CHECK(f.fraction_bits() == fraction);
            CHECK(f.exponent_bias == (1 << (exponent - 1)) - 1);
            CHECK(format_named(format_name(f)) == f);
            CHECK(decode(f, f.max_finite_code() << f.padding) > 0);
            if (find_format(name) != nullptr || find_format(format_name(f)) != nullptr) continue;
            CHECK(format_name(f) == name);
            CHECK(f.has_inf());
            ++own;
        }
    }
    CHECK(own > 140);
    // A format of the table is found by its own name, by an alias and by its widths.
    CHECK(format_named("e5m10") == fp16);
    CHECK(format_named("E8M7") == bf16);
    CHECK(format_named("e8m10") == tf32);
    CHECK(format_named("e3m4") == e3m4);
    CHECK(format_named("e2m1") == e2m1fn);  // OCP's name
    for (const char* name : {"e4m3", "e1m3", "e9m3", "e5m0", "e5m24", "e5", "m6", "e5m", "e5m6x", ""}) {
        CAPTURE(name);
        CHECK_FALSE(ieee_format(name).has_value());
        CHECK_THROWS_AS(format_named(name), Error);
    }
    CHECK(format_name(Format{.bits = 12, .precision = 7, .exponent_bias = 14}) == "custom");
}

}  // namespace format_names_test
