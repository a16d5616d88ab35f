// SPDX-License-Identifier: Apache-2.0
// What a page says first: what was compared, and one sentence for each question that a reader has.
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
    std::string title;  ///< what was compared
    std::string lead;   ///< on what
    std::vector<Answer> answers{};
};

/// Of the runs of a log; its matrix products are not looked at. Without runs there is nothing to conclude, and no title.
Conclusion conclude(const Log& log, const Summary& summary, const Verdicts& verdicts);

/// The answers as a section of the page; empty where there are none.
std::string conclusion_html(const Conclusion& conclusion);

/// "a, b and c"; of more than `most` names "a, b and 3 more".
std::string listed(const std::vector<std::string>& names, std::size_t most = 8);

}  // namespace macheps::reports
