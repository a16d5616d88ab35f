// SPDX-License-Identifier: Apache-2.0
// Tests how files are published and read: a published file appears complete even if other processes write at the same
// time, and every read has a size limit.
#include "core/error.hpp"
#include "core/host/memory_limit.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/text/nesting.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace files_test {

using namespace macheps;
using macheps::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::vector<std::string> sorted_names(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

template <class Call>
Error::Parts parts_of_error(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.parts();
    }
    return {.what = "no error", .exit = Exit::ok};
}

}  // namespace

TEST_CASE("a published file appears with its whole content, and no temporary file stays in its folder",
          "[core][files]") {
    const TemporaryFolder folder;
    publish(folder / "page", "one");
    CHECK(text_of(folder / "page") == "one");
    {
        Publication file(folder / "page");
        file.write("tw");
        CHECK(text_of(folder / "page") == "one");
        file.write("o");
        file.finish();
    }
    CHECK(text_of(folder / "page") == "two");
    { Publication(folder / "page").write("never finished"); }
    CHECK(text_of(folder / "page") == "two");
    CHECK(sorted_names(folder.path()) == std::vector<std::string>{"page"});
    CHECK(names_in(folder.path()) == std::vector<std::string>{"page"});
    CHECK(names_in(folder / "missing").empty());
    CHECK_THROWS_AS(names_in(folder / "page"), Error);
    CHECK(files_below(folder.path()) == std::vector<fs::path>{folder / "page"});
    CHECK_THROWS_AS(files_below(folder / "missing"), Error);
    const std::string longest(255, 'x');  // the maximum length; the name of the temporary file must not be longer
    publish(folder / longest, "long");
    CHECK(text_of(folder / longest) == "long");
}

TEST_CASE("publishing to a symbolic link replaces its target, which keeps its permissions", "[core][files]") {
    const TemporaryFolder folder;
    fs::create_directory(folder / "inner");
    write_text(folder / "inner/real", "old");
    fs::permissions(folder / "inner/real", fs::perms(0640));
    fs::create_symlink("inner/second", folder / "first");
    fs::create_symlink("real", folder / "inner/second");
    publish(folder / "first", "new");
    CHECK(fs::is_symlink(folder / "first"));
    CHECK(fs::is_symlink(folder / "inner/second"));
    CHECK(text_of(folder / "inner/real") == "new");
    CHECK(fs::status(folder / "inner/real").permissions() == fs::perms(0640));
    CHECK(sorted_names(folder.path()) == std::vector<std::string>{"first", "inner"});

    fs::create_symlink(folder / "inner/made", folder / "dangling");
    publish(folder / "dangling", "made");
    CHECK(fs::is_symlink(folder / "dangling"));
    CHECK(text_of(folder / "inner/made") == "made");

    fs::create_symlink("circle", folder / "circle");
    const Error::Parts parts = parts_of_error([&] { publish(folder / "circle", "x"); });
    CHECK(parts.exit == Exit::cannot_write);
    CHECK(parts.where == (folder / "circle").string());
    CHECK(fs::is_symlink(folder / "circle"));
}

TEST_CASE("an output that is not a regular file is written in place", "[core][files]") {
    const TemporaryFolder folder;
    if (test::make_null_device(folder / "device")) {
        CHECK(is_written_in_place(folder / "device"));
        publish(folder / "device", "gone");
        CHECK(fs::is_character_file(folder / "device"));
        fs::remove(folder / "device");
    }
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    fs::create_symlink("pipe", folder / "link");
    CHECK(is_written_in_place(folder / "link"));
    CHECK_FALSE(is_written_in_place(folder / "none"));
    auto reader = std::async(std::launch::async, [&] { return text_of(folder / "pipe"); });
    publish(folder / "link", "through a pipe");
    CHECK(reader.get() == "through a pipe");
    CHECK(fs::is_fifo(folder / "pipe"));

    // An open file whose name has been removed can be reached only through /proc.
    const int kept = ::open((folder / "unnamed").c_str(), O_RDWR | O_CREAT, 0600);
    REQUIRE(kept >= 0);
    fs::remove(folder / "unnamed");
    const fs::path by_number = "/proc/self/fd/" + std::to_string(kept);
    if (fs::exists(by_number)) {
        publish(by_number, "in place");
        char back[9] = {};
        CHECK(::pread(kept, back, 8, 0) == 8);
        CHECK(std::string(back) == "in place");
    }
    ::close(kept);
    CHECK(sorted_names(folder.path()) == std::vector<std::string>{"link", "pipe"});

    const Error::Parts parts = parts_of_error([&] { publish(folder.path(), "x"); });
    CHECK(parts.exit == Exit::cannot_write);
    CHECK(parts_of_error([&] { publish(folder / "none/page", "x"); }).exit == Exit::cannot_write);
}

TEST_CASE("any number of writers may publish the same file at once", "[core][files]") {
    const TemporaryFolder folder;
    {
        Publication first(folder / "page"), second(folder / "page");
        first.write("first"), second.write("second");
        second.finish();
        CHECK(text_of(folder / "page") == "second");
        first.finish();
        CHECK(text_of(folder / "page") == "first");
    }
    std::vector<std::thread> writers;
    std::atomic<int> torn{0};
    for (char name = 'a'; name < 'e'; ++name) {
        writers.emplace_back([&, name] {
            for (int i = 0; i < 25; ++i) {
                publish(folder / "page", std::string(50000, name));
                const std::string text = text_of(folder / "page");
                if (text.size() != 50000 || text.find_first_not_of(text[0]) != std::string::npos) ++torn;
            }
        });
    }
    for (std::thread& writer : writers) writer.join();
    CHECK(torn == 0);
    CHECK(sorted_names(folder.path()) == std::vector<std::string>{"page"});
}

TEST_CASE("temporary files of ended processes are removed, and temporary files of running processes are kept",
          "[core][files]") {
    const TemporaryFolder folder;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        Publication file(folder / "page");
        file.write("half of a pa");
        (void)!::write(ready[1], "r", 1);
        for (;;) ::pause();
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    ::close(ready[0]), ::close(ready[1]);
    remove_leftover_drafts(folder.path());
    CHECK(sorted_names(folder.path()).size() == 1);  // the process that writes the temporary file still runs
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(sorted_names(folder.path()).size() == 1);
    write_text(folder / ".macheps-notes", "not a draft");
    publish(folder / "other", "text");
    CHECK(sorted_names(folder.path()) == std::vector<std::string>{".macheps-notes", "other"});
}

TEST_CASE("a symbolic link under the name of a temporary file is neither followed nor replaced", "[core][files]") {
    const TemporaryFolder folder;
    write_text(folder / "victim", "untouched");
    const std::string prefix = ".macheps-" + std::to_string(::getpid()) + "-";
    for (int i = 0; i < 3000; ++i) fs::create_symlink("victim", folder / (prefix + std::to_string(i) + ".new"));
    publish(folder / "page", "text");
    CHECK(text_of(folder / "victim") == "untouched");
    CHECK(text_of(folder / "page") == "text");
    CHECK_FALSE(fs::is_symlink(folder / "page"));
    CHECK(sorted_names(folder.path()).size() == 3002);
}

TEST_CASE("files and pipes are read up to a size limit, and devices and folders are refused", "[core][files]") {
    const TemporaryFolder folder;
    const std::string text(200'000, 'x');
    write_text(folder / "file", text);
    CHECK(read_file(folder / "file") == text);
    CHECK(read_file(folder / "file", text.size()) == text);
    const Error::Parts large = parts_of_error([&] { read_file(folder / "file", text.size() - 1); });
    CHECK(large.exit == Exit::bad_input);
    CHECK(large.where == (folder / "file").string());
    CHECK(large.what.find("199999") != std::string::npos);

    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    const auto through_pipe = [&](std::uint64_t most) {
        ::signal(SIGPIPE, SIG_IGN);
        auto writer = std::async(std::launch::async, [&] { write_text(folder / "pipe", text); });
        const std::string got = read_file(folder / "pipe", most);
        writer.get();
        return got;
    };
    CHECK(through_pipe(any_bytes) == text);
    CHECK(parts_of_error([&] { through_pipe(1000); }).exit == Exit::bad_input);

    struct Case {
        fs::path path;
        const char* says;
    };
    for (const Case& c : {Case{"/dev/zero", "neither a regular file nor a pipe"},
                          Case{"/dev/null", "neither a regular file nor a pipe"}, Case{folder.path(), "directory"},
                          Case{folder / "none", "No such file"}}) {
        CAPTURE(c.path.string());
        const Error::Parts parts = parts_of_error([&] { read_file(c.path); });
        CHECK(parts.exit == Exit::bad_input);
        CHECK(parts.where == c.path.string());
        CHECK(parts.what.find(c.says) != std::string::npos);
        CHECK(parts_of_error([&] { check_has_end(c.path); }).what == parts.what);
    }
}

TEST_CASE("JSON that nests too deeply is found, and its line is reported", "[core][files]") {
    const auto nested = [](std::size_t levels, std::string before = {}, const std::string& after = {}) {
        return before.append(levels, '[').append(levels, ']') + after;
    };
    CHECK_FALSE(line_nested_too_deep(nested(max_levels)));
    CHECK(line_nested_too_deep(nested(max_levels + 1)) == 1);
    CHECK(line_nested_too_deep(nested(max_levels, "{\"a\":\n", "}")) == 2);
    CHECK_FALSE(line_nested_too_deep(nested(200) + nested(200)));
    CHECK_FALSE(line_nested_too_deep(nested(1000, "\"", "\"")));
    CHECK_FALSE(line_nested_too_deep(nested(1000, "\"\\\"", "\"")));
    CHECK(line_nested_too_deep(nested(1000, "\"\\\\\"\n")) == 2);
    CHECK_FALSE(line_nested_too_deep(std::string(1000, ']') + nested(max_levels)));
}

TEST_CASE("a size is a decimal with an optional unit", "[core][files]") {
    struct Case {
        const char* text;
        std::optional<std::int64_t> bytes;
    };
    for (const Case& c : std::initializer_list<Case>{{"4096", 4096},
                                                     {"512M", std::int64_t{512} << 20},
                                                     {"1.5G", std::int64_t{3} << 29},
                                                     {"8GiB", std::int64_t{8} << 30},
                                                     {"2kB", 2048},
                                                     {"2kb", {}},
                                                     {"0.1T", 109951162777},  // 2^40 / 10, rounded down
                                                     {"7B", 7},
                                                     {"", {}},
                                                     {"G", {}},
                                                     {".", {}},
                                                     {"1.2.3G", {}},
                                                     {"-1", {}},
                                                     {"0.5", {}},
                                                     {"1X", {}},
                                                     {"1GX", {}},
                                                     {"1 G", {}},
                                                     {"5000000T", {}},
                                                     {"1e3", {}},
                                                     {"1234567890123456789", {}}}) {
        CAPTURE(c.text);
        CHECK(parse_bytes(c.text) == c.bytes);
    }
}

}  // namespace files_test
