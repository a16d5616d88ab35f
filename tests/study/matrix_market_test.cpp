// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/matrix_market.hpp"
#include "core/error.hpp"
#include "tests/test.hpp"

#include <string>

namespace matrix_market_test {

using namespace macheps;
using namespace macheps::files;

namespace {

std::vector<double> values(const std::string& text) { return parse_matrix_market(text, "a.mtx", 100).values; }

}  // namespace

TEST_CASE("Matrix Market files are read in every layout and symmetry", "[files][matrix_market]") {
    using Values = std::vector<double>;
    CHECK(values("%%MatrixMarket matrix array real general\n% words\n2 2\n1\n2\n3\n4e0\n") == Values{1, 3, 2, 4});
    CHECK(values("%%MatrixMarket matrix array real symmetric\n2 2\n1 2\n4\n") == Values{1, 2, 2, 4});
    CHECK(values("%%MatrixMarket matrix array integer skew-symmetric\n2 2\n5\n") == Values{0, -5, 5, 0});
    CHECK(values("%%matrixmarket MATRIX Coordinate REAL General\n\n2 2 3\n1 1 1.5\r\n2 1 -2\n2 1 -1\n") ==
          Values{1.5, 0, -3, 0});
    CHECK(values("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n1 1\n3 1") ==
          Values{1, 0, 1, 0, 0, 0, 1, 0, 0});
    CHECK(values("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 7\n") == Values{0, -7, 7, 0});
}

TEST_CASE("a file that is not a square real matrix is refused, and the error names the line",
          "[files][matrix_market]") {
    struct Case {
        const char *text, *told;
    };
    const Case c = GENERATE(
        Case{"", "a.mtx:0: the Matrix Market header is missing"},
        Case{"1 2 3\n", "a.mtx:1: the Matrix Market header is missing"},
        Case{"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 2 3\n", "complex numbers"},
        Case{"%%MatrixMarket matrix coordinate real hermitian\n", "Hermitian"},
        Case{"%%MatrixMarket matrix array pattern general\n1 1\n", "a pattern cannot be stored as an array"},
        Case{"%%MatrixMarket matrix array real general\n2 3\n", "a.mtx:2: the matrix is 2 x 3, which is not square"},
        Case{"%%MatrixMarket matrix array real general\n0 0\n", "0 rows"},
        Case{"%%MatrixMarket matrix array real general\n101 101\n", "101 rows"},
        Case{"%%MatrixMarket matrix array real general\n99999999999999999999 1\n", "is not a valid count"},
        Case{"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n", "ends before"},
        Case{"%%MatrixMarket matrix array real general\n1 1\n1\n2\n", "more elements than"},
        Case{"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n",
             "the entry in row 3, column 1 is outside"},
        Case{"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", "1 of 2 entries"},
        Case{"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 one\n", "'one' is not a valid number"},
        Case{"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n", "2 words"},
        Case{"%%MatrixMarket matrix coordinate real general\n2 2 0\n1 1 1\n", "more entries"},
        Case{"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", "cannot have diagonal entries"});
    CAPTURE(c.text);
    try {
        values(c.text);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        CHECK(std::string(error.what()).find(c.told) != std::string::npos);
    }
}

}  // namespace matrix_market_test
