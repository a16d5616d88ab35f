// SPDX-License-Identifier: Apache-2.0
// Tests the verdicts of `macheps solve` on systems whose failure has a known cause, for every factorisation and method.
#include "experiments/study/solve/solve.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fstream>
#include <set>
#include <string>

namespace verdict_test {

using namespace macheps;
using namespace macheps::study;
using namespace macheps::reports;

namespace {

struct Cause {
    const char* name;
    const char* matrix;  ///< a name of the gallery, or the elements of a square matrix, column by column
    std::int64_t n;
    Format factor;
    const char *lu, *cholesky,
        *qr;  ///< the verdict of `lu`, of `ir`, and of `gmres-ir`; a dash if it is not applicable
    bool pivots = true;
    int max_steps = 30;
    Stop stop = Stop::residual;
};

/// Systems and their expected verdicts. The verdicts were derived by hand; the comments give the reasons.
const Cause causes[] = {
    {"4 on the diagonal in fp64", "tridiag:0,4,0", 5, fp64, "converged converged converged",
     "converged converged converged", "converged converged converged"},
    // A well-conditioned matrix in 8 bits. The first x has an error of about 2^-8, and each step gains digits.
    {"lehmer in bf16", "lehmer", 12, bf16, "unrefined converged converged", "unrefined converged converged",
     "unrefined converged converged"},
    {"no step is allowed", "lehmer", 12, bf16, "unrefined unrefined unrefined", "unrefined unrefined unrefined",
     "unrefined unrefined unrefined", true, 0},
    // Regular matrices with an element beyond the largest number of the format (65504 in fp16).
    {"70000 in fp16", "70000 1 3 1", 2, fp16, "cast_overflow cast_overflow cast_overflow", "-",
     "cast_overflow cast_overflow cast_overflow"},
    {"70000 on a diagonal in fp16", "70000 0 0 1", 2, fp16, "cast_overflow cast_overflow cast_overflow",
     "cast_overflow cast_overflow cast_overflow", "cast_overflow cast_overflow cast_overflow"},
    {"500 in e4m3fn", "500 1 1 3", 2, e4m3fn, "cast_overflow cast_overflow cast_overflow",
     "cast_overflow cast_overflow cast_overflow", "cast_overflow cast_overflow cast_overflow"},
    // e2m1fn has neither Inf nor NaN, so 70 becomes 6, and one component of x is off by a factor of about 11. GMRES
    // corrects this.
    {"70 in e2m1fn", "70 0 0 1", 2, e2m1fn, "cast_overflow cast_overflow converged",
     "cast_overflow cast_overflow converged", "cast_overflow cast_overflow converged"},
    // The second row is rounded to zero, because it is below half of the smallest fp16 number 2^-24.
    {"2^-40 in fp16", "1 0 0 9.094947017729282e-13", 2, fp16, "cast_underflow cast_underflow cast_underflow",
     "cast_underflow cast_underflow cast_underflow", "cast_underflow cast_underflow cast_underflow"},
    {"a column of zeros", "0 0 1 1", 2, fp16, "singular singular singular", "-", "singular singular singular"},
    {"equal rows", "1 1 1 1", 2, fp16, "singular singular singular", "singular singular singular", "-"},
    // The eigenvalues are 3 and -1.
    {"1 2, 2 1", "1 2 2 1", 2, fp16, "-", "indefinite indefinite indefinite", "-"},
    // The LU factors are exact, but b is rounded to fp16 before the substitution. The eigenvalues are 1 and -1.
    {"an exchange of rows", "0 1 1 0", 2, fp16, "unrefined converged converged", "indefinite indefinite indefinite",
     "-"},
    {"an exchange of rows, unpivoted", "0 1 1 0", 2, fp16, "zero_pivot zero_pivot zero_pivot", "-", "-", false},
    // These results overflow: -60000 - 60000 in LU, the column norm 84853 in QR, and 60000 / 2^-12 in Cholesky (for the
    // second matrix).
    {"60000 twice", "60000 60000 60000 -60000", 2, fp16, "factor_overflow factor_overflow factor_overflow", "-",
     "factor_overflow factor_overflow factor_overflow"},
    {"60000 and 2^-24", "5.9604644775390625e-8 60000 60000 1", 2, fp16, "-",
     "factor_overflow factor_overflow factor_overflow", "-"},
    // The third row is the sum of the other two rows, but in fp16 it is off by 4. No reference solution can be proven,
    // so the stopping rule `oracle` has nothing to compare with.
    {"a singular matrix, regular in fp16", "1 0 1 0 1 1 2049 2053 4102", 3, fp16,
     "no_reference no_reference no_reference", "-", "no_reference no_reference no_reference", true, 1, Stop::oracle},
    // x is about 2^20, but the largest fp16 number is 65504, so a substitution in fp16 overflows. GMRES substitutes in
    // 113 bits.
    {"2^-20 on the diagonal", "tridiag:0,9.5367431640625e-7,0", 3, fp16, "nonfinite nonfinite converged",
     "nonfinite nonfinite converged", "nonfinite nonfinite converged"},
};

/// Solves the system with one factorisation and all methods. Returns the verdicts, separated by spaces.
std::string verdicts_of(const Cause& cause, Factorisation kind, const std::filesystem::path& folder) {
    SolveGrid grid;
    std::string matrix = cause.matrix;
    if (matrix.find(' ') != std::string::npos) {
        const auto path = folder / "a.mtx";
        std::ofstream(path) << "%%MatrixMarket matrix array real general\n"
                            << cause.n << ' ' << cause.n << '\n'
                            << matrix << '\n';
        matrix = "file:" + path.string();
    }
    grid.matrices = {parse_matrix(matrix)};
    grid.sizes = {cause.n};
    grid.factors = {cause.factor};
    grid.factorisations = {kind};
    grid.scales = {Scale::none};
    grid.methods = {Method::lu, Method::ir, Method::gmres_ir};
    grid.pivots = cause.pivots;
    grid.max_steps = cause.max_steps;
    grid.stop = cause.stop;
    ThreadPool pool(1);
    require_possible(grid);
    std::string words;
    run_solve(pool, grid, [&](const SolveRow& row) {
        CHECK((row.verdict == "converged" || row.steps > 0 || row.verdict != "diverged"));
        words += (words.empty() ? "" : " ") + row.verdict;
    });
    return words;
}

}  // namespace

TEST_CASE("solve's verdict on a system with a known cause of failure names this cause", "[analysis][verdict]") {
    const test::TemporaryFolder folder;
    std::set<std::string> seen;
    for (const Cause& cause : causes) {
        const struct {
            Factorisation kind;
            const char* expected;
        } all[] = {
            {Factorisation::lu, cause.lu}, {Factorisation::cholesky, cause.cholesky}, {Factorisation::qr, cause.qr}};
        for (const auto& [kind, expected] : all) {
            if (expected[0] == '-') continue;
            CAPTURE(cause.name, to_string(kind));
            CHECK(verdicts_of(cause, kind, folder.path()) == expected);
            for (std::string text = expected; !text.empty();) {
                const std::size_t end = std::min(text.find(' '), text.size());
                seen.insert(text.substr(0, end));
                text.erase(0, end + 1);
            }
        }
    }
    seen.insert({"stagnated", "diverged"});  // tested by the next test case
    for (const SolveVerdictRow& row : solve_verdicts) {
        CAPTURE(row.name);
        CHECK(seen.contains(std::string(row.name)));
    }
}

TEST_CASE("refinement stagnates or diverges only after a step, with every factorisation", "[analysis][verdict]") {
    SolveGrid grid;
    // The condition numbers are about 1e4, but LU-IR needs condition numbers below 2^8 (bf16) or 2^3 (e5m2). The
    // corrections of LU-IR therefore do not help, or do not help enough to converge within two steps.
    grid.matrices = {parse_matrix("minij"), parse_matrix("lehmer")};
    grid.sizes = {50};
    grid.factors = {bf16, e5m2};
    grid.factorisations = {Factorisation::lu, Factorisation::cholesky, Factorisation::qr};
    grid.methods = {Method::lu, Method::ir, Method::gmres_ir};
    grid.max_steps = 2;
    ThreadPool pool(1);
    std::set<std::string> seen;
    std::size_t refined = 0;
    run_solve(pool, grid, [&](const SolveRow& row) {
        CAPTURE(row.matrix, row.lu, row.factor, row.method, row.verdict);
        const bool judges_steps = row.verdict == "stagnated" || row.verdict == "diverged";
        CHECK((!judges_steps || row.steps > 0));
        CHECK((row.verdict != "unrefined" || row.steps == 0));
        if (row.method == "lu") CHECK((row.verdict == "converged" || !judges_steps));
        refined += judges_steps;
        seen.insert(row.verdict);
    });
    CHECK(refined > 0);
    CHECK(seen.contains("stagnated"));
    CHECK(seen.contains("diverged"));
}

TEST_CASE("the help text about verdicts contains every row of the table of verdicts once, in order",
          "[analysis][verdict]") {
    std::size_t at = 0;
    for (const SolveVerdictRow& row : solve_verdicts) {
        const std::string entry = "`" + std::string(row.name) + "`: " + std::string(row.words);
        const std::size_t found = solve_verdict_words.find(entry);
        CAPTURE(row.name);
        REQUIRE(found != std::string_view::npos);
        CHECK(found == at);
        at = found + entry.size() + 2;
    }
    CHECK(at == solve_verdict_words.size() + 2);
    std::set<std::string_view> letters;
    for (const SolveVerdictRow& row : solve_verdicts) CHECK(letters.insert(row.letter).second);
}

}  // namespace verdict_test
