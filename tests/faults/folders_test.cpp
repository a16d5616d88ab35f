// SPDX-License-Identifier: Apache-2.0
// Tests folders that cannot be listed. Every command that reads folders must report an error, and must not treat the
// folder as empty.
#include "tests/faults/faulty_program.hpp"
#include "tests/faults/hostile_inputs.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

namespace folders_test {

using namespace macheps::test;

namespace {

/// Changes the user from root to nobody, because root may read every folder.
void become_nobody() {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(97);
}

Start as_nobody() { return {.prepare = become_nobody}; }

void close_folder(const fs::path& path) { REQUIRE(::chmod(path.c_str(), 0) == 0); }

}  // namespace

TEST_CASE("a folder that cannot be listed is an error, and an empty folder is reported", "[faults][folders]") {
    const Folder folder;
    fs::permissions(folder.path(), fs::perms::all);
    fs::create_directories(folder / "configs/secret");
    fs::create_directories(folder / "empty");
    fs::create_directories(folder / "arrays/one");
    folder.write("configs/good.json", R"({"fp16":{"enabled":true},"zero_optimization":{"stage":1}})");
    folder.write("configs/secret/bad.json", R"({"fp16":{"enabled":true},"bf16":{"enabled":true}})");
    folder.write("arrays/one/x.npz",
                 zip_of({{"a.npy", npy_of_ones(2, 2)}, {"b.npy", npy_of_ones(2, 2)}, {"out.npy", npy_of_ones(2, 2)}}));
    folder.write("suite.toml", "[[check]]\nop = \"gemm\"\nallow_weak = true\nfiles = \"arrays/*/*.npz\"\n");
    const std::vector<std::pair<std::string, fs::path>> cases{
        {"policy import --each configs", folder / "configs/secret"},
        {"check suite.toml", folder / "arrays/one"},
        {"check suite.toml", folder / "arrays"},
        {"verify --replay configs", folder / "configs/secret"},
    };
    for (const auto& [command, closed] : cases) {
        close_folder(closed);
        const Outcome outcome = folder.run(command, as_nobody());
        REQUIRE(::chmod(closed.c_str(), 0755) == 0);
        CAPTURE(command, closed.string(), outcome.out, outcome.err);
        CHECK(outcome.code == 3);
        CHECK(outcome.err.find("Permission denied") != std::string::npos);
    }
    CHECK(folder.run("policy import --each configs", as_nobody()).code == 1);
    const Outcome empty = folder.run("policy import --each empty");
    CHECK(empty.code == 3);
    CHECK(empty.err.find("this folder contains no config") != std::string::npos);
}

TEST_CASE("an unreadable folder of a sweep is an error, and its units do not count as missing", "[faults][folders]") {
    const Folder folder;
    fs::permissions(folder.path(), fs::perms::all);
    folder.write("plan.toml",
                 "[train]\nsteps = 2\nlayers = 1\nwidth = 8\nheads = 1\ncontext = 8\nbatch = 2\n[axes]\n"
                 "policy = [\"amp-bf16\"]\nseeds = [0]\n");
    REQUIRE(folder.run("sweep run plan.toml --out sweep -q").code == 0);
    REQUIRE(folder.run("sweep status sweep", as_nobody()).code == 0);
    fs::create_directories(folder / "sweep/failed");
    for (const char* closed : {"units", "failed", "work"}) {
        if (!fs::exists(folder / "sweep" / closed)) continue;
        close_folder(folder / "sweep" / closed);
        for (const char* command : {"sweep status sweep", "merge sweep"}) {
            if (std::string(closed) == "work" && std::string(command) == "merge sweep") continue;
            const Outcome outcome = folder.run(command, as_nobody());
            CAPTURE(std::string(command), std::string(closed), outcome.out, outcome.err);
            const bool asks = std::string(command) == "merge sweep" || std::string(closed) != "failed";
            if (asks) CHECK(outcome.code == 3);
            if (asks) CHECK(outcome.err.find("Permission denied") != std::string::npos);
        }
        REQUIRE(::chmod((folder / "sweep" / closed).c_str(), 0755) == 0);
    }
}

TEST_CASE("a read error in the middle of listing a folder ends the command with exit code 3", "[faults][folders]") {
    const Folder folder;
    fs::create_directories(folder / "configs");
    folder.write("configs/good.json", R"({"fp16":{"enabled":true},"zero_optimization":{"stage":1}})");
    const Outcome outcome = folder.run("policy import --each configs",
                                       {.environment = {"LD_PRELOAD=" MACHEPS_PRELOAD_FAULTS,
                                                        "MACHEPS_FAULT=readdir:1:" + std::to_string(EIO) + ":sticky"}});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 3);
}

TEST_CASE("a file pattern of a suite is matched against a limited number of names", "[faults][folders]") {
    const Folder folder;
    folder.write("suite.toml", "[[check]]\nop = \"gemm\"\nfiles = \"names/*/x.npz\"\n");
    fs::create_directory(folder / "names");
    for (int i = 0; i < 100; ++i) fs::create_directory(folder / ("names/" + std::to_string(i)));
    CHECK(folder.run("check suite.toml").err.find("no file matches") != std::string::npos);
    folder.write("wide.toml", "[[check]]\nop = \"gemm\"\nfiles = \"/*/*/*/*/*/*/*/*/*/*.npz\"\n");
    const rlimit seconds{20, 20};
    const Outcome outcome = folder.run("check wide.toml", {.prepare = [seconds] {
                                           if (setrlimit(RLIMIT_CPU, &seconds) != 0) _exit(97);
                                       }});
    CAPTURE(outcome.err);
    CHECK((outcome.code == 2 || outcome.code == 3));
}

TEST_CASE("only the used members of an archive are unpacked, and members must not share bytes", "[faults][inputs]") {
    const Folder folder;
    const std::vector<Member> arrays{
        {"a.npy", npy_of_ones(2, 2)}, {"b.npy", npy_of_ones(2, 2)}, {"out.npy", npy_of_ones(2, 2)}};
    folder.write("twice.npz", zip_of(arrays, 1000));
    const Outcome twice = folder.run("check twice.npz --op gemm");
    CAPTURE(twice.err);
    CHECK(twice.code == 3);
    CHECK(twice.err.find("shares bytes with another member") != std::string::npos);
    // The check does not use the array `unused`. Therefore it does not unpack this member of the archive, and does not
    // notice that the member is damaged.
    std::vector<Member> more = arrays;
    more.push_back({"unused.npy", npy_of_ones(8, 8)});
    std::string damaged = zip_of(more);
    damaged[damaged.rfind(std::string("\0\0\x80\x3f", 4))] = 'x';
    folder.write("damaged.npz", damaged);
    const Outcome unused = folder.run("check damaged.npz --op gemm --allow-weak");
    CAPTURE(unused.out, unused.err);
    CHECK(unused.out.find("unused arrays: unused") != std::string::npos);
    CHECK(unused.code != 3);
}

TEST_CASE("a file of a hundred thousand tensors is read in less than five seconds", "[faults][inputs]") {
    const Folder folder;
    std::vector<std::string> names;
    for (int i = 0; i < 100000; ++i) names.push_back("t" + std::to_string(i));
    folder.write("many.safetensors", safetensors_of(names));
    const rlimit seconds{5, 5};
    const Outcome outcome = folder.run("check many.safetensors --op gemm", {.prepare = [seconds] {
                                           if (setrlimit(RLIMIT_CPU, &seconds) != 0) _exit(97);
                                       }});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 3);
    CHECK(outcome.err.size() < 400);
    CHECK(outcome.err.find("and 99992 more") != std::string::npos);
}

TEST_CASE("a file of /proc that reports no size and never ends is refused", "[faults][inputs]") {
    const Folder folder;
    // The page map of a process reports a size of 0, and reading it practically never ends.
    const Outcome outcome = folder.run("check /proc/self/pagemap --op gemm");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 3);
}

TEST_CASE("the error for a damaged file describes its format and does not quote a library's exception",
          "[faults][inputs]") {
    const Folder folder;
    folder.write("damaged.npz", "XK\x03\x04 and more bytes");
    folder.write("big.npy", [] {
        std::string npy = npy_of_ones(2, 2);
        return npy.replace(npy.find("<f4"), 3, ">f2");
    }());
    folder.write("sweep.json", "{\"schema\": oops");
    folder.write("line.jsonl", "{oops\n");
    const auto says = [&](const std::string& command) { return folder.run(command).err; };
    CHECK(says("check damaged.npz --op gemm").find("the first bytes are not those of an .npz archive") !=
          std::string::npos);
    CHECK(says("check big.npy --op gemm").find("lower byte first") != std::string::npos);
    CHECK(says("machine eval line.jsonl").find("json.exception") == std::string::npos);
    CHECK(says("check good --op gemm --baseline line.jsonl").find("json.exception") == std::string::npos);
    CHECK(says("check power " + std::string("/dev/zero")).find("neither a regular file") != std::string::npos);
}

}  // namespace folders_test
