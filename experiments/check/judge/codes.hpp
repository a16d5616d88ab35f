// SPDX-License-Identifier: Apache-2.0
// Table of the reason codes (KC010 and so on) and their meanings. Text, JSON, JUnit, SARIF, annotations and
// docs/check.md use this table.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace macheps::check {

/// A reason code and its meaning. The code is also the id of a rule in SARIF, so its meaning never changes, and the
/// code is never reused.
struct ReasonCode {
    std::string_view code;
    std::string_view meaning;  ///< one sentence, the same as in docs/check.md

    operator std::string() const { return std::string(code); }
    friend bool operator==(const std::string& text, const ReasonCode& row) { return text == row.code; }
};

namespace reason_code {

inline constexpr ReasonCode all[] = {
    {"KC010", "An output is NaN or infinite but must not be, or must be NaN or infinite but is not"},
    {"KC011", "The kernel wrote outside of its output"},
    {"KC020", "An error is larger than that of any legal kernel"},
    {"KC021",
     "An error is larger than its probable bound, which a legal kernel exceeds in at most one of 1/delta checks "
     "(`--delta`)"},
    {"KC022",
     "The error of a signed sum of outputs is larger than the sum of their bounds (large products, `--sample`)"},
    {"KC023", "The error of a signed sum of outputs is larger than its probable bound (large products, `--sample`)"},
    {"KC030", "The mean square of all errors is larger than rounding errors explain"},
    {"KC031", "The outputs are too large or too small on average, by more than rounding errors explain"},
    {"KC032",
     "The mean square of the errors of a row, a column, a tile or a group is larger than rounding errors explain"},
    {"KC033", "Stochastic rounding goes away from zero too often or too rarely"},
    {"KC040", "Bits differ from those of the declared machine"},
    {"KC041", "An output that is exact up to the final rounding has a wrong code"},
    {"KC042",
     "An additional output array of the kernel differs from the values that its rule computes from the inputs"},
    {"KC050", "The check could not have caught a wrong kernel that it must be able to catch"},
    {"KC051", "A limit that you set is so wide that meaningless outputs satisfy it"},
    {"KC052", "An error is larger than the tolerance that you set (`--rtol`, `--atol`)"},
    {"KC053", "A metric is beyond the limit that you set (`--limit`)"},
    {"KC054", "The declared machine guarantees fewer bits than you need (`--need-bits`)"},
    {"KC055", "For more than half of the outputs, the declared machine guarantees nothing"},
    {"KC060", "The output is worse than the baseline"},
    {"KC061", "The baseline does not match: other bits, another declaration, other inputs, or no row"},
    {"KC062", "The baseline has an input that was not judged"},
    {"KC070", "Two runs of a kernel that claims to be deterministic differ"},
    {"KC090", "A file cannot be read, or its arrays are not those of the operation"},
    {"KC091", "The error of an output cannot be bounded"},
    {"KC092", "The declaration uses a feature that cannot be checked yet"},
};

/// Returns the table row of a code. A code that is not in the table is a compile-time error.
consteval const ReasonCode& row(std::string_view code) {
    const ReasonCode* at = all;
    while (at->code != code) ++at;
    return *at;
}

inline constexpr const ReasonCode &special = row("KC010"), &written_outside = row("KC011"), &certain = row("KC020"),
                                  &probable = row("KC021"), &screen_certain = row("KC022"),
                                  &screen_probable = row("KC023"), &mean_square = row("KC030"), &bias = row("KC031"),
                                  &part = row("KC032"), &frequency = row("KC033"), &bits = row("KC040"),
                                  &exact = row("KC041"), &written_beside = row("KC042"), &blind = row("KC050"),
                                  &wide_limit = row("KC051"), &tolerance = row("KC052"), &metric = row("KC053"),
                                  &need_bits = row("KC054"), &no_guarantee = row("KC055"), &worse = row("KC060"),
                                  &baseline_differs = row("KC061"), &baseline_gone = row("KC062"),
                                  &runs_differ = row("KC070"), &input = row("KC090"), &declined = row("KC091"),
                                  &not_judged = row("KC092");

}  // namespace reason_code

}  // namespace macheps::check
