// SPDX-License-Identifier: Apache-2.0
// Tests the step of a cast before the scaling: a Hadamard transform along the contraction, or a rounding.
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/model/config.hpp"
#include "experiments/training/model/rounder.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace prepared_cast_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

constexpr int signs[16] = {1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1, 1, -1, 1, -1, -1};

/// Returns Sylvester's matrix by its recursion, H(2n) = [H H; H -H].
std::vector<std::vector<int>> hadamard(int size) {
    if (size == 1) return {{1}};
    const auto half = hadamard(size / 2);
    std::vector<std::vector<int>> all(static_cast<std::size_t>(size), std::vector<int>(static_cast<std::size_t>(size)));
    for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < all.size(); ++j) {
            const std::size_t n = half.size();
            all[i][j] = half[i % n][j % n] * (i >= n && j >= n ? -1 : 1);
        }
    }
    return all;
}

struct Cast1 {
    CpuBackend backend{1};
    ResolvedPolicy policy;
    Slot slot;
    Tensor buffer, decoded;

    explicit Cast1(const std::string& cast)
        : policy(resolve(parse_policy("[[rule]]\nsites = \"block.*.mlp.up\"\nforward = { a = \"" + cast + "\", b = \"" +
                                          cast + "\" }",
                                      "mine.toml"),
                         model_sites({}))),
          slot(policy, "block.0.mlp.up:forward.a") {}

    /// Returns the values after a cast: decoded, or still scaled if `codes` is true.
    std::vector<float> operator()(const std::vector<float>& values, Shape shape, Contraction contraction,
                                  bool codes = false) {
        const Tensor x = backend.empty(shape);
        backend.upload(values, x);
        Rounder rounder(backend, 0);
        const Value made = rounder.apply(slot, {x.view()}, buffer, contraction);
        std::vector<float> out(values.size());
        if (codes || made.scales.data == nullptr) {
            backend.download(made.view, out);
            if (!codes) {
                for (float& each : out) each *= made.scale.decode;
            }
            return out;
        }
        decoded = backend.empty(shape);
        backend.decode_groups(made.view, made.scales, contraction == Contraction::last, made.scale.decode, decoded);
        backend.download(decoded, out);
        return out;
    }
};

}  // namespace

TEST_CASE("the Hadamard transform follows its definition along the axis that the matmul sums",
          "[experiments][recipe]") {
    // The inputs are integers whose sums are exact in bf16. The cast is to fp16 with a scale of 1. It is exact, unlike
    // a cast to fp8.
    Cast1 mixed("fp16/tensor:te_delayed:hadamard");
    std::mt19937 random(5);
    const std::int64_t rows = 48, columns = 32;
    std::vector<float> x;
    for (int i = 0; i < rows * columns; ++i) x.push_back(static_cast<float>(static_cast<int>(random() % 9) - 4));
    const auto at = [&](const std::vector<float>& v, std::int64_t r, std::int64_t c) {
        return v[static_cast<std::size_t>(r * columns + c)];
    };
    const auto h = hadamard(16);
    const auto down = mixed(x, {rows, columns}, Contraction::first),
               across = mixed(x, {rows, columns}, Contraction::last);
    for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
            float by_row = 0, by_column = 0;
            for (std::size_t j = 0; j < 16; ++j) {
                const auto k = static_cast<std::int64_t>(j);
                by_column += 0.25f * at(x, r / 16 * 16 + k, c) *
                             static_cast<float>(signs[j] * h[j][static_cast<std::size_t>(r % 16)]);
                by_row += 0.25f * at(x, r, c / 16 * 16 + k) *
                          static_cast<float>(signs[j] * h[j][static_cast<std::size_t>(c % 16)]);
            }
            CHECK(at(down, r, c) == by_column);
            CHECK(at(across, r, c) == by_row);
        }
    }
    // The transform is orthogonal, so it does not change dY^T X. All numbers are exact here, so the bits are the same.
    for (std::int64_t i = 0; i < 4; ++i) {
        for (std::int64_t j = 0; j < 4; ++j) {
            float before = 0, after = 0;
            for (std::int64_t r = 0; r < rows; ++r) {
                before += at(x, r, i) * at(x, r, j);
                after += at(down, r, i) * at(down, r, j);
            }
            CHECK(before == after);
        }
    }
    CHECK_THROWS_AS(mixed(std::vector<float>(20 * 32), {20, 32}, Contraction::first), Error);
}

TEST_CASE("the Hadamard transform rounds to bf16, and the scale follows from the result", "[experiments][recipe]") {
    Cast1 mixed("fp16/tensor:te_current:hadamard"), plain("fp16/tensor:te_current");
    std::vector<float> spike(16 * 16, 0.0f);
    spike[0] = 1;  // the first of the 16 values in column 0
    const auto codes = mixed(spike, {16, 16}, Contraction::first, true);
    // A spike of 1 becomes sixteen values of 1/4 in magnitude, so the amax falls from 1 to 1/4.
    for (std::int64_t r = 0; r < 16; ++r) CHECK(std::fabs(codes[static_cast<std::size_t>(16 * r)]) == 65504);
    const auto before = plain(spike, {16, 16}, Contraction::first, true);
    CHECK(before[0] == 65504);
    CHECK(before[16] == 0);
    // The transform gives (1 + 2^-9) / 4 and (1 - 2^-9) / 4, up to their signs. Neither is a bf16 number, so both are
    // rounded to bf16 before the scaling.
    std::vector<float> ties(16 * 16, 0.0f);
    ties[0] = 1;
    ties[16] = 0x1p-9f;
    Cast1 values("fp16/tensor:te_delayed:hadamard");
    for (const float y : values(ties, {16, 16}, Contraction::first)) {
        CHECK(quantize(bf16, y, Round::nearest_even, Overflow::nonsaturate) == y);
    }
}

TEST_CASE("a cast via bf16 rounds twice", "[experiments][recipe]") {
    Cast1 twice("e4m3fn/tensor:te_delayed:via=bf16"), once("e4m3fn/tensor:te_delayed");
    // 1.0625 is a tie of e4m3fn between 1 and 1.125. A slightly larger number rounds up, but bf16 rounds it to the tie,
    // which then rounds to even, 1.
    const std::vector<float> x{1.0625f + 0x1p-12f, 1.0625f, 1.1f, -3.0f};
    CHECK(once(x, {1, 4}, Contraction::last) == std::vector<float>{1.125f, 1, 1.125f, -3});
    CHECK(twice(x, {1, 4}, Contraction::last) == std::vector<float>{1, 1, 1.125f, -3});
    Cast1 away("e4m3fn/tensor:te_delayed:nearest_away:via=bf16");
    CHECK(away(x, {1, 4}, Contraction::last) == std::vector<float>{1.125f, 1.125f, 1.125f, -3});
    // Between two powers of two, one number in 16 is so close to a tie of e4m3fn that bf16 rounds it to the tie (one
    // ulp of bf16 in every ulp of e4m3fn). Half of those then round in the wrong direction: 1 in 32.
    std::mt19937 random(6);
    std::normal_distribution<float> normal;
    std::vector<float> many;
    for (int i = 0; i < 100'000; ++i) many.push_back(normal(random));
    Cast1 a("e4m3fn/tensor:te_delayed:via=bf16"), b("e4m3fn/tensor:te_delayed");
    const auto one = b(many, {100, 1000}, Contraction::last, true), two = a(many, {100, 1000}, Contraction::last, true);
    int different = 0;
    for (std::size_t i = 0; i < one.size(); ++i) different += one[i] != two[i] ? 1 : 0;
    CHECK(different > 2800);
    CHECK(different < 3450);
}

TEST_CASE("operands of the weight gradient have blocks along the tokens", "[experiments][recipe]") {
    // One token is a thousand times larger than the others. With blocks along tokens, its neighbours vanish in fp4.
    // With blocks along channels, they do not.
    Cast1 cast("e2m1fn/mx32");
    std::vector<float> dy(64 * 32, 1.0f);
    for (std::size_t c = 0; c < 32; ++c) dy[5 * 32 + c] = 1000;
    const auto right = cast(dy, {64, 32}, Contraction::first), wrong = cast(dy, {64, 32}, Contraction::last);
    CHECK(right[0] == 0);
    CHECK(right[31 * 32 + 7] == 0);
    CHECK(right[32 * 32] == 1);  // the next block of tokens
    CHECK(right[5 * 32] > 900);
    CHECK(wrong[0] == 1);
}

}  // namespace prepared_cast_test
