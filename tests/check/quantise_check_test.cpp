// SPDX-License-Identifier: Apache-2.0
// Tests checks of casts and quantisers. Codes and scales must have the exact bits, for every rule. Stochastic rounding
// must return one of the two neighbours of a number, each with the right frequency.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "emulation/scaling/rules.hpp"
#include "tests/check/row_kernels.hpp"

namespace quantise_check_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using check::Outcome;

namespace {

StoredArray codes_array(const std::string& name, std::vector<std::int64_t> shape, const Format& format,
                        const std::vector<std::uint64_t>& codes_of) {
    const std::size_t bits = static_cast<std::size_t>(format.bits + format.padding), width = (bits + 7) / 8;
    StoredArray out{.name = name, .where = "test", .type = "|u1", .width = width, .shape = std::move(shape)};
    for (const std::uint64_t code : codes_of) {
        for (std::size_t i = 0; i < width; ++i) out.bytes += static_cast<char>(code >> (8 * i));
    }
    return out;
}

StoredArray quantised_array(const std::string& name, std::vector<std::int64_t> shape, const Format& format,
                            const std::vector<float>& values) {
    std::vector<std::uint64_t> all;
    for (const float x : values) all.push_back(encode64(format, x, Round::nearest_even, Overflow::saturate));
    return codes_array(name, std::move(shape), format, all);
}

/// Returns the largest power of two that is at most x > 0.
float floor_power(float x) { return std::exp2(std::floor(std::log2(x))); }

/// A quantiser of a library, with scales that are computed independently of macheps.
struct Library {
    const char *granularity, *rule;
    Format element;
    std::int64_t group;  ///< columns that share a scale; 0: the whole tensor
    Format scale;
    float (*encode)(float amax);
    float (*decode)(float encode);
};
const Library libraries[] = {
    {"tensor", "ao_fp8", e4m3fn, 0, fp32,
     [](float amax) { return static_cast<float>(448.0 / std::max(static_cast<double>(amax), 1e-12)); },
     [](float s) { return 1 / s; }},
    {"tensor", "te_current", e5m2, 0, fp32, [](float amax) { return amax > 0 ? 57344 / amax : 1; },
     [](float s) { return 1 / s; }},
    {"1x128", "deepgemm", e4m3fn, 128, fp32, [](float amax) { return 1 / (std::max(amax, 1e-4f) / 448); }, nullptr},
    {"1x128", "te_block", e4m3fn, 128, fp32, [](float amax) { return amax > 0 ? floor_power(448 / amax) : 1; },
     [](float s) { return 1 / s; }},
    {"mx32", "ao_floor", e4m3fn, 32, e8m0fnu,
     [](float amax) { return amax > 0 ? std::exp2(-(std::floor(std::log2(amax)) - 8)) : std::exp2(127.0f); },
     [](float s) { return 1 / s; }},
    {"mx32", "ao_floor", e2m1fn, 32, e8m0fnu,
     [](float amax) { return amax > 0 ? std::exp2(-(std::floor(std::log2(amax)) - 2)) : std::exp2(127.0f); },
     [](float s) { return 1 / s; }},
};

struct Quantised {
    check::Declaration declaration;
    std::vector<StoredArray> arrays{};  ///< x, out, and scale if the library has a decode scale
};

Quantised quantised(const Library& library, const Floats& x, std::int64_t rows, std::int64_t columns,
                    Round mode = Round::nearest_even) {
    Quantised q{.declaration = declare("quantize", Store::fp32)};
    q.declaration.granularity = library.granularity;
    q.declaration.scale_rule = library.rule;
    q.declaration.formats["out"] = {library.element, false};
    q.declaration.formats["scale"] = {library.scale, false};
    const std::int64_t group = library.group == 0 ? rows * columns : library.group;
    std::vector<float> scales, out;
    for (std::int64_t begin = 0; begin < rows * columns;) {
        const std::int64_t row_end = library.group == 0 ? rows * columns : (begin / columns + 1) * columns,
                           end = std::min(begin + group, row_end);
        float amax = 0;
        for (std::int64_t i = begin; i < end; ++i) amax = std::max(amax, std::fabs(x[static_cast<std::size_t>(i)]));
        const float scale = library.encode(amax);
        if (library.decode != nullptr) scales.push_back(library.decode(scale));
        for (std::int64_t i = begin; i < end; ++i) out.push_back(x[static_cast<std::size_t>(i)] * scale);
        begin = end;
    }
    std::vector<std::uint64_t> all;
    for (const float y : out) all.push_back(encode64(library.element, y, mode, Overflow::saturate));
    q.arrays = {array("x", {rows, columns}, x), codes_array("out", {rows, columns}, library.element, all)};
    if (!scales.empty())
        q.arrays.push_back(quantised_array("scale", {static_cast<std::int64_t>(scales.size())}, library.scale, scales));
    return q;
}

/// Returns stochastically rounded codes. `more` is added to the probability of the neighbour farther from zero.
std::vector<std::uint64_t> by_chance(const Format& format, const Floats& x, std::mt19937& random, double more) {
    std::vector<std::uint64_t> all;
    for (const float one : x) {
        const auto to = [&](Round mode) { return encode64(format, one, mode, Overflow::nonsaturate); };
        const std::uint64_t inward = to(Round::toward_zero), outward = to(one > 0 ? Round::up : Round::down);
        const double low = decode64(format, inward), high = decode64(format, outward),
                     part = low == high ? 0 : (static_cast<double>(one) - low) / (high - low);
        const double draw = std::uniform_real_distribution<double>(0, 1)(random);
        all.push_back(draw < part + (part > 0 ? more : 0) ? outward : inward);
    }
    return all;
}

}  // namespace

TEST_CASE("the quantisers of known libraries pass, and a quantiser fails if a single bit of a code or scale differs",
          "[check]") {
    std::mt19937 random(58);
    for (const Library& library : libraries) {
        const Floats x = normal(24 * 300, random, 0, 3);
        Quantised q = quantised(library, x, 24, 300);
        CAPTURE(library.granularity, library.rule, format_name(library.element));
        const check::Verdict v = judge_arrays(q.declaration, q.arrays);
        CAPTURE(codes(v));
        CHECK(is_accepted(v));
        CHECK(v.judgement.exact_outputs == 24 * 300);
        q.arrays[1].bytes[4321] = static_cast<char>(q.arrays[1].bytes[4321] ^ 1);
        const check::Verdict code = judge_arrays(q.declaration, q.arrays);
        REQUIRE(code.outcome == Outcome::fail);
        CHECK(code.reasons.front().code == "KC041");
        CHECK(code.reasons.front().index == 4321);
        q.arrays[1].bytes[4321] = static_cast<char>(q.arrays[1].bytes[4321] ^ 1);
        if (q.arrays.size() < 3) continue;
        q.arrays[2].bytes[0] = static_cast<char>(q.arrays[2].bytes[0] ^ 1);
        const check::Verdict scale = judge_arrays(q.declaration, q.arrays);
        REQUIRE(scale.outcome == Outcome::fail);
        CHECK(codes(scale).find("KC042") != std::string::npos);
        CHECK(scale.reasons.front().text.find("scale differs from what its rule computes") != std::string::npos);
    }
}

TEST_CASE("quantisers are judged for every granularity with every scale rule that supports it", "[check]") {
    std::mt19937 random(59);
    const Floats x = normal(20 * 130, random);
    for (const Granularity& granularity : granularities) {
        for (const ScaleRule& rule : scale_rules) {
            if (!granularity.is_scaled() || !fits(rule, granularity)) continue;
            if (rule.has_history()) continue;  // the scale of the first tensor is always 1
            check::Declaration d = declare("quantize", Store::fp32);
            const Format element = granularity.kind == ScaleKind::nvfp4 ? e2m1fn : e4m3fn;
            d.formats["out"] = {element, false};
            d.granularity = granularity.name;
            d.scale_rule = rule.name;
            const std::vector<StoredArray> zeros{
                array("x", {20, 130}, x), codes_array("out", {20, 130}, element, std::vector<std::uint64_t>(2600))};
            CAPTURE(granularity.name, rule.name);
            const check::Verdict v = judge_arrays(d, zeros);
            CHECK(v.outcome == Outcome::fail);
            CHECK(v.limits->declined < 0);
            // The scales bring the largest result near the maximum of the format.
            const double most = *std::max_element(v.limits->exact.begin(), v.limits->exact.end());
            CHECK(most > (granularity.kind == ScaleKind::nvfp4 ? 2 : 100));
        }
    }
}

TEST_CASE("casts are judged by their bits, including the signs of zeros", "[check]") {
    std::mt19937 random(60);
    Floats x = normal(4000, random, 0, 1e-6f);
    const Floats large = normal(4000, random, 0, 1e5f);
    x.insert(x.end(), large.begin(), large.end());
    x.insert(x.end(), {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 65519.9f, 65520.0f, -65536.0f});
    const auto n = static_cast<std::int64_t>(x.size());
    struct Way {
        Round mode;
        Overflow overflow;
        bool flushes;
    };
    for (const Way way :
         {Way{Round::nearest_even, Overflow::nonsaturate, false}, Way{Round::nearest_even, Overflow::saturate, false},
          Way{Round::toward_zero, Overflow::nonsaturate, false}, Way{Round::nearest_away, Overflow::saturate, true},
          Way{Round::up, Overflow::nonsaturate, false}, Way{Round::down, Overflow::nonsaturate, false},
          Way{Round::up, Overflow::saturate, false}, Way{Round::to_odd, Overflow::nonsaturate, false}}) {
        // e3m2fn has no NaN, so any code that a kernel stores for a NaN is right.
        for (const Format& format : {fp16, bf16, e4m3fn, e5m2, e3m2fn}) {
            std::vector<std::uint64_t> all;
            for (const float one : x) {
                std::uint64_t code = encode64(format, one, way.mode, way.overflow);
                const double y = decode64(format, code);
                if (way.flushes && std::fabs(y) < Format::power_of_two(format.emin())) code &= format.sign_bit();
                all.push_back(code);
            }
            check::Declaration d = declare("cast", Store::fp32);
            d.formats["out"] = {format, false};
            d.rounding = way.mode;
            d.saturates = way.overflow == Overflow::saturate;
            d.flushes = way.flushes;
            std::vector<StoredArray> arrays{array("x", {n}, x), codes_array("out", {n}, format, all)};
            CAPTURE(format_name(format), static_cast<int>(way.mode), d.saturates, d.flushes);
            const check::Verdict v = judge_arrays(d, arrays);
            CAPTURE(codes(v));
            CHECK(is_accepted(v));
            // A zero with the wrong sign fails. A cast with another rounding mode also fails.
            all[8001] ^= format.sign_bit();
            arrays[1] = codes_array("out", {n}, format, all);
            const check::Verdict sign = judge_arrays(d, arrays);
            REQUIRE(sign.outcome == Outcome::fail);
            CHECK(sign.reasons.front().index == 8001);
            all[8001] ^= format.sign_bit();
            arrays[1] = codes_array("out", {n}, format, all);
            d.rounding = way.mode == Round::toward_zero ? Round::nearest_even : Round::toward_zero;
            CHECK(judge_arrays(d, arrays).outcome == Outcome::fail);
        }
    }
}

TEST_CASE("stochastic rounding returns one of two neighbours with the right frequency", "[check]") {
    for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        const Floats x = normal(20000, random);
        check::Declaration d = declare("cast", Store::fp32);
        d.formats["out"] = {bf16, false};
        d.rounding = Round::stochastic;
        const auto verdict = [&](const std::vector<std::uint64_t>& all) {
            return judge_arrays(d, {array("x", {20000}, x), codes_array("out", {20000}, bf16, all)});
        };
        std::vector<std::uint64_t> fair = by_chance(bf16, x, random, 0);
        CAPTURE(seed, codes(verdict(fair)));
        CHECK(is_accepted(verdict(fair)));
        CHECK(codes(verdict(by_chance(bf16, x, random, 0.05))).find("KC033") != std::string::npos);
        // If stochastic rounding is declared, rounding to nearest fails, because it never rounds a small fraction up.
        std::vector<std::uint64_t> nearest;
        for (const float one : x) nearest.push_back(encode64(bf16, one, Round::nearest_even, Overflow::nonsaturate));
        CHECK(codes(verdict(nearest)).find("KC033") != std::string::npos);
        fair[77] += 2;
        const check::Verdict far = verdict(fair);
        REQUIRE(far.outcome == Outcome::fail);
        CHECK(far.reasons.front().code == "KC041");
        CHECK(far.reasons.front().index == 77);
    }
}

TEST_CASE("sums of whole numbers are exact, so each output has only one correct code", "[check]") {
    std::mt19937 random(35);
    Floats x(64 * 128);
    for (float& one : x) one = static_cast<float>(static_cast<int>(random() % 9) - 4);
    Floats out;
    for (std::size_t r = 0; r < 64; ++r)
        out.push_back(kernels::chain(Floats(x.begin() + static_cast<std::ptrdiff_t>(r * 128),
                                            x.begin() + static_cast<std::ptrdiff_t>(r * 128 + 128))) /
                      128);
    const check::Declaration d = declare("mean", Store::fp32);
    const check::Verdict right = judge_arrays(d, {array("x", {64, 128}, x), array("out", {64}, out)});
    CHECK(is_accepted(right));
    CHECK(right.judgement.exact_outputs == 64);
    out[9] = std::nextafterf(out[9], 9);
    const check::Verdict wrong = judge_arrays(d, {array("x", {64, 128}, x), array("out", {64}, out)});
    REQUIRE(wrong.outcome == Outcome::fail);
    CHECK(wrong.reasons.front().code == "KC041");
    CHECK(wrong.reasons.front().index == 9);
}

TEST_CASE("a check rounds numbers to the output format as the codec does", "[check]") {
    std::mt19937_64 random(4);
    for (const NamedFormat& named : all_formats) {
        if (named.format.precision > fp32.precision) continue;
        const check::Limits limits{.format = named.format};
        for (int i = 0; i < 4000; ++i) {
            const double exponent = std::uniform_real_distribution<double>(-160, 140)(random),
                         near = std::uniform_real_distribution<double>(-12, 12)(random);
            double x = std::exp2(i % 2 == 0 ? exponent : near) * (random() % 2 == 0 ? 1 : -1);
            // Every third x is replaced by the nearest number of the format. Half of these numbers are then multiplied
            // by 1 + 2^-precision, which adds between half an ulp and one ulp. A power of two gets exactly half an ulp,
            // so x is then a tie.
            if (i % 3 == 0)
                x = decode64(named.format, encode64(named.format, x, Round::nearest_even, Overflow::saturate)) *
                    (1 + (i % 2) * Format::power_of_two(-named.format.precision));
            const double want =
                decode64(named.format, encode64(named.format, x, Round::nearest_even, Overflow::nonsaturate));
            const double got = check::stored(limits, x);
            CAPTURE(named.name, x, got, want);
            REQUIRE((got == want || (std::isnan(got) && std::isnan(want))));
            REQUIRE(std::signbit(got) == std::signbit(want));
        }
    }
}

}  // namespace quantise_check_test
