// SPDX-License-Identifier: Apache-2.0
// Tests that runs trained side by side write the same rows as runs trained one after the other, even if they are
// stopped, are resumed or fail.
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace side_by_side_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;

namespace {

const std::atomic<bool> never{false};

class Engines {
  public:
    explicit Engines(int count) {
        for (int i = 0; i < count; ++i) {
            owned_.push_back(std::make_unique<CpuBackend>(1));
            pointers_.push_back(owned_.back().get());
        }
    }
    std::span<Backend* const> all() const { return pointers_; }

  private:
    std::vector<std::unique_ptr<CpuBackend>> owned_;
    std::vector<Backend*> pointers_;
};

Experiment experiment_in(const std::string& name, std::vector<std::int64_t> seeds,
                         const std::vector<std::string>& policies = {"fp32", "amp-fp16", "pure-bf16-sr"}) {
    Experiment experiment;
    for (const std::string& policy : policies) experiment.policies.push_back(load_policy(policy));
    experiment.seeds = std::move(seeds);
    experiment.model = {.layers = 1, .width = 16, .heads = 2, .context = 12, .vocabulary = 24};
    experiment.options.steps = 6;
    experiment.options.batch = 2;
    experiment.options.warmup = 2;
    experiment.options.eval_every = 3;
    experiment.options.eval_batches = 1;
    experiment.options.probe_every = 2;
    experiment.options.histogram_every = 4;
    experiment.directory = test::memory_folder() / ("side_" + name);
    std::filesystem::remove_all(experiment.directory);
    return experiment;
}

std::vector<std::string> growing_files(const Experiment& experiment) {
    std::vector<std::string> texts;
    for (const std::string_view file : files_of(std::type_identity<GrowingRows>{}))
        texts.push_back(csv::read_text(experiment.directory / file));
    return texts;
}

/// Returns the rows of runs.csv with all times set to 0, because only times may differ between two experiments.
std::vector<RunRow> runs_without_times(const Experiment& experiment) {
    std::vector<RunRow> rows = CsvReader<RunRow>(experiment.directory / RunRow::file).rows();
    for (RunRow& row : rows) row.seconds = row.tokens_per_second = 0;
    return rows;
}

void check_equal(const Experiment& a, const Experiment& b) {
    CHECK(growing_files(a) == growing_files(b));
    CHECK(runs_without_times(a) == runs_without_times(b));
}

Experiment one_by_one(const std::string& name, const std::vector<std::int64_t>& seeds) {
    Experiment experiment = experiment_in(name, seeds);
    REQUIRE(run_experiment(Engines(1).all(), experiment, {}, never));
    return experiment;
}

}  // namespace

TEST_CASE("runs that train side by side write the same rows as runs that train one after another",
          "[experiments][side_by_side]") {
    const Experiment expected = one_by_one("expected", {0, 1, 7});
    for (const int engines : {2, 3, 5}) {
        CAPTURE(engines);
        const Experiment experiment = experiment_in("beside", {0, 1, 7});
        std::vector<std::string> finished;
        const auto progress = [&](const Progress& p) {
            if (p.finished) finished.push_back(p.policy + "/" + std::to_string(p.seed) + " " + p.status);
        };
        REQUIRE(run_experiment(Engines(engines).all(), experiment, progress, never));
        check_equal(experiment, expected);
        CHECK_FALSE(std::filesystem::exists(experiment.directory / "checkpoints"));
        REQUIRE(finished.size() == 9);
        CHECK(finished.front() == "fp32/0 ok");
        CHECK(finished.back() == "pure-bf16-sr/7 ok");
    }
}

TEST_CASE("without a baseline, all runs may start at the same time", "[experiments][side_by_side]") {
    Experiment expected = experiment_in("no_baseline", {0, 1}, {"tf32", "amp-bf16"});
    REQUIRE(run_experiment(Engines(1).all(), expected, {}, never));
    Experiment experiment = experiment_in("no_baseline_beside", {0, 1}, {"tf32", "amp-bf16"});
    REQUIRE(run_experiment(Engines(4).all(), experiment, {}, never));
    check_equal(experiment, expected);
}

TEST_CASE("a stopped experiment has complete runs and a checkpoint, and gives the same bytes after a resume",
          "[experiments][side_by_side]") {
    const Experiment expected = one_by_one("unstopped", {0, 1});
    for (std::size_t run = 0; run < 6; ++run) {
        for (const std::int64_t step : {1, 4, 6}) {
            CAPTURE(run, step);
            Experiment experiment = experiment_in("stopped", {0, 1});
            experiment.save_every = 2;
            std::atomic<bool> stop{false};
            const auto progress = [&](const Progress& p) { stop = stop || (p.index == run && p.step >= step); };
            const bool whole = run_experiment(Engines(3).all(), experiment, progress, stop);
            const std::vector<RunRow> rows = CsvReader<RunRow>(experiment.directory / RunRow::file).rows();
            CHECK(whole == (rows.size() == 6));
            CHECK(rows.size() >= run);
            experiment.resume = true;
            REQUIRE(run_experiment(Engines(2).all(), experiment, {}, never));
            check_equal(experiment, expected);
        }
    }
}

TEST_CASE("an exception in one run ends the experiment", "[experiments][side_by_side]") {
    const Experiment experiment = experiment_in("thrown", {0, 1});
    const auto progress = [](const Progress& p) {
        if (p.index == 1 && p.step == 2) throw std::runtime_error("told");
    };
    // Rows are written in the order of the runs. At step 2, the rows of run 1 may still have to wait for those of run
    // 0. In this case, run 1 reports only its last step (6), and nothing is thrown.
    bool threw = false;
    try {
        run_experiment(Engines(2).all(), experiment, progress, never);
    } catch (const std::runtime_error& error) {
        threw = std::string(error.what()) == "told";
    }
    const std::size_t runs = CsvReader<RunRow>(experiment.directory / RunRow::file).rows().size();
    CHECK((threw ? runs <= 1 : runs == 6));
    Experiment again = experiment;
    again.force = true;
    const auto at_once = [](const Progress& p) {
        if (p.index == 0 && p.step == 1) throw std::runtime_error("told");
    };
    CHECK_THROWS_AS(run_experiment(Engines(2).all(), again, at_once, never), std::runtime_error);
}

TEST_CASE("short runs train side by side, and long runs do not", "[experiments][side_by_side]") {
    Experiment experiment = experiment_in("rule", {0, 1, 2});
    CHECK(runs_side_by_side(experiment, 1) == 1);
    CHECK(runs_side_by_side(experiment, 4) == 4);
    CHECK(runs_side_by_side(experiment, 64) == 9);
    experiment.options.steps = 100'000'000;
    CHECK(runs_side_by_side(experiment, 64) == 1);
    experiment.options.steps = 6;
    experiment.hash_sites = true;
    CHECK(runs_side_by_side(experiment, 64) == 1);
}

}  // namespace side_by_side_test
