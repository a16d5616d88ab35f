// SPDX-License-Identifier: Apache-2.0
// Kills, stops and resumes the program. Its files must equal those of an uninterrupted run, byte for byte.
#include "tests/regex.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <vector>

namespace resume_test {

namespace fs = std::filesystem;

namespace {

using Arguments = std::vector<std::string>;

std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

Arguments words(const std::string& text) {
    std::istringstream in(text);
    Arguments out;
    for (std::string word; in >> word;) out.push_back(word);
    return out;
}

/// A temporary folder in which a test runs the program. The destructor removes it.
class Folder {
  public:
    explicit Folder(const fs::path& parent = macheps::test::memory_folder()) {
        static int count = 0;
        path_ = parent / ("resume_" + std::to_string(count++));
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path operator/(const std::string& name) const { return path_ / name; }
    std::string err() const { return contents(path_ / "err.txt"); }
    std::string out() const { return contents(path_ / "out.txt"); }

    void write(const std::map<std::string, std::string>& files) const {
        for (const auto& [name, text] : files) std::ofstream(path_ / name, std::ios::binary) << text;
    }

    /// Starts `macheps ARGUMENTS` in this folder.
    pid_t start(const std::string& arguments, const char* simd = nullptr) const {
        Arguments all = words("macheps " + arguments);
        std::vector<char*> argv;
        for (std::string& word : all) argv.push_back(word.data());
        argv.push_back(nullptr);
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            if (chdir(path_.c_str()) != 0) _exit(99);
            redirect("out.txt", STDOUT_FILENO);
            redirect("err.txt", STDERR_FILENO);
            if (simd != nullptr) setenv("MACHEPS_SIMD", simd, 1);
            execv(MACHEPS_PROGRAM, argv.data());
            _exit(98);
        }
        return child;
    }

    /// Returns the exit code of a process, or 128 plus the number of the signal that ended it.
    static int wait(pid_t child) {
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    int run(const std::string& arguments, const char* simd = nullptr) const { return wait(start(arguments, simd)); }

  private:
    /// Redirects a descriptor in a child process. Does not use stdio, because the child has copies of the parent's
    /// stdio buffers, whose output must not be printed twice.
    static void redirect(const char* file, int descriptor) {
        const int opened = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (opened < 0 || dup2(opened, descriptor) < 0) _exit(99);
    }

    fs::path path_;
};

/// Waits until `path` has `bytes` bytes.
void wait_for(const fs::path& path, std::uintmax_t bytes) {
    std::error_code missing;
    for (int i = 0; i < 3000; ++i) {
        const auto size = fs::file_size(path, missing);
        if (!missing && size >= bytes) return;
        usleep(10000);
    }
    FAIL("the program wrote nothing");
}

/// Returns a CSV table without the columns that contain times.
std::string without_times(const std::string& text) {
    std::istringstream lines(text);
    std::string out;
    std::vector<bool> is_time;
    for (std::string line; std::getline(lines, line);) {
        std::size_t column = 0, begin = 0;
        bool is_quoted = false;  // the status of a failed run is a text with commas
        for (std::size_t i = 0; i <= line.size(); ++i) {
            if (i < line.size() && line[i] == '"') is_quoted = !is_quoted;
            if (i < line.size() && (line[i] != ',' || is_quoted)) continue;
            const std::string cell = line.substr(begin, i - begin);
            begin = i + 1;
            if (is_time.size() == column) {
                is_time.push_back(cell == "seconds" || cell == "tokens_per_second" || cell == "slowdown");
            }
            if (!is_time[column]) out += cell + ",";
            ++column;
        }
        out += '\n';
    }
    return out;
}

std::map<std::string, std::string> files_of(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv", "manifest.json"}) {
        files[name] = contents(directory / name);
    }
    for (const char* name : {"runs.csv", "summary.csv"}) files[name] = without_times(contents(directory / name));
    return files;
}

void check_same_files(const fs::path& directory, const std::map<std::string, std::string>& wanted) {
    for (const auto& [name, text] : files_of(directory)) {
        CAPTURE(name, text.size(), wanted.at(name).size());
        CHECK((text == wanted.at(name)));
        CHECK_FALSE(text.empty());
    }
    CHECK(fs::file_size(directory / "report.html") > 1000);
    std::vector<std::string> others;
    for (const auto& entry : fs::directory_iterator(directory)) {
        const std::string name = entry.path().filename().string();
        if (wanted.count(name) == 0 && name != "report.html") others.push_back(name);
    }
    CAPTURE(others.empty() ? "" : others.front());
    CHECK(others.empty());
}

constexpr const char* model =
    "--layers 1 --width 8 --heads 2 --context 6 --vocabulary 24 --batch 2 --eval-batches 1 "
    "--warmup 2 --threads 1 ";
const std::string schedule = "--steps 40 --eval-every 7 --probe-every 8 --histogram-every 16 --save-every 4 ";
const std::string tiny =
    std::string("train ") + model + schedule + "--seeds 0,5 --policy amp-fp16,pure-bf16-sr --out run";

/// Config files and policy files. Together they have every loss scaler that training supports (some skip steps),
/// gradient accumulation over micro-batches, and recipes.
const std::map<std::string, std::string> configs{
    {"torch.yaml", "{fp16: true, bf16: false, gradient_accumulation_steps: 2, optim: adamw_torch}"},
    {"sharded.yaml", "{fsdp: {param_dtype: float16, reduce_dtype: float32}, grad_scaler: {init_scale: 67108864}}"},
    {"zero.json", R"({"fp16": {"enabled": true, "initial_scale_power": 26, "loss_scale_window": 5, "hysteresis": 2},
                      "zero_optimization": {"stage": 1}, "gradient_accumulation_steps": 2,
                      "data_types": {"grad_accum_dtype": "fp32"}, "gradient_clipping": 1.0})"},
    {"fused.json", R"({"fp16": {"enabled": true, "initial_scale_power": 26, "loss_scale_window": 5}})"},
    {"apex.json", R"({"opt_level": "O2", "loss_scale": "dynamic", "min_loss_scale": 1, "num_losses": 1})"},
    {"megatron.args", "--fp16 --initial-loss-scale 67108864 --loss-scale-window 4 --clip-grad 1.0"},
    {"delayed.toml",
     "extends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,attn.proj,mlp.up,mlp.down}\"\n"
     "recipe = \"te-delayed:history=5\"\nmultiple_of = 8\n"},
    {"recent.toml",
     "extends = \"amp-fp16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,mlp.up,mlp.down}\"\n"
     "recipe = \"te-delayed:most_recent:margin=1\"\nmultiple_of = 8\n"},
    {"unfused.toml",
     "extends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,mlp.up,mlp.down}\"\n"
     "forward = { a = \"e4m3fn/tensor:te_delayed_unfused:history=3\", b = \"e4m3fn/tensor:te_delayed_unfused\" }\n"
     "input_grad = { a = \"e5m2/tensor:te_delayed_unfused:most_recent\" }\n"},
    {"drawn.toml",
     "extends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.{attn.qkv,mlp.up,mlp.down}\"\n"
     "forward = { b = \"e4m3fn/tensor:te_delayed:history=7\" }\n"
     "input_grad = { a = \"e4m3fn/tensor:te_delayed:stochastic:random_bits=8\" }\n"},
    {"static.json", R"({"fp16": {"enabled": true, "loss_scale": 1024}, "zero_optimization": {"stage": 1}})"},
    {"utils.toml", "extends = \"amp-fp16\"\n[loss_scaler]\nkind = \"apex-fp16-utils\"\ninit_scale = 67108864.0\n"}};
const std::string configured =
    std::string("train ") + model + schedule +
    "--config torch.yaml sharded.yaml zero.json fused.json apex.json megatron.args static.json --policy ./utils.toml "
    "--framework-version deepspeed=0.18.2 --out run";

/// Returns the names of the loss scalers that no policy of the run directory `run` uses.
std::string scalers_without_a_policy(const Folder& folder) {
    REQUIRE(folder.run("policy words --json") == 0);
    const std::string words = folder.out(), manifest = contents(folder / "run/manifest.json");
    const std::size_t group = words.find("\"loss_scalers\""), end = words.find("\"group\"", group);
    REQUIRE(group != std::string::npos);
    std::string missing;
    const std::vector<macheps::test::Match> names =
        macheps::test::all_matches(words.substr(group, end - group), "\"name\": *\"([a-z0-9-]+)\"");
    for (const macheps::test::Match& name : names) {
        const std::string& kind = name[1];
        if (kind.starts_with("deepspeed-")) continue;  // a synonym for ds-...
        if (kind != "none" && manifest.find("kind = \\\"" + kind + "\\\"") == std::string::npos) missing += kind + " ";
    }
    CHECK(names.size() >= 8);
    return missing;
}

/// Trains policies whose recipes have amax histories, which a checkpoint must contain. The recipes cover both
/// algorithms that choose an amax from a history, a margin, both ways to compute a scale, and stochastic rounding.
const std::string delayed = std::string("train ") + model + schedule +
                            "--micro-batches 2 --recompute --policy "
                            "./delayed.toml,./recent.toml,./unfused.toml,./drawn.toml --out run";
/// Trains the policies of `delayed`, except drawn.toml, on two ranks. The ranks share their scales.
const std::string delayed_on_ranks = std::string("train ") + model + schedule +
                                     "--ranks 2 --policy ./delayed.toml,./recent.toml,./unfused.toml --out run";

/// Kills each of `trials` runs at a random moment and resumes it. Some of the resumed runs are killed and resumed
/// again. Finally compares the files of each run with those of an uninterrupted run.
void kill_and_resume(int trials, unsigned seed, const std::vector<fs::path>& places, const std::string& first = tiny) {
    const Folder whole;
    whole.write(configs);
    const auto begin = std::chrono::steady_clock::now();
    const int code_of_whole = whole.run(first);
    CAPTURE(whole.err());
    REQUIRE(code_of_whole == 0);
    auto length = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto wanted = files_of(whole / "run");
    std::mt19937 random(seed);
    int kills = 0, before_manifest = 0, with_checkpoint = 0, in_a_report = 0;
    // On a busy machine, few runs may be killed in time, or all kills may come before the first checkpoint. Then more
    // trials follow.
    const auto is_short = [&] { return kills < trials / 2 || with_checkpoint == 0; };
    for (int trial = 0; trial < trials || (is_short() && trial < 4 * trials); ++trial) {
        const Folder folder(places[static_cast<std::size_t>(trial) % places.size()]);
        folder.write(configs);
        std::string arguments = first;
        for (int attempt = 0;; ++attempt) {
            REQUIRE(attempt < 50);
            const pid_t child = folder.start(arguments);
            // The first process of a trial is always killed. A resumed process is killed half of the time.
            const bool is_killed = attempt == 0 || (attempt < 5 && random() % 2 == 0);
            if (is_killed) {
                usleep(static_cast<unsigned>(1.1e6 * length * static_cast<double>(random() % 10000) / 10000));
                kill(child, SIGKILL);
            }
            const int code = Folder::wait(child);
            CAPTURE(trial, attempt, arguments, code, folder.err());
            const bool has_manifest = fs::exists(folder / "run/manifest.json");
            if (code == 128 + SIGKILL) {
                ++kills;
                before_manifest += has_manifest ? 0 : 1;
                with_checkpoint += fs::exists(folder / "run/checkpoints") ? 1 : 0;
                in_a_report += has_manifest && !fs::exists(folder / "run/checkpoints") &&
                               contents(folder / "run/runs.csv").find("pure-bf16-sr/5,") != std::string::npos;
                arguments = "train --resume run --threads 1";
                continue;
            }
            if (code == 3 && !has_manifest) {  // killed before the run began
                CHECK(folder.err().find("nothing to resume") != std::string::npos);
                arguments = first;
                continue;
            }
            REQUIRE(code == 0);
            // If the first process ended before its kill, the machine is less busy than when `length` was measured.
            if (attempt == 0) length *= 0.8;
            break;
        }
        check_same_files(folder / "run", wanted);
    }
    std::cout << trials << " runs, " << kills << " kills: " << before_manifest << " before the manifest, "
              << with_checkpoint << " with a checkpoint, " << in_a_report << " after the last run" << std::endl;
    CHECK(kills >= trials / 2);
    CHECK(with_checkpoint > 0);
}

}  // namespace

TEST_CASE("a run killed at random moments and resumed writes the same bytes", "[resume]") {
    kill_and_resume(15, 1, {macheps::test::memory_folder()});
}

TEST_CASE("the configs of the kill tests contain every loss scaler", "[resume]") {
    const Folder folder;
    folder.write(configs);
    REQUIRE(folder.run(configured) == 0);
    CHECK(scalers_without_a_policy(folder) == "");
    fs::remove_all(folder / "run");
    CHECK(folder.run(configured + " --ranks 2") == 0);
}

TEST_CASE("a run with every loss scaler, killed and resumed, writes the same bytes", "[resume]") {
    kill_and_resume(6, 3, {macheps::test::memory_folder()}, configured);
}

TEST_CASE("a run with amax histories, killed and resumed, writes the same bytes", "[resume]") {
    kill_and_resume(6, 5, {macheps::test::memory_folder()}, delayed);
}

TEST_CASE("a run with amax histories, killed at 50 random moments and resumed, writes the same bytes",
          "[resume][slow]") {
    kill_and_resume(50, 6, {macheps::test::memory_folder()}, delayed);
    kill_and_resume(25, 7, {macheps::test::memory_folder()}, delayed_on_ranks);
}

TEST_CASE("a run with every loss scaler, killed at 50 random moments and resumed, writes the same bytes",
          "[resume][slow]") {
    kill_and_resume(50, 4, {macheps::test::memory_folder()}, configured);
}

TEST_CASE("a run killed at 200 random moments and resumed writes the same bytes", "[resume][slow]") {
    // On a disk, most of the time is spent on syncing. In memory, it is spent on the steps.
    kill_and_resume(200, 2, {macheps::test::disk_folder(), macheps::test::memory_folder()});
}

TEST_CASE("a run on two ranks, killed at 50 random moments and resumed, writes the same bytes", "[resume][slow]") {
    kill_and_resume(50, 3, {macheps::test::memory_folder()}, tiny + " --ranks 2 --recompute");
}

TEST_CASE("a run on two ranks with every loss scaler, killed at 50 random moments, writes the same bytes",
          "[resume][slow]") {
    kill_and_resume(50, 5, {macheps::test::memory_folder()}, configured + " --ranks 2");
}

TEST_CASE("after Ctrl-C or SIGTERM, train finishes the step, saves, prints how to resume, and exits with 75",
          "[resume]") {
    const std::string endless = std::string("train ") + model + "--save-every 0 --out run --steps ";
    for (const int signal : {SIGINT, SIGTERM}) {
        const Folder folder;
        const pid_t child = folder.start(endless + "100000");
        wait_for(folder / "run/steps.csv", 4096);
        REQUIRE(kill(child, signal) == 0);
        CHECK(Folder::wait(child) == 75);
        CAPTURE(signal, folder.err());
        CHECK(folder.err().find("macheps train --resume run") != std::string::npos);
        CHECK(contents(folder / "run/steps.csv").back() == '\n');
        std::size_t checkpoints = 0;
        for (const auto& entry : fs::directory_iterator(folder / "run/checkpoints")) {
            checkpoints += entry.path().extension() == ".safetensors" ? 1 : 0;
        }
        CHECK(checkpoints == 1);
        CHECK_FALSE(fs::exists(folder / "run/.lock"));
        const std::string before = contents(folder / "run/steps.csv");
        CHECK(folder.run("report run") == 0);

        // The run is resumed and then stopped again.
        const pid_t again = folder.start("train --resume run");
        wait_for(folder / "run/steps.csv", before.size() + 2000);
        REQUIRE(kill(again, signal) == 0);
        CHECK(Folder::wait(again) == 75);
        const std::string after = contents(folder / "run/steps.csv");
        CHECK(after.compare(0, before.size(), before) == 0);
        // steps.csv has every step exactly once, in order.
        std::istringstream lines(after);
        std::string line;
        std::getline(lines, line);
        for (int step = 0; std::getline(lines, line); ++step) {
            CHECK(line.rfind("fp32/0,fp32,0," + std::to_string(step) + ",", 0) == 0);
        }
    }
}

TEST_CASE("a run resumed under another MACHEPS_SIMD and number of threads writes the same bytes", "[resume]") {
    const Folder whole, folder;
    REQUIRE(whole.run(tiny) == 0);
    const pid_t child = folder.start(tiny, "scalar");
    wait_for(folder / "run/runs.csv", 300);  // the first run is over
    kill(child, SIGKILL);
    Folder::wait(child);
    REQUIRE(folder.run("train --resume run --threads 3") == 0);
    auto wanted = files_of(whole / "run");
    wanted["manifest.json"] = contents(folder / "run/manifest.json");  // names the SIMD path of the first program
    check_same_files(folder / "run", wanted);
}

TEST_CASE("train --from repeats a run, and --from and --resume refuse other settings", "[resume]") {
    const Folder folder;
    REQUIRE(folder.run(tiny) == 0);
    REQUIRE(folder.run("train --from run/manifest.json --out again --threads 1 -q") == 0);
    check_same_files(folder / "again", files_of(folder / "run"));
    struct Case {
        const char *arguments, *says;
        int code;
    };
    for (const Case& c :
         std::initializer_list<Case>{{"train --from run/manifest.json --out other --steps 3", "--steps", 2},
                                     {"train --from run/manifest.json --out other --policy tf32", "--policy", 2},
                                     {"train --from run/manifest.json --out run", "--resume", 2},
                                     {"train --from nowhere.json --out other", "nowhere.json", 3},
                                     {"train --from run/steps.csv --out other", "not a JSON object", 3},
                                     {"train --resume run --seeds 3", "--seeds", 2},
                                     {"train --resume run --out other", "--out", 2},
                                     {"train --resume run --from run/manifest.json", "--from", 2},
                                     {"train --resume nowhere", "nothing to resume", 3},
                                     {"train --resume . ", "nothing to resume", 3},
                                     {"train --save-every -1 --out other", "--save-every", 2}}) {
        CAPTURE(c.arguments);
        CHECK(folder.run(c.arguments) == c.code);
        CAPTURE(folder.err());
        CHECK(folder.err().find(c.says) != std::string::npos);
        CHECK_FALSE(fs::exists(folder / "other"));
    }
}

TEST_CASE("two programs cannot use one run directory at the same time", "[resume]") {
    const Folder folder;
    const pid_t child = folder.start(std::string("train ") + model + "--steps 100000 --out run");
    wait_for(folder / "run/steps.csv", 4096);
    for (const char* arguments : {"train --resume run", "train --force --out run"}) {
        CAPTURE(arguments);
        CHECK(folder.run(arguments) == 2);
        CHECK(folder.err().find("another macheps") != std::string::npos);
    }
    kill(child, SIGTERM);
    CHECK(Folder::wait(child) == 75);
}

}  // namespace resume_test
