// SPDX-License-Identifier: Apache-2.0
#include "core/host/thread_pool.hpp"
#include "emulation/cpu/ops/casts/scaling.hpp"
#include "tests/test.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace scale_test {

using namespace macheps;
using namespace macheps::scale_function;

namespace {

using Rational = boost::multiprecision::cpp_rational;

float from(std::uint32_t bits) { return bit_cast<float>(bits); }
std::uint32_t bits_of(float x) { return bit_cast<std::uint32_t>(x); }
constexpr float infinity = std::numeric_limits<float>::infinity();
const float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Returns the smallest e with 2^e >= x if `up`, otherwise the largest e with 2^e <= x. x must be positive.
int log2_of(const Rational& x, bool up) {
    Rational power = 1;
    int e = 0;
    while (power > x) power /= 2, --e;
    while (power * 2 <= x) power *= 2, ++e;
    return up && power < x ? e + 1 : e;
}

int clamp_byte(int e) { return e < -127 ? 0 : e > 127 ? 254 : e + 127; }

struct Element {
    const char* name;
    float max;
    int fraction_bits;
};
constexpr Element elements[] = {
    {"e4m3fn", 448, 3}, {"e5m2", 57344, 2}, {"e3m2fn", 28, 2}, {"e2m3fn", 7.5f, 3}, {"e2m1fn", 6, 1}};

}  // namespace

TEST_CASE("block scales have the expected bytes for amaxes where the rules differ", "[emulation][scale]") {
    struct Row {
        std::uint32_t amax;
        float max;
        int fraction_bits;
        std::uint32_t floor, ceil, even, rceil, te;
    };
    // Sources: OCP MX 1.0 section 6.3; torchao mx_tensor.py; Transformer Engine ptx_arch_spec.cuh.
    constexpr Row rows[] = {
        {0x00000000, 448, 3, 0, 0, 0, 0, 0},           {0x3f800000, 448, 3, 119, 119, 119, 119, 119},
        {0x3fe00000, 448, 3, 119, 120, 119, 119, 119}, {0x3fe00001, 448, 3, 119, 120, 119, 120, 120},
        {0x3ff80000, 448, 3, 119, 120, 120, 120, 120}, {0x40ffffff, 448, 3, 121, 122, 122, 122, 122},
        {0x43e08000, 448, 3, 127, 128, 127, 128, 128}, {0x3fc00000, 6, 1, 125, 126, 125, 125, 125},
        {0x3fc00001, 6, 1, 125, 126, 125, 126, 126},   {0x3fe00000, 6, 1, 125, 126, 126, 126, 126},
        {0x7f7fffff, 448, 3, 246, 247, 255, 247, 247}, {0x7f800000, 448, 3, 255, 255, 255, 255, 254},
        {0x7fc00000, 448, 3, 255, 255, 255, 255, 255},
    };
    for (const Row& r : rows) {
        INFO(std::hex << r.amax << " for " << r.max);
        const float a = from(r.amax);
        CHECK(ao_floor(a, r.max) == r.floor);
        CHECK(ao_ceil(a, r.max) == r.ceil);
        CHECK(ao_even(a, r.max, r.fraction_bits) == r.even);
        CHECK(ao_rceil(a, r.max) == r.rceil);
        CHECK(te_mxfp8(a, r.max) == r.te);
    }
}

TEST_CASE("every scale rule has a group function, and only NVFP4 rules have a tensor function", "[emulation][scale]") {
    for (const ScaleRule& row : scale_rules) {
        CAPTURE(row.name);
        CHECK(row.group != nullptr);
        CHECK((row.tensor != nullptr) == (row.kind == ScaleKind::nvfp4));
    }
}

TEST_CASE("block scales equal the powers of two that exact arithmetic gives", "[emulation][scale]") {
    std::mt19937 random(2);
    for (const Element& e : elements) {
        int different = 0;
        for (int i = 0; i < 3000; ++i) {
            // Tests normal numbers whose quotient by the largest element is also normal.
            const float a = from((20u + random() % 200u) << 23 | (random() % 3 == 0 ? 0u : random() & 0x7fffffu));
            const int largest = log2_of(Rational(e.max), false);
            different +=
                ao_floor(a, e.max) != static_cast<std::uint32_t>(clamp_byte(log2_of(Rational(a), false) - largest));
            different +=
                ao_ceil(a, e.max) != static_cast<std::uint32_t>(clamp_byte(log2_of(Rational(a), true) - largest));
            const auto up = static_cast<std::uint32_t>(clamp_byte(log2_of(Rational(a) / Rational(e.max), true)));
            different += ao_rceil(a, e.max) != up;
            different += te_mxfp8(a, e.max) != up;
        }
        INFO(e.name);
        CHECK(different == 0);
        for (int k = -60; k <= 60; ++k) {
            // An exact quotient is not rounded up.
            CHECK(ao_rceil(std::ldexp(e.max, k), e.max) == static_cast<std::uint32_t>(127 + k));
        }
    }
}

TEST_CASE("a scale that is rounded up never clips an element, and a scale that is rounded down can clip",
          "[emulation][scale]") {
    for (const Element& e : elements) {
        const float least = std::nextafter(e.max, infinity);
        CHECK(least * e8m0_encode(ao_floor(least, e.max)) > e.max);
        CHECK(least * e8m0_encode(ao_rceil(least, e.max)) <= e.max);
    }
    CHECK(bits_of(e8m0_encode(254)) == 0x00400000);
    CHECK(bits_of(e8m0_decode(0)) == 0x00400000);
    CHECK(e8m0_encode(255) != e8m0_encode(255));
}

TEST_CASE("fp32 scale rules handle zero, overflow and non-finite maxima", "[emulation][scale]") {
    struct Row {
        const char* name;
        float got, want;
    };
    const float tiny = 0x1p-149f;
    const Row rows[] = {
        {"te_current of 0", te_current(0, 448), 1},
        {"te_current of Inf", te_current(infinity, 448), 1},
        {"te_current of NaN", te_current(not_a_number, 448), 1},
        {"te_current overflow", te_current(tiny, 448), largest_fp32},
        {"te_current overflow of a block of bf16", te_current(tiny, 448, 0, false, 0x1.fep127f), 0x1.fep127f},
        {"te_current with a power of two", te_current(3, 448, 0, true), 128},
        {"te_current overflow, then the power", te_current(tiny, 448, 0, true), 0x1p127f},
        {"te_current with eps", te_current(0, 448, 2), 224},
        {"te_delayed keeps the scale at 0", te_delayed(0, 448, 0, 7), 7},
        {"te_delayed keeps the scale at Inf", te_delayed(infinity, 448, 0, 7), 7},
        {"te_delayed keeps the scale at NaN", te_delayed(not_a_number, 448, 0, 7), 7},
        {"te_delayed with a margin", te_delayed(7, 448, 1, 1), 32},
        {"te_delayed unfused", te_delayed_unfused(7, 448, 1, 1), 32},
        {"te_delayed overflow", te_delayed(tiny, 448, 0, 1), largest_fp32},
        {"ao_fp8 of 0", ao_fp8(0, 448), static_cast<float>(448 / 1e-12)},
        {"ao_fp8 of Inf", ao_fp8(infinity, 448), 0},
        {"ao_fp8 with a power of two", ao_fp8(3, 448, true), 128},
        {"deepgemm of 0", deepgemm(0, 448), 1e-4f / 448},
        {"deepgemm with a power of two", deepgemm(3, 448, 1e-4f, true), 0x1p-7f},
        {"deepgemm at a power of two", deepgemm(3.5f, 448, 1e-4f, true), 0x1p-7f},
    };
    for (const Row& r : rows) {
        INFO(r.name);
        CHECK(bits_of(r.got) == bits_of(r.want));
    }
    CHECK(ao_fp8(not_a_number, 448) != ao_fp8(not_a_number, 448));
    CHECK(deepgemm(infinity, 448) == infinity);
    // The margin is applied before the division by amax. Here this intermediate result, 2^3 * 2^126, overflows.
    CHECK(te_delayed(0x1p-126f, 0x1p3f, -126, 1) == largest_fp32);
}

TEST_CASE("the NVFP4 scales of Transformer Engine and torchao differ in the known cases", "[emulation][scale]") {
    // The block's scale is exactly 10.5, a tie. torchao computes 10.5, and Transformer Engine the next number above it.
    const float amax = from(0x3ea14000), top = from(0x41570000);
    const auto code = [](float x) { return encode(e4m3fn, x, Round::nearest_even, Overflow::saturate); };
    CHECK(code(te_nvfp4_block(amax, te_nvfp4_tensor(top)).block) == 0x53);
    CHECK(code(ao_nvfp4_block(amax, ao_nvfp4_tensor(top)).block) == 0x52);
    CHECK(bits_of(te_nvfp4_block(6, te_nvfp4_tensor(6)).encode) == 0x3f800000);
    CHECK(bits_of(ao_nvfp4_block(6, ao_nvfp4_tensor(6)).encode) == 0x3f7fffff);
    // Tests a block of zeros in a tensor that has other numbers.
    CHECK(te_nvfp4_block(0, te_nvfp4_tensor(1)).block == 0);
    CHECK(bits_of(te_nvfp4_block(0, te_nvfp4_tensor(1)).encode) == 0x7f7fffff);
    CHECK(code(ao_nvfp4_block(0, ao_nvfp4_tensor(1)).block) == 0x08);
    CHECK(te_nvfp4_tensor(0) == 1);
    CHECK(te_nvfp4_tensor(infinity) == 1);
    // Blocks below 2^-10 / 448 of the tensor's largest element are lost.
    const float edge = 0x1p-10f / 448;
    CHECK(te_nvfp4_block(edge, te_nvfp4_tensor(1)).block == 0);
    CHECK(te_nvfp4_block(edge * 1.01f, te_nvfp4_tensor(1)).block == 0x1p-9f);
}

TEST_CASE("the factor of a product of two NVFP4 tensors comes from the product of their amaxes", "[emulation][scale]") {
    const ScaleRule &te = *find_scale_rule("te_nvfp4"), &ao = *find_scale_rule("ao_nvfp4");
    const auto tensor = [](const ScaleRule& rule, float amax) {
        return TensorScale{rule.tensor(amax).decode, amax, rule.product};
    };
    struct Case {
        std::uint32_t a, b, factor;
    };
    // The expected values are fl(fl(a b) fl(1 / 2688^2)), computed in rational arithmetic. The product of two rounded
    // reciprocals differs from this in half of all cases, including these.
    for (const Case& c : {Case{0x40c00000, 0x40c00000, 0x36a72f05}, Case{0x3f8ccccd, 0x3f8ccccd, 0x3433d0ba},
                          Case{0x3f800000, 0x40400000, 0x34dee95c}, Case{0x41fbb3e2, 0x3f0b26c1, 0x361ed7af}}) {
        const float a = from(c.a), b = from(c.b);
        CAPTURE(a, b);
        CHECK(bits_of(product_scale(tensor(te, a), tensor(te, b))) == c.factor);
        CHECK(bits_of(te.tensor(a).decode * te.tensor(b).decode) != c.factor);
    }
    // torchao multiplies the scales of the two operands. If the operands have different rules, their scales are also
    // multiplied.
    CHECK(product_scale(tensor(ao, 6), tensor(ao, 5)) == (6.0f / 2688) * (5.0f / 2688));
    CHECK(product_scale(tensor(te, 6), tensor(ao, 5)) == te.tensor(6).decode * (5.0f / 2688));
    CHECK(product_scale(tensor(te, 0), tensor(te, 5)) == 0);
    // A scaled cast returns the scale and the amax of the tensor.
    const std::uint32_t largest[] = {bits_of(3), bits_of(5.5f)};
    float encode[2], decode[2];
    const ScaledCast how{.cast = {.format = e2m1fn}, .granularity = find_granularity("nvfp4"), .rule = &te};
    CHECK(group_scales(how, largest, encode, decode).tensor == tensor(te, 5.5f));
}

namespace {

struct Kind {
    Format format;
    const Granularity* granularity;
    const ScaleRule* rule;
};

/// Returns every pair of a granularity and a rule that fits it, with each element format for which the pair is used.
std::vector<Kind> all_kinds() {
    std::vector<Kind> kinds;
    for (const Granularity& granularity : granularities) {
        for (const ScaleRule& rule : scale_rules) {
            if (!granularity.is_scaled() || !fits(rule, granularity)) continue;
            kinds.push_back({granularity.kind == ScaleKind::nvfp4 ? e2m1fn : e4m3fn, &granularity, &rule});
            if (granularity.kind == ScaleKind::e8m0) kinds.push_back({e2m1fn, &granularity, &rule});
            if (&rule == usual_rule(granularity) && granularity.kind == ScaleKind::fp32) {
                kinds.push_back({e5m2, &granularity, &rule});
            }
        }
    }
    return kinds;
}

}  // namespace

TEST_CASE("every scale rule gives a scale of its declared kind and names its source", "[emulation][scale]") {
    for (const ScaleRule& rule : scale_rules) {
        CAPTURE(rule.name);
        CHECK_FALSE(rule.source.empty());
        CHECK_FALSE(rule.summary.empty());
        CHECK(find_scale_rule(rule.name) == &rule);
        const Format element = rule.kind == ScaleKind::nvfp4 ? e2m1fn : e4m3fn;
        const auto tensor = rule.tensor != nullptr ? rule.tensor(3.0f) : definition::GroupScale{};
        const auto scale = definition::group_scale(element, rule, 3.0f, tensor);
        // The decode scale is a number of the format in which scales are stored. The encode scale is its reciprocal,
        // except for rounding.
        CHECK(quantize(scale_format(rule.kind), scale.decode, Round::nearest_even, Overflow::saturate) == scale.decode);
        CHECK(std::abs(double{scale.encode} * scale.decode * tensor.decode - 1) <= 4 * fp32.unit_roundoff());
        // ao_floor and ao_even let the largest elements of a block saturate. Other rules never scale the amax beyond
        // the format's range.
        const double largest = decode64(element, element.max_finite_code());
        const double most = rule.name == "ao_floor" || rule.name == "ao_even" ? 2 : 1;
        const double u = (rule.kind == ScaleKind::nvfp4 ? e4m3fn : fp32).unit_roundoff();
        CHECK(3.0 * scale.encode <= most * largest * (1 + u));
    }
    for (const Granularity& granularity : granularities) {
        CAPTURE(granularity.name);
        CHECK_FALSE(granularity.source.empty());
        CHECK_FALSE(granularity.summary.empty());
        CHECK(find_granularity(granularity.name) == &granularity);
        CHECK(usual_rule(granularity)->name == granularity.usual_rule);
    }
    CHECK(find_scale_rule("te_mxfp9") == nullptr);
    CHECK(find_granularity("mx33") == nullptr);
}

TEST_CASE("scaled_cast converts every element as the definition of its group says", "[emulation][scale]") {
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    struct Size {
        std::int64_t rows, columns;
    };
    for (const Kind& kind : all_kinds()) {
        for (const Size size : {Size{1, 1}, {33, 130}, {160, 47}, {257, 256}}) {
            // Tests the usual rule of a granularity on all sizes, and the other rules only on the small sizes, which
            // have every kind of edge.
            if (kind.rule != usual_rule(*kind.granularity) && size.rows > 100) continue;
            for (const bool k_is_last : {true, false}) {
                std::vector<float> x;
                for (std::int64_t i = 0; i < size.rows * size.columns; ++i) {
                    x.push_back(normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 20) - 10));
                }
                if (x.size() > 100) x[7] = not_a_number, x[40] = infinity, x[41] = -0.0f;
                const ScaledCast how{.cast = {.format = kind.format, .overflow = Overflow::saturate},
                                     .granularity = kind.granularity,
                                     .rule = kind.rule,
                                     .k_is_last = k_is_last};
                const ScaleGrid grid = scale_grid(*kind.granularity, k_is_last, size.rows, size.columns);
                std::vector<float> out(x.size()), scales(static_cast<std::size_t>(grid.rows * grid.columns));
                ThreadPool one(1), two(2);
                Tally tally;
                const ScaledResult r = scaled_cast(Simd::scalar, one, x.data(), out.data(), scales.data(), size.rows,
                                                   size.columns, how, &tally);
                CHECK(tally.count == x.size());

                // Every element is computed separately. Its group is the set of elements that use the same scale.
                const Granularity& block = *kind.granularity;
                const auto place = [&](std::int64_t i) {
                    const std::int64_t row = i / size.columns, column = i % size.columns;
                    const std::int64_t outer = k_is_last ? row : column, k = k_is_last ? column : row;
                    return std::pair(block.outer == 0 ? 0 : outer / block.outer, block.k == 0 ? 0 : k / block.k);
                };
                std::map<std::pair<std::int64_t, std::int64_t>, float> amax;
                float all = 0;
                for (std::int64_t i = 0; i < size.rows * size.columns; ++i) {
                    float& a = amax[place(i)];
                    a = definition::join_amax(*kind.rule, a, x[static_cast<std::size_t>(i)]);
                }
                for (const auto& [at, a] : amax) all = definition::join_amax(*kind.rule, all, a);
                const auto tensor = kind.rule->tensor != nullptr ? kind.rule->tensor(all) : definition::GroupScale{};
                int different = 0;
                for (std::int64_t i = 0; i < size.rows * size.columns; ++i) {
                    const auto scale = definition::group_scale(kind.format, *kind.rule, amax[place(i)], tensor);
                    const float z = definition::canonical(x[static_cast<std::size_t>(i)] * scale.encode);
                    const float want = quantize(kind.format, z, Round::nearest_even, Overflow::saturate);
                    different += bits_of(want) != bits_of(out[static_cast<std::size_t>(i)]);
                    const std::int64_t row = i / size.columns, column = i % size.columns;
                    const float decode = r.scales.at(k_is_last ? row : column, k_is_last ? column : row);
                    different += bits_of(decode) != bits_of(scale.decode) && decode == decode;
                }
                INFO(kind.granularity->name << ":" << kind.rule->name << ", " << size.rows << " x " << size.columns);
                CHECK(different == 0);

                for (const Simd level : available_simd()) {
                    std::vector<float> again(x.size()), scales2(scales.size());
                    Tally tally2;
                    scaled_cast(level, two, x.data(), again.data(), scales2.data(), size.rows, size.columns, how,
                                &tally2);
                    CHECK(std::memcmp(again.data(), out.data(), out.size() * sizeof(float)) == 0);
                    CHECK(std::memcmp(scales2.data(), scales.data(), scales.size() * sizeof(float)) == 0);
                    CHECK(tally2 == tally);
                }
            }
        }
    }
}

}  // namespace scale_test
