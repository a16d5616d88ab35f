// SPDX-License-Identifier: Apache-2.0
// Tests the diagnoses of logs that other training programs wrote. Further logs and their expected verdicts are in the
// shared folder (test::shared_folder).
#include "core/text/json.hpp"
#include "reports/findings/diagnosis.hpp"
#include "tests/reports/training_log_samples.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace training_log_diagnoses_test {

using namespace training_log_samples;

namespace fs = std::filesystem;

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

/// A row of the console of Transformers, which has no step number.
std::string console_row(double loss, double epoch, double rate = 2e-5) {
    return fmt::format("{{'loss': {:.4f}, 'grad_norm': 1.234, 'learning_rate': {}, 'epoch': {:.2f}}}\n", loss, rate,
                       epoch);
}

TEST_CASE("rows without step numbers do not count as steps", "[reports][training_logs]") {
    // Each row may cover many steps, so the skipped steps need not be consecutive, and the schedule advances between rows.
    std::string text;
    for (int i = 0; i < 10; ++i) {
        if (i < 5) text += skip_line(65536 >> i, 32768 >> i);
        text += console_row(2.5 - 0.05 * i, 0.1 * (i + 1), 2e-5 - 1e-6 * i);
    }
    CHECK(verdicts_of(text) == std::set<std::string>{"skipped-steps certain"});
    CHECK(sighting(read(text), "skipped-steps").sentence == "5 steps were skipped");
    const auto reasons = gaps_by_reason(diagnose_log(read(text), {}));
    REQUIRE(!reasons.empty());
    CHECK(reasons[0].first == "the log has no step numbers, and a row may cover several steps");
    CHECK(reasons[0].second == "overflow-cascade, first-steps-skipped, schedule-over-skips, jump-after-first-step");
    for (int i = 0; i < 20; ++i) text.insert(0, skip_line(1 << 30, 1 << 29));
    const TrainingLog log = read(text);
    CHECK(sighting(log, "skipped-steps").sentence == "25 steps were skipped");
    REQUIRE(log.notes.size() == 1);
    CHECK(log.notes[0].find("has no step numbers") != std::string::npos);
    CHECK(verdicts_of(text) == std::set<std::string>{"skipped-steps certain"});
}

TEST_CASE("steps that were skipped after a resume get numbers near the next row", "[reports][training_logs]") {
    const auto totals = [](int first, int last, int skipped) {
        return lines(
            last - first + 1, [&](int i) { return total_line(i, skipped); }, first);
    };
    std::string cascade;
    for (int scale = 65536; scale > 4096; scale /= 2) cascade += skip_line(scale, scale / 2);
    struct Row {
        const char* why;
        std::string text, sentence;
        std::int64_t first, last;
        std::string note = "estimated";
    };
    const Row rows[] = {
        {"four skipped steps", totals(1, 20, 0) + cascade + totals(14, 20, 4), "4 of 20 steps were skipped", 11, 14},
        {"one skipped step", totals(1, 10, 0) + skip_line(8, 4) + totals(6, 15, 1), "1 of 15 steps was skipped", 6, 6},
        {"the last step again", totals(1, 10, 0) + skip_line(8, 4) + totals(10, 15, 1), "1 of 15 steps was skipped", 10,
         10},
        {"a second line about the same step",
         totals(1, 10, 0) + skip_line(8, 4) + pipeline_line(10, "2.5") + totals(11, 15, 1), "1 of 15 steps was skipped",
         11, 11, "no note"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.why, row.text);
        const TrainingLog log = read(row.text);
        CHECK(sighting(log, "skipped-steps").sentence == row.sentence);
        for (const TrainingRow& one : log.rows) {
            CAPTURE(one.step);
            CHECK((one.skipped.value_or(0) == 1) == (one.step >= row.first && one.step <= row.last));
        }
        const bool has_note = std::any_of(log.notes.begin(), log.notes.end(), [&](const std::string& note) {
            return note.find("estimated") != std::string::npos;
        });
        CHECK(has_note == (row.note == "estimated"));
        CHECK(log.knows_skipped_steps != has_note);
    }
    CHECK(sighting(read(rows[0].text), "overflow-cascade").certainty == Certainty::likely);
}

TEST_CASE("the weights are lost only if the last loss is", "[reports][training_logs]") {
    const auto sentence = [](std::set<std::int64_t> bad_losses, std::set<std::int64_t> bad_norms) {
        return sighting(made(20,
                             [&](TrainingRow& row) {
                                 row.loss = bad_losses.contains(row.step) ? NAN : 2.5 - 0.03 * double(row.step);
                                 row.grad_norm = bad_norms.contains(row.step) ? NAN : 1.0;
                                 row.skipped = 0;
                             }),
                        "nan-in-gradient")
            .sentence;
    };
    const std::string lost = "the last loss is 0 or not finite, so the weights are lost";
    CHECK(sentence({7}, {5, 7}).find("lost") == std::string::npos);
    CHECK(sentence({7}, {5, 7}).find("either a scaler skipped the step") != std::string::npos);
    CHECK(sentence({5}, {5, 7}).find("lost") == std::string::npos);
    CHECK(sentence({20}, {5}).find("lost") == std::string::npos);
    CHECK(sentence({19, 20}, {18, 19, 20}).ends_with(lost));
    CHECK(sentence({20}, {5, 20}).ends_with(lost));
    const TrainingLog evaluated = made(20, [](TrainingRow& row) {
        if (row.step < 20) row.loss = row.step > 7 ? 0.0 : 2.5;
        if (row.step <= 7) row.grad_norm = row.step == 5 ? NAN : 1.0;
        row.skipped = 0;
    });
    CHECK(sighting(evaluated, "nan-in-gradient").sentence.ends_with(lost));
}

TEST_CASE(
    "a log without a column for skipped steps does not say that weights are lost, and its learning rate is evidence",
    "[reports][training_logs]") {
    // A state of a Trainer with 10 steps a row, whose gradients are NaN from row 8 on. `advanced` is the number of steps
    // by which the schedule advances in each of these rows.
    const auto state = [](int advanced, const char* rate) {
        std::string rows;
        double lr = 1e-3;
        for (int i = 1; i <= 20; ++i) {
            lr -= 1e-6 * (i < 8 ? 10 : advanced);
            rows += fmt::format("{}{{\"step\": {}, \"loss\": {}, \"grad_norm\": {}, \"{}\": {}}}", i == 1 ? "" : ", ",
                                10 * i, i < 8 ? "2.5" : "0.0", i < 8 ? "1.5" : "NaN", rate, lr);
        }
        return fmt::format("{{\"log_history\": [{}]}}", rows);
    };
    const std::string goes_on = sighting(read(state(10, "learning_rate")), "nan-in-gradient").sentence;
    CAPTURE(goes_on);
    CHECK(goes_on.find("probably no step was skipped") != std::string::npos);
    CHECK(goes_on.find("a GradScaler did not run or did not see them") != std::string::npos);
    for (const auto& [advanced, rate] :
         {std::pair(0, "learning_rate"), std::pair(5, "learning_rate"), std::pair(10, "other")}) {
        const LogSighting open = sighting(read(state(advanced, rate)), "nan-in-gradient");
        CAPTURE(advanced, rate, open.sentence);
        CHECK(open.sentence.find("either a scaler skipped them, or the gradients were applied") != std::string::npos);
        CHECK(open.sentence.find("weights are lost") == std::string::npos);
        CHECK(open.remedy.find("does a GradScaler run") != std::string::npos);
    }
}

TEST_CASE("a sentence has no NaN, and the singular for one", "[reports][training_logs]") {
    std::string text;
    for (int i = 1, scale = 16; i <= 4; ++i, scale /= 2) text += skip_line(scale, scale / 2) + total_line(i, i);
    for (int i = 5; i <= 11; ++i) text += total_line(i, 4);
    const std::string error =
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n";
    CHECK(sighting(read(text + error), "scale-at-floor")
              .sentence.find("at a loss scale of 1, after 1 consecutive overflow,") != std::string::npos);
    std::string once = skip_line(1024, 1024) + skip_line(1024, 1024) + skip_line(1024, 1024) + skip_line(1024, 512);
    once += lines(5, [](int i) { return total_line(4 + i, 4); });
    CHECK(sighting(read(once), "overflow-cascade").sentence.find("(1 halving)") != std::string::npos);
    const std::string csv =
        "step,loss,ov\n" + lines(6, [](int i) { return fmt::format("{},2.5,{}", i, i == 3 ? 1 : 0); });
    CHECK(sighting(read(csv, {.columns = {{"skipped", "ov"}}}), "skipped-steps").sentence ==
          "1 of 6 steps was skipped");
    for (const char* value : {"nan", "inf", "-1", ""}) {
        CAPTURE(value);
        const std::string bad = "step,loss,ov\n" + lines(6, [&](int i) { return fmt::format("{},2.5,{}", i, value); });
        CHECK_FALSE(sighting_if_any(read(bad, {.columns = {{"skipped", "ov"}}}), "skipped-steps"));
    }
    for (const Diagnosis& diagnosis : diagnoses()) {
        for (const double value : {1.0, 2.0}) {
            Diagnosed one{.diagnosis = &diagnosis};
            for (const std::string_view name : {"halvings", "layers", "lost", "tensors", "values"})
                one.seen.figures.push_back({name, value});
            one.seen.figures.push_back({"skipped", diagnosis.id == "overflow-cascade" ? 4 : value});
            CAPTURE(diagnosis.id, one.sentence());
            CHECK(one.sentence().find('|') == std::string::npos);
            const std::regex plural("\\b1 ([a-z]+ )?(steps|halvings|overflows|layers|updates|tensors|values)\\b");
            CHECK_FALSE(std::regex_search(one.sentence(), plural));
        }
    }
}

TEST_CASE("without --vocabulary, only the log of a language model has a plateau at ln V", "[reports][training_logs]") {
    const std::string csv = "step,loss\n" + lines(40, [](int i) {
                                return fmt::format("{},{}", i, std::log(50257.0) + (i % 2 == 0 ? 0.002 : -0.002));
                            });
    CHECK(verdicts_of(csv) == std::set<std::string>{"no-learning certain"});
    const TrainingLogOptions options{.vocabulary = 50257};
    CHECK(verdicts_of(csv, options) == std::set<std::string>{"no-learning certain", "plateau-at-ln-vocabulary likely"});
}

TEST_CASE("sentences claim no more than the log shows", "[reports][training_logs]") {
    const auto zeros = [](double norm_of_7, std::optional<double> norm_of_9) {
        const TrainingLog log = made(
            11,
            [&](TrainingRow& row) {
                const bool is_zero = row.step == 7 || row.step == 9;
                row.loss = is_zero ? 0.0 : 2.5;
                row.grad_norm = 1.5;
                if (row.step == 7) row.grad_norm = norm_of_7;
                if (row.step == 9) row.grad_norm = norm_of_9;
            },
            0);
        return sighting(log, "loss-zero-filtered").sentence;
    };
    CHECK(zeros(NAN, NAN).find("gradient norm is not finite;") != std::string::npos);
    CHECK(zeros(NAN, {}).find("gradient norm is missing or not finite;") != std::string::npos);
    const TrainingLog scaled = made(9, [](TrainingRow& row) { row.loss = 2.5, row.loss_scale = 0x1p100; });
    CHECK(
        sighting(scaled, "scale-without-bound").sentence ==
        "the loss scale grew to 2^100; near 2^127, the scaled loss and the reciprocal of the scale leave the range of "
        "fp32");
    const TrainingLog epochs = made(60, [](TrainingRow& row) {
        row.epoch = double(row.step) / 30;
        row.loss = row.step > 30 ? 2.0 : 3.0;
    });
    CHECK(sighting(epochs, "epoch-steps").sentence.find("where an epoch begins (1 of 1 epoch)") != std::string::npos);
}

TEST_CASE("a log without step numbers begins at the start of the run only if its epochs do",
          "[reports][training_logs]") {
    const double far = 2 * std::log(50257.0);
    const auto log_of = [&](double first_epoch, double distance) {
        std::string text;
        for (int i = 0; i < 10; ++i) text += console_row(far - 0.05 * i, first_epoch + distance * i);
        return read(text);
    };
    const TrainingLogOptions options{.vocabulary = 50257, .gas = 2};
    struct Row {
        double first, distance;
        bool is_start;
    };
    // Epochs are rounded to two digits after the point.
    const Row rows[] = {{0.1, 0.1, true},    {0, 0.1, true},       {0.01, 0.005, true}, {0.01, 0.008, true},
                        {7, 0.1, false},     {7.1, 0.1, false},    {0.2, 0.1, false},   {0.02, 0.004, false},
                        {0.5, 0.001, false}, {0.01, 0.0004, false}};
    for (const Row& row : rows) {
        CAPTURE(row.first, row.distance);
        CHECK(bool(sighting_if_any(log_of(row.first, row.distance), "loss-times-gas", options)) == row.is_start);
    }
    const TrainingLog no_epochs = read(lines(10, [&](int) { return fmt::format("{{'loss': {:.4f}}}", far); }));
    CHECK_FALSE(sighting_if_any(no_epochs, "loss-times-gas", options));
    std::string jump = console_row(2.1, 0.1);
    for (int i = 2; i < 8; ++i) jump += console_row(10.5, 0.1 * i);
    CHECK_FALSE(sighting_if_any(read(jump), "jump-after-first-step"));
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

TEST_CASE("text, JSON and CSV of a training log contain the same values", "[reports][training_logs]") {
    const TrainingLog log = read(lines(6, megatron_line));
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

}  // namespace training_log_diagnoses_test
