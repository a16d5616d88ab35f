// SPDX-License-Identifier: Apache-2.0
// Compares the fp16 kernels that subtract multiples of rows from other rows with loops over Float.
#include "experiments/study/solve/factor/row_tile.hpp"
#include "core/format_table.hpp"
#include "core/types/float.hpp"
#include "tests/test.hpp"

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace row_tile_test {

using namespace macheps;
using namespace macheps::study;

namespace {

constexpr std::int64_t gap = 5;  // numbers between two rows, which kernels must not change
constexpr float untouched = 0x1p-30f;

enum class Draw {
    usual,  ///< near one
    tiny,   ///< u and a are near the smallest normal number
    wild,   ///< any code
};

struct Numbers {
    std::vector<float> l, u, a;
    RowTile<float> tile;

    Numbers(std::int64_t rows, std::int64_t terms, std::int64_t width, Draw kind, std::mt19937_64& random)
        : l(static_cast<std::size_t>(rows * (terms + gap)), untouched),
          u(static_cast<std::size_t>(terms * (width + gap)), untouched),
          a(static_cast<std::size_t>(rows * (width + gap)), untouched) {
        const auto draw = [&](std::vector<float>& numbers, std::int64_t of_row, std::uint64_t min_exponent) {
            for (std::size_t i = 0; i < numbers.size(); ++i) {
                if (static_cast<std::int64_t>(i) % (of_row + gap) >= of_row) continue;
                // Only a few numbers are not finite, because otherwise every result would be NaN.
                std::uint64_t code = random() & 0xffff;
                if (kind != Draw::wild) code = (code & 0x83ff) | ((min_exponent + random() % 6) << 10);
                if ((code & 0x7c00) == 0x7c00 && random() % 64 != 0) code &= 0x83ff;
                numbers[i] = static_cast<float>(decode64(fp16, static_cast<std::uint32_t>(code)));
            }
        };
        const std::uint64_t min_exponent = kind == Draw::tiny ? 0 : 10;
        draw(l, terms, 10);
        draw(u, width, min_exponent);
        draw(a, width, min_exponent);
        tile = {rows, terms, width, l.data(), terms + gap, u.data(), width + gap, nullptr, width + gap};
    }
};

std::vector<float> expected_of(const Numbers& x) {
    std::vector<float> result = x.a;
    const RowTile<float>& t = x.tile;
    for (std::int64_t i = 0; i < t.rows; ++i) {
        for (std::int64_t j = 0; j < t.width; ++j) {
            Float<fp16> sum(result[static_cast<std::size_t>(i * t.ld_a + j)]);
            for (std::int64_t k = 0; k < t.terms; ++k)
                sum = sum - Float<fp16>(t.l[i * t.ld_l + k]) * Float<fp16>(t.u[k * t.ld_u + j]);
            result[static_cast<std::size_t>(i * t.ld_a + j)] = float(sum);
        }
    }
    return result;
}

/// Returns the number of elements whose bits differ. All NaNs are equal.
int different(const std::vector<float>& x, const std::vector<float>& y) {
    int count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const bool same =
            y[i] != y[i] ? x[i] != x[i] : std::bit_cast<std::uint32_t>(x[i]) == std::bit_cast<std::uint32_t>(y[i]);
        count += !same;
    }
    return count;
}

/// Checks that `update` gives the bits of loops over Float, and changes nothing outside the tile, for tiles of all
/// shapes.
template <class Update>
void check(const Update& update) {
    std::mt19937_64 random(11);
    int wrong = 0, nans = 0, infinities = 0, subnormal = 0, all = 0;
    for (const Draw kind : {Draw::usual, Draw::tiny, Draw::wild}) {
        for (const std::int64_t rows : {1, 3, 4, 9}) {
            for (const std::int64_t terms : {1, 16, 17, 33}) {
                for (const std::int64_t width : {1, 15, 16, 17, 33, 47, 96, 129, 150}) {
                    Numbers x(rows, terms, width, kind, random);
                    const std::vector<float> expected = expected_of(x);
                    x.tile.a = x.a.data();
                    update(x.tile);
                    wrong += different(x.a, expected);
                    for (const float y : expected) {
                        ++all;
                        nans += y != y;
                        infinities += std::isinf(y);
                        subnormal += y != 0 && std::fabs(y) < 0x1p-14f && y != untouched;
                    }
                }
            }
        }
    }
    CHECK(wrong == 0);
    // There are enough special results, and even more ordinary results.
    CHECK(nans > 1000);
    CHECK(infinities > 1000);
    CHECK(subnormal > 1000);
    CHECK(nans + infinities < all / 2);
}

}  // namespace

TEST_CASE("subtracting multiples of rows in fp16 gives the same bits as Float", "[analysis][lu]") {
    for (const Simd simd : available_simd()) {
        if (simd == Simd::scalar) continue;
        CAPTURE(simd_name(simd));
        check([simd](const RowTile<float>& tile) { update_half_tile(simd, tile); });
    }
}

TEST_CASE("subtracting multiples of rows in fp16 registers gives the same bits as Float", "[analysis][lu]") {
    if (!has_half_arithmetic()) {
        SUCCEED("this processor has no AVX512-FP16");
        return;
    }
    check(update_half_tile_in_half);
}

}  // namespace row_tile_test
