// SPDX-License-Identifier: Apache-2.0
// Tests Cholesky and QR: compares the kernels with loops over Float, and solves systems with both factorisations.
#include "core/error.hpp"
#include "core/types/float.hpp"
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/cholesky.hpp"
#include "experiments/study/solve/factor/definitions.hpp"
#include "experiments/study/solve/factor/qr.hpp"
#include "experiments/study/solve/gallery.hpp"
#include "experiments/study/solve/solve.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

namespace factorisations_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;

namespace {

Matrix rounded_to(const Format& format, Matrix a) {
    CastCounts counts;
    return cast_matrix(a, {}, format, counts);
}

/// Returns a random symmetric matrix. Unless it is `wild`, it is diagonally dominant and therefore definite. A wild
/// matrix may contain huge numbers, infinities and NaN.
Matrix drawn_matrix(const Format& format, std::int64_t n, std::uint64_t seed, bool wild) {
    std::mt19937_64 random(seed);
    Matrix a(n);
    const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
            double x = i == j ? 2 + uniform() : (2 * uniform() - 1) / 4;
            switch (random() % 40) {
                case 0:
                    x = std::ldexp(x, format.emin() - 1);
                    break;
                case 1:
                    x = random() % 2 != 0 ? 0.0 : -0.0;
                    break;
                case 2:
                    if (wild)
                        x = random() % 3 == 0 ? NAN : random() % 2 != 0 ? INFINITY : std::ldexp(x, -format.emin());
                    break;
                default:
                    break;
            }
            if (!wild && i == j) x = 2 + uniform();
            a(i, j) = a(j, i) = x;
        }
    }
    return rounded_to(format, a);
}

template <Format F>
std::vector<Float<F>> as_floats(const std::vector<double>& values) {
    std::vector<Float<F>> out;
    for (const double x : values) out.push_back(Float<F>(x));
    return out;
}

template <Format F>
std::size_t different(const std::vector<double>& got, const std::vector<Float<F>>& want) {
    std::size_t count = got.size() != want.size();
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
        const bool both_nan = got[i] != got[i] && isnan(want[i]);
        count += !both_nan && std::bit_cast<std::uint64_t>(got[i]) != std::bit_cast<std::uint64_t>(double(want[i]));
    }
    return count;
}

/// Compares the kernels of both factorisations with their definitions, which are loops over Float.
template <Format F>
void compare(std::int64_t n, bool wild, const std::vector<Simd>& levels, int threads) {
    ThreadPool pool(threads);
    for (std::uint64_t seed = 0; seed < (n < 30 ? 8 : 1); ++seed) {
        const Matrix a = drawn_matrix(F, n, seed, wild);
        std::vector<Float<F>> l = as_floats<F>(a.values), v = l, diagonal, betas;
        const bool definite = study::definition::cholesky(n, l.data()),
                   has_rank = study::definition::qr(n, v.data(), diagonal, betas);
        for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t j = i + 1; j < n; ++j) {
                l[static_cast<std::size_t>(i * n + j)] = l[static_cast<std::size_t>(j * n + i)];
            }
        }
        if (!wild) CHECK((definite && has_rank));
        for (const Simd simd : levels) {
            CAPTURE(F.bits, F.precision, n, seed, simd_name(simd), wild, threads);
            const Factors cholesky = factor_cholesky(a, F, pool, simd), qr = factor_qr(a, F, pool, simd);
            CHECK(different(cholesky.lu.values, l) == 0);
            CHECK(different(qr.lu.values, v) == 0);
            CHECK(different(qr.diagonal, diagonal) == 0);
            CHECK(different(qr.betas, betas) == 0);
            CHECK((!cholesky.is_regular || definite));
            CHECK((!qr.is_regular || has_rank));
            if (wild) continue;
            CHECK(cholesky.is_regular);
            CHECK(qr.is_regular);
            // Bounds of the backward errors from theory (Higham 2002, 10.4 and 19.4), without their constants.
            const double u = F.unit_roundoff(), size = static_cast<double>(n);
            CHECK(lu_error(a, cholesky) <= 2 * size * u);
            CHECK(lu_error(a, qr) <= 4 * size * u);
        }
    }
}

}  // namespace

TEST_CASE("symmetric scaling brings the largest element of a diagonal into [0.5, 2), whatever the sign of its exponent",
          "[analysis]") {
    for (int exponent = -9; exponent <= 9; ++exponent) {
        for (const double significand : {1.0, 1.5, 1.999}) {
            Matrix a(1);
            a(0, 0) = std::ldexp(significand, exponent);
            const Equilibration scaling = equilibrate(a, fp16, Scale::symmetric);
            CAPTURE(exponent, significand);
            const double scaled = std::ldexp(a(0, 0), scaling.row(0) + scaling.column(0));
            CHECK((scaled >= 0.5 && scaled < 2));
        }
    }
}

TEST_CASE("a row or a column that is rounded to zeros is detected", "[analysis]") {
    struct Case {
        double values[4];
        bool empties;
    };
    // 2^-30 is rounded to zero in fp16.
    for (const Case& c :
         {Case{{1, 1, 1, 1}, false}, Case{{1, 0x1p-30, 1, 1}, false}, Case{{1, 0x1p-30, 1, 0x1p-30}, true},
          Case{{1, 1, 0x1p-30, 0x1p-30}, true}, Case{{1, 0, 1, 0}, false}, Case{{0, 0, 1, 1}, false}}) {
        Matrix a(2);
        std::copy(std::begin(c.values), std::end(c.values), a.values.begin());
        CastCounts counts;
        cast_matrix(a, {}, fp16, counts);
        CAPTURE(c.values[0], c.values[1], c.values[2], c.values[3]);
        CHECK(counts.empties_line == c.empties);
    }
}

TEST_CASE("Cholesky and QR give the same bits as loops over Float, on every instruction set",
          "[analysis][factorisations]") {
    for (const bool wild : {false, true}) {
        compare<fp16>(15, wild, available_simd(), 1);
        compare<bf16>(15, wild, available_simd(), 1);
        compare<tf32>(15, wild, available_simd(), 1);
        compare<e4m3fn>(11, wild, available_simd(), 1);
        compare<e5m2>(11, wild, available_simd(), 1);
        compare<e4m3fnuz>(11, wild, available_simd(), 1);
        compare<fp32>(15, wild, available_simd(), 1);
        compare<fp64>(15, wild, available_simd(), 1);
    }
}

TEST_CASE("Cholesky and QR have the same bits on several threads", "[analysis][factorisations]") {
    ThreadPool one(1), three(3);
    const Matrix a = drawn_matrix(fp16, 420, 3, false);
    CHECK(factor_cholesky(a, fp16, one).lu == factor_cholesky(a, fp16, three).lu);
    const Factors qr = factor_qr(a, fp16, one), dealt = factor_qr(a, fp16, three);
    CHECK(qr.lu == dealt.lu);
    CHECK(qr.betas == dealt.betas);
}

TEST_CASE("Cholesky refuses matrices that are not definite, and QR refuses matrices without full rank",
          "[analysis][factorisations]") {
    ThreadPool pool(1);
    Matrix a(2);
    a.values = {1, 2, 2, 1};
    CHECK_FALSE(factor_cholesky(a, fp16, pool).is_regular);
    CHECK(factor_qr(a, fp16, pool).is_regular);
    a.values = {1, 1, 1, 1};
    CHECK_FALSE(factor_cholesky(a, fp16, pool).is_regular);
    CHECK(lu_error(a, factor_cholesky(a, fp16, pool)) >= 0);
    a.values = {0, 1, 0, 1};
    CHECK_FALSE(factor_qr(a, fp16, pool).is_regular);
    // The Householder reflection of (3, 4), computed by hand: the diagonal element is -5, and v = (0.75 + 1.25, 1)
    // after the division by 4.
    a.values = {3, 1, 4, 2};
    const Factors qr = factor_qr(a, fp16, pool);
    CHECK(qr.diagonal[0] == -5);
    CHECK(qr.lu(0, 0) == 2);
    CHECK(qr.lu(1, 0) == 1);
    CHECK(qr.betas[0] == double(Float<fp16>(0.4)));
}

TEST_CASE("systems are solved with every factorisation, and refined", "[analysis][factorisations]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("tridiag:1,4,1"), parse_matrix("tridiag:-1,2,-1")};
    grid.sizes = {12};
    grid.factors = {fp16, bf16};
    grid.factorisations = {Factorisation::lu, Factorisation::cholesky, Factorisation::qr};
    grid.methods = {Method::lu, Method::ir, Method::gmres_ir};
    ThreadPool pool(2);
    require_possible(grid);
    std::size_t rows = 0;
    run_solve(pool, grid, [&](const SolveRow& row) {
        CAPTURE(row.matrix, row.lu, row.factor, row.method);
        ++rows;
        CHECK((row.verdict == "converged" || row.verdict == "unrefined"));
        if (row.method == "gmres-ir") CHECK(row.verdict == "converged");
        // If the unit roundoff of the factors is u_f, the first solution has an error of about kappa u_f and of at most
        // n kappa u_f.
        CHECK(*row.fe_first <= 12 * *row.kappa * (row.factor == "fp16" ? 0x1p-11 : 0x1p-8));
        CHECK(row.lu_error <= 4 * 12 * (row.factor == "fp16" ? 0x1p-11 : 0x1p-8));
    });
    CHECK(rows == 2 * 2 * 3 * 3);
    CHECK(cost_of(grid, 1).flops == Approx(2 * 2 * (2.0 / 3 + 1.0 / 3 + 4.0 / 3) * 1728));
}

TEST_CASE("a shift keeps a matrix definite if rounding without the shift makes the matrix indefinite",
          "[analysis][factorisations]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("hilbert")};
    grid.sizes = {12};
    grid.factors = {fp16};
    grid.factorisations = {Factorisation::cholesky};
    grid.methods = {Method::gmres_ir};
    ThreadPool pool(1);
    const auto verdict = [&](double shift) {
        grid.shift = shift;
        require_possible(grid);
        std::string words;
        run_solve(pool, grid, [&](const SolveRow& row) { words = row.lu + " " + row.scale + " " + row.verdict; });
        return words;
    };
    CHECK(verdict(0) == "cholesky symmetric indefinite");
    CHECK(verdict(4) == "cholesky+shift:4 symmetric converged");
}

TEST_CASE("matrices and options that a factorisation does not support are refused", "[analysis][factorisations]") {
    ThreadPool pool(1);
    SolveGrid grid;
    grid.matrices = {parse_matrix("uniform")};
    grid.factors = {fp16};
    grid.methods = {Method::lu};
    grid.factorisations = {Factorisation::cholesky};
    CHECK_THROWS_AS(run_solve(pool, grid, [](const SolveRow&) {}), Error);
    grid.scales = {Scale::two_sided};
    CHECK_THROWS_AS(require_possible(grid), Error);
    grid.scales = {};
    grid.fused = true;
    CHECK_THROWS_AS(require_possible(grid), Error);
    grid.fused = false;
    grid.factorisations = {Factorisation::qr};
    CHECK_NOTHROW(require_possible(grid));
    grid.shift = 1;
    CHECK_THROWS_AS(require_possible(grid), Error);
}

}  // namespace factorisations_test
