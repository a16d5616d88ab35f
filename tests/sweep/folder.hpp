// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of sweeps. They run the program in a temporary folder and read the files that it writes.
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

/// A temporary folder in memory in which a test runs the program. The destructor removes the folder.
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
    /// Returns the folder of attempt `number` (from 0) at a unit of the sweep in the folder `sweep`.
    fs::path attempt(const std::string& sweep, const std::string& unit, int number) const {
        return path_ / sweep / "work" / (unit + "." + std::to_string(number));
    }
    const fs::path& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    std::string out() const { return contents(path_ / "out.txt"); }
    std::string err() const { return contents(path_ / "err.txt"); }

    /// Runs `macheps ARGUMENTS` in a shell. Returns its exit code, or 128 plus the signal's number if a signal ended
    /// it.
    int run(const std::string& arguments, const std::string& environment = "") const {
        return shell(environment + " '" MACHEPS_PROGRAM "' " + arguments);
    }
    int shell(const std::string& command) const {
        const std::string line = "cd '" + path_.string() + "' && { " + command + "; } >out.txt 2>err.txt </dev/null";
        return exit_code(std::system(line.c_str()));
    }
    /// Starts `macheps WORDS` without waiting for its end. The output goes to the file logN.txt, where N is `number`.
    pid_t start(std::vector<std::string> words, int number, const Start& how = {}) const {
        const std::string log = "log" + std::to_string(number) + ".txt";
        return start_program(path_, std::move(words), log, log, how);
    }

    /// Waits for at most twenty seconds until an attempt at a unit of the sweep in `out` has its first checkpoint.
    bool waits_for_checkpoint(const std::string& out) const {
        for (int i = 0; i < 4000; ++i) {
            std::error_code gone;  // a running process removes files that it no longer needs
            for (const auto& attempt : fs::directory_iterator(path_ / out / "work", gone)) {
                for (const auto& file : fs::directory_iterator(attempt.path() / "checkpoints", gone)) {
                    if (file.path().filename().string().starts_with("run-")) return true;
                }
            }
            ::usleep(5000);
        }
        return false;
    }

    /// Returns the text of a CSV file without the columns that contain times, attempts or hosts.
    std::string rows(const std::string& name) const {
        return without_columns(contents(path_ / name), {"seconds", "tokens_per_second", "attempts", "host"});
    }
    /// Returns all files that `merge` wrote into a folder, by name.
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

/// Options of a training that takes almost no time.
inline constexpr const char* small_train =
    "[train]\nsteps = 20\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 8\nbatch = 2\neval-batches = 1\nwarmup = 1\n"
    "probe-every = 10\nsave-every = 5\n";

/// Returns the text of a plan. By default, it has 3 policies (with fp32), 2 seeds and 2 learning rates. If `units` is
/// `split_units`, each unit trains fp32 and one other policy.
inline std::string small_plan(const std::string& axes =
                                  "policy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = \"0..1\"\n"
                                  "lr = [3e-4, 1e-3]\n",
                              const std::string& units = "") {
    return std::string("name = \"small\"\n") + small_train + "[axes]\n" + axes + units;
}
inline constexpr const char* split_units = "[units]\nminutes = 1e-6\n";

}  // namespace macheps::test
