// SPDX-License-Identifier: Apache-2.0
// Compares the elementwise operations with an independent copy of their formulas. Values must be within running error
// bounds, and the backward form must be the derivative of the forward form. tests/emulation/ops_test.cpp compares the
// bits of the engines.
#include "tests/emulation/backends.hpp"
#include "tests/emulation/bounded.hpp"

#include <algorithm>

namespace elementwise_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::elementwise;

namespace {

const double pi = std::acos(-1.0);

/// Returns the constant `c` of a formula with the error of rounding it to fp32.
Bounded nearest(double c) { return rounded(c, 0); }

Bounded tanh_of_gelu(Bounded x) { return tanh(nearest(std::sqrt(2 / pi)) * (x + nearest(0.044715) * ((x * x) * x))); }
Bounded sigmoid(Bounded x) { return Bounded(1) / (Bounded(1) + exp(-x)); }

/// An operation of one operand: the exact function, and the formulas that the engines evaluate with rounding errors.
struct Analysed {
    Unary f;
    double (*exact)(double x);
    Bounded (*value)(Bounded x);
    Bounded (*backward)(Bounded x, Bounded dy);
    double reach;                   ///< the bounds are tight for |x| up to this
    std::array<float, 2> extremes;  ///< inputs beyond `reach`, where the function is nearly 0 or x
};

const Analysed analysed[] = {
    {.f = GeluErf{},
     .exact = [](double x) { return x / 2 * (1 + std::erf(x / std::sqrt(2.0))); },
     .value = [](Bounded x) { return (Bounded(0.5) * x) * (Bounded(1) + erf(x * nearest(std::sqrt(0.5)))); },
     .backward =
         [](Bounded x, Bounded dy) {
             const Bounded below = Bounded(0.5) * (Bounded(1) + erf(x * nearest(std::sqrt(0.5))));
             return dy * (below + x * (nearest(1 / std::sqrt(2 * pi)) * exp(Bounded(-0.5) * (x * x))));
         },
     .reach = 10,
     .extremes = {11, -11}},
    {.f = GeluTanh{},
     .exact = [](double x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x))); },
     .value = [](Bounded x) { return (Bounded(0.5) * x) * (Bounded(1) + tanh_of_gelu(x)); },
     .backward =
         [](Bounded x, Bounded dy) {
             const Bounded half = 0.5, one = 1, t = tanh_of_gelu(x), k0 = nearest(std::sqrt(2 / pi));
             const Bounded slope = (one - t * t) * (k0 * (one + nearest(3 * 0.044715) * (x * x)));
             return dy * (half * (one + t) + (half * x) * slope);
         },
     .reach = 10,
     .extremes = {11, -11}},
    {.f = Silu{},
     .exact = [](double x) { return x / (1 + std::exp(-x)); },
     .value = [](Bounded x) { return x / (Bounded(1) + exp(-x)); },
     .backward = [](Bounded x, Bounded dy) { return (dy * sigmoid(x)) * (Bounded(1) + x * (Bounded(1) - sigmoid(x))); },
     .reach = 40,
     .extremes = {85, -85}},
};

}  // namespace

TEST_CASE("every elementwise operation of one operand has an error analysis in this test", "[emulation][elementwise]") {
    for (const Unary& row : unaries) {
        CAPTURE(row.name);
        CHECK(std::count_if(std::begin(analysed), std::end(analysed), [&](const Analysed& a) { return a.f == row; }) ==
              1);
    }
}

TEST_CASE("each elementwise operation has a unique name, and visit() finds its type", "[emulation][elementwise]") {
    std::vector<std::string_view> names;
    for (const Unary& row : unaries) {
        names.push_back(row.name);
        CHECK(&row == &unaries[row.place]);
        visit(Unaries{}, row.place, [&]<class F>(F) { CHECK(row.name == F::name); });
    }
    for (const Binary& row : binaries) {
        names.push_back(row.name);
        CHECK(&row == &binaries[row.place]);
        visit(Binaries{}, row.place, [&]<class F>(F) { CHECK(row.name == F::name); });
    }
    std::sort(names.begin(), names.end());
    CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}

TEST_CASE("values and gradients of elementwise operations are within their running error bounds",
          "[emulation][elementwise]") {
    CpuBackend b(1);
    for (const Analysed& a : analysed) {
        std::vector<float> x;
        for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i * a.reach / 4000));
        for (const float special : {0x1p-149f, -0x1p-130f, 0x1p-30f, -0x1p-13f}) x.push_back(special);
        x.insert(x.end(), a.extremes.begin(), a.extremes.end());
        const auto n = static_cast<std::int64_t>(x.size());
        const auto d = operands(Operands::plain, n, 5);
        std::vector<Bounded> y_want, dx_want;
        for (std::size_t i = 0; i < x.size(); ++i) {
            y_want.push_back(a.value(double{x[i]}));
            dx_want.push_back(a.backward(double{x[i]}, double{d[i]}));
        }
        const Tensor in = uploaded(b, x, {n}), out = b.empty({n});
        b.map(a.f, in, out);
        check_within(downloaded(b, out), y_want, std::string(a.f.name));
        b.map_backward(a.f, in, uploaded(b, d, {n}), out);
        check_within(downloaded(b, out), dx_want, std::string(a.f.name) + ", backward");
    }
}

TEST_CASE("the backward form of an elementwise operation is the derivative of its forward form",
          "[emulation][elementwise]") {
    // With h = 2^-13, the central difference has a truncation error of h^2/6 |f'''| < 2^-28 |f'''| and a rounding error
    // of 2^-40 |f|. Both are below the error allowed for fp32 gradients. The computation of a gradient rounds a few
    // dozen times, and the rounded values are at most a few times the largest slope.
    constexpr double h = 0x1p-13;
    CpuBackend b(1);
    for (const Analysed& a : analysed) {
        std::vector<float> x;
        for (int i = -80; i <= 80; ++i) x.push_back(static_cast<float>(i) / 8);
        const auto n = static_cast<std::int64_t>(x.size());
        const auto d = operands(Operands::plain, n, 2);
        const Tensor dx = b.empty({n});
        b.map_backward(a.f, uploaded(b, x, {n}), uploaded(b, d, {n}), dx);
        const auto found = downloaded(b, dx);
        double largest = 0, worst = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
            const double middle = double{x[i]};
            const double slope = double{d[i]} * (a.exact(middle + h) - a.exact(middle - h)) / (2 * h);
            largest = std::fmax(largest, std::fabs(slope));
            worst = std::fmax(worst, std::fabs(double{found[i]} - slope));
        }
        CAPTURE(a.f.name, worst, largest);
        CHECK(worst <= 128 * 0x1p-24 * largest);
        CHECK(largest > 0);
    }
}

TEST_CASE("the constants of gelu are the nearest floats", "[emulation][elementwise]") {
    CHECK(sqrt_half == static_cast<float>(std::sqrt(0.5)));
    CHECK(inverse_sqrt_2pi == static_cast<float>(1 / std::sqrt(2 * pi)));
    CHECK(gelu_k0 == static_cast<float>(std::sqrt(2 / pi)));
    CHECK(gelu_k1 == 0.044715f);
    CHECK(gelu_3k1 == static_cast<float>(3 * 0.044715));
}

TEST_CASE("silu handles infinities, NaN, -0 and the largest numbers", "[emulation][elementwise]") {
    const float inf = bit_cast<float>(0x7f800000u), nan = bit_cast<float>(0x7fc00000u), big = 0x1.fffffep127f;
    for (const auto& engine : backends({1})) {
        Tensor out = engine->empty({6});
        engine->map(Silu{}, uploaded(*engine, {inf, big, -big, -inf, nan, -0.0f}, {6}), out);
        // silu(x) is x / (1 + exp(-x)). For x below -88.7, exp(-x) is Inf. The quotient is then -0, or NaN if x is
        // -Inf.
        CHECK(differences(downloaded(*engine, out), {inf, big, -0.0f, nan, nan, -0.0f}) == "");
    }
}

TEST_CASE("add and scale are the correctly rounded sum and product", "[emulation][elementwise]") {
    // Rounding an fp64 sum or product of floats to fp32 is innocuous: 53 >= 2 * 24 + 2 (Figueroa 1995).
    CpuBackend b(1);
    const std::int64_t n = 10000;
    const auto x = operands(Operands::wild, n, 1), y = operands(Operands::wild, n, 2);
    Tensor sum = b.empty({n}), product = b.empty({n});
    b.add(uploaded(b, x, {n}), uploaded(b, y, {n}), sum);
    b.scale(uploaded(b, x, {n}), 0x1.99999ap-4f, product);
    std::vector<float> sums, products;
    for (std::size_t i = 0; i < x.size(); ++i) {
        sums.push_back(static_cast<float>(double{x[i]} + double{y[i]}));
        products.push_back(static_cast<float>(double{x[i]} * 0x1.99999ap-4));
    }
    CHECK(differences(downloaded(b, sum), sums) == "");
    CHECK(differences(downloaded(b, product), products) == "");
}

}  // namespace elementwise_test
