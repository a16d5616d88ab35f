// SPDX-License-Identifier: Apache-2.0
// Tests that the row, column and elementwise operations give the same bits on every engine, and that the values of the
// row and column operations are right. tests/emulation/elementwise_test.cpp tests the values of elementwise operations.
#include "tests/emulation/backends.hpp"
#include "tests/emulation/bounded.hpp"

#include <functional>

namespace ops_test {

using namespace macheps;
using namespace macheps::test;

namespace {

/// An operation on inputs of `rows` rows of length `n`. `run` returns the values of all output tensors, one tensor
/// after another.
struct Operation {
    std::string name;
    bool square;  ///< needs square matrices: T rows of T
    std::function<std::vector<float>(Backend&, std::int64_t rows, std::int64_t n, Operands, std::uint32_t seed)> run;
};

std::vector<float> joined(Backend& backend, std::initializer_list<ConstView> outputs) {
    std::vector<float> all;
    for (const ConstView& view : outputs) {
        const auto values = downloaded(backend, view);
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

/// Adds every elementwise operation in emulation/elementwise.hpp, with its backward form or with its form for a tensor
/// and a number.
void add_elementwise(std::vector<Operation>& all) {
    using std::int64_t;
    const auto input = [](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
        return uploaded(b, operands(kind, rows * n, seed), {rows, n});
    };
    for (const elementwise::Unary& f : elementwise::unaries) {
        all.push_back(
            {std::string(f.name), false, [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
                 const Tensor x = input(b, rows, n, kind, seed), y = input(b, rows, n, kind, seed + 1),
                              out = b.empty({rows, n}), dx = b.empty({rows, n});
                 b.map(f, x, out);
                 b.map_backward(f, x, y, dx);
                 return joined(b, {out, dx});
             }});
    }
    for (const elementwise::Binary& f : elementwise::binaries) {
        all.push_back(
            {std::string(f.name), false, [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
                 const Tensor x = input(b, rows, n, kind, seed), y = input(b, rows, n, kind, seed + 1),
                              out = b.empty({rows, n}), by_number = b.empty({rows, n});
                 b.map(f, x, y, out);
                 b.map(f, x, 0.3f, by_number);
                 return joined(b, {out, by_number});
             }});
    }
}

std::vector<Operation> make_operations() {
    using std::int64_t;
    const auto input = [](Backend& b, Shape shape, Operands kind, std::uint32_t seed) {
        return uploaded(b, operands(kind, shape.count(), seed), shape);
    };
    std::vector<Operation> all{
        {"rms_normalise", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n}), rstd = b.empty({rows});
             b.rms_normalise(input(b, {rows, n}, kind, seed), 1e-5f, out, rstd);
             return joined(b, {out, rstd});
         }},
        {"rms_normalise_backward", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor dx = b.empty({rows, n});
             b.rms_normalise_backward(input(b, {rows, n}, kind, seed), input(b, {rows}, kind, seed + 1),
                                      input(b, {rows, n}, kind, seed + 2), dx);
             return joined(b, {dx});
         }},
        {"multiply_columns", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n});
             b.multiply_columns(input(b, {rows, n}, kind, seed), input(b, {n}, kind, seed + 1), out);
             return joined(b, {out});
         }},
        {"rotate", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             // A row consists of two heads and three more columns.
             const int64_t half = (n + 3) / 4;
             const Tensor x = input(b, {1, rows, 4 * half + 3}, kind, seed),
                          cos = input(b, {rows + 1, half}, kind, seed + 1),
                          sin = input(b, {rows + 1, half}, kind, seed + 2);
             Tensor direct = b.empty({1, rows, 4 * half}), rotated = b.empty({1, rows, 4 * half}),
                    back = b.empty({1, rows, 4 * half});
             b.rotate(x, cos, sin, Turn::backward, direct, back);
             b.rotate(x, cos, sin, Turn::forward, direct, rotated);
             return joined(b, {direct, rotated, back});
         }},
        {"sum_head_groups", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const int64_t width = (n + 5) / 6;
             Tensor out = b.empty({1, 2, rows, width});
             b.sum_head_groups(input(b, {1, 6, rows, width}, kind, seed), out);
             return joined(b, {out});
         }},
        {"layernorm", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n}), mean = b.empty({rows}), rstd = b.empty({rows});
             b.layernorm(input(b, {rows, n}, kind, seed), input(b, {n}, kind, seed + 1), input(b, {n}, kind, seed + 2),
                         1e-5f, out, mean, rstd);
             return joined(b, {out, mean, rstd});
         }},
        {"layernorm_backward", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor dx = b.empty({rows, n}), dgamma = b.empty({n}), dbeta = b.empty({n});
             b.layernorm_backward(input(b, {rows, n}, kind, seed), input(b, {n}, kind, seed + 1),
                                  input(b, {rows}, kind, seed + 2), input(b, {rows}, kind, seed + 3),
                                  input(b, {rows, n}, kind, seed + 4), dx, dgamma, dbeta);
             return joined(b, {dx, dgamma, dbeta});
         }},
        {"softmax_causal", true,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n});
             b.softmax_causal(input(b, {rows, n}, kind, seed), out);
             return joined(b, {out});
         }},
        {"softmax_causal_backward", true,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n});
             b.softmax_causal_backward(input(b, {rows, n}, kind, seed), input(b, {rows, n}, kind, seed + 1), out);
             return joined(b, {out});
         }},
        {"log_softmax", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({rows, n});
             b.log_softmax(input(b, {rows, n}, kind, seed), out);
             return joined(b, {out});
         }},
        {"nll", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor targets = uploaded_tokens(b, tokens(rows, static_cast<std::int32_t>(n), seed), {rows});
             return std::vector<float>{b.nll(input(b, {rows, n}, kind, seed), targets)};
         }},
        {"cross_entropy", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor targets = uploaded_tokens(b, tokens(rows, static_cast<std::int32_t>(n), seed), {rows});
             const auto bits = bit_cast<std::uint64_t>(b.cross_entropy(input(b, {rows, n}, kind, seed), targets));
             return std::vector<float>{bit_cast<float>(static_cast<std::uint32_t>(bits)),
                                       bit_cast<float>(static_cast<std::uint32_t>(bits >> 32))};
         }},
        {"nll_backward", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor targets = uploaded_tokens(b, tokens(rows, static_cast<std::int32_t>(n), seed), {rows});
             Tensor dx = b.empty({rows, n});
             b.nll_backward(input(b, {rows, n}, kind, seed), targets, 0.1f, dx);
             return joined(b, {dx});
         }},
        {"column_sum", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             Tensor out = b.empty({n});
             b.column_sum(input(b, {rows, n}, kind, seed), out);
             return joined(b, {out});
         }},
        {"embedding", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor which = uploaded_tokens(b, tokens(2 * rows, 7, seed), {2, rows});
             Tensor out = b.empty({2, rows, n});
             b.embedding(which, input(b, {7, n}, kind, seed), input(b, {rows + 1, n}, kind, seed + 1), out);
             return joined(b, {out});
         }},
        {"embedding_backward", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor which = uploaded_tokens(b, tokens(2 * rows, 7, seed), {2, rows});
             Tensor dwte = b.empty({7, n}), dwpe = b.empty({rows + 1, n});
             b.embedding_backward(which, input(b, {2, rows, n}, kind, seed), dwte, dwpe);
             return joined(b, {dwte, dwpe});
         }},
        {"embedding without positions", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const TokenTensor which = uploaded_tokens(b, tokens(2 * rows, 7, seed), {2, rows});
             Tensor out = b.empty({2, rows, n}), dwte = b.empty({7, n});
             b.embedding(which, input(b, {7, n}, kind, seed), {}, out);
             b.embedding_backward(which, input(b, {2, rows, n}, kind, seed + 1), dwte, {});
             return joined(b, {out, dwte});
         }},
        {"sum_of_squares", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             return std::vector<float>{b.sum_of_squares(input(b, {rows, n}, kind, seed))};
         }},
        {"amax", false,
         [=](Backend& b, int64_t rows, int64_t n, Operands kind, std::uint32_t seed) {
             const Tensor x = input(b, {rows, n}, kind, seed);
             return std::vector<float>{b.amax(x), b.any_nonfinite(x) ? 1.0f : 0.0f};
         }},
    };
    add_elementwise(all);
    return all;
}

const std::vector<Operation>& operations() {
    static const std::vector<Operation> all = make_operations();
    return all;
}

/// Lengths around the vector lengths, the 32 lanes and the chunks of 1024.
constexpr std::int64_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1023, 1024, 1025, 2049};

std::string kind_name(Operands kind) {
    constexpr const char* names[] = {"plain", "wild", "hostile", "all_bits"};
    return names[static_cast<int>(kind)];
}

}  // namespace

TEST_CASE("every engine returns the bits of the scalar definition", "[emulation][ops]") {
    for (const Operation& operation : operations()) {
        // Creates new engines for each operation. The engine that runs GPU kernels on the host unlocks and locks all
        // its memory in each launch (mprotect), so that launches become slow when it holds much memory.
        const auto engines = backends({1, 3});
        for (const std::int64_t n : lengths) {
            for (const std::int64_t count : {1, 3, 17}) {
                const bool large_square = operation.square && n > 200;
                if (large_square && count > 1) continue;
                const std::int64_t rows = operation.square ? count * n : count;
                for (const Operands kind : {Operands::plain, Operands::wild, Operands::hostile, Operands::all_bits}) {
                    if (large_square && kind != Operands::hostile) continue;
                    const auto seed = static_cast<std::uint32_t>(n * 8 + rows);
                    const auto expected = operation.run(*engines[0], rows, n, kind, seed);
                    for (std::size_t e = 1; e < engines.size(); ++e) {
                        const auto found = differences(operation.run(*engines[e], rows, n, kind, seed), expected);
                        if (found.empty()) continue;
                        FAIL_CHECK(operation.name << " [" << rows << "," << n << "] " << kind_name(kind) << " on "
                                                  << engines[e]->name() << ":\n"
                                                  << found);
                    }
                }
            }
        }
    }
    SUCCEED();
}

TEST_CASE("operations on many rows give the same bits with any number of threads", "[emulation][ops]") {
    const auto engines = backends({1, 2, 3, 5});
    for (const Operation& operation : operations()) {
        const std::int64_t n = operation.square ? 97 : 301, rows = operation.square ? 97 * 8 : 1000;
        const auto expected = operation.run(*engines[0], rows, n, Operands::wild, 1);
        for (const auto& engine : engines) {
            const auto found = differences(operation.run(*engine, rows, n, Operands::wild, 1), expected);
            if (!found.empty()) FAIL_CHECK(operation.name << " on " << engine->name() << ":\n" << found);
        }
    }
    SUCCEED();
}

TEST_CASE("every NaN that an operation returns is the canonical NaN", "[emulation][ops]") {
    const auto engines = backends({1});
    for (const Operation& operation : operations()) {
        // These operations return a single value. The test that compares engines checks all bits of this value.
        if (operation.name == "nll" || operation.name == "cross_entropy") continue;
        for (const auto& engine : engines) {
            bool any = false, canonical = true;
            for (const float x : operation.run(*engine, 65, 65, Operands::all_bits, 3)) {
                if (x == x) continue;
                any = true;
                canonical = canonical && bit_cast<std::uint32_t>(x) == 0x7fc00000u;
            }
            CAPTURE(operation.name, engine->name());
            CHECK((any && canonical));
        }
    }
}

// --- values

TEST_CASE("layernorm and its backward are within their running error bounds", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t n : lengths) {
        const std::int64_t rows = 5;
        const std::size_t m = static_cast<std::size_t>(n);
        const auto x = operands(Operands::plain, rows * n, 1), gamma = operands(Operands::plain, n, 2),
                   beta = operands(Operands::plain, n, 3), dout = operands(Operands::plain, rows * n, 4);
        Tensor in = uploaded(b, x, {rows, n}), g = uploaded(b, gamma, {n}), out = b.empty({rows, n}),
               mean = b.empty({rows}), rstd = b.empty({rows}), dx = b.empty({rows, n}), dgamma = b.empty({n}),
               dbeta = b.empty({n});
        const float eps = 0.125f;  // large enough to avoid complete cancellation in rows of one element
        b.layernorm(in, g, uploaded(b, beta, {n}), eps, out, mean, rstd);
        b.layernorm_backward(in, g, mean, rstd, uploaded(b, dout, {rows, n}), dx, dgamma, dbeta);
        const auto means = downloaded(b, mean), rstds = downloaded(b, rstd);

        std::vector<Bounded> mean_want, rstd_want, out_want, dx_want, dgamma_want(m), dbeta_want(m);
        std::vector<std::vector<Bounded>> gamma_terms(m), beta_terms(m);
        for (std::int64_t r = 0; r < rows; ++r) {
            std::vector<Bounded> row(x.begin() + r * n, x.begin() + (r + 1) * n), squares, gs, gxs, xhats;
            const Bounded mu = lane_sum(row) / Bounded(double(n));
            for (const Bounded& v : row) squares.push_back((v - mu) * (v - mu));
            const Bounded inverse = Bounded(1) / sqrt(lane_sum(squares) / Bounded(double(n)) + Bounded(double{eps}));
            mean_want.push_back(mu);
            rstd_want.push_back(inverse);
            for (std::size_t i = 0; i < m; ++i) {
                out_want.push_back(((row[i] - mu) * inverse) * Bounded(double{gamma[i]}) + Bounded(double{beta[i]}));
                // The backward operation takes the computed mean and rstd as exact inputs.
                const auto at = static_cast<std::size_t>(r);
                const Bounded xhat = (row[i] - Bounded(double{means[at]})) * Bounded(double{rstds[at]});
                const Bounded d = double{dout[at * m + i]};
                xhats.push_back(xhat);
                gs.push_back(d * Bounded(double{gamma[i]}));
                gxs.push_back(gs[i] * xhat);
                gamma_terms[i].push_back(d * xhat);
                beta_terms[i].push_back(d);
            }
            const Bounded g_mean = lane_sum(gs) / Bounded(double(n)), gx_mean = lane_sum(gxs) / Bounded(double(n));
            for (std::size_t i = 0; i < m; ++i) {
                dx_want.push_back(Bounded(double{rstds[static_cast<std::size_t>(r)]}) *
                                  ((gs[i] - g_mean) - xhats[i] * gx_mean));
            }
        }
        for (std::size_t i = 0; i < m; ++i) {
            dgamma_want[i] = sum(gamma_terms[i], static_cast<std::size_t>(rows));
            dbeta_want[i] = sum(beta_terms[i], static_cast<std::size_t>(rows));
        }
        const std::string where = fmt::format(" of {} columns", n);
        check_within(means, mean_want, "mean" + where);
        check_within(rstds, rstd_want, "rstd" + where);
        check_within(downloaded(b, out), out_want, "out" + where);
        check_within(downloaded(b, dx), dx_want, "dx" + where);
        check_within(downloaded(b, dgamma), dgamma_want, "dgamma" + where);
        check_within(downloaded(b, dbeta), dbeta_want, "dbeta" + where);
    }
}

TEST_CASE("multiply and multiply_columns return correctly rounded products", "[emulation][ops]") {
    CpuBackend b(2);
    const std::int64_t rows = 11, n = 300;
    const auto x = operands(Operands::wild, rows * n, 1), y = operands(Operands::wild, rows * n, 2),
               factors = operands(Operands::wild, n, 3);
    Tensor product = b.empty({rows, n}), weighted = b.empty({rows, n}), in = uploaded(b, x, {rows, n});
    b.multiply(in, uploaded(b, y, {rows, n}), product);
    b.multiply_columns(in, uploaded(b, factors, {n}), weighted);
    std::vector<float> products, weighted_products;
    for (std::size_t i = 0; i < x.size(); ++i) {
        products.push_back(static_cast<float>(double{x[i]} * double{y[i]}));
        weighted_products.push_back(static_cast<float>(double{x[i]} * double{factors[i % 300]}));
    }
    CHECK(differences(downloaded(b, product), products) == "");
    CHECK(differences(downloaded(b, weighted), weighted_products) == "");
}

TEST_CASE("rms_normalise and its backward are within their running error bounds", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t n : lengths) {
        const std::int64_t rows = 5;
        const std::size_t m = static_cast<std::size_t>(n);
        const auto x = operands(Operands::plain, rows * n, 1), dout = operands(Operands::plain, rows * n, 4);
        Tensor in = uploaded(b, x, {rows, n}), out = b.empty({rows, n}), rstd = b.empty({rows}),
               dx = b.empty({rows, n});
        const float eps = 0.125f;  // large enough to avoid complete cancellation in rows of one element
        b.rms_normalise(in, eps, out, rstd);
        b.rms_normalise_backward(in, rstd, uploaded(b, dout, {rows, n}), dx);
        const auto rstds = downloaded(b, rstd);
        std::vector<Bounded> rstd_want, out_want, dx_want;
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
            std::vector<Bounded> squares, terms, xhats;
            const Bounded given = double{rstds[r]};  // an exact input of the backward operation
            for (std::size_t i = 0; i < m; ++i) {
                const Bounded v = double{x[r * m + i]};
                squares.push_back(v * v);
                xhats.push_back(v * given);
                terms.push_back(Bounded(double{dout[r * m + i]}) * xhats[i]);
            }
            const Bounded inverse = Bounded(1) / sqrt(lane_sum(squares) / Bounded(double(n)) + Bounded(double{eps}));
            const Bounded mean = lane_sum(terms) / Bounded(double(n));
            rstd_want.push_back(inverse);
            for (std::size_t i = 0; i < m; ++i) {
                out_want.push_back(Bounded(double{x[r * m + i]}) * inverse);
                dx_want.push_back(given * (Bounded(double{dout[r * m + i]}) - xhats[i] * mean));
            }
        }
        const std::string where = fmt::format(" of {} columns", n);
        check_within(rstds, rstd_want, "rstd" + where);
        check_within(downloaded(b, out), out_want, "out" + where);
        check_within(downloaded(b, dx), dx_want, "dx" + where);
    }
}

TEST_CASE("rotate returns two parts, whose sum is the forward or backward rotation of pairs", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t half : {1, 2, 7, 8, 16, 17, 33}) {
        const std::int64_t batch = 2, times = 3, heads = 2, width = 2 * half, extra = 5,
                           columns = heads * width + extra;
        const auto x = operands(Operands::plain, batch * times * columns, 1),
                   angles = operands(Operands::plain, times * half, 2);
        std::vector<float> cosines, sines;
        for (const float angle : angles) {
            cosines.push_back(static_cast<float>(std::cos(double{angle})));
            sines.push_back(static_cast<float>(std::sin(double{angle})));
        }
        Tensor in = uploaded(b, x, {batch, times, columns}), cos = uploaded(b, cosines, {times, half}),
               sin = uploaded(b, sines, {times, half});
        for (const Turn turn : {Turn::forward, Turn::backward}) {
            Tensor direct = b.empty({batch, times, heads * width}), rotated = b.empty(direct.shape());
            b.rotate(in, cos, sin, turn, direct, rotated);
            const auto one = downloaded(b, direct), other = downloaded(b, rotated);
            std::vector<float> want_one, want_other;
            std::vector<double> sums;
            for (std::int64_t r = 0; r < batch * times; ++r) {
                for (std::int64_t c = 0; c < heads * width; ++c) {
                    const std::int64_t i = c % width % half, at = r % times * half + i;
                    const bool first = c % width < half;
                    const double own = x[static_cast<std::size_t>(r * columns + c)],
                                 partner = x[static_cast<std::size_t>(r * columns + (first ? c + half : c - half))];
                    const double sign = first == (turn == Turn::forward) ? -1 : 1;
                    const auto angle = static_cast<std::size_t>(at);
                    want_one.push_back(static_cast<float>(own * cosines[angle]));
                    want_other.push_back(static_cast<float>(sign * partner * sines[angle]));
                    // The pair (a, b) is rotated to (a cos - b sin, b cos + a sin), by the angle or by its negative.
                    sums.push_back(own * std::cos(double{angles[angle]}) +
                                   sign * partner * std::sin(double{angles[angle]}));
                }
            }
            CAPTURE(half);
            CHECK(differences(one, want_one) == "");  // an fp64 product of floats is exact
            CHECK(differences(other, want_other) == "");
            double worst = 0;
            for (std::size_t i = 0; i < sums.size(); ++i)
                worst = std::max(worst, std::fabs(double{one[i]} + double{other[i]} - sums[i]));
            // A sum has two products of magnitude at most 2. In each product, the factor from the table and the product
            // itself are rounded.
            CHECK(worst <= 4 * 0x1p-24 * 2 * 2);
        }
    }
}

TEST_CASE("sum_head_groups adds neighbouring heads in their order", "[emulation][ops]") {
    for (const auto& engine : backends({1, 3})) {
        Backend& b = *engine;
        CAPTURE(b.name());
        Tensor out = b.empty({1, 2, 1, 2});
        // The first sum is that of heads 0 to 2, and the second that of heads 3 to 5. In this order, 2^24 absorbs
        // each 1.
        b.sum_head_groups(uploaded(b, {0x1p24f, 1, 1, 2, 1, 3, 1, -0.0f, 1, -0.0f, 0x1p24f, -0.0f}, {1, 6, 1, 2}), out);
        CHECK(differences(downloaded(b, out), {0x1p24f, 6, 0x1p24f + 2, 0}) == "");
    }
}

TEST_CASE("causal softmax and its backward are within their running error bounds", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t n : {1, 2, 17, 32, 33, 100, 1025}) {
        const auto s = operands(Operands::plain, n * n, 1), d = operands(Operands::plain, n * n, 2);
        Tensor p = b.empty({n, n}), ds = b.empty({n, n});
        b.softmax_causal(uploaded(b, s, {n, n}), p);
        const auto probabilities = downloaded(b, p);
        b.softmax_causal_backward(p, uploaded(b, d, {n, n}), ds);
        std::vector<Bounded> p_want, ds_want;
        std::size_t masked_nonzero = 0, row_sums_off = 0;
        const auto gradients = downloaded(b, ds);
        for (std::int64_t r = 0; r < n; ++r) {
            const auto row = static_cast<std::size_t>(r * n), visible = static_cast<std::size_t>(r + 1);
            double top = s[row];
            for (std::size_t i = 0; i < visible; ++i) top = std::max(top, double{s[row + i]});
            std::vector<Bounded> es, products;
            for (std::size_t i = 0; i < visible; ++i) {
                es.push_back(exp(Bounded(double{s[row + i]}) - Bounded(top)));
                products.push_back(Bounded(double{probabilities[row + i]}) * Bounded(double{d[row + i]}));
            }
            const Bounded total = lane_sum(es), inner = lane_sum(products);
            double row_sum = 0, row_error = 0;
            for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
                const bool seen = i < visible;
                p_want.push_back(seen ? es[i] / total : Bounded());
                ds_want.push_back(seen ? Bounded(double{probabilities[row + i]}) * (Bounded(double{d[row + i]}) - inner)
                                       : Bounded());
                row_sum += probabilities[row + i];
                row_error += p_want.back().error;
                if (seen) continue;
                masked_nonzero += bit_cast<std::uint32_t>(probabilities[row + i]) != 0;
                masked_nonzero += bit_cast<std::uint32_t>(gradients[row + i]) != 0;
            }
            row_sums_off += !(std::fabs(row_sum - 1) <= row_error);
        }
        CAPTURE(n);
        CHECK(masked_nonzero == 0);  // exactly +0
        CHECK(row_sums_off == 0);
        check_within(probabilities, p_want, fmt::format("softmax of {}", n));
        check_within(gradients, ds_want, fmt::format("softmax_backward of {}", n));
    }
}

TEST_CASE("log_softmax, nll and nll_backward are within their running error bounds", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t n : lengths) {
        const std::int64_t rows = 7;
        const auto x = operands(Operands::plain, rows * n, 1);
        const auto target = tokens(rows, static_cast<std::int32_t>(n), 9);
        Tensor out = b.empty({rows, n}), dx = b.empty({rows, n});
        const TokenTensor targets = uploaded_tokens(b, target, {rows});
        b.log_softmax(uploaded(b, x, {rows, n}), out);
        const float factor = 0.3f;
        b.nll_backward(out, targets, factor, dx);
        const auto logp = downloaded(b, out);
        std::vector<Bounded> want, dx_want, losses;
        for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
            const std::size_t row = r * static_cast<std::size_t>(n);
            double top = x[row];
            for (std::int64_t i = 0; i < n; ++i) top = std::max(top, double{x[row + static_cast<std::size_t>(i)]});
            std::vector<Bounded> es;
            for (std::int64_t i = 0; i < n; ++i)
                es.push_back(exp(Bounded(double{x[row + static_cast<std::size_t>(i)]}) - Bounded(top)));
            const Bounded total = Bounded(top) + log(lane_sum(es));
            for (std::int64_t i = 0; i < n; ++i) {
                const std::size_t at = row + static_cast<std::size_t>(i);
                want.push_back(Bounded(double{x[at]}) - total);
                const double hit = i == target[r] ? 1 : 0;
                dx_want.push_back((exp(Bounded(double{logp[at]})) - Bounded(hit)) * Bounded(double{factor}));
            }
            losses.push_back(Bounded(-double{logp[row + static_cast<std::size_t>(target[r])]}));
        }
        check_within(logp, want, fmt::format("log_softmax of {}", n));
        check_within({b.nll(out, targets)}, {lane_sum(losses) / Bounded(double(rows))}, fmt::format("nll of {}", n));
        check_within(downloaded(b, dx), dx_want, fmt::format("nll_backward of {}", n));
    }
}

TEST_CASE("cross_entropy is the cross entropy of the logits with the rounding errors of fp64", "[emulation][ops]") {
    CpuBackend b(2);
    for (const std::int64_t n : lengths) {
        for (const Operands kind : {Operands::plain, Operands::wild}) {
            const std::int64_t rows = 7;
            const auto x = operands(kind, rows * n, 3);
            const auto target = tokens(rows, static_cast<std::int32_t>(n), 9);
            // The reference is computed in long double, with 64 bits. In the sum of n exponentials, the relative errors
            // of n/32 + 7 + 1 roundings add up. The relative error of the sum is also the absolute error that it causes
            // in the logarithm of the sum. The logarithm, the difference, their sum and the mean add one rounding each.
            long double want = 0, error = 0;
            for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
                const auto row = std::span(x).subspan(r * static_cast<std::size_t>(n), static_cast<std::size_t>(n));
                long double top = row[0], sum = 0;
                for (const float value : row) top = std::max(top, static_cast<long double>(value));
                for (const float value : row) sum += std::exp(value - top);
                const long double below = top - row[static_cast<std::size_t>(target[r])];
                want += std::log(sum) + below;
                error += static_cast<long double>(n) / 32 + 8 + 4 * std::log(sum) + 3 * below;
            }
            want /= rows;
            error = (error / rows + 8 * want) * 0x1p-53L;
            const double got = b.cross_entropy(uploaded(b, x, {rows, n}), uploaded_tokens(b, target, {rows}));
            CAPTURE(n, got, static_cast<double>(want), static_cast<double>(error));
            CHECK(std::fabs(got - want) <= error);
        }
    }
    const TokenTensor first = uploaded_tokens(b, {0}, {1});
    const auto of = [&](std::vector<float> row) {
        return b.cross_entropy(uploaded(b, row, {1, static_cast<std::int64_t>(row.size())}), first);
    };
    CHECK(of({0}) == 0);
    CHECK(of({1000, -1000}) == 0);
    CHECK(of({-1000, 1000}) == 2000);
    CHECK(of({-HUGE_VALF, 0}) == HUGE_VAL);
    for (const float bad : {HUGE_VALF, std::nanf("")}) {
        CHECK(bit_cast<std::uint64_t>(of({0, bad})) == 0x7ff8000000000000u);
        CHECK(bit_cast<std::uint64_t>(of({bad, 0})) == 0x7ff8000000000000u);
    }
}

TEST_CASE("column sums, sums of squares and embedding gradients are within their running error bounds",
          "[emulation][ops]") {
    CpuBackend b(2);
    const std::int64_t batch = 4, times = 9, n = 70, rows = batch * times, vocabulary = 5;
    const auto x = operands(Operands::plain, rows * n, 1);
    const auto which = tokens(rows, static_cast<std::int32_t>(vocabulary), 2);  // 36 draws from 5: all repeat
    Tensor in = uploaded(b, x, {batch, times, n}), columns = b.empty({n}), dwte = b.empty({vocabulary, n}),
           dwpe = b.empty({times + 2, n});
    b.column_sum(in, columns);
    b.embedding_backward(uploaded_tokens(b, which, {batch, times}), in, dwte, dwpe);
    std::vector<std::vector<Bounded>> column_terms(70), wte_terms(5 * 70), wpe_terms(11 * 70);
    std::vector<Bounded> squares;
    for (std::size_t r = 0; r < 36; ++r) {
        for (std::size_t c = 0; c < 70; ++c) {
            const Bounded v = double{x[r * 70 + c]};
            column_terms[c].push_back(v);
            wte_terms[static_cast<std::size_t>(which[r]) * 70 + c].push_back(v);
            wpe_terms[r % 9 * 70 + c].push_back(v);
            squares.push_back(v * v);
        }
    }
    const auto summed = [](const std::vector<std::vector<Bounded>>& all) {
        std::vector<Bounded> sums;
        for (const auto& terms : all) sums.push_back(sum(terms, terms.size()));
        return sums;
    };
    check_within(downloaded(b, columns), summed(column_terms), "column_sum");
    check_within(downloaded(b, dwte), summed(wte_terms), "dwte");
    check_within(downloaded(b, dwpe), summed(wpe_terms), "dwpe");
    check_within({b.sum_of_squares(in)}, {lane_sum(squares)}, "sum_of_squares");
}

TEST_CASE("reductions add in their documented orders", "[emulation][ops]") {
    for (const auto& engine : backends({1, 3})) {
        Backend& b = *engine;
        CAPTURE(b.name());
        // 2^24 absorbs a single 1, but not a sum of several ones.
        std::vector<float> x(64, 1.0f);
        x[0] = 0x1p12f;  // squared: 2^24 in lane 0, which also takes element 32
        // Lane 0: 2^24 + 1 = 2^24. The fold adds the other 31 lanes, which hold 2 each: 2^24 + 2 * 31.
        CHECK(b.sum_of_squares(uploaded(b, x, {64})) == 0x1p24f + 62);
        Tensor out = b.empty({1});
        std::vector<float> column(64, 1.0f);
        column[0] = 0x1p24f;
        b.column_sum(uploaded(b, column, {64, 1}), out);
        CHECK(downloaded(b, out)[0] == 0x1p24f);  // in row order every 1 is absorbed
        // 2048 elements are two chunks. Element 1024 begins the second chunk, where the ones are added before they meet
        // 2^24.
        std::vector<float> y(2048, 0.0f);
        y[0] = 0x1p12f;
        y[1024] = y[1056] = 1.0f;
        CHECK(b.sum_of_squares(uploaded(b, y, {2048})) == 0x1p24f + 2);
        y[1056] = 0.0f;
        y[32] = 1.0f;
        CHECK(b.sum_of_squares(uploaded(b, y, {2048})) == 0x1p24f);
    }
}

TEST_CASE("softmax and log_softmax handle rows with infinities and NaN", "[emulation][ops]") {
    const float inf = bit_cast<float>(0x7f800000u), nan = bit_cast<float>(0x7fc00000u);
    for (const auto& engine : backends({1})) {
        Backend& b = *engine;
        CAPTURE(b.name());
        Tensor out = b.empty({3, 3});
        b.softmax_causal(uploaded(b, {7, nan, inf, -inf, 1, nan, 0x1.fffffep127f, -0x1.fffffep127f, -inf}, {3, 3}),
                         out);
        // A NaN in the masked part has no effect.
        CHECK(differences(downloaded(b, out), {1, 0, 0, 0, 1, 0, 1, 0, 0}) == "");
        b.softmax_causal(uploaded(b, {-inf, 0, 0, inf, 0, 0, 1, nan, 1}, {3, 3}), out);
        CHECK(differences(downloaded(b, out), {nan, 0, 0, nan, nan, 0, nan, nan, nan}) == "");
        b.log_softmax(uploaded(b, {5, -inf, -inf, inf, 0, 0, 0, nan, 0}, {3, 3}), out);
        CHECK(differences(downloaded(b, out), {0, -inf, -inf, nan, nan, nan, nan, nan, nan}) == "");
    }
}

}  // namespace ops_test
