// SPDX-License-Identifier: Apache-2.0
// The top of a report page: a title that names the compared policies, and short answers to three questions about them.
#pragma once
#include "reports/findings/diagnosis.hpp"
#include "reports/findings/divergence.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::reports {

struct Answer {
    std::string_view question;
    std::string sentence;
};

struct Conclusion {
    std::string title;  ///< the policies that were compared
    std::string lead;   ///< the runs, seeds and models of the comparison
    std::vector<Answer> answers{};
};

/// Draws conclusions from the runs of a log and ignores its other rows. Without runs, the result is empty.
Conclusion conclude(const Log& log, const Summary& summary, const Verdicts& verdicts);

/// Returns the answers as a section of the page, or an empty string if there are none.
std::string conclusion_html(const Conclusion& conclusion);

/// Joins names: "a, b and c". A list of more than `most` names is shortened: "a, b and 3 more".
std::string listed(const std::vector<std::string>& names, std::size_t most = 8);

}  // namespace macheps::reports
