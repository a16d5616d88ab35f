// SPDX-License-Identifier: Apache-2.0
// Kills a shard before one of its system calls and then runs it again. The second run must write the same bytes and
// leave no unfinished attempt.
#include "tests/sweep/reference.hpp"

#include <cstdio>
#include <random>
#include <set>

namespace kills_test {

using namespace macheps::test;

namespace {

/// Returns the number of calls that a shard makes of each system call that changes files.
std::map<std::string, long> calls_of(const SweepScratch& folder) {
    copy_plan(folder, "one", "counted");
    const fs::path counts = folder / "counts.txt";
    const Start start{.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS, "MACHEPS_FAULT_COUNT=" + counts.string()}};
    REQUIRE(wait_for(folder.start({"sweep", "run", "counted", "-q"}, 0, start)) == 0);
    std::map<std::string, long> calls;
    std::ifstream in(counts);
    std::string name;
    for (long count = 0; in >> name >> count;) {
        for (const char* one : {"mkdir", "write", "fsync", "rename", "unlink", "open"}) {
            if (name == one && count > 0) calls[name] = count;
        }
    }
    REQUIRE(calls.size() == 6);
    return calls;
}

/// Returns faults that kill a shard before a system call. There are about `count` of them, divided equally among the
/// kinds of system calls. If a kind has few calls, there is a kill before each of them. Otherwise there are kills
/// before evenly spaced calls.
std::vector<std::string> moments(const std::map<std::string, long>& calls, long count) {
    std::set<std::pair<std::string, long>> chosen;
    for (const auto& [name, there_are] : calls) {
        const long share = std::max<long>(1, count / static_cast<long>(calls.size()));
        for (long i = 0; i < std::min(share, there_are); ++i)
            chosen.emplace(name, there_are <= share ? i + 1 : 1 + i * (there_are - 1) / std::max<long>(1, share - 1));
    }
    std::vector<std::string> list;
    for (const auto& [name, number] : chosen) list.push_back(name + ":" + std::to_string(number) + ":0:kill");
    return list;
}

/// For each fault, starts a shard that the fault kills, and then runs the shard again.
void kill_at_each(const SweepScratch& folder, const MergedFiles& at_once, const std::vector<std::string>& faults) {
    std::size_t killed = 0;
    for (const std::string& fault : faults) {
        copy_plan(folder, "one", "killed");
        const Start start{.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS, "MACHEPS_FAULT=" + fault}};
        killed += wait_for(folder.start({"sweep", "run", "killed", "-q"}, 0, start)) == 128 + SIGKILL ? 1 : 0;
        // A kill leaves no incomplete unit among the finished units.
        if (fs::exists(folder / "killed/units"))
            for (const fs::path& unit : folder.units("killed")) CHECK(fs::exists(unit / "runs.csv"));
        const int code = folder.run("sweep run killed -q");
        CAPTURE(fault, folder.err());
        REQUIRE(code == 0);
        CHECK(fs::is_empty(folder / "killed/work"));
        CHECK(merged_again(folder, "killed") == at_once);
    }
    CHECK(killed == faults.size());
    std::printf("killed %zu times\n", killed);
}

MergedFiles undisturbed_units(const SweepScratch& folder) {
    folder.write("small.toml", small_plan("policy = [\"pure-bf16\"]\nseeds = \"0..1\"\n"));
    REQUIRE(folder.run("sweep plan small.toml --out one") == 0);
    return trained_at_once(folder, "one");
}

}  // namespace

TEST_CASE("a shard that is killed before a system call writes the same bytes when it runs again", "[sweeps]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed_units(folder);
    kill_at_each(folder, at_once, moments(calls_of(folder), 21));
}

TEST_CASE("a shard that is killed at 200 moments writes the same bytes each time it runs again", "[sweeps][slow]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed_units(folder);
    const std::vector<std::string> faults = moments(calls_of(folder), 420);
    CHECK(faults.size() >= 200);
    kill_at_each(folder, at_once, faults);
}

TEST_CASE("a shard that is killed repeatedly, at later and later times, writes the same bytes", "[sweeps][slow]") {
    const SweepScratch folder;
    const MergedFiles at_once = undisturbed_units(folder);
    std::mt19937 random(7);
    for (int round = 0; round < 5; ++round) {
        copy_plan(folder, "one", "killed");
        int code = -1;
        // Kills come later and later, because three attempts without progress count as failed.
        for (int i = 1; code != 0 && i <= 200; ++i) {
            const pid_t child = folder.start({"sweep", "run", "killed", "-q", "--retry-failed"}, 0);
            ::usleep(static_cast<useconds_t>(std::uniform_int_distribution<>(0, 20 * i)(random)) * 1000);
            ::kill(child, SIGKILL);
            code = wait_for(child);
        }
        REQUIRE(code == 0);
        CHECK(merged_again(folder, "killed") == at_once);
    }
}

}  // namespace kills_test
