// SPDX-License-Identifier: Apache-2.0
// `macheps train`: trains policies x seeds on a small transformer, and writes a run directory with its report.
#include "core/host/thread_pool.hpp"
#include "core/host/version.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/quote.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/frame/device.hpp"
#include "experiments/cmd/frame/eprint.hpp"
#include "experiments/cmd/frame/json.hpp"
#include "experiments/cmd/frame/option_names.hpp"
#include "experiments/cmd/frame/print.hpp"
#include "experiments/cmd/report/picture.hpp"
#include "experiments/cmd/train/config.hpp"
#include "experiments/cmd/train/defaults.hpp"
#include "experiments/cmd/train/help.hpp"
#include "experiments/cmd/train/plan.hpp"
#include "experiments/cmd/train/progress.hpp"
#include "experiments/cmd/train/stress.hpp"
#include "experiments/cmd/train/task.hpp"
#include "experiments/policy/language/copied_preset.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/experiment.hpp"
#include "reports/findings/divergence.hpp"
#include "reports/findings/summary_table.hpp"
#include "reports/logs/run_log.hpp"
#include "reports/pages/html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>

namespace macheps::cmd::train {

using namespace reports;

using namespace training;

using namespace policy;

namespace {

std::atomic<bool> stop_after_step{false}, stop_now{false};
static_assert(std::atomic<bool>::is_always_lock_free);
/// Handles a stop signal. The first one requests a stop after the current step, the second one a stop at the next
/// operation. A third one has its default effect and ends the program.
extern "C" void request_stop(int) {
    if (!stop_after_step.exchange(true)) return;
    stop_now.store(true);
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
}

struct Arguments {
    std::vector<std::string> policies;
    ConfigChoice configs;
    std::string kind = "gpt2", size = "tiny", gelu = "erf", optimizer = "adamw", data, val_data, data_format = "auto",
                out, token_weight, stress;
    std::optional<std::int64_t> layers, width, heads, kv_heads, hidden, context, vocabulary, batch;
    bool untied = false, tied = false, force = false, quiet = false, no_report = false, dry_run = false, json = false;
    std::vector<std::int64_t> seeds;
    TrainOptions train;
    std::optional<double> min_lr, rope_theta;
    std::optional<std::pair<std::int64_t, std::string>> dump;
    DeviceChoice device;
    int jobs = 0;
    bool hash_sites = false;
    std::string inputs_file;
    std::string resume, from;
    std::filesystem::path png;
    std::optional<std::int64_t> save_every;
};

/// Steps between checkpoints. A tiny run ends before the first one, and a large run loses at most a few minutes.
constexpr std::int64_t default_save_every = 500;

/// Throws Error (usage) for options that a manifest does not allow. A manifest determines the rows, so only options
/// that do not change them are allowed.
void refuse_other_options(const Command& verb, const char* with, std::initializer_list<std::string_view> allowed) {
    for (const std::string& name : verb.given()) {
        if (name == with || std::find(allowed.begin(), allowed.end(), name) != allowed.end()) continue;
        throw Error({.what = fmt::format("{} cannot be used with {}, because the manifest determines it", name, with),
                     .where = with,
                     .fix = fmt::format("remove it; the allowed options are {}", fmt::join(allowed, ", ")),
                     .exit = Exit::usage});
    }
}

Experiment resumed_experiment(const Arguments& a, const Command& verb) {
    refuse_other_options(verb, "--resume",
                         {"--device", "--matrix-units", "--threads", "--jobs", "--memory", "--save-every", "--quiet",
                          "--no-report", "--png", "--json", "--dry-run"});
    const std::filesystem::path manifest = std::filesystem::path(a.resume) / "manifest.json";
    if (!std::filesystem::exists(manifest)) {
        throw Error({.what = "there is nothing to resume: manifest.json is missing",
                     .where = a.resume,
                     .fix = "pass a directory of `macheps train`; if training stopped before it wrote manifest.json, "
                            "start it again"});
    }
    const Manifest read = read_manifest(manifest);
    if (read.created_by != fmt::format("macheps {} ({})", macheps::version(), git_revision())) {
        eprint(
            "macheps: this run was started by {}; identical bytes are guaranteed only if one version runs all steps\n",
            read.created_by);
    }
    Experiment experiment = read.experiment;
    experiment.directory = a.resume;
    experiment.resume = true;
    return experiment;
}

Experiment repeated_experiment(const Arguments& a, const Command& verb) {
    refuse_other_options(
        verb, "--from",
        {"--out", "--force", "--device", "--matrix-units", "--hash-sites", "--export-inputs", "--threads", "--jobs",
         "--memory", "--save-every", "--quiet", "--no-report", "--png", "--json", "--dry-run"});
    Experiment experiment = read_manifest(a.from).experiment;
    experiment.repeats = a.from;
    experiment.directory = a.out.empty() ? next_run_directory() : std::filesystem::path(a.out);
    experiment.force = a.force;
    return experiment;
}

bool is_given(const Command& verb, std::string_view option) {
    const std::vector<std::string> given = verb.given();
    return std::find(given.begin(), given.end(), option) != given.end();
}

Experiment new_experiment(const Arguments& a, const Command& verb) {
    ConfigPolicies configs = load_configs(a.configs, verb);
    const bool is_asked = is_given(verb, "--model") || configs.model.empty();
    const ModelSize size = named_size(a.size, parse_model_kind(is_asked ? a.kind : configs.model));
    Experiment experiment;
    experiment.model = size.model;
    experiment.options = a.train;
    ModelConfig& model = experiment.model;
    const DataFiles files{.train = a.data, .held_out = a.val_data, .format = parse_data_format(a.data_format)};
    if (!a.data.empty() && !a.vocabulary) model.vocabulary = vocabulary_of(files);
    model.layers = a.layers.value_or(model.layers);
    model.width = a.width.value_or(model.width);
    model.heads = a.heads.value_or(model.heads);
    model.context = a.context.value_or(model.context);
    model.vocabulary = a.vocabulary.value_or(model.vocabulary);
    model.kv_heads = a.kv_heads.value_or(model.kv_heads);
    model.hidden = a.hidden.value_or(model.hidden);
    model.rope_theta = a.rope_theta.value_or(model.rope_theta);
    if (a.tied || a.untied) model.tied = a.tied;
    model.activation = parse_activation(a.gelu);
    experiment.options.batch = a.batch.value_or(size.batch);
    experiment.options.optimizer = a.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
    experiment.options.min_lr = a.min_lr.value_or(a.train.lr / 10);
    const bool is_demo = a.policies.empty() && configs.policies.empty();
    experiment.seeds = a.seeds;
    if (a.seeds.empty()) experiment.seeds.assign(std::begin(usual_seeds), std::end(usual_seeds));
    const bool is_own_task = !configs.policies.empty() || !a.data.empty();
    experiment.options.token_weight = !a.token_weight.empty() ? parse_weight(a.token_weight)
                                      : is_own_task           ? plain_token_weight
                                                              : usual_token_weight;

    std::vector<std::string> names = is_demo ? demo_policies() : a.policies;
    if (std::find(names.begin(), names.end(), baseline_policy) == names.end()) {
        names.insert(names.begin(), std::string(baseline_policy));
    }
    const bool has_configs_alone = a.policies.empty() && !configs.policies.empty();
    for (const std::string& name : names) {
        experiment.policies.push_back(has_configs_alone ? baseline_of(configs.policies) : load_policy(name));
        for (const std::string& note : notes_about(experiment.policies.back())) eprint("note: {}\n", note);
    }
    for (Policy& policy : configs.policies) experiment.policies.push_back(std::move(policy));
    add_stressed(experiment, a.stress, !configs.policies.empty());
    check_names(experiment.policies);
    tell_micro_batches(experiment.policies, experiment.options);
    auto seeds = experiment.seeds;
    std::sort(seeds.begin(), seeds.end());
    if (std::adjacent_find(seeds.begin(), seeds.end()) != seeds.end())
        throw Error(
            {.what = "a seed is given twice", .where = "--seeds", .fix = "pass each seed once", .exit = Exit::usage});
    experiment.data_file = files.train;
    experiment.held_out_file = files.held_out;
    experiment.data_format = files.format;
    if (a.dump) {
        // The dump shows the first policy that the user named. fp32 may have been added before it as the baseline.
        const std::size_t added = names.size() == a.policies.size() || is_demo ? 0 : 1;
        experiment.dump = {.file = a.dump->second,
                           .step = a.dump->first,
                           .policy = experiment.policies[added].name,
                           .seed = experiment.seeds.front()};
    }
    experiment.directory = a.out.empty() ? next_run_directory() : std::filesystem::path(a.out);
    experiment.force = a.force;
    experiment.command = verb.command_line();
    experiment.save_every = a.save_every.value_or(default_save_every);
    return experiment;
}

Experiment make_experiment(const Arguments& a, const Command& verb) {
    Experiment experiment = !a.resume.empty() ? resumed_experiment(a, verb)
                            : !a.from.empty() ? repeated_experiment(a, verb)
                                              : new_experiment(a, verb);
    if (a.save_every) experiment.save_every = *a.save_every;
    experiment.hash_sites = a.hash_sites;
    experiment.inputs_file = a.inputs_file;
    return experiment;
}

/// Prints the summary on stdout, and writes summary.csv and report.html next to the rows. With a browser, also draws the
/// beginning of the page.
Exit finish(const Experiment& experiment, bool finished, const Arguments& arguments,
            const std::optional<report::Browser>& browser) {
    const std::filesystem::path& directory = experiment.directory;
    const std::filesystem::path folders[] = {directory};
    const Log log = read_runs(folders);
    const bool reports = !log.runs.empty() && !arguments.no_report;
    const std::filesystem::path rows = directory / "summary.csv", page = directory / "report.html";
    Json json{
        {"finished", finished}, {"directory", directory.string()}, {"files", Json::object()}, {"summary", nullptr}};
    if (reports) {
        const Summary summary = summarise(log);
        write_summary(summary, rows);
        if (!arguments.json) print_coloured(summary_table(summary, colour_for(STDOUT_FILENO)));
        write_page(log, summary, page);
        eprint("Rows and page: {}\n", page.string());
        json["files"] = {{"summary", rows.string()}, {"page", page.string()}};
        if (browser) {
            browser->picture_of_page(page, arguments.png, report::PageExtent::top, false);
            eprint("Picture: {}\n", arguments.png.string());
            json["files"]["picture"] = arguments.png.string();
        }
        json["summary"] = Json::parse(summary_json(summary));
    }
    if (arguments.json) print_json(json);
    return finished ? Exit::ok : Exit::stopped;
}

/// Returns how many runs are trained side by side.
int jobs(const Arguments& a, const Experiment& experiment) {
    if (a.jobs > 1 && a.device.device != "cpu") {
        throw Error({.what = "a GPU trains one run at a time",
                     .where = "--jobs",
                     .fix = "remove it, or pass --device cpu",
                     .exit = Exit::usage});
    }
    if (a.device.device != "cpu") return 1;
    if (a.jobs > 0) return a.jobs;
    return runs_side_by_side(experiment, a.device.threads > 0 ? a.device.threads : available_threads());
}

Exit run(const Arguments& arguments, const Command& verb) {
    Experiment experiment = make_experiment(arguments, verb);
    experiment.memory = arguments.device.memory_bytes();
    const std::vector<std::unique_ptr<Backend>> engines = make_backends(arguments.device, jobs(arguments, experiment));
    std::vector<Backend*> backends;
    for (const auto& engine : engines) backends.push_back(engine.get());
    check_memory(*backends.front(), experiment, static_cast<int>(backends.size()));
    tell_left_out(experiment.policies, experiment.model);
    // A missing browser is reported before the training starts.
    std::optional<report::Browser> browser;
    if (!arguments.png.empty()) browser.emplace("--png");
    if (arguments.dry_run) return print_plan(make_plan(backends, experiment), verb, arguments.json);
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, request_stop);
    ProgressBar bar;
    const auto progress = [&](const Progress& p) {
        if (!p.note.empty()) {
            bar.end();
            eprint("macheps: {}\n", p.note);
        } else if (!arguments.quiet) {
            bar.show(p);
        }
    };
    std::optional<NumberedDirectory> numbered;
    if (arguments.out.empty() && arguments.resume.empty()) experiment.directory = numbered.emplace().path();
    bool finished = false;
    try {
        finished = run_experiment(backends, experiment, progress, stop_after_step, &stop_now);
    } catch (...) {
        bar.end();
        throw;
    }
    bar.end();
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
    const Exit code = finish(experiment, finished, arguments, browser);
    if (code == Exit::stopped)
        eprint("Stopped. To continue: macheps train --resume {}\n", shell_word(experiment.directory.string()));
    return code;
}

void describe_task(Command& verb, Arguments& a) {
    verb.group("What to train");
    verb.option("-p,--policy", a.policies,
                "Policies: presets (macheps policy list) or .toml files. Default: those of the demo")
        .takes(value_kind::policy)
        .list();
    a.configs.add_config(verb);
    verb.integer("--seeds", a.seeds, seed_limits,
                 "Seeds. For each seed, all policies have the same initial weights and batches. Default: 0,1,2")
        .list();
    verb.option("--stress", a.stress, stress_help());
    const Option data = verb.option("--data", a.data,
                                    "Training data: a text file, which is read as bytes, or a file of tokens. "
                                    "Default: the synthetic language")
                            .takes(value_kind::file);
    verb.option("--val-data", a.val_data, "Held-out text or tokens. Default: the last tenth of --data")
        .takes(value_kind::file)
        .needs(data);
    verb.option("--data-format", a.data_format,
                "Format of the data. auto recognises llm.c by its magic number. "
                "It reads other .bin files as uint16 tokens of nanoGPT, and all other files as text")
        .one_of({"auto", "text", "llmc", "nanogpt"})
        .shows_default();
    verb.option("--model", a.kind,
                "Kind of model. gpt2: LayerNorm, GELU, learned positions. llama: RMSNorm, SwiGLU, rotary positions")
        .takes("KIND:{gpt2,llama}")
        .shows_default();
    verb.option("--size", a.size, "Size of the model").takes("SIZE:{tiny,small,base}").shows_default();
    verb.integer("--steps", a.train.steps, {1, max_steps}, "Optimiser steps").shows_default();
}

void describe_model(Command& verb, Arguments& a) {
    verb.group("Model");
    verb.integer("--layers", a.layers, {1, max_size}, "Number of blocks. Default: set by --size");
    verb.integer("--width", a.width, {1, max_size}, "Number of channels. Default: set by --size");
    verb.integer("--heads", a.heads, {1, max_size}, "Number of attention heads. Default: set by --size");
    verb.integer("--kv-heads", a.kv_heads, {0, max_size},
                 "Llama only: number of key and value heads, a divisor of --heads. Default: --heads");
    verb.integer("--hidden", a.hidden, {0, max_size},
                 "Channels inside the feed-forward layer. "
                 "Default: 4 width; for llama 8/3 width, rounded up to a multiple of 32");
    verb.integer("--context", a.context, {1, max_size}, "Tokens per sample. Default: set by --size");
    verb.integer("--vocabulary", a.vocabulary, {1, max_size},
                 "Number of different tokens. "
                 "Default: set by --size; 256 for a text; the largest token plus one for tokens");
    verb.option("--rope-theta", a.rope_theta, "Llama only: base of the rotary positions. Default: 10000");
    const Option untied = verb.flag("--untied", a.untied, "Give lm_head separate weights (the default for llama)");
    verb.flag("--tied", a.tied, "Let lm_head share the token embedding (the default for gpt2)").excludes(untied);
    std::vector<std::string> gelus;
    for (const Activation& row : activations) gelus.emplace_back(row.name);
    verb.option("--gelu", a.gelu, "Variant of GELU").one_of(gelus).shows_default();
}

void describe_steps(Command& verb, Arguments& a) {
    verb.group("Optimiser and steps");
    verb.integer("--batch", a.batch, {1, max_size}, "Samples per micro-batch. Default: set by --size");
    verb.integer("--micro-batches", a.train.micro_batches, {1, max_size},
                 "Micro-batches whose gradients are added before each step")
        .shows_default();
    verb.option("--optimizer", a.optimizer, "Optimiser").one_of({"adamw", "sgd"}).shows_default();
    verb.option("--lr", a.train.lr, "Learning rate after warm-up").shows_default();
    verb.option("--min-lr", a.min_lr, "Learning rate at the end of the cosine schedule. Default: lr / 10");
    verb.integer("--warmup", a.train.warmup, {0, max_steps}, "Steps of linear warm-up").shows_default();
    verb.option("--clip", a.train.clip, "Maximum gradient norm; 0: no clipping").shows_default();
    verb.option("--weight-decay", a.train.weight_decay, "Weight decay; applies to matrices only").shows_default();
    verb.option("--momentum", a.train.momentum, "Momentum; applies to sgd only").shows_default();
    verb.option("--token-weight", a.token_weight,
                "Weight of every token's loss in the backward pass, a power of two. "
                "It is undone in fp32 before clipping. "
                "It makes gradients as small as those of a batch 1/weight times as large. "
                "Default: 2^-12 with the synthetic language, 1 with --data or --config");
    verb.integer("--ranks", a.train.ranks, {1, max_ranks},
                 "Number of data parallel ranks, a divisor of --batch. They are computed one after the other. "
                 "Each takes its share of a micro-batch. Gradients are reduced as [reduce] of the policy says")
        .shows_default();
    verb.flag("--recompute", a.train.recompute,
              "Gradient checkpointing: keep only the input of each block. "
              "Recompute the block for its backward pass. "
              "Changes the bytes of the activations, not the results");
}

void describe_configs(Command& verb, Arguments& a) {
    verb.group("Configs of frameworks (--config)");
    a.configs.add_options(verb);
}

void describe_records(Command& verb, Arguments& a) {
    verb.group("What is recorded");
    verb.integer("--eval-every", a.train.eval_every, {0, max_steps},
                 "Steps between held-out evaluations; 0: only at the end")
        .shows_default();
    verb.integer("--eval-batches", a.train.eval_batches, {1, max_size}, "Held-out batches per evaluation")
        .shows_default();
    verb.integer("--probe-every", a.train.probe_every, {0, max_steps},
                 "Steps between samples of all sites; 0: sample and count nothing")
        .shows_default();
    verb.integer("--histogram-every", a.train.histogram_every, {0, max_steps},
                 "Steps between exponent histograms, which are made only in sampled steps; 0: none")
        .shows_default();
    verb.integer("--dump-step", a.dump, {0, max_steps},
                 "Write step N (the first is 0) of the first policy and seed into FILE.safetensors. "
                 "It contains weights, gradients, moments, and the values at every site (of the last micro-batch). "
                 "Default: none")
        .takes("N FILE");
    verb.flag("--hash-sites", a.hash_sites,
              "Write hashes.csv with a hash of every tensor of every step. "
              "A diff of two such files finds the first operation in which two runs differ. Slow");
    verb.option("--export-inputs", a.inputs_file,
                "Write the initial weights and the samples of every step, for all seeds, into FILE.safetensors. "
                "Another framework can then train on the same inputs. Default: none")
        .takes(value_kind::file);
}

void describe_run(Command& verb, Arguments& a) {
    verb.group("Run directory and output");
    verb.option("-o,--out", a.out, "Run directory. Default: the next of runs/001, runs/002, ...")
        .takes(value_kind::folder);
    verb.flag("--force", a.force, "Replace an existing run directory");
    verb.option("--resume", a.resume, "Resume an interrupted run directory. Default: start a new run")
        .takes(value_kind::folder);
    verb.option("--from", a.from,
                "Repeat the run of a manifest.json bit for bit, in a new directory. "
                "Default: the options describe the run")
        .takes(value_kind::file);
    verb.integer("--save-every", a.save_every, {0, max_steps}, "Steps between checkpoints; 0: only when stopped")
        .default_text(fmt::format("{}", default_save_every));
    verb.flag("--dry-run", a.dry_run,
              "Print the plan: runs, time (measured with a few steps), memory, disk, problems. Writes nothing");
    verb.flag("--json", a.json, "Print the summary, or the plan, as JSON");
    const Option no_report = verb.flag("--no-report", a.no_report, "Write only the rows, without a report");
    verb.option("--png", a.png,
                "Also draw the beginning of the report into this PNG file. Needs Chromium or Chrome. Default: no "
                "picture")
        .excludes(no_report)
        .takes(value_kind::file);
    verb.flag("-q,--quiet", a.quiet, "Print no progress on stderr");
}

Experiment* asked_task = nullptr;  // set by train_task() while it reads a command line
void describe_task_asked(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    describe_task(verb, *a);
    describe_model(verb, *a);
    describe_steps(verb, *a);
    describe_configs(verb, *a);
    describe_records(verb, *a);
    describe_run(verb, *a);
    verb.runs([a, &verb] {
        validate(*asked_task = new_experiment(*a, verb));
        return Exit::ok;
    });
}
constexpr VerbRow task_row{"train", train_help, describe_task_asked};
constexpr const VerbRow* task_rows[] = {&task_row};

void describe(Command& verb) {
    const auto a = std::make_shared<Arguments>();
    describe_task(verb, *a);
    describe_model(verb, *a);
    describe_steps(verb, *a);
    describe_configs(verb, *a);
    describe_records(verb, *a);
    verb.group("Device and speed");
    add_device_options(verb, a->device);
    verb.integer("--jobs", a->jobs, {0, max_threads},
                 "Number of runs that train side by side and share the threads. "
                 "0: one per thread if runs are short, otherwise 1. The results do not depend on it. "
                 "After an interruption, runs that were ahead of the others restart from step 0")
        .shows_default();
    describe_run(verb, *a);
    verb.runs([a, &verb] { return run(*a, verb); });
}

}  // namespace

const VerbRow verb{"train", train_help, describe, train_notes};

Experiment train_task(const std::vector<std::string>& options) {
    std::vector<std::string> words{"macheps", "train"};
    words.insert(words.end(), options.begin(), options.end());
    Experiment task;
    asked_task = &task;
    const CommandLine line({"macheps", train_help, [](Command& program) { program.verbs(task_rows); }}, words);
    try {
        line.run();
    } catch (const Error& error) {
        throw Error({.what = in_options(*line.verb(), error), .exit = error.exit()});
    }
    return task;
}

}  // namespace macheps::cmd::train
