// SPDX-License-Identifier: Apache-2.0
// Tests every diagnosis of training logs with a table: each is made in a log with the problem, and only there. The page
// docs/diagnosis.md lists the same diagnoses.
#include "reports/findings/diagnosis.hpp"
#include "tests/reports/training_log_samples.hpp"

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace training_log_table_test {

using namespace training_log_samples;

namespace {

/// A made log with the findings that it must have, in addition to none.
struct Case {
    const char* why;
    TrainingLog log;
    std::set<std::string> verdicts;
    TrainingLogOptions options{};
};

double falling(const TrainingRow& row) { return 2 + 8 * std::exp(-double(row.step) / 30) + 0.02 * noise(row.step); }

/// Adds logs in which a quantity is 0 or constant, and logs with evaluations. Form 0 may show 0 for a NaN loss.
void add_zero_cases(std::vector<Case>& all) {
    const double nan = std::nan("");
    const auto row_with = [&](const char* why, std::set<std::string> verdicts, int count, std::size_t form,
                              const std::function<void(TrainingRow&)>& change) {
        all.push_back({why,
                       made(
                           count, [&](TrainingRow& row) { row.loss = falling(row), change(row); }, form),
                       std::move(verdicts)});
    };
    row_with("a norm that is always 0", {"zero-gradient certain"}, 5, 3, [](TrainingRow& row) { row.grad_norm = 0; });
    row_with("four norms of 0", {}, 4, 3, [](TrainingRow& row) { row.grad_norm = 0; });
    row_with("a norm that becomes 0", {"zero-gradient certain"}, 40, 3,
             [](TrainingRow& row) { row.grad_norm = row.step < 36 ? 1.3 + 0.1 * noise(row.step) : 0; });
    row_with("norms of 0 before others", {}, 40, 3,
             [](TrainingRow& row) { row.grad_norm = row.step < 36 ? 0 : 1.3 + 0.1 * noise(row.step); });
    row_with("a loss that is always 0, with a norm", {"zero-loss certain"}, 19, 0,
             [](TrainingRow& row) { row.loss = 0, row.grad_norm = 0.5 + 0.1 * noise(row.step); });
    row_with("a loss and a norm that are always 0", {"zero-loss certain", "zero-gradient certain"}, 19, 0,
             [](TrainingRow& row) { row.loss = 0, row.grad_norm = 0; });
    row_with("a loss that is always 0, in a program that shows NaN", {"zero-loss certain"}, 19, 3,
             [](TrainingRow& row) { row.loss = 0; });
    row_with("a loss that is always 0, in a program that may hide NaN", {"loss-zero-filtered likely"}, 19, 0,
             [](TrainingRow& row) { row.loss = 0; });
    row_with("a loss that falls to 0", {}, 40, 0, [](TrainingRow& row) {
        row.loss = row.step < 30 ? std::exp(-0.3 * double(row.step)) : 0, row.grad_norm = 1e-3 * row.step;
    });
    row_with("a rate that is always 0", {"zero-rate certain"}, 5, 3, [](TrainingRow& row) { row.lr = 0; });
    row_with("a rate that ends at 0", {}, 40, 3, [](TrainingRow& row) { row.lr = row.step < 30 ? 1e-4 : 0; });
    row_with("a NaN evaluation", {"nan-in-eval certain"}, 40, 3, [&](TrainingRow& row) {
        if (row.step % 10 == 0) row.eval_loss = row.step > 20 ? nan : 2.5;
    });
    row_with("a NaN evaluation after a NaN gradient", {"nan-in-gradient certain", "finite-loss-nan-gradient certain"},
             40, 3, [&](TrainingRow& row) {
                 row.grad_norm = row.step < 15 ? 1.3 + 0.1 * noise(row.step) : nan;
                 if (row.step == 20) row.eval_loss = nan;
             });
    row_with("a constant norm", {"constant-norm likely"}, 20, 3, [](TrainingRow& row) { row.grad_norm = 0.3; });
    row_with("a constant norm of 19 rows", {}, 19, 3, [](TrainingRow& row) { row.grad_norm = 0.3; });
    row_with("a norm just below a limit of clipping", {"constant-norm likely"}, 20, 3,
             [](TrainingRow& row) { row.grad_norm = 0.9999; });
    row_with("a constant norm that is not a usual limit", {}, 40, 3, [](TrainingRow& row) { row.grad_norm = 1.4; });
}

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
                   {"zero-loss certain"}});
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
    // A number below 256 without a fraction has at most 8 bits in every format.
    all.push_back(
        {"norms without decimals", with_norm(60, [](std::int64_t i) { return 101.0 + double(7 * i % 48); }), {}});
    all.push_back({"norms above 256 in bf16",
                   with_norm(60, [](std::int64_t i) { return 2 * std::round(150 + 15 * noise(i)); }),
                   {"rounded-norm likely"}});
    all.push_back({"norms above 256 without decimals",
                   with_norm(60, [](std::int64_t i) { return std::round(300 + 15 * noise(i)); }),
                   {}});
    all.push_back({"a drop where one of two epochs begins",
                   [&] {
                       TrainingLog log = epochs(true);
                       for (TrainingRow& row : log.rows) row.loss = *row.loss + (row.step > 60 ? 0.4 : 0);
                       return log;
                   }(),
                   {}});
    all.push_back({"drops where epochs begin", epochs(true), {"epoch-steps likely"}});
    all.push_back({"a steady fall over epochs", epochs(false), {}});
    add_zero_cases(all);
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
    CHECK(seen.size() >= 23);
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

}  // namespace training_log_table_test
