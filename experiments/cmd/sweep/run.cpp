// SPDX-License-Identifier: Apache-2.0
// macheps sweep run: trains the units of a shard on this machine.
#include "experiments/training/sweep/run.hpp"
#include "core/error.hpp"
#include "core/host/memory_limit.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/sweep/children.hpp"
#include "experiments/cmd/sweep/folder.hpp"
#include "experiments/cmd/sweep/verbs.hpp"
#include "experiments/cmd/train/progress.hpp"
#include "experiments/cmd/train/task.hpp"
#include "experiments/training/sweep/results/status.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <memory>

namespace macheps::cmd::sweep {

using namespace training;

namespace {

constexpr const char* run_help = R"(Trains the unfinished units of one shard, in this process.

Examples:
  macheps sweep run formats.toml               all units, into the folder formats
  macheps sweep run formats --shard 3/64       the fourth of 64 shards
  macheps sweep run formats --jobs 4           four units at a time, each in its own process
  macheps sweep run formats --retry-failed     also retries what failed
  macheps sweep run formats --max-minutes 55   stops before a limit of one hour; can be resumed
  macheps sweep run formats --dry-run          the units of the shard and their states)";

constexpr const char* run_notes = R"(Shards:
  Any number of shards may run at any time, on any machines that share the folder. Running a shard
  twice does no harm. --shard auto reads the shard from a Slurm array, a Kubernetes indexed job,
  PBS, SGE, LSF, srun or mpirun.

Signals:
  SIGTERM, SIGINT and SIGUSR1 end the current step and leave a checkpoint. Running the shard again
  continues there.

JSON:
  {"out", "shard", "units", "trained", "were_done", "failed": [names], "stopped"}
  With --dry-run: {"out", "shard", "units", "seconds", "memory_bytes", "states": [{"unit",
  "state", "seconds"}]}

Exit codes:
  0   every unit of the shard is done
  1   some units failed, and the others are done
  5   a file could not be written
  75  stopped early; run the command again to continue)";

std::atomic<bool> stop_shard{false}, stop_shard_now{false};
/// Handles a stop signal. The first one requests a stop after the current step, the second one a stop at the next
/// operation. A third one has its default effect and ends the program.
extern "C" void request_shard_stop(int number) {
    if (!stop_shard.exchange(true)) return;
    stop_shard_now.store(true);
    std::signal(number, SIG_DFL);
}
constexpr int stop_signals[] = {SIGINT, SIGTERM, SIGUSR1};

struct RunArguments {
    std::filesystem::path path, out, scratch;
    std::string shard = "0/1", unit;
    DeviceChoice device{.threads = 1};
    int jobs = 1;
    double max_minutes = 0, patience = 60;
    bool retry_failed = false, dry_run = false, quiet = false, json = false;
};

Shard shard_of(const RunArguments& a) {
    if (a.shard != "auto") return parse_shard(a.shard);
    const FoundShard found = shard_in([](const char* name) { return std::getenv(name); });
    eprint("Shard {} of the {} ({})\n", to_string(found.shard), found.engine, found.seen);
    return found.shard;
}

std::vector<std::size_t> units_asked(const RunArguments& a, const Sweep& sweep, Shard shard) {
    if (a.unit.empty()) return units_of(sweep, shard);
    const SweepUnit* unit = sweep.find_unit(a.unit);
    if (unit == nullptr) {
        throw Error({.what = fmt::format("there is no unit '{}'", a.unit),
                     .where = "--unit",
                     .fix = "run `macheps sweep plan OUT --csv` to list the units",
                     .exit = Exit::usage});
    }
    return {static_cast<std::size_t>(unit - sweep.units.data())};
}

/// Counts the units by their results. Keeps the names of the units that failed.
struct Tallied {
    std::int64_t trained = 0, were_done = 0;
    std::vector<std::string> failed;

    void add(const UnitReport& report) {
        if (report.end == UnitEnd::trained) ++trained;
        if (report.end == UnitEnd::was_done) ++were_done;
        if (report.end == UnitEnd::failed || report.end == UnitEnd::had_failed) failed.push_back(report.id);
    }
};

/// Prints the end of a unit, unless the unit was finished before.
void tell_unit(const UnitReport& report, std::size_t number, std::size_t count) {
    const std::string head = fmt::format("[{}/{}] {}", number, count, report.id);
    switch (report.end) {
        case UnitEnd::trained:
            return eprint("{} done in {}\n", head, duration_words(report.seconds));
        case UnitEnd::was_done:
            return;
        case UnitEnd::failed:
            return eprint("{} failed: {}\n", head, report.what);
        case UnitEnd::had_failed:
            return eprint("{} failed before: {} (use --retry-failed to try again)\n", head, report.what);
        case UnitEnd::stopped:
            return eprint("{} stopped\n", head);
    }
}

/// Prints the units in the order in which they would be trained, the state of each, and the remaining work.
Exit print_dry_run(const RunArguments& a, const SweepFolder& folder, const ShardRequest& request) {
    std::map<std::size_t, UnitState> states;
    for (const UnitStatus& status : status_of(folder.sweep, folder.out)) states[status.unit] = status.state;
    double seconds = 0;
    std::int64_t memory = 0;
    Json rows = Json::array();
    for (const std::size_t index : request.units) {
        const SweepUnit& unit = folder.sweep.units[index];
        const auto found = states.find(index);
        const UnitState state = found == states.end() ? UnitState::missing : found->second;
        const bool is_left = state != UnitState::done && (state != UnitState::failed || a.retry_failed);
        seconds += is_left ? unit.seconds : 0;
        memory = std::max(memory, unit.memory_bytes);
        rows.push_back({{"unit", unit.id}, {"state", to_string(state)}, {"seconds", json_number(unit.seconds)}});
        if (a.json) continue;
        print("{}  {:>8}  {}\n", unit.id, duration_words(unit.seconds),
              state == UnitState::missing ? "to do" : to_string(state));
    }
    if (a.json) {
        print_json({{"out", folder.out.string()},
                    {"shard", request.shard},
                    {"units", request.units.size()},
                    {"seconds", json_number(seconds)},
                    {"memory_bytes", memory},
                    {"states", rows}});
        return Exit::ok;
    }
    const std::size_t count = request.units.size();
    print("{} unit{}, {} to do, at most {} of memory\n", count, count == 1 ? "" : "s", duration_words(seconds),
          bytes_text(static_cast<double>(memory * a.jobs)));
    return Exit::ok;
}

Exit run_here(const RunArguments& a, const SweepFolder& folder, const ShardRequest& request, Tallied& tallied) {
    const std::unique_ptr<Backend> backend = make_backend(a.device);
    train::ProgressBar bar;
    const bool is_terminal = ::isatty(STDERR_FILENO) == 1;  // elsewhere a line for each unit is enough
    std::size_t number = 0;
    const ShardWatcher watcher{.unit =
                                   [&](const UnitReport& report) {
                                       bar.end();
                                       tallied.add(report);
                                       ++number;
                                       if (!a.quiet) tell_unit(report, number, request.units.size());
                                   },
                               .note =
                                   [&](const std::string& text) {
                                       bar.end();
                                       eprint("macheps: {}\n", text);
                                   },
                               .progress =
                                   [&](const Progress& progress) {
                                       if (!a.quiet && is_terminal) bar.show(progress);
                                   }};
    return run_shard(*backend, folder.sweep, request, train::train_task, watcher, stop_shard, stop_shard_now);
}

/// Returns the end of a unit whose process ended, from the state of the unit before the process was started.
UnitEnd end_of_unit(Exit exit, UnitState before, bool retry_failed) {
    if (exit == Exit::stopped) return UnitEnd::stopped;
    if (exit == Exit::ok) return before == UnitState::done ? UnitEnd::was_done : UnitEnd::trained;
    return before == UnitState::failed && !retry_failed ? UnitEnd::had_failed : UnitEnd::failed;
}

/// Trains each unit in its own process.
Exit run_children(const RunArguments& a, const SweepFolder& folder, const ShardRequest& request, Tallied& tallied) {
    std::vector<std::string> words{"sweep", "run", folder.out.string(),
                                   "--threads=" + std::to_string(a.device.threads)};
    if (a.retry_failed) words.push_back("--retry-failed");
    if (!a.scratch.empty()) words.push_back("--scratch=" + a.scratch.string());
    if (!a.device.memory.empty()) words.push_back("--memory=" + a.device.memory);
    words.push_back(fmt::format("--patience={}", a.patience));
    words.push_back("--quiet");
    std::vector<std::string> ids;
    std::map<std::string, UnitState> before;
    for (const std::size_t unit : request.units) ids.push_back(folder.sweep.units[unit].id);
    for (const UnitStatus& status : status_of(folder.sweep, folder.out))
        before[folder.sweep.units[status.unit].id] = status.state;
    const ChildrenRequest children{.words = words, .option = "--unit", .values = ids, .at_a_time = a.jobs};
    std::size_t number = 0;
    return run_each_in_a_child(children, request.deadline, stop_shard, [&](const ChildEnd& end) {
        UnitReport report{
            .id = end.value, .end = end_of_unit(end.exit, before[end.value], a.retry_failed), .seconds = end.seconds};
        if (const auto failure = read_failure(folder.out, end.value)) report.what = failure->what;
        tallied.add(report);
        if (!a.quiet) tell_unit(report, ++number, ids.size());
    });
}

/// Records the number of shards for the reports of `status` and `merge`, which are grouped by shard. If the number
/// cannot be written, no results are lost, so the error is only reported.
void remember_for_merge(const std::filesystem::path& out, int count) {
    try {
        remember_shard_count(out, count);
    } catch (const Error& error) {
        eprint("macheps: {}\n", error.what());
    }
}

Exit run_sweep(const RunArguments& a) {
    const Shard shard = shard_of(a);
    const SweepFolder folder =
        open_sweep(a.path, a.out, shard.count > 1 ? PlanChanges::are_refused : PlanChanges::are_taken,
                   a.dry_run ? FolderIs::left_alone : FolderIs::written);
    ShardRequest request{.out = folder.out,
                         .shard = to_string(shard),
                         .units = units_asked(a, folder.sweep, shard),
                         .retry_failed = a.retry_failed,
                         .scratch = a.scratch,
                         .patience = a.patience,
                         .memory = a.device.memory_bytes()};
    if (a.max_minutes > 0) {
        request.deadline =
            std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                   std::chrono::duration<double>(60 * a.max_minutes));
    }
    if (a.dry_run) return print_dry_run(a, folder, request);
    if (a.unit.empty()) remember_for_merge(folder.out, shard.count);
    for (const int number : stop_signals) std::signal(number, request_shard_stop);
    Tallied tallied;
    const Exit code = a.jobs > 1 ? run_children(a, folder, request, tallied) : run_here(a, folder, request, tallied);
    for (const int number : stop_signals) std::signal(number, SIG_DFL);
    if (a.json) {
        print_json({{"out", folder.out.string()},
                    {"shard", to_string(shard)},
                    {"units", request.units.size()},
                    {"trained", tallied.trained},
                    {"were_done", tallied.were_done},
                    {"failed", tallied.failed},
                    {"stopped", code == Exit::stopped}});
    }
    if (!a.quiet) {
        eprint("Shard {}: {} trained, {} done before, {} failed{}\n", to_string(shard), tallied.trained,
               tallied.were_done, tallied.failed.size(),
               code == Exit::stopped ? "; stopped, run it again to continue" : "");
    }
    return code;
}

void describe_run(Command& verb) {
    const auto a = std::make_shared<RunArguments>();
    verb.group("What to train");
    verb.option("OUT", a->path, "The folder of a sweep, or its plan").required().takes(value_kind::file);
    verb.option("--shard", a->shard,
                "Shard to train: 3/64, or auto to read it from the environment variables of the job engine")
        .takes("I/N")
        .shows_default();
    verb.option("--unit", a->unit,
                "Train only the unit of this name, instead of a shard. Default: all units of the shard");
    verb.flag("--retry-failed", a->retry_failed, "Also train units that failed before");
    verb.option("-o,--out", a->out, "Folder of the sweep. Default: the path of the plan without .toml")
        .takes(value_kind::folder);
    verb.group("Device, speed and limits");
    verb.integer("--jobs", a->jobs, {1, max_threads}, "Number of units to train at a time, each in its own process")
        .shows_default();
    verb.option("--max-minutes", a->max_minutes,
                "Stop after this many minutes, so that the shard can be resumed; 0: never")
        .shows_default();
    add_device_options(verb, a->device);
    verb.option("--scratch", a->scratch,
                "Train in this folder on a local disk. The results are copied back at each checkpoint and at the end. "
                "Default: train in the sweep's folder")
        .takes(value_kind::folder);
    verb.option("--patience", a->patience,
                "Seconds over which three retries are spread after a stale file handle or an input/output error")
        .shows_default();
    verb.group("Output");
    verb.flag("--dry-run", a->dry_run,
              "Print the units of the shard and their states, without training or writing anything");
    verb.flag("--json", a->json, "Print the result as JSON");
    verb.flag("-q,--quiet", a->quiet, "Print no progress on stderr");
    verb.runs([a] { return run_sweep(*a); });
}

}  // namespace

const VerbRow run_verb{"run", run_help, describe_run, run_notes};

}  // namespace macheps::cmd::sweep
