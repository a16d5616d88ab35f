// SPDX-License-Identifier: Apache-2.0
// macheps sweep submit: hands the shards of a sweep to a scheduler.
#include "core/host/child_process.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/quote.hpp"
#include "core/text/shown.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/sweep/folder.hpp"
#include "experiments/cmd/sweep/verbs.hpp"
#include "experiments/training/sweep/engines.hpp"
#include "experiments/training/sweep/results/status.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "experiments/training/sweep/store/layout.hpp"

#include <fmt/format.h>

#include <system_error>

namespace macheps::cmd::sweep {

using namespace training;

namespace {

constexpr const char* submit_help =
    R"(Submits the shards of a sweep to Slurm as an array, or writes a job for Kubernetes.

Examples:
  macheps sweep submit formats.toml --engine slurm --print                what would be submitted, and what to copy
  macheps sweep submit formats.toml --engine slurm --scripts jobs         the same scripts as files: jobs/array.sh, ...
  macheps sweep submit formats.toml --engine kubernetes --print > job.yaml)";

constexpr const char* submit_notes = R"(Slurm:
  Writes OUT/slurm/array.sh and merge.sh and submits both. The merge starts when every task has
  ended, and reports what is missing. A task that nears its time limit saves its state and is
  requeued. The options of --time and --sbatch are #SBATCH lines of the scripts. The scripts need
  the folder OUT; a comment in the scripts that --print prints has the commands that make it.

A cluster that has no macheps:
  With --engine slurm --print, stderr lists the files to copy: the program, the plan, its policies
  and its data. The program has to be one that runs there (docs/sweeps.md).

Kubernetes:
  You provide the image of the job, and a volume that all pods mount as /out.

Other engines: docs/sweeps.md.

JSON:
  {"out", "engine", "shards", "scripts": [files], "jobs": [ids]}

Exit codes:
  1        the engine refused the job
  2 and 3  the plan cannot be trained)";

struct SubmitArguments {
    std::filesystem::path path, out, scripts;
    std::string engine, time, sbatch, image;
    int shards = 0;
    bool print_only = false, json = false;

    bool submits() const { return !print_only && scripts.empty(); }
};

struct EngineRow {
    const char* name;
    std::vector<EngineScript> (*scripts)(const SubmitRequest& request);
    bool submits;  ///< whether macheps submits the job; otherwise the user submits the file
};
constexpr EngineRow engine_rows[] = {{"slurm", slurm_scripts, true}, {"kubernetes", kubernetes_scripts, false}};

/// Submits a script with sbatch. Returns the number of the job, which `--parsable` makes sbatch print.
std::string submit_job(std::vector<std::string> options, const std::string& script) {
    options.insert(options.begin(), "--parsable");
    options.push_back(script);
    std::string why = "see the message of sbatch above";
    try {
        const ProgramEnd end = run_program({.program = "sbatch", .arguments = options});
        const std::string job = end.output.substr(0, end.output.find_first_of(";\n"));
        if (end.has_succeeded() && !job.empty()) return job;
    } catch (const std::system_error& error) {
        why = error.what();
    }
    std::string command = "sbatch";
    for (const std::string& word : options) command += " " + shell_word(word);
    throw Error({.what = "sbatch did not accept the job",
                 .where = command,
                 .fix = why + "; use --print to see the scripts and the files to copy to a cluster",
                 .exit = Exit::check_failed});
}

const EngineRow& engine_of(const SubmitArguments& a) {
    for (const EngineRow& row : engine_rows) {
        if (row.name == a.engine) return row;
    }
    throw Error({.what = fmt::format("there is no engine '{}'", a.engine),
                 .where = "--engine",
                 .fix = "use slurm or kubernetes; for other engines see docs/sweeps.md",
                 .exit = Exit::usage});
}

/// Returns the path of this program, which the jobs start.
std::filesystem::path own_program() {
    std::error_code error;
    std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error)
        throw Error({.what = fmt::format("cannot find the executable of this program: {}", error.message()),
                     .where = "/proc/self/exe",
                     .fix = "mount /proc, or write the script yourself (docs/sweeps.md)"});
    return program;
}

/// Prints to stderr which files to copy to another system, and the command to run there. If the sweep is named by its
/// folder, the folder contains the plan and the policies.
void print_what_to_copy(const SubmitArguments& a, const Sweep& sweep) {
    const bool has_folder = is_folder(a.path);
    eprint("To submit the sweep on another system, copy these files to it, {}:\n",
           has_folder ? "data to the same paths" : "policies and data to the paths that the plan names");
    const auto row = [](const char* kind, const std::filesystem::path& file) {
        eprint("  {:<8} {}\n", kind, file.string());
    };
    row("program", own_program());
    row(has_folder ? "folder" : "plan", a.path);
    if (!has_folder) {
        for (const std::filesystem::path& file : policy_files(sweep, a.path.parent_path())) row("policy", file);
    }
    for (const std::filesystem::path& file : data_files(sweep)) row("data", file);
    std::string command = fmt::format("macheps sweep submit {} --engine {}", shell_word(a.path.string()), a.engine);
    if (a.shards > 0) command += fmt::format(" --shards {}", a.shards);
    if (!a.time.empty()) command += " --time " + shell_word(a.time);
    if (!a.sbatch.empty()) command += " --sbatch " + shell_word(a.sbatch);
    eprint("Then run there: {}\n", command);
    eprint("If the program does not start there, use a portable one (scripts/release program; docs/sweeps.md)\n");
}

/// Returns the script with a comment that names the folder that it needs and the commands that make this folder.
std::string with_needs(std::string script, const SubmitArguments& a, const std::filesystem::path& out) {
    const std::string folder = shell_word(out.string());
    std::string comment = "# This script needs the folder of the sweep. These commands make it:\n";
    if (!is_folder(a.path)) {
        comment += fmt::format("#   macheps sweep plan {} --out {}\n", printable(shell_word(a.path.string())),
                               printable(folder));
    }
    comment += fmt::format("#   mkdir -p {}/slurm\n", printable(folder));
    script.insert(script.find('\n') + 1, comment);  // after the line of the interpreter
    return script;
}

Exit submit(const SubmitArguments& a) {
    const EngineRow& engine = engine_of(a);
    const SweepFolder folder =
        open_sweep(a.path, a.out, PlanChanges::are_taken, a.submits() ? FolderIs::written : FolderIs::left_alone);
    const SubmitRequest request{.out = std::filesystem::absolute(folder.out).lexically_normal(),
                                .program = own_program(),
                                .name = folder.sweep.name,
                                .shards = a.shards > 0 ? a.shards : usual_shards(folder.sweep),
                                .memory_bytes = task_memory(folder.sweep),
                                .time = a.time,
                                .more = a.sbatch,
                                .image = a.image};
    const std::vector<EngineScript> scripts = engine.scripts(request);
    if (a.print_only) {
        for (const EngineScript& script : scripts) {
            if (scripts.size() > 1) print("# --- {}\n", script.file);
            print_text(engine.submits ? with_needs(script.text, a, request.out) : script.text);
        }
        if (engine.submits) print_what_to_copy(a, folder.sweep);
        return Exit::ok;
    }
    std::vector<std::string> files, jobs;
    for (const EngineScript& script : scripts) {
        const std::filesystem::path file =
            a.submits() ? request.out / script.file : a.scripts / std::filesystem::path(script.file).filename();
        make_folders(file.parent_path());
        check_is_replaceable(file);
        publish(file, engine.submits && !a.submits() ? with_needs(script.text, a, request.out) : script.text);
        files.push_back(file.string());
    }
    if (a.submits()) remember_shard_count(request.out, request.shards);
    if (engine.submits && !a.submits()) print_what_to_copy(a, folder.sweep);
    if (engine.submits && a.submits()) {
        jobs.push_back(submit_job({}, files[0]));
        jobs.push_back(submit_job({"--dependency=afterany:" + jobs[0]}, files[1]));
        eprint("Job {}: {} tasks; job {} merges their results\n", jobs[0], request.shards, jobs[1]);
    }
    for (const std::string& file : files) eprint("wrote {}\n", file);
    if (a.json) {
        print_json({{"out", request.out.string()},
                    {"engine", a.engine},
                    {"shards", request.shards},
                    {"scripts", files},
                    {"jobs", jobs}});
    }
    return Exit::ok;
}

void describe_submit(Command& verb) {
    const auto a = std::make_shared<SubmitArguments>();
    verb.option("PLAN", a->path, "A plan, or the folder of a sweep").required().takes(value_kind::file);
    std::vector<std::string> names;
    for (const EngineRow& row : engine_rows) names.emplace_back(row.name);
    verb.option("--engine", a->engine, "Engine that schedules the jobs").required().one_of(names);
    verb.integer("--shards", a->shards, {0, max_shards}, "Number of shards. 0: one for each unit, but at most 64")
        .shows_default();
    verb.option("--time", a->time, "Time limit of a Slurm task, such as 4:00:00. Default: the limit of the cluster");
    verb.option("--sbatch", a->sbatch,
                "Further options for sbatch, such as \"-p cpu -A account\", for the scripts. Default: none");
    verb.option("--image", a->image, "Container image of a Kubernetes job. Default: macheps");
    verb.option("-o,--out", a->out, "Folder of the sweep. Default: the path of the plan without .toml")
        .takes(value_kind::folder);
    const Option print =
        verb.flag("--print", a->print_only, "Print the scripts without writing or submitting anything");
    verb.option("--scripts", a->scripts,
                "Write the scripts into this folder without submitting anything. Default: none")
        .takes(value_kind::folder)
        .excludes(print);
    verb.flag("--json", a->json, "Print as JSON");
    verb.runs([a] { return submit(*a); });
}

}  // namespace

const VerbRow submit_verb{"submit", submit_help, describe_submit, submit_notes};

}  // namespace macheps::cmd::sweep
