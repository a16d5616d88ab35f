// SPDX-License-Identifier: Apache-2.0
// Injects faults into the system calls that the program makes through the C library. One call fails, or that call and
// all later calls fail, or a call does only a part of its work, or the program is killed before a call. In every case
// the exit code must be documented, one line must report the reason, the run directory must be readable, and a resumed
// run must write the same bytes as an undisturbed run.
#include "tests/faults/faulty_program.hpp"

#include <cerrno>
#include <iostream>
#include <set>

namespace faults_test {

using namespace macheps::test;

namespace {

/// A function whose calls preload_faults.cpp can make fail, and the ways in which they may fail.
struct FaultyCall {
    const char* name;
    std::vector<int> errors;
    bool may_be_interrupted = false, may_be_short = false, kills = false;
};

const std::vector<FaultyCall>& faulty_calls() {
    static const std::vector<FaultyCall> list{
        {"open", {EMFILE, EACCES}, false, false, true},
        {"fopen", {EMFILE, EIO}},
        {"read", {EIO}, true, true},
        {"write", {ENOSPC, EIO}, true, true, true},
        {"writev", {ENOSPC}},
        {"pread", {EIO}, true, true},
        {"pwrite", {ENOSPC}, true, true, true},
        {"lseek", {EIO}},
        {"fsync", {EIO, ENOSPC}, true, false, true},
        {"rename", {ENOSPC, EIO}, false, false, true},
        {"unlink", {EACCES, EIO}, false, false, true},
        {"unlinkat", {EACCES}},
        {"mkdir", {ENOSPC, EACCES}, false, false, true},
        {"ftruncate", {EIO}, true, false, true},
        {"close", {EIO, ENOSPC}},
        {"fstat", {EIO}},
        {"stat", {EACCES, ELOOP}},
        {"lstat", {EACCES}},
        {"flock", {ENOLCK}, true},
        {"mmap", {ENOMEM}},
        {"fdopendir", {EMFILE}},
        {"readdir", {EIO}},
        {"statvfs", {EIO}},
        {"getcwd", {ENOENT}},
        {"access", {EACCES}},
        {"pthread_create", {EAGAIN}},
        {"fwrite", {ENOSPC}},
        {"fflush", {ENOSPC}},
        {"fclose", {EIO}},
        {"new", {ENOMEM}},
    };
    return list;
}

struct Injection {
    std::string call;
    long number = 0;
    int error = 0;
    std::string mode;

    std::string text() const { return call + ":" + std::to_string(number) + ":" + std::to_string(error) + ":" + mode; }
    Start start() const { return {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS, "MACHEPS_FAULT=" + text()}}; }
};

/// Selects the calls of a function at which a fault is injected. `sample` selects the first, the middle and the last
/// call. `all` selects every call if there are at most 60, and otherwise the first 60 calls and 60 evenly spaced calls.
enum class Depth { sample, all };

/// Returns the numbers of the calls that fail, out of `count` calls.
std::vector<long> chosen_numbers(long count, Depth depth) {
    std::set<long> numbers;
    if (depth == Depth::sample) {
        numbers = {1, (count + 1) / 2, count};
    } else {
        constexpr long each = 60;  // the first 60 calls, and 60 evenly spaced calls
        for (long i = 1; i <= std::min(count, each); ++i) numbers.insert(i);
        for (long i = 1; i <= each && count > each; ++i) numbers.insert(count * i / each);
    }
    return {numbers.begin(), numbers.end()};
}

/// Returns how often `macheps ARGUMENTS` calls each function.
std::map<std::string, long> calls_of(const Folder& folder, const std::string& arguments) {
    const fs::path counts = folder / "counts.txt";
    const Outcome outcome = folder.run(
        arguments, {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS, "MACHEPS_FAULT_COUNT=" + counts.string()}});
    CAPTURE(arguments, outcome.err);
    REQUIRE(outcome.code == 0);
    std::map<std::string, long> calls;
    std::ifstream in(counts);
    std::string name;
    for (long count = 0; in >> name >> count;) calls[name] = count;
    REQUIRE(calls.size() == faulty_calls().size());
    fs::remove(counts);
    return calls;
}

std::vector<Injection> injections(const std::map<std::string, long>& calls, Depth depth) {
    std::vector<Injection> list;
    for (const FaultyCall& call : faulty_calls()) {
        const long count = calls.at(call.name);
        if (count == 0) continue;
        for (const long number : chosen_numbers(count, depth)) {
            for (const int error : call.errors) {
                list.push_back({call.name, number, error, "sticky"});
                // Also makes a single call of fsync fail. After a sticky fault, all later calls fail too, and the
                // program may report one of their failures instead of the first.
                if (depth == Depth::all || call.name == std::string_view("fsync"))
                    list.push_back({call.name, number, error, "once"});
                if (depth == Depth::sample) break;
            }
            if (depth == Depth::sample) continue;
            if (call.may_be_interrupted) list.push_back({call.name, number, EINTR, "once"});
            if (call.may_be_short) list.push_back({call.name, number, 0, "short"});
            if (call.kills) list.push_back({call.name, number, 0, "kill"});
        }
        if (depth == Depth::sample && call.kills) list.push_back({call.name, (count + 1) / 2, 0, "kill"});
    }
    return list;
}

/// Counts how often the injections into one command end with each exit code.
struct Tallied {
    std::map<int, int> by_code;
    std::size_t injected = 0;

    void add(int code) { ++by_code[code], ++injected; }
    void print(const std::string& name, const std::map<std::string, long>& calls) const {
        std::cout << name << ": " << injected << " faults into";
        for (const auto& [call, count] : calls) {
            if (count > 0) std::cout << " " << call << " " << count;
        }
        std::cout << "; ended with";
        for (const auto& [code, count] : by_code) {
            std::cout << " " << (code == 128 + SIGKILL ? "a kill" : "exit " + std::to_string(code)) << " " << count;
        }
        std::cout << std::endl;
    }
};

/// Checks that a fault had no effect, or ended the program with a documented exit code and one line of error.
void check_ending(const Outcome& outcome, const Injection& injection) {
    CAPTURE(outcome.code, outcome.err);
    if (injection.mode == "kill") {
        CHECK(outcome.code == 128 + SIGKILL);
        return;
    }
    CHECK((outcome.code == 0 || outcome.code == 3 || outcome.code == 5));
    CHECK(error_lines(outcome.err).size() == (outcome.code == 0 ? 0u : 1u));
    CHECK(outcome.err.find("this is a defect") == std::string::npos);
    // The program must repeat a call that was interrupted or did only a part of its work.
    if (injection.error == EINTR || injection.mode == "short") CHECK(outcome.code == 0);
    // A failed fsync must be an error, because the bytes may be lost if the power fails.
    if (injection.call == "fsync" && injection.error != EINTR) CHECK(outcome.code != 0);
}

/// Checks that the program has removed its temporary files, unless it was killed or could not remove files.
void check_no_draft(const fs::path& folder, const Injection& injection) {
    if (injection.mode == "kill" || injection.call.starts_with("unlink") || !fs::exists(folder)) return;
    for (const auto& file : fs::recursive_directory_iterator(folder))
        CHECK_FALSE(file.path().filename().string().starts_with(".macheps-"));
}

/// Checks that `macheps report` can read the run directory, and that a resumed run writes the same bytes.
void check_recovers(const Folder& folder, const std::map<std::string, std::string>& wanted) {
    if (!fs::exists(folder / "run")) return;
    const Outcome report = folder.run("report run");
    {
        CAPTURE(report.code, report.err);
        // If a file of the run is still empty, there may be nothing to report.
        bool is_begun = true;
        for (const auto& [name, text] : rows_of(folder / "run")) is_begun &= !text.empty();
        CHECK((report.code == 0 || (report.code == 3 && !is_begun)));
        CHECK(error_lines(report.err).size() == (report.code == 0 ? 0u : 1u));
    }
    const Outcome resumed = folder.run("train --resume run --threads 1");
    CAPTURE(resumed.code, resumed.err);
    if (resumed.code == 3 && resumed.err.find("nothing to resume") != std::string::npos) {
        // The run ended before its first step, so it is started again.
        const Outcome again = folder.run(short_run);
        CAPTURE(again.err);
        REQUIRE(again.code == 0);
    } else {
        REQUIRE(resumed.code == 0);
    }
    CHECK(differing(wanted, rows_of(folder / "run")) == "");
}

std::map<std::string, std::string> undisturbed() {
    const Folder folder;
    REQUIRE(folder.run(short_run).code == 0);
    return rows_of(folder / "run");
}

void break_training(Depth depth) {
    const auto wanted = undisturbed();
    const Folder counted;
    const auto calls = calls_of(counted, short_run);
    Tallied tallied;
    for (const Injection& injection : injections(calls, depth)) {
        INFO(injection.text());
        const Folder folder;
        const Outcome outcome = folder.run(short_run, injection.start());
        tallied.add(outcome.code);
        check_ending(outcome, injection);
        check_no_draft(folder / "run", injection);
        if (outcome.code == 0) CHECK(differing(wanted, rows_of(folder / "run")) == "");
        check_recovers(folder, wanted);
    }
    tallied.print("train", calls);
}

/// Makes a run that was killed in the middle and has checkpoints.
void make_stopped(const Folder& folder) {
    const Injection kill{"rename", 3, 0, "kill"};  // the manifest is renamed first, checkpoints later
    REQUIRE(folder.run(short_run, kill.start()).code == 128 + SIGKILL);
    REQUIRE(fs::exists(folder / "run/checkpoints"));
}

void break_resume(Depth depth) {
    const auto wanted = undisturbed();
    const Folder stopped;
    make_stopped(stopped);
    const auto put_back = [&](const Folder& folder) {
        fs::copy(stopped / "run", folder / "run", fs::copy_options::recursive);
    };
    const std::string resume = "train --resume run --threads 2";
    const Folder counted;
    put_back(counted);
    const auto calls = calls_of(counted, resume);
    Tallied tallied;
    for (const Injection& injection : injections(calls, depth)) {
        INFO(injection.text());
        const Folder folder;
        put_back(folder);
        const Outcome outcome = folder.run(resume, injection.start());
        tallied.add(outcome.code);
        check_ending(outcome, injection);
        if (outcome.code == 0) CHECK(differing(wanted, rows_of(folder / "run")) == "");
        check_recovers(folder, wanted);
    }
    tallied.print("train --resume", calls);
}

void break_report(Depth depth) {
    const Folder whole;
    REQUIRE(whole.run(short_run).code == 0);
    const auto rows = rows_of(whole / "run");
    const Outcome fine = whole.run("report run");
    const std::string summary = contents(whole / "run/summary.csv"), page = contents(whole / "run/report.html");
    const auto calls = calls_of(whole, "report run");
    Tallied tallied;
    for (const Injection& injection : injections(calls, depth)) {
        INFO(injection.text());
        whole.write("run/report.html", page);
        const Outcome outcome = whole.run("report run", injection.start());
        tallied.add(outcome.code);
        check_ending(outcome, injection);
        check_no_draft(whole / "run", injection);
        if (outcome.code == 0) CHECK(outcome.out == fine.out);
        // summary.csv and the page must be complete. They may come from this report or from the previous one, because
        // both reports are the same. If the manifest cannot be read, a note says so, and the page lacks the settings.
        // In this case the page is not compared.
        CHECK(contents(whole / "run/summary.csv") == summary);
        const bool has_note = outcome.code == 0 && outcome.err.find("note: ") != std::string::npos;
        CHECK((has_note || contents(whole / "run/report.html") == page));
        CHECK(differing(rows, rows_of(whole / "run")) == "");
    }
    tallied.print("report", calls);
}

/// A command whose output is compared, and the name of the file that it writes, which is empty if it writes none.
struct Printed {
    const char *arguments, *file;
};
constexpr Printed printed[] = {
    {"--help", ""},
    {"show 0.1 --json", ""},
    {"formats --json", ""},
    {"version", ""},
    {"man", ""},
    {"completion bash", ""},
    {"policy list", ""},
    {"policy show tf32", ""},
    {"policy words", ""},
    {"policy explain tf32 --layers 1", ""},
    {"policy explain tf32 --layers 1 --json", ""},
    {"machine list", ""},
    {"machine show sm90.wgmma.fp8", ""},
    {"convert --to fp16", ""},
    {"testfloat f16_add --generate --count 20", ""},
    {"why loss is nan", ""},
    {"reveal -k 8", ""},
    {"reveal -k 4 -f fp16 --emit-operands operands.npy", "operands.npy"},
    {"gemm -k 16 -m 2 -n 2 -q", ""},
    {"gemm -k 16 -m 2 -n 2 --out rows.csv", "rows.csv"},
    {"train --dry-run --steps 2 --layers 1 --width 8 --heads 2 --context 6 --policy fp32", ""}};

void break_output(Depth depth) {
    for (const Printed& command : printed) {
        const Folder folder;
        const std::string arguments = command.arguments;
        const bool is_timed = arguments.find("--dry-run") != std::string::npos;
        const Outcome fine = folder.run(arguments);
        CAPTURE(arguments, fine.err);
        REQUIRE(fine.code == 0);
        const std::string file = *command.file != '\0' ? contents(folder / command.file) : "";
        const auto calls = calls_of(folder, arguments);
        Tallied tallied;
        for (const Injection& injection : injections(calls, depth)) {
            INFO(injection.text());
            if (*command.file != '\0') fs::remove(folder / command.file);
            const Outcome outcome = folder.run(arguments, injection.start());
            tallied.add(outcome.code);
            check_ending(outcome, injection);
            check_no_draft(folder.path(), injection);
            if (outcome.code != 0) continue;
            // If pthread_create fails, `version` prints the number of threads that the system granted, which differs.
            // If memory runs out, the help may be incomplete, because the parser builds it in streams, which do not
            // report this failure. The same holds for `man`, which contains the help.
            const bool may_differ = is_timed || injection.call == "pthread_create" ||
                                    (injection.call == "new" && (arguments == "--help" || arguments == "man"));
            if (!may_differ) CHECK(outcome.out == fine.out);
            if (*command.file != '\0') CHECK(contents(folder / command.file) == file);
        }
        tallied.print(arguments, calls);
    }
}

/// Writes a config file and a finished sweep, which has a single unit of work, to the folder.
void write_folders(const Folder& folder) {
    fs::create_directories(folder / "configs");
    folder.write("configs/a.json", R"({"fp16":{"enabled":true},"zero_optimization":{"stage":1}})");
    folder.write("plan.toml",
                 "[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n[axes]\n"
                 "policy = [\"amp-bf16\"]\nseeds = [0]\n");
    REQUIRE(folder.run("sweep run plan.toml --out sweep -q").code == 0);
}

/// Injects faults into commands that read folders. A fault must not make a command overlook a file: the output is the
/// same as without the fault, or the command ends with an error.
void break_folders(Depth depth) {
    for (const std::string arguments : {"policy import --each configs", "sweep status sweep", "merge sweep",
                                        "sweep submit sweep --engine slurm --print", "report sweep"}) {
        const Folder folder;
        write_folders(folder);
        const Outcome fine = folder.run(arguments);
        CAPTURE(arguments, fine.err);
        REQUIRE(fine.code == 0);
        const auto calls = calls_of(folder, arguments);
        Tallied tallied;
        for (const Injection& injection : injections(calls, depth)) {
            INFO(injection.text());
            const Outcome outcome = folder.run(arguments, injection.start());
            tallied.add(outcome.code);
            // With `--each`, the error of a config file is printed in the table on stdout, not on stderr.
            const bool is_in_table =
                outcome.code == 3 && outcome.err.empty() && outcome.out.find("configs/a.json") != std::string::npos;
            if (!is_in_table) check_ending(outcome, injection);
            check_no_draft(folder.path(), injection);
            if (outcome.code == 0) CHECK(outcome.out == fine.out);
            if (injection.mode == "kill") folder.run(arguments);  // removes the drafts of the killed process
        }
        tallied.print(arguments, calls);
    }
}

/// Trains under each limit on the size of files. The limit takes the place of a full disk, because only a user with
/// special rights may mount a small disk for a test.
void limit_file_size(const std::vector<rlim_t>& sizes) {
    const auto wanted = undisturbed();
    Tallied tallied;
    for (const rlim_t size : sizes) {
        CAPTURE(size);
        const Folder folder;
        const Start start{.prepare = [size] {
            const rlimit limit{size, size};
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(97);
        }};
        const Outcome outcome = folder.run(short_run, start);
        tallied.add(outcome.code);
        CAPTURE(outcome.code, outcome.err);
        CHECK((outcome.code == 0 || outcome.code == 5));
        check_recovers(folder, wanted);
    }
    tallied.print("train under a limit on the size of files", {});
}

}  // namespace

TEST_CASE("training survives a sample of system faults", "[faults]") { break_training(Depth::sample); }
TEST_CASE("resuming survives a sample of system faults", "[faults]") { break_resume(Depth::sample); }
TEST_CASE("a report survives a sample of system faults", "[faults]") { break_report(Depth::sample); }
TEST_CASE("under a sample of system faults, verbs print their output or report that it is lost", "[faults]") {
    break_output(Depth::sample);
}
TEST_CASE("under a sample of system faults, commands that read folders overlook no file", "[faults]") {
    break_folders(Depth::sample);
}
TEST_CASE("a limit on file sizes ends a run with exit 5, and the run can be resumed without the limit", "[faults]") {
    limit_file_size({0, 500, 3000, 30000});
}

// The sampled faults above include only a few failed allocations, but any failed allocation could leave a temporary
// file. Therefore this test makes every allocation fail, one in each run.
TEST_CASE("no failed allocation leaves a temporary file", "[faults]") {
    const std::string command = "reveal -k 4 -f fp16 --emit-operands operands.npy";
    const Folder folder;
    const long count = calls_of(folder, command).at("new");
    REQUIRE(count > 100);
    for (long number = 1; number <= count; ++number) {
        const Injection injection{"new", number, ENOMEM, "sticky"};
        INFO(injection.text());
        const Outcome outcome = folder.run(command, injection.start());
        check_ending(outcome, injection);
        check_no_draft(folder.path(), injection);
    }
}

TEST_CASE("training survives every system fault", "[faults][slow]") { break_training(Depth::all); }
TEST_CASE("resuming survives every system fault", "[faults][slow]") { break_resume(Depth::all); }
TEST_CASE("a report survives every system fault", "[faults][slow]") { break_report(Depth::all); }
TEST_CASE("under every system fault, verbs print their output or report that it is lost", "[faults][slow]") {
    break_output(Depth::all);
}
TEST_CASE("under every system fault, commands that read folders overlook no file", "[faults][slow]") {
    break_folders(Depth::all);
}
TEST_CASE("a limit of at most 300 kB on file sizes ends a run with exit 5, unless its files fit", "[faults][slow]") {
    std::vector<rlim_t> sizes;
    for (rlim_t size = 0; size < 12000; size += 137) sizes.push_back(size);
    for (rlim_t size = 20000; size <= 300000; size += 20000) sizes.push_back(size);
    limit_file_size(sizes);
}

TEST_CASE("a full disk of any size ends a run with exit 5, and the run can be resumed once there is space",
          "[faults][slow]") {
    const auto wanted = undisturbed();
    Tallied tallied;
    for (int pages = 1; pages < 160; pages += pages < 30 ? 1 : 10) {
        const Folder folder;
        fs::create_directories(folder / "disk");
        const std::string disk = (folder / "disk").string();
        const auto mounted = [&](const std::string& options) {
            return std::system(("mount -t tmpfs -o " + options + " tmpfs '" + disk + "' 2>/dev/null").c_str()) == 0;
        };
        if (!mounted("size=" + std::to_string(4096 * pages))) SKIP_TEST("mounting a small tmpfs is not allowed here");
        CAPTURE(pages);
        const Start inside{.prepare = [&disk] {
            if (chdir(disk.c_str()) != 0) _exit(97);
        }};
        const Outcome outcome = folder.run(short_run, inside);
        tallied.add(outcome.code);
        {
            CAPTURE(outcome.err);
            CHECK((outcome.code == 0 || outcome.code == 5));
        }
        CHECK(mounted("remount,size=16m"));
        Outcome again = folder.run("train --resume run --threads 1", inside);
        if (again.code == 3) again = folder.run(short_run, inside);
        {
            CAPTURE(again.err);
            CHECK(again.code == 0);
        }
        CHECK(differing(wanted, rows_of(folder / "disk/run")) == "");
        REQUIRE(std::system(("umount '" + disk + "'").c_str()) == 0);
    }
    tallied.print("train on disks of 4 to 600 KiB", {});
}

}  // namespace faults_test
