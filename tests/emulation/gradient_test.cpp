// SPDX-License-Identifier: Apache-2.0
// Compares every backward operation, except the elementwise ones (tests/emulation/elementwise_test.cpp), with central
// differences of an fp64 forward pass in this file.
#include "tests/emulation/backends.hpp"

#include <cmath>
#include <functional>

namespace gradient_test {

using namespace macheps;
using namespace macheps::test;

namespace {

using Vector = std::vector<double>;

/// Returns d(loss)/dx by central differences. With h = 2^-13, the truncation error is h^2/6 |f'''| < 2^-28 |f'''| and
/// the rounding error is 2^-53 |f| / h = 2^-40 |f|. Both are below the fp32 error that `check` allows.
Vector slopes(Vector x, const std::function<double(const Vector&)>& loss) {
    constexpr double h = 0x1p-13;
    Vector slope;
    for (double& element : x) {
        const double middle = element;
        element = middle + h;
        const double above = loss(x);
        element = middle - h;
        slope.push_back((above - loss(x)) / (2 * h));
        element = middle;
    }
    return slope;
}

/// Compares fp32 gradients with `slope`. The tolerance allows for a few dozen roundings of values that are at most a
/// few times the largest slope.
void check(const std::vector<float>& gradient, const Vector& slope, const std::string& what) {
    REQUIRE(gradient.size() == slope.size());
    double largest = 0, worst = 0;
    for (const double s : slope) largest = std::fmax(largest, std::fabs(s));
    for (std::size_t i = 0; i < slope.size(); ++i) worst = std::fmax(worst, std::fabs(gradient[i] - slope[i]));
    CAPTURE(what, worst, largest);
    CHECK(worst <= 128 * 0x1p-24 * largest);
    CHECK(largest > 0);
}

Vector wide(const std::vector<float>& x) { return {x.begin(), x.end()}; }

double dot(const Vector& a, const std::vector<float>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * double{b[i]};
    return sum;
}

/// Returns values in [-2, 2] with a coarse spacing, so that x +- h are exact.
std::vector<float> values(std::int64_t n, std::uint32_t seed) {
    auto x = operands(Operands::plain, n, seed);
    for (float& element : x) element = std::round(element * 1024) / 1024;
    return x;
}

}  // namespace

TEST_CASE("layernorm_backward is the derivative of layernorm with respect to x, gamma and beta",
          "[emulation][gradient]") {
    CpuBackend b(2);
    const std::int64_t rows = 3, n = 37;
    const float eps = 1e-5f;
    const auto x = values(rows * n, 1), gamma = values(n, 2), beta = values(n, 3), d = values(rows * n, 4);
    const auto loss = [&](const Vector& xs, const Vector& gs, const Vector& bs) {
        Vector y;
        for (std::int64_t r = 0; r < rows; ++r) {
            const double* row = xs.data() + r * n;
            double mean = 0, variance = 0;
            for (std::int64_t i = 0; i < n; ++i) mean += row[i] / double(n);
            for (std::int64_t i = 0; i < n; ++i) variance += (row[i] - mean) * (row[i] - mean) / double(n);
            for (std::size_t i = 0; i < gs.size(); ++i)
                y.push_back((row[i] - mean) / std::sqrt(variance + double{eps}) * gs[i] + bs[i]);
        }
        return dot(y, d);
    };
    Tensor in = uploaded(b, x, {rows, n}), g = uploaded(b, gamma, {n}), out = b.empty({rows, n}),
           mean = b.empty({rows}), rstd = b.empty({rows}), dx = b.empty({rows, n}), dgamma = b.empty({n}),
           dbeta = b.empty({n});
    b.layernorm(in, g, uploaded(b, beta, {n}), eps, out, mean, rstd);
    b.layernorm_backward(in, g, mean, rstd, uploaded(b, d, {rows, n}), dx, dgamma, dbeta);
    check(downloaded(b, dx), slopes(wide(x), [&](const Vector& v) { return loss(v, wide(gamma), wide(beta)); }), "dx");
    check(downloaded(b, dgamma), slopes(wide(gamma), [&](const Vector& v) { return loss(wide(x), v, wide(beta)); }),
          "dgamma");
    check(downloaded(b, dbeta), slopes(wide(beta), [&](const Vector& v) { return loss(wide(x), wide(gamma), v); }),
          "dbeta");
}

TEST_CASE("rms_normalise_backward is the derivative of rms_normalise", "[emulation][gradient]") {
    CpuBackend b(2);
    const std::int64_t rows = 3, n = 37;
    const float eps = 1e-5f;
    const auto x = values(rows * n, 1), d = values(rows * n, 4);
    Tensor in = uploaded(b, x, {rows, n}), out = b.empty({rows, n}), rstd = b.empty({rows}), dx = b.empty({rows, n});
    b.rms_normalise(in, eps, out, rstd);
    b.rms_normalise_backward(in, rstd, uploaded(b, d, {rows, n}), dx);
    const auto slope = slopes(wide(x), [&](const Vector& v) {
        Vector y;
        for (std::int64_t r = 0; r < rows; ++r) {
            const double* row = v.data() + r * n;
            double square = 0;
            for (std::int64_t i = 0; i < n; ++i) square += row[i] * row[i] / double(n);
            for (std::int64_t i = 0; i < n; ++i) y.push_back(row[i] / std::sqrt(square + double{eps}));
        }
        return dot(y, d);
    });
    check(downloaded(b, dx), slope, "dx");
}

TEST_CASE("the backward rotation is the derivative of the forward rotation", "[emulation][gradient]") {
    CpuBackend b(1);
    const std::int64_t times = 3, half = 5, n = 4 * half;
    const auto x = values(times * n, 1), d = values(times * n, 2), angles = values(times * half, 3);
    std::vector<float> cosines, sines;
    for (const float angle : angles) {
        cosines.push_back(static_cast<float>(std::cos(double{angle})));
        sines.push_back(static_cast<float>(std::sin(double{angle})));
    }
    Tensor direct = b.empty({1, times, n}), rotated = b.empty({1, times, n});
    b.rotate(uploaded(b, d, {1, times, n}), uploaded(b, cosines, {times, half}), uploaded(b, sines, {times, half}),
             Turn::backward, direct, rotated);
    b.add(direct, rotated, direct);
    const auto slope = slopes(wide(x), [&](const Vector& v) {
        Vector y;
        for (std::int64_t i = 0; i < times * n; ++i) {
            const std::int64_t c = i % (2 * half), at = i / n * half + c % half;
            const double partner =
                c < half ? -v[static_cast<std::size_t>(i + half)] : v[static_cast<std::size_t>(i - half)];
            y.push_back(v[static_cast<std::size_t>(i)] * cosines[static_cast<std::size_t>(at)] +
                        partner * sines[static_cast<std::size_t>(at)]);
        }
        return dot(y, d);
    });
    check(downloaded(b, direct), slope, "rotation");
}

TEST_CASE("softmax_causal_backward is the derivative of softmax_causal", "[emulation][gradient]") {
    CpuBackend b(1);
    const std::int64_t n = 19, rows = 2 * n;
    const auto s = values(rows * n, 1), d = values(rows * n, 2);
    Tensor p = b.empty({2, n, n}), ds = b.empty({2, n, n});
    b.softmax_causal(uploaded(b, s, {2, n, n}), p);
    b.softmax_causal_backward(p, uploaded(b, d, {2, n, n}), ds);
    const auto slope = slopes(wide(s), [&](const Vector& v) {
        Vector y(v.size(), 0.0);
        for (std::int64_t r = 0; r < rows; ++r) {
            double sum = 0;
            for (std::int64_t i = 0; i <= r % n; ++i) sum += std::exp(v[static_cast<std::size_t>(r * n + i)]);
            for (std::int64_t i = 0; i <= r % n; ++i)
                y[static_cast<std::size_t>(r * n + i)] = std::exp(v[static_cast<std::size_t>(r * n + i)]) / sum;
        }
        return dot(y, d);
    });
    check(downloaded(b, ds), slope, "dscores");
}

TEST_CASE("nll_backward is the derivative of the mean loss, including log_softmax", "[emulation][gradient]") {
    CpuBackend b(1);
    const std::int64_t rows = 11, n = 23;
    const auto x = values(rows * n, 1);
    const auto target = tokens(rows, static_cast<std::int32_t>(n), 2);
    Tensor logp = b.empty({rows, n}), dx = b.empty({rows, n});
    const TokenTensor targets = uploaded_tokens(b, target, {rows});
    b.log_softmax(uploaded(b, x, {rows, n}), logp);
    b.nll_backward(logp, targets, 1.0f / static_cast<float>(rows), dx);
    const auto loss = [&](const Vector& v) {
        double total = 0;
        for (std::int64_t r = 0; r < rows; ++r) {
            double sum = 0;
            for (std::int64_t i = 0; i < n; ++i) sum += std::exp(v[static_cast<std::size_t>(r * n + i)]);
            total += std::log(sum) - v[static_cast<std::size_t>(r * n + target[static_cast<std::size_t>(r)])];
        }
        return total / double(rows);
    };
    check(downloaded(b, dx), slopes(wide(x), loss), "dlogits");
    CHECK(std::fabs(b.nll(logp, targets) - loss(wide(x))) <= 64 * 0x1p-24 * loss(wide(x)));
}

TEST_CASE("embedding_backward is the derivative of embedding, even if tokens are repeated", "[emulation][gradient]") {
    CpuBackend b(1);
    const std::int64_t batch = 3, times = 5, n = 6, vocabulary = 4;
    const auto wte = values(vocabulary * n, 1), wpe = values(times * n, 2), d = values(batch * times * n, 3);
    const auto which = tokens(batch * times, static_cast<std::int32_t>(vocabulary), 4);  // 15 draws from 4: some repeat
    const TokenTensor ids = uploaded_tokens(b, which, {batch, times});
    Tensor out = b.empty({batch, times, n}), dwte = b.empty({vocabulary, n}), dwpe = b.empty({times, n});
    b.embedding(ids, uploaded(b, wte, {vocabulary, n}), uploaded(b, wpe, {times, n}), out);
    b.embedding_backward(ids, uploaded(b, d, {batch, times, n}), dwte, dwpe);
    const auto forward = [&](const Vector& tokens_table, const Vector& positions) {
        Vector y;
        for (std::size_t r = 0; r < which.size(); ++r) {
            for (std::size_t c = 0; c < 6; ++c)
                y.push_back(tokens_table[static_cast<std::size_t>(which[r]) * 6 + c] + positions[r % 5 * 6 + c]);
        }
        return y;
    };
    const Vector y = forward(wide(wte), wide(wpe));
    CHECK(wide(downloaded(b, out)) == y);  // coarse values: the sums are exact
    check(downloaded(b, dwte), slopes(wide(wte), [&](const Vector& v) { return dot(forward(v, wide(wpe)), d); }),
          "dwte");
    check(downloaded(b, dwpe), slopes(wide(wpe), [&](const Vector& v) { return dot(forward(wide(wte), v), d); }),
          "dwpe");
}

}  // namespace gradient_test
