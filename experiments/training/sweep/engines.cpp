// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/sweep/engines.hpp"

#include "core/text/json.hpp"
#include "core/text/quote.hpp"
#include "experiments/training/sweep/plan_file.hpp"
#include "experiments/training/sweep/shard.hpp"
#include "experiments/training/sweep/store/unit_recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace macheps::training {

namespace {

constexpr std::size_t max_usual_shards = 64;

std::int64_t megabytes(std::int64_t bytes) { return std::max<std::int64_t>(100, (bytes + 999999) / 1000000); }

/// On USR1 and TERM, the traps send TERM to the program. Slurm sends USR1 120 seconds before the time limit. If the
/// limit is shorter, Slurm sends USR1 as soon as the task begins, so the traps are set before the program starts. After
/// USR1, the script requeues the task in two cases: the shard has saved its state (exit code 75), or TERM ended the
/// program before it could handle signals (143). After TERM, which scancel sends, the script does not requeue the task.
/// A signal makes `wait` return early, so the script calls `wait` in a loop.
constexpr const char* array_text = R"(#!/bin/bash
#SBATCH --job-name={name} --array=0-{last} --ntasks=1 --cpus-per-task=1 --mem={memory}
#SBATCH {time}--signal=B:USR1@120 --requeue --open-mode=append --output={log}
{more}pid= again= hit=
trap 'again=1; hit=1; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' USR1
trap 'hit=1; [ -z "$pid" ] || kill -TERM "$pid" 2>/dev/null' TERM
{program} sweep run {out} --shard "$SLURM_ARRAY_TASK_ID/{shards}" & pid=$!
[ -z "$hit" ] || kill -TERM "$pid"
while hit=; wait "$pid"; rc=$?; [ "$rc" -gt 128 ] && [ -n "$hit" ]; do :; done
if [ -n "$again" ] && {{ [ "$rc" -eq 75 ] || [ "$rc" -eq 143 ]; }}; then
    exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
fi
exit "$rc"
)";

constexpr const char* merge_text = R"(#!/bin/bash
#SBATCH --job-name={name} --ntasks=1 --cpus-per-task=1 --mem=1000
#SBATCH --open-mode=append --output={log}
{more}exec {program} merge {out}
)";

constexpr const char* job_text = R"(apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {shards}
  parallelism: {parallel}
  backoffLimitPerIndex: 3          # Kubernetes 1.29 or later
  maxFailedIndexes: {shards}
  podFailurePolicy:
    rules:
    - action: Ignore               # stopped, resumable: not a failure
      onExitCodes: {{operator: In, values: [75]}}
    - action: FailIndex            # the plan is wrong: another try would end the same
      onExitCodes: {{operator: In, values: [2, 3]}}
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 120
      containers:
      - name: shard
        image: {image}
        command: [macheps, sweep, run, /out, --shard, auto]
        env:
        - {{name: MACHEPS_SHARD_COUNT, value: "{shards}"}}
        resources:
          requests: {{cpu: "1", memory: {memory}M}}
          limits: {{memory: {memory}M}}
        volumeMounts:
        - {{name: out, mountPath: /out}}
      volumes:
      - name: out                  # a ReadWriteMany volume that holds the folder of the sweep
        persistentVolumeClaim: {{claimName: {name}}}
)";

/// Returns a name for a Kubernetes object: lowercase letters, digits and dashes.
std::string object_name(const std::string& name) {
    std::string out;
    for (const char c : name) {
        const bool is_plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        out += is_plain ? c : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : '-';
    }
    out.resize(std::min<std::size_t>(out.size(), 50));
    while (!out.empty() && out.back() == '-') out.pop_back();
    while (!out.empty() && out.front() == '-') out.erase(0, 1);
    return out.empty() ? "sweep" : out;
}

/// Returns the pattern of a log file. In Slurm's patterns, `%` begins a variable, so a `%` in a path is doubled. A path
/// with a backslash is rejected, because a backslash would turn the variables off.
std::string log_pattern(const std::filesystem::path& folder, std::string_view file) {
    const std::string path = folder.string();
    check_one_line(path, "the folder of the sweep", path);
    if (path.find('\\') != path.npos) {
        throw Error({.what = "Slurm cannot write logs into a folder with a backslash in its name",
                     .where = path,
                     .fix = "rename the folder",
                     .exit = Exit::usage});
    }
    std::string pattern;
    for (const char c : path) pattern += c == '%' ? std::string("%%") : std::string(1, c);
    return sbatch_word(fmt::format("{}/{}", pattern, file));
}

/// Returns an #SBATCH line with the user's options for sbatch, or nothing if there are none. The line comes after the
/// other #SBATCH lines, so its options override theirs.
std::string sbatch_line(std::string_view options) {
    std::string line;
    for (const std::string& word : words_of(options)) {
        check_one_line(word, "an option for sbatch", "--sbatch");
        line += ' ' + sbatch_word(word);
    }
    return line.empty() ? line : "#SBATCH" + line + '\n';
}

}  // namespace

std::vector<EngineScript> slurm_scripts(const SubmitRequest& r) {
    using fmt::arg;
    const std::filesystem::path logs = r.out / "slurm";
    const std::string program = shell_quoted(r.program.string()), out = shell_quoted(r.out.string());
    check_one_line(r.time, "the time limit", "--time");
    check_one_line(r.name, "the name of the sweep", r.out.string());
    const std::string more = sbatch_line(r.more);
    const std::string time = r.time.empty() ? "" : "--time=" + sbatch_word(r.time) + " ";
    return {{"slurm/array.sh",
             fmt::format(fmt::runtime(array_text), arg("name", sbatch_word(r.name)), arg("last", r.shards - 1),
                         arg("memory", megabytes(r.memory_bytes)), arg("time", time),
                         arg("log", log_pattern(logs, "%A_%a.log")), arg("program", program), arg("out", out),
                         arg("shards", r.shards), arg("more", more))},
            {"slurm/merge.sh", fmt::format(fmt::runtime(merge_text), arg("name", sbatch_word(r.name + "-merge")),
                                           arg("log", log_pattern(logs, "merge_%j.log")), arg("program", program),
                                           arg("out", out), arg("more", more))}};
}

std::vector<EngineScript> kubernetes_scripts(const SubmitRequest& r) {
    using fmt::arg;
    const std::string image = r.image.empty() ? "macheps" : r.image;
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./:@";
    if (image.find_first_not_of(plain) != image.npos) {
        throw Error({.what = fmt::format("{} is not a valid name of a container image", json_ascii(image)),
                     .where = "--image",
                     .fix = "give registry/name:tag, in letters, digits and _-./:@",
                     .exit = Exit::usage});
    }
    return {{"kubernetes/job.yaml",
             fmt::format(fmt::runtime(job_text), arg("name", yaml_quoted(object_name(r.name))), arg("shards", r.shards),
                         arg("parallel", std::min(r.shards, 16)), arg("memory", megabytes(r.memory_bytes)),
                         arg("image", yaml_quoted(image)))}};
}

int usual_shards(const Sweep& sweep) {
    return static_cast<int>(std::clamp<std::size_t>(units_of(sweep, {0, 1}).size(), 1, max_usual_shards));
}

std::vector<std::filesystem::path> policy_files(const Sweep& sweep, const std::filesystem::path& plan_folder) {
    std::set<std::filesystem::path> files;
    for (const SweepPolicy& policy : sweep.policies) {
        for (const policy::PolicySource& source : policy.sources) {
            if (source.is_file) files.insert(file_of_source(source.name, plan_folder));
        }
    }
    return {files.begin(), files.end()};
}

std::vector<std::filesystem::path> data_files(const Sweep& sweep) {
    std::set<std::filesystem::path> files;
    for (const SweepSetting& setting : sweep.settings) {
        for (const std::string& option : setting.options) {
            const std::size_t end = option.find('=');
            if (end != option.npos && is_data_option(std::string_view(option).substr(2, end - 2)))
                files.insert(option.substr(end + 1));
        }
    }
    return {files.begin(), files.end()};
}

std::int64_t task_memory(const Sweep& sweep) {
    std::int64_t most = 0;
    for (const std::size_t unit : units_of(sweep, {0, 1})) most = std::max(most, sweep.units[unit].memory_bytes);
    return most + most * 3 / 10;
}

}  // namespace macheps::training
