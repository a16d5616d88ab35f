// SPDX-License-Identifier: Apache-2.0
// Tests sweeps from the plan to the merged rows. The merged bytes must not depend on the number of shards or on
// interruptions.
#include "experiments/training/sweep/store/done.hpp"
#include "tests/json.hpp"
#include "tests/sweep/reference.hpp"

#include <random>
#include <set>

namespace sweep_test {

using namespace macheps::test;
using namespace macheps::training;
using nlohmann::json;

namespace {

/// Trains a plan of twelve runs in four units: as a whole, in shards one after another, and in parallel. Compares the
/// merged files.
void train_in_all_ways(const SweepScratch& folder, const std::string& plan, int steps) {
    folder.write("small.toml", plan);
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    const MergedFiles at_once = trained_at_once(folder, "one");
    REQUIRE(at_once.size() == 6);  // five files of rows, and units.csv
    CHECK(at_once.at("runs.csv").find(",unit,") != std::string::npos);
    CHECK(std::count(at_once.at("runs.csv").begin(), at_once.at("runs.csv").end(), '\n') == 13);
    CHECK(std::count(at_once.at("steps.csv").begin(), at_once.at("steps.csv").end(), '\n') == 12 * steps + 1);

    copy_plan(folder, "one", "four");
    for (const int shard : {2, 0, 3, 1})
        REQUIRE(folder.run("sweep run four -q --shard " + std::to_string(shard) + "/4") == 0);
    CHECK(merged_again(folder, "four") == at_once);

    copy_plan(folder, "one", "seven");  // there are more shards than units
    for (int shard = 6; shard >= 0; --shard)
        REQUIRE(folder.run("sweep run seven -q --shard " + std::to_string(shard) + "/7") == 0);
    CHECK(merged_again(folder, "seven") == at_once);

    copy_plan(folder, "one", "beside");
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i)
        children.push_back(folder.start({"sweep", "run", "beside", "-q", "--shard", std::to_string(i) + "/4"}, i));
    for (const pid_t child : children) CHECK(wait_for(child) == 0);
    CHECK(merged_again(folder, "beside") == at_once);

    copy_plan(folder, "one", "jobs");
    REQUIRE(folder.run("sweep run jobs -q --jobs 3") == 0);
    CHECK(merged_again(folder, "jobs") == at_once);

    // Other programs start the shards, if they are installed.
    const auto by_another = [&](const std::string& name, const std::string& program, const std::string& command) {
        if (folder.shell("command -v " + program) != 0) return;
        copy_plan(folder, "one", name);
        const int code = folder.shell(command);
        CAPTURE(name, folder.err());
        REQUIRE(code == 0);
        CHECK(merged_again(folder, name) == at_once);
    };
    by_another("parallel", "parallel",
               "seq 0 15 | parallel -j 2 '" MACHEPS_PROGRAM "' sweep run parallel -q --shard {}/16");
    by_another("xargs", "xargs", "seq 0 15 | xargs -P 2 -I{} '" MACHEPS_PROGRAM "' sweep run xargs -q --shard {}/16");
    by_another("auto", "env",
               "for i in 1 2; do SGE_TASK_ID=$i MACHEPS_SHARD_COUNT=2 '" MACHEPS_PROGRAM
               "' sweep run auto -q "
               "--shard auto || exit; done");

    copy_plan(folder, "one", "scratch");
    REQUIRE(folder.run("sweep run scratch -q --scratch local") == 0);
    CHECK(merged_again(folder, "scratch") == at_once);
    CHECK(fs::is_empty(folder / "local"));
}

}  // namespace

TEST_CASE("sweep run --jobs counts a unit that was finished before as done before", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"amp-bf16\"]\nseeds = \"0..2\"\n"));
    struct Case {
        int trained, were_done;
        const char* why;
    };
    for (const auto& [trained, were_done, why] : {Case{3, 0, "a new sweep"}, Case{0, 3, "every unit is finished"}}) {
        CAPTURE(why);
        REQUIRE(folder.run("sweep run small.toml --jobs 2 --json") == 0);
        const json said = json::parse(folder.out());
        const std::string err = folder.err();
        CAPTURE(err);
        CHECK(said["trained"] == trained);
        CHECK(said["were_done"] == were_done);
        CHECK((err.find(" done in ") != std::string::npos) == (trained > 0));
        CHECK(err.find(std::to_string(trained) + " trained, " + std::to_string(were_done) + " done before") !=
              std::string::npos);
    }
    // Without --jobs, the units are counted in the same way.
    REQUIRE(folder.run("sweep run small.toml --json") == 0);
    CHECK(json::parse(folder.out())["were_done"] == 3);
}

TEST_CASE("the text of `sweep plan` has no name of the program's own, and an unknown key suggests the option",
          "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"amp-bf16\"]\nseeds = \"0..2\"\n"));
    REQUIRE(folder.run("sweep plan small.toml") == 0);
    CHECK(folder.err().find("timing fp32 with gpt2, ") != std::string::npos);
    for (const char* word : {"hidden", "heads", "optimizer"}) CHECK(folder.err().find(word) == std::string::npos);
    CHECK(folder.out().find(" of processor time\n") != std::string::npos);
    folder.write("rate.toml", "[axes]\npolicy = [\"amp-bf16\"]\nlearning_rate = [1e-3, 2e-3]\n");
    CHECK(folder.run("sweep plan rate.toml") == 2);
    CHECK(folder.err().find("did you mean '--lr'") != std::string::npos);
}

TEST_CASE("any number of shards, in any order or at the same time, merge to the same bytes", "[sweeps]") {
    const SweepScratch folder;
    train_in_all_ways(folder, small_plan(), 20);
}

TEST_CASE("a sweep of 12 runs of size tiny merges to the same bytes, regardless of shards and parallel processes",
          "[sweeps][slow]") {
    const SweepScratch folder;
    train_in_all_ways(
        folder,
        "[train]\nsteps = 60\nsize = \"tiny\"\n[axes]\npolicy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = \"0..1\"\n"
        "lr = [3e-4, 1e-3]\n",
        60);
}

TEST_CASE("if units are split by policy, each trains fp32, and merge keeps the rows of fp32 only once", "[sweeps]") {
    const SweepScratch folder;
    folder.write("whole.toml", small_plan());
    folder.write(
        "split.toml",
        small_plan("policy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = \"0..1\"\nlr = [3e-4, 1e-3]\n", split_units));
    REQUIRE(folder.run("sweep run whole.toml -q") == 0);
    REQUIRE(folder.run("sweep run split.toml -q") == 0);
    CHECK(folder.units("whole").size() == 4);
    CHECK(folder.units("split").size() == 8);
    REQUIRE(folder.run("merge whole --rows steps") == 0);
    REQUIRE(folder.run("merge split --rows steps") == 0);
    const auto without_units = [&](const std::string& name) {
        std::string text = folder.rows(name);
        for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos;) {
            const std::size_t from = text.rfind(',', text.rfind(',', at) - 1);
            text.erase(from, at - from);
            at = from + 1;
        }
        return text;
    };
    CHECK(without_units("whole/merged/steps.csv") == without_units("split/merged/steps.csv"));
    // Two units contain rows of the same fp32 run, so a machine that computes fp32 differently is detected. The first
    // unit is changed here to have different rows.
    const fs::path unit = folder.units("split").front();
    const std::string steps = contents(unit / "steps.csv");
    const std::size_t line = steps.find('\n', steps.find('\n') + 1);
    std::string other = steps;
    other[line - 1] = other[line - 1] == '1' ? '2' : '1';
    std::ofstream(unit / "steps.csv") << other;
    // If only the file was changed, the error reports this, and does not blame a machine.
    CHECK(folder.run("merge split --rows steps --trust") == 1);
    CHECK(folder.err().find("row 1 (line 2) has changed since the unit was finished") != std::string::npos);
    CHECK(folder.err().find("computes wrongly") == std::string::npos);
    macheps::training::write_done(macheps::training::make_done(unit, unit.filename().string(), 0), unit);
    CHECK(folder.run("merge split --rows steps --trust") == 1);
    CHECK(folder.err().find("fp32 has different rows in two units") != std::string::npos);
    CHECK(folder.err().find("steps.csv, row 1") != std::string::npos);
}

TEST_CASE("if a unit is missing, the rows of fp32 come from another unit with the same setting and seed", "[sweeps]") {
    const SweepScratch folder;
    folder.write("split.toml", small_plan("policy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = 0\n", split_units));
    REQUIRE(folder.run("sweep run split.toml -q") == 0);
    REQUIRE(folder.run("merge split --rows runs") == 0);
    const std::string runs = contents(folder / "split/merged/runs.csv");
    // The last cell of the row of run fp32/0 is the id of its unit.
    const std::size_t end = runs.find('\n', runs.find("\nfp32/0,") + 1);
    const std::string first = runs.substr(runs.rfind(',', end) + 1, 16);
    fs::remove_all(folder / ("split/units/" + first.substr(0, 2) + "/" + first));
    REQUIRE(folder.run("merge split --rows runs --allow-missing") == 0);
    const std::string left = contents(folder / "split/merged/runs.csv");
    CHECK(std::count(left.begin(), left.end(), '\n') == 3);  // fp32, and the policy of the other unit
    CHECK(left.find("\nfp32/0,") != std::string::npos);
    REQUIRE(folder.run("report split --csv") == 0);
    CHECK(folder.err().find("1 of 2 units are missing") != std::string::npos);
    CHECK(contents(folder / "split/report.html").find("<h2>The 1 largest gap") != std::string::npos);
}

TEST_CASE("a shard that is killed at any moment writes the same bytes when it runs again", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n"));
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    const MergedFiles at_once = trained_at_once(folder, "one");
    std::mt19937 random(1);
    int killed = 0;
    for (int i = 0; i < 12; ++i) {
        copy_plan(folder, "one", "killed");
        const pid_t child = folder.start({"sweep", "run", "killed", "-q"}, 0);
        ::usleep(static_cast<useconds_t>(std::uniform_int_distribution<>(0, 300)(random)) * 1000);
        ::kill(child, SIGKILL);
        killed += wait_for(child) == 128 + SIGKILL ? 1 : 0;
        const int code = folder.run("sweep run killed -q");
        CAPTURE(i, folder.err());
        REQUIRE(code == 0);
        CHECK(fs::is_empty(folder / "killed/work"));
        CHECK(merged_again(folder, "killed") == at_once);
    }
    CHECK(killed > 0);
}

TEST_CASE("SIGUSR1, SIGTERM and --max-minutes stop a shard with exit 75, and it resumes from its checkpoint",
          "[sweeps]") {
    const SweepScratch folder;
    std::string text = small_plan("policy = [\"pure-bf16\"]\nseeds = 0\n");
    text.replace(text.find("steps = 20"), 10, "steps = 3000");
    folder.write("long.toml", text);
    REQUIRE(folder.run("sweep plan long.toml --out one") == 0);
    const MergedFiles at_once = trained_at_once(folder, "one");
    for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
        copy_plan(folder, "one", "stopped");
        const pid_t child = folder.start({"sweep", "run", "stopped"}, 0);
        CHECK(folder.waits_for_checkpoint("stopped"));
        ::kill(child, number);
        CAPTURE(number, contents(folder / "log0.txt"));
        REQUIRE(wait_for(child) == 75);
        CHECK_FALSE(fs::is_empty(folder / "stopped/work"));
        REQUIRE(folder.run("sweep run stopped") == 0);
        CHECK(fs::is_empty(folder / "stopped/work"));
        CHECK(merged_again(folder, "stopped") == at_once);
    }
    copy_plan(folder, "one", "timed");
    CHECK(folder.run("sweep run timed -q --max-minutes 0.001") == 75);
    int rounds = 1;  // later rounds are longer, so that even a busy machine finishes
    while (folder.run("sweep run timed -q --max-minutes " + std::to_string(0.005 * rounds)) == 75 && rounds < 200)
        ++rounds;
    CHECK(merged_again(folder, "timed") == at_once);
}

TEST_CASE("two processes that run the same shard at the same time both succeed, with the same bytes", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan());
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    const MergedFiles at_once = trained_at_once(folder, "one");
    for (int i = 0; i < 3; ++i) {
        copy_plan(folder, "one", "two");
        const pid_t a = folder.start({"sweep", "run", "two", "--shard", "0/1"}, 0),
                    b = folder.start({"sweep", "run", "two", "--shard", "0/1"}, 1);
        const int first = wait_for(a), second = wait_for(b);
        CAPTURE(contents(folder / "log0.txt"), contents(folder / "log1.txt"));
        CHECK(first == 0);
        CHECK(second == 0);
        CHECK(merged_again(folder, "two") == at_once);
        REQUIRE(folder.run("sweep run two -q") == 0);
        CHECK(fs::is_empty(folder / "two/work"));
    }
}

TEST_CASE("merge finds a changed byte, and the error names its unit, file and row", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n"));
    REQUIRE(folder.run("sweep run small.toml -q") == 0);
    REQUIRE(folder.run("merge small") == 0);
    const std::string before = contents(folder / "small/merged/steps.csv");
    const fs::path unit = folder.units("small").back();
    std::string text = contents(unit / "steps.csv");
    std::size_t at = 0;
    for (int i = 0; i < 8; ++i) at = text.find('\n', at) + 1;  // line 9, row 8
    text[text.find("0.", at) + 3] ^= 1;
    std::ofstream(unit / "steps.csv") << text;
    CHECK(folder.run("merge small") == 1);
    CAPTURE(folder.err());
    CHECK(folder.err().find(unit.filename().string()) != std::string::npos);
    CHECK(folder.err().find("steps.csv") != std::string::npos);
    CHECK(folder.err().find("row 8 (line 9)") != std::string::npos);
    CHECK(contents(folder / "small/merged/steps.csv") == before);  // nothing was written
    CHECK(folder.run("merge small --trust") == 0);
    // As the message advises, the unit is removed, and its shard is run again.
    fs::remove_all(unit);
    CHECK(folder.run("merge small") == 1);
    CHECK(folder.err().find("1 of 2 units are missing") != std::string::npos);
    REQUIRE(folder.run("sweep run small -q") == 0);
    REQUIRE(folder.run("merge small") == 0);
    CHECK(contents(folder / "small/merged/steps.csv") == before);
}

TEST_CASE("a plan that grows trains only the new units, and merge reports units of earlier versions of the plan",
          "[sweeps]") {
    const SweepScratch folder;
    const auto plan = [](const std::string& seeds) {
        return small_plan("policy = [\"amp-bf16\", \"mine.toml\"]\nseeds = \"" + seeds + "\"\n");
    };
    folder.write("mine.toml", "name = \"mine\"\nextends = \"pure-bf16\"\n");
    folder.write("small.toml", plan("0..1"));
    REQUIRE(folder.run("sweep run small.toml --json") == 0);
    CHECK(json::parse(folder.out())["trained"] == 2);
    folder.write("small.toml", plan("0..2"));
    // If there are several shards, each shard refuses a plan that has changed.
    CHECK(folder.run("sweep run small.toml --shard 0/2") == 2);
    CHECK(folder.err().find("the plan is not the one that small was made from") != std::string::npos);
    REQUIRE(folder.run("sweep run small.toml --json -q") == 0);
    CHECK(json::parse(folder.out())["trained"] == 1);
    CHECK(json::parse(folder.out())["were_done"] == 2);
    REQUIRE(folder.run("merge small --json") == 0);
    CHECK(json::parse(folder.out())["not_of_this_plan"] == 0);

    folder.write("mine.toml", "name = \"mine\"\nextends = \"pure-bf16-sr\"\n");
    REQUIRE(folder.run("sweep run small.toml --json -q") == 0);
    CHECK(json::parse(folder.out())["trained"] == 3);  // the changed policy and fp32, for each of three seeds
    REQUIRE(folder.run("merge small --json") == 0);
    const json merged = json::parse(folder.out());
    CHECK(merged["units"] == 6);  // amp-bf16 is taken from the old units
    const std::string runs = folder.rows("small/merged/runs.csv");
    CHECK(std::count(runs.begin(), runs.end(), '\n') == 10);
    // Without the first policy, the old units are no longer needed.
    folder.write("small.toml", small_plan("policy = [\"mine.toml\"]\nseeds = \"0..2\"\n"));
    REQUIRE(folder.run("sweep plan small.toml --out small --json") == 0);
    CHECK(json::parse(folder.out())["new_units"] == 0);
    REQUIRE(folder.run("merge small --json") == 0);
    CHECK(folder.err().find("belong to an earlier version of this plan") != std::string::npos);
}

TEST_CASE("failed units are recorded, and trained again only with --retry-failed", "[sweeps]") {
    const SweepScratch folder;
    std::string text(4000, 'a');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * i % 23);
    folder.write("corpus.txt", text);
    std::string plan = small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n");
    plan.insert(plan.find("[axes]"), "data = \"corpus.txt\"\n");
    folder.write("small.toml", plan);
    REQUIRE(folder.run("sweep plan small.toml --out small") == 0);
    text[100] = '!';
    folder.write("corpus.txt", text);
    CHECK(folder.run("sweep run small") == 1);
    CHECK(folder.err().find("not the recipe that was planned") != std::string::npos);
    CHECK(folder.run("sweep run small -q") == 1);  // not retried
    CHECK(folder.run("sweep status small --json") == 0);
    CHECK(json::parse(folder.out())["failed"] == 2);
    CHECK(folder.run("merge small") == 1);
    CHECK(folder.err().find("macheps sweep run small --retry-failed --shard 0/1") != std::string::npos);
    text[100] = static_cast<char>('a' + 100 * 100 % 23);
    folder.write("corpus.txt", text);
    CHECK(folder.run("sweep run small -q --retry-failed") == 0);
    CHECK(folder.run("merge small") == 0);
    CHECK(fs::is_empty(folder / "small/failed"));
}

TEST_CASE("a unit counts as failed after three attempts without progress", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = 0\n"));
    REQUIRE(folder.run("sweep plan small.toml --out small --csv") == 0);
    const std::string csv = folder.out(), id = csv.substr(csv.find('\n') + 1, 16);
    for (int i = 0; i < 3; ++i) {
        const fs::path attempt = folder.attempt("small", id, i);
        fs::create_directories(attempt);
        std::ofstream(attempt / "attempt.json")
            << R"({"host":"elsewhere","process":1,"shard":"0/1","began":{"runs":0,"step":0}})";
    }
    CHECK(folder.run("sweep run small") == 1);
    CHECK(folder.err().find("3 attempts ended without any progress") != std::string::npos);
    CHECK(folder.run("sweep run small --retry-failed -q") == 0);
    CHECK(fs::is_empty(folder / "small/work"));
}

TEST_CASE("an invalid plan is refused before anything is trained", "[sweeps]") {
    const SweepScratch folder;
    struct Case {
        const char *plan, *says;
        int code;
    };
    const Case cases[] = {
        {"[axes]\npolicy = [\"fp9-*\"]\n", "'fp9-*' matches no preset", 3},
        {"[axes]\npolicy = [\"amp-bf61\"]\n", "did you mean 'amp-bf16'", 2},
        {"[axes]\npolicy = []\n", "'policy' has no value", 3},
        {"[axes]\nlr = 1e-3\n", "the plan names no policy", 3},
        {"[train]\nstep = 3\n[axes]\npolicy = \"fp32\"\n", "unknown option '--step' (did you mean '--steps'", 2},
        {"[train]\nsteps = \"many\"\n[axes]\npolicy = \"fp32\"\n", "--steps: 'many' is not a whole number", 2},
        {"[train]\nwidth = 30\nheads = 4\n[axes]\npolicy = \"fp32\"\n", "--heads: 4 heads do not divide a width of 30",
         2},
        {"[train]\nseeds = 3\n[axes]\npolicy = \"fp32\"\n", "'seeds' is an axis", 3},
        {"[train]\nout = \"x\"\n[axes]\npolicy = \"fp32\"\n", "'out' is set by the sweep", 3},
        {"[train]\nlr = 1\n[axes]\npolicy = \"fp32\"\nlr = 2\n", "'lr' appears in [train] and in [axes]", 3},
        {"[axes]\npolicy = \"fp32\"\nlr = [1e-3, 0.001]\n", "'0.001' appears twice", 3},
        {"[axes]\npolicy = \"fp32\"\nseeds = \"4..1\"\n", "'4..1' is not a valid list of seeds", 3},
        {"[axes]\npolicy = \"fp32\"\n[[exclude]]\nsize = \"base\"\n", "unknown key 'size'", 3},
        {"[axes]\npolicy = \"tf32\"\nlr = [1, 2]\n[[exclude]]\nlr = \"3\"\n", "this exclusion has no effect", 3},
        {"[axes]\npolicy = \"tf32\"\n[[exclude]]\npolicy = \"*\"\n", "nothing is left to train", 3},
        {"[axes]\npolicy = \"fp32\"\n[units]\nminutes = 0\n", "a unit cannot take 0 minutes", 3},
        {"[axes]\npolicy = \"fp32\"\n[rows]\nsites = 3\n", "'sites' is an integer", 3},
        {"[train]\nhistogram-every = 10\n[axes]\npolicy = \"fp32\"\n", "has no effect if [rows] leaves out exponents",
         3},
        {"[axes]\npolicy = \"fp32\"\nx = 3\n[train]\n[axis]\n", "unknown key 'axis'", 3},
        {"axes = 3\n", "'axes' is an integer", 3},
        {"[axes\n", "TOML", 3}};
    for (const Case& one : cases) {
        CAPTURE(one.plan);
        folder.write("bad.toml", one.plan);
        const int code = folder.run("sweep plan bad.toml");
        CAPTURE(folder.err());
        CHECK(code == one.code);
        CHECK(folder.err().find(one.says) != std::string::npos);
        CHECK(folder.err().find("bad.toml") != std::string::npos);
        CHECK_FALSE(fs::exists(folder / "costs.csv"));
    }
    CHECK(folder.run("sweep plan none.toml") == 3);
    CHECK(folder.run("sweep run none") == 3);
    CHECK(folder.run("sweep run .") == 3);
    CHECK(folder.err().find("there is no sweep.json") != std::string::npos);
    CHECK(folder.run("merge .") == 3);
}

TEST_CASE("excluded runs are not planned, and a setting without policies has no unit", "[sweeps]") {
    const SweepScratch folder;
    folder.write("small.toml",
                 small_plan("policy = [\"tf32\", \"pure-*\"]\nseeds = [0, 3]\nlr = [1, 2]\n",
                            "[[exclude]]\npolicy = \"pure-*\"\nlr = 1\n[[exclude]]\nlr = \"2\"\nseeds = 3\n"));
    REQUIRE(folder.run("sweep plan small.toml --csv") == 0);
    std::istringstream lines(folder.out());
    std::set<std::string> rows;
    std::string line;
    std::getline(lines, line);
    CHECK(line == "unit,lr,seed,policies,seconds,bytes,memory_bytes");
    while (std::getline(lines, line)) {
        const std::size_t second = line.find(',', line.find(',', line.find(',') + 1) + 1);
        rows.insert(line.substr(17, line.find(',', second + 1) - 17));
    }
    CHECK(rows ==
          std::set<std::string>{"1,0,fp32 tf32", "1,3,fp32 tf32", "2,0,fp32 tf32 pure-bf16 pure-bf16-sr pure-fp16"});
    CHECK(folder.run("sweep plan small.toml --csv") == 0);  // does not time the policies again
    CHECK(folder.err().empty());
}

}  // namespace sweep_test
