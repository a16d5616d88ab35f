// SPDX-License-Identifier: Apache-2.0
#include "experiments/train/experiment.hpp"

#include "core/error.hpp"
#include "experiments/train/trainer.hpp"
#include "experiments/version.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

namespace macheps {

namespace {

constexpr const char* files_of_a_run[] = {"manifest.json", "runs.csv",      "steps.csv",   "evals.csv",
                                          "sites.csv",     "exponents.csv", "summary.csv", "report.html"};

void check(const TrainOptions& o) {
    const auto refuse = [](const char* option, const std::string& what, const char* fix) {
        throw Error({.what = what, .where = option, .fix = fix, .exit = Exit::usage});
    };
    const auto at_least = [&](const char* option, std::int64_t value, std::int64_t least) {
        if (value < least)
            refuse(option, fmt::format("{} is too small", value), least == 0 ? "give 0 or more" : "give 1 or more");
    };
    at_least("--steps", o.steps, 1);
    at_least("--batch", o.batch, 1);
    at_least("--micro-batches", o.micro_batches, 1);
    at_least("--warmup", o.warmup, 0);
    at_least("--eval-every", o.eval_every, 0);
    at_least("--eval-batches", o.eval_batches, 1);
    at_least("--probe-every", o.probe_every, 0);
    at_least("--histogram-every", o.histogram_every, 0);
    if (!(o.lr > 0) || !std::isfinite(o.lr))
        refuse("--lr", fmt::format("{} is no learning rate", o.lr), "give a positive number");
    if (!(o.min_lr >= 0) || o.min_lr > o.lr)
        refuse("--min-lr", fmt::format("{} does not lie in 0 .. lr", o.min_lr), "give at most --lr");
    int exponent = 0;
    if (!(o.token_weight > 0) || std::frexp(o.token_weight, &exponent) != 0.5 || std::abs(exponent) > 100) {
        refuse("--token-weight", fmt::format("{} is no power of two", o.token_weight),
               "give a power of two, so that undoing it is exact, for instance 2^-12");
    }
}

/// Makes the directory, or clears what an earlier run left in it when forced.
void prepare_directory(const Experiment& experiment) {
    const auto& directory = experiment.directory;
    std::error_code error;
    const auto cannot_write = [&](const std::string& what) {
        throw Error({.what = what,
                     .where = directory.string(),
                     .fix = "choose another directory with --out",
                     .exit = Exit::cannot_write});
    };
    if (std::filesystem::exists(directory, error) && !std::filesystem::is_directory(directory, error)) {
        cannot_write("this is a file, not a directory");
    }
    if (std::filesystem::exists(directory / "manifest.json", error) ||
        std::filesystem::exists(directory / "runs.csv", error)) {
        if (!experiment.force) {
            throw Error({.what = "this run directory exists already",
                         .where = directory.string(),
                         .fix = "give another --out, or --force to replace it",
                         .exit = Exit::usage});
        }
        for (const char* name : files_of_a_run) std::filesystem::remove(directory / name, error);
        if (error) cannot_write(fmt::format("cannot remove the earlier run: {}", error.message()));
    }
    std::filesystem::create_directories(directory, error);
    if (error) cannot_write(fmt::format("cannot make the directory: {}", error.message()));
}

nlohmann::ordered_json manifest(const Backend& backend, const Experiment& experiment, const Data& data,
                                const std::vector<ResolvedPolicy>& resolved) {
    const ModelConfig& m = experiment.model;
    const TrainOptions& o = experiment.options;
    nlohmann::ordered_json policies;
    for (std::size_t i = 0; i < resolved.size(); ++i) {
        nlohmann::ordered_json rows = nlohmann::ordered_json::array();
        for (const ResolvedPolicy::Row& row : resolved[i].table()) {
            if (row.cast != "fp32" || (row.machine != "" && row.machine != "fp32.chain")) {
                rows.push_back({row.site + ":" + row.slot, row.cast, row.machine});
            }
        }
        policies[resolved[i].name] = {{"description", resolved[i].description},
                                      {"toml", experiment.policies[i].text},
                                      {"left_out", resolved[i].left_out},
                                      {"resolved", rows}};
    }
    return {{"schema", schema_version},
            {"command", experiment.command},
            {"created_by", std::string("macheps ") + version()},
            {"git", git_revision()},
            {"device", backend.name()},
            {"model",
             {{"kind", "gpt2"},
              {"layers", m.layers},
              {"width", m.width},
              {"heads", m.heads},
              {"context", m.context},
              {"vocabulary", m.vocabulary},
              {"tied", m.tied},
              {"gelu", m.gelu == Gelu::erf ? "erf" : "tanh"},
              {"parameters", parameter_count(m)}}},
            {"data", {{"what", data.describe()}, {"file", experiment.data_file.string()}}},
            {"train",
             {{"steps", o.steps},
              {"batch", o.batch},
              {"micro_batches", o.micro_batches},
              {"optimizer", o.optimizer == OptimizerKind::adamw ? "adamw" : "sgd"},
              {"lr", o.lr},
              {"min_lr", o.min_lr},
              {"warmup", o.warmup},
              {"beta1", o.beta1},
              {"beta2", o.beta2},
              {"eps", o.eps},
              {"weight_decay", o.weight_decay},
              {"momentum", o.momentum},
              {"clip", o.clip},
              {"token_weight", o.token_weight},
              {"eval_every", o.eval_every},
              {"eval_batches", o.eval_batches},
              {"probe_every", o.probe_every},
              {"histogram_every", o.histogram_every}}},
            {"seeds", experiment.seeds},
            {"policies", policies}};
}

void write_manifest(const std::filesystem::path& directory, const nlohmann::ordered_json& json) {
    const auto path = directory / "manifest.json";
    std::ofstream out(path, std::ios::binary);
    out << json.dump(2) << '\n';
    out.close();
    if (!out) {
        throw Error({.what = fmt::format("cannot write: {}", std::strerror(errno)),
                     .where = path.string(),
                     .fix = "check the permissions and the free space",
                     .exit = Exit::cannot_write});
    }
}

}  // namespace

bool run_experiment(Backend& backend, const Experiment& experiment,
                    const std::function<void(const Progress&)>& progress, const std::atomic<bool>& stop) {
    macheps::check(experiment.model);
    check(experiment.options);
    const SiteList sites = model_sites(experiment.model);
    std::vector<ResolvedPolicy> resolved;
    for (const Policy& policy : experiment.policies) resolved.push_back(resolve(policy, sites));
    const ResolvedPolicy fp32_policy = resolve(load_policy("fp32"), sites);
    std::unique_ptr<Data> data;
    if (experiment.data_file.empty()) {
        data = std::make_unique<SyntheticLanguage>(experiment.model.vocabulary);
    } else {
        data = std::make_unique<TextFile>(experiment.data_file, experiment.model.context);
        if (experiment.model.vocabulary < data->vocabulary()) {
            throw Error({.what = fmt::format("a text of bytes has {} tokens, the model {}", data->vocabulary(),
                                             experiment.model.vocabulary),
                         .where = "--vocabulary",
                         .fix = "leave it out or give 256",
                         .exit = Exit::usage});
        }
    }
    prepare_directory(experiment);
    write_manifest(experiment.directory, manifest(backend, experiment, *data, resolved));

    std::vector<const ResolvedPolicy*> order;
    for (const ResolvedPolicy& policy : resolved) order.push_back(&policy);
    std::stable_partition(order.begin(), order.end(), [](const ResolvedPolicy* p) { return p->name == "fp32"; });

    RunFiles files(experiment.directory);
    Progress now{.runs = order.size() * experiment.seeds.size(), .steps = experiment.options.steps};
    for (const std::int64_t seed : experiment.seeds) {
        std::vector<float> baseline;
        for (const ResolvedPolicy* policy : order) {
            const bool is_baseline = policy->name == "fp32";
            now.policy = policy->name;
            now.seed = seed;
            now.finished = false;
            RunRequest request{.policy = *policy,
                               .fp32 = fp32_policy,
                               .model = experiment.model,
                               .options = experiment.options,
                               .data = *data,
                               .seed = seed,
                               .stop = &stop};
            request.is_baseline = is_baseline;
            if (!is_baseline && !baseline.empty()) request.baseline = &baseline;
            request.on_step = [&](std::int64_t step, float loss) {
                now.step = step + 1;
                now.loss = loss;
                if (progress) progress(now);
            };
            const RunResult result = train(backend, request, files);
            if (is_baseline) baseline = result.losses;
            now.finished = true;
            now.status = result.status;
            if (progress) progress(now);
            ++now.index;
            if (result.status == "interrupted") return false;
        }
    }
    return true;
}

std::filesystem::path next_run_directory() {
    for (int i = 1;; ++i) {
        std::filesystem::path path = fmt::format("runs/{:03}", i);
        if (!std::filesystem::exists(path)) return path;
    }
}

}  // namespace macheps
