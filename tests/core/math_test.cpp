// SPDX-License-Identifier: Apache-2.0
// Compares the math functions with MPFR at 160 bits. The error of a result is computed from MPFR's value with one
// rounding: rounding that value to fp64 first could move it onto the midpoint of two floats. The slow test of all fp32
// inputs uses the C library's fp64 functions as its reference (their errors are about 1e-9 ulp of fp32). It calls MPFR
// only if the error is so close to 0.5 ulp that the reference does not show which float is nearest. Another test
// compares the figures in docs/math.md with those in this file.
#include "core/math.hpp"
#include "core/format.hpp"
#include "core/host/thread_pool.hpp"
#include "core/rng.hpp"
#include "tests/test.hpp"

#include <mpfr.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace math_test {

using namespace macheps;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float quiet_nan = std::numeric_limits<float>::quiet_NaN();

/// Fills `out` with the results for `count` inputs whose bit patterns are first, first + 1, ...
using Evaluate = void (*)(std::uint32_t first, float* out, int count);

template <float (*f)(float)>
void evaluate_as_built(std::uint32_t first, float* out, int count) {
    for (int i = 0; i < count; ++i) out[i] = f(bit_cast<float>(first + static_cast<std::uint32_t>(i)));
}

#if defined(__x86_64__)
/// Does the same as evaluate_as_built(), but computes fma with the processor's instruction. The C library's fma() gives
/// the same bits and takes three times as long. The compiler still must not contract a * b + c into an fma.
template <float (*f)(float)>
__attribute__((target("avx2,fma"), flatten)) void evaluate_with_fma(std::uint32_t first, float* out, int count) {
    for (int i = 0; i < count; ++i) out[i] = f(bit_cast<float>(first + static_cast<std::uint32_t>(i)));
}
#endif

template <float (*f)(float)>
Evaluate quickest() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return evaluate_with_fma<f>;
#endif
    return evaluate_as_built<f>;
}

/// Relation of f(-x) to f(x).
enum class Negative { other, same, opposite, undefined };

struct Function {
    const char* name;
    float (*ours)(float);
    Evaluate evaluate;
    Negative negative;
    int (*exact)(mpfr_t, mpfr_srcptr, mpfr_rnd_t);
    double (*quick)(double);
    // Largest errors in ulps over all inputs, rounded up. The docstrings in core/math.inl and docs/math.md give the
    // same figures. Subnormal results are counted separately.
    double largest, largest_subnormal;
    std::uint64_t not_nearest;  // number of inputs whose result is not the nearest float
};

template <float (*f)(float)>
Function function(const char* name, Negative negative, int (*exact)(mpfr_t, mpfr_srcptr, mpfr_rnd_t),
                  double (*quick)(double), double largest, double largest_subnormal, std::uint64_t not_nearest) {
    return {name, f, quickest<f>(), negative, exact, quick, largest, largest_subnormal, not_nearest};
}

double quick_rsqrt(double x) { return 1 / std::sqrt(x); }

const Function functions[] = {
    function<math::exp>("exp", Negative::other, mpfr_exp, std::exp, 0.626, 0.765, 2199421),
    function<math::expm1>("expm1", Negative::other, mpfr_expm1, std::expm1, 0.951, 0.5, 10193379),
    function<math::log>("log", Negative::undefined, mpfr_log, std::log, 0.612, 0.5, 391620),
    function<math::log1p>("log1p", Negative::other, mpfr_log1p, std::log1p, 0.619, 0.5, 611208),
    function<math::tanh>("tanh", Negative::opposite, mpfr_tanh, std::tanh, 0.712, 0.5, 678910),
    function<math::erf>("erf", Negative::opposite, mpfr_erf, std::erf, 0.823, 0.508, 29835838),
    function<math::sin>("sin", Negative::opposite, mpfr_sin, std::sin, 0.500000001, 0.5, 2),
    function<math::cos>("cos", Negative::same, mpfr_cos, std::cos, 0.500000001, 0.5, 4),
    function<math::rsqrt>("rsqrt", Negative::undefined, mpfr_rec_sqrt, quick_rsqrt, 0.5, 0.5, 0),
};

// Error of a result in which a NaN, infinity or zero is wrong. Such an error cannot be measured in ulps.
constexpr double wrong_kind = 1e30;

/// Returns |got - exact| in ulps of fp32 at `exact`. Special values and zeros must agree in every bit. `exact` was
/// rounded to fp64, so an error near 0.5 ulp does not show whether `got` is the nearest float.
double error_in_ulps(float got, double exact) {
    const auto got_bits = bit_cast<std::uint32_t>(got);
    if (exact != exact) return got_bits == 0x7fc00000u ? 0 : wrong_kind;
    const float rounded = static_cast<float>(exact);
    if (exact == 0 || std::isinf(rounded) || std::isinf(got)) {
        return got_bits == bit_cast<std::uint32_t>(rounded) ? 0 : wrong_kind;
    }
    const auto field = static_cast<int>(bit_cast<std::uint64_t>(exact) >> 52 & 0x7ff);
    const int exponent = std::max(field - 1023, -126);
    return std::fabs(got - exact) * Format::power_of_two(23 - exponent);
}

/// Distance of a result from the exact value, and whether the exact value is below the smallest normal number.
struct Error {
    double ulps = 0;  ///< above 0.5 if and only if another float is nearer
    bool subnormal = false;
};

class Mpfr {
  public:
    Mpfr() {
        mpfr_init2(x_, 64);
        mpfr_init2(y_, precision);
        mpfr_init2(difference_, precision);
    }
    ~Mpfr() { mpfr_clears(x_, y_, difference_, static_cast<mpfr_ptr>(nullptr)); }
    Mpfr(const Mpfr&) = delete;
    Mpfr& operator=(const Mpfr&) = delete;

    /// Returns the error of `got`, a computed value of f(x).
    Error error(int (*f)(mpfr_t, mpfr_srcptr, mpfr_rnd_t), double x, float got) {
        mpfr_set_d(x_, x, MPFR_RNDN);
        f(y_, x_, MPFR_RNDN);
        const float rounded = mpfr_get_flt(y_, MPFR_RNDN);
        if (mpfr_regular_p(y_) == 0 || std::isinf(rounded) || std::isinf(got)) {
            return {error_in_ulps(got, mpfr_nan_p(y_) != 0 ? std::numeric_limits<double>::quiet_NaN() : rounded)};
        }
        const long exponent = std::max<long>(mpfr_get_exp(y_) - 1, -126);
        mpfr_d_sub(difference_, got, y_, MPFR_RNDA);
        mpfr_mul_2si(difference_, difference_, 23 - exponent, MPFR_RNDN);
        mpfr_abs(difference_, difference_, MPFR_RNDN);
        return {mpfr_get_d(difference_, MPFR_RNDU), mpfr_get_exp(y_) - 1 < -126};
    }

  private:
    static constexpr mpfr_prec_t precision = 160;
    mpfr_t x_, y_, difference_;
};

struct Worst {
    double normal = 0, subnormal = 0;
    std::uint32_t at = 0, at_subnormal = 0;
    std::uint64_t inputs = 0, not_nearest = 0;

    void add(std::uint32_t input, const Error& error) {
        ++inputs;
        not_nearest += error.ulps > 0.5;
        if (error.ulps < subnormal && error.ulps < normal) return;
        if (error.subnormal)
            take(subnormal, at_subnormal, error.ulps, input);
        else
            take(normal, at, error.ulps, input);
    }
    void add(const Worst& other) {
        inputs += other.inputs;
        not_nearest += other.not_nearest;
        take(normal, at, other.normal, other.at);
        take(subnormal, at_subnormal, other.subnormal, other.at_subnormal);
    }

  private:
    /// Keeps the larger error. For equal errors it keeps the smaller input, so that the order of calls has no
    /// effect.
    static void take(double& worst, std::uint32_t& at, double error, std::uint32_t input) {
        if (error < worst || (error == worst && input >= at)) return;
        worst = error;
        at = input;
    }
};

void check(const Function& f, const Worst& worst) {
    CAPTURE(f.name, worst.at, worst.at_subnormal);
    CHECK(worst.normal <= f.largest);
    CHECK(worst.subnormal <= f.largest_subnormal);
    CHECK(worst.not_nearest <= f.not_nearest);
}

std::uint32_t bits_of(float x) { return bit_cast<std::uint32_t>(x); }

}  // namespace

TEST_CASE("math functions return the exact results at special values, limits, overflow and underflow", "[core][math]") {
    struct Case {
        float (*f)(float);
        float in, out;
        const char* why;
    };
    const Case cases[] = {
        {math::exp, 0, 1, "e^0"},
        {math::exp, -0.0f, 1, "e^-0"},
        {math::exp, -infinity, 0, "limit"},
        {math::exp, infinity, infinity, "limit"},
        {math::exp, 0x1.62e42ep6f, 0x1.ffff08p127f, "last input that does not overflow"},
        {math::exp, 0x1.62e43p6f, infinity, "first input that overflows"},
        {math::exp, -0x1.9fe368p6f, 0x1p-149f, "last input that does not underflow to zero"},
        {math::exp, -0x1.9fe36ap6f, 0, "first input that underflows to zero"},
        {math::exp, -0x1.5d58a0p6f, 0x1.ffff98p-127f, "gradual underflow: just below the smallest normal"},
        {math::expm1, 0, 0, "zero"},
        {math::expm1, -0.0f, -0.0f, "keeps the sign of zero"},
        {math::expm1, 0x1p-149f, 0x1p-149f, "the smallest subnormal"},
        {math::expm1, -infinity, -1, "limit"},
        {math::expm1, infinity, infinity, "limit"},
        {math::expm1, 0x1.62e42ep6f, 0x1.ffff08p127f, "last input that does not overflow"},
        {math::log, 1, 0, "log 1 is +0"},
        {math::log, 0, -infinity, "pole"},
        {math::log, -0.0f, -infinity, "pole"},
        {math::log, infinity, infinity, "limit"},
        {math::log, -1, quiet_nan, "outside the domain"},
        {math::log, -0x1p-149f, quiet_nan, "outside the domain, subnormal"},
        {math::log, -infinity, quiet_nan, "outside the domain"},
        {math::log, 0x1p-149f, -0x1.9d1dap6f, "the smallest subnormal"},
        {math::log1p, 0, 0, "zero"},
        {math::log1p, -0.0f, -0.0f, "keeps the sign of zero"},
        {math::log1p, 0x1p-149f, 0x1p-149f, "the smallest subnormal"},
        {math::log1p, -1, -infinity, "pole"},
        {math::log1p, -0x1.000002p0f, quiet_nan, "outside the domain"},
        {math::log1p, -infinity, quiet_nan, "outside the domain"},
        {math::log1p, infinity, infinity, "limit"},
        {math::tanh, 0, 0, "zero"},
        {math::tanh, -0.0f, -0.0f, "keeps the sign of zero"},
        {math::tanh, -0x1p-149f, -0x1p-149f, "the smallest subnormal"},
        {math::tanh, infinity, 1, "limit"},
        {math::tanh, -infinity, -1, "limit"},
        {math::erf, 0, 0, "zero"},
        {math::erf, -0.0f, -0.0f, "keeps the sign of zero"},
        {math::erf, infinity, 1, "limit"},
        {math::erf, -infinity, -1, "limit"},
        {math::rsqrt, 0, infinity, "pole"},
        {math::rsqrt, -0.0f, -infinity, "IEEE 754-2019 9.2.1, rSqrt"},
        {math::rsqrt, infinity, 0, "limit"},
        {math::rsqrt, -1, quiet_nan, "outside the domain"},
        {math::rsqrt, -infinity, quiet_nan, "outside the domain"},
        {math::rsqrt, 0x1p-148f, 0x1p74f, "subnormal power of four"},
        {math::rsqrt, 0.25f, 2, "power of four"},
        {math::sin, -0.0f, -0.0f, "keeps the sign of zero"},
        {math::sin, infinity, quiet_nan, "no limit"},
        {math::sin, -infinity, quiet_nan, "no limit"},
        {math::cos, 0, 1, "cos 0"},
        {math::cos, -infinity, quiet_nan, "no limit"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.in, c.why);
        CHECK(bits_of(c.f(c.in)) == bits_of(c.out));
    }
    for (const Function& f : functions) {
        CAPTURE(f.name);
        for (const std::uint32_t payload : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu}) {
            CHECK(bits_of(f.ours(bit_cast<float>(payload))) == 0x7fc00000u);
        }
    }
}

TEST_CASE("fp32 functions stay within their documented errors on a sample", "[core][math]") {
    Mpfr oracle;
    // Poles, thresholds between branches, limits of over- and underflow, and floats next to a multiple of pi/2.
    const float special[] = {
        0x1p-149f, 0x1p-126f, 0x1p-24f, 0x1p-12f, 0.375f, 0.55f, 0x1.6a09e6p-1f, 0x1.6a09e6p0f, 0.875f, 1.0f, 4.0f,
        10.0f, 17.0f, 0x1.62e43p-2f, 0x1.62e43p-1f, 0x1.0a2b24p0f, 0x1.5d589ep6f, 0x1.62e43p6f, 0x1.9fe368p6f,
        0x1.a827aap-2f, 0x1.2bec34p-2f, 0x1p20f, 0x1.921fb6p0f, 0x1.921fb6p1f, 0x1.f9cbe2p7f, 0x1.47d0fep34f,
        0x1.f37c8ap95f, 0x1.32ede2p85f, 0x1.628d4cp40f, 0x1.11093p76f, 0x1.fffffep127f,
        // Inputs with the largest errors among all inputs, and inputs for which sin or cos is not the nearest float.
        0x1.b117d8p3f, -0x1.5edcb4p6f, 0x1.84c46ap-2f, 0x1.69784cp-1f, -0x1.3110b2p-2f, 0x1.1653e6p-1f, 0x1.bce9c2p-1f,
        0x1.33333p13f, 0x1.3170fp63f, 0x1.2b9622p67f};
    for (const Function& f : functions) {
        Worst worst;
        const auto add = [&](std::uint32_t input) {
            const float x = bit_cast<float>(input);
            if (x == 0) return;  // the table above covers the signs of zeros
            worst.add(input, oracle.error(f.exact, x, f.ours(x)));
        };
        for (std::uint64_t input = 0; input < (std::uint64_t{1} << 32); input += 4099)
            add(static_cast<std::uint32_t>(input));
        for (const float x : special) {
            const std::uint32_t centre = bits_of(std::fabs(x)), first = centre < 100 ? 1 : centre - 100;
            for (std::uint32_t input = first; input < centre + 100 && input <= 0x7f800000u; ++input) {
                add(input);
                add(input | 0x80000000u);
            }
        }
        check(f, worst);
        // The sample contains the argument of the largest error among normal results.
        CHECK(worst.normal > f.largest - 0.001);
        if (f.not_nearest < 10) CHECK(worst.not_nearest == f.not_nearest);
    }
}

TEST_CASE("math functions give the same bits with the processor's fma as with the C library's fma", "[core][math]") {
    constexpr int count = 1 << 10;
    static float results[count];
    for (const Function& f : functions) {
        std::uint64_t different = 0;
        for (std::uint64_t first = 0; first < (std::uint64_t{1} << 32); first += (1 << 24) - 333) {
            f.evaluate(static_cast<std::uint32_t>(first), results, count);
            for (int i = 0; i < count; ++i) {
                const float x = bit_cast<float>(static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(i));
                different += bits_of(results[i]) != bits_of(f.ours(x));
            }
        }
        CAPTURE(f.name);
        CHECK(different == 0);
    }
}

TEST_CASE("math functions have the recorded bits, because stored results depend on every bit", "[core][math]") {
    // Hashes of the results for every 65521st input, in the order of `functions`. The errors of these results are
    // tested above.
    constexpr std::uint64_t recorded[] = {0x1aada844bf6726cdu, 0x3f4c557e63632fadu, 0xc96965c770f68018u,
                                          0xccca68229e7ae79fu, 0x9ab0039ba0bdef3au, 0xad44c5f4357afbf7u,
                                          0x570748908b8c4c72u, 0x36ec2c437a2a525cu, 0xbebb27147978c751u};
    for (std::size_t i = 0; i < std::size(functions); ++i) {
        std::uint64_t hash = 0xcbf29ce484222325u;
        for (std::uint64_t input = 0; input < (std::uint64_t{1} << 32); input += 65521) {
            const float y = functions[i].ours(bit_cast<float>(static_cast<std::uint32_t>(input)));
            hash = (hash ^ bits_of(y)) * 0x100000001b3u;
        }
        CAPTURE(functions[i].name);
        CHECK(hash == recorded[i]);
    }
}

TEST_CASE("odd functions are odd, and increasing functions never decrease between neighbouring floats",
          "[core][math]") {
    const Function &exp = functions[0], &expm1 = functions[1], &log = functions[2], &log1p = functions[3],
                   &tanh = functions[4], &erf = functions[5], &sin = functions[6];
    for (const Function* f : {&tanh, &erf, &sin}) {
        std::uint64_t failures = 0;
        for (std::uint32_t u = 0; u < 0x7f800000u; u += 4093) {
            failures += bits_of(f->ours(bit_cast<float>(u | 0x80000000u))) !=
                        (bits_of(f->ours(bit_cast<float>(u))) ^ 0x80000000u);
        }
        CAPTURE(f->name);
        CHECK(failures == 0);
    }
    for (const Function* f : {&exp, &expm1, &log, &log1p, &tanh}) {
        std::uint64_t failures = 0;
        for (std::uint32_t u = 0; u < 0x7f7fffffu; u += 1021) {
            const float x = bit_cast<float>(u), above = bit_cast<float>(u + 1);
            failures += f->ours(above) < f->ours(x);
            failures += f->ours(-above) > f->ours(-x);
        }
        CAPTURE(f->name);
        CHECK(failures == 0);
    }
}

namespace {

struct Function64 {
    const char* name;
    double (*ours)(double);
    int (*exact)(mpfr_t, mpfr_srcptr, mpfr_rnd_t);
    double low, high;
    double largest;  ///< largest error that was found, rounded up, as in docs/math.md
    double at;       ///< argument of the largest error
};

/// Largest errors in 10^8 random arguments from each of several ranges. The reference of that search was the C library
/// in long double.
const Function64 functions64[] = {
    {"exp in fp64", math::exp, mpfr_exp, -708, 709.7, 0.631, 0x1.ce548276ac3b1p+7},
    {"exp in fp64, subnormal", math::exp, mpfr_exp, -745, -708.4, 0.769, -0x1.625e4f5ffb39bp+9},
    {"log in fp64", math::log, mpfr_log, 0.5, 2, 0.649, 0x1.66acb5e7ab333p-1},
    {"sin in fp64", math::sin, mpfr_sin, -0x1p20, 0x1p20, 0.831, -0x1.cdc7168c67207p+19},
    {"cos in fp64", math::cos, mpfr_cos, -8, 8, 0.835, 0x1.2baea9e69c5fcp+1},
};

/// Computes |f(x) - exact| in ulps of fp64 at the exact value.
class Mpfr64 {
  public:
    Mpfr64() { mpfr_inits2(160, x_, y_, ours_, static_cast<mpfr_ptr>(nullptr)); }
    ~Mpfr64() { mpfr_clears(x_, y_, ours_, static_cast<mpfr_ptr>(nullptr)); }
    Mpfr64(const Mpfr64&) = delete;
    Mpfr64& operator=(const Mpfr64&) = delete;

    double error(const Function64& f, double in) {
        mpfr_set_d(x_, in, MPFR_RNDN);
        f.exact(y_, x_, MPFR_RNDN);
        mpfr_set_d(ours_, f.ours(in), MPFR_RNDN);
        mpfr_sub(ours_, ours_, y_, MPFR_RNDN);
        const auto exponent = std::max<long>(mpfr_get_exp(y_), -1021);
        mpfr_mul_2si(ours_, ours_, 53 - exponent, MPFR_RNDN);
        return std::fabs(mpfr_get_d(ours_, MPFR_RNDA));
    }

  private:
    mpfr_t x_, y_, ours_;
};

/// Returns the cells of the first row of docs/math.md that begins with `name`.
std::vector<std::string> page_cells(const std::string& name) {
    std::ifstream page(std::string(MACHEPS_SOURCE_DIR) + "/docs/math.md");
    for (std::string line; std::getline(page, line);) {
        if (line.rfind("| " + name + " |", 0) != 0) continue;
        std::vector<std::string> cells;
        std::stringstream rest(line.substr(1));
        for (std::string cell; std::getline(rest, cell, '|');) cells.push_back(cell);
        return cells;
    }
    return {};
}

}  // namespace

TEST_CASE("rsqrt is correctly rounded even if the rounding depends on the square of the residual", "[core][math]") {
    // A search over all significands found only this one for which the rounding depends on the square of the residual.
    for (int exponent = -148; exponent <= 126; exponent += 2) {
        const float x = std::ldexp(0x1.13e07p1f, exponent);
        if (std::ldexp(x, -exponent) != 0x1.13e07p1f) continue;  // a subnormal x has too few bits for this significand
        CAPTURE(x);
        CHECK(Mpfr().error(mpfr_rec_sqrt, x, math::rsqrt(x)).ulps <= 0.5);
    }
}

TEST_CASE("the figures in docs/math.md are the figures that the tests check", "[core][math]") {
    for (const Function& f : functions) {
        CAPTURE(f.name);
        const std::vector<std::string> cells = page_cells(f.name);
        REQUIRE(cells.size() == 4);
        CHECK(std::stod(cells[1]) == f.largest);
        const std::size_t subnormal = cells[1].find("subnormal results ");
        CHECK((subnormal == std::string::npos ? 0.5 : std::stod(cells[1].substr(subnormal + 18))) ==
              f.largest_subnormal);
        CHECK(std::stoull(cells[3]) == f.not_nearest);
        if (cells[2].find("0x") == std::string::npos) continue;
        // For the worst argument that docs/math.md gives, the error must be the one that it gives.
        const float x = bit_cast<float>(static_cast<std::uint32_t>(std::stoul(cells[2], nullptr, 16)));
        const double error = Mpfr().error(f.exact, x, f.ours(x)).ulps;
        CHECK(error <= f.largest);
        CHECK(error > f.largest - 0.001);
    }
    for (const Function64& f : functions64) {
        CAPTURE(f.name);
        const std::vector<std::string> cells = page_cells(f.name);
        REQUIRE(cells.size() == 3);
        CHECK(std::stod(cells[2]) == f.largest);
    }
}

TEST_CASE("fp64 functions stay within their documented errors on a sample", "[core][math]") {
    Mpfr64 oracle;
    for (const Function64& f : functions64) {
        CAPTURE(f.name);
        const double there = oracle.error(f, f.at);
        CHECK(there <= f.largest);
        CHECK(there > f.largest - 0.001);
        double worst = 0, at = 0;
        for (std::uint64_t i = 0; i < 50000; ++i) {
            const PhiloxBlock random = random_block({.seed = 1}, i);
            const double u = (random.word[0] * 0x1p32 + random.word[1]) * 0x1p-64, in = f.low + u * (f.high - f.low);
            const double error = oracle.error(f, in);
            if (error > worst) worst = error, at = in;
        }
        CAPTURE(at);
        CHECK(worst <= f.largest);
    }

    // Outside [0.5, 2] the error of log is smaller: most of the result is exponent * log(2), which is nearly exact.
    const Function64& log = functions64[2];
    for (int exponent = -1074; exponent <= 1023; ++exponent) {
        for (std::uint64_t i = 0; i < 8; ++i) {
            const double in = std::ldexp(1 + random_block({.seed = 2}, i).word[0] * 0x1p-32, exponent);
            CAPTURE(in);
            if (in > 0 && !std::isinf(in)) CHECK(oracle.error(log, in) <= log.largest);
        }
    }

    const double inf = std::numeric_limits<double>::infinity();
    CHECK(math::exp(0.0) == 1);
    CHECK(math::exp(-inf) == 0);
    CHECK(math::exp(inf) == inf);
    CHECK(math::exp(0x1.6232bdd7abcd2p9) < inf);
    CHECK(math::exp(710.0) == inf);
    CHECK(math::exp(-0x1.74910d52d3051p9) == 0x1p-1074);
    CHECK(math::log(1.0) == 0);
    CHECK(math::log(0.0) == -inf);
    CHECK(math::log(inf) == inf);
    CHECK(std::isnan(math::log(-1.0)));
    CHECK(std::signbit(math::sin(-0.0)));
    CHECK(std::isnan(math::sin(0x1.00001p20)));
    CHECK(std::isnan(math::cos(inf)));
    CHECK(math::pow_int(3, 5) == 243);
    CHECK(math::pow_int(2, -3) == 0.125);
    CHECK(math::pow_int(7, 0) == 1);
    CHECK(math::pow_int(2, std::numeric_limits<int>::min()) == 0);
}

namespace {

/// Returns the reference value of f(x) for the test of all inputs. The reference is a truncated power series if its
/// remainder is below 2^-50, and otherwise the C library's result.
double sweep_reference(const Function& f, double x) {
    const std::string_view name = f.name;
    const double square = x * x;
    if (square < 0x1p-34) {
        if (name == "exp") return 1 + x + square / 2 + square * x / 6;
        if (name == "expm1") return x + (square / 2 + square * x / 6);
        if (name == "log1p") return x - (square / 2 - square * x / 3);
        if (name == "tanh") return x - square * x / 3;
        if (name == "erf") return 0x1.20dd750429b6dp0 * (x - square * x / 3);
        if (name == "sin") return x - square * x / 6;
        if (name == "cos") return 1 - square / 2;
    }
    return f.quick(x);
}

}  // namespace

TEST_CASE("fp32 functions have their documented errors over every input", "[core][math][slow]") {
    ThreadPool pool(available_threads());
    for (const Function& f : functions) {
        const auto begin = std::chrono::steady_clock::now();
        Worst worst;
        std::mutex mutex;
        constexpr int block = 1 << 12, blocks_of_a_task = 1 << 8;
        pool.run((std::int64_t{1} << 31) / block / blocks_of_a_task, [&](std::int64_t task) {
            Mpfr oracle;
            Worst here;
            const auto add = [&](std::uint32_t input, float got, double exact) {
                Error error{error_in_ulps(got, exact), std::fabs(exact) < 0x1p-126};
                if (error.ulps > 0.499999 && error.ulps < 0.500001) {
                    error = oracle.error(f.exact, bit_cast<float>(input), got);
                }
                here.add(input, error);
            };
            static thread_local float plus[block], minus[block];
            for (int b = 0; b < blocks_of_a_task; ++b) {
                const auto first = static_cast<std::uint32_t>((task * blocks_of_a_task + b) * block);
                f.evaluate(first, plus, block);
                f.evaluate(first | 0x80000000u, minus, block);
                for (int i = 0; i < block; ++i) {
                    const std::uint32_t u = first + static_cast<std::uint32_t>(i);
                    const float x = bit_cast<float>(u);
                    if (x == 0) continue;  // the table above covers the signs of zeros
                    const double exact = sweep_reference(f, x);
                    add(u, plus[i], exact);
                    double other = 0;
                    switch (f.negative) {
                        case Negative::other:
                            other = sweep_reference(f, -x);
                            break;
                        case Negative::same:
                            other = exact;
                            break;
                        case Negative::opposite:
                            other = -exact;
                            break;
                        case Negative::undefined:
                            other = std::numeric_limits<double>::quiet_NaN();
                            break;
                    }
                    add(u | 0x80000000u, minus[i], other);
                }
            }
            const std::lock_guard lock(mutex);
            worst.add(here);
        });
        check(f, worst);
        CHECK(worst.inputs == (std::uint64_t{1} << 32) - 2);
        // The documented error must agree with the measured error to three digits. A documented error that is too large
        // also fails.
        CHECK(worst.normal > f.largest - 0.001);
        CHECK(worst.not_nearest == f.not_nearest);
        std::printf(
            "%-6s %.6f ulp at %08x; subnormal results %.6f ulp at %08x; %llu of %llu not the nearest float; %.0f s\n",
            f.name, worst.normal, worst.at, worst.subnormal, worst.at_subnormal,
            static_cast<unsigned long long>(worst.not_nearest), static_cast<unsigned long long>(worst.inputs),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        std::fflush(stdout);
    }
}

}  // namespace math_test
