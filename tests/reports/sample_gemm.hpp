// SPDX-License-Identifier: Apache-2.0
// Made-up rows of matrix products in the form that `macheps gemm` writes.
#pragma once
#include "reports/rows/gemm_row.hpp"

#include <cmath>
#include <string>
#include <vector>

namespace macheps::test {

/// Returns rows of three machines for k = 16 .. 4096 and two seeds, first with normal and then with equal operands. The
/// name of the first machine would close an HTML script, and its sum of equal operands stalls at 4. The third machine
/// is exact.
inline std::vector<reports::GemmRow> sample_gemm() {
    std::vector<reports::GemmRow> rows;
    for (const char* distribution : {"normal", "equal"}) {
        for (const std::int64_t seed : {0, 1}) {
            for (std::int64_t k = 16; k <= 4096; k *= 4) {
                for (const char* machine : {"stalls </script><b>", "fp32.chain", "exact"}) {
                    const bool is_exact = std::string(machine) == "exact",
                               is_plain = std::string(machine) == "fp32.chain";
                    const bool is_equal = std::string(distribution) == "equal";
                    const double unit = is_exact ? 0x1p-24 / double(k) : is_plain ? 0x1p-24 : 0x1p-13, n = double(k);
                    reports::GemmRow row{.machine = machine,
                                         .format_a = "e4m3fn",
                                         .format_b = is_equal ? "e5m2" : "e4m3fn",
                                         .output = "fp32",
                                         .distribution = distribution,
                                         .scaling = is_equal ? "tensor" : "none",
                                         .seed = seed,
                                         .m = 2,
                                         .n = 3,
                                         .k = k,
                                         .outputs = 6};
                    row.max_error = is_exact ? 0 : unit * std::sqrt(n) * (1 + double(seed));
                    row.rms_error = row.max_error / 2;
                    row.max_rel = 8 * row.max_error, row.mean_rel = row.max_error, row.rms_rel = 2 * row.max_error;
                    row.sqnr_db = is_exact ? std::numeric_limits<double>::infinity() : 60;
                    row.unit = unit, row.bound = unit * n, row.probable_bound = 4 * unit * std::sqrt(n), row.lambda = 4;
                    row.first_exact = is_equal ? n / 256 : -std::sqrt(n);
                    row.first =
                        float(is_equal && !is_exact && !is_plain ? std::min(4.0, row.first_exact) : row.first_exact);
                    row.evidence = is_plain || is_exact ? "definition" : "hardware";
                    rows.push_back(row);
                }
            }
        }
    }
    return rows;
}

}  // namespace macheps::test
