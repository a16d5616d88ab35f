// SPDX-License-Identifier: Apache-2.0
// `macheps verify`: the emulators against the GPU that is here, or against what a GPU gave elsewhere.
#include "core/nearest_name.hpp"
#include "core/publish.hpp"
#include "emulation/gpu/gpu.hpp"
#include "emulation/gpu/probe/probes.hpp"
#include "emulation/verify/record.hpp"
#include "emulation/verify/replay.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/json.hpp"
#include "experiments/cmd/tell.hpp"
#include "experiments/cmd/verify_output.hpp"
#include "experiments/policy/sites.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

namespace macheps {

namespace {

namespace fs = std::filesystem;

constexpr const char* help = R"(Compares the emulators with the GPU here, or with recorded results of one, bit for bit.

Examples:
  macheps verify                                        everything, in about three minutes
  macheps verify --quick --only 'matrix:wgmma.*'        one kind of instruction, within a minute
  macheps verify --full --seconds 480 --record traces   and keep what the GPU gave, as small files
  macheps verify --replay traces                        recorded results against the emulators; takes no GPU
  macheps verify --list                                 what would be run; takes no GPU

Matrix instructions run on operands of every class of hardness, made on the GPU; each result is compared there with
the definition that the emulators obey. Instructions behind a plus are variants. Questions are operands on which
published sources disagree: the note says which answer the GPU gives, and which field of the model it settles.
No machine models sparse instructions (mma.sp, wgmma.sp): nothing is claimed of them, and the note says how many
results are those of a dense instruction over the chosen products, and of two over all products.
A line of the table is an instruction with all its classes, when all are equal, else one class. CSV, JUnit and JSON
have a row for every class: kind, instruction, class, model, trials, mismatches, verdict, seconds, note.
Verdicts: equal; differs; recorded (nothing is claimed); declined (the device or the library does not offer it);
failed (it did not run to its end: the note says why). The CSV file grows while the instructions run.
A trace is one file for an instruction: a header (GPU, driver, toolkit, date, seed, how many rows refute each wrong
model), then lines that `macheps machine eval` reads (but for sparse instructions): zstd -dc FILE | macheps machine eval -

Exit codes: 1, something differs or failed; 3, a trace cannot be read or was changed; 4, no such device; 5, cannot write.

JSON: {"device", "rows": [{"kind", "instruction", "class", "model", "trials", "mismatches", "verdict", "seconds",
"note"}, ...], "equal", "differ", "recorded", "declined", "failed", "trials", "mismatches", "traces": [paths written or read]}.)";

constexpr int most_devices = 1023;
constexpr std::uintmax_t most_trace_bytes = 20'000'000;

struct Arguments {
    std::string only = "*", record, replay, csv, junit;
    bool quick = false, full = false, json = false, list = false;
    double seconds = 180;
    int device = 0;
    std::uint64_t seed = 1;
};

/// Fails before minutes are spent, not after.
void check_outputs(const Arguments& arguments) {
    for (const std::string& path : {arguments.csv, arguments.junit}) {
        if (!path.empty()) publish(path, "");
    }
    if (arguments.record.empty()) return;
    std::error_code error;
    fs::create_directories(arguments.record, error);
    const std::string file = (fs::path(arguments.record) / ".macheps-write-test").string();
    publish(file, "");
    fs::remove(file, error);
}

bool selected(const std::string& pattern, const std::string& kind, const std::string& instruction) {
    return glob_match(pattern, kind + ":" + instruction) || glob_match(pattern, instruction);
}

[[noreturn]] void nothing_selected(const std::string& pattern, const std::vector<std::string>& names) {
    const std::string near = nearest_name(pattern, names);
    throw Error({.what = fmt::format("no instruction matches '{}'", pattern),
                 .where = "--only",
                 .fix = near.empty() ? "`macheps verify --list` lists them; quote * and ?"
                                     : fmt::format("did you mean '{}'?", near),
                 .exit = Exit::usage});
}

struct Choice {
    const verify::ProbeGroup* group;
    std::string instruction;
};
std::vector<Choice> choose(const std::vector<verify::ProbeGroup>& groups, const std::string& pattern) {
    std::vector<Choice> chosen;
    std::vector<std::string> names;
    for (const verify::ProbeGroup& group : groups) {
        for (const std::string& instruction : group.instructions) {
            names.push_back(group.kind + ":" + instruction);
            if (selected(pattern, group.kind, instruction)) chosen.push_back({&group, instruction});
        }
    }
    if (chosen.empty()) nothing_selected(pattern, names);
    return chosen;
}

/// One line per instruction: on a terminal the last one stands, elsewhere all do.
class ProgressLines {
  public:
    explicit ProgressLines(std::size_t count) : count_(count), terminal_(isatty(STDERR_FILENO) == 1) {}
    ~ProgressLines() {
        if (terminal_ && at_ > 0) tell("\r\x1b[K");
    }
    ProgressLines(const ProgressLines&) = delete;
    ProgressLines& operator=(const ProgressLines&) = delete;

    void done(const std::string& kind, const std::string& instruction, const std::vector<verify::ProbeResult>& rows) {
        const VerifyCounts counts = count_rows(rows);
        const std::string verdict = counts.failed != 0 ? "failed: " + rows.back().note
                                    : counts.differ != 0
                                        ? fmt::format("{} of {} classes differ", counts.differ, counts.rows)
                                    : counts.declined != 0 ? "declined"
                                    : counts.recorded != 0 ? "recorded"
                                                           : "equal";
        const std::string line =
            fmt::format("[{}/{}] {}:{}: {}, {} trials", ++at_, count_, kind, instruction, verdict, counts.trials);
        // What differs stays on the screen.
        if (terminal_) tell("\r\x1b[K{}{}", line, counts.all_well() ? "" : "\n");
        if (!terminal_) tell("{}\n", line);
    }

  private:
    std::size_t count_, at_ = 0;
    bool terminal_;
};

std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm utc{};
    gmtime_r(&now, &utc);
    return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

struct Outcome {
    std::string device;
    std::vector<verify::ProbeResult> rows;
    std::vector<std::string> traces;
    std::uintmax_t trace_bytes = 0;  ///< of those written
};

/// Runs the chosen probes.
void run_probes(const Arguments& arguments, Outcome& outcome) {
    const std::vector<verify::ProbeGroup> groups = gpu::probe_groups(arguments.device);
    const std::vector<Choice> chosen = choose(groups, arguments.only);
    const gpu::DeviceInfo info = gpu::device_info(arguments.device);
    outcome.device = info.name;
    check_outputs(arguments);
    std::ofstream csv;
    if (!arguments.csv.empty()) csv.open(arguments.csv, std::ios::binary | std::ios::trunc);
    csv << verify_csv_header << std::flush;

    verify::ProbeOptions options{.device = arguments.device, .only = arguments.only, .seed = arguments.seed};
    options.seconds = arguments.quick ? 60 : arguments.seconds;
    if (!arguments.record.empty()) {
        options.record = [&](const verify::Candidates& candidates) {
            verify::Trace trace = verify::make_trace(candidates);
            trace.gpu = info.name;
            trace.driver = info.driver;
            trace.toolkit = info.runtime;
            trace.date = today();
            const fs::path file = verify::write_trace(trace, arguments.record);
            outcome.trace_bytes += fs::file_size(file);
            outcome.traces.push_back(file.string());
        };
    }
    const auto start = std::chrono::steady_clock::now();
    ProgressLines progress(chosen.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const double share = std::max(options.seconds - spent, 0.0) / static_cast<double>(chosen.size() - i);
        const std::vector<verify::ProbeResult> rows =
            verify::run_probe(*chosen[i].group, chosen[i].instruction, share, options);
        csv << verify_csv(rows) << std::flush;  // what is known outlives what ends the run
        progress.done(chosen[i].group->kind, chosen[i].instruction, rows);
        outcome.rows.insert(outcome.rows.end(), rows.begin(), rows.end());
    }
}

void run_replay(const Arguments& arguments, Outcome& outcome) {
    const std::vector<fs::path> files = verify::trace_files(arguments.replay);
    if (files.empty()) {
        throw Error({.what = "no traces",
                     .where = arguments.replay,
                     .fix = "`macheps verify --record DIR` makes them where a GPU is"});
    }
    std::vector<std::string> names;
    for (const fs::path& file : files) {
        const verify::Trace trace = verify::read_trace(file);
        names.push_back("replay:" + trace.form.instr + "." + trace.form.qual);
        if (!selected(arguments.only, "replay", trace.form.instr + "." + trace.form.qual)) continue;
        outcome.traces.push_back(file.string());
        if (outcome.device.find(trace.gpu) == std::string::npos)
            outcome.device += (outcome.device.empty() ? "" : ", ") + trace.gpu;
        verify::replay(trace, [&](const verify::ProbeResult& row) { outcome.rows.push_back(row); });
    }
    if (outcome.rows.empty()) nothing_selected(arguments.only, names);
    check_outputs(arguments);
}

Exit list(const Arguments& arguments) {
    const std::vector<verify::ProbeGroup> groups = gpu::probe_groups(arguments.device);
    std::string text;
    Json all = Json::array();
    for (const Choice& choice : choose(groups, arguments.only)) {
        text += fmt::format("{}:{}\n", choice.group->kind, choice.instruction);
        all.push_back({{"kind", choice.group->kind}, {"instruction", choice.instruction}});
    }
    if (arguments.json) {
        print_json(all);
    } else {
        std::fwrite(text.data(), 1, text.size(), stdout);
    }
    return Exit::ok;
}

Exit run(const Arguments& arguments) {
    if (const std::string problem = problem_of_pattern(arguments.only); !problem.empty()) {
        throw Error({.what = problem, .where = "--only", .fix = "give a shorter one", .exit = Exit::usage});
    }
    if (arguments.list) return list(arguments);
    Outcome outcome;
    arguments.replay.empty() ? run_probes(arguments, outcome) : run_replay(arguments, outcome);
    if (!arguments.csv.empty()) publish(arguments.csv, verify_csv_header + verify_csv(outcome.rows));
    if (!arguments.junit.empty()) publish(arguments.junit, verify_junit(outcome.rows));
    const VerifyCounts counts = count_rows(outcome.rows);
    if (arguments.json) {
        print_verify_json(outcome.rows, outcome.device, outcome.traces);
    } else {
        std::string text = verify_table(outcome.rows);
        text += fmt::format(
            "\n{}: {} rows: {} equal, {} differ, {} recorded, {} declined{}; {} trials, {} "
            "mismatches\n",
            outcome.device, counts.rows, counts.equal, counts.differ, counts.recorded, counts.declined,
            counts.failed == 0 ? "" : fmt::format(", {} failed", counts.failed), counts.trials, counts.mismatches);
        if (!outcome.traces.empty()) {
            text += fmt::format("{} traces {} {}\n", outcome.traces.size(), arguments.replay.empty() ? "in" : "of",
                                arguments.replay.empty() ? arguments.record : arguments.replay);
        }
        std::fwrite(text.data(), 1, text.size(), stdout);
    }
    if (outcome.trace_bytes > most_trace_bytes) {
        throw Error(
            {.what = fmt::format("the traces take {} bytes, more than {}", outcome.trace_bytes, most_trace_bytes),
             .where = arguments.record,
             .fix = "record fewer instructions: --only",
             .exit = Exit::check_failed});
    }
    return counts.all_well() ? Exit::ok : Exit::check_failed;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.option("--only", a->only, "Glob over kind:instruction, as --list prints them")
        .takes("PATTERN")
        .shows_default();
    const Option quick = verb.flag("--quick", a->quick, "One minute");
    verb.flag("--full", a->full, "The time of --seconds, as without it").excludes(quick);
    verb.option("--seconds", a->seconds, "For everything together; each class of operands runs at least once")
        .range(0, 1e6)
        .shows_default()
        .excludes(quick);
    verb.integer("--device", a->device, {0, most_devices}, "Which GPU, counted from 0").shows_default();
    verb.integer("--seed", a->seed, seed_limits, "Of the operands").shows_default();
    const Option record =
        verb.option("--record", a->record, "Writes a trace for every plain form").takes(value_kind::folder);
    const Option replay = verb.option("--replay", a->replay, "Compares recorded traces, below this folder too")
                              .takes(value_kind::folder)
                              .excludes(record);
    verb.option("--csv", a->csv, "Writes every row as CSV").takes(value_kind::file);
    verb.option("--junit", a->junit, "Writes every row as JUnit's XML").takes(value_kind::file);
    verb.flag("--json", a->json, "JSON");
    verb.flag("--list", a->list, "Prints what would be run").excludes(replay);
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verify_verb{"verify", help, describe};

}  // namespace macheps
