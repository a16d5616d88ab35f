// SPDX-License-Identifier: Apache-2.0
// Tests independent processes that do the same work at the same time. None of them may end with an error, and the bytes
// must equal those of a single process.
#include "core/host/file_lock.hpp"
#include "experiments/training/sweep/store/done.hpp"
#include "tests/sweep/reference.hpp"

#include <signal.h>

#include <cstdio>

namespace race_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::training;

namespace {

/// Options of the smallest possible training.
constexpr const char* min_train = "[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n";

MergedFiles planned_and_trained(const SweepScratch& folder) {
    folder.write("small.toml", std::string(min_train) + "[axes]\npolicy = \"amp-bf16\"\nseeds = [0, 1]\n");
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    return trained_at_once(folder, "one");
}

/// Returns the joined log files of all processes.
std::string said_by(const SweepScratch& folder, int workers) {
    std::string said;
    for (int i = 0; i < workers; ++i) said += contents(folder / ("log" + std::to_string(i) + ".txt"));
    return said;
}

void race(int workers, int rounds) {
    const SweepScratch folder;
    const MergedFiles at_once = planned_and_trained(folder);
    int failed = 0, errors = 0;
    for (int round = 0; round < rounds; ++round) {
        // In every second round, the workers also create the sweep's folder.
        const bool is_planned = round % 2 == 0;
        fs::remove_all(folder / "race");
        if (is_planned) copy_plan(folder, "one", "race");
        std::vector<pid_t> children;
        for (int i = 0; i < workers; ++i) {
            std::vector<std::string> words{"sweep", "run", "race", "-q"};
            if (!is_planned) words = {"sweep", "run", "small.toml", "-o", "race", "-q"};
            if (round % 3 == 2) words.push_back("--retry-failed");
            children.push_back(folder.start(words, i));
        }
        for (const pid_t child : children) errors += wait_for(child) == 0 ? 0 : 1;
        const int merge = folder.run(std::string("merge race") + all_rows);
        const bool is_right =
            merge == 0 && folder.merged("race/merged") == at_once && fs::is_empty(folder / "race/work");
        failed += is_right ? 0 : 1;
        CAPTURE(round, folder.err(), said_by(folder, workers));
        CHECK((is_right && errors == 0));
        if (failed + errors > 5) break;
    }
    std::printf("%d workers, %d rounds: %d of %d processes ended with an error, %d rounds came out differently\n",
                workers, rounds, errors, workers * rounds, failed);
}

void race_of_trainings(int rounds) {
    const SweepScratch folder;
    constexpr int workers = 4;
    const std::vector<std::string> words{"train",     "-p",          "amp-bf16",  "--seeds",   "0",
                                         "--steps=2", "--layers=1",  "--width=8", "--heads=1", "--context=8",
                                         "--batch=2", "--no-report", "-q"};
    std::string rows;
    int errors = 0;
    for (int round = 0; round < rounds; ++round) {
        fs::remove_all(folder / "runs");
        std::vector<pid_t> children;
        for (int i = 0; i < workers; ++i) children.push_back(folder.start(words, i));
        for (const pid_t child : children) errors += wait_for(child) == 0 ? 0 : 1;
        CAPTURE(round, said_by(folder, workers));
        REQUIRE(errors == 0);
        for (int i = 1; i <= workers; ++i) {
            const std::string steps = contents(folder / ("runs/00" + std::to_string(i) + "/steps.csv"));
            if (rows.empty()) rows = steps;
            CHECK(!rows.empty());
            CHECK(steps == rows);
        }
        CHECK(std::distance(fs::directory_iterator(folder / "runs"), fs::directory_iterator()) == workers);
    }
    std::printf("%d trainings at once, %d rounds: %d errors\n", workers, rounds, errors);
}

std::string first_unit(const SweepScratch& folder, const std::string& sweep) {
    REQUIRE(folder.run("sweep plan " + sweep + " --csv") == 0);
    return folder.out().substr(folder.out().find('\n') + 1, 16);
}

/// Writes the folder of an attempt at unit `id`. The attempt looks like that of a process that has ended.
fs::path make_attempt(const SweepScratch& folder, const std::string& sweep, const std::string& id, int number) {
    const fs::path attempt = folder.attempt(sweep, id, number);
    fs::create_directories(attempt);
    std::ofstream(attempt / "attempt.json")
        << R"({"host":"elsewhere","process":1,"shard":"0/1","began":{"runs":0,"step":0}})";
    return attempt;
}

}  // namespace

TEST_CASE(
    "workers that race for the units of a sweep all succeed, and the sweep merges to the same bytes as without a race",
    "[sweeps]") {
    race(2, 4);
    race(8, 2);
}

TEST_CASE(
    "in two hundred races of two, five and eight workers each, all workers succeed and the merged bytes are the same",
    "[sweeps][slow]") {
    for (const int workers : {2, 5, 8}) race(workers, 200);
}

TEST_CASE("four trainings that start at the same time without --out use different numbered folders", "[sweeps]") {
    race_of_trainings(2);
}

TEST_CASE("in fifty repetitions, four trainings at the same time use different numbered folders", "[sweeps][slow]") {
    race_of_trainings(50);
}

TEST_CASE("a training that is refused leaves no numbered directory", "[sweeps]") {
    const SweepScratch folder;
    CHECK(folder.run("train -p amp-bf16 --steps 2 --data none.txt -q") != 0);
    CHECK((!fs::exists(folder / "runs") || fs::is_empty(folder / "runs")));
}

TEST_CASE("an attempt counts as ended only if it has attempt.json and its lock can be taken", "[sweeps]") {
    const SweepScratch folder;
    const MergedFiles at_once = planned_and_trained(folder);
    // Three processes have created the folders of their attempts, but no files.
    copy_plan(folder, "one", "begun");
    const std::string id = first_unit(folder, "begun");
    for (int i = 0; i < 3; ++i) fs::create_directories(folder.attempt("begun", id, i));
    int code = folder.run("sweep run begun -q");
    CAPTURE(folder.err());
    CHECK(code == 0);
    CHECK(fs::is_empty(folder / "begun/work"));
    CHECK(merged_again(folder, "begun") == at_once);
    // Three processes of another machine seem to be running, because this test holds the locks of their attempts.
    copy_plan(folder, "one", "alive");
    std::vector<Descriptor> locks;
    for (int i = 0; i < 3; ++i) {
        const fs::path attempt = make_attempt(folder, "alive", id, i);
        locks.emplace_back(::open((attempt / "attempt.json").c_str(), O_RDWR | O_CLOEXEC));
        REQUIRE(try_lock(locks.back()) == FileLock::taken);
    }
    code = folder.run("sweep run alive -q --retry-failed");
    CAPTURE(folder.err());
    CHECK(code == 0);
    CHECK(merged_again(folder, "alive") == at_once);
    // The locked attempts are not changed. Once their locks are released, the next shard removes them.
    for (int i = 0; i < 3; ++i) CHECK(fs::exists(folder.attempt("alive", id, i) / "attempt.json"));
    locks.clear();
    CHECK(folder.run("sweep run alive -q") == 0);
    CHECK(fs::is_empty(folder / "alive/work"));
}

TEST_CASE("if a unit is finished, merge ignores that another process failed at it", "[sweeps]") {
    const SweepScratch folder;
    const MergedFiles at_once = planned_and_trained(folder);
    const std::string id = first_unit(folder, "one");
    fs::create_directories(folder / "one/failed");
    folder.write(
        "one/failed/" + id + ".json",
        R"({"unit":")" + id + R"(","what":"its files went away","host":"h","shard":"0/1","attempt":1,"exit":3})");
    CHECK(merged_again(folder, "one") == at_once);
    CHECK(folder.run("sweep run one -q") == 0);
    CHECK(fs::is_empty(folder / "one/failed"));
}

TEST_CASE("a single bad read of a file is not reported as a machine that computes wrongly", "[sweeps]") {
    const SweepScratch folder;
    const MergedFiles at_once = planned_and_trained(folder);
    const fs::path unit = folder.units("one").front(), attempt = folder.attempt("one", unit.filename().string(), 0);
    const auto copy_unit = [&] {
        fs::create_directories(folder / "one/work");
        fs::copy(unit, attempt, fs::copy_options::recursive);
    };
    // The checksum in the `done` file of the attempt does not agree with its rows, as after a bad read.
    copy_unit();
    Done done = read_done(attempt);
    done.same_rows ^= 1;
    write_done(done, attempt);
    CHECK(folder.run("sweep run one -q") == 0);
    CHECK_FALSE(fs::exists(attempt));
    CHECK(merged_again(folder, "one") == at_once);
    // A file of the finished unit was changed. The error reports this change, and does not blame a machine.
    copy_unit();
    const std::string steps = contents(unit / "steps.csv");
    std::ofstream(unit / "steps.csv") << steps.substr(0, steps.size() - 2) << "9\n";
    std::ofstream(attempt / "steps.csv") << steps.substr(0, steps.size() - 2) << "8\n";
    write_done(make_done(attempt, done.id, 0), attempt);
    CHECK(folder.run("sweep run one -q") == 1);
    CHECK(folder.err().empty());
    CHECK(folder.run("sweep run one") == 1);
    CHECK(folder.err().find("its rows have changed since it was finished") != std::string::npos);
    CHECK(folder.err().find("computes wrongly") == std::string::npos);
    // If the folder of the unit is removed, as the message advises, the unit is trained again.
    fs::remove_all(unit);
    fs::remove_all(attempt);
    CHECK(folder.run("sweep run one -q --retry-failed") == 0);
    CHECK(merged_again(folder, "one") == at_once);
}

TEST_CASE("the children of a killed parent stop, and the next run of the sweep writes the same bytes", "[sweeps]") {
    const SweepScratch folder;
    std::string plan = small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n");
    plan.replace(plan.find("steps = 20"), 10, "steps = 3000");
    folder.write("long.toml", plan);
    REQUIRE(folder.run("sweep plan long.toml --out one") == 0);
    const MergedFiles at_once = trained_at_once(folder, "one");
    copy_plan(folder, "one", "killed");
    const pid_t parent = folder.start({"sweep", "run", "killed", "-q", "--jobs", "2"}, 0);
    CHECK(folder.waits_for_checkpoint("killed"));
    ::kill(parent, SIGKILL);
    wait_for(parent);
    // Soon afterwards, the children release the locks of their attempts.
    bool has_ended = false;
    for (int i = 0; i < 1000 && !has_ended; ++i) {
        ::usleep(5000);
        has_ended = true;
        for (const auto& attempt : fs::directory_iterator(folder / "killed/work")) {
            const Descriptor note(::open((attempt.path() / "attempt.json").c_str(), O_RDWR | O_CLOEXEC));
            has_ended = has_ended && note && try_lock(note) == FileLock::taken;
        }
    }
    CHECK(has_ended);
    REQUIRE(folder.run("sweep run killed -q --jobs 2") == 0);
    CHECK(fs::is_empty(folder / "killed/work"));
    CHECK(merged_again(folder, "killed") == at_once);
}

}  // namespace race_test
