// SPDX-License-Identifier: Apache-2.0
// A table for people. Words are aligned left and figures right. Words that are equal in every row are written once,
// above the table.
#pragma once
#include <string>
#include <vector>

namespace macheps::reports {

class FoldedTable {
  public:
    using Cells = std::vector<std::string>;

    /// Adds a column. Every column must have as many cells as the first column. If there is more than one row and all
    /// cells of a column of words are equal, the column moves to the caption. A column without any text is left out.
    void add_words(std::string name, Cells cells) { add(std::move(name), std::move(cells), true); }
    void add_figures(std::string name, Cells cells) { add(std::move(name), std::move(cells), false); }
    /// Sets the text below the table, which explains its headings.
    void explain(std::string text) { explanation_ = std::move(text); }

    /// Returns aligned text with a line end. Empty if the table has no rows.
    std::string text() const;
    /// Returns HTML with escaped text: the first `most` rows, and the number of rows that are not shown.
    std::string html(std::size_t most = 1000) const;

  private:
    struct Column {
        std::string name;
        Cells cells;
        bool is_words;
    };
    void add(std::string name, Cells cells, bool is_words);
    bool is_folded(const Column& column) const;
    std::vector<const Column*> shown() const;
    std::string caption() const;
    std::size_t rows() const { return columns_.empty() ? 0 : columns_.front().cells.size(); }

    std::vector<Column> columns_{};
    std::string explanation_{};
};

}  // namespace macheps::reports
