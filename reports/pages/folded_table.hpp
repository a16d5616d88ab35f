// SPDX-License-Identifier: Apache-2.0
// A table for people: words stand left, figures right. What every row says alike stands once, above it.
#pragma once
#include <string>
#include <vector>

namespace macheps::reports {

class FoldedTable {
  public:
    using Cells = std::vector<std::string>;

    /// Every column has as many cells as the first one. A column of words whose cells are all alike becomes a word of the
    /// caption, if there is more than one row; one without any text is left out.
    void add_words(std::string name, Cells cells) { add(std::move(name), std::move(cells), true); }
    void add_figures(std::string name, Cells cells) { add(std::move(name), std::move(cells), false); }
    /// Beneath the table: what its headings mean.
    void explain(std::string text) { explanation_ = std::move(text); }

    /// Aligned, with a line end; nothing without rows.
    std::string text() const;
    /// Names escaped; the first `most` rows, and how many more there are.
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
