// SPDX-License-Identifier: Apache-2.0
// Output of `macheps verify`: rows of probes as a table, CSV, JUnit and JSON.
#pragma once
#include "emulation/evidence/probe.hpp"
#include "experiments/cmd/frame/row_table.hpp"

#include <string>
#include <vector>

namespace macheps::cmd::verify {

struct VerifyCounts {
    std::uint64_t trials = 0, mismatches = 0;
    std::size_t rows = 0, equal = 0, differ = 0, recorded = 0, declined = 0, absent = 0, failed = 0;
    bool all_well() const { return differ == 0 && failed == 0; }
};
VerifyCounts count_rows(const std::vector<evidence::ProbeResult>& rows);

const char* verdict_name(evidence::Verdict verdict);

/// The columns of the JSON, the CSV and the table.
RowTable<evidence::ProbeResult> verify_rows();

/// Returns a table. An instruction has one line if the verdict `equal` holds for all its classes of operands, otherwise
/// a line for each class. A note is printed below its line if the verdict is not `equal`, or if the row answers a
/// question about a GPU (kind `question`).
std::string verify_table(const std::vector<evidence::ProbeResult>& rows);
/// Returns one test case for each row: `differs` is a failure, `failed` an error, `declined` and `absent` are skipped.
std::string verify_junit(const std::vector<evidence::ProbeResult>& rows);
void print_verify_json(const std::vector<evidence::ProbeResult>& rows, const std::string& device,
                       const std::vector<std::string>& traces);

}  // namespace macheps::cmd::verify
