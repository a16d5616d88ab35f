// SPDX-License-Identifier: Apache-2.0
// Sweeps as tests run them: the program in a folder of its own, and what its files hold.
#pragma once
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace macheps::test {

namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

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
        const int status = std::system(line.c_str());
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    /// Starts `macheps WORDS` and does not wait; what it says goes to files with that number in their names.
    pid_t start(std::vector<std::string> words, int number) const {
        words.insert(words.begin(), "macheps");
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        const std::string log = "log" + std::to_string(number) + ".txt";
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child != 0) return child;
        if (::chdir(path_.c_str()) != 0) ::_exit(99);
        const int opened = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (opened < 0 || ::dup2(opened, STDOUT_FILENO) < 0 || ::dup2(opened, STDERR_FILENO) < 0) ::_exit(99);
        ::execv(MACHEPS_PROGRAM, argv.data());
        ::_exit(98);
    }
    static int wait(pid_t child) {
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    /// A file of rows without the columns that hold times, or say who trained what.
    std::string rows(const std::string& name) const {
        std::istringstream lines(contents(path_ / name));
        std::string text;
        std::vector<bool> left_out;
        for (std::string line; std::getline(lines, line); text += '\n') {
            std::istringstream cells(line);
            std::size_t i = 0;
            for (std::string cell; std::getline(cells, cell, ','); ++i) {
                if (left_out.size() == i) {
                    left_out.push_back(cell == "seconds" || cell == "tokens_per_second" || cell == "attempts" || cell == "host");
                }
                if (!left_out[i]) text += cell + ",";
            }
        }
        return text;
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
inline std::string small_plan(const std::string& axes = "policy = [\"amp-bf16\", \"pure-bf16\"]\nseeds = \"0..1\"\n"
                                                       "lr = [3e-4, 1e-3]\n",
                              const std::string& units = "") {
    return std::string("name = \"small\"\n") + small_train + "[axes]\n" + axes + units;
}
inline constexpr const char* split_units = "[units]\nminutes = 1e-6\n";

}  // namespace macheps::test
