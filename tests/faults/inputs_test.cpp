// SPDX-License-Identifier: Apache-2.0
// Tests hostile inputs of every kind with the commands that read them.
#include "tests/faults/faulty_program.hpp"
#include "tests/faults/hostile_inputs.hpp"

#include <sys/stat.h>

#include <cstdio>

namespace inputs_test {

using namespace macheps::test;

namespace {

constexpr int too_long = 128 + SIGALRM, too_much_work = 128 + SIGXCPU;

/// Limits the time of the program, in case it hangs. Limits its memory to the memory of a small machine.
void limit_program() {
    const rlimit seconds{20, 20}, memory{rlim_t{4} << 30, rlim_t{4} << 30};
    if (setrlimit(RLIMIT_CPU, &seconds) != 0 || setrlimit(RLIMIT_AS, &memory) != 0) _exit(97);
    alarm(120);
}

/// Limits the program, and changes the user from root to nobody, who may not read a file after `chmod 0`.
void become_nobody() {
    limit_program();
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(97);
}

std::vector<std::string> words_with(const std::string& command, const fs::path& file) {
    std::vector<std::string> all = words(command);
    for (std::string& word : all) {
        if (const std::size_t at = word.find("FILE"); at != std::string::npos) word.replace(at, 4, file.string());
    }
    return all;
}

/// Returns a description of a wrong exit code or wrong output, or an empty string.
std::string problem_of(const Outcome& outcome, bool must_fail) {
    if (outcome.code == too_long || outcome.code == too_much_work) return "hangs";
    if (!is_documented(outcome.code) && outcome.code != 1) return "exit " + std::to_string(outcome.code);
    if (must_fail && outcome.code == 0) return "exit 0";
    if (const std::string why = why_not_shown(outcome.out); !why.empty()) return "stdout has " + why;
    if (const std::string why = why_not_shown(outcome.err); !why.empty()) return "stderr has " + why;
    if (error_lines(outcome.err).size() > 1) return "more than one error";
    for (const std::string& line : error_lines(outcome.err)) {
        if (line.size() > 9000) return "an error of " + std::to_string(line.size()) + " bytes";
        if (line.find("json.exception") != std::string::npos) return "words of a library";
    }
    return {};
}

/// A folder with the valid files that the commands need in addition to a hostile input.
class Inputs {
  public:
    Inputs() {
        folder_.write("plan.toml",
                      "[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n[axes]\n"
                      "policy = [\"amp-bf16\"]\nlr = [1e-3, 2e-3]\nseeds = [0]\n");
        REQUIRE(folder_.run("sweep plan plan.toml --out sweep").code == 0);
        REQUIRE(folder_
                    .run("train --steps 2 --layers 1 --width 8 --heads 1 --context 8 --batch 2 --policy amp-fp16 "
                         "--seeds 0 --probe-every 1 -q --out run")
                    .code == 0);
        folder_.write("good.npz", good_npz());
        fs::create_directory(folder_ / "traces");
    }

    const Folder& folder() const { return folder_; }

    static std::string good_npz() {
        return zip_of({{"a.npy", npy_of_ones(2, 2)}, {"b.npy", npy_of_ones(2, 2)}, {"out.npy", npy_of_ones(2, 2)}});
    }

    std::vector<InputKind> kinds() const {
        const std::string
            json_config = R"({"fp16":{"enabled":true,"loss_scale":0},"zero_optimization":{"stage":1}})",
            yaml_config = "bf16: true\nlearning_rate: 1e-4\noptim: adamw_torch\nmodel_name_or_path: x\n",
            policy =
                "name = \"mine\"\nextends = \"amp-bf16\"\n[[rule]]\nsites = \"block.*.mlp.up\"\n"
                "forward = { a = \"e4m3fn/row\" }\n",
            formulas = "(FPCore (x) :name \"one\" :pre (< 0 x 1) (- (sqrt (+ x 1)) (sqrt x)))\n",
            market = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2.0\n2 2 1.5\n",
            suite = "[[check]]\nname = \"one\"\nop = \"gemm\"\nfiles = \"good.npz\"\n",
            recipe = "[recipe]\nop = \"softmax\"\nx = \"bf16\"\nrows = 2\ncolumns = 8\ninputs = [\"normal\"]\n",
            line = R"({"arch":"sm_70","instr":"mma","qual":"m8n8k4.f32.f16.f16.f32","cls":"usual",)"
                   R"("a":["3594","ac4a","cc60","2fa3"],"b":["b826","45ac","385c","c43c"],)"
                   R"("c":"40f94608","d":"c033ffd8"})"
                   "\n",
            lock = R"({"schema":1,"rows":[{"name":"gemm","input":"good.npz","declaration":"x","inputs":"y",)"
                   R"("bits":"z","rho":0.5,"z":0,"rms":0.1,"omega":0,"blind":["x"]}]})";
        const std::string sweep = contents(folder_ / "sweep/sweep.json"), torch = torch_text();
        const auto replaced = [](std::string text, const std::string& what, const std::string& with) {
            for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size()))
                text.replace(at, what.size(), with);
            return text;
        };
        const auto quoted = [](const std::string& text) { return json_string(text); };
        const auto csv_kind = [&](const char* name, const std::string& file) {
            const std::string text = contents(folder_ / file);
            const auto with_name = [=](const std::string& n) {
                return replaced(text, "amp-fp16", '"' + replaced(n, "\"", "\"\"") + '"');
            };
            return InputKind{name,
                             file,
                             text,
                             {"report run", "report run --csv", "report run --json", "report run --diagnose"},
                             with_name};
        };
        return {
            {"npz",
             "FILE.npz",
             good_npz(),
             {"check FILE --op gemm --allow-weak", "check FILE --op gemm --json --allow-weak"},
             [](const std::string& n) {
                 return zip_of(
                     {{n + ".npy", npy_of_ones(2, 2)}, {"a.npy", npy_of_ones(2, 2)}, {"b.npy", npy_of_ones(2, 2)}});
             },
             true},
            {"npy",
             "FILE.npy",
             npy_of_ones(2, 2),
             {"solve --matrix file:FILE -f fp16 --method ir -q", "check FILE --op softmax"},
             [replaced](const std::string& n) { return replaced(npy_of_ones(2, 2), "<f4", n.substr(0, 300)); },
             true},
            {"safetensors",
             "FILE.safetensors",
             safetensors_of({"a", "b", "out"}),
             {"check FILE --op softmax --junit junit.xml", "check FILE --op gemm --github --allow-weak"},
             [](const std::string& n) {
                 return safetensors_of({n, n + "2", "a"});
             },
             true},
            {"pickle",
             "FILE.pt",
             torch,
             {"check FILE --op gemm --allow-weak", "check FILE --op softmax --sarif out.sarif"},
             [=](const std::string& n) { return replaced(torch, "half", n.substr(0, 4)); },
             true},
            {"JSON config",
             "FILE.json",
             json_config,
             {"policy import FILE", "policy import FILE --json", "policy import --each FILE",
              "policy import FILE --toml"},
             [=](const std::string& n) {
                 return R"({"fp16":{"enabled":true},)" + quoted(n) + ":{" + quoted(n) + ":" + quoted(n) + "}}";
             }},
            {"YAML config",
             "FILE.yaml",
             yaml_config,
             {"policy import FILE", "policy import FILE --sarif"},
             [=](const std::string& n) {
                 return yaml_config + quoted(n) + ": 1\noutput_dir: " + quoted(n) + "\ndeepspeed: " + quoted(n) + "\n";
             }},
            {"TOML policy",
             "FILE.toml",
             policy,
             {"policy explain ./FILE --layers 1", "policy show ./FILE", "policy diff ./FILE tf32 --layers 1"},
             [=](const std::string& n) { return replaced(policy, "mine", n) + "description = " + quoted(n) + "\n"; }},
            {"archive",
             "FILE.npz",
             zip_of({{"a.npy", npy_of_ones(2, 2)}}, 3),
             {"check FILE --op gemm"},
             [](const std::string& n) {
                 return zip_of({{n, n}, {"x/" + n + "/data.pkl", n}, {n + ".npy", n}}, 3);
             },
             true},
            {"sweep folder",
             "sweep/sweep.json",
             sweep,
             {"sweep status sweep", "sweep status sweep --csv", "sweep plan sweep --csv", "merge sweep",
              "report sweep"},
             [=](const std::string& n) {
                 return replaced(replaced(sweep, "\"amp-bf16\"", quoted(n)), "\"lr\"", quoted(n));
             }},
            {"Matrix Market",
             "FILE.mtx",
             market,
             {"solve --matrix file:FILE -f fp16 --method ir -q"},
             [=](const std::string& n) { return replaced(market, "1.5", n) + "% " + n + "\n"; }},
            {"FPCore",
             "FILE.fpcore",
             formulas,
             {"eval FILE -f e5m2 -q", "eval FILE -f e5m2 --table -q", "eval FILE -f e5m2 --as fpcore"},
             [=](const std::string& n) {
                 return "(FPCore (x) :name " + quoted(n) + " (+ x 1))\n(FPCore (" + n + ") :name \"two\" (f " + n +
                        "))\n";
             }},
            {"suite",
             "FILE.toml",
             suite,
             {"check FILE", "check FILE --json", "check power FILE"},
             [=](const std::string& n) { return replaced(suite, "\"one\"", quoted(n)) + quoted(n) + " = 1\n"; }},
            {"recipe",
             "FILE.toml",
             recipe,
             {"check power FILE", "check make-inputs FILE -o made"},
             [=](const std::string& n) { return recipe + "name = " + quoted(n) + "\n"; }},
            {"JSON lines",
             "FILE.jsonl",
             line,
             {"machine eval FILE", "machine eval FILE --json"},
             [=](const std::string& n) {
                 return replaced(replaced(line, "\"usual\"", quoted(n)), "c033ffd8", "c033ffd9");
             }},
            {"trace",
             "traces/one.jsonl",
             line,
             {"verify --replay traces", "verify --replay traces --csv rows.csv"},
             [=](const std::string& n) { return "{\"digest\":" + quoted(n) + "}\n" + line; },
             true},
            {"baseline",
             "FILE.lock",
             lock,
             {"check good.npz --op gemm --allow-weak --baseline FILE"},
             [=](const std::string& n) { return replaced(lock, "\"x\"", quoted(n)); }},
            csv_kind("steps of a run", "run/steps.csv"),
            csv_kind("sites of a run", "run/sites.csv"),
            csv_kind("runs of a run", "run/runs.csv"),
            {"manifest of a run",
             "run/manifest.json",
             contents(folder_ / "run/manifest.json"),
             {"report run", "report run --small"},
             [=, text = contents(folder_ / "run/manifest.json")](const std::string& n) {
                 return replaced(text, "\"amp-fp16\"", quoted(n));
             }},
        };
    }

    /// Returns the name of the file for an input of this kind.
    std::string path_of(const InputKind& kind) const {
        std::string path = kind.file;
        if (const std::size_t at = path.find("FILE"); at != std::string::npos) path.replace(at, 4, "input");
        return path;
    }

    /// Runs a command of `kind` that reads `text`, and increments `count`. Returns a description of a wrong exit code
    /// or wrong output, or an empty string.
    std::string try_text(const InputKind& kind, const std::string& text, bool must_fail, std::size_t& count,
                         std::size_t which) {
        const std::string path = path_of(kind);
        folder_.write(path, text);
        ++count;
        const std::string& command = kind.commands[which % kind.commands.size()];
        Outcome outcome = folder_.run(words_with(command, path), {.prepare = limit_program});
        // With --github, the output has one intended annotation, which is a log command. Any other log command is
        // forged.
        const std::size_t own =
            command.find("--github") == std::string::npos ? std::string::npos : outcome.out.find("::");
        if (own != std::string::npos && (own == 0 || outcome.out[own - 1] == '\n')) outcome.out.erase(own, 2);
        const std::string problem = problem_of(outcome, must_fail);
        if (problem.empty()) return {};
        return std::string(kind.name) + ": " + command + ": " + problem + ": " + outcome.err.substr(0, 300);
    }

    void restore(const InputKind& kind) const { folder_.write(path_of(kind), kind.base); }

  private:
    static std::string torch_text() {
        return contents(fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/torch_files/torch_2_15.pt");
    }

    Folder folder_;
};

struct Case {
    std::string text;
    bool must_fail = false;
};

Case next_case(const InputKind& kind, Spoiler& spoiler, std::size_t number) {
    switch (number % 8) {
        case 0:
            return {kind.with_name(spoiler.any_name())};
        case 1:
            return {spoiler.cut(kind.base), kind.is_whole_or_nothing};
        case 2:
            return {spoiler.flipped(kind.base)};
        case 3:
            return {spoiler.inserted(kind.base)};
        case 4:
            return {spoiler.repeated(kind.base)};
        case 5:
            return {spoiler.without(kind.base)};
        case 6:
            return {spoiler.with_other_number(kind.base)};
        default:
            return {spoiler.nested(kind.base)};
    }
}

/// Tries `each` inputs of every kind. Returns the number of inputs.
std::size_t try_inputs(std::size_t each, std::uint64_t seed) {
    Inputs inputs;
    Spoiler spoiler(seed);
    std::size_t count = 0;
    for (const InputKind& kind : inputs.kinds()) {
        const std::size_t before = count;
        for (std::size_t i = 0; i < each; ++i) {
            const Case one = next_case(kind, spoiler, i);
            CHECK(inputs.try_text(kind, one.text, one.must_fail, count, i / 8) == "");
        }
        inputs.restore(kind);
        if (each > 100) std::printf("%-20s %zu\n", kind.name, count - before);
    }
    return count;
}

}  // namespace

TEST_CASE("on hostile inputs of every kind, the program neither hangs nor crashes nor prints hidden characters",
          "[faults][inputs]") {
    CHECK(try_inputs(8, 1) == 160);
}

TEST_CASE("on 5000 hostile inputs, the program neither hangs nor crashes nor prints hidden characters",
          "[faults][inputs][slow]") {
    CHECK(try_inputs(256, 2) > 5000);
}

TEST_CASE("every command shows every hostile name in visible characters", "[faults][inputs][slow]") {
    Inputs inputs;
    std::size_t count = 0;
    for (const InputKind& kind : inputs.kinds()) {
        for (const std::string& name : hostile_names) {
            for (std::size_t which = 0; which < kind.commands.size(); ++which)
                CHECK(inputs.try_text(kind, kind.with_name(name), false, count, which) == "");
        }
        inputs.restore(kind);
    }
    std::printf("%zu commands with hostile names\n", count);
}

TEST_CASE("an input that cannot be read is an error, for every kind of input", "[faults][inputs]") {
    Inputs inputs;
    const Folder& folder = inputs.folder();
    for (const InputKind& kind : inputs.kinds()) {
        const std::string path = inputs.path_of(kind), command = kind.commands.front();
        const bool is_of_run = path.starts_with("run/");  // any file of a run may be missing
        for (const char* instead : {"nothing", "a folder", "a device", "no permission"}) {
            fs::remove_all(folder / path);
            const std::string what = instead;
            if (what == "a folder") fs::create_directory(folder / path);
            if (what == "a device") fs::create_symlink("/dev/zero", folder / path);
            if (what == "no permission") {
                inputs.restore(kind);
                REQUIRE(::chmod((folder / path).c_str(), 0) == 0);
            }
            const Outcome outcome = folder.run(words_with(command, path), {.prepare = limit_program});
            // Root may read everything, so the program runs as nobody.
            const Outcome as_nobody = what == "no permission" ? [&] {
                fs::permissions(folder.path(), fs::perms::all);
                return folder.run(words_with(command, path), {.prepare = become_nobody});
            }() : outcome;
            CAPTURE(std::string(kind.name), what, as_nobody.err, as_nobody.out);
            CHECK(problem_of(as_nobody, !(is_of_run && what == "nothing")) == "");
            ::chmod((folder / path).c_str(), 0644);
            fs::remove_all(folder / path);
        }
        inputs.restore(kind);
    }
}

}  // namespace inputs_test
