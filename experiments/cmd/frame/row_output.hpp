// SPDX-License-Identifier: Apache-2.0
// Output of a verb's rows. CSV on stdout is printed row by row. A file, JSON or a table for people is written at the
// end.
#pragma once
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "reports/pages/studies/analysis_tables.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/rows_json.hpp"

#include <unistd.h>

#include <string>
#include <vector>

namespace macheps::cmd {

/// The form in which rows are printed to stdout, as the options choose it.
struct RowForm {
    bool csv = false, table = false, json = false;

    /// Returns whether to print a table. It is the default on a terminal, because people read there.
    bool is_table() const { return !json && !csv && (table || isatty(STDOUT_FILENO) == 1); }
};

inline void describe_row_form(Command& verb, RowForm& form) {
    const Option csv = verb.flag("--csv", form.csv, "Print the rows as CSV, even on a terminal");
    const Option table =
        verb.flag("--table", form.table, "Print a table of the rows, even if stdout is not a terminal").excludes(csv);
    verb.flag("--json", form.json, "Print the rows as JSON").excludes(csv).excludes(table);
}

template <class Row>
class RowOutput {
  public:
    RowOutput(std::string file, const RowForm& form)
        : file_(std::move(file)),
          json_(form.json),
          table_(file_.empty() && form.is_table()),
          text_(reports::csv::header<Row>() + "\n") {
        if (is_streamed()) print_now(text_);
    }

    RowOutput(std::string file, bool json) : RowOutput(std::move(file), RowForm{.csv = !json, .json = json}) {}

    void add(const Row& row) {
        if (json_ || table_) rows_.push_back(row);
        std::string line;
        reports::csv::append_line(line, row);
        if (is_streamed()) {
            print_now(line);
        } else {
            text_ += line;
        }
    }
    void finish() {
        if (!file_.empty()) {
            publish(file_, text_);
            eprint("wrote {}\n", file_);
        }
        if (json_) print_now(reports::rows_json(std::span<const Row>(rows_)));
        if constexpr (requires { table_of(std::span<const Row>(rows_)); }) {
            if (table_) print_now(table_of(std::span<const Row>(rows_)).text());
        }
    }

  private:
    bool is_streamed() const { return file_.empty() && !json_ && !table_; }

    std::string file_;
    bool json_, table_;
    std::string text_;
    std::vector<Row> rows_{};
};

}  // namespace macheps::cmd
