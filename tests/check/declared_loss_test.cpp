// SPDX-License-Identifier: Apache-2.0
// Tests a loss kernel that rounds the sum of each row, and the logarithm of the sum, to the format of the input. The
// kernel fails unless this rounding is declared.
#include "tests/check/problems.hpp"

namespace declared_loss_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

TEST_CASE("a loss that rounds its sum to a narrow format passes only if this is declared", "[check]") {
    std::mt19937 random(3);
    constexpr std::size_t rows = 32, columns = 300;
    const Floats x = normal(rows * columns, random, 0, 2, Store::bf16);
    Floats loss;
    StoredArray target{.name = "target", .where = "test", .type = "<i8", .width = 8, .shape = {rows}};
    for (std::size_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * columns;
        const float most = *std::max_element(row, row + columns);
        double sum = 0;
        for (std::size_t c = 0; c < columns; ++c)
            sum += std::exp(static_cast<double>(row[c]) - static_cast<double>(most));
        const float kept = kernels::to_bf16(static_cast<float>(sum)), log = kernels::to_bf16(std::log(kept));
        const std::size_t place = (7 * r) % columns;
        loss.push_back(kernels::to_bf16(log - (row[place] - most)));
        target.bytes.append({static_cast<char>(place), static_cast<char>(place >> 8), 0, 0, 0, 0, 0, 0});
    }
    const std::vector<StoredArray> arrays{array("x", {rows, columns}, x, Store::bf16), target,
                                          array("out", {rows}, loss, Store::bf16)};
    check::Declaration d = declare("cross_entropy", Store::bf16, Store::bf16);
    CHECK(judge_arrays(d, arrays).outcome == check::Outcome::fail);
    d.inner = bf16;
    const check::Verdict declared = judge_arrays(d, arrays);
    CAPTURE(codes(declared), declared.judgement.rho);
    CHECK(is_accepted(declared));
    // The declaration does not excuse other errors.
    std::vector<StoredArray> wrong = arrays;
    wrong[2].bytes[1] = static_cast<char>(wrong[2].bytes[1] ^ 1);
    CHECK(judge_arrays(d, wrong).outcome == check::Outcome::fail);
}

}  // namespace declared_loss_test
