// SPDX-License-Identifier: Apache-2.0
#include "emulation/cpu/ops/casts/cast.hpp"

#include "core/error.hpp"
#include "core/format_table.hpp"
#include "emulation/cpu/ops/casts/codes.hpp"
#include "emulation/definitions.hpp"
#include "tests/gpu/host_backend.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

namespace cast_test {

using namespace macheps;

namespace {

constexpr Round all_rounds[] = {Round::nearest_even, Round::nearest_away, Round::toward_zero, Round::up,
                                Round::down,         Round::stochastic,   Round::to_odd};
constexpr Overflow both_overflows[] = {Overflow::nonsaturate, Overflow::saturate};

std::vector<Simd> vector_simd() {
    std::vector<Simd> levels = available_simd();
    levels.erase(levels.begin());
    return levels;
}

float from_bits(std::uint32_t u) { return bit_cast<float>(u); }

/// Appends `x` and the floats up to two ulps away from it, with both signs.
void add_around(std::vector<float>& out, float x) {
    const auto u = bit_cast<std::uint32_t>(x);
    for (int step = -2; step <= 2; ++step) {
        const std::uint32_t v = u + static_cast<std::uint32_t>(step);
        out.push_back(from_bits(v & 0x7fffffffu));
        out.push_back(from_bits(v | 0x80000000u));
    }
}

/// Returns numbers for which a cast to `f` could go wrong: the ends of every binade, the format's numbers and the ties
/// between them (all of them for narrow formats), the ends of the range, special numbers and random bit patterns.
std::vector<float> hard_operands(Format f, float scale) {
    std::vector<float> z;
    for (std::uint32_t field = 0; field < 256; ++field) add_around(z, from_bits(field << 23));
    if (f.bits <= 19) {
        const std::uint64_t step = f.bits <= 8 ? 1 : std::uint64_t{1} << (f.bits - 8);
        std::vector<std::uint64_t> codes;
        for (std::uint64_t c = 0; c <= f.max_finite_code(); c += step) {
            for (std::uint64_t near = c; near < std::min(c + 3, f.max_finite_code()); ++near) codes.push_back(near);
        }
        for (int back = 3; back >= 0; --back) codes.push_back(f.max_finite_code() - static_cast<std::uint64_t>(back));
        for (const std::uint64_t code : codes) {
            const double low = decode64(f, code << f.padding), high = decode64(f, (code + 1) << f.padding);
            add_around(z, static_cast<float>(low));
            if (high - high == 0) add_around(z, static_cast<float>(low + (high - low) / 2));
            if (high - high == 0) add_around(z, static_cast<float>(low + (high - low) / 4));
        }
        const double top = decode64(f, f.max_finite_code() << f.padding);
        for (const double factor : {1.01, 1.0356, 1.0625, 1.1, 1.125, 1.5, 2.0, 4.0})
            add_around(z, static_cast<float>(top * factor));
    }
    std::vector<float> x;
    for (const float v : z) x.push_back(scale == 1 ? v : v / scale);
    for (const std::uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0x7f801fffu, 0x7fa00000u}) {
        x.push_back(from_bits(nan));
        x.push_back(from_bits(nan | 0x80000000u));
    }
    add_around(x, std::numeric_limits<float>::max());
    add_around(x, 0.0f);
    for (std::uint64_t i = 0; i < 2000; ++i) x.push_back(from_bits(random_bits({.seed = 7}, i)));
    for (std::uint64_t i = 0; i < 2000; ++i) {  // exponents near the format's range
        const auto r = random_bits({.seed = 8}, i);
        const int spread = static_cast<int>(r >> 23 & 31) - 20;
        const auto field = static_cast<std::uint32_t>(std::clamp(127 + spread, 1, 254));
        x.push_back(from_bits((r & 0x807fffffu) | field << 23) / scale);
    }
    return x;
}

/// Returns a description of the first ten elements whose bits differ, or an empty string if none differ.
std::string differences(const std::vector<float>& in, const std::vector<float>& expected, const float* actual) {
    std::string text;
    int shown = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto want = bit_cast<std::uint32_t>(expected[i]), got = bit_cast<std::uint32_t>(actual[i]);
        if (want == got) continue;
        if (++shown > 10) continue;
        char line[120];
        std::snprintf(line, sizeof line, "\n  [%zu] %08x (%g): expected %08x (%g), got %08x (%g)", i,
                      bit_cast<std::uint32_t>(in[i]), double{in[i]}, want, double{expected[i]}, got, double{actual[i]});
        text += line;
    }
    if (shown > 10) text += "\n  and " + std::to_string(shown - 10) + " more";
    return text;
}

std::string tally_text(const Tally& t) {
    char text[300];
    std::snprintf(
        text, sizeof text,
        "count %llu nan %llu inf %llu zero %llu underflow %llu subnormal %llu overflow %llu saturated %llu amax %a "
        "amin %a",
        static_cast<unsigned long long>(t.count), static_cast<unsigned long long>(t.nan_in),
        static_cast<unsigned long long>(t.inf_in), static_cast<unsigned long long>(t.zero_in),
        static_cast<unsigned long long>(t.underflow), static_cast<unsigned long long>(t.to_subnormal),
        static_cast<unsigned long long>(t.overflow), static_cast<unsigned long long>(t.saturated), double{t.amax},
        double{t.amin_nz});
    return text;
}

std::vector<float> defined(const std::vector<float>& x, const Cast& cast, Tally& tally, std::uint64_t first = 0) {
    std::vector<float> out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
        out[i] = definition::cast_element(cast, x[i], first + i);
        tally.add(cast.format, x[i], x[i] * cast.encode_scale, out[i]);
    }
    return out;
}

}  // namespace

TEST_CASE("casts on every instruction set and as a GPU kernel agree with the definition in every format and mode",
          "[emulation][cast]") {
    ThreadPool one(1);
    const auto device = test::host_device_backend(gpu::MatrixUnits::native, 90, false);
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        for (const float scale : {1.0f, 0.125f, 0.3f, 1000.0f, -1.5f}) {
            const std::vector<float> x = hard_operands(format, scale);
            std::vector<float> out(x.size());
            const Tensor in = device->empty({static_cast<std::int64_t>(x.size())});
            for (const Round round : all_rounds) {
                for (const Overflow overflow : both_overflows) {
                    const Cast cast{.format = format,
                                    .round = round,
                                    .overflow = overflow,
                                    .encode_scale = scale,
                                    .key = {.seed = 0x123456789abcdefull, .step = 3, .site = 0x9e3779b9u}};
                    Tally wanted;
                    const std::vector<float> expected = defined(x, cast, wanted);
                    Tally kernel_tally;
                    device->upload(x, in);
                    device->cast(in, in, cast, &kernel_tally);
                    device->download(in, out);
                    {
                        INFO(name << " round " << int(round) << " overflow " << int(overflow) << " scale " << scale
                                  << " as a kernel");
                        const std::string kernel = differences(x, expected, out.data());
                        if (!kernel.empty() || !(kernel_tally == wanted)) {
                            CHECK(kernel == "");
                            CHECK(tally_text(kernel_tally) == tally_text(wanted));
                        }
                    }
                    for (const Simd simd : vector_simd()) {
                        INFO(name << " round " << int(round) << " overflow " << int(overflow) << " scale " << scale
                                  << " " << simd_name(simd));
                        const auto n = static_cast<std::int64_t>(x.size());
                        cast_array(simd, one, x.data(), out.data(), n, cast, nullptr);
                        const std::string plain = differences(x, expected, out.data());
                        Tally tally;
                        cast_array(simd, one, x.data(), out.data(), n, cast, &tally);
                        const std::string counted = differences(x, expected, out.data());
                        if (!plain.empty() || !counted.empty() || !(tally == wanted)) {
                            CHECK(plain == "");
                            CHECK(counted == "");
                            CHECK(tally_text(tally) == tally_text(wanted));
                        }
                    }
                }
            }
        }
    }
    SUCCEED();
}

TEST_CASE("the vector kernels support every format that fits in fp32", "[emulation][cast]") {
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        CAPTURE(name);
        CHECK((CastPlan({.format = format}).path != CastPlan::Path::scalar) == (format.bits <= 32));
    }
    // For some of these custom formats, the vector kernels fall back to the scalar definition, because their exponent
    // range is neither small nor equal to the range of fp32. All results must be right.
    ThreadPool one(1);
    for (const Format format : {Format{.bits = 10, .precision = 3, .exponent_bias = 120},
                                Format{.bits = 12, .precision = 7, .exponent_bias = 15},
                                Format{.bits = 16, .precision = 12, .exponent_bias = 7, .specials = Specials::nan_only},
                                Format{.bits = 16, .precision = 8, .exponent_bias = 127, .specials = Specials::none},
                                Format{.bits = 29, .precision = 23, .exponent_bias = 31},
                                Format{.bits = 14, .precision = 8, .exponent_bias = 127}}) {
        CAPTURE(format.bits, format.precision, format.exponent_bias);
        const std::vector<float> x = hard_operands(format, 1);
        for (const Round round : all_rounds) {
            const Cast cast{.format = format, .round = round, .key = {.seed = 4}};
            Tally wanted;
            const std::vector<float> expected = defined(x, cast, wanted);
            for (const Simd simd : vector_simd()) {
                std::vector<float> out(x.size());
                Tally tally;
                cast_array(simd, one, x.data(), out.data(), static_cast<std::int64_t>(x.size()), cast, &tally);
                CHECK(differences(x, expected, out.data()) == "");
                CHECK(tally_text(tally) == tally_text(wanted));
            }
        }
    }
}

TEST_CASE("casts with a zero, infinite or NaN scale agree with the definition", "[emulation][cast]") {
    ThreadPool one(1);
    const std::vector<float> x = hard_operands(e4m3fn, 1);
    for (const float scale : {0.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        const Cast cast{.format = e4m3fn, .encode_scale = scale};
        Tally wanted;
        const std::vector<float> expected = defined(x, cast, wanted);
        for (const Simd simd : vector_simd()) {
            std::vector<float> out(x.size());
            Tally tally;
            cast_array(simd, one, x.data(), out.data(), static_cast<std::int64_t>(x.size()), cast, &tally);
            CHECK(differences(x, expected, out.data()) == "");
            CHECK(tally_text(tally) == tally_text(wanted));
        }
    }
}

TEST_CASE("the result of a cast does not depend on array length, alignment, threads or position", "[emulation][cast]") {
    const std::vector<float> hard = hard_operands(e4m3fn, 1);
    ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
    for (const std::int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 65, 1023, 1024, 1025, 100003}) {
        std::vector<float> x(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = hard[(i * 7919 + x.size()) % hard.size()];
        for (const Round round : {Round::nearest_even, Round::stochastic, Round::up}) {
            for (const int bits : {32, 8, 1}) {
                if (round != Round::stochastic && bits != 32) continue;
                const Format format = n % 2 == 0 ? e4m3fn : bf16;
                const Cast cast{.format = format,
                                .round = round,
                                .encode_scale = 0.75f,
                                .key = {.seed = 5, .site = 6},
                                .random_bits = bits};
                for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 34) - 2}) {
                    if (n > 2000 && (first == 0 || bits < 32)) continue;  // the definition is slow
                    Tally wanted;
                    const std::vector<float> expected = defined(x, cast, wanted, first);
                    for (const Simd simd : available_simd()) {
                        for (ThreadPool& pool : pools) {
                            CAPTURE(n, int(round), bits, first, simd_name(simd), pool.threads());
                            std::vector<float> out(x.size() + 3, 77.0f);
                            Tally tally;
                            cast_array(simd, pool, x.data(), out.data() + 1, n, cast, &tally,
                                       static_cast<std::int64_t>(first));
                            const std::string apart = differences(x, expected, out.data() + 1);
                            const bool kept_off = out[0] == 77.0f && out[x.size() + 1] == 77.0f;
                            std::vector<float> place = x;
                            cast_array(simd, pool, place.data(), place.data(), n, cast, nullptr,
                                       static_cast<std::int64_t>(first));
                            const std::string in_place = differences(x, expected, place.data());
                            std::vector<float> range(x.size());
                            cast_range(simd, x.data(), range.data(), n, cast, nullptr, first);
                            const std::string serial = differences(x, expected, range.data());
                            if (apart.empty() && in_place.empty() && serial.empty() && kept_off && tally == wanted)
                                continue;
                            CHECK(apart == "");
                            CHECK(in_place == "");
                            CHECK(serial == "");
                            CHECK(kept_off);
                            CHECK(tally_text(tally) == tally_text(wanted));
                        }
                    }
                }
            }
        }
    }
    SUCCEED();
}

TEST_CASE("casting an array to codes agrees with encode, and decoding an array agrees with decode",
          "[emulation][cast][codes]") {
    ThreadPool pool(2);
    for (const auto& [name, format, summary, source, aliases] : all_formats) {
        if (format.bits > 32) continue;
        const std::vector<float> x = hard_operands(format, 1);
        const auto n = static_cast<std::int64_t>(x.size());
        for (const Round round : {Round::nearest_even, Round::stochastic}) {
            for (const Overflow overflow : both_overflows) {
                const Cast cast{
                    .format = format, .round = round, .overflow = overflow, .encode_scale = 0.75f, .key = {.seed = 4}};
                for (const Simd simd : available_simd()) {
                    Tally tally, wanted;
                    defined(x, cast, wanted);
                    std::vector<std::uint32_t> codes(x.size());
                    encode_array(simd, pool, x.data(), codes.data(), n, cast, &tally);
                    std::size_t wrong = 0;
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        const float z = definition::canonical(x[i] * 0.75f);
                        const RandomBits random{random_bits(cast.key, i), 32};
                        const std::uint32_t want = encode(format, z, round, overflow, random);
                        if (codes[i] != want && ++wrong <= 3) {
                            UNSCOPED_INFO("x " << std::hex << bit_cast<std::uint32_t>(x[i]) << ": expected " << want
                                               << ", got " << codes[i]);
                        }
                    }
                    CAPTURE(name, int(round), int(overflow), simd_name(simd));
                    CHECK(wrong == 0);
                    CHECK(tally == wanted);
                }
            }
        }
        // Decodes every code of a format of up to 16 bits, or random codes of a wider format. Also decodes the codes
        // from 16-bit and 8-bit integers if the format fits in them.
        std::vector<std::uint32_t> codes(1 << 16);
        for (std::size_t i = 0; i < codes.size(); ++i) {
            codes[i] = format.container_bits() <= 16 ? static_cast<std::uint32_t>(i) : random_bits({.seed = 3}, i);
        }
        std::vector<float> values(codes.size()), expected(codes.size());
        const std::vector<std::uint16_t> narrow(codes.begin(), codes.end());
        const std::vector<std::uint8_t> narrowest(codes.begin(), codes.end());
        for (std::size_t i = 0; i < codes.size(); ++i) expected[i] = decode(format, codes[i]);
        for (const Simd simd : available_simd()) {
            CAPTURE(name, simd_name(simd));
            const auto decodes = [&, f = format](const auto& from, std::int64_t count) {
                std::fill(values.begin(), values.end(), 77.0f);
                decode_array(simd, pool, f, from.data(), values.data(), count);
                return std::memcmp(values.data(), expected.data(), 4 * static_cast<std::size_t>(count)) == 0 &&
                       std::all_of(values.begin() + count, values.end(), [](float x) { return x == 77.0f; });
            };
            const auto all = static_cast<std::int64_t>(codes.size());
            for (const std::int64_t count : {all, all - 5, std::int64_t{100}, std::int64_t{7}}) {
                CHECK(decodes(codes, count));  // 100 codes are too few for a lookup table
                if (format.container_bits() <= 16) CHECK(decodes(narrow, count));
                if (format.container_bits() <= 8) CHECK(decodes(narrowest, count));
            }
            if (format.container_bits() > 8) continue;
            for (const Overflow overflow : both_overflows) {
                for (const float scale : {1.0f, 0.3f}) {
                    std::vector<std::uint8_t> bytes(x.size() + 1, 7);
                    std::vector<std::uint32_t> words(x.size());
                    const Cast cast{.format = format, .overflow = overflow, .encode_scale = scale};
                    encode_array(Simd::scalar, pool, x.data(), words.data(), n, cast);
                    encode_array(simd, pool, x.data(), bytes.data(), n, cast);
                    std::size_t wrong = 0;
                    for (std::size_t i = 0; i < words.size(); ++i) {
                        if (bytes[i] != words[i] && ++wrong <= 3) {
                            UNSCOPED_INFO("x " << std::hex << bit_cast<std::uint32_t>(x[i]) << ": expected " << words[i]
                                               << ", got " << int(bytes[i]));
                        }
                    }
                    CAPTURE(int(overflow), scale);
                    CHECK(wrong == 0);
                    CHECK(bytes.back() == 7);
                }
            }
        }
    }
    std::uint8_t small = 0;
    float one = 1;
    CHECK_THROWS_AS(encode_array(Simd::scalar, pool, &one, &small, 1, {.format = bf16}), Error);
    CHECK_THROWS_AS(decode_array(Simd::scalar, pool, tf32, &small, &one, 1), Error);
}

TEST_CASE("casts that bypass the caches give the same results", "[emulation][cast]") {
    const std::int64_t n = 5000;
    alignas(64) static float out[5000];
    for (const Format format : {fp16, bf16, e4m3fnuz, e8m0fnu}) {
        const std::vector<float> hard = hard_operands(format, 1);
        std::vector<float> x(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = hard[i % hard.size()];
        for (const Round round : {Round::nearest_even, Round::stochastic}) {
            const Cast cast{.format = format, .round = round, .key = {.seed = 4}};
            Tally wanted;
            const std::vector<float> expected = defined(x, cast, wanted);
            for (const Simd simd : vector_simd()) {
                for (const Traffic traffic : {Traffic::cached, Traffic::prefetched, Traffic::streamed}) {
                    CAPTURE(format_name(format), int(round), simd_name(simd), int(traffic));
                    Tally tally;
                    Caster(simd, cast).run(x.data(), out, n, &tally, 0, traffic);
                    CHECK(differences(x, expected, out) == "");
                    CHECK(tally == wanted);
                    std::memset(out, 0, sizeof out);
                    Caster(simd, cast).run(x.data(), out, n, nullptr, 0, traffic);
                    CHECK(differences(x, expected, out) == "");
                }
            }
        }
    }
}

TEST_CASE("a cast with fewer than 0 or more than 32 random bits is refused", "[emulation][cast]") {
    ThreadPool one(1);
    float x = 1;
    CHECK_THROWS_AS(cast_array(Simd::scalar, one, &x, &x, 1, {.format = bf16, .random_bits = -1}, nullptr), Error);
    CHECK_THROWS_AS(cast_array(Simd::scalar, one, &x, &x, 1, {.format = bf16, .random_bits = 33}, nullptr), Error);
}

namespace {

/// Casts every fp32 number to `format` on every instruction set. Returns how many blocks of 2^16 numbers contain a
/// result that differs from the definition. The format is a template argument, so that the compiler can specialise the
/// definition.
template <Format format, Round round>
std::int64_t wrong_stretches(ThreadPool& pool) {
    constexpr std::int64_t stretch = 1 << 16;
    const Cast cast{.format = format, .round = round};
    std::atomic<std::int64_t> wrong = 0;
    pool.run((std::int64_t{1} << 32) / stretch, [&](std::int64_t s) {
        std::vector<float> x(stretch), out(stretch), expected(stretch);
        for (std::size_t i = 0; i < x.size(); ++i) {
            x[i] = from_bits(static_cast<std::uint32_t>(s * stretch) + static_cast<std::uint32_t>(i));
            expected[i] = quantize(format, x[i], round, Overflow::nonsaturate);
        }
        for (const Simd simd : vector_simd()) {
            cast_range(simd, x.data(), out.data(), stretch, cast, nullptr, 0);
            if (std::memcmp(out.data(), expected.data(), stretch * sizeof(float)) != 0) ++wrong;
        }
    });
    return wrong;
}

template <Format format>
void check_every_number() {
    ThreadPool pool(available_threads());
    CAPTURE(format_name(format));
    CHECK(wrong_stretches<format, Round::nearest_even>(pool) == 0);
    CHECK(wrong_stretches<format, Round::toward_zero>(pool) == 0);
}

}  // namespace

TEST_CASE("every fp32 number is cast as the definition says, to nearest even and toward zero",
          "[emulation][cast][slow]") {
    check_every_number<bf16>();
    check_every_number<fp16>();
    check_every_number<tf32>();
    check_every_number<e4m3fn>();
    check_every_number<e5m2>();
    check_every_number<e4m3fnuz>();
    check_every_number<e5m2fnuz>();
    check_every_number<e2m3fn>();
    check_every_number<e3m2fn>();
    check_every_number<e2m1fn>();
    check_every_number<e8m0fnu>();
}

}  // namespace cast_test
