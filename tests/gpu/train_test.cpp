// SPDX-License-Identifier: Apache-2.0
// Tests that training with the GPU kernels, run on the host, writes the same bytes as training with the CPU backend.
// The emulators of GPU instructions are not tested here, because that needs a GPU.
#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/trainer.hpp"
#include "tests/gpu/host_backend.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fstream>
#include <sstream>

namespace train_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

namespace fs = std::filesystem;

fs::path fresh_directory(const std::string& name) {
    const fs::path path = memory_folder() / name;
    fs::remove_all(path);
    fs::create_directories(path.parent_path());
    return path;
}

std::string contents(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

Experiment small_experiment(ModelKind kind, const std::vector<std::string>& policies, std::int64_t steps) {
    Experiment experiment;
    for (const std::string& name : policies) experiment.policies.push_back(load_policy(name));
    experiment.model = {.layers = 2, .width = 32, .heads = 2, .context = 20, .vocabulary = 40};
    if (kind == ModelKind::llama) {
        experiment.model.kind = kind;
        experiment.model.kv_heads = 1;
        experiment.model.tied = false;
    }
    experiment.options.steps = steps;
    experiment.options.batch = 3;
    experiment.options.micro_batches = 2;
    experiment.options.warmup = 3;
    experiment.options.eval_every = 2;
    experiment.options.eval_batches = 1;
    experiment.options.probe_every = 2;
    experiment.options.histogram_every = 2;
    experiment.options.token_weight = 0x1p-12;
    experiment.hash_sites = true;
    return experiment;
}

/// Returns the first line in which two texts differ, or an empty text if they are equal.
std::string first_difference(const std::string& a, const std::string& b) {
    std::istringstream left(a), right(b);
    for (std::string x, y; std::getline(left, x);) {
        if (!std::getline(right, y)) return "only the first has: " + x;
        if (x != y) return x + " | " + y;
    }
    return a == b ? "" : "one is longer";
}

const std::atomic<bool> never{false};

/// Trains with two backends. Returns the first difference between the files that they write, or an empty text.
std::string difference(Backend& first, Backend& second, Experiment experiment) {
    const fs::path a = fresh_directory("first"), b = fresh_directory("second");
    experiment.directory = a;
    REQUIRE(run_experiment(first, experiment, {}, never));
    experiment.directory = b;
    REQUIRE(run_experiment(second, experiment, {}, never));
    for (const char* file : {"hashes.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
        CHECK(contents(a / file).size() > 300);
        const std::string line = first_difference(contents(a / file), contents(b / file));
        if (!line.empty()) return std::string(file) + ": " + line;
    }
    fs::remove_all(a.parent_path());
    return "";
}

}  // namespace

TEST_CASE("GPU kernels on the host train like the CPU backend, with and without matrix instructions", "[gpu][train]") {
    const std::vector<std::string> plain{"fp32", "amp-fp16", "pure-bf16-sr", "fp8-tensorwise"};
    const std::vector<std::string> machines{"fp32",          "h100-tf32",     "h100-amp-fp16",
                                            "h100-amp-bf16", "h100-fp8-fast", "h100-fp8-promoted"};
    const std::vector<std::string> foreign{"fp32", "a100-amp-fp16", "b200-nvfp4"};
    struct Case {
        ModelKind kind;
        std::vector<std::string> policies;
        gpu::MatrixUnits units;
        std::int64_t steps;
    };
    const std::vector<Case> cases{{ModelKind::gpt2, plain, gpu::MatrixUnits::native, 3},
                                  {ModelKind::gpt2, machines, gpu::MatrixUnits::native, 3},
                                  {ModelKind::llama, machines, gpu::MatrixUnits::native, 2},
                                  {ModelKind::gpt2, machines, gpu::MatrixUnits::emulated, 1},
                                  {ModelKind::gpt2, foreign, gpu::MatrixUnits::native, 1}};
    for (const Case& each : cases) {
        CAPTURE(static_cast<int>(each.kind), each.policies, static_cast<int>(each.units));
        CpuBackend cpu(2);
        const bool guarded = &each == cases.data();
        const auto host = host_device_backend(each.units, 90, guarded);
        CHECK(difference(cpu, *host, small_experiment(each.kind, each.policies, each.steps)) == "");
    }
}

TEST_CASE("hashes.csv names the first operation in which two runs differ", "[gpu][train]") {
    CpuBackend cpu(1);
    Experiment experiment = small_experiment(ModelKind::gpt2, {"fp32"}, 1), other = experiment;
    experiment.policies = {parse_policy("name = \"x\"\n", "test")};
    other.policies = {
        parse_policy("name = \"x\"\n[[rule]]\nsites = \"block.1.mlp.up:forward.out\"\ncast = \"bf16\"\n", "test")};
    const fs::path a = fresh_directory("as_it_is"), b = fresh_directory("rounded");
    experiment.directory = a;
    other.directory = b;
    REQUIRE(run_experiment(cpu, experiment, {}, never));
    REQUIRE(run_experiment(cpu, other, {}, never));
    const std::string line = first_difference(contents(a / "hashes.csv"), contents(b / "hashes.csv"));
    CHECK(line.starts_with("x/0,0,0,block.1.mlp.up:forward.out,"));
    fs::remove_all(a.parent_path());
}

}  // namespace train_test
