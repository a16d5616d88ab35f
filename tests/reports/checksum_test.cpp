// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/checksum.hpp"
#include "tests/test.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace checksum_test {

using namespace macheps;
using namespace macheps::reports;

TEST_CASE("the checksum is XXH64, and does not depend on how the bytes are split", "[reports][checksum]") {
    // Reference values from `xxhsum -H1`.
    CHECK(checksum_of("") == 0xef46db3751d8e999u);
    CHECK(checksum_of("a") == 0xd24ec4f1a98c6e5bu);
    CHECK(checksum_of("The quick brown fox jumps over the lazy dog") == 0x0b242d361fda71bcu);
    // Reference values from libxxhash 0.8.1. At some lengths the algorithm changes its code path; lengths on both sides
    // of each change are tested.
    struct Case {
        std::size_t length;
        std::uint64_t sum;
    };
    std::string counting;
    for (int i = 0; i < 97; ++i) counting += static_cast<char>(7 * i + 3);
    for (const Case& c : {Case{3, 0x31d2363f52e564c9u},
                          {4, 0x9bb64b7d66ee9fdau},
                          {7, 0x9a7b149959ce60d8u},
                          {8, 0xdab99d95c6f90092u},
                          {31, 0xa2aa5f33cc4a6119u},
                          {32, 0x23c3c17ef790fd97u},
                          {33, 0x50a7cfc7ba588784u},
                          {39, 0x880bbeea606e4b37u},
                          {63, 0x5e3e54b431c7493cu},
                          {64, 0x0eb64b3ef6eeb01fu},
                          {65, 0xa383b724b2bd12f1u},
                          {96, 0x3101a958de582e18u},
                          {97, 0xb2b3f9902ec2efbdu}}) {
        CAPTURE(c.length);
        CHECK(checksum_of(counting.substr(0, c.length)) == c.sum);
    }
    std::string text;
    for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
    for (std::size_t piece = 1; piece < 70; ++piece) {
        Checksum sum;
        for (std::size_t i = 0; i < text.size(); i += piece) sum.update(std::string_view(text).substr(i, piece));
        CHECK(sum.value() == checksum_of(text));
        CHECK(sum.bytes() == text.size());
    }
}

}  // namespace checksum_test
