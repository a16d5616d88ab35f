// SPDX-License-Identifier: Apache-2.0
#include "reports/rows/row_parser.hpp"

#include "core/error.hpp"

namespace macheps::reports::csv {

namespace {

/// Removes a quoted cell from the front of `text`, which starts with the opening quote. Returns false if there is no
/// closing quote.
bool take_quoted(std::string_view& text, std::vector<std::string_view>& cells, std::vector<std::string>& unquoted) {
    std::string cell;
    bool is_plain = true;
    for (std::size_t i = 1; i < text.size(); ++i) {
        if (text[i] != '"') {
            cell += text[i];
        } else if (i + 1 < text.size() && text[i + 1] == '"') {
            cell += text[i++], is_plain = false;
        } else {
            if (is_plain) {
                cells.push_back(text.substr(1, i - 1));
            } else {
                unquoted.push_back(std::move(cell));
                cells.emplace_back();  // take_line sets this view at its end: `unquoted` moves its strings as it grows
            }
            text.remove_prefix(i + 1);
            return true;
        }
    }
    return false;
}

}  // namespace

bool take_line(std::string_view& text, std::vector<std::string_view>& cells, std::vector<std::string>& unquoted) {
    cells.clear();
    unquoted.clear();
    std::vector<std::size_t> places;  // indices of the cells whose text is in `unquoted`
    for (bool is_over = false; !is_over;) {
        if (!text.empty() && text.front() == '"') {
            const std::size_t copies = unquoted.size();
            if (!take_quoted(text, cells, unquoted)) return false;
            if (unquoted.size() > copies) places.push_back(cells.size() - 1);
        } else {
            const std::size_t end = std::min(text.find_first_of(",\n\""), text.size());
            const bool is_crlf = end > 0 && end < text.size() && text[end] == '\n' && text[end - 1] == '\r';
            cells.push_back(text.substr(0, is_crlf ? end - 1 : end));
            text.remove_prefix(end);
        }
        if (text.starts_with("\r\n")) text.remove_prefix(1);
        if (!text.empty() && text.front() != ',' && text.front() != '\n') return false;
        is_over = text.empty() || text.front() == '\n';
        if (!text.empty()) text.remove_prefix(1);
    }
    for (std::size_t i = 0; i < places.size(); ++i) cells[places[i]] = unquoted[i];
    return true;
}

void throw_bad_row(const std::filesystem::path& path, std::string_view what) {
    throw Error(
        {.what = std::string(what), .where = path.string(), .fix = "restore the file, or delete the damaged row"});
}

}  // namespace macheps::reports::csv
