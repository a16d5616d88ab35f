// SPDX-License-Identifier: Apache-2.0
// Compares the reference solutions of `macheps solve` with exact solutions, which come from elimination over the
// integers or from the construction of the system.
#include "experiments/study/solve/equilibrate.hpp"
#include "experiments/study/solve/factor/lu.hpp"
#include "experiments/study/solve/gallery.hpp"
#include "experiments/study/solve/inclusion.hpp"
#include "experiments/study/solve/refine.hpp"
#include "tests/test.hpp"

#include <boost/multiprecision/cpp_int.hpp>

#include <numeric>
#include <random>
#include <string>

namespace reference_test {

using namespace macheps;
using namespace macheps::study;
using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

namespace {

struct System {
    std::string name{};
    Matrix a{};
    std::vector<double> b{};
    std::vector<cpp_rational> exact{};  ///< empty if the matrix is singular
};

template <class Number>
cpp_rational rational(const Number& x) {
    if (x == 0) return 0;
    int exponent = 0;
    const Number fraction = frexp(x, &exponent);
    const cpp_int digits(ldexp(fraction, 240));
    exponent -= 240;
    return exponent >= 0 ? cpp_rational(digits << exponent) : cpp_rational(digits, cpp_int(1) << -exponent);
}

/// Solves a system by Jordan's elimination over the integers, whose divisions are exact (Bareiss 1968). Each row is
/// scaled by a power of two. The result is empty if the matrix is singular.
std::vector<cpp_rational> exact_solution(const Matrix& a, const std::vector<double>& b) {
    const std::int64_t n = a.n;
    std::vector<std::vector<cpp_int>> rows;
    for (std::int64_t i = 0; i < n; ++i) {
        std::vector<double> elements(a.row(i), a.row(i) + n);
        elements.push_back(b[static_cast<std::size_t>(i)]);
        int least = 2000;
        for (const double each : elements) least = each == 0 ? least : std::min(least, std::ilogb(each) - 52);
        std::vector<cpp_int> row;
        for (const double each : elements) {
            const cpp_int digits(each == 0 ? 0 : std::ldexp(each, 52 - std::ilogb(each)));
            row.push_back(each == 0 ? cpp_int(0) : cpp_int(digits << (std::ilogb(each) - 52 - least)));
        }
        rows.push_back(std::move(row));
    }
    const auto size = static_cast<std::size_t>(n);
    cpp_int before = 1;
    for (std::size_t k = 0; k < size; ++k) {
        std::size_t pivot = k;
        while (pivot < size && rows[pivot][k] == 0) ++pivot;
        if (pivot == size) return {};
        std::swap(rows[k], rows[pivot]);
        for (std::size_t i = 0; i < size; ++i) {
            if (i == k) continue;
            for (std::size_t j = k + 1; j <= size; ++j)
                rows[i][j] = (rows[k][k] * rows[i][j] - rows[i][k] * rows[k][j]) / before;
            rows[i][k] = 0;
        }
        before = rows[k][k];
    }
    std::vector<cpp_rational> x;
    const cpp_int sign = before < 0 ? -1 : 1;  // cpp_rational does not accept a negative denominator
    for (std::size_t i = 0; i < size; ++i) x.emplace_back(cpp_int(sign * rows[i][size]), cpp_int(sign * before));
    return x;
}

/// Returns norm(x - exact), divided by norm(exact) if `is_relative`.
template <class Number>
cpp_rational error_of(const std::vector<Number>& x, const std::vector<cpp_rational>& exact, bool is_relative = true) {
    cpp_rational most = 0, size = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
        const cpp_rational off = abs(cpp_rational(rational(x[i]) - exact[i])), magnitude = abs(exact[i]);
        if (off > most) most = off;
        if (magnitude > size) size = magnitude;
    }
    if (most == 0 || !is_relative) return most;
    return most / size;
}

System by_elimination(std::string name, Matrix a, std::vector<double> b) {
    CAPTURE(name);
    System system{std::move(name), std::move(a), std::move(b)};
    system.exact = exact_solution(system.a, system.b);
    return system;
}

System of_gallery(const std::string& name, std::int64_t n) {
    return by_elimination(name + ", n = " + std::to_string(n), make_matrix(parse_matrix(name), n, 1),
                          right_hand_side(n, 1));
}

/// Returns a system of integers below 2^26 with a solution of integers below 2^10, so that b is exact.
System of_integers(std::string name, Matrix a, std::mt19937_64& random) {
    System system{.name = std::move(name) + ", n = " + std::to_string(a.n), .a = std::move(a)};
    std::vector<std::int64_t> x;
    for (std::int64_t i = 0; i < system.a.n; ++i) x.push_back(static_cast<std::int64_t>(random() % 2047) - 1023);
    for (std::int64_t i = 0; i < system.a.n; ++i) {
        std::int64_t sum = 0;
        for (std::int64_t j = 0; j < system.a.n; ++j) {
            sum += static_cast<std::int64_t>(system.a(i, j)) * x[static_cast<std::size_t>(j)];
        }
        system.b.push_back(static_cast<double>(sum));
    }
    system.exact.assign(x.begin(), x.end());
    return system;
}

System random_integers(std::int64_t n) {
    std::mt19937_64 random(static_cast<std::uint64_t>(n));
    Matrix a(n);
    for (double& each : a.values) each = static_cast<double>(random() % (1 << 20)) - (1 << 19);
    return of_integers("random integers", std::move(a), random);
}

/// Returns a system with the matrix P L U. L and U have unit diagonals and integers from -most to most. The determinant
/// of P L U is 1 or -1. Its condition number grows exponentially in n, as for random triangular matrices.
System unimodular(std::int64_t n, int most) {
    std::mt19937_64 random(static_cast<std::uint64_t>(n));
    const auto draw = [&] {
        return static_cast<double>(static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most);
    };
    Matrix l(n), u(n), a(n);
    for (std::int64_t i = 0; i < n; ++i) {
        l(i, i) = u(i, i) = 1;
        for (std::int64_t j = 0; j < i; ++j) l(i, j) = draw(), u(j, i) = draw();
    }
    std::vector<std::int64_t> rows(static_cast<std::size_t>(n));
    std::iota(rows.begin(), rows.end(), 0);
    std::shuffle(rows.begin(), rows.end(), random);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t k = 0; k <= i; ++k) {
            for (std::int64_t j = k; j < n; ++j) a(rows[static_cast<std::size_t>(i)], j) += l(i, k) * u(k, j);
        }
    }
    return of_integers("unimodular to " + std::to_string(most), std::move(a), random);
}

/// Returns a system whose rows and columns are scaled by powers of two from 2^-reach to 2^reach.
System badly_scaled(std::int64_t n, int reach) {
    std::mt19937_64 random(static_cast<std::uint64_t>(reach));
    Matrix a = make_matrix(parse_matrix("randsvd:1e3"), n, 2);
    const auto draw = [&] { return static_cast<int>(random() % static_cast<unsigned>(2 * reach + 1)) - reach; };
    std::vector<double> b = right_hand_side(n, 2);
    for (std::int64_t i = 0; i < n; ++i) {
        const int row = draw(), column = draw();
        for (std::int64_t j = 0; j < n; ++j) {
            a(i, j) = std::ldexp(a(i, j), row);
            a(j, i) = std::ldexp(a(j, i), column);
        }
        b[static_cast<std::size_t>(i)] = std::ldexp(b[static_cast<std::size_t>(i)], row);
    }
    return by_elimination("scaled to 2^" + std::to_string(reach), std::move(a), std::move(b));
}

/// Returns a system whose element (i, j) is 2^-(step (i + j)) times a number from 1 to 2.
System graded(std::int64_t n, int step) {
    Matrix a = make_matrix(parse_matrix("uniform"), n, 3);
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
            a(i, j) = std::ldexp(1 + std::fabs(a(i, j)), -step * static_cast<int>(i + j));
    }
    return by_elimination("graded by 2^-" + std::to_string(step), std::move(a), right_hand_side(n, 3));
}

/// Returns a system whose last row is the sum of the other rows, except that `off` is added to its last element.
System nearly_singular(std::int64_t n, double off) {
    Matrix a(n);
    std::mt19937_64 random(7);
    for (std::int64_t i = 0; i + 1 < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j)
            a(i, j) = static_cast<double>(random() % 1024) - 512, a(n - 1, j) += a(i, j);
    }
    a(n - 1, n - 1) = std::ldexp(1, 40);
    double rest = 0;
    for (std::int64_t i = 0; i + 2 < n; ++i) rest += a(i, n - 1);
    a(n - 2, n - 1) = std::ldexp(1, 40) - rest;
    a(n - 1, n - 1) += off;
    return by_elimination("nearly singular by " + std::to_string(off), std::move(a), right_hand_side(n, 7));
}

System of_elements(std::string name, std::vector<double> values, std::vector<double> b) {
    Matrix a(static_cast<std::int64_t>(b.size()));
    a.values = std::move(values);
    return by_elimination(std::move(name), std::move(a), std::move(b));
}

/// Checks a reference against the exact solution. Returns false if the reference does not claim a solution.
bool check_claim(const System& system, const Reference& reference) {
    CAPTURE(system.name, reference.quality);
    if (reference.quality == "uncertain") {
        CHECK(reference.x.empty());
        CHECK_FALSE(reference.error_bound.has_value());
        return false;
    }
    REQUIRE_FALSE(system.exact.empty());
    const cpp_rational error = error_of(reference.x, system.exact);
    CAPTURE(reference.error_bound.value(), static_cast<double>(error));
    CHECK(error <= rational(reference.error_bound.value()));
    CHECK(reference.error_bound.value() <= 0x1p-100);
    return true;
}

}  // namespace

TEST_CASE("a reference solution is within its proven bound", "[analysis][reference]") {
    ThreadPool pool(2);
    std::vector<System> systems;
    for (const std::int64_t n : {5, 12, 20, 30, 40}) systems.push_back(of_gallery("hilbert", n));
    for (const char* kappa : {"1", "1e3", "1e6", "1e10", "1e14"})
        systems.push_back(of_gallery(std::string("randsvd:") + kappa, 14));
    for (const char* name : {"uniform", "lehmer", "moler", "kahan:1", "wilkinson", "tridiag:-1,2,-1"}) {
        systems.push_back(of_gallery(name, 20));
    }
    for (const int reach : {30, 200, 400}) systems.push_back(badly_scaled(10, reach));
    for (const int step : {1, 8, 20}) systems.push_back(graded(10, step));
    for (const double off : {1.0, 0x1p-12}) systems.push_back(nearly_singular(10, off));
    for (const std::int64_t n : {10, 20, 30, 60}) systems.push_back(unimodular(n, 3));
    systems.push_back(random_integers(100));
    systems.push_back(of_elements("one row", {3}, {1}));
    systems.push_back(of_elements("one row, a small number", {0x1p-1000}, {1}));
    systems.push_back(of_elements("determinant 2^-52", {1, 1, 1, 1 + 0x1p-52}, {1, 2}));
    systems.push_back(of_elements("determinant 2^-104", {1 + 0x1p-52, 1, 1 + 0x1p-51, 1 + 0x1p-52}, {1, 2}));
    systems.push_back(of_elements("a solution of zeros", {1, 2, 3, 4}, {0, 0}));
    systems.push_back(of_elements("a solution with a zero", {1, 0, 0, 1}, {0, 1}));
    for (const System& system : systems) {
        CAPTURE(system.name);
        CHECK(check_claim(system, reference_solution(system.a, system.b, pool)));
    }
}

TEST_CASE("no reference is claimed if 113 bits are too few, the solution exceeds fp64 or the matrix is singular",
          "[analysis][reference]") {
    ThreadPool pool(2);
    std::vector<System> systems;
    for (const std::int64_t n : {80, 100, 120}) systems.push_back(unimodular(n, 3));
    systems.push_back(nearly_singular(10, 0));
    systems.push_back(of_elements("a solution beyond fp64", {0x1p-1074}, {1}));
    systems.push_back(of_elements("equal rows", {1, 2, 1, 2}, {1, 1}));
    systems.push_back(of_elements("a zero", {0}, {1}));
    systems.push_back(of_elements("thirds", {1. / 3, 2. / 3, 0.1, 0.2}, {1, 1}));
    for (const System& system : systems) {
        CAPTURE(system.name);
        const Reference reference = reference_solution(system.a, system.b, pool);
        CHECK_FALSE(check_claim(system, reference));
        CHECK_FALSE(reference.cond.has_value());
    }
}

TEST_CASE("reference solutions of large systems are within their proven bounds", "[analysis][reference]") {
    ThreadPool pool(2);
    const System within = random_integers(300), above = random_integers(600), beyond = unimodular(520, 1);
    CHECK(check_claim(within, reference_solution(within.a, within.b, pool)));
    CHECK(check_claim(above, reference_solution(above.a, above.b, pool)));
    CHECK_FALSE(check_claim(beyond, reference_solution(beyond.a, beyond.b, pool)));
}

TEST_CASE("a wrong solution or a wrong inverse never proves a false bound", "[analysis][reference]") {
    ThreadPool pool(2);
    const System system = of_gallery("randsvd:1e6", 12);
    const Matrix& a = system.a;
    const std::vector<double> inverse = native_inverse(factor_lu(a, {.format = fp64}, pool), pool);
    const Contraction known = contraction(a, inverse, pool);
    REQUIRE(known.holds());
    std::vector<Oct> x;
    for (const cpp_rational& each : system.exact) x.push_back(Oct(numerator(each)) / Oct(denominator(each)));
    const double best = error_bound(a, system.b, x, known, pool);
    CHECK(best <= 0x1p-180);
    CHECK(error_of(x, system.exact, false) <= rational(best));
    // One element of x is wrong by `off`. The bound must cover this error, and must not exceed it by more than the
    // condition number explains.
    for (std::size_t i = 0; i < x.size(); ++i) {
        for (const double off : {1e-60, 1e-30, 1e-20, 1e-3, 1.0, 1e10}) {
            std::vector<Oct> wrong = x;
            wrong[i] += off;
            const double bound = error_bound(a, system.b, wrong, known, pool);
            CAPTURE(i, off, bound);
            CHECK(error_of(wrong, system.exact, false) <= rational(bound));
            CHECK(bound <= 1e9 * off);
        }
    }
    // If one element of the approximate inverse is wrong, the bound must still be valid, or it must be infinite.
    for (std::size_t k = 0; k < inverse.size(); k += 5) {
        for (const double factor : {1 + 1e-12, 1 + 1e-8, 1.01, 0.0, -1.0, 1e6, HUGE_VAL}) {
            std::vector<double> planted = inverse;
            planted[k] *= factor;
            const double bound = error_bound(a, system.b, x, contraction(a, planted, pool), pool);
            CAPTURE(k, factor, bound);
            if (bound < HUGE_VAL) CHECK(error_of(x, system.exact, false) <= rational(bound));
        }
    }
    // No matrix is an approximate inverse of a singular matrix.
    Matrix singular = a;
    std::copy(singular.row(0), singular.row(1), singular.row(1));
    CHECK_FALSE(contraction(singular, inverse, pool).holds());
    CHECK_FALSE(contraction(a, std::vector<double>(inverse.size()), pool).holds());
    CHECK_FALSE(contraction(a, std::vector<Quad>(inverse.size(), Quad(HUGE_VAL)), pool).holds());
}

TEST_CASE("without a reference solution, refinement continues, and no verdict depends on a forward error",
          "[analysis][reference]") {
    ThreadPool pool(2);
    const Matrix a = make_matrix(parse_matrix("lehmer"), 12, 0);
    const std::vector<double> b = right_hand_side(12, 0);
    const Equilibration scaling = equilibrate(a, bf16, Scale::none);
    CastCounts counts;
    const Factors factors = factor_lu(cast_matrix(a, scaling, bf16, counts), {.format = bf16}, pool);
    RefinePlan plan{.method = Method::ir, .substitution = bf16};
    const Reference proven = reference_solution(a, b, pool), uncertain{.quality = "uncertain"};
    const Refined with = refine(a, b, factors, scaling, plan, proven),
                  without = refine(a, b, factors, scaling, plan, uncertain);
    CHECK(with.verdict == Verdict::converged);
    CHECK(without.verdict == Verdict::converged);
    CHECK(without.steps == with.steps);
    CHECK(without.x == with.x);
    CHECK(with.errors.forward.value() < 1e-10);
    CHECK_FALSE(without.errors.forward.has_value());
    CHECK(without.errors.normwise == with.errors.normwise);
    plan.stop = Stop::oracle;
    CHECK(refine(a, b, factors, scaling, plan, proven).verdict == Verdict::converged);
    CHECK(refine(a, b, factors, scaling, plan, uncertain).verdict == Verdict::no_reference);
    // One step shows only that the residual shrinks, so the verdict cannot be `converged`.
    plan.stop = Stop::residual;
    plan.max_steps = 1;
    CHECK(refine(a, b, factors, scaling, plan, uncertain).verdict == Verdict::stagnated);
}

TEST_CASE("refinement has diverged if its residual grows, with or without a reference", "[analysis][reference]") {
    ThreadPool pool(2);
    const Matrix a = make_matrix(parse_matrix("randsvd:1e8"), 50, 0);
    const std::vector<double> b = right_hand_side(50, 0);
    const Equilibration scaling = equilibrate(a, bf16, Scale::scalar);
    CastCounts counts;
    const Factors factors = factor_lu(cast_matrix(a, scaling, bf16, counts), {.format = bf16}, pool);
    const RefinePlan plan{.method = Method::ir, .substitution = bf16, .max_steps = 5};
    for (const Reference& reference : {reference_solution(a, b, pool), Reference{.quality = "uncertain"}}) {
        CAPTURE(reference.quality);
        const Refined refined = refine(a, b, factors, scaling, plan, reference);
        REQUIRE(refined.history.back().residual > refined.history.front().residual);
        CHECK(refined.verdict == Verdict::diverged);
    }
}

TEST_CASE("the stopping rule `oracle` requires a small forward error and a small backward error",
          "[analysis][reference]") {
    ThreadPool pool(1);
    // The exact solution is x = (1, -1). The factors belong to another matrix, which maps (1 + 2u, -1 + 2u) to b, so
    // every component of the computed solution is off by 2u. The residual is (4u, 6u). Its normwise backward error is
    // 6u / (norm(A) norm(x) + norm(b)) = 6u / (3 + 1).
    const double u = 0x1p-24;
    Matrix a(2), other(2);
    a(0, 0) = a(0, 1) = a(1, 0) = other(0, 0) = other(1, 0) = 1;
    a(1, 1) = 2;
    other(0, 1) = (1 + 2 * u) / (1 - 2 * u);
    other(1, 1) = (2 + 2 * u) / (1 - 2 * u);
    const std::vector<double> b{0, -1};
    const Equilibration scaling = equilibrate(other, fp64, Scale::none);
    const Factors factors = factor_lu(other, {.format = fp64}, pool);
    const RefinePlan plan{.method = Method::lu, .substitution = fp64, .work = fp32, .stop = Stop::oracle};
    const Refined refined = refine(a, b, factors, scaling, plan, reference_solution(a, b, pool));
    REQUIRE(refined.x == std::vector<double>{1 + 2 * u, -1 + 2 * u});
    CHECK(refined.errors.forward.value() == 2 * u);
    CHECK(refined.errors.normwise == Approx(1.5 * u).epsilon(1e-5));
    CHECK(refined.verdict == Verdict::unrefined);
}

TEST_CASE("an inverse in 113 bits proves solutions of more than 256 rows that are too ill-conditioned for fp64",
          "[analysis][reference][slow]") {
    ThreadPool pool(2);
    System system = unimodular(300, 1);
    CHECK_FALSE(check_claim(system, reference_solution(system.a, system.b, pool)));
    // The matrix has two blocks: one with a condition number above 2^53, and a multiple of the identity.
    const System inner = unimodular(60, 3);
    system = inner;
    system.a = Matrix(270);
    for (std::int64_t i = 0; i < 270; ++i) {
        system.a(i, i) = 4;
        for (std::int64_t j = 0; i < 60 && j < 60; ++j) system.a(i, j) = inner.a(i, j);
    }
    system.b.resize(270, 8);
    system.exact.resize(270, 2);
    const Reference reference = reference_solution(system.a, system.b, pool);
    CHECK(check_claim(system, reference));
    CHECK(*reference.kappa > 0x1p45);
}

}  // namespace reference_test
