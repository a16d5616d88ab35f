// SPDX-License-Identifier: Apache-2.0
// `macheps train`: policies x seeds on a small transformer, into a run directory with its report.
#include "core/nearest_name.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/cmd/command.hpp"
#include "experiments/cmd/progress.hpp"
#include "experiments/train/experiment.hpp"

#include "reports/divergence.hpp"
#include "reports/html.hpp"
#include "reports/summary_table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <memory>
#include <optional>

namespace macheps {

namespace {

constexpr const char* help =
    "Trains a small transformer under each precision policy, next to fp32, and reports what rounding did.\n\n"
    "Examples:\n"
    "  macheps train                                          the demo: eight policies, a minute or two\n"
    "  macheps train --policy amp-fp16,fp16-noscale           two policies (fp32 is added: it is the baseline)\n"
    "  macheps train --policy ./mine.toml --seeds 0,1,2,3,4   your own policy, with an interval for the gap\n"
    "  macheps train --data corpus.txt --size small           a text of your own, as bytes\n\n"
    "Without --policy it is the demo, over seeds 0,1,2 and with --token-weight 2^-12. Its policies:\n"
    "fp32 tf32 amp-bf16 pure-bf16 pure-bf16-sr amp-fp16 fp16-noscale fp8-tensorwise.\n"
    "Writes runs.csv, steps.csv, evals.csv, sites.csv, exponents.csv, summary.csv, manifest.json and report.html.";

const std::vector<std::string> demo_policies{"fp32",         "tf32",     "amp-bf16",     "pure-bf16",
                                             "pure-bf16-sr", "amp-fp16", "fp16-noscale", "fp8-tensorwise"};
/// Three, so that a gap has an interval.
const std::vector<std::int64_t> demo_seeds{0, 1, 2};
/// Stands in for a batch 4096 times as large: at this size gradients do not underflow by themselves.
constexpr double demo_token_weight = 0x1p-12;

std::atomic<bool> stop_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void request_stop(int) { stop_requested.store(true); }

/// A number, or a power written 2^-12.
double parse_weight(const std::string& text) {
    const bool is_power = text.starts_with("2^");
    const char *first = text.data() + (is_power ? 2 : 0), *last = text.data() + text.size();
    double value = 0;
    const auto [end, error] = std::from_chars(first, last, value);
    if (error != std::errc{} || end != last ||
        (is_power && (value < -1000 || value > 1000 || value != static_cast<int>(value)))) {
        throw Error({.what = fmt::format("'{}' is no number", text),
                     .where = "--token-weight",
                     .fix = "give a power of two such as 2^-12 or 0.5",
                     .exit = Exit::usage});
    }
    return is_power ? Format::power_of_two(static_cast<int>(value)) : value;
}

struct Arguments {
    std::vector<std::string> policies;
    std::string size = "tiny", gelu = "erf", optimizer = "adamw", data, out, token_weight;
    std::optional<std::int64_t> layers, width, heads, context, vocabulary, batch;
    bool untied = false, force = false, quiet = false, no_report = false;
    std::vector<std::int64_t> seeds;
    TrainOptions train;
    std::optional<double> min_lr;
    int threads = 0;
    std::vector<std::string> command;
};

Experiment make_experiment(const Arguments& a) {
    const ModelSize& size = named_size(a.size);
    Experiment experiment;
    experiment.model = size.model;
    experiment.options = a.train;
    ModelConfig& model = experiment.model;
    if (!a.data.empty()) model.vocabulary = 256;
    model.layers = a.layers.value_or(model.layers);
    model.width = a.width.value_or(model.width);
    model.heads = a.heads.value_or(model.heads);
    model.context = a.context.value_or(model.context);
    model.vocabulary = a.vocabulary.value_or(model.vocabulary);
    model.tied = !a.untied;
    model.gelu = a.gelu == "tanh" ? Gelu::tanh : Gelu::erf;
    experiment.options.batch = a.batch.value_or(size.batch);
    experiment.options.optimizer = a.optimizer == "sgd" ? OptimizerKind::sgd : OptimizerKind::adamw;
    experiment.options.min_lr = a.min_lr.value_or(a.train.lr / 10);
    const bool is_demo = a.policies.empty();
    experiment.seeds = !a.seeds.empty() ? a.seeds : is_demo ? demo_seeds : std::vector<std::int64_t>{0};
    if (!a.token_weight.empty()) {
        experiment.options.token_weight = parse_weight(a.token_weight);
    } else if (is_demo) {
        experiment.options.token_weight = demo_token_weight;
    }

    std::vector<std::string> names = is_demo ? demo_policies : a.policies;
    if (std::find(names.begin(), names.end(), "fp32") == names.end()) names.insert(names.begin(), "fp32");
    for (const std::string& name : names) {
        experiment.policies.push_back(load_policy(name));
        const auto same = [&](const Policy& p) { return p.name == experiment.policies.back().name; };
        if (std::count_if(experiment.policies.begin(), experiment.policies.end(), same) > 1) {
            throw Error({.what = fmt::format("two policies are called '{}'", experiment.policies.back().name),
                         .where = "--policy",
                         .fix = "name each once, and give your own policies names of their own",
                         .exit = Exit::usage});
        }
    }
    auto seeds = experiment.seeds;
    std::sort(seeds.begin(), seeds.end());
    if (std::adjacent_find(seeds.begin(), seeds.end()) != seeds.end()) {
        throw Error(
            {.what = "a seed is named twice", .where = "--seeds", .fix = "name each once", .exit = Exit::usage});
    }
    experiment.data_file = a.data;
    experiment.directory = a.out.empty() ? next_run_directory() : std::filesystem::path(a.out);
    experiment.force = a.force;
    experiment.command = a.command;
    return experiment;
}

/// Summary on stdout, summary.csv and report.html beside the rows.
Exit finish(const Experiment& experiment, bool finished, bool no_report) {
    const std::filesystem::path& directory = experiment.directory;
    const std::filesystem::path folders[] = {directory};
    const Log log = read_runs(folders);
    if (log.runs.empty() || no_report) return finished ? Exit::ok : Exit::interrupted;
    const Summary summary = summarise(log);
    write_summary(summary, directory / "summary.csv");
    fmt::print("{}", summary_table(summary, colour_for(STDOUT_FILENO)));
    write_page(log, summary, directory / "report.html");
    fmt::print(stderr, "Rows and page: {}\n", (directory / "report.html").string());
    return finished ? Exit::ok : Exit::interrupted;
}

Exit run(const Arguments& arguments) {
    const Experiment experiment = make_experiment(arguments);
    CpuBackend backend(arguments.threads);
    stop_requested = false;
    std::signal(SIGINT, request_stop);
    std::signal(SIGTERM, request_stop);
    ProgressBar bar;
    const auto progress = [&](const Progress& p) {
        if (!arguments.quiet) bar.show(p);
    };
    bool finished = false;
    try {
        finished = run_experiment(backend, experiment, progress, stop_requested);
    } catch (...) {
        bar.end();
        throw;
    }
    bar.end();
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    return finish(experiment, finished, arguments.no_report);
}

}  // namespace

void add_train(CLI::App& app, Verb& chosen, std::vector<std::string> command_line) {
    CLI::App* verb = app.add_subcommand("train", help);
    const auto a = std::make_shared<Arguments>();
    a->command = std::move(command_line);
    verb->add_option("-p,--policy", a->policies,
                     "Policies: presets (macheps policy list) or .toml files; the demo's when left out")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--seeds", a->seeds,
                     "Seeds; each gives every policy the same weights and batches; 0, in the demo 0,1,2")
        ->delimiter(',')
        ->allow_extra_args(false);
    verb->add_option("--data", a->data, "A text file, read as bytes; the synthetic language when left out");
    verb->add_option("-o,--out", a->out, "Run directory; runs/001, runs/002, ... when left out");
    verb->add_flag("--force", a->force, "Replace an existing run directory");
    verb->add_option("--size", a->size, "tiny, small or base")->capture_default_str();
    verb->add_option("--layers", a->layers, "Blocks; by --size");
    verb->add_option("--width", a->width, "Channels; by --size");
    verb->add_option("--heads", a->heads, "Attention heads; by --size");
    verb->add_option("--context", a->context, "Tokens a sample; by --size");
    verb->add_option("--vocabulary", a->vocabulary, "Tokens there are; by --size, 256 with --data");
    verb->add_flag("--untied", a->untied, "Give lm_head weights of its own");
    verb->add_option("--gelu", a->gelu, "erf or tanh")->check(CLI::IsMember({"erf", "tanh"}))->capture_default_str();
    verb->add_option("--steps", a->train.steps, "Optimiser steps")->capture_default_str();
    verb->add_option("--batch", a->batch, "Samples a micro-batch; by --size");
    verb->add_option("--micro-batches", a->train.micro_batches, "Micro-batches whose gradients are added before a step")
        ->capture_default_str();
    verb->add_option("--optimizer", a->optimizer, "adamw or sgd")
        ->check(CLI::IsMember({"adamw", "sgd"}))
        ->capture_default_str();
    verb->add_option("--lr", a->train.lr, "Learning rate after warm-up")->capture_default_str();
    verb->add_option("--min-lr", a->min_lr, "Learning rate at the end of the cosine; lr / 10 when left out");
    verb->add_option("--warmup", a->train.warmup, "Steps of linear warm-up")->capture_default_str();
    verb->add_option("--clip", a->train.clip, "Largest gradient norm; 0: no clipping")->capture_default_str();
    verb->add_option("--weight-decay", a->train.weight_decay, "Of matrices only")->capture_default_str();
    verb->add_option("--momentum", a->train.momentum, "For sgd")->capture_default_str();
    verb->add_option(
        "--token-weight", a->token_weight,
        "Weight of every token's loss in the backward pass, undone in fp32 before clipping: a stand-in for a batch "
        "1/weight times as large; a power of two; 1, in the demo 2^-12");
    verb->add_option("--eval-every", a->train.eval_every, "Steps between held-out evaluations; 0: only at the end")
        ->capture_default_str();
    verb->add_option("--eval-batches", a->train.eval_batches, "Held-out batches an evaluation")->capture_default_str();
    verb->add_option("--probe-every", a->train.probe_every, "Steps between samples of every site; 0: count nothing")
        ->capture_default_str();
    verb->add_option("--histogram-every", a->train.histogram_every,
                     "Of the sampled steps, which keep exponent histograms")
        ->capture_default_str();
    verb->add_option("--threads", a->threads,
                     "Threads; 0: every core this process may use. The results do not depend on it")
        ->capture_default_str();
    verb->add_flag("--no-report", a->no_report, "Write rows only");
    verb->add_flag("-q,--quiet", a->quiet, "No progress on stderr");
    verb->callback([a, &chosen] { chosen = [a] { return run(*a); }; });
}

}  // namespace macheps
