// SPDX-License-Identifier: Apache-2.0
// Formats a summary as an aligned table, as CSV or as JSON.
#pragma once
#include "reports/findings/divergence.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

enum class Colour { never, always };

/// Returns `always` if the file descriptor is a terminal and NO_COLOR is unset or empty, otherwise `never`.
Colour colour_for(int descriptor);

/// Returns one aligned line per policy under a header: policy, seeds, loss, gap, verdict, skipped, underflow, lost
/// updates, static and activation bytes, peak. The text below the table explains the columns, states the verdict and
/// range of each policy in sentences (verdict.hpp), and gives warnings. Ends with a line end.
std::string summary_table(const Summary& summary, Colour colour = Colour::never);

/// Returns the number of steps over which losses are averaged: "50 steps". If policies differ, the most frequent number
/// comes first, and then each exception with its policy: "50 steps (short: 3; early: 2 to 50)". If the seeds of a
/// policy differ, the text gives the range.
std::string window_words(const Summary& summary);

/// Returns the text of summary.csv.
std::string summary_csv(const Summary& summary);

/// Writes summary.csv atomically. Errors: Exit::cannot_write.
void write_summary(const Summary& summary, const std::filesystem::path& path);

/// Returns {"schema": 2, "policies": [...], "notes": [...], "warnings": [...]}, indented, with a line end. Each policy
/// is an object whose keys are the columns, plus "sentence" (the verdict in words) and "range" (see range_line()).
/// Values that were not measured are null; NaN and infinities are strings.
std::string summary_json(const Summary& summary);

/// The cells of one policy in the table and on the page.
struct SummaryCells {
    std::string policy{}, seeds{}, loss{}, gap{}, verdict{}, skipped{}, underflow{}, lost_updates{}, static_bytes{},
        activation_bytes{}, peak{};
};

/// Returns the sentences below the table that explain its columns and the setup. Sentences about columns without values
/// are left out.
std::vector<std::string> table_notes(const Summary& summary);
/// Returns the share of gradient elements that became zero for each policy: `fp16-noscale 32 %, amp-fp16 0.02 %`.
/// Policies whose share is zero or unknown are left out.
std::string gradient_underflow_words(const Summary& summary);
/// Returns a clause about the GPUs of the column `peak`, with the policies of each GPU if there are several, and about
/// the source of the figures.
std::string peak_words(const Summary& summary);
SummaryCells summary_cells(const PolicySummary& policy);

}  // namespace macheps::reports
