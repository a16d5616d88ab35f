// SPDX-License-Identifier: Apache-2.0
// Tests the reading and the diagnoses of logs that other training programs wrote. Each kind of log has a small sample
// here. Further samples and their expected verdicts are in the shared folder (test::shared_folder).
#include "core/error.hpp"
#include "core/text/json.hpp"
#include "reports/training_logs/line_forms.hpp"
#include "reports/training_logs/log_diagnosis.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace training_logs_test {

using namespace macheps;
using namespace macheps::reports;

namespace {

namespace fs = std::filesystem;

/// Returns `count` lines, of which line_of() makes one for each number from `first` on.
template <class Line>
std::string lines(int count, Line line_of, int first = 1) {
    std::string text;
    for (int i = first; i < first + count; ++i) text += line_of(i) + "\n";
    return text;
}

TrainingLog read(std::string_view text, const TrainingLogOptions& options = {}) {
    return parse_training_log(text, "log", options);
}

std::string error_of(std::string_view text, const TrainingLogOptions& options = {}) {
    try {
        read(text, options);
    } catch (const Error& error) {
        return fmt::format("{}: {}", int(error.exit()), error.what());
    }
    return "no error";
}

/// Returns "id word" of each finding.
std::set<std::string> verdicts_of(const TrainingLog& log, const TrainingLogOptions& options = {}) {
    std::set<std::string> found;
    for (const LogFinding& finding : diagnose_log(log, options).findings)
        found.insert(fmt::format("{} {}", finding.diagnosis->id, word_of(finding.seen.certainty)));
    return found;
}
std::set<std::string> verdicts_of(std::string_view text, const TrainingLogOptions& options = {}) {
    return verdicts_of(read(text, options), options);
}

/// Returns the sighting of a diagnosis, or nothing.
std::optional<LogSighting> sighting_if_any(const TrainingLog& log, std::string_view id,
                                           const TrainingLogOptions& options = {}) {
    for (const LogFinding& finding : diagnose_log(log, options).findings) {
        if (finding.diagnosis->id == id) return finding.seen;
    }
    return {};
}

/// Returns the sighting of a diagnosis. Fails the test if there is none.
LogSighting sighting(const TrainingLog& log, std::string_view id, const TrainingLogOptions& options = {}) {
    const std::optional<LogSighting> seen = sighting_if_any(log, id, options);
    CAPTURE(id);
    REQUIRE(seen);
    return *seen;
}

/// A log with one row for each step, for tests of diagnoses. `change` sets the quantities of a row.
TrainingLog made(int count, const std::function<void(TrainingRow&)>& change, std::size_t form = 3) {
    TrainingLog log{.path = "made", .form = &line_forms()[form]};
    for (int i = 1; i <= count; ++i) change(log.rows.emplace_back(TrainingRow{.step = i}));
    return log;
}

/// A sample of a kind of log, with the values of its third row.
struct Sample {
    std::string_view kind;
    std::string text;
    TrainingRow third;
    std::size_t rows = 6;
};

std::string megatron_line(int i) {
    return fmt::format(
        " [2026-01-05 10:00:01.000000] iteration {:8}/ 100 | consumed samples: {:12} | learning rate: 1.500000E-04 | "
        "global batch size: 256 | lm loss: {:.6E} | loss scale: 1024.0 | grad norm: 2.000 | number of skipped "
        "iterations:   0 | number of nan iterations:   0 |",
        i, 256 * i, 9.0 / i);
}

std::vector<Sample> samples() {
    return {
        {"Transformers (trainer_state.json)",
         "{\n \"best_metric\": null,\n \"log_history\": [\n" +
             lines(6,
                   [](int i) {
                       return fmt::format(
                           "  {{\n   \"epoch\": {},\n   \"grad_norm\": "
                           "0.5,\n   \"learning_rate\": 1e-05,\n   "
                           "\"loss\": {},\n   \"step\": {}\n  }},",
                           i, 9.0 / i, 10 * i);
                   }) +
             "  {\"epoch\": 6, \"step\": 60, \"eval_loss\": 1.25}\n ],\n \"max_steps\": 60\n}\n",
         {.step = 30, .loss = 3, .grad_norm = 0.5, .lr = 1e-5, .epoch = 3}},
        {"Transformers (console)",
         lines(6,
               [](int i) {
                   return fmt::format(
                       " {}%|##  | {}/6 {{'loss': {}, 'grad_norm': nan, 'learning_rate': 1e-05, "
                       "'epoch': 0.{}}}",
                       i, i, 9.0 / i, i);
               }) +
             "{'eval_loss': 1.25, 'epoch': 1.0}\n{'train_runtime': 3.1, 'train_loss': 2.0}\n",
         {.step = 3, .loss = 3, .grad_norm = NAN, .lr = 1e-5, .epoch = 0.3}},
        {"Transformers (console)",
         lines(6,
               [](int i) {
                   return fmt::format(
                       "{{'loss': '{:.4g}', 'grad_norm': '0.5', 'learning_rate': '1e-05', 'epoch': "
                       "'0.{}'}}",
                       9.0 / i, i);
               }),
         {.step = 3, .loss = 3, .grad_norm = 0.5, .lr = 1e-5, .epoch = 0.3}},
        {"JSON lines (ms-swift, Axolotl, torchtune)",
         lines(6,
               [](int i) {
                   return fmt::format(
                       "{{\"loss\": {}, \"grad_norm\": 0.5, \"learning_rate\": 1e-05, \"epoch\": 0.{}, "
                       "\"global_step/max_steps\": \"{}/60\", \"memory(GiB)\": 20.5}}",
                       9.0 / i, i, 10 * i);
               }),
         {.step = 30, .loss = 3, .grad_norm = 0.5, .lr = 1e-5, .epoch = 0.3}},
        {"DeepSpeed",
         lines(6,
               [](int i) {
                   return fmt::format(
                       "[2026-01-05 10:00:00,101] [INFO] [logging.py:96:log_dist] [Rank 0] step={}, "
                       "skipped={}, lr=[2e-05], mom=[[0.9, 0.999]]",
                       10 * i, i / 3);
               }),
         {.step = 30, .lr = 2e-5, .skipped = 1}},
        {"Megatron-LM, GPT-NeoX",
         lines(6, megatron_line),
         {.step = 3, .loss = 3, .grad_norm = 2, .lr = 1.5e-4, .loss_scale = 1024, .skipped = 0}},
        {"Megatron-LM, GPT-NeoX",
         lines(6,
               [](int i) {
                   return fmt::format(
                       " samples/sec: 12.3 | iteration {:8}/ 320000 | elapsed time per iteration (ms): "
                       "100.0 | learning rate: 1.500E-04 | lm_loss: {:.3E} | loss scale: 64.0 | number "
                       "of skipped iterations: 0 | number of nan iterations: 0 |",
                       10 * i, 9.0 / i);
               }),
         {.step = 30, .loss = 3, .lr = 1.5e-4, .loss_scale = 64, .skipped = 0}},
        {"nanoGPT",
         lines(6, [](int i) { return fmt::format("iter {}: loss {}, time 120.51ms, mfu 41.20%", i, 9.0 / i); }) +
             "step 6: train loss 1.4, val loss 1.6\n",
         {.step = 3, .loss = 3}},
        {"llm.c",
         lines(6, [](int i) { return fmt::format("s:{} trl:{} lr:0.0001 norm:0.5", i, 9.0 / i); }) +
             "s:6 tel:1.6\ns:6 eval:0.25\n",
         {.step = 3, .loss = 3, .grad_norm = 0.5, .lr = 1e-4}},
        {"torchtitan",
         lines(6,
               [](int i) {
                   return fmt::format(
                       "[rank0]:[titan] 2026-01-05 10:00:01,000 - root - INFO - \x1b[31mstep: {:2}  "
                       "\x1b[32mloss: {:8.5f}  \x1b[33mgrad_norm:  0.5000  \x1b[34mmemory:  5.10GiB",
                       i, 9.0 / i);
               }),
         {.step = 3, .loss = 3, .grad_norm = 0.5}},
        {"torchtune",
         lines(6, [](int i) { return fmt::format("Step {} | loss:{} lr:2e-05 grad_norm:0.5 ", i, 9.0 / i); }),
         {.step = 3, .loss = 3, .grad_norm = 0.5, .lr = 2e-5}},
        {"LitGPT",
         lines(6,
               [](int i) {
                   return fmt::format("Epoch 1 | iter {} step {} | loss train: {}, val: n/a | iter time: 98.5 ms", i,
                                      i / 2, 9.0 / i);
               }),
         {.step = 3, .loss = 3, .epoch = 1}},
        {"CSV (Lightning metrics.csv, wandb)",
         "epoch,step,train_loss_step,val_loss,lr-AdamW,grad_norm\n" +
             lines(6, [](int i) { return fmt::format("0,{0},{1},,,0.5\n0,{0},,,0.0001,", 10 * i, 9.0 / i); }) +
             "0,60,,1.25,,\n",
         {.step = 30, .loss = 3, .grad_norm = 0.5, .lr = 1e-4, .epoch = 0}},
        {"CSV (Lightning metrics.csv, wandb)",
         "\"Step\",\"run 1 - train/loss\",\"run 1 - train/loss__MIN\",\"run 1 - eval/loss\",\"run 1 - "
         "train/grad_norm\"\n" +
             lines(6, [](int i) { return fmt::format("\"{}\",\"{}\",\"0\",\"\",\"NaN\"", i, 9.0 / i); }),
         {.step = 3, .loss = 3, .grad_norm = NAN}},
        {"TensorBoard (CSV)",
         "Wall time,Step,Value\n" + lines(6, [](int i) { return fmt::format("1.5,{},2.5", i); }),
         {.step = 3}},
    };
}

/// Compares rows; two NaNs count as equal.
bool same(const TrainingRow& a, const TrainingRow& b) {
    bool equal = true;
    const auto compare = [&]<class Value>(const Column<TrainingRow, Value>& c) {
        if constexpr (is_optional<Value>) {
            const bool both = (a.*c.field).has_value() && (b.*c.field).has_value();
            const bool both_nan = both && std::isnan(*(a.*c.field)) && std::isnan(*(b.*c.field));
            equal = equal && (both_nan || a.*c.field == b.*c.field);
        } else {
            equal = equal && a.*c.field == b.*c.field;
        }
    };
    for_each_column<TrainingRow>(compare);
    return equal;
}
bool same(const TrainingLog& a, const TrainingLog& b) {
    return a.form == b.form && std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(),
                                          [](const TrainingRow& x, const TrainingRow& y) { return same(x, y); });
}

std::string with_crlf(std::string_view text) {
    std::string out;
    for (const char c : text) out += c == '\n' ? std::string("\r\n") : std::string(1, c);
    return out;
}

}  // namespace

TEST_CASE("every kind of training log is recognised from its content", "[reports][training_logs]") {
    for (const Sample& sample : samples()) {
        CAPTURE(sample.kind, sample.text);
        const TrainingLog log = read(sample.text);
        CHECK(log.form->name == sample.kind);
        REQUIRE(log.rows.size() == sample.rows);
        CAPTURE(training_logs_csv({log}));
        CHECK(same(log.rows[2], sample.third));
        CHECK(same(read(with_crlf(sample.text)), log));
        CHECK(same(read("\xef\xbb\xbf" + sample.text), log));
    }
}

TEST_CASE("every form of lines has a sample, and no sample fits a second form as well", "[reports][training_logs]") {
    for (const LineForm& form : line_forms()) {
        CAPTURE(form.name);
        const std::vector<Sample> all = samples();
        CHECK(std::any_of(all.begin(), all.end(), [&](const Sample& sample) { return sample.kind == form.name; }));
        std::string text;
        for (int i = 0; i < 5; ++i) text += std::string(form.example) + "\n";
        const TrainingLog log = read(text);
        CHECK(log.form->name == form.name);
    }
}

TEST_CASE("of a log with a torn last line, only the last row is left out", "[reports][training_logs]") {
    for (const Sample& sample : samples()) {
        // The sample without its last line, and this text with each beginning of the last line.
        const std::string_view text = std::string_view(sample.text).substr(0, sample.text.size() - 1);
        const std::size_t end = text.rfind('\n') + 1;
        const TrainingLog before = read(text.substr(0, end)), whole = read(sample.text);
        for (std::size_t bytes = end + 1; bytes < text.size(); bytes += 3) {
            CAPTURE(sample.kind, text.substr(end, bytes - end));
            const TrainingLog torn = read(text.substr(0, bytes));
            CHECK((same(torn, before) || same(torn, whole)));
            const bool is_map = sample.text.find('{') != std::string::npos;  // a map shows where it ends
            const bool has_digit = text.substr(end, bytes - end).find_first_of("0123456789") != std::string_view::npos;
            CHECK((torn.notes.size() == before.notes.size() + 1 || is_map || !has_digit));
        }
    }
}

TEST_CASE("evaluations are joined with the row of their step", "[reports][training_logs]") {
    for (const Sample& sample : samples()) {
        const bool has_one =
            sample.text.find("eval_loss") != std::string::npos || sample.text.find("val loss") != std::string::npos ||
            sample.text.find("tel:") != std::string::npos || sample.text.find("1.25") != std::string::npos;
        CAPTURE(sample.kind);
        CHECK(read(sample.text).rows.back().eval_loss.has_value() == has_one);
    }
}

TEST_CASE("text that is not a training log is refused with the nearest forms", "[reports][training_logs]") {
    CHECK(error_of("").find("3: log: the file is empty") == 0);
    CHECK(error_of(std::string("\x00\x01\x02", 3)).find("3: log: this is a binary file") == 0);
    CHECK(error_of("\xff\xfe\x80 no text\n").starts_with("3: "));
    const std::string few = error_of(lines(4, [](int i) { return fmt::format("iter {}: loss 2.5, time 1ms", i); }));
    CHECK(few.find("at most 4 of its 4 lines fit one form") != std::string::npos);
    CHECK(few.find("the nearest forms are nanoGPT: ") != std::string::npos);
    CHECK(std::count(few.begin(), few.end(), '`') == 8);  // gemm and three examples
    CHECK(error_of("step,loss\n1,2.5\n").find("the log has only 1 row, and a report needs 4 more (") !=
          std::string::npos);
    CHECK(error_of("{\"log_history\": []}").find("the log has only 0 rows") != std::string::npos);
    CHECK(error_of("no text\n").find("of its 1 lines fit one form (") != std::string::npos);
    CHECK(error_of("run,policy,seed,step,loss\n" + lines(9, [](int i) { return fmt::format("r,p,0,{},2.5", i); }))
              .starts_with("3: "));  // steps.csv of a run directory
    CHECK(error_of(std::string(100000, '{')).starts_with("3: "));
    CHECK(error_of(std::string(100000, '"')).starts_with("3: "));
}

TEST_CASE("a log that is too short is refused with what its lines show", "[reports][training_logs]") {
    const auto console = [](std::string_view loss, std::string_view norm) {
        return fmt::format("{{'loss': {}, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': 0.1}}\n", loss, norm);
    };
    const std::string skip = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 8, reducing to 4\n";
    struct Row {
        std::string text;
        std::size_t missing;
        std::set<std::string> shown;
    };
    const Row rows[] = {
        {console("2.5", "1.2"), 4, {}},
        {console("nan", "1.2"), 4, {"nan-in-loss (certain, row 1)"}},
        {console("344093.2", "nan") + console("0.0", "nan") + console("0.0", "nan"),
         2,
         {"nan-in-gradient (certain, row 1)", "finite-loss-nan-gradient (possible, row 1)",
          "loss-zero-filtered (likely, row 2)", "first-loss-far-from-ln-vocabulary (possible, row 1)"}},
        {skip + skip, 3, {"first-steps-skipped (certain, step 1)", "skipped-steps (certain, step 1)"}},
        {"step,loss\n1,2.5\n2,inf\n", 3, {"nan-in-loss (certain, step 2)"}},
        {"{\"log_history\": [{\"step\": 10, \"loss\": NaN}]}", 4, {"nan-in-loss (certain, step 10)"}},
        {"step,loss,loss_scale\n" + lines(4, [](int i) { return fmt::format("{},2.5,0.5", i); }),
         1,
         {"scale-collapse (certain, step 1)"}},
    };
    const std::regex finding("(?:show|;) ([a-z-]+ \\((?:possible|likely|certain), [a-z]+ [0-9]+\\)): ");
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const std::string error = error_of(row.text);
        CAPTURE(error);
        CHECK(error.starts_with("3: log: "));
        CHECK(error.find(fmt::format(", and a report needs {} more", row.missing)) != std::string::npos);
        std::set<std::string> shown;
        for (std::sregex_iterator at(error.begin(), error.end(), finding), end; at != end; ++at)
            shown.insert((*at)[1].str());
        CHECK(shown == row.shown);
    }
}

TEST_CASE("a number beyond the range of fp64 becomes infinity or 0, and a damaged row is left out",
          "[reports][training_logs]") {
    const TrainingLog log =
        read("step,loss,grad_norm\n1,1e999,-Infinity\n2,1e-999,inf\n1e30,1,1\nnan,1,1\n2.5,1,1\n9,1\n" +
             lines(4, [](int i) { return fmt::format("{}.0,2.5,", i + 2); }));
    REQUIRE(log.rows.size() == 6);
    CHECK(log.other_lines == 4);
    CHECK(*log.rows[0].loss == INFINITY);
    CHECK(*log.rows[0].grad_norm == -INFINITY);
    CHECK(*log.rows[1].loss == 0);
    CHECK_FALSE(log.rows[2].grad_norm);
}

TEST_CASE("a place is a step if the log has step numbers, and a row otherwise", "[reports][training_logs]") {
    const std::vector<Sample> all = samples();
    CHECK(read(all[1].text).place(3) == "row 3");
    CHECK(read(all[3].text).place(3) == "step 3");
    CHECK(read(all[5].text).place(3) == "iteration 3");
}

TEST_CASE("other lines are counted, and only the lowest rank is read", "[reports][training_logs]") {
    const auto of_rank = [](int rank) {
        return lines(6, [rank](int i) {
            return fmt::format("[rank{}]: Step {} | loss:{} lr:2e-05 ", rank, i, rank == 1 ? 1.5 : 2.5);
        });
    };
    const TrainingLog log = read(of_rank(2) + "a warning\n" + of_rank(1) + "another\n");
    CHECK(log.other_lines == 2);
    REQUIRE(log.rows.size() == 6);
    CHECK(*log.rows[0].loss == 1.5);
    REQUIRE(log.notes.size() == 1);
    CHECK(log.notes[0] == "6 lines of other ranks than 1 are left out");
}

TEST_CASE("a resumed run has the later values of its repeated steps", "[reports][training_logs]") {
    const auto part = [](int first, int count, double loss) {
        return lines(
            count, [loss](int i) { return fmt::format("iter {}: loss {}, time 1ms", i, loss); }, first);
    };
    const TrainingLog log = read(part(1, 8, 2.5) + part(6, 5, 1.5));
    REQUIRE(log.rows.size() == 10);
    CHECK(*log.rows[4].loss == 2.5);
    CHECK(*log.rows[5].loss == 1.5);
    REQUIRE(log.notes.size() == 1);
    CHECK(log.notes[0].starts_with("3 steps are repeated"));
}

TEST_CASE("--column names the columns that are not known", "[reports][training_logs]") {
    const std::string text = "Wall time,Step,Value\n" + lines(6, [](int i) { return fmt::format("1.5,{},2.5", i); });
    const TrainingLog unnamed = read(text);
    CHECK(columns_of(unnamed).empty());
    CHECK(unnamed.notes.at(0).find("--column loss=Value") != std::string::npos);
    const TrainingLog named = read(text, {.columns = {{"loss", "Value"}}});
    CHECK(columns_of(named) == std::vector<std::string_view>{"loss"});
    CHECK(named.notes.empty());
    CHECK(error_of(text, {.columns = {{"loss", "value"}}})
              .starts_with("2: --column: log has no column 'value' (use one "));
    const std::string unnameable = lines(6, megatron_line);
    CHECK(error_of(unnameable, {.columns = {{"loss", "x"}}}).starts_with("2: --column: the columns of a log of Meg"));
    const std::string map = lines(6, [](int i) { return fmt::format("{{'loss': 9, 'my_loss': {}}}", i); });
    CHECK(*read(map, {.columns = {{"loss", "my_loss"}}}).rows[1].loss == 2);
}

TEST_CASE("skipped steps of DeepSpeed are found in logs of other forms", "[reports][training_logs]") {
    const std::string skip = "[2026-01-05] [INFO] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: ";
    const std::string other = "[2026-01-05] [INFO] [deepspeed] OVERFLOW! Rank 1 Skipping step. Attempted loss scale: ";
    const auto row = [](int i) { return fmt::format("{{'loss': {}, 'grad_norm': 1.0, 'epoch': 0.1}}\n", 9.0 / i); };
    const TrainingLog log = read(row(1) + skip + "65536, reducing to 32768\n" + other + "65536, reducing to 32768\n" +
                                 row(2) + row(3) + row(4) + row(5));
    REQUIRE(log.rows.size() == 5);
    CHECK_FALSE(log.rows[0].skipped);
    CHECK(log.rows[1].skipped == 1.0);
    CHECK(log.rows[1].loss_scale == 65536.0);
    CHECK(log.rows[1].loss == 4.5);
    CHECK(log.knows_skipped_steps);

    const TrainingLog interval =
        read(row(1) + row(2) + skip + "8, reducing to 4\n" + skip + "4, reducing to 2\n" + row(3) + row(4) + row(5));
    REQUIRE(interval.rows.size() == 5);
    CHECK(interval.rows[2].skipped == 2.0);
    CHECK_FALSE(interval.knows_skipped_steps);
    CHECK(interval.notes.size() == 1);

    // Messages between `step=` lines: the total of the next line includes them.
    const auto total = [](int step, int skipped) {
        return fmt::format("[Rank 0] step={}, skipped={}, lr=[1e-4], mom=[0.9]\n", step, skipped);
    };
    const TrainingLog totals = read(total(10, 0) + skip + "8, reducing to 4\n" + total(20, 3) + total(30, 3) +
                                    total(40, 3) + skip + "8, but hysteresis is 2. Reducing hysteresis to 1\n");
    double skipped = 0;
    for (const TrainingRow& one : totals.rows) skipped += one.skipped.value_or(0);
    CHECK(skipped == 4);
    CHECK(totals.rows.back().scale_after == 8.0);
}

TEST_CASE("a log with more messages of DeepSpeed than other rows has the form of the other rows",
          "[reports][training_logs]") {
    std::string text;
    for (int i = 0; i < 16; ++i)
        text += fmt::format("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}\n",
                            65536 >> i, 32768 >> i);
    const TrainingLog log = read(text + lines(5, [](int i) { return fmt::format("{{'loss': {}}}", 9.0 / i); }));
    CHECK(log.form->name == "Transformers (console)");
    REQUIRE(log.rows.size() == 5);
    CHECK(log.rows[0].skipped == 16.0);
}

TEST_CASE("a log without rows of training steps is refused", "[reports][training_logs]") {
    for (const char* line : {"Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
                             "s:10 eval:0.25", "{'eval_loss': 2.5}"}) {
        CAPTURE(line);
        const std::string error = error_of(lines(6, [line](int) { return std::string(line); }));
        CHECK(error.find("3: log: the log has no rows of training steps") == 0);
    }
}

TEST_CASE("overflows at the smallest scale end a run of DeepSpeed", "[reports][training_logs]") {
    std::string text;
    for (int scale = 64; scale > 1; scale /= 2)
        text += fmt::format("[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}\n",
                            scale, scale / 2);
    const TrainingLog running = read(text);
    CHECK(verdicts_of(running) ==
          std::set<std::string>{"overflow-cascade certain", "first-steps-skipped certain", "skipped-steps certain"});
    CHECK(sighting(running, "overflow-cascade").sentence.find("6 consecutive steps") == 0);
    CHECK(sighting(running, "overflow-cascade").sentence.find("from 64 to 1 (6 halvings)") != std::string::npos);
    const TrainingLog ended =
        read(text + "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n");
    CHECK(sighting(ended, "scale-at-floor").step == 7);
    CHECK(sighting(ended, "scale-at-floor").sentence.find("loss scale of 1, after 7 consecutive") != std::string::npos);
}

namespace {

/// A message of DeepSpeed about a skipped step.
std::string skip_line(int scale, int next) {
    return fmt::format(
        "[loss_scaler.py:181:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss "
        "scale: {}, reducing to {}\n",
        scale, next);
}
/// A line of DeepSpeed about the steps so far.
std::string total_line(int step, int skipped, double rate = 1e-4) {
    return fmt::format("[logging.py:96:log_dist] [Rank 0] step={}, skipped={}, lr=[{}, {}], mom=[(0.9, 0.95)]\n", step,
                       skipped, rate, rate);
}
/// A line of DeepSpeed's pipeline engine.
std::string pipeline_line(int step, std::string_view loss) {
    return fmt::format("steps: {} loss: {} iter time (s): 34.890 samples/sec: 73.373\n", step, loss);
}

}  // namespace

TEST_CASE("a cascade in a log of DeepSpeed ends at the last scale that its messages give", "[reports][training_logs]") {
    const std::string hysteresis =
        "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing "
        "hysteresis to 1\n";
    const std::string fused = "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: {}, reducing to {}\n";
    std::string messages, with_fused, with_totals, with_losses, later;
    int step = 0;
    for (int scale = 65536; scale > 2048; scale /= 2) {
        ++step;
        messages += skip_line(scale, scale / 2);
        with_fused += fmt::format(fmt::runtime(fused), scale, scale / 2);
        with_totals += skip_line(scale, scale / 2) + total_line(step, step);
        with_losses += skip_line(scale, scale / 2) + total_line(step, step) + pipeline_line(step, "7.4400");
        later += skip_line(scale, scale / 2) + total_line(227 + step, step);
    }
    struct Row {
        const char* why;
        std::string text;
        std::int64_t step = 1;
    };
    const auto every = [](int interval, int first, int skipped) {
        return lines(
            6, [&](int i) { return total_line(first + interval * i, skipped); }, 0);
    };
    const Row rows[] = {
        {"messages and nothing else", messages},
        {"a line every ten steps", messages + every(10, 10, 5)},
        {"hysteresis", hysteresis + messages + every(10, 10, 6)},
        {"the fused optimiser", with_fused + every(10, 10, 5)},
        {"a line for each step", with_totals + every(1, 6, 5)},
        {"the pipeline engine", with_losses + every(1, 6, 5) + pipeline_line(11, "7.4410")},
        {"the middle of a run", later + every(1, 233, 5), 228},
        {"the middle of a run, a line every ten steps", messages + every(10, 230, 5), 221},
        {"after clean steps", every(1, 1, 0) + messages + every(1, 11, 5), 7},
    };
    for (const Row& row : rows) {
        CAPTURE(row.why, row.text);
        const TrainingLog log = read(row.text);
        const LogSighting cascade = sighting(log, "overflow-cascade");
        CHECK(cascade.sentence.find("from 65536 to 2048 (5 halvings)") != std::string::npos);
        CHECK(cascade.step == row.step);
        CHECK(cascade.remedy.empty());
        std::set<std::string> found;
        for (const std::string& verdict : verdicts_of(log)) found.insert(verdict.substr(0, verdict.find(' ')));
        std::set<std::string> expected{"overflow-cascade", "skipped-steps"};
        if (row.step == 1) expected.insert("first-steps-skipped");
        CHECK(found == expected);
    }
}

TEST_CASE("a scale at which clean steps follow is not a floor", "[reports][training_logs]") {
    std::string text;
    for (int i = 0; i < 4; ++i) text += skip_line(8, i < 3 ? 8 : 4);
    CHECK_FALSE(
        verdicts_of(text + lines(5, [](int i) { return total_line(4 + i, 4); })).contains("scale-at-floor certain"));
    text += skip_line(4, 4) + skip_line(4, 4) + skip_line(4, 4);
    CHECK_FALSE(
        verdicts_of(text + lines(5, [](int i) { return total_line(7 + i, 7); })).contains("scale-at-floor certain"));
    text += skip_line(4, 4);
    CHECK(verdicts_of(text + lines(5, [](int i) { return total_line(8 + i, 8); })).contains("scale-at-floor certain"));
}

TEST_CASE("no smaller initial scale is advised if overflows continue at the smallest scale",
          "[reports][training_logs]") {
    std::string text;
    for (int scale = 16; scale > 1; scale /= 2) text += skip_line(scale, scale / 2);
    struct Row {
        const char* why;
        std::string text;
        bool is_useless;
    };
    std::string at_four;
    for (int scale = 64; scale > 4; scale /= 2) at_four += skip_line(scale, scale / 2);
    const std::string four = skip_line(4, 4);
    const Row rows[] = {
        {"a scale of 1 changes nothing", text + lines(5, [](int i) { return total_line(4 + i, 4); }), true},
        {"overflows at 1", text + skip_line(1, 1) + skip_line(1, 1) + skip_line(1, 1) + skip_line(1, 1), true},
        {"overflows at a minimum of 4", at_four + four + four + four + four, true},
        {"4 is small enough", at_four + lines(5, [](int i) { return total_line(4 + i, 4); }), false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.why, row.text);
        const TrainingLog log = read(row.text);
        for (const LogFinding& finding : diagnose_log(log, {}).findings) {
            const std::string_view id = finding.diagnosis->id;
            if (id != "overflow-cascade" && id != "first-steps-skipped") continue;
            CAPTURE(id);
            CHECK((finding.remedy().find("smaller initial scale does not help") != std::string_view::npos) ==
                  row.is_useless);
            CHECK((finding.remedy() == finding.diagnosis->remedy) != row.is_useless);
        }
        const std::string shown = training_log_text(log, diagnose_log(log, {}));
        CHECK((shown.find("start with the loss scale at which it ended") == std::string::npos) == row.is_useless);
    }
}

TEST_CASE("a schedule over skipped steps is reported only if the rates of both neighbours differ",
          "[reports][training_logs]") {
    // The rate of step i. A schedule either counts all steps or waits in skipped steps, and a program prints either the
    // rate of the step or the rate after it.
    const auto log_of = [](bool waits, bool prints_next, std::set<int> skips, bool is_constant = false) {
        std::string text;
        double rate = 1e-4;
        for (int i = 1, skipped = 0; i <= 12; ++i) {
            const bool is_skipped = skips.contains(i);
            skipped += is_skipped ? 1 : 0;
            const double now = rate;
            if (!(is_skipped && waits) && !is_constant) rate += 1e-5;
            if (is_skipped) text += skip_line(1024, 1024);
            text += total_line(i, skipped, prints_next ? rate : now);
        }
        return sighting_if_any(read(text), "schedule-over-skips");
    };
    for (const bool prints_next : {false, true}) {
        CAPTURE(prints_next);
        for (const std::set<int>& skips : {std::set<int>{5}, {5, 6, 7}, {1, 2}, {12}, {11, 12}}) {
            CAPTURE(skips);
            CHECK_FALSE(log_of(true, prints_next, skips));
            CHECK_FALSE(log_of(false, prints_next, skips, true));
        }
        CHECK(log_of(false, prints_next, {5})->step == 5);
        CHECK(log_of(false, prints_next, {5, 6, 7})->sentence.find("over 3 skipped steps (of 12 steps)") !=
              std::string::npos);
        CHECK_FALSE(log_of(false, prints_next, {12}));  // the step after it is not known
    }
}

TEST_CASE("skipped steps before the beginning of a log are not steps of the log", "[reports][training_logs]") {
    const TrainingLog log = read(lines(6, [](int i) { return total_line(500 + i, i < 4 ? 1 : 2); }));
    CHECK(log.skipped_before == 1);
    CHECK(log.rows[0].skipped == 0.0);
    CHECK(log.rows[3].skipped == 1.0);
    CHECK(sighting(log, "skipped-steps").sentence == "2 of 506 steps were skipped, 1 of them before the log begins");
    CHECK(sighting(log, "skipped-steps").step == 504);
    const TrainingLog begins = read(lines(6, [](int i) { return total_line(10 * i, 3); }));
    CHECK(begins.skipped_before == 0);
    CHECK(sighting(begins, "skipped-steps").sentence == "3 of 60 steps were skipped");
}

TEST_CASE("the loss of DeepSpeed's pipeline engine is read", "[reports][training_logs]") {
    std::string text;
    for (int i = 1; i <= 8; ++i) text += total_line(i, 0) + pipeline_line(i, i < 6 ? "7.4400" : "nan");
    const TrainingLog log = read(text);
    REQUIRE(log.rows.size() == 8);
    CHECK(log.notes.empty());
    CHECK(log.rows[2].loss == 7.44);
    CHECK(log.rows[2].lr == 1e-4);
    CHECK(sighting(log, "nan-in-loss").step == 6);
    CHECK(*read("steps: 1 loss: 2.5000 aux_loss: 0.5000 iter time (s): 1.0 samples/sec: 2.0\n" +
                lines(4, [](int i) { return pipeline_line(i + 1, "2.5"); }))
               .rows[0]
               .loss == 2.5);
}

TEST_CASE("messages of DeepSpeed in a log of GPT-NeoX do not repeat its rows", "[reports][training_logs]") {
    // The row has the scale after the step, and counts the steps of its interval that were skipped.
    const auto row = [](int i, double scale, int skipped) {
        return fmt::format(
            " samples/sec: 1.2 | iteration {}/ 100 | learning rate: 1.5E-04 | lm_loss: {:.4E} | loss "
            "scale: {} | number of skipped iterations: {} | number of nan iterations: 0 |\n",
            i, 9.0 / i, scale, skipped);
    };
    std::string each, interval;
    for (int i = 1, scale = 65536; i <= 5; ++i, scale /= 2) {
        each += skip_line(scale, scale / 2) + total_line(i, i) + pipeline_line(i, "9.0") + row(i, scale / 2, 1);
        interval += skip_line(scale, scale / 2);
    }
    for (int i = 6; i <= 10; ++i) each += total_line(i, 5) + pipeline_line(i, "9.0") + row(i, 2048, 0);
    for (int i = 10; i <= 50; i += 10) interval += total_line(i, 5) + row(i, 2048, i == 10 ? 5 : 0);
    for (const std::string& text : {each, interval}) {
        CAPTURE(text);
        const TrainingLog log = read(text);
        CHECK(log.form->name == "Megatron-LM, GPT-NeoX");
        for (const std::string& note : log.notes) CHECK(note.find("repeated") == std::string::npos);
        double skipped = 0;
        for (const TrainingRow& one : log.rows) skipped += one.skipped.value_or(0);
        CHECK(skipped == 5);
        CHECK(sighting(log, "overflow-cascade").sentence.find("from 65536 to 2048 (5 halvings)") != std::string::npos);
    }
}

TEST_CASE("a smaller loss scale in the next row shows a skipped step", "[reports][training_logs]") {
    const TrainingLog log = made(12, [](TrainingRow& row) {
        row.loss = 3.0 - 0.1 * double(row.step);
        row.loss_scale = row.step < 6 ? std::ldexp(1.0, 16 - int(row.step)) : 1024.0;
    });
    CHECK(sighting(log, "overflow-cascade").sentence.find("5 consecutive steps") == 0);
    CHECK(verdicts_of(log) ==
          std::set<std::string>{"overflow-cascade certain", "first-steps-skipped certain", "skipped-steps certain"});
    const TrainingLog steady =
        made(12, [](TrainingRow& row) { row.loss = 3.0 / double(row.step), row.loss_scale = 8; });
    CHECK(verdicts_of(steady).empty());
}

TEST_CASE("if only some steps of an interval were skipped, no cascade is reported", "[reports][training_logs]") {
    const auto interval = [](double skipped) {
        TrainingLog log{.path = "made", .form = &line_forms()[3]};
        for (int i = 1; i <= 10; ++i) {
            log.rows.push_back({.step = 10 * i,
                                .loss = 3.0 / i,
                                .loss_scale = i == 1 ? 65536.0 : 64.0,
                                .skipped = i == 1 ? skipped : 0});
        }
        return verdicts_of(log);
    };
    CHECK(interval(9) == std::set<std::string>{"skipped-steps certain"});
    CHECK(interval(10).contains("overflow-cascade certain"));
}

namespace {

/// Pseudorandom noise with zero mean and about unit deviation, the same in every run.
double noise(std::int64_t i) {
    std::uint64_t x = std::uint64_t(i) * 0x9e3779b97f4a7c15u;
    x ^= x >> 29, x *= 0xbf58476d1ce4e5b9u, x ^= x >> 32;
    return std::sqrt(12.0) * (double(x >> 11) * 0x1p-53 - 0.5);
}

/// A made log with the findings that it must have, in addition to none.
struct Case {
    const char* why;
    TrainingLog log;
    std::set<std::string> verdicts;
    TrainingLogOptions options{};
};

double falling(const TrainingRow& row) { return 2 + 8 * std::exp(-double(row.step) / 30) + 0.02 * noise(row.step); }

std::vector<Case> cases() {
    const auto with_norm = [](int count, const std::function<double(std::int64_t)>& norm) {
        return made(count, [&](TrainingRow& row) { row.loss = falling(row), row.grad_norm = norm(row.step); });
    };
    const auto with_scale = [](int count, const std::function<double(std::int64_t)>& scale,
                               const std::function<double(double)>& norm) {
        return made(count, [&](TrainingRow& row) {
            row.loss = falling(row), row.skipped = 0, row.loss_scale = scale(row.step);
            row.grad_norm = norm(*row.loss_scale) * (1 + 0.05 * noise(row.step));
        });
    };
    const auto flat = [](double loss, int count = 40) {
        return made(count, [loss](TrainingRow& row) { row.loss = loss + 0.003 * noise(row.step); });
    };
    const auto first = [](double loss) {
        return made(30, [loss](TrainingRow& row) { row.loss = loss / std::sqrt(double(row.step)); });
    };
    const auto epochs = [](bool drops) {
        return made(90, [drops](TrainingRow& row) {
            row.epoch = double(row.step) / 30;
            row.loss = (drops ? 2.0 - 0.4 * double((row.step - 1) / 30) : 2.0 - 0.013 * double(row.step)) +
                       0.01 * noise(row.step);
        });
    };
    const auto doubling = [](std::int64_t every) {
        return [every](std::int64_t step) { return std::ldexp(1.0, 10 + int((step - 1) / every)); };
    };
    const auto half_at_growth = [](std::int64_t step) { return step % 10 == 0 ? 0.5 : 1.0; };
    std::vector<Case> all;
    all.push_back({"a usual run", made(60, [](TrainingRow& row) { row.loss = falling(row); }), {}});
    all.push_back({"usual norms", with_norm(60, [](std::int64_t i) { return 1.2345 + 0.1 * noise(i); }), {}});
    all.push_back({"an infinite loss",
                   made(30, [](TrainingRow& row) { row.loss = row.step == 9 ? INFINITY : falling(row); }),
                   {"nan-in-loss certain"}});
    all.push_back({"a NaN norm",
                   with_norm(30, [](std::int64_t i) { return i == 9 ? NAN : 1.2345 + 0.1 * noise(i); }),
                   {"nan-in-gradient certain", "finite-loss-nan-gradient certain"}});
    all.push_back({"a NaN norm in a skipped step",
                   made(30,
                        [](TrainingRow& row) {
                            row.loss = falling(row);
                            row.grad_norm = row.step == 9 ? NAN : 1.3 + 0.1 * noise(row.step);
                            row.skipped = row.step == 9 ? 1 : 0;
                        }),
                   {"skipped-steps certain"}});
    all.push_back({"a NaN norm with a loss scale",
                   made(30,
                        [](TrainingRow& row) {
                            row.loss = falling(row), row.loss_scale = 1024;
                            row.grad_norm = row.step == 9 ? NAN : 1.3 + 0.1 * noise(row.step);
                        }),
                   {"nan-in-gradient certain", "finite-loss-nan-gradient possible"}});
    all.push_back({"a hidden NaN loss",
                   made(
                       30,
                       [](TrainingRow& row) {
                           row.loss = row.step < 20 ? falling(row) : 0.0;
                           row.grad_norm = row.step < 20 ? 1.3 + 0.1 * noise(row.step) : NAN;
                       },
                       0),
                   {"nan-in-gradient certain", "loss-zero-filtered likely"}});
    all.push_back({"a loss of 0 with a norm",
                   made(
                       30,
                       [](TrainingRow& row) {
                           row.loss = row.step < 20 ? falling(row) : 0.0;
                           row.grad_norm = 1.3 + 0.1 * noise(row.step);
                       },
                       0),
                   {}});
    all.push_back({"a flat loss", flat(4.2), {"no-learning certain"}});
    all.push_back({"a flat loss of 19 rows", flat(4.2, 19), {}});
    all.push_back(
        {"a slow but steady fall", made(40, [](TrainingRow& row) { row.loss = 1.5 - 1e-4 * double(row.step); }), {}});
    all.push_back({"ln 32000", flat(std::log(32000.0)), {"no-learning certain", "plateau-at-ln-vocabulary likely"}});
    all.push_back({"near ln 32000",
                   flat(std::log(32000.0) + 0.03),
                   {"no-learning certain", "plateau-at-ln-vocabulary possible"}});
    all.push_back({"beside ln 32000", flat(std::log(32000.0) + 0.06), {"no-learning certain"}});
    all.push_back({"near ln of a given vocabulary",
                   flat(std::log(1000.0) + 0.03),
                   {"no-learning certain", "plateau-at-ln-vocabulary likely"},
                   {.vocabulary = 1000}});
    all.push_back({"a later plateau at ln 32000",
                   made(60,
                        [](TrainingRow& row) {
                            row.loss = std::log(32000.0) + 0.003 * noise(row.step) + (row.step < 20 ? 0.5 : 0.0);
                        }),
                   {"plateau-at-ln-vocabulary possible"}});
    all.push_back({"4 ln 32000", first(4 * std::log(32000.0)), {"loss-times-gas possible"}});
    all.push_back(
        {"4 ln V of a given V", first(4 * std::log(1000.0)), {"loss-times-gas possible"}, {.vocabulary = 1000}});
    all.push_back({"4 ln V, and 4 micro-batches",
                   first(4 * std::log(1000.0)),
                   {"loss-times-gas likely"},
                   {.vocabulary = 1000, .gas = 4}});
    all.push_back({"4 ln V, and 8 micro-batches",
                   first(4 * std::log(1000.0)),
                   {"loss-times-gas possible"},
                   {.vocabulary = 1000, .gas = 8}});
    all.push_back({"4 micro-batches without V", first(4 * std::log(32000.0)), {"loss-times-gas possible"}, {.gas = 4}});
    all.push_back({"1.5 ln V",
                   first(1.5 * std::log(1000.0)),
                   {"first-loss-far-from-ln-vocabulary possible"},
                   {.vocabulary = 1000}});
    all.push_back({"a huge first loss", first(1e6), {"first-loss-far-from-ln-vocabulary possible"}});
    const auto jump_to = [](double second, double later, std::int64_t at = 2) {
        return made(40, [=](TrainingRow& row) {
            row.loss = row.step < at ? 1.93 : row.step == at ? second : later - 0.01 * double(row.step);
        });
    };
    all.push_back(
        {"weights that are lost in the first step", jump_to(11.42, 11.4), {"jump-after-first-step possible"}});
    all.push_back(
        {"lost weights with a given V", jump_to(7.2, 7.1), {"jump-after-first-step likely"}, {.vocabulary = 1000}});
    all.push_back({"7.2 is far below ln of usual vocabularies", jump_to(7.2, 7.1), {}});
    all.push_back({"16 is far above ln of usual vocabularies", jump_to(16, 15), {}});
    all.push_back({"a first jump that recovers", jump_to(11.42, 2), {}});
    all.push_back({"a jump in the third step", jump_to(11.42, 11.4, 3), {}});
    all.push_back({"a jump between rows that are ten steps apart",
                   [&] {
                       TrainingLog log = jump_to(11.42, 11.4);
                       for (TrainingRow& row : log.rows) row.step *= 10;
                       return log;
                   }(),
                   {}});
    all.push_back({"a jump in the middle of a run",
                   [&] {
                       TrainingLog log = jump_to(11.42, 11.4);
                       for (TrainingRow& row : log.rows) row.step += 100;
                       return log;
                   }(),
                   {}});
    all.push_back({"a jump that stays",
                   made(80, [](TrainingRow& row) { row.loss = falling(row) + (row.step < 40 ? 0 : 3); }),
                   {"divergence-after-spike certain"}});
    all.push_back({"a jump that recovers",
                   made(80, [](TrainingRow& row) { row.loss = falling(row) + (row.step == 40 ? 3 : 0); }),
                   {}});
    all.push_back({"a jump after which the loss stays 0.2 nat higher",
                   made(80,
                        [](TrainingRow& row) {
                            row.loss = 2 + 0.02 * noise(row.step) + (row.step == 40 ? 3 : row.step < 40 ? 0 : 0.2);
                        }),
                   {}});
    all.push_back(
        {"noise without a jump", made(200, [](TrainingRow& row) { row.loss = 3 + 0.7 * noise(row.step); }), {}});
    all.push_back({"a norm of exactly 1 between others",
                   with_norm(60, [](std::int64_t i) { return i == 30 ? 1 : 1.2345 + 0.1 * noise(i); }),
                   {"norm-is-a-code possible"}});
    all.push_back(
        {"norms clipped to 1 from the start", with_norm(60, [](std::int64_t i) { return i == 30 ? 55.1 : 1.0; }), {}});
    all.push_back({"norms around 1 with three decimals",
                   with_norm(600, [](std::int64_t i) { return std::round(1000 + 3 * noise(i)) / 1000; }),
                   {}});
    all.push_back({"a norm that follows the scale",
                   with_scale(80, doubling(10), [](double scale) { return scale; }),
                   {"norm-carries-the-scale likely"}});
    all.push_back(
        {"a norm that does not follow the scale", with_scale(80, doubling(10), [](double) { return 1.3; }), {}});
    all.push_back({"a large norm and a flat loss",
                   made(40,
                        [](TrainingRow& row) {
                            row.loss = 4.2 + 0.003 * noise(row.step), row.loss_scale = 65536;
                            row.grad_norm = 5e4 + 100 * noise(row.step);
                        }),
                   {"norm-carries-the-scale possible", "no-learning certain"}});
    all.push_back({"half norms where the scale grows",
                   made(60,
                        [&](TrainingRow& row) {
                            row.loss = falling(row), row.skipped = 0;
                            row.loss_scale = doubling(10)(row.step);
                            row.grad_norm = half_at_growth(row.step) * 1.3 * (1 + 0.01 * noise(row.step));
                        }),
                   {"norm-jump-at-growth likely"}});
    all.push_back({"2^100",
                   with_scale(
                       40, [](std::int64_t i) { return std::ldexp(1.0, 61 + int(i)); }, [](double) { return 1.3; }),
                   {"scale-without-bound certain"}});
    all.push_back({"below 2^100",
                   with_scale(
                       38, [](std::int64_t i) { return std::ldexp(1.0, 61 + int(i)); }, [](double) { return 1.3; }),
                   {}});
    all.push_back({"a scale of 0.5",
                   made(30,
                        [](TrainingRow& row) {
                            row.loss = falling(row), row.skipped = 0, row.loss_scale = row.step < 20 ? 1 : 0.5;
                        }),
                   {"scale-collapse certain"}});
    all.push_back({"a scale that is always 0",
                   made(30, [](TrainingRow& row) { row.loss = falling(row), row.loss_scale = 0; }),
                   {}});
    all.push_back({"norms in bf16",
                   with_norm(60, [](std::int64_t i) { return std::round(128 * (1.5 + 0.1 * noise(i))) / 128; }),
                   {"rounded-norm likely"}});
    all.push_back({"norms with two decimals",
                   with_norm(60, [](std::int64_t i) { return std::round(100 * (1.5 + 0.1 * noise(i))) / 100; }),
                   {}});
    all.push_back({"drops where epochs begin", epochs(true), {"epoch-steps likely"}});
    all.push_back({"a steady fall over epochs", epochs(false), {}});
    return all;
}

}  // namespace

TEST_CASE("each diagnosis of a training log is made in a log with the problem, and only there",
          "[reports][training_logs]") {
    std::set<std::string> seen;
    for (const Case& one : cases()) {
        CAPTURE(one.why);
        CHECK(verdicts_of(one.log, one.options) == one.verdicts);
        seen.insert(one.verdicts.begin(), one.verdicts.end());
    }
    CHECK(seen.size() >= 18);
}

TEST_CASE(
    "no finding is more certain than its diagnosis allows, and every diagnosis is either made, not made or listed "
    "as not looked for",
    "[reports][training_logs]") {
    for (const Case& one : cases()) {
        CAPTURE(one.why);
        const LogVerdicts verdicts = diagnose_log(one.log, one.options);
        for (const LogFinding& finding : verdicts.findings)
            CHECK(finding.seen.certainty <= finding.diagnosis->strongest);
    }
    const LogVerdicts verdicts =
        diagnose_log(made(30, [](TrainingRow& row) { row.loss = 3.0 / double(row.step); }), {});
    std::set<std::string_view> gaps;
    for (const LogGap& gap : verdicts.gaps) gaps.insert(gap.diagnosis->id);
    CHECK(gaps.contains("stagnation"));
    CHECK(gaps.contains("norm-is-a-code"));
    CHECK(gaps.contains("overflow-cascade"));
    CHECK_FALSE(gaps.contains("no-learning"));
    std::set<std::string_view> ids;
    for (const LogDiagnosis& diagnosis : log_diagnoses()) {
        CHECK(ids.insert(diagnosis.id).second);
        CHECK((diagnosis.find == nullptr) == (diagnosis.needs == Needs::other_data));
        CHECK(diagnosis.condition.empty() == (diagnosis.find == nullptr));
    }
}

TEST_CASE("docs/diagnosis.md has every diagnosis of training logs with its word and condition",
          "[reports][training_logs]") {
    std::ifstream file(std::string(MACHEPS_SOURCE_DIR) + "/docs/diagnosis.md");
    const std::string manual{std::istreambuf_iterator<char>(file), {}};
    for (const LogDiagnosis& diagnosis : log_diagnoses()) {
        CAPTURE(diagnosis.id);
        if (diagnosis.find == nullptr) {
            CHECK(manual.find(diagnosis.id) != std::string::npos);
            continue;
        }
        const std::string end = fmt::format(" | {} | {} |\n", word_of(diagnosis.strongest), diagnosis.condition);
        const std::size_t at = manual.find(end);
        REQUIRE(at != std::string::npos);
        const std::size_t line = manual.rfind('\n', at) + 1;
        CHECK(manual.substr(line).starts_with(fmt::format("| {} | ", diagnosis.id)));
    }
}

TEST_CASE("text, JSON and CSV of a training log contain the same values", "[reports][training_logs]") {
    const std::string text = samples()[5].text;
    const TrainingLog log = read(text);
    const LogVerdicts verdicts = diagnose_log(log, {});
    const std::string shown = training_log_text(log, verdicts);
    CHECK(shown.find(
              "Megatron-LM, GPT-NeoX; 6 rows, iteration 1 to 6; columns: loss, grad_norm, lr, loss_scale, skipped") !=
          std::string::npos);
    CHECK(shown.find("Not looked for: epoch-steps: the log has no epoch\n") != std::string::npos);
    const Json json = training_log_json(log, verdicts);
    CHECK(json.at("rows").get<int>() == 6);
    CHECK(json.at("steps")[2].at("loss").get<double>() == 3);
    CHECK(training_logs_csv({log}).find("file,step,loss,grad_norm,lr,loss_scale,epoch,eval_loss,skipped\nlog,1,9,2,") ==
          0);
}

TEST_CASE("an enormous number of skipped steps takes no memory", "[reports][training_logs]") {
    TrainingLog log = made(6, [](TrainingRow& row) { row.loss = 3.0 / double(row.step), row.skipped = 1e300; });
    log.rows.push_back({.step = std::int64_t{1} << 50, .loss_scale = 1e300, .skipped = 1e300});
    CHECK(verdicts_of(log).contains("skipped-steps certain"));
}

TEST_CASE("if two common vocabularies are near, a plateau names both", "[reports][training_logs]") {
    const TrainingLog log = made(40, [](TrainingRow& row) { row.loss = 10.3745 + 0.003 * noise(row.step); });
    CHECK(sighting(log, "plateau-at-ln-vocabulary").sentence.find("V of 32000 or 32064 tokens") != std::string::npos);
}

TEST_CASE("20,000 rows are read in well under a second", "[reports][training_logs]") {
    for (const auto& [name, text] :
         {std::pair{"Megatron", lines(20000, megatron_line)},
          std::pair{"console", lines(20000, [](int i) {
                        return fmt::format("{{'loss': {}, 'grad_norm': 1.25, 'learning_rate': 1e-05, 'epoch': 0.1}}",
                                           9.0 / i);
                    })}}) {
        const auto start = std::chrono::steady_clock::now();
        const TrainingLog log = read(text);
        const auto findings = diagnose_log(log, {}).findings.size();
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        fmt::print("20,000 rows of {}: {:.3f} s, {} findings\n", name, seconds.count(), findings);
        CHECK(log.rows.size() == 20000);
    }
}

TEST_CASE("the shared logs have their verdicts", "[reports][training_logs]") {
    const fs::path folder = test::shared_folder() / "spec/frameworks-2/samples";
    if (!fs::exists(folder / "logs.jsonl")) SKIP_TEST("no folder of shared logs");
    const auto text_of = [](const fs::path& path) {
        std::ifstream in(path, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    std::istringstream list(text_of(folder / "logs.jsonl"));
    int count = 0;
    for (std::string line; std::getline(list, line); ++count) {
        const Json row = Json::parse(line);
        const std::string text = text_of(folder / row.at("file").string());
        for (const std::string& variant : {text, with_crlf(text), text.substr(0, text.size() - 12)}) {
            CAPTURE(row.at("file").string(), variant.size());
            const std::set<std::string> found = verdicts_of(variant);
            CAPTURE(found);
            for (const Json& verdict : row.at("verdicts"))
                CHECK(found.contains(verdict[0].string() + " " + verdict[1].string()));
            for (const Json& never : row.at("never")) {
                if (never.string() == "*") CHECK(found.empty());
                CHECK(std::none_of(found.begin(), found.end(),
                                   [&](const std::string& one) { return one.starts_with(never.string() + " "); }));
            }
        }
    }
    CHECK(count == 19);
}

}  // namespace training_logs_test
