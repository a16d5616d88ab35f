// SPDX-License-Identifier: Apache-2.0
// `macheps verify`: compares the emulators with the GPU or the CPU of this machine, or with recorded results of a GPU
// or CPU.
#include "core/host/publish.hpp"
#include "core/text/nearest_name.hpp"
#include "emulation/evidence/cpu/cpu_probe.hpp"
#include "emulation/evidence/gpu/matrix/replay.hpp"
#include "emulation/evidence/gpu/probes.hpp"
#include "emulation/evidence/gpu/scalar/replay.hpp"
#include "emulation/evidence/library/capture.hpp"
#include "emulation/evidence/traces/json_lines.hpp"
#include "emulation/evidence/traces/replay.hpp"
#include "emulation/gpu/gpu.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/verify/library.hpp"
#include "experiments/cmd/verify/output.hpp"
#include "experiments/cmd/verify/recorder.hpp"
#include "experiments/policy/sites.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>

namespace macheps::cmd::verify {

using namespace policy;

namespace {

namespace fs = std::filesystem;

constexpr const char* help =
    R"(Compares the emulators with the GPU or CPU of this computer, or with recorded results, bit for bit.

Examples:
  macheps verify                                        everything, in about three minutes
  macheps verify --quick --only 'matrix:wgmma.*'        one kind of instruction, within a minute
  macheps verify --device cpu --quick                   units of this CPU, such as AMX
  macheps verify --full --seconds 480 --record traces   also record the GPU's results
  macheps verify --replay traces                        recorded results; needs no GPU
  macheps verify --library openblas                     the order in which a library adds
  macheps verify --list                                 print what would be run; needs no GPU)";

constexpr const char* notes = R"(More examples:
  macheps verify --library openblas --rule blas.onednn  whether this rule has the same bits: exit code 1 if not

GPU:
  Matrix instructions run on operands of every class of difficulty, generated on the GPU. The GPU
  compares each result with the definition that the emulators follow. The names of variants
  contain a plus. Questions are operands on which published sources disagree. The note reports
  which answer the GPU gives, and which field of the model it settles. Sparse instructions
  (mma.sp, wgmma.sp) are compared with the dense instruction over the selected products. Their
  note also reports how many results equal those of two dense steps over all products.

CPU (--device cpu):
  The units are AVX512-BF16, AVX512-FP16, AMX and conversions. CPUID and the operating system
  report which of them exist. A missing unit has a line `absent`. With --quick, each unit gives
  ten million results. --mutant NAME compares with a wrong model instead, to check that the
  difference is found: `chain`, `flush_operands`, `rounding=toward_zero`, ... (an unknown name
  prints all of them).

Libraries (--library):
  NAME is openblas, onednn, mkl, blis, the C library in a file (a name with a slash), or torch,
  torch.bf16 or torch.fp16 (PyTorch, in the Python that MACHEPS_PYTHON names). The library is
  loaded in a separate process. The report contains where the blocks of k end, which rule has this
  order, and in how many of --shapes random shapes with cancelling operands that rule gives every
  bit. Verdicts: reproduced; order only; unknown; nondeterministic; absent, which is a failure
  only with --require. With --rule NAME, the library must have every bit of that rule (any that
  `macheps gemm --machine` accepts), otherwise the exit code is 1. Without --rule, the
  best-fitting rule is used.
  torch.cuda.{fp32,tf32,bf16,fp16} and torch.cuda.scaled.{tensor,row}[.fast] are torch.matmul and
  torch._scaled_mm on a GPU, with the kernels that PyTorch chooses. They have rows like those of
  cuBLASLt for --shapes shapes, at most four, and the order of a sum. --rule NAME replaces the
  claimed rule.
  Libraries of GPUs have a row `equal` if they follow the rule that is claimed for the problem,
  and `differs` if they do not, even if other rules agree. The row is `recorded` if nothing is
  claimed; its note lists the rules that agree.

Rows:
  A line of the table is one instruction with all its classes if all are equal, otherwise one
  class. CSV, JUnit and JSON have a row for every class: kind, instruction, class, model, trials,
  mismatches, verdict, seconds, note. The CSV file grows while the instructions run.

Verdicts:
  equal
  differs
  recorded  nothing is claimed
  declined  the device or the library does not offer it
  absent    this CPU has no such unit
  failed    it did not run to its end; the note gives the reason

Traces (--record, --replay):
  A trace is one file for one instruction. Its header has GPU, driver and toolkit (or CPU,
  microcode, os and compiler), date, seed, and the number of rows that refute each wrong model.
  The other lines are lines that `macheps machine eval` reads (except for sparse instructions):
  zstd -dc FILE | macheps machine eval -
  The option --record also writes the sums of the hashes of scalar results. With --capture it also
  writes raw outputs of the algorithms of cuBLASLt, which --replay compares with the rules of
  matmuls. --replay recomputes a few of the sums from the models; another --seed selects other
  sums. --full recomputes every sum, which can take hours.

JSON:
  {"device", "rows": [{"kind", "instruction", "class", "model", "trials", "mismatches", "verdict",
  "seconds", "note"}, ...], "equal", "differ", "recorded", "declined", "absent", "failed",
  "trials", "mismatches", "traces": [paths written or read]}

Exit codes:
  1  something differs or failed
  3  a trace cannot be read or was changed
  4  no such device
  5  cannot write)";

constexpr int max_devices = 1023;

struct Arguments {
    std::string only = "*", record, replay, csv, junit;
    bool quick = false, full = false, json = false, list = false, plain = false, capture = false;
    double seconds = 180;
    std::string device = "0", mutant;
    LibraryOptions library;
    std::uint64_t seed = 1;

    bool on_cpu() const { return device == "cpu"; }
};

/// Returns the number of the GPU in --device.
int gpu_number(const Arguments& arguments) {
    int number = -1;
    const char* const end = arguments.device.data() + arguments.device.size();
    const auto parsed = std::from_chars(arguments.device.data(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end || number < 0 || number > max_devices) {
        throw Error({.what = fmt::format("there is no device '{}'", arguments.device),
                     .where = "--device",
                     .fix = fmt::format("use cpu, or the number of a GPU from 0 to {}", max_devices),
                     .exit = Exit::usage});
    }
    return number;
}

constexpr std::uint64_t quick_results = 10'000'000;  ///< for each unit of a CPU

std::vector<evidence::ProbeGroup> groups_of(const Arguments& arguments) {
    if (arguments.on_cpu()) return evidence::cpu_probe_groups(arguments.quick ? quick_results : 0, arguments.mutant);
    if (!arguments.mutant.empty()) {
        throw Error({.what = "wrong models exist only for the units of a CPU",
                     .where = "--mutant",
                     .fix = "add --device cpu",
                     .exit = Exit::usage});
    }
    return evidence::probe_groups(gpu_number(arguments));
}

/// Throws Error if an output cannot be written, so that a run of several minutes fails at its start.
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
                 .fix = near.empty() ? "see `macheps verify --list`; put * and ? in quotes"
                                     : fmt::format("did you mean '{}'?", near),
                 .exit = Exit::usage});
}

struct Choice {
    const evidence::ProbeGroup* group;
    std::string instruction;
};
/// Returns the instructions that match the pattern. With `plain`, variants of instructions are left out.
std::vector<Choice> choose(const std::vector<evidence::ProbeGroup>& groups, const std::string& pattern, bool plain) {
    std::vector<Choice> chosen;
    std::vector<std::string> names;
    for (const evidence::ProbeGroup& group : groups) {
        for (const std::string& instruction : group.instructions) {
            if (plain && group.is_variant && group.is_variant(instruction)) continue;
            names.push_back(group.kind + ":" + instruction);
            if (selected(pattern, group.kind, instruction)) chosen.push_back({&group, instruction});
        }
    }
    if (chosen.empty()) nothing_selected(pattern, names);
    return chosen;
}

/// Prints progress on stderr, one line per instruction. On a terminal, each line replaces the previous one, except that
/// lines that report a difference or a failure stay.
class ProgressLines {
  public:
    explicit ProgressLines(std::size_t count) : count_(count), terminal_(isatty(STDERR_FILENO) == 1) {}
    ~ProgressLines() {
        if (terminal_ && at_ > 0) redraw("");
    }
    ProgressLines(const ProgressLines&) = delete;
    ProgressLines& operator=(const ProgressLines&) = delete;

    void done(const std::string& kind, const std::string& instruction, const std::vector<evidence::ProbeResult>& rows) {
        const VerifyCounts counts = count_rows(rows);
        const std::string verdict = counts.failed != 0 ? "failed: " + rows.back().note
                                    : counts.differ != 0
                                        ? fmt::format("{} of {} classes differ", counts.differ, counts.rows)
                                    : counts.declined != 0 ? "declined"
                                    : counts.absent != 0   ? "absent"
                                    : counts.recorded != 0 ? "recorded"
                                                           : "equal";
        const std::string line =
            fmt::format("[{}/{}] {}:{}: {}, {} trials", ++at_, count_, kind, instruction, verdict, counts.trials);
        // A line that reports a difference or a failure stays on the screen.
        if (terminal_) redraw("{}", line);
        if (terminal_ && !counts.all_well()) eprint("\n");
        if (!terminal_) eprint("{}\n", line);
    }

  private:
    std::size_t count_, at_ = 0;
    bool terminal_;
};

struct Outcome {
    std::string device;
    std::vector<evidence::ProbeResult> rows;
    std::vector<std::string> traces;
};

/// Returns the origin of the results for the header of a trace.
evidence::Trace origin_of(const Arguments& arguments) {
    evidence::Trace origin;
    origin.seed = arguments.seed;
    if (arguments.on_cpu()) {
        const evidence::CpuIdentity identity = evidence::cpu_identity();
        origin.gpu = identity.cpu;
        origin.driver = identity.os;
        origin.toolkit = identity.compiler;
        origin.microcode = identity.microcode;
        return origin;
    }
    const gpu::DeviceInfo info = gpu::device_info(gpu_number(arguments));
    origin.gpu = info.name;
    origin.driver = info.driver;
    origin.toolkit = info.runtime;
    return origin;
}

void run_probes(const Arguments& arguments, Outcome& outcome) {
    const std::vector<evidence::ProbeGroup> groups = groups_of(arguments);
    const std::vector<Choice> chosen = choose(groups, arguments.only, arguments.plain);
    const evidence::Trace origin = origin_of(arguments);
    outcome.device = origin.gpu;
    check_outputs(arguments);
    std::ofstream csv;
    if (!arguments.csv.empty()) csv.open(arguments.csv, std::ios::binary | std::ios::trunc);
    csv << verify_rows().csv_header() << std::flush;

    evidence::ProbeOptions options{.device = arguments.on_cpu() ? 0 : gpu_number(arguments), .only = arguments.only};
    options.seed = arguments.seed;
    // With --quick, the units of a CPU give a fixed number of results. The time limit matters only on a busy machine,
    // where a run might never finish.
    options.seconds = arguments.quick ? (arguments.on_cpu() ? 900 : 60) : arguments.seconds;
    options.only_captures = arguments.capture;
    std::optional<VerifyRecorder> recorder;
    if (!arguments.record.empty()) {
        recorder.emplace(arguments.record, origin, arguments.on_cpu());
        options.record = [&](const evidence::Candidates& candidates) { recorder->trace(candidates); };
        options.keep = [&](const evidence::Capture& capture) { recorder->capture(capture); };
    }
    const auto start = std::chrono::steady_clock::now();
    ProgressLines progress(chosen.size());
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        const double share = std::max(options.seconds - spent, 0.0) / static_cast<double>(chosen.size() - i);
        const std::vector<evidence::ProbeResult> rows =
            evidence::run_probe(*chosen[i].group, chosen[i].instruction, share, options);
        csv << verify_rows().csv_lines(rows) << std::flush;  // if the run is killed, the rows so far are kept
        if (recorder) recorder->sums(rows);
        progress.done(chosen[i].group->kind, chosen[i].instruction, rows);
        outcome.rows.insert(outcome.rows.end(), rows.begin(), rows.end());
    }
    if (recorder) outcome.traces = recorder->finish();
}

void run_replay(const Arguments& arguments, Outcome& outcome) {
    const std::vector<fs::path> files = evidence::trace_files(arguments.replay);
    if (files.empty()) {
        throw Error({.what = "there are no traces",
                     .where = arguments.replay,
                     .fix = "record traces on a computer with a GPU: `macheps verify --record DIR`"});
    }
    std::vector<std::string> names;
    const evidence::ProbeSink sink = [&](const evidence::ProbeResult& row) { outcome.rows.push_back(row); };
    const evidence::SumsShare share{.seed = arguments.seed, .all = arguments.full};
    const auto takes = [&](const fs::path& file, const std::string& instruction, const std::string& gpu) {
        names.push_back("replay:" + instruction);
        if (!selected(arguments.only, "replay", instruction)) return false;
        if (outcome.traces.empty() || outcome.traces.back() != file.string()) outcome.traces.push_back(file.string());
        if (outcome.device.find(gpu) == std::string::npos) outcome.device += (outcome.device.empty() ? "" : ", ") + gpu;
        return true;
    };
    for (const fs::path& file : files) {
        const std::string text = evidence::read_json_lines(file);
        // parse_trace handles a file without a complete first line, and explains how a trace begins.
        const std::size_t end = text.find('\n');
        const Json header =
            end == std::string::npos ? Json() : evidence::parse_json_line(text.substr(0, end), file.string() + ":1");
        if (evidence::is_library_capture(header)) {
            const evidence::RecordedLibrary recorded = evidence::parse_library_capture(text, file.string());
            if (takes(file, recorded.problem.name(), recorded.gpu)) evidence::replay_library(recorded, sink);
            continue;
        }
        if (evidence::is_variant_capture(header)) {
            if (takes(file, evidence::variant_of(header, file.string() + ":1"), header["gpu"].string()))
                evidence::replay_variant(text, file.string(), sink);
            continue;
        }
        if (evidence::is_tree_capture(header)) {
            const evidence::RecordedTree recorded = evidence::parse_tree_capture(text, file.string());
            if (takes(file, "reveal:" + recorded.problem, recorded.gpu)) evidence::replay_tree(recorded, sink);
            continue;
        }
        if (evidence::is_sums(header)) {
            evidence::RecordedSums recorded = evidence::parse_sums(text, file.string());
            std::erase_if(recorded.rows, [&](const auto& row) { return !takes(file, row.instruction, recorded.gpu); });
            evidence::replay_sums(recorded, share, sink);
            continue;
        }
        const evidence::Trace trace = evidence::parse_trace(text, file.string());
        if (takes(file, trace.form.instr + "." + trace.form.qual, trace.gpu)) evidence::replay(trace, sink);
    }
    if (outcome.rows.empty()) nothing_selected(arguments.only, names);
    check_outputs(arguments);
}

Exit list(const Arguments& arguments) {
    const std::vector<evidence::ProbeGroup> groups = groups_of(arguments);
    std::string text;
    Json all = Json::array();
    for (const Choice& choice : choose(groups, arguments.only, arguments.plain)) {
        text += fmt::format("{}:{}\n", choice.group->kind, choice.instruction);
        all.push_back({{"kind", choice.group->kind}, {"instruction", choice.instruction}});
    }
    if (arguments.json) {
        print_json(all);
    } else {
        print_text(text);
    }
    return Exit::ok;
}

Exit run(const Arguments& arguments) {
    if (const std::string problem = problem_of_pattern(arguments.only); !problem.empty()) {
        throw Error({.what = problem, .where = "--only", .fix = "use a simpler pattern", .exit = Exit::usage});
    }
    if (!arguments.library.library.empty()) {
        LibraryOptions options = arguments.library;
        options.seed = arguments.seed;
        options.json = arguments.json;
        return verify_library(options);
    }
    if (arguments.list) return list(arguments);
    Outcome outcome;
    arguments.replay.empty() ? run_probes(arguments, outcome) : run_replay(arguments, outcome);
    if (!arguments.csv.empty()) publish(arguments.csv, verify_rows().csv(outcome.rows));
    if (!arguments.junit.empty()) publish(arguments.junit, verify_junit(outcome.rows));
    const VerifyCounts counts = count_rows(outcome.rows);
    if (arguments.json) {
        print_verify_json(outcome.rows, outcome.device, outcome.traces);
    } else {
        std::string text = verify_table(outcome.rows);
        text += fmt::format(
            "\n{}: {} rows: {} equal, {} differ, {} recorded, {} declined{}{}; {} trials, {} "
            "mismatches\n",
            outcome.device, counts.rows, counts.equal, counts.differ, counts.recorded, counts.declined,
            counts.absent == 0 ? "" : fmt::format(", {} absent", counts.absent),
            counts.failed == 0 ? "" : fmt::format(", {} failed", counts.failed), counts.trials, counts.mismatches);
        if (!outcome.traces.empty()) {
            text += fmt::format("{} traces {} {}\n", outcome.traces.size(), arguments.replay.empty() ? "in" : "of",
                                arguments.replay.empty() ? arguments.record : arguments.replay);
        }
        print_text(text);
    }
    return counts.all_well() ? Exit::ok : Exit::check_failed;
}

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    verb.group("What to verify");
    verb.option("--only", a->only, "Pattern for kind:instruction, as printed by --list")
        .takes("PATTERN")
        .shows_default();
    verb.option("--device", a->device, "cpu, or the number of a GPU, counted from 0")
        .takes("DEVICE")
        .in_lower_case()
        .shows_default();
    const Option quick = verb.flag("--quick", a->quick, "Run for one minute");
    verb.flag("--full", a->full,
              "Run for --seconds seconds (this is the default). With --replay: recompute every sum of hashes")
        .excludes(quick);
    verb.option("--seconds", a->seconds,
                "Time limit for everything together. Each class of operands runs at least once")
        .range(0, 1e6)
        .shows_default()
        .excludes(quick);
    verb.integer("--seed", a->seed, seed_limits, "Seed of the operands").shows_default();
    verb.flag("--plain", a->plain, "Leave out variants of matrix instructions, which have no traces");
    verb.option("--mutant", a->mutant,
                "With --device cpu: compare with this wrong model, to check that the difference is found. "
                "Default: none")
        .takes("NAME");
    const Option list = verb.flag("--list", a->list, "Print what would be run");
    verb.group("Traces");
    const Option record =
        verb.option("--record", a->record,
                    "Write traces of instructions, differing outputs of variants, and sums of hashes of scalar results "
                    "to this folder. Default: none")
            .takes(value_kind::folder);
    verb.flag("--capture", a->capture, "Also write the outputs of libraries, and do not compare them with a rule")
        .needs(record);
    verb.option("--replay", a->replay,
                "Compare recorded traces in this folder and its subfolders. Default: run on the device")
        .takes(value_kind::folder)
        .excludes(record)
        .excludes(list);
    verb.group("Libraries");
    const Option library = verb.option("--library", a->library.library,
                                       "Verify a library of this computer instead of a device. Default: none")
                               .takes("NAME")
                               .excludes(record);
    verb.option("--rule", a->library.rule, "Rule whose bits the library must have. Default: the best-fitting rule")
        .takes("NAME")
        .needs(library);
    verb.integer("--shapes", a->library.shapes, {1, 10000}, "With --library: number of random shapes to compare")
        .shows_default();
    verb.flag("--require", a->library.require, "With --library: exit with 4 if the library is absent");
    verb.group("Output");
    verb.option("--csv", a->csv, "Write every row to this file as CSV. Default: none").takes(value_kind::file);
    verb.option("--junit", a->junit, "Write every row to this file as JUnit XML. Default: none")
        .takes(value_kind::file);
    verb.flag("--json", a->json, "Print JSON");
    verb.runs([a] { return run(*a); });
}

}  // namespace

const VerbRow verb{"verify", help, describe, notes};

}  // namespace macheps::cmd::verify
