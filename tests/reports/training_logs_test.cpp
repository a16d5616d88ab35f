// SPDX-License-Identifier: Apache-2.0
// Tests the reading of logs that other training programs wrote. Each kind of log has a small sample here.
#include "core/error.hpp"
#include "tests/reports/training_log_samples.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace training_logs_test {

using namespace training_log_samples;

namespace {

std::string error_of(std::string_view text, const TrainingLogOptions& options = {}) {
    try {
        read(text, options);
    } catch (const Error& error) {
        return fmt::format("{}: {}", int(error.exit()), error.what());
    }
    return "no error";
}

/// A sample of a kind of log, with the values of its third row.
struct Sample {
    std::string_view kind;
    std::string text;
    TrainingRow third;
    std::size_t rows = 6;
};

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
    CHECK(error_of("no text\n").find("of its 1 line fits one form (") != std::string::npos);
    CHECK(error_of("run,policy,seed,step,loss\n" + lines(9, [](int i) { return fmt::format("r,p,0,{},2.5", i); }))
              .starts_with("3: "));  // steps.csv of a run directory
    CHECK(error_of(std::string(100000, '{')).starts_with("3: "));
    CHECK(error_of(std::string(100000, '"')).starts_with("3: "));
}

TEST_CASE("a log that is too short is refused with what its lines show", "[reports][training_logs]") {
    const auto console = [](std::string_view loss, std::string_view norm, std::string_view epoch = "0.1") {
        return fmt::format("{{'loss': {}, 'grad_norm': {}, 'learning_rate': 1e-05, 'epoch': {}}}\n", loss, norm, epoch);
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
        {console("344093.2", "nan") + console("0.0", "nan", "0.2") + console("0.0", "nan", "0.3"),
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

TEST_CASE("the rows are those of the lowest rank that wrote rows", "[reports][training_logs]") {
    // Megatron-LM writes its rows only on the last rank.
    const auto of_rank = [](int rank, std::string_view text) { return fmt::format("[default{}]: {}\n", rank, text); };
    std::string start, rows, skips;
    for (int i = 1; i <= 12; ++i) start += of_rank(0, fmt::format("building GPT model {} ...", i));
    for (int i = 1; i <= 6; ++i) rows += of_rank(7, megatron_line(i));
    const TrainingLog log = read(start + rows);
    CHECK(log.form->name == "Megatron-LM, GPT-NeoX");
    CHECK(log.rows.size() == 6);
    CHECK(log.other_lines == 12);
    CHECK(log.notes.empty());
    // Messages about skipped steps may come from another rank than the rows.
    for (int rank = 0; rank < 2; ++rank) {
        skips += of_rank(
            rank,
            fmt::format("[deepspeed] OVERFLOW! Rank {} Skipping step. Attempted loss scale: 8, reducing to 4", rank));
    }
    const TrainingLog skipped = read(start + skips + rows);
    CHECK(skipped.rows.size() == 6);
    CHECK(skipped.rows[0].loss_scale == 8.0);
    CHECK(skipped.rows[0].skipped == 1.0);
    REQUIRE(skipped.notes.size() == 1);
    CHECK(skipped.notes[0] == "1 overflow message of other ranks than 0 is left out");
    std::string one_row;
    for (int rank = 0; rank < 8; ++rank) one_row += of_rank(rank, megatron_line(1));
    CHECK(error_of(one_row).find("at most 1 of its 1 line fits one form, and a report needs 4 more") !=
          std::string::npos);
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

TEST_CASE("metrics.csv of Lightning has the learning rate of its first group, and a note about unknown columns",
          "[reports][training_logs]") {
    const auto csv = [](std::string_view header) {
        return fmt::format("{}\n", header) + lines(6, [](int i) { return fmt::format("0,{},0.25,0.5", i); });
    };
    for (const char* header :
         {"epoch,step,lr-AdamW/pg1,lr-AdamW/pg2", "epoch,step,run 1 - opt/lr-SGD/pg1,x", "epoch,step,lr-AdamW,loss"}) {
        CAPTURE(header);
        const TrainingLog log = read(csv(header));
        CHECK(log.rows[2].lr == 0.25);
        CHECK(log.notes.empty());
    }
    const TrainingLog other = read(csv("epoch,step,colr-a/b,y"));
    CHECK_FALSE(other.rows[2].lr);
    REQUIRE(other.notes.size() == 1);
    CHECK(other.notes[0] ==
          "no column except step and epoch has a known name; say which quantity a column has, such as --column loss=y; "
          "the columns are epoch, step, colr-a/b, y");
    CHECK(read(csv("epoch,step,x,y"), {.columns = {{"loss", "y"}}}).notes.empty());
    // A column that is already used is not an example.
    CHECK(read(csv("x,step,y,epoch")).notes.at(0).find("--column loss=y;") != std::string::npos);
}

TEST_CASE("only a list with the name log_history is that of a trainer_state.json", "[reports][training_logs]") {
    const std::string rows =
        lines(6, [](int i) { return fmt::format("{{'loss': {}, 'grad_norm': 0.5, 'epoch': 0.{}}}", 9.0 / i, i); });
    for (const char* line : {"loaded keys [\"log_history\", \"global_step\"]",
                             "keys: \"log_history\"; sizes [{\"a\": 1}]", "the key \"log_history\": 3"}) {
        CAPTURE(line);
        CHECK(read(fmt::format("{}\n{}", line, rows)).form->name == "Transformers (console)");
        CHECK(read(fmt::format("{}{}\n", rows, line)).rows.size() == 6);
    }
    std::string objects;
    for (int i = 1; i <= 6; ++i) objects += fmt::format("{{\"step\": {}, \"loss\": 2.5}},", i);
    for (const char* before : {"{\"log_history\":[", "{\n \"keys\": [\"log_history\"],\n \"log_history\" : \n [ "}) {
        CAPTURE(before);
        const TrainingLog log = read(before + objects + "]}");
        CHECK(log.form->name == "Transformers (trainer_state.json)");
        CHECK(log.rows.size() == 6);
    }
}

TEST_CASE("--column works for every quantity, and a name that no line has is refused", "[reports][training_logs]") {
    const std::string json =
        lines(6, [](int i) { return fmt::format("{{\"step\": {}, \"ls\": 2.5, \"x\": {}}}", i, i); });
    const std::string console = lines(6, [](int i) { return fmt::format("{{'ls': 2.5, 'x': {}, 'epoch': 0.1}}", i); });
    std::string objects;
    for (int i = 1; i <= 6; ++i) objects += fmt::format("{{\"step\": {}, \"ls\": 2.5, \"x\": {}}},", i, i);
    const std::string state = "{\"log_history\": [" + objects + "]}";
    for (const std::string& text : {json, console, state}) {
        CAPTURE(text);
        for (const std::string_view quantity : quantity_names()) {
            CAPTURE(quantity);
            TrainingLogOptions options{.columns = {{"loss", "ls"}}};
            options.columns[std::string(quantity)] = "x";
            if (quantity == "loss") options.columns = {{"loss", "x"}};
            const TrainingLog log = read(text, options);
            REQUIRE(log.rows.size() == 6);
            CHECK(log.rows[3].*find_quantity(quantity) == 4.0);
        }
        for (const std::string quantity : {"loss", "skipped"}) {
            TrainingLogOptions options{.columns = {{"loss", "ls"}}};
            options.columns[quantity] = "y";
            CHECK(error_of(text, options).starts_with("2: --column: no row of log has the name 'y' (use one of: "));
        }
    }
    CHECK(error_of("no log\n", {.columns = {{"loss", "y"}}}).starts_with("3: log: "));
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
    CHECK_FALSE(log.knows_skipped_steps);  // the row may cover several steps

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

}  // namespace training_logs_test
