// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/solve/refine.hpp"
#include "experiments/study/arithmetic.hpp"
#include "experiments/study/solve/gmres.hpp"
#include "experiments/study/solve/solve.hpp"
#include "tests/test.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

namespace refine_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;

namespace {

SolveGrid published_grid(const std::string& matrix) {
    SolveGrid grid;
    grid.matrices = {parse_matrix(matrix)};
    grid.factors = {bf16, fp16, fp32};
    grid.scales = {Scale::scalar};
    grid.methods = {Method::ir, Method::gmres_ir};
    grid.stop = Stop::oracle;
    grid.max_steps = 40;
    return grid;
}

struct Ran {
    std::vector<SolveRow> rows{};
    std::vector<SolveStepRow> steps{};
};

Ran ran(const SolveGrid& grid, int threads = 2) {
    ThreadPool pool(threads);
    Ran out;
    require_possible(grid);
    run_solve(
        pool, grid, [&](const SolveRow& row) { out.rows.push_back(row); },
        [&](const SolveStepRow& row) { out.steps.push_back(row); });
    return out;
}

/// Returns the text for a result in the notation of the published tables. After convergence, the text is the number of
/// steps, followed by the number of inner steps if there are any. Otherwise it is the first letter of the verdict: s, d
/// or n.
std::string cell_of(const SolveRow& row) {
    if (row.verdict != "converged") return row.verdict.substr(0, 1);
    return std::to_string(row.steps) + (row.inner ? "/" + std::to_string(*row.inner) : "");
}

/// Returns the results with factors in bf16, fp16 and fp32, first by LU-IR and then by GMRES-IR.
std::string cells_of(const std::vector<SolveRow>& rows) {
    std::string text;
    for (const char* method : {"ir", "gmres-ir"}) {
        for (const SolveRow& row : rows) {
            if (row.method == method) text += (text.empty() ? "" : " ") + cell_of(row);
        }
    }
    return text;
}

struct PublishedRow {
    const char *matrix, *cells;
    double kappa;
};

void check_published(const PublishedRow& c) {
    CAPTURE(c.matrix);
    const Ran out = ran(published_grid(c.matrix));
    CHECK(cells_of(out.rows) == c.cells);
    for (const SolveRow& row : out.rows) {
        CHECK(*row.kappa == Approx(c.kappa).epsilon(5e-3));
        CHECK(row.kappa_kind == "inverse");
        if (row.verdict != "converged") continue;
        CHECK(row.fe.value() <= 2.2e-16 * 1.01);
        CHECK(row.nbe <= 2.1e-17 * 1.03);
    }
}

}  // namespace

TEST_CASE("refinement takes the published number of steps", "[analysis][refine]") {
    check_published(GENERATE(PublishedRow{"randsvd:1e1", "12 7 2 4/13 3/6 2/2", 2.24e2},
                             PublishedRow{"randsvd:1e3", "s 11 2 4/34 4/14 2/2", 1.28e4},
                             PublishedRow{"randsvd:1e2,2", "30 9 2 4/15 3/7 2/2", 1.93e3},
                             PublishedRow{"randsvd:1e3,2", "37 s 3 3/14 4/11 2/2", 1.92e4}));
}

TEST_CASE("refinement of ill-conditioned systems ends as published", "[analysis][refine][slow]") {
    check_published(GENERATE(PublishedRow{"randsvd:1e4", "d 32 3 5/113 4/23 3/3", 1.03e5},
                             PublishedRow{"randsvd:1e6", "d d 5 3/233 4/178 3/6", 8.81e6},
                             PublishedRow{"randsvd:1e8", "d d 14 2/200 3/238 3/11", 8.00e8},
                             PublishedRow{"randsvd:1e10", "d n d 2/200 2/200 4/79", 7.40e10},
                             PublishedRow{"randsvd:1e4,2", "s s 3 4/19 4/11 2/3", 1.92e5},
                             PublishedRow{"randsvd:1e9,2", "d d s s 3/17 4/7", 1.92e10}));
}

TEST_CASE("the forward error falls as published, step by step", "[analysis][refine]") {
    SolveGrid grid = published_grid("randsvd:1e3");
    grid.factors = {fp16};
    const Ran out = ran(grid);
    const double by_factors[] = {6.185e-2,  2.523e-3,  1.302e-4,  5.051e-6,  2.129e-7,  9.138e-9,
                                 2.953e-10, 1.973e-11, 1.257e-12, 5.945e-14, 3.081e-15, 1.493e-16};
    const double by_gmres[] = {6.185e-2, 5.228e-6, 2.753e-10, 1.095e-15, 4.996e-17};
    REQUIRE(out.steps.size() == std::size(by_factors) + std::size(by_gmres));
    for (std::size_t i = 0; i < out.steps.size(); ++i) {
        const bool first = i < std::size(by_factors);
        CAPTURE(i);
        CHECK(out.steps[i].fe.value() ==
              Approx(first ? by_factors[i] : by_gmres[i - std::size(by_factors)]).epsilon(5e-4));
    }
    CHECK(*out.rows[0].contraction == Approx(0.05).epsilon(0.1));
    CHECK(*out.rows[0].cond_x == Approx(1.04e3).epsilon(5e-3));
    // If residuals are computed only in fp64, an error of about u cond_x remains.
    grid.methods = {Method::ir};
    grid.residual = fp64;
    const Ran narrow = ran(grid);
    CHECK(narrow.rows[0].verdict != "converged");
    CHECK(narrow.rows[0].fe.value() < 1.2e-13);
    CHECK(narrow.rows[0].fe.value() > 1e-15);
}

TEST_CASE("the reference solution agrees with the published solution", "[analysis][reference]") {
    ThreadPool pool(2);
    const Matrix a = make_matrix(parse_matrix("randsvd:1e3"), 100, 0);
    const Reference reference = reference_solution(a, right_hand_side(100, 0), pool);
    CHECK(static_cast<double>(reference.x[0]) == -6.0245094109086104);
    CHECK(static_cast<double>(reference.x[99]) == 47.267823454987571);
    CHECK(reference.quality == "fp128");
}

TEST_CASE("LU-IR with fp8 factors ends with NaN, which is not a success, and GMRES-IR converges",
          "[analysis][refine]") {
    SolveGrid grid = published_grid("randsvd:100");
    grid.factors = {e4m3fn};
    grid.work = fp32;
    grid.residual = fp64;
    grid.gmres = fp64;
    grid.precond = fp64;
    grid.max_steps = 60;
    const Ran out = ran(grid);
    CHECK(out.rows[0].verdict == "nonfinite");
    CHECK(cell_of(out.rows[1]) == "3/86");
}

TEST_CASE("GMRES with fp8 factors converges as published, and LU-IR never converges", "[analysis][refine][slow]") {
    struct Case {
        const char *matrix, *e4m3, *e5m2, *bfloat;
    };
    const Case c =
        GENERATE(Case{"randsvd:10,2", "2/23", "3/63", "2/6"}, Case{"randsvd:100,2", "2/27", "2/55", "2/7"},
                 Case{"randsvd:1000,2", "2/30", "3/89", "2/9"}, Case{"randsvd:10", "2/31", "3/87", "2/6"},
                 Case{"randsvd:100", "3/86", "3/163", "2/9"}, Case{"randsvd:1000", "3/196", "3/269", "2/17"});
    CAPTURE(c.matrix);
    SolveGrid grid = published_grid(c.matrix);
    grid.factors = {e4m3fn, e5m2, bf16};
    grid.work = fp32;
    grid.residual = fp64;
    grid.gmres = fp64;
    grid.precond = fp64;
    grid.max_steps = 60;
    const std::vector<SolveRow> rows = ran(grid).rows;
    CHECK(rows[0].verdict != "converged");
    CHECK(rows[2].verdict != "converged");
    CHECK(cell_of(rows[1]) == c.e4m3);
    CHECK(cell_of(rows[3]) == c.e5m2);
    CHECK(cell_of(rows[5]) == c.bfloat);
}

TEST_CASE("fp16 factors suffice for fp32 work up to a condition number of 1e4", "[analysis][refine][slow]") {
    SolveGrid grid = published_grid("randsvd:10");
    grid.matrices.clear();
    for (const double condition : {1e1, 1e2, 1e3, 1e4, 1e5})
        grid.matrices.push_back(parse_matrix("randsvd", condition));
    grid.factors = {fp16};
    grid.methods = {Method::ir};
    grid.work = fp32;
    grid.residual = fp64;
    grid.max_steps = 60;
    const std::vector<SolveRow> rows = ran(grid).rows;
    std::string cells;
    for (const SolveRow& row : rows) cells += cell_of(row) + " ";
    CHECK(cells == "3 3 5 13 d ");
}

TEST_CASE("an exact first solution needs no steps, and rows do not depend on the number of threads",
          "[analysis][refine]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("tridiag:0,8,0"), parse_matrix("randsvd:10")};
    grid.sizes = {16, 25};
    grid.factors = {fp16, e5m2};
    grid.scales = {Scale::none, Scale::two_sided};
    grid.methods = {Method::lu, Method::ir, Method::gmres_ir};
    grid.substitution = fp64;
    const Ran out = ran(grid, 1);
    CHECK(out.rows == ran(grid, 3).rows);
    CHECK(out.rows.size() == 2 * 2 * 2 * 2 * 3);
    for (const SolveRow& row : out.rows) {
        if (row.matrix != "tridiag:0,8,0") continue;
        CHECK(row.verdict == "converged");
        CHECK(row.steps == 0);
        CHECK(row.fe.value() == 0);
    }
}

TEST_CASE("a blocked fp64 factorisation accumulates in fp64", "[analysis][refine]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("randsvd:1000")};
    grid.sizes = {64};
    grid.factors = {fp64};
    grid.methods = {Method::lu};
    grid.block = 16;
    const Ran out = ran(grid);
    REQUIRE(out.rows.size() == 1);
    // Theory gives the bound |P A - L U| <= n u |L| |U|. Pivoting gives |L| <= 1, and U grows by less than n here. fp32
    // sums would leave an error of 1e-8.
    CHECK(out.rows.front().lu_error <= 64 * 64 * 0x1p-53);
}

TEST_CASE("a singular matrix and a matrix that overflows the format get different verdicts", "[analysis][refine]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("tridiag:0,0,1"), parse_matrix("tridiag:0,1e6,1")};
    grid.sizes = {8};
    grid.factors = {fp16};
    grid.scales = {Scale::none};
    grid.methods = {Method::lu, Method::ir, Method::gmres_ir};
    for (const SolveRow& row : ran(grid).rows) {
        CHECK(row.verdict == (row.matrix == "tridiag:0,0,1" ? "singular" : "cast_overflow"));
        CHECK(std::isinf(row.fe.value()));
    }
}

TEST_CASE("the limits of convergence agree with the theory", "[analysis][refine]") {
    const auto limit = [](Method method, const Format& factor, const Format& precond) {
        return convergence_limit({.method = method, .precond = precond}, factor);
    };
    CHECK(limit(Method::ir, bf16, fp128) == 256);
    CHECK(limit(Method::gmres_ir, bf16, fp128) == Approx(2.4e10).epsilon(0.02));
    CHECK(limit(Method::gmres_ir, fp16, fp128) == Approx(1.9e11).epsilon(0.03));
    CHECK(limit(Method::gmres_ir, fp32, fp64) == Approx(1.4e10).epsilon(0.05));
    CHECK(limit(Method::gmres_ir, fp16, fp64) == Approx(3.4e7).epsilon(0.03));
}

TEST_CASE("GMRES without a preconditioner needs more steps to converge on a well-conditioned matrix",
          "[analysis][refine]") {
    SolveGrid grid;
    grid.matrices = {parse_matrix("randsvd:10")};
    grid.sizes = {30};
    grid.factors = {bf16};
    grid.methods = {Method::gmres_ir, Method::gmres};
    const std::vector<SolveRow> rows = ran(grid).rows;
    CHECK(rows[0].verdict == "converged");
    CHECK(rows[1].method == "gmres");
    CHECK(rows[1].verdict == "converged");
    CHECK(*rows[1].inner > 2 * *rows[0].inner);
    CHECK(rows[1].limit == 0x1p53);
    // Both methods begin with the solution from the factors. Only GMRES-IR uses the factors again, as a preconditioner.
    CHECK(*rows[0].fe_first == *rows[1].fe_first);
    CHECK(rows[1].flops_low == rows[0].flops_low);
    // For a multiple of the identity, the first vector of GMRES is already the solution. Each refinement step therefore
    // takes one inner step, from any x.
    grid.matrices = {parse_matrix("tridiag:0,3,0")};
    grid.factors = {e4m3fn};
    grid.methods = {Method::gmres};
    const SolveRow row = ran(grid).rows.front();
    CHECK(row.verdict == "converged");
    CHECK(*row.inner == row.steps);
}

TEST_CASE("the residual of GMRES is relative to the right-hand side, and at most the tolerance", "[analysis][refine]") {
    // Without a preconditioner, the residual is |r - A d| / |r|. The test computes it from A and d. With n = 12 and a
    // condition number of about 3, the rounding error of this computation is below 100 n u.
    constexpr std::int64_t n = 12;
    Matrix a(n);
    std::vector<double> r(n);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = std::max<std::int64_t>(i - 1, 0); j < std::min(i + 2, n); ++j) a(i, j) = i == j ? 4 : 1;
        r[static_cast<std::size_t>(i)] = 1 + 0.125 * static_cast<double>(i * i % 7);
    }
    const Preconditioner<NativeArithmetic> none(NativeArithmetic{}, a, Factors{}, Equilibration{}, false);
    for (const double size : {0x1p-20, 1.0, 3.0, 0x1p20}) {
        for (const double tolerance : {0.5, 0.1, 1e-3, 1e-6}) {
            CAPTURE(size, tolerance);
            std::vector<double> b = r;
            for (double& each : b) each *= size;
            const GmresResult result = gmres(NativeArithmetic{}, none, b, tolerance);
            REQUIRE(result.is_finite);
            REQUIRE(result.d.size() == b.size());
            double left = 0, all = 0;
            for (std::int64_t i = 0; i < n; ++i) {
                double off = b[static_cast<std::size_t>(i)];
                all += off * off;
                for (std::int64_t j = 0; j < n; ++j) off -= a(i, j) * result.d[static_cast<std::size_t>(j)];
                left += off * off;
            }
            CHECK(std::fabs(result.residual - std::sqrt(left / all)) <= 100 * n * 0x1p-53);
            CHECK(result.residual <= tolerance);
        }
    }
}

}  // namespace refine_test
