// SPDX-License-Identifier: Apache-2.0
// A summary as people and programs read it: an aligned table, CSV, JSON.
#pragma once
#include "reports/findings/divergence.hpp"

#include <string>
#include <string_view>

namespace macheps::reports {

enum class Colour { never, always };

/// Colour for file descriptor `descriptor`: never unless it is a terminal and NO_COLOR is unset or empty.
Colour colour_for(int descriptor);

/// One aligned line per policy under a header: policy, seeds, loss, gap, verdict, skipped, underflow, lost updates, static
/// and activation bytes, peak. Below it, where the numbers came from; then each policy's verdict in a sentence (verdict.hpp),
/// and warnings. Ends with a line end.
std::string summary_table(const Summary& summary, Colour colour = Colour::never);

/// Over how many steps the losses of each row are means: "50 steps", and where rows differ those of the most rows, then
/// of each other one: "50 steps (short: 3; early: 2 to 50)". A row whose seeds differ has a range.
std::string window_words(const Summary& summary);

/// The text of summary.csv.
std::string summary_csv(const Summary& summary);

/// Writes summary.csv in one step. Errors: Exit::cannot_write.
void write_summary(const Summary& summary, const std::filesystem::path& path);

/// {"schema": 2, "policies": [one object per row, keys as the columns, null where not measured, NaN and infinities as
/// strings; and "sentence", the verdict in words, and "range", its range line], "notes": [...], "warnings": [...]}, indented, with a line end.
std::string summary_json(const Summary& summary);

/// How one policy's cells read in the table and on the page.
struct SummaryCells {
    std::string policy{}, seeds{}, loss{}, gap{}, verdict{}, skipped{}, underflow{}, lost_updates{}, static_bytes{},
        activation_bytes{}, peak{};
};

/// What the columns of bytes and of the peak are, in a sentence each: vendor's figures are marked as such.
std::string cost_words(const Summary& summary);
/// `fp16-noscale 32 %, amp-fp16 0.02 %`: what of the gradients became zero, under each policy under which something did.
std::string gradient_underflow_words(const Summary& summary);
/// Whose figures the column `peak` is made of, in a sentence.
std::string peak_words(const Summary& summary);
SummaryCells summary_cells(const PolicySummary& policy);

}  // namespace macheps::reports
