// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/shard.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

namespace macheps::training {

namespace {

constexpr const char* own_count = "MACHEPS_SHARD_COUNT";

/// An engine that runs jobs, and the environment variables in which it gives a task its index and the number of tasks.
struct Engine {
    const char *name, *index, *count;
    /// Index of the first task: the constant `base` or, if `least` is set, the value of the variable `least`.
    int base = 0;
    const char* least = nullptr;
    /// Variable that holds the last index. With `least`, it shows whether tasks are missing between the first and the
    /// last.
    const char* most = nullptr;
    /// Value of the variable `index` if the task is not part of an array.
    const char* no_array = nullptr;
    /// True if the engine sets its variables in every process, even if there is no array. Such an engine may report
    /// task 0 of 1 in a job that has several shards.
    bool is_launcher = false;
};

/// The engines, in the order in which they are tried.
constexpr Engine engines[] = {
    {.name = "Slurm array",
     .index = "SLURM_ARRAY_TASK_ID",
     .count = "SLURM_ARRAY_TASK_COUNT",
     .least = "SLURM_ARRAY_TASK_MIN",
     .most = "SLURM_ARRAY_TASK_MAX"},
    {.name = "Kubernetes indexed job", .index = "JOB_COMPLETION_INDEX", .count = own_count},
    {.name = "PBS array", .index = "PBS_ARRAY_INDEX", .count = own_count},
    {.name = "SGE array", .index = "SGE_TASK_ID", .count = own_count, .base = 1, .no_array = "undefined"},
    {.name = "LSF array", .index = "LSB_JOBINDEX", .count = own_count, .base = 1, .no_array = "0"},
    {.name = "srun", .index = "SLURM_PROCID", .count = "SLURM_NTASKS", .is_launcher = true},
    {.name = "Open MPI", .index = "OMPI_COMM_WORLD_RANK", .count = "OMPI_COMM_WORLD_SIZE", .is_launcher = true},
    {.name = "PMI", .index = "PMI_RANK", .count = "PMI_SIZE", .is_launcher = true},
};

std::optional<int> number(std::string_view text) {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > max_shards)
        return std::nullopt;
    return value;
}

/// Reads variables and remembers those that were set.
class Reader {
  public:
    explicit Reader(const GetVariable& variable) : variable_(variable) {}

    const char* text(const char* name) {
        const char* value = variable_(name);
        if (value != nullptr) seen_ += fmt::format("{}{}={}", seen_.empty() ? "" : " ", name, value);
        return value;
    }
    /// Throws Error if the variable is missing or not a number.
    int number(const char* name, const Engine& engine) {
        const char* value = text(name);
        const std::optional<int> read = value == nullptr ? std::nullopt : training::number(value);
        if (read) return *read;
        refuse(engine,
               value == nullptr ? fmt::format("{} is not set", name)
                                : fmt::format("{} is '{}', which is not a count", name, value),
               name == std::string_view(own_count)
                   ? fmt::format("set {} to the number of tasks: the engine does not report it", own_count)
                   : "give the shard itself: --shard 3/64");
    }
    [[noreturn]] void refuse(const Engine& engine, std::string what, std::string fix) const {
        throw Error({.what = fmt::format("{}: {}; seen: {}", engine.name, what, seen_),
                     .where = "--shard auto",
                     .fix = std::move(fix),
                     .exit = Exit::usage});
    }
    const std::string& seen() const { return seen_; }

  private:
    const GetVariable& variable_;
    std::string seen_;
};

/// Returns the shard that `engine` assigns to this process, or nothing if it does not assign a shard.
std::optional<FoundShard> shard_of(const Engine& engine, const GetVariable& variable) {
    if (const char* index = variable(engine.index);
        index == nullptr || (engine.no_array != nullptr && index == std::string_view(engine.no_array))) {
        return std::nullopt;
    }
    if (engine.is_launcher && variable(engine.count) == nullptr) return std::nullopt;  // a job script not run by srun
    Reader reader(variable);
    const int index = reader.number(engine.index, engine), count = reader.number(engine.count, engine);
    const int first = engine.least == nullptr ? engine.base : reader.number(engine.least, engine);
    if (engine.most != nullptr) {
        const int last = reader.number(engine.most, engine);
        if (last - first + 1 != count) {
            reader.refuse(
                engine,
                fmt::format(
                    "the job array has {} tasks with numbers from {} to {}, so its size is not the number of shards",
                    count, first, last),
                fmt::format("give the shard itself: --shard \"${}/64\", with your number of shards instead of 64",
                            engine.index));
        }
    }
    if (index < first || index - first >= count)
        reader.refuse(engine, fmt::format("there is no shard {} of {}", index - first, count),
                      "give the shard itself: --shard 3/64");
    return FoundShard{{index - first, count}, engine.name, reader.seen()};
}

}  // namespace

Shard parse_shard(std::string_view text) {
    const std::size_t slash = text.find('/');
    const std::optional<int> index = number(text.substr(0, slash)),
                             count = slash == text.npos ? std::nullopt : number(text.substr(slash + 1));
    if (index && count && *index < *count) return {*index, *count};
    throw Error({.what = fmt::format("'{}' is not a valid shard", text),
                 .where = "--shard",
                 .fix = "give its number and the number of shards, such as 0/4 to 3/4, or auto",
                 .exit = Exit::usage});
}

std::string to_string(Shard shard) { return fmt::format("{}/{}", shard.index, shard.count); }

FoundShard shard_in(const GetVariable& variable) {
    std::vector<FoundShard> found;
    bool has_real = false;
    for (const Engine& engine : engines) {
        if (auto one = shard_of(engine, variable)) {
            has_real = has_real || one->shard.count > 1;
            found.push_back(std::move(*one));
        }
    }
    // A launcher reports a single task in every job, even if the job is part of an array. Such a report is ignored if
    // another engine reports several tasks.
    std::erase_if(found, [&](const FoundShard& one) { return has_real && one.shard.count == 1; });
    if (found.empty()) {
        std::string names;
        for (const Engine& engine : engines) names += fmt::format("{}{}", names.empty() ? "" : ", ", engine.index);
        throw Error({.what = fmt::format("no engine gives this process a shard: none of {} is set", names),
                     .where = "--shard auto",
                     .fix = "give a shard, such as --shard 0/1",
                     .exit = Exit::usage});
    }
    for (const FoundShard& other : found) {
        if (other.shard == found.front().shard) continue;
        throw Error({.what = fmt::format("{} gives the shard {} ({}), but {} gives the shard {} ({})",
                                         found.front().engine, to_string(found.front().shard), found.front().seen,
                                         other.engine, to_string(other.shard), other.seen),
                     .where = "--shard auto",
                     .fix = "give the shard itself: --shard 3/64",
                     .exit = Exit::usage});
    }
    return found.front();
}

std::vector<std::vector<std::size_t>> units_of_shards(const Sweep& sweep, int count) {
    // Units that the plan no longer asks for belong to no shard.
    std::vector<bool> is_wanted(sweep.units.size());
    for (const SweepRun& run : runs_of(sweep)) is_wanted[run.unit] = true;
    std::vector<std::size_t> all;
    for (std::size_t unit = 0; unit < is_wanted.size(); ++unit) {
        if (is_wanted[unit]) all.push_back(unit);
    }
    std::sort(all.begin(), all.end(), [&](std::size_t a, std::size_t b) {
        const SweepUnit &left = sweep.units[a], &right = sweep.units[b];
        return left.seconds != right.seconds ? left.seconds > right.seconds : left.id < right.id;
    });
    const auto shards = static_cast<std::size_t>(count);
    std::vector<std::vector<std::size_t>> dealt(shards);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t round = i / shards, place = i % shards;
        dealt[round % 2 == 0 ? place : shards - 1 - place].push_back(all[i]);
    }
    return dealt;
}

std::vector<std::size_t> units_of(const Sweep& sweep, Shard shard) {
    return std::move(units_of_shards(sweep, shard.count)[static_cast<std::size_t>(shard.index)]);
}

}  // namespace macheps::training
