// SPDX-License-Identifier: Apache-2.0
// Tests which units belong to a shard, and how a process determines its shard.
#include "experiments/training/sweep/shard.hpp"
#include "core/error.hpp"
#include "experiments/training/sweep/engines.hpp"
#include "experiments/training/sweep/plan_file.hpp"
#include "experiments/training/sweep/store/done.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

namespace shard_test {

using namespace macheps;
using namespace macheps::training;

namespace {

using Variables = std::map<std::string, std::string>;

FoundShard found_in(const Variables& variables) {
    return shard_in([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

std::string refusal_of(const Variables& variables) {
    try {
        found_in(variables);
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::usage);
        return error.what();
    }
    return "taken";
}

/// Returns a sweep whose units take the given numbers of seconds. The plan needs all of the units.
Sweep sweep_of(const std::vector<double>& seconds) {
    Sweep sweep;
    sweep.policies = {{.name = "fp32"}};
    sweep.settings.resize(1);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const auto seed = static_cast<std::int64_t>(i);
        sweep.cells.push_back({0, seed, {0}});
        sweep.units.push_back(
            {.id = fmt::format("{:016x}", (i * 7919) % 100003), .seed = seed, .policies = {0}, .seconds = seconds[i]});
    }
    return sweep;
}

}  // namespace

TEST_CASE("the environment variables of each job engine (Slurm, Kubernetes, MPI, ...) determine the shard of a process",
          "[sweeps]") {
    struct Case {
        const char* engine;
        Variables variables;
        Shard shard;
    };
    const Case cases[] = {
        {"Slurm array",
         {{"SLURM_ARRAY_TASK_ID", "7"},
          {"SLURM_ARRAY_TASK_COUNT", "64"},
          {"SLURM_ARRAY_TASK_MIN", "0"},
          {"SLURM_ARRAY_TASK_MAX", "63"}},
         {7, 64}},
        {"Slurm array",
         {{"SLURM_ARRAY_TASK_ID", "1"},
          {"SLURM_ARRAY_TASK_COUNT", "4"},
          {"SLURM_ARRAY_TASK_MIN", "1"},
          {"SLURM_ARRAY_TASK_MAX", "4"},
          {"SLURM_PROCID", "0"},
          {"SLURM_NTASKS", "1"}},
         {0, 4}},
        {"Kubernetes indexed job", {{"JOB_COMPLETION_INDEX", "0"}, {"MACHEPS_SHARD_COUNT", "16"}}, {0, 16}},
        {"PBS array", {{"PBS_ARRAY_INDEX", "3"}, {"MACHEPS_SHARD_COUNT", "4"}}, {3, 4}},
        {"SGE array", {{"SGE_TASK_ID", "4"}, {"MACHEPS_SHARD_COUNT", "4"}}, {3, 4}},
        {"LSF array", {{"LSB_JOBINDEX", "1"}, {"MACHEPS_SHARD_COUNT", "4"}}, {0, 4}},
        {"srun", {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"}}, {5, 8}},
        {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}, {1, 2}},
        {"PMI", {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2}},
        {"PMI", {{"SGE_TASK_ID", "undefined"}, {"LSB_JOBINDEX", "0"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2}},
        // First mpirun in a Slurm allocation of one task, then two engines that agree.
        {"Open MPI",
         {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
         {1, 2}},
        {"srun", {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, {1, 2}}};
    for (const Case& one : cases) {
        CAPTURE(one.engine, to_string(one.shard));
        const FoundShard found = found_in(one.variables);
        CHECK(found.engine == one.engine);
        CHECK(to_string(found.shard) == to_string(one.shard));
    }
}

TEST_CASE("if a job engine's variables are incomplete, or if two engines disagree, the error lists the variables",
          "[sweeps]") {
    // sbatch --array=3,7 repeats two tasks of an array of 64 tasks. SLURM_ARRAY_TASK_COUNT is then 2 instead of 64.
    const std::string some = refusal_of({{"SLURM_ARRAY_TASK_ID", "3"},
                                         {"SLURM_ARRAY_TASK_COUNT", "2"},
                                         {"SLURM_ARRAY_TASK_MIN", "3"},
                                         {"SLURM_ARRAY_TASK_MAX", "7"}});
    CHECK(some.find("the job array has 2 tasks with numbers from 3 to 7") != std::string::npos);
    CHECK(some.find("SLURM_ARRAY_TASK_ID=3") != std::string::npos);
    CHECK(some.find("--shard \"$SLURM_ARRAY_TASK_ID/64\"") != std::string::npos);
    CHECK(refusal_of({{"JOB_COMPLETION_INDEX", "3"}}).find("MACHEPS_SHARD_COUNT is not set") != std::string::npos);
    CHECK(refusal_of({{"PBS_ARRAY_INDEX", "4"}, {"MACHEPS_SHARD_COUNT", "4"}}).find("no shard 4 of 4") !=
          std::string::npos);
    CHECK(refusal_of({{"PBS_ARRAY_INDEX", "x"}, {"MACHEPS_SHARD_COUNT", "4"}}).find("is 'x'") != std::string::npos);
    CHECK(refusal_of({}).find("no engine gives this process a shard") != std::string::npos);
    CHECK(refusal_of({{"MACHEPS_SHARD_COUNT", "4"}}).find("no engine") != std::string::npos);
    const std::string two =
        refusal_of({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
    CHECK(two.find("srun gives the shard 1/2 (SLURM_PROCID=1 SLURM_NTASKS=2), but PMI gives the shard 0/2") !=
          std::string::npos);
}

TEST_CASE("a shard is written as I/N with 0 <= I < N", "[sweeps]") {
    CHECK(parse_shard("3/64") == Shard{3, 64});
    for (const char* bad : {"", "3", "3/", "/4", "4/4", "-1/4", "1/0", "1/4 ", "a/4", "1/2/3", "+1/4"}) {
        CAPTURE(bad);
        CHECK_THROWS_AS(parse_shard(bad), Error);
    }
}

TEST_CASE("by default, a sweep has a shard for each unit, but at most 64", "[sweeps]") {
    const auto [units, shards, why] = GENERATE(table<std::size_t, int, const char*>({
        {0, 1, "a job array without tasks does not exist"},
        {1, 1, "one unit"},
        {7, 7, "short units are also divided"},
        {64, 64, "the limit"},
        {65, 64, "more units than shards"},
        {495, 64, "many units"},
    }));
    CAPTURE(why);
    CHECK(usual_shards(sweep_of(std::vector<double>(units, 0.5))) == shards);
}

TEST_CASE("every unit belongs to one shard, and no shard takes much longer than another", "[sweeps]") {
    std::vector<double> seconds;
    for (int i = 0; i < 495; ++i) seconds.push_back(1 + 30 * std::abs(std::sin(i)) + (i % 11 == 0 ? 200 : 0));
    const Sweep sweep = sweep_of(seconds);
    double all = 0;
    for (const double one : seconds) all += one;
    std::vector<double> sorted = seconds;
    std::sort(sorted.rbegin(), sorted.rend());
    for (const int count : {1, 4, 7, 64, 500}) {
        std::multiset<std::size_t> seen;
        double longest = 0, shortest = all;
        for (int i = 0; i < count; ++i) {
            const std::vector<std::size_t> units = units_of(sweep, {i, count});
            seen.insert(units.begin(), units.end());
            double sum = 0;
            for (std::size_t k = 0; k < units.size(); ++k) {
                sum += sweep.units[units[k]].seconds;
                if (k > 0) CHECK(sweep.units[units[k - 1]].seconds >= sweep.units[units[k]].seconds);
            }
            longest = std::max(longest, sum), shortest = std::min(shortest, sum);
        }
        CAPTURE(count);
        CHECK(seen.size() == seconds.size());
        CHECK(std::set<std::size_t>(seen.begin(), seen.end()).size() == seconds.size());
        // The units, sorted by duration, are dealt to the shards in rounds whose direction alternates. In one round,
        // the durations of two shards differ by at most the spread of the round, which is its longest duration minus
        // its shortest. From round to round, the sign of this difference alternates. The total durations of two shards
        // therefore differ by at most the sum of the spreads of every second round. If the last round is incomplete,
        // the missing units count as zero. Sums of up to 495 numbers have relative errors below 495 u.
        double spreads[] = {0, 0};
        for (std::size_t first = 0, round = 0; first < sorted.size();
             first += static_cast<std::size_t>(count), ++round) {
            const std::size_t last = first + static_cast<std::size_t>(count) - 1;
            spreads[round % 2] += sorted[first] - (last < sorted.size() ? sorted[last] : 0);
        }
        CHECK(longest - shortest <= std::max(spreads[0], spreads[1]) + 495 * 0x1p-53 * all);
    }
}

TEST_CASE("four checksums of a file are enough to find a single line that was changed", "[sweeps]") {
    std::string text = "run,step,loss\n";
    for (int i = 0; i < 1000; ++i) text += fmt::format("fp32/0,{},{}\n", i, std::sqrt(i));
    const RowsMark before = mark_of_rows("steps.csv", text);
    CHECK(before.lines == 1001);
    CHECK(before.bytes == text.size());
    for (const std::size_t at : {std::size_t{0}, std::size_t{20}, text.size() / 2, text.size() - 2}) {
        if (text[at] == '\n') continue;
        std::string other = text;
        other[at] = other[at] == '7' ? '8' : '7';
        const auto line = 1 + static_cast<std::uint64_t>(
                                  std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
        CHECK(changed_line(before, mark_of_rows("steps.csv", other)) == line);
    }
    std::string two = text;
    two[100] = '?', two[5000] = '?';
    CHECK_FALSE(changed_line(before, mark_of_rows("steps.csv", two)));
    CHECK_FALSE(changed_line(before, before));
}

TEST_CASE("without_times() removes the columns with times from runs.csv", "[sweeps]") {
    CHECK(without_times("run,seconds,loss,tokens_per_second\n\"a,b\",1.5,2,3\nc,4,5,6\n") ==
          "run,loss,\n\"a,b\",2,\nc,5,\n");
}

TEST_CASE("the seeds of a plan are given as numbers, ranges and lists", "[sweeps]") {
    using Seeds = std::vector<std::int64_t>;
    CHECK(parse_seeds("0..4") == Seeds{0, 1, 2, 3, 4});
    CHECK(parse_seeds("7") == Seeds{7});
    CHECK(parse_seeds("0,5..6") == Seeds{0, 5, 6});
    for (const char* bad : {"", "4..0", "-1", "0..", "1,1", "0-4", "0..200000", "1,"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_seeds(bad));
    }
}

}  // namespace shard_test
