// SPDX-License-Identifier: Apache-2.0
// Runs the program in a temporary folder, for tests that inject faults.
#pragma once
#include "tests/program_folder.hpp"
#include "tests/scratch.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace macheps::test {

inline std::vector<std::string> words(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> out;
    for (std::string word; in >> word;) out.push_back(word);
    return out;
}

struct Outcome {
    int code = -1;  ///< 128 plus the signal's number if a signal ended the program
    std::string out, err;
};

/// A temporary folder in which programs run. The destructor removes it.
class Folder {
  public:
    explicit Folder(const fs::path& parent = memory_folder()) {
        static int count = 0;
        path_ = parent / ("faults_" + std::to_string(count++));
        fs::remove_all(path_);
        fs::create_directories(path_);
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path operator/(const std::string& name) const { return path_ / name; }
    const fs::path& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
    }

    /// Runs `macheps ARGUMENTS` in the folder.
    Outcome run(const std::string& arguments, const Start& start = {}) const { return finish(begin(arguments, start)); }
    Outcome run(std::vector<std::string> arguments, const Start& start = {}) const {
        return finish(begin(std::move(arguments), start));
    }
    pid_t begin(const std::string& arguments, const Start& start = {}) const { return begin(words(arguments), start); }
    pid_t begin(std::vector<std::string> arguments, const Start& start) const {
        return start_program(path_, std::move(arguments), "out.txt", "err.txt", start);
    }
    Outcome finish(pid_t child) const {
        const int code = wait_for(child);
        return {code, contents(path_ / "out.txt"), contents(path_ / "err.txt")};
    }

  private:
    fs::path path_;
};

/// Returns the lines of `err` that report an error, without progress and notes.
inline std::vector<std::string> error_lines(const std::string& err) {
    std::vector<std::string> lines;
    std::istringstream in(err);
    for (std::string line; std::getline(in, line);) {
        const bool is_note = line.find("ignored a checkpoint") != std::string::npos ||
                             line.find("macheps: this run was started by ") != std::string::npos;
        if (line.starts_with("macheps: ") && !is_note) lines.push_back(line);
    }
    return lines;
}

/// Returns whether the help documents this exit code.
inline bool is_documented(int code) {
    return code == 0 || code == 2 || code == 3 || code == 4 || code == 5 || code == 75;
}

/// Returns a table without the columns that contain times.
inline std::string without_times(const std::string& text) {
    return without_columns(text, {"seconds", "tokens_per_second", "slowdown"});
}

/// Returns a manifest without the line that describes the device. This line differs if the system grants no threads.
inline std::string without_device(const std::string& text) {
    const std::size_t from = text.find("  \"device\": "), to = text.find('\n', from);
    return from == std::string::npos ? text : text.substr(0, from) + text.substr(to + 1);
}

/// Returns the contents of the files of a run directory, without times and the device.
inline std::map<std::string, std::string> rows_of(const fs::path& directory) {
    std::map<std::string, std::string> files;
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"})
        files[name] = contents(directory / name);
    files["manifest.json"] = without_device(contents(directory / "manifest.json"));
    files["runs.csv"] = without_times(contents(directory / "runs.csv"));
    return files;
}

/// Returns the names of the files that differ.
inline std::string differing(const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b) {
    std::string names;
    for (const auto& [name, text] : a) {
        if (b.at(name) != text) names += name + " ";
    }
    return names;
}

/// Returns the arguments of two short runs that write everything that a run directory can contain.
inline std::string short_run_with(const std::string& token_weight) {
    return "train --layers 1 --width 8 --heads 2 --context 6 --vocabulary 24 --batch 2 --eval-batches 1 --warmup 2 "
           "--threads 2 --steps 6 --eval-every 3 --probe-every 2 --histogram-every 4 --save-every 2 --seeds 0 "
           "--token-weight " +
           token_weight + " --policy amp-fp16 --out run";
}
inline const std::string short_run = short_run_with("1");

}  // namespace macheps::test
