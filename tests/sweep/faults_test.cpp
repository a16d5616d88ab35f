// SPDX-License-Identifier: Apache-2.0
// Tests sweeps during faults of the disk, a network file system, the clock, the plan and the program. Finished units
// must stay complete, and repeated work must write the same bytes.
#include "experiments/training/sweep/store/done.hpp"
#include "tests/json.hpp"
#include "tests/sweep/reference.hpp"

#include <sys/stat.h>

#include <cerrno>

namespace faults_test {

using namespace macheps::test;
using namespace macheps::training;
using nlohmann::json;

namespace {

/// A plan of two units, each of which trains fp32 and one other policy.
const std::string two_units = small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n");

/// Writes the plan to small.toml and trains it without faults in the folder `one`.
MergedFiles undisturbed(const SweepScratch& folder, const std::string& plan = two_units) {
    folder.write("small.toml", plan);
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    return trained_at_once(folder, "one");
}

Start with_fault(const std::string& fault) {
    return {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS, "MACHEPS_FAULT=" + fault}};
}

/// Applies `change` to a JSON file.
template <class Change>
void edit_json(const fs::path& path, const Change& change) {
    json document = json::parse(contents(path));
    change(document);
    std::ofstream(path) << document.dump(1) << '\n';
}

/// A small separate disk (a tmpfs). It converts to false if this process may not mount it.
class SmallDisk {
  public:
    SmallDisk(const fs::path& path, const std::string& size) : path_(path.string()) {
        fs::create_directories(path);
        is_mounted_ = mount("size=" + size);
    }
    ~SmallDisk() {
        if (is_mounted_) (void)std::system(("umount '" + path_ + "'").c_str());
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    explicit operator bool() const { return is_mounted_; }
    bool resize(const std::string& size) const { return mount("remount,size=" + size); }

  private:
    bool mount(const std::string& options) const {
        return std::system(("mount -t tmpfs -o " + options + " tmpfs '" + path_ + "' 2>/dev/null").c_str()) == 0;
    }
    std::string path_;
    bool is_mounted_ = false;
};

}  // namespace

TEST_CASE("a full disk ends a shard with exit 5 and keeps finished units; more space lets the shard continue",
          "[sweeps][faults]") {
    const SweepScratch folder;
    // The disk has space for half of the twenty units, so it becomes full in the middle of a unit.
    const std::string plan = small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..19\"\n");
    const MergedFiles at_once = undisturbed(folder, plan);
    std::uint64_t bytes = 0;
    for (const auto& file : fs::recursive_directory_iterator(folder / "one/units"))
        bytes += file.is_regular_file() ? file.file_size() : 0;
    const SmallDisk disk(folder / "disk", std::to_string(bytes / 2));
    if (!disk) SKIP_TEST("mounting a small tmpfs is not allowed here");
    copy_plan(folder, "one", "disk/full");
    CHECK(folder.run("sweep run disk/full -q --patience 0.3") == 5);
    CHECK(folder.err().find("No space left on device (free some space") != std::string::npos);
    const std::vector<fs::path> finished = folder.units("disk/full");
    REQUIRE(!finished.empty());
    CHECK(finished.size() < 20);
    CHECK(folder.run("merge disk/full --allow-missing -o merged" + std::string(all_rows)) == 0);
    CHECK(folder.run("sweep status disk/full --json") == 0);
    CHECK(json::parse(folder.out())["done"] == finished.size());
    // Another run while the disk is full does not lose any finished unit. It begins by copying an attempt, and ends
    // without retries.
    CHECK(folder.run("sweep run disk/full -q") == 5);
    CHECK(folder.err().find("No space left on device") != std::string::npos);
    CHECK(folder.err().find("trying again") == std::string::npos);
    CHECK(folder.units("disk/full").size() >= finished.size());
    REQUIRE(disk.resize("64m"));
    REQUIRE(folder.run("sweep run disk/full -q") == 0);
    CHECK(merged_again(folder, "disk/full") == at_once);
}

TEST_CASE("an exceeded quota or a disk that stays full ends a shard with exit 5 and a remedy", "[sweeps][faults]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed(folder);
    for (const int error : {EDQUOT, ENOSPC}) {
        for (const char* call : {"write:40", "mkdir:3", "fsync:9"}) {
            copy_plan(folder, "one", "full");
            const std::string fault = std::string(call) + ":" + std::to_string(error) + ":sticky";
            const int code = wait_for(folder.start({"sweep", "run", "full", "-q"}, 0, with_fault(fault)));
            const std::string said = contents(folder / "log0.txt");
            CAPTURE(fault, said);
            CHECK(code == 5);
            CHECK(said.find(std::strerror(error)) != std::string::npos);
            CHECK((said.find("free some space") != std::string::npos ||
                   said.find("the free space") != std::string::npos));
            CHECK_FALSE(fs::exists(folder / "full/failed"));  // no unit is recorded as failed
            REQUIRE(folder.run("sweep run full -q") == 0);
            CHECK(fs::is_empty(folder / "full/work"));
            CHECK(merged_again(folder, "full") == at_once);
        }
    }
}

TEST_CASE("a shard retries three times after a stale file handle or an I/O error, and ends if the error persists",
          "[sweeps][faults]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed(folder);
    for (const int error : {ESTALE, EIO}) {
        for (const char* call : {"write:40", "fsync:9", "rename:4", "mkdir:3"}) {
            copy_plan(folder, "one", "stale");
            const std::string fault = std::string(call) + ":" + std::to_string(error) + ":once";
            const int code =
                wait_for(folder.start({"sweep", "run", "stale", "-q", "--patience", "0.1"}, 0, with_fault(fault)));
            CAPTURE(fault, contents(folder / "log0.txt"));
            REQUIRE(code == 0);
            CHECK(contents(folder / "log0.txt").find("trying again") != std::string::npos);
            CHECK(fs::is_empty(folder / "stale/work"));
            CHECK(merged_again(folder, "stale") == at_once);
        }
        // If the error persists, the shard ends after three retries, because the next unit would fail in the same way.
        copy_plan(folder, "one", "stale");
        const std::string fault = "rename:1:" + std::to_string(error) + ":sticky";
        const int code =
            wait_for(folder.start({"sweep", "run", "stale", "-q", "--patience", "0.1"}, 0, with_fault(fault)));
        const std::string said = contents(folder / "log0.txt");
        CAPTURE(fault, said);
        CHECK(code == 5);
        std::size_t tries = 0;
        for (std::size_t at = 0; (at = said.find("trying again", at)) != std::string::npos; ++at) ++tries;
        CHECK(tries == 3);
        CHECK_FALSE(fs::exists(folder / "stale/failed"));
        REQUIRE(folder.run("sweep run stale -q") == 0);
        CHECK(merged_again(folder, "stale") == at_once);
    }
}

TEST_CASE("a temporary shortage of a system resource does not fail a unit", "[sweeps][faults]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed(folder);
    for (const int error : {EMFILE, ENFILE, ENOMEM, EBUSY}) {
        copy_plan(folder, "one", "short");
        // From the attempt at the first unit on, every open() fails, and the shard ends. No unit is recorded as failed.
        const std::string fault = "open:60:" + std::to_string(error) + ":sticky";
        const int code =
            wait_for(folder.start({"sweep", "run", "short", "-q", "--patience", "0.1"}, 0, with_fault(fault)));
        CAPTURE(error, contents(folder / "log0.txt"));
        CHECK((code == 5 || code == 3));
        CHECK_FALSE(fs::exists(folder / "short/failed"));
        REQUIRE(folder.run("sweep run short -q") == 0);
        CHECK(merged_again(folder, "short") == at_once);
        for (const char* call : {"open:45", "open:60", "open:75"}) {
            copy_plan(folder, "one", "short");
            const std::string once = std::string(call) + ":" + std::to_string(error) + ":once";
            const int ended =
                wait_for(folder.start({"sweep", "run", "short", "-q", "--patience", "0.1"}, 0, with_fault(once)));
            CAPTURE(once, contents(folder / "log0.txt"));
            CHECK(ended == 0);
            CHECK_FALSE(fs::exists(folder / "short/failed"));
            CHECK(merged_again(folder, "short") == at_once);
        }
    }
}

TEST_CASE("a sweep does not depend on jumps of the system clock or on the times of files", "[sweeps][faults]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed(folder);
    copy_plan(folder, "one", "jumps");
    const Start jumping{.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_CLOCK}};
    // A jump of the clock does not trigger a time limit of 600 minutes.
    CHECK(wait_for(folder.start({"sweep", "run", "jumps", "-q", "--max-minutes", "600"}, 0, jumping)) == 0);
    CHECK(merged_again(folder, "jumps") == at_once);
    copy_plan(folder, "one", "jumps");
    // The sweep is stopped and resumed repeatedly, so that attempts, checkpoints and `done` files have different dates.
    int code = 75;
    for (int rounds = 1; code == 75 && rounds < 100; ++rounds) {
        code = wait_for(
            folder.start({"sweep", "run", "jumps", "-q", "--max-minutes", std::to_string(0.002 * rounds)}, 0, jumping));
        CAPTURE(contents(folder / "log0.txt"));
        CHECK((code == 0 || code == 75));
        for (const char* part : {"units", "work"}) {
            if (!fs::exists(folder / ("jumps/" + std::string(part)))) continue;
            // Half of the files get a time in the future, and the other half a time long ago.
            int number = 0;
            for (const auto& file : fs::recursive_directory_iterator(folder / ("jumps/" + std::string(part)))) {
                const timespec when{number++ % 2 == 0 ? 4000000000 : 1000, 0}, both[] = {when, when};
                ::utimensat(AT_FDCWD, file.path().c_str(), both, 0);
            }
        }
    }
    REQUIRE(code == 0);
    CHECK(wait_for(folder.start({"sweep", "status", "jumps"}, 1, jumping)) == 0);
    CHECK(contents(folder / "log1.txt").find("2 done") != std::string::npos);
    CHECK(merged_again(folder, "jumps") == at_once);
    // The durations of runs come from the monotonic clock, so none is negative.
    CHECK(contents(folder / "jumps/merged/units.csv").find(",-") == std::string::npos);
}

TEST_CASE("the Slurm array script forwards signals: USR1 requeues the task, and TERM does not", "[sweeps][faults]") {
    const SweepScratch folder;
    std::string plan = small_plan("policy = [\"pure-bf16\"]\nseeds = 0\n");
    plan.replace(plan.find("steps = 20"), 10, "steps = 2000");
    const MergedFiles at_once = undisturbed(folder, plan);
    copy_plan(folder, "one", "array");
    REQUIRE(folder.run("sweep submit array --engine slurm --shards 1 --print") == 0);
    const std::string scripts = folder.out();
    folder.write("array.sh", scripts.substr(0, scripts.find("# --- slurm/merge.sh")));
    folder.write("scontrol", "#!/bin/sh\necho \"$@\" >>'" + (folder / "asked").string() + "'\n");
    fs::permissions(folder / "scontrol", fs::perms::owner_all);
    const auto begin = [&] {
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child != 0) return child;
        redirect(folder / "array.log", O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO);
        redirect(folder / "array.log", O_WRONLY | O_CREAT | O_APPEND, STDERR_FILENO);
        ::setenv("PATH", (folder.path().string() + ":" + std::getenv("PATH")).c_str(), 1);
        ::setenv("SLURM_ARRAY_TASK_ID", "0", 1);
        ::setenv("SLURM_ARRAY_JOB_ID", "7", 1);
        ::execlp("bash", "bash", (folder / "array.sh").c_str(), nullptr);
        ::_exit(98);
    };
    // The signal comes either during training or before the program can handle it. The script handles it in both cases,
    // because it sets its traps before it starts the program.
    for (const int number : {SIGUSR1, SIGTERM}) {
        for (const bool waits : {false, true}) {
            CAPTURE(number, waits);
            fs::remove(folder / "asked");
            copy_plan(folder, "one", "array");
            const pid_t child = begin();
            if (waits) CHECK(folder.waits_for_checkpoint("array"));
            for (int i = 0; !waits && i < 4000 && contents("/proc/" + std::to_string(child) + "/comm") != "bash\n"; ++i)
                ::usleep(200);
            if (!waits) ::usleep(50000);  // lets the script run the lines that come before the program
            ::kill(child, number);
            const int code = wait_for(child);
            CAPTURE(contents(folder / "array.log"));
            CHECK(contents(folder / "asked") == (number == SIGUSR1 ? "requeue 7_0\n" : ""));
            CHECK((number == SIGUSR1 ? code == 0 : code == 75 || code == 143));
        }
    }
    CHECK(wait_for(begin()) == 0);
    CHECK(merged_again(folder, "array") == at_once);
    // The task ends with the exit code of the program.
    fs::remove(folder / "array/sweep.json");
    CHECK(wait_for(begin()) == 3);
}

TEST_CASE("if a plan grows while a shard runs, the next shard trains the new units", "[sweeps][faults]") {
    const SweepScratch folder;
    const auto plan = [](const std::string& seeds, const std::string& rates) {
        std::string text = small_plan("policy = [\"mine.toml\"]\nseeds = \"" + seeds + "\"\nlr = " + rates + "\n");
        return text.replace(text.find("steps = 20"), 10, "steps = 400");
    };
    folder.write("mine.toml", "name = \"mine\"\nextends = \"pure-bf16\"\n");
    folder.write("grown.toml", plan("0..2", "[1e-3, 3e-4]"));
    REQUIRE(folder.run("sweep plan grown.toml --out whole") == 0);
    const MergedFiles at_once = trained_at_once(folder, "whole");

    folder.write("small.toml", plan("0..1", "1e-3"));
    REQUIRE(folder.run("sweep plan small.toml --out small") == 0);
    const pid_t running = folder.start({"sweep", "run", "small", "--json"}, 0);
    for (int i = 0; i < 2000 && !fs::exists(folder / "small/work"); ++i) ::usleep(2000);
    folder.write("small.toml", plan("0..2", "[1e-3, 3e-4]"));
    REQUIRE(folder.run("sweep plan small.toml --out small --json") == 0);
    CHECK(json::parse(folder.out())["new_units"] == 4);
    // Training does not read the copies of the plan and the policies in the folder, which are only for people.
    std::ofstream(folder / "small/plan.toml") << "not a plan\n";
    std::ofstream(folder / "small/policies/mine.toml") << "not a policy\n";
    CHECK(wait_for(running) == 0);
    const std::string log = contents(folder / "log0.txt");
    CHECK(json::parse(log.substr(log.find('{'), log.rfind('}') - log.find('{') + 1))["trained"] == 2);
    CHECK(folder.run("merge small") == 1);
    CHECK(folder.err().find("4 of 6 units are missing") != std::string::npos);
    REQUIRE(folder.run("sweep run small --json -q") == 0);
    CHECK(json::parse(folder.out())["trained"] == 4);
    CHECK(merged_again(folder, "small") == at_once);
}

TEST_CASE("units from two versions of the program are merged only with --allow-mixed, and the versions are named",
          "[sweeps][faults]") {
    const SweepScratch folder;
    undisturbed(folder);
    const fs::path unit = folder.units("one").back();
    edit_json(unit / "done", [](json& done) { done["created_by"] = "macheps 0.0.1", done["git"] = "0123abcd"; });
    const std::string before = contents(folder / "one/merged/steps.csv");
    CHECK(folder.run("merge one") == 1);
    CHECK(folder.err().find("the units were trained by 2 versions of the program") != std::string::npos);
    CHECK(folder.err().find("macheps 0.0.1 (0123abcd)") != std::string::npos);
    CHECK(contents(folder / "one/merged/steps.csv") == before);
    REQUIRE(folder.run("merge one --allow-mixed") == 0);
    CHECK(contents(folder / "one/merged/steps.csv") == before);
    const std::string units = contents(folder / "one/merged/units.csv");
    const std::size_t line = units.find(unit.filename().string());
    CHECK(units.substr(line, units.find('\n', line) - line).ends_with(",macheps 0.0.1 (0123abcd)"));
    REQUIRE(folder.run("report one") == 0);
    CHECK(folder.err().find("the units come from 2 versions of the program") != std::string::npos);
}

TEST_CASE("a program refuses a unit if its recipe for the unit differs from the recipe that was planned",
          "[sweeps][faults]") {
    const SweepScratch folder;
    undisturbed(folder);
    copy_plan(folder, "one", "other");
    edit_json(folder / "other/sweep.json", [](json& sweep) {
        sweep["created_by"] = "macheps 0.0.1";
        sweep["settings"][0]["options"].push_back("--clip=0.5");  // as if the other version had another default
    });
    CHECK(folder.run("sweep run other") == 1);
    CHECK(folder.err().find("not the recipe that was planned (it was planned by macheps 0.0.1 (") != std::string::npos);
    CHECK(folder.units("one").size() == 2);
    CHECK(folder.run("merge other") == 1);
    CHECK(folder.err().find("2 of 2 units are missing") != std::string::npos);
    edit_json(folder / "other/sweep.json", [](json& sweep) { sweep["schema"] = sweep["schema"].get<int>() + 1; });
    CHECK(folder.run("sweep run other") == 3);
    CHECK(folder.err().find("schema 2 is newer than this program's 1 (use a newer macheps)") != std::string::npos);
    folder.write("other/sweep.json", contents(folder / "one/sweep.json").substr(0, 500));
    CHECK(folder.run("sweep run other") == 3);
    CHECK(folder.run("sweep status other") == 3);
    CHECK(folder.run("merge other") == 3);
}

TEST_CASE("if two machines train a unit differently, an error names both, and neither result is lost",
          "[sweeps][faults]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed(folder);
    const fs::path unit = folder.units("one").front();
    const std::string id = unit.filename().string();
    // Another machine has finished the unit with different rows, but was killed before it could publish them.
    fs::create_directories(folder / "one/work");
    const fs::path attempt = folder.attempt("one", id, 0);
    fs::copy(unit, attempt, fs::copy_options::recursive);
    const std::string steps = contents(attempt / "steps.csv");
    std::ofstream(attempt / "steps.csv") << steps.substr(0, steps.size() - 2)
                                         << (steps[steps.size() - 2] == '1' ? "2\n" : "1\n");
    macheps::training::Done other = macheps::training::make_done(attempt, id, 0);
    other.host = "elsewhere";
    macheps::training::write_done(other, attempt);
    for (int i = 0; i < 2; ++i) {  // a second run also keeps both results
        CHECK(folder.run("sweep run one") == 1);
        CAPTURE(folder.err());
        CHECK(folder.err().find("unit " + id + " was trained twice, with different rows") != std::string::npos);
        CHECK(folder.err().find("on elsewhere (attempt ") != std::string::npos);
        CHECK(fs::exists(attempt / "done"));
        CHECK(folder.run("merge one") == 1);
        CHECK(folder.err().find("with different rows") != std::string::npos);
        CHECK(folder.run("report one") == 0);
        CHECK(folder.err().find("note: ") != std::string::npos);
        CHECK(folder.err().find("unit " + id + " was trained twice") != std::string::npos);
    }
    fs::remove_all(attempt);
    fs::remove_all(folder / "one/failed");
    CHECK(folder.run("sweep run one -q") == 0);
    CHECK(merged_again(folder, "one") == at_once);
    // An attempt with the same rows is removed without an error.
    fs::copy(unit, attempt, fs::copy_options::recursive);
    CHECK(folder.run("sweep run one -q") == 0);
    CHECK_FALSE(fs::exists(attempt));
    // If a process is killed between marking an attempt as done and renaming the attempt, the next run publishes the
    // attempt without training.
    fs::rename(unit, attempt);
    CHECK(folder.run("sweep run one --json -q") == 0);
    CHECK(json::parse(folder.out())["trained"] == 0);
    CHECK(merged_again(folder, "one") == at_once);
}

TEST_CASE("if any file of a finished unit was changed, the error names the file, and nothing is merged",
          "[sweeps][faults]") {
    const SweepScratch folder;
    undisturbed(folder);
    const fs::path unit = folder.units("one").back();
    const auto refused = [&](const std::string& says, int code = 1) {
        fs::remove_all(folder / "one/merged");
        const int ended = folder.run("merge one --rows runs,steps,sites");
        CAPTURE(folder.err());
        CHECK(ended == code);
        CHECK(folder.err().find(says) != std::string::npos);
        CHECK(folder.err().find(unit.filename().string()) != std::string::npos);
        CHECK_FALSE(fs::exists(folder / "one/merged/runs.csv"));
        // The report reads the same rows, and ends with the same error.
        CHECK(folder.run("report one") == code);
        CHECK(folder.err().find(says) != std::string::npos);
    };
    const auto with = [&](const std::string& file, const std::string& text, const std::string& says, int code = 1) {
        const std::string before = contents(unit / file);
        std::ofstream(unit / file) << text;
        refused(says, code);
        std::ofstream(unit / file) << before;
    };
    const std::string steps = contents(unit / "steps.csv");
    with("steps.csv", steps.substr(0, steps.size() - 1), "row 40 (line 41) has changed");
    with("steps.csv", steps.substr(0, steps.size() / 2), "has changed since the unit was finished: it has");
    with("steps.csv", steps + "x", "has changed since the unit was finished: it has");
    with("steps.csv", "", "has changed since the unit was finished: it has");
    with("done", "{}", "the mark of a finished unit is damaged", 3);
    with("done", "", "the mark of a finished unit is damaged", 3);
    fs::rename(unit / "sites.csv", unit / "elsewhere");
    refused("this file is missing");
    fs::rename(unit / "elsewhere", unit / "sites.csv");
    CHECK(folder.run("merge one --rows runs,steps,sites") == 0);
}

}  // namespace faults_test
