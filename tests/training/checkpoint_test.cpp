// SPDX-License-Identifier: Apache-2.0
// Tests that a run that is killed and resumed writes the same bytes as an uninterrupted run, whatever files the kill
// left.
#include "experiments/training/run/checkpoint.hpp"

#include "core/error.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "experiments/training/run/directory/run_directory.hpp"
#include "experiments/training/run/experiment.hpp"
#include "experiments/training/run/experiment_runs.hpp"
#include "experiments/training/run/trainer.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <fstream>
#include <map>
#include <random>

namespace checkpoint_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;
using namespace macheps::reports;
namespace fs = std::filesystem;

namespace {

/// A policy under which a run has every kind of state: weights are cast with random bits, scales have histories,
/// gradients overflow, and steps are skipped.
constexpr const char* restless = R"(
name    = "restless"
extends = "amp-fp16"
[[rule]]
sites   = "block.*.{attn.qkv,mlp.up}"
forward = { b = "fp16:stochastic" }
[[rule]]
sites      = "block.*.mlp.down"
recipe     = "te-delayed:history=3"
input_grad = { a = "e5m2/tensor:te_delayed:history=2:most_recent" }
multiple_of = 8
[loss_scaler]
kind            = "torch"
init_scale      = 1048576.0
growth_interval = 2
)";

fs::path folder(const std::string& name) { return test::memory_folder() / ("checkpoint_" + name); }

fs::path fresh_folder(const std::string& name) {
    fs::remove_all(folder(name));
    return folder(name);
}

void write(const fs::path& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

Experiment tiny_experiment(const fs::path& directory) {
    Experiment e;
    e.policies = {load_policy("fp32"), parse_policy(restless, "restless.toml"), load_policy("pure-bf16-sr")};
    e.seeds = {0, 7};
    e.model = {.layers = 1, .width = 8, .heads = 2, .context = 6, .vocabulary = 24};
    e.options.steps = 8;
    e.options.batch = 2;
    e.options.micro_batches = 2;
    e.options.warmup = 2;
    e.options.eval_every = 2;
    e.options.eval_batches = 1;
    e.options.probe_every = 1;
    e.options.histogram_every = 4;
    e.save_every = 3;
    e.directory = directory;
    return e;
}

const std::atomic<bool> never{false};
struct PulledPlug {};

/// Runs the experiment. When `plug(progress)` returns true, the run ends at once, as if the process were killed.
/// Returns whether the experiment reached its end.
bool run(Experiment experiment, const std::function<bool(const Progress&)>& plug = {},
         std::vector<std::string>* notes = nullptr, int threads = 1, Simd simd = chosen_simd()) {
    CpuBackend backend(threads, simd);
    try {
        return run_experiment(
            backend, experiment,
            [&](const Progress& p) {
                if (!p.note.empty() && notes != nullptr) notes->push_back(p.note);
                if (p.note.empty() && plug && plug(p)) throw PulledPlug{};
            },
            never);
    } catch (const PulledPlug&) {
        return false;
    }
}

/// Returns an experiment that resumes `directory`. Like the program, it reads the experiment from the manifest.
Experiment resumed(const fs::path& directory) {
    Experiment experiment = read_manifest(directory / "manifest.json").experiment;
    experiment.directory = directory;
    experiment.resume = true;
    return experiment;
}

/// Returns the manifest and every file of rows, without the columns that contain times.
std::map<std::string, std::string> rows(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv", "manifest.json"}) {
        files[name] = csv::read_text(directory / name);
    }
    for (RunRow row : CsvReader<RunRow>(directory / RunRow::file).rows()) {
        row.seconds = row.tokens_per_second = 0;
        csv::append_line(files["runs.csv"], row);
    }
    return files;
}

void check_same_rows(const fs::path& directory, const std::map<std::string, std::string>& wanted) {
    for (const auto& [name, text] : rows(directory)) {
        CAPTURE(name, text.size(), wanted.at(name).size());
        CHECK((text == wanted.at(name)));
    }
    CHECK_FALSE(fs::exists(directory / "checkpoints"));
    CHECK_FALSE(fs::exists(directory / ".lock"));
}

/// Returns the files of an uninterrupted run.
const std::map<std::string, std::string>& reference() {
    static const auto files = [] {
        const fs::path directory = fresh_folder("reference");
        REQUIRE(run(tiny_experiment(directory)));
        auto all = rows(directory);
        fs::remove_all(directory);
        return all;
    }();
    return files;
}

/// Returns a directory whose third run was killed after its eighth and last step. It has checkpoints after 3 and 6
/// steps.
fs::path ended_directory(const std::string& name) {
    const fs::path directory = fresh_folder(name);
    run(tiny_experiment(directory), [](const Progress& p) { return p.index == 2 && p.step == 8; });
    return directory;
}

std::vector<fs::path> checkpoints_of(const fs::path& directory) { return CheckpointFolder(directory).files(2); }

/// Replaces `from` by `to` in a checkpoint, and updates its checksum.
std::string edited(std::string bytes, const std::string& from, const std::string& to) {
    const auto at = bytes.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(from.size() == to.size());
    bytes.replace(at, from.size(), to);
    bytes.resize(bytes.size() - 8);
    const std::uint64_t sum = checksum_of(bytes);
    return bytes.append(reinterpret_cast<const char*>(&sum), 8);
}

}  // namespace

TEST_CASE("the tiny run of these tests takes some steps and skips others, including a step at a checkpoint",
          "[experiments][checkpoint]") {
    // The tests below need skipped steps, completed steps, and a skipped step at a checkpoint.
    const fs::path directory = fresh_folder("restless");
    run(tiny_experiment(directory));
    std::map<std::string, int> skipped, taken;
    bool skipped_at_a_checkpoint = false;
    for (const StepRow& row : CsvReader<StepRow>(directory / "steps.csv").rows()) {
        ++(row.skipped ? skipped : taken)[row.policy];
        skipped_at_a_checkpoint = skipped_at_a_checkpoint || (row.skipped && row.step % 3 == 2);
    }
    CHECK(skipped["restless"] >= 3);
    CHECK(taken["restless"] >= 3);
    CHECK(skipped_at_a_checkpoint);
    fs::remove_all(directory);
}

TEST_CASE("a run that is killed after any step and then resumed writes the same bytes", "[experiments][checkpoint]") {
    for (std::size_t index = 0; index < 6; ++index) {
        for (std::int64_t step = 1 + static_cast<std::int64_t>(index) % 3; step <= 8; step += 3) {
            CAPTURE(index, step);
            const fs::path directory = fresh_folder("killed");
            run(tiny_experiment(directory), [&](const Progress& p) { return p.index == index && p.step == step; });
            // The resumed run is killed one step later.
            run(resumed(directory), [&](const Progress& p) { return p.index == index && p.step == step + 1; });
            REQUIRE(run(resumed(directory)));
            check_same_rows(directory, reference());
        }
    }
    fs::remove_all(folder("killed"));
}

TEST_CASE("a run that is stopped after every step and resumed each time writes the same bytes",
          "[experiments][checkpoint]") {
    const fs::path directory = fresh_folder("stopped");
    Experiment experiment = tiny_experiment(directory);
    experiment.seeds = {7};
    experiment.save_every = 0;
    const fs::path whole = fresh_folder("whole");
    Experiment reference_run = experiment;
    reference_run.directory = whole;
    REQUIRE(run(reference_run));
    int stops = 0;
    for (bool finished = false; !finished; ++stops) {
        CpuBackend backend(1);
        std::atomic<bool> stop{false};
        finished = run_experiment(
            backend, experiment, [&](const Progress& p) { stop = stop || !p.finished; }, stop);
        if (!finished) experiment = resumed(directory);
        REQUIRE(stops < 100);
        // A stopped run has not ended, so it has no row in runs.csv.
        for (const RunRow& row : CsvReader<RunRow>(directory / RunRow::file).rows()) CHECK(row.status == "ok");
    }
    CHECK(stops >= 3 * 8);
    check_same_rows(directory, rows(whole));
    fs::remove_all(directory);
    fs::remove_all(whole);
}

TEST_CASE("a run resumed with more threads and another SIMD path writes the same bytes", "[experiments][checkpoint]") {
    const auto paths = available_simd();
    for (std::size_t i = 0; i < paths.size(); ++i) {
        const fs::path directory = fresh_folder("paths");
        Experiment experiment = tiny_experiment(directory);
        run(
            experiment, [](const Progress& p) { return p.index == 1 && p.step == 7; }, nullptr, 1, paths[i]);
        REQUIRE(run(resumed(directory), {}, nullptr, 3, paths[(i + 1) % paths.size()]));
        auto wanted = reference();
        wanted["manifest.json"] = csv::read_text(directory / "manifest.json");  // names the device of the first process
        check_same_rows(directory, wanted);
        fs::remove_all(directory);
    }
}

TEST_CASE("a checkpoint with any byte changed, or truncated to any length, is refused", "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("flipped");
    const std::string good = csv::read_text(checkpoints_of(directory).front());
    const Checkpoint checkpoint = parse_checkpoint(good, "good");
    CHECK(checkpoint.run == "pure-bf16-sr/0");
    CHECK(checkpoint.step == 6);
    CHECK(to_bytes(checkpoint) == good);
    std::mt19937 random(1);
    std::size_t accepted = 0;
    const auto is_refused = [&](std::string_view bytes) {
        try {
            parse_checkpoint(bytes, "bad");
            return false;
        } catch (const Error&) {
            return true;
        }
    };
    std::string bad = good;
    for (std::size_t i = 0; i < bad.size(); ++i) {
        bad[i] = static_cast<char>(bad[i] ^ (1 << random() % 8));
        accepted += is_refused(bad) ? 0 : 1;
        bad[i] = good[i];
    }
    for (std::size_t size = 0; size < good.size(); ++size) {
        accepted += is_refused(std::string_view(good).substr(0, size)) ? 0 : 1;
    }
    accepted += is_refused(good + '\0') ? 0 : 1;
    CHECK(accepted == 0);
    CHECK(good.size() > 5000);
    // The checksum is right, but the version or a key is wrong.
    CHECK(is_refused(edited(good, "\"macheps.checkpoint\":\"2\"", "\"macheps.checkpoint\":\"3\"")));
    CHECK(is_refused(edited(good, "\"seconds\"", "\"secondz\"")));
    fs::remove_all(directory);
}

TEST_CASE("a checkpoint whose step is zero or negative is refused", "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("step_zero");
    Checkpoint checkpoint = parse_checkpoint(csv::read_text(checkpoints_of(directory).front()), "a checkpoint");
    for (const std::int64_t step : {std::int64_t{1}, checkpoint.step}) {
        checkpoint.step = step;
        CHECK(parse_checkpoint(to_bytes(checkpoint), "a checkpoint").step == step);
    }
    for (const std::int64_t step : {0, -1}) {
        checkpoint.step = step;
        CHECK_THROWS_AS(parse_checkpoint(to_bytes(checkpoint), "a checkpoint"), Error);
    }
    fs::remove_all(directory);
}

TEST_CASE("a refused checkpoint is reported, and the run resumes from the previous checkpoint or from its beginning",
          "[experiments][checkpoint]") {
    const fs::path other = fresh_folder("other_model");
    Experiment wider = tiny_experiment(other);
    wider.model.width = 12;
    run(wider, [](const Progress& p) { return p.index == 2 && p.step == 8; });
    const std::string foreign = csv::read_text(checkpoints_of(other).front());
    const auto damage = [](std::string bytes) { return bytes[bytes.size() / 2] ^= 4, bytes; };
    const auto newer = [](const std::string& bytes) {
        return edited(bytes, "\"macheps.checkpoint\":\"2\"", "\"macheps.checkpoint\":\"3\"");
    };
    const auto renamed = [](const std::string& bytes) {
        return edited(bytes, "\"pure-bf16-sr/0\"", "\"pure-bf16-sr/1\"");
    };
    struct Case {
        const char* says;
        std::function<std::string(const std::string&)> spoil;
        bool both;
    };
    for (const Case& c : {Case{"damaged", damage, false}, Case{"damaged", damage, true},
                          Case{"version 3", newer, false}, Case{"run pure-bf16-sr/1", renamed, false},
                          Case{"another manifest", [&](const std::string&) { return foreign; }, false},
                          Case{"truncated", [](const std::string&) { return std::string{}; }, true}}) {
        CAPTURE(c.says, c.both);
        const fs::path directory = ended_directory("refused");
        const auto files = checkpoints_of(directory);
        REQUIRE(files.size() == 2);
        write(files[0], c.spoil(csv::read_text(files[0])));
        if (c.both) write(files[1], c.spoil(csv::read_text(files[1])));
        std::vector<std::string> notes;
        std::optional<std::int64_t> first_step;
        REQUIRE(run(
            resumed(directory),
            [&](const Progress& p) {
                if (!first_step) first_step = p.step;
                return false;
            },
            &notes));
        REQUIRE(notes.size() == (c.both ? 2u : 1u));
        CAPTURE(notes[0]);
        CHECK(notes[0].find(c.says) != std::string::npos);
        CHECK(notes[0].find(files[0].filename().string()) != std::string::npos);
        CHECK(first_step == (c.both ? 1 : 4));
        check_same_rows(directory, reference());
        fs::remove_all(directory);
    }
    fs::remove_all(other);
}

TEST_CASE("a checkpoint with the tensors or the loss scaler of another policy is refused",
          "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("shapes");
    Checkpoint checkpoint = parse_checkpoint(csv::read_text(checkpoints_of(directory).front()), "");
    const Experiment e = tiny_experiment(directory);
    const SiteList sites = model_sites(e.model);
    const ResolvedPolicy own = resolve(load_policy("pure-bf16-sr"), sites);
    CHECK_NOTHROW(check_state(checkpoint, sites, e.options, own));
    CHECK_THROWS_AS(check_state(checkpoint, sites, e.options, resolve(load_policy("amp-fp16"), sites)), Error);
    TrainOptions sgd = e.options;
    sgd.optimizer = OptimizerKind::sgd;
    CHECK_THROWS_AS(check_state(checkpoint, sites, sgd, own), Error);
    ModelConfig wide = e.model;
    wide.width = 16;
    CHECK_THROWS_AS(
        check_state(checkpoint, model_sites(wide), e.options, resolve(load_policy("pure-bf16-sr"), model_sites(wide))),
        Error);
    std::swap(checkpoint.state[0], checkpoint.state[1]);
    CHECK_THROWS_AS(check_state(checkpoint, sites, e.options, own), Error);
    fs::remove_all(directory);
}

TEST_CASE("resuming writes the same bytes, regardless of the lengths of the files after a kill",
          "[experiments][checkpoint]") {
    const fs::path ended = ended_directory("lengths");
    const Checkpoint newest = parse_checkpoint(csv::read_text(checkpoints_of(ended).front()), "");
    const char* names[] = {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"};
    std::mt19937 random(2);
    for (int trial = 0; trial < 12; ++trial) {
        CAPTURE(trial);
        const fs::path directory = fresh_folder("cut");
        fs::copy(ended, directory, fs::copy_options::recursive);
        // Truncates most of the files to random lengths. No file becomes shorter than it was at the newest checkpoint,
        // because a resume truncates it to that length. A random length mostly leaves the last row incomplete.
        for (std::size_t i = 0; i < 4; ++i) {
            const auto least = newest.files[i].bytes, most = fs::file_size(directory / names[i]);
            if (random() % 4 != 0) fs::resize_file(directory / names[i], least + random() % (most - least + 1));
        }
        const auto append = [&](const char* name, const char* text) {
            std::ofstream(directory / name, std::ios::app) << text;
        };
        if (trial % 3 == 0) append("runs.csv", "pure-bf16-sr/0,pure-bf16-sr,0,o");
        if (trial % 2 == 0) write(directory / "checkpoints/run-0002-step-000000009.safetensors.new", "half");
        if (trial == 7) write(directory / "manifest.json.new", "{");
        if (trial == 8) append(".lock", "");
        if (trial == 9) fs::resize_file(directory / "sites.csv", newest.files[2].bytes - 1);  // rows were lost
        if (trial == 10) fs::remove_all(directory / "checkpoints");
        if (trial == 11) fs::resize_file(directory / "exponents.csv", newest.files[3].bytes - 1);
        std::vector<std::string> notes;
        REQUIRE(run(resumed(directory), {}, &notes));
        // In trials 9 and 11, rows before the newest checkpoint are missing. All rows before the older one remain.
        CHECK(notes.size() == (trial == 9 || trial == 11 ? 1u : 0u));
        check_same_rows(directory, reference());
        fs::remove_all(directory);
    }
    fs::remove_all(ended);
}

TEST_CASE("a run resumes from its first step if its directory contains little more than a manifest",
          "[experiments][checkpoint]") {
    for (const char* header : {"", "run,pol", "whole"}) {
        CAPTURE(header);
        const fs::path directory = fresh_folder("manifest_only");
        run(tiny_experiment(directory), [](const Progress&) { return true; });
        for (const char* name : {"runs.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
            if (std::string(header) == "whole") continue;
            fs::remove(directory / name);
            if (*header != '\0') write(directory / name, header);
        }
        REQUIRE(run(resumed(directory)));
        check_same_rows(directory, reference());
        REQUIRE(run(resumed(directory)));  // nothing is left to do
        check_same_rows(directory, reference());
        fs::remove_all(directory);
    }
}

TEST_CASE("a directory that lost rows of completed runs is refused", "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("torn");
    const std::string steps = csv::read_text(directory / "steps.csv");
    fs::resize_file(directory / "steps.csv", steps.find('\n', steps.size() / 4) + 1);
    CHECK_THROWS_AS(run(resumed(directory)), Error);
    fs::remove_all(directory);
}

TEST_CASE("only one process at a time can work in a directory", "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("locked");
    {
        const DirectoryLock lock(directory);
        try {
            run(resumed(directory));
            FAIL("a second process was let in");
        } catch (const Error& error) {
            CHECK(error.exit() == Exit::usage);
            CHECK(error.parts().what.find("another macheps") != std::string::npos);
        }
        Experiment forced = tiny_experiment(directory);
        forced.force = true;
        CHECK_THROWS_AS(run(forced), Error);
    }
    REQUIRE(run(resumed(directory)));
    check_same_rows(directory, reference());
    fs::remove_all(directory);
}

TEST_CASE("a run that an older macheps stopped ends with the bytes that the older macheps would have written",
          "[experiments][checkpoint]") {
    const fs::path golden = fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/stopped_run";
    const fs::path directory = fresh_folder("golden");
    fs::copy(golden / "stopped", directory, fs::copy_options::recursive);
    fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add);
    const Manifest manifest = read_manifest(directory / "manifest.json");
    CHECK(manifest.created_by == "macheps 0.1.0 (f1bdc8efa579)");
    std::vector<std::string> notes;
    REQUIRE(run(resumed(directory), {}, &notes));
    CHECK(notes.empty());  // no checkpoint was refused
    const fs::path ended = fresh_folder("golden_ended");
    fs::copy(golden / "ended", ended);
    fs::copy_file(golden / "stopped/manifest.json", ended / "manifest.json");
    check_same_rows(directory, rows(ended));
    fs::remove_all(directory);
    fs::remove_all(ended);
}

TEST_CASE("a run that was started with another schema is not resumed, and its files do not change",
          "[experiments][checkpoint]") {
    const fs::path golden = fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/stopped_run_schema1";
    const fs::path directory = fresh_folder("schema1");
    fs::copy(golden, directory, fs::copy_options::recursive);
    fs::permissions(directory, fs::perms::owner_all, fs::perm_options::add);
    const auto files = [&] {
        std::map<std::string, std::string> texts;
        for (const auto& entry : fs::recursive_directory_iterator(directory)) {
            if (entry.is_regular_file()) texts[entry.path().string()] = csv::read_text(entry.path());
        }
        return texts;
    };
    const auto before = files();
    CHECK(before.size() >= 6);
    try {
        run(resumed(directory));
        FAIL("the run was resumed");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        CHECK(error.parts().where == (directory / "manifest.json").string());
        CHECK(error.parts().what ==
              "the run was started with rows of schema 1, but this version of macheps writes schema 2, in which some "
              "columns (`loss` of steps.csv) have another meaning");
        CHECK(error.parts().fix.find("created_by") != std::string::npos);
    }
    CHECK(files() == before);
    // Repeating the run from its manifest is also refused.
    Experiment repeated = read_manifest(directory / "manifest.json").experiment;
    repeated.directory = fresh_folder("schema1_again");
    repeated.repeats = directory / "manifest.json";
    CHECK_THROWS_WITH(run(repeated), Catch::Contains("rows of schema 1"));
    CHECK_FALSE(fs::exists(repeated.directory));
    fs::remove_all(directory);
}

TEST_CASE("every second run of a plan, trained in a separate directory, writes the same rows as in the whole plan",
          "[experiments][checkpoint]") {
    const fs::path directory = fresh_folder("shard");
    const Experiment experiment = tiny_experiment(directory);
    const SharedInputs inputs(experiment);
    const std::vector<PlannedRun> plan = plan_runs(experiment);
    REQUIRE(plan.size() == 6);
    std::vector<PlannedRun> mine;
    for (std::size_t i = 0; i < plan.size(); i += 2) mine.push_back(plan[i]);
    CpuBackend backend(1);
    {
        RunDirectory shard(experiment, inputs, mine, backend.name());
        CHECK(shard.completed() == 0);
        const RunContext work{backend, experiment, inputs, shard, {}, never};
        for (std::size_t i = 0; i < mine.size(); ++i) CHECK(run_one(work, mine, i, nullptr).status == "ok");
    }
    const fs::path all = fresh_folder("shard_whole");
    REQUIRE(run(tiny_experiment(all)));
    // Compares text, because a NaN differs from itself.
    const auto lines_of = [](const fs::path& folder, const PlannedRun& run) {
        std::string lines;
        for (StepRow row : CsvReader<StepRow>(folder / StepRow::file).rows()) {
            if (row.run != run.name) continue;
            if (!run.is_baseline) row.baseline_loss = row.gap = std::nullopt;  // the separate directory has no baseline
            csv::append_line(lines, row);
        }
        return lines;
    };
    for (const PlannedRun& run : mine) {
        CAPTURE(run.name);
        CHECK(lines_of(directory, run).size() > 500);
        CHECK(lines_of(directory, run) == lines_of(all, run));
    }
    CHECK(CsvReader<StepRow>(directory / StepRow::file).rows().size() == 3 * 8);
    fs::remove_all(directory);
    fs::remove_all(all);
}

TEST_CASE("force replaces a run and its checkpoints", "[experiments][checkpoint]") {
    const fs::path directory = ended_directory("forced");
    Experiment experiment = tiny_experiment(directory);
    try {
        run(experiment);
        FAIL("an existing run was not noticed");
    } catch (const Error& error) {
        CHECK(error.parts().fix.find("`resume`") != std::string::npos);
    }
    experiment.force = true;
    run(experiment, [](const Progress& p) { return p.step == 1; });
    CHECK(checkpoints_of(directory).empty());
    REQUIRE(run(resumed(directory)));
    check_same_rows(directory, reference());
    fs::remove_all(directory);
}

TEST_CASE("a run is repeated exactly from its manifest, or the manifest is refused", "[experiments][checkpoint]") {
    const fs::path first = fresh_folder("first"), second = fresh_folder("second"), text = folder("corpus.txt"),
                   base = folder("base.toml"), own = folder("own.toml");
    write(text, std::string(4000, 'x') + "some text that is not all the same" + std::string(400, 'y'));
    write(base, "name = \"base\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"bf16\"\n");
    write(own, fmt::format("name = \"own\"\nextends = \"./{}\"\n[[rule]]\nsites = \"*:grad.in\"\ncast = \"fp16\"\n",
                           base.filename().string()));
    Experiment e = tiny_experiment(first);
    e.policies = {load_policy("fp32"), load_policy(own.string())};
    e.seeds = {3};
    // Every number differs from its default.
    e.model = {.layers = 1,
               .width = 12,
               .heads = 3,
               .context = 5,
               .vocabulary = 256,
               .tied = false,
               .activation = elementwise::GeluTanh{}};
    e.options.optimizer = OptimizerKind::sgd;
    e.options.lr = 0.1;
    e.options.min_lr = 0.003;
    e.options.beta1 = 0.8;
    e.options.beta2 = 0.7;
    e.options.eps = 1e-7;
    e.options.weight_decay = 0.01;
    e.options.momentum = 0.85;
    e.options.clip = 0.3;
    e.options.token_weight = 0x1p-4;
    e.data_file = text;
    e.command = {"macheps", "train"};
    REQUIRE(run(e));

    // The policy that `own` extends has changed, but the manifest contains its old text.
    write(base, "name = \"base\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"e5m2\"\n");
    const auto repeated = [&] {
        Experiment again = read_manifest(first / "manifest.json").experiment;
        again.repeats = first / "manifest.json";
        again.directory = second;
        return again;
    };
    REQUIRE(run(repeated()));
    check_same_rows(second, rows(first));

    const std::string data = csv::read_text(text);
    write(text, data + "z");
    try {
        Experiment again = repeated();
        again.force = true;
        run(again);
        FAIL("changed data were accepted");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("data") != std::string::npos);
        CHECK(std::string(error.what()).find(text.string()) != std::string::npos);
    }
    check_same_rows(second, rows(first));  // unchanged

    write(text, data);
    std::string manifest = csv::read_text(first / "manifest.json");
    const auto spoiled = [&](const std::string& from, const std::string& to) {
        std::string other = manifest;
        REQUIRE(other.find(from) != std::string::npos);
        other.replace(other.find(from), from.size(), to);
        write(first / "manifest.json", other);
        Experiment again = repeated();
        again.force = true;
        run(again);
    };
    CHECK_THROWS_AS(spoiled("\"schema\": 2", "\"schema\": 3"), Error);
    CHECK_THROWS_AS(spoiled("\"clip\"", "\"klip\""), Error);
    CHECK_THROWS_AS(spoiled("\"steps\": 8", "\"steps\": \"8\""), Error);
    CHECK_THROWS_AS(spoiled("\"fp16\"", "\"bf16\""), Error);  // changes a cast of the resolved policy
    CHECK_THROWS_AS(spoiled("{", "["), Error);
    for (const fs::path& path : {first, second, text, base, own}) fs::remove_all(path);
}

TEST_CASE("a loss scaler continues from its saved state", "[experiments][checkpoint]") {
    for (const ScalerKind* kind : scaler_kinds()) {
        LossScalerConfig config(*kind);
        for (const ScalerKey& key : kind->keys) {
            if (key.name == "growth_interval") config.set(key.name, 3);
            if (key.name == "min_scale") config.set(key.name, 0x1p-100);
        }
        CAPTURE(std::string(kind->name));
        std::mt19937 random(3);
        const auto one = make_loss_scaler(config);
        for (int step = 0; step < 60; ++step) {
            const auto other = make_loss_scaler(config);
            REQUIRE(other->load(one->state()));
            CHECK(other->scale() == one->scale());
            CHECK(other->growth_tracker() == one->growth_tracker());
            CHECK(other->hysteresis() == one->hysteresis());
            const bool found_inf = random() % 4 == 0;
            CHECK(other->unscaling(found_inf).factor == one->unscaling(found_inf).factor);
            other->update(found_inf);
            one->update(found_inf);
            CHECK(other->state() == one->state());
        }
        CHECK_FALSE(one->load(std::vector<double>(7)));
    }
}

TEST_CASE("the recorded reasons why a filter leaves out layers are not part of the recipe's text", "[checkpoint]") {
    const auto with = [](const std::string& reason, const std::string& toml) {
        return recipe_text("{\"policies\": {\"mine\": {\"toml\": \"" + toml + "\", \"left_out\": [\"block.0\"]" +
                           (reason.empty() ? "" : ", \"left_out_why\": [\"" + reason + "\"]") + "}}}");
    };
    CHECK(with("its name contains 0", "a") == with("the name has 0 in it", "a"));
    CHECK(with("", "a") == with("its name contains 0", "a"));
    CHECK(with("", "a") != with("", "b"));
}

}  // namespace checkpoint_test
