// SPDX-License-Identifier: Apache-2.0
// Where the rows of a verb go: onto stdout as they come, into a file when all are there, or as JSON.
#pragma once
#include "core/error.hpp"
#include "core/publish.hpp"
#include "experiments/cmd/tell.hpp"
#include "reports/csv.hpp"
#include "reports/rows_json.hpp"

#include <cstdio>
#include <string>
#include <vector>

namespace macheps {

/// Throws Error (cannot_write).
inline void print_rows(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
        throw Error({.what = "cannot write the rows", .where = "stdout", .exit = Exit::cannot_write});
    }
}

template <class Row>
class RowOutput {
  public:
    RowOutput(std::string file, bool json) : file_(std::move(file)), json_(json), text_(csv::header<Row>() + "\n") {
        if (is_streamed()) print_rows(text_);
    }

    void add(const Row& row) {
        if (json_) rows_.push_back(row);
        std::string line;
        csv::append_line(line, row);
        if (is_streamed()) {
            print_rows(line);
        } else {
            text_ += line;
        }
    }
    void finish() {
        if (!file_.empty()) {
            publish(file_, text_);
            tell("wrote {}\n", file_);
        }
        if (json_) print_rows(rows_json(std::span<const Row>(rows_)));
    }

  private:
    bool is_streamed() const { return file_.empty() && !json_; }

    std::string file_;
    bool json_;
    std::string text_;
    std::vector<Row> rows_{};
};

}  // namespace macheps
