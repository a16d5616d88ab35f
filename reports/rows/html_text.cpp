// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/html_text.hpp"

#include "core/text/shown.hpp"

namespace macheps::reports {

std::string escape_html(std::string_view text) {
    std::string out;
    for (const char c : printable_lines(text)) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

}  // namespace macheps::reports
