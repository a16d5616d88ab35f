// SPDX-License-Identifier: Apache-2.0
// Tests the page about logs that other training programs wrote.
#include "reports/pages/studies/training_log_page.hpp"
#include "tests/reports/training_log_samples.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <string>
#include <vector>

namespace training_log_page_test {

using namespace training_log_samples;

namespace {

std::string page_of(const std::vector<TrainingLog>& logs) {
    std::vector<LogVerdicts> verdicts;
    for (const TrainingLog& log : logs) verdicts.push_back(diagnose_log(log, {}));
    return training_logs_page(logs, verdicts);
}

std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

}  // namespace

TEST_CASE("the page has the name of a single log once, and a heading for each of several logs",
          "[reports][training_logs]") {
    const TrainingLog log = made(12, [](TrainingRow& row) { row.loss = 3.0 / double(row.step); });
    const std::string one = page_of({log}), two = page_of({log, log});
    CHECK(count_of(one, ">made</h1>") == 1);
    CHECK(count_of(one, ">made</h2>") == 0);
    CHECK(count_of(two, ">made and 1 more</h1>") == 1);
    CHECK(count_of(two, ">made</h2>") == 2);
}

TEST_CASE("a figure marks the steps whose value is not finite", "[reports][training_logs]") {
    const auto log_of = [](int count, int bad_from) {
        return made(count, [bad_from](TrainingRow& row) {
            row.loss = 3.0 / double(row.step);
            row.grad_norm = row.step >= bad_from ? (row.step % 2 == 0 ? NAN : INFINITY) : 2.0;
        });
    };
    const std::string name = "grad_norm is not finite (drawn at the largest value)";
    const std::string page = page_of({log_of(12, 10)});
    for (const char* step : {"10", "11", "12"})
        CHECK(count_of(page, fmt::format("<title>{}: {}, 2</title>", name, step)) == 1);
    CHECK(count_of(page, name + "</span>") == 1);
    CHECK(count_of(page, "loss is not finite (drawn") == 0);
    CHECK(count_of(page_of({log_of(12, 13)}), "is not finite (drawn") == 0);
    CHECK(count_of(page_of({log_of(12, 1)}), "is not finite (drawn") == 0);  // no figure without a finite value
    const std::string many = page_of({log_of(5000, 2)});
    CHECK(count_of(many, name + ":") <= 300);
    CHECK(count_of(many, name + ": 2, 2<") == 1);
}

TEST_CASE("a quantity without a finite value has a sentence instead of a curve", "[reports][training_logs]") {
    const auto page_with = [](double norm, double loss, std::optional<double> eval_loss) {
        return page_of({made(12, [&](TrainingRow& row) {
            row.loss = loss, row.grad_norm = norm;
            if (row.step == 6) row.eval_loss = eval_loss;
        })});
    };
    CHECK(count_of(page_with(NAN, 3, {}), "<b>Gradient norm.</b> grad_norm is NaN in all 12 rows that have it.") == 1);
    CHECK(count_of(page_with(INFINITY, 3, {}), "grad_norm is not finite in all 12 rows that have it.") == 1);
    CHECK(count_of(page_with(2, 3, {}), " rows that have it") == 0);
    // The curve of the evaluation is drawn, and the sentence is in the caption.
    CHECK(count_of(page_with(2, NAN, 3), "<b>Loss.</b> loss is NaN in all 12 rows that have it.") == 1);
    CHECK(count_of(page_with(2, 3, NAN), "<b>Loss.</b> eval_loss is NaN in the only row that has it.") == 1);
}

TEST_CASE("in a log with many rows, a value that is not finite hides no other value", "[reports][training_logs]") {
    const TrainingLog log = made(6000, [](TrainingRow& row) {
        row.loss = row.step % 12 == 1 ? NAN : row.step % 12 == 3 ? 2.0 : 9.0;
    });
    const std::string page = page_of({log});
    const std::size_t at = page.find("<path class=\"line\" d=\"");
    REQUIRE(at != std::string::npos);
    const std::string path = page.substr(at, page.find('"', at + 22) - at);
    // The y coordinate of a loss of 2 is the largest one.
    const std::regex point("[ML][0-9.]+ ([0-9.]+)");
    double bottom = 0;
    std::vector<double> heights;
    for (std::sregex_iterator found(path.begin(), path.end(), point), end; found != end; ++found) {
        heights.push_back(std::stod((*found)[1].str()));
        bottom = std::max(bottom, heights.back());
    }
    CHECK(std::count(heights.begin(), heights.end(), bottom) == 500);
}

}  // namespace training_log_page_test
