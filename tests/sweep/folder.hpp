// SPDX-License-Identifier: Apache-2.0
// Sweeps as tests run them: the program in a folder of its own, and what its files hold.
#pragma once
#include "tests/program_folder.hpp"
#include "tests/scratch.hpp"

#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace macheps::test {

/// A folder in memory, removed at the end; programs run in it.
class SweepScratch {
  public:
    SweepScratch() {
        std::string name = (memory_folder() / "macheps-sweep-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~SweepScratch() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    SweepScratch(const SweepScratch&) = delete;
    SweepScratch& operator=(const SweepScratch&) = delete;

    fs::path operator/(const std::string& name) const { return path_ / name; }
    /// The folder of attempt `number` (from 0) at a unit of the sweep in the folder `sweep`.
    fs::path attempt(const std::string& sweep, const std::string& unit, int number) const {
        return path_ / sweep / "work" / (unit + "." + std::to_string(number));
    }
    const fs::path& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    std::string out() const { return contents(path_ / "out.txt"); }
    std::string err() const { return contents(path_ / "err.txt"); }

    /// Runs `macheps ARGUMENTS` through a shell. Its exit code; 128 and the signal's number where one ended it.
    int run(const std::string& arguments, const std::string& environment = "") const {
        return shell(environment + " '" MACHEPS_PROGRAM "' " + arguments);
    }
    int shell(const std::string& command) const {
        const std::string line = "cd '" + path_.string() + "' && { " + command + "; } >out.txt 2>err.txt </dev/null";
        return exit_code(std::system(line.c_str()));
    }
    /// Starts `macheps WORDS` and does not wait; what it says goes to files with that number in their names.
    pid_t start(std::vector<std::string> words, int number, const Start& how = {}) const {
        const std::string log = "log" + std::to_string(number) + ".txt";
        return start_program(path_, std::move(words), log, log, how);
    }

    /// Waits until an attempt at a unit of `out` has its first checkpoint, for twenty seconds at most.
    bool waits_for_checkpoint(const std::string& out) const {
        for (int i = 0; i < 4000; ++i) {
            std::error_code gone;  // whoever is at work removes what it no longer needs
            for (const auto& attempt : fs::directory_iterator(path_ / out / "work", gone)) {
                for (const auto& file : fs::directory_iterator(attempt.path() / "checkpoints", gone)) {
                    if (file.path().filename().string().starts_with("run-")) return true;
                }
            }
            ::usleep(5000);
        }
        return false;
    }

    /// A file of rows without the columns that hold times, or say who trained what.
    std::string rows(const std::string& name) const {
        return without_columns(contents(path_ / name), {"seconds", "tokens_per_second", "attempts", "host"});
    }
    /// All that `merge` wrote into a folder, by the names of the files.
    std::map<std::string, std::string> merged(const std::string& folder) const {
        std::map<std::string, std::string> files;
        for (const auto& entry : fs::directory_iterator(path_ / folder))
            files[entry.path().filename().string()] = rows(folder + "/" + entry.path().filename().string());
        return files;
    }
    std::vector<fs::path> units(const std::string& out) const {
        std::vector<fs::path> found;
        for (const auto& entry : fs::recursive_directory_iterator(path_ / out / "units")) {
            if (entry.path().filename() == "done") found.push_back(entry.path().parent_path());
        }
        std::sort(found.begin(), found.end());
        return found;
    }

  private:
    fs::path path_;
};

/// Options of a model that is trained in no time.
inline constexpr const char* small_train =
    "[train]\nsteps = 20\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\nbatch = 2\neval-batches = 1\nwarmup = 1\n"
    "probe-every = 10\nsave-every = 5\n";

/// 3 policies x 2 seeds x 2 learning rates, in units of one policy beside fp32.
inline std::string small_plan(const std::string& axes =
                                  "policy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = \"0..1\"\n"
                                  "lr = [3e-4, 1e-3]\n",
                              const std::string& units = "") {
    return std::string("name = \"small\"\n") + small_train + "[axes]\n" + axes + units;
}
inline constexpr const char* split_units = "[units]\nminutes = 1e-6\n";

}  // namespace macheps::test
