// SPDX-License-Identifier: Apache-2.0
// Tests that hostile files cause errors: files that nest too deeply, are too large, never end, or are truncated while
// they are read.
#include "core/error.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/safetensors.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/study/machine/line.hpp"
#include "experiments/training/run/data/data.hpp"
#include "experiments/training/run/directory/manifest.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <vector>

namespace hostile_files_test {

using namespace macheps;
using namespace macheps::files;
using namespace macheps::study;
using namespace macheps::policy;
using namespace macheps::training;
using macheps::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

Error::Parts parts_of_error(const std::function<void()>& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.parts();
    }
    return {.what = "no error", .exit = Exit::ok};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
}

std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
}

}  // namespace

TEST_CASE("a policy that nests too deeply is refused, and the error names the line", "[experiments][hostile]") {
    const std::string dots = repeated("a.", 50'000), few = repeated("a.", 200);
    struct Case {
        std::string toml, where, why;
    };
    const Case cases[] = {
        {"name = \"x\"\n" + dots + "a = 1", "deep.toml:2", "a key of many parts"},
        {"[" + dots + "a]", "deep.toml:1", "a table of many parts"},
        {"\n\n[[" + dots + "a]]", "deep.toml:3", "an array of tables of many parts"},
        {"# [[[ \"\n'a.b' = '''\n'\n'''\n\"x\\\"\" = \"\"\"\n\\\"\"\"\"\n" + dots + "a = 1", "deep.toml:7",
         "after comments and strings of every kind"},
        {"a = " + repeated("[", 50'000), "deep.toml:1", "arrays"},
        {"a = " + repeated("{ a = ", 50'000), "deep.toml:1", "tables in tables"},
        {few + "a = { " + few + "a = 1 }", "deep.toml:1", "dots inside and outside"},
        {few + "a = [\n[ { " + few + "a = 1 } ] ]", "deep.toml:2", "dots inside arrays inside"},
        {"a = { b = 1, " + few + few + "a = 1 }", "deep.toml:1", "after a comma"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.why);
        const Error::Parts parts = parts_of_error([&] { parse_policy(c.toml, "deep.toml"); });
        CHECK(parts.exit == Exit::bad_input);
        CHECK(parts.where == c.where);
        CHECK(contains(parts.what, "nest deeper than 256 levels"));
    }
    // The files below contain many brackets but do not nest too deeply. The reader must not refuse them because of
    // their depth.
    const std::string shallow[] = {
        "name = \"" + dots + "\"",  // a long name
        "description = '''" + repeated("[", 1000) + "'''",
        "description = \"\"\"\n" + repeated("{\n", 1000) + "\"\"\"",
        "# " + dots,
        "extends = \"fp32\"\n" + repeated("[[rule]]\nsites = \"embed\"\nforward = { out = \"bf16\" }\n", 300),
    };
    for (const std::string& toml : shallow) {
        CAPTURE(toml.substr(0, 30));
        CHECK(parts_of_error([&] { parse_policy(toml, "mine.toml"); }).exit == Exit::ok);
    }
    CHECK(contains(parts_of_error([&] { parse_policy(few + "a = 1", "mine.toml"); }).what, "unknown key 'a'"));
}

TEST_CASE("the size of a policy and the length of its extends chain are limited, and devices are refused",
          "[experiments][hostile]") {
    const TemporaryFolder folder;
    const std::string large = write(folder / "large.toml", "# " + std::string(1 << 20, 'x'));
    const Error::Parts size = parts_of_error([&] { load_policy(large); });
    CHECK(size.exit == Exit::bad_input);
    CHECK(contains(size.what, large));
    CHECK(contains(size.what, "larger than 1048576 bytes"));
    CHECK(load_policy(write(folder / "full.toml", "#" + std::string((1 << 20) - 1, 'x'))).name == "full");

    const std::string endless = write(folder / "endless.toml", "\nextends = \"/dev/zero\"");
    const Error::Parts end = parts_of_error([&] { load_policy(endless); });
    CHECK(end.exit == Exit::bad_input);
    CHECK(contains(end.where, "endless.toml:2:11"));
    CHECK(contains(end.what, "neither a regular file nor a pipe"));

    for (int i = 0; i < 300; ++i)
        write(folder / fmt::format("{}.toml", i), fmt::format("extends = \"{}.toml\"", i + 1));
    write(folder / "300.toml", "");
    CHECK(load_policy((folder / "45.toml").string()).chain.size() == 255);
    CHECK(contains(parts_of_error([&] { load_policy((folder / "44.toml").string()); }).what, "more than 256 files"));

    // A pipe is accepted, because it ends.
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    auto writer = std::async(std::launch::async, [&] { write(folder / "pipe", "name = \"piped\""); });
    CHECK(load_policy((folder / "pipe").string()).name == "piped");
    writer.get();
}

TEST_CASE("a pattern that is too long or nests too deeply is refused, and the error names its place",
          "[experiments][hostile]") {
    const auto rule = [](const std::string& pattern) {
        return "\n[[rule]]\nsites = \"" + pattern + "\"\nforward = { out = \"bf16\" }";
    };
    struct Case {
        std::string pattern, what;
    };
    for (const Case& c : {Case{repeated("{", 20'000) + "a" + repeated("}", 20'000), "40001 bytes, more than 4096"},
                          Case{repeated("{", 257) + "a" + repeated("}", 257), "nest deeper than 256 levels"},
                          Case{std::string(5000, '*'), "5000 bytes"}}) {
        const Error::Parts parts = parts_of_error([&] { parse_policy(rule(c.pattern), "mine.toml"); });
        CHECK(parts.exit == Exit::bad_input);
        CHECK(contains(parts.where, "mine.toml:3:9 (rule 1)"));
        CHECK(contains(parts.what, c.what));
    }
}

TEST_CASE(
    "a policy's name must not be a spreadsheet formula or contain control characters or bidirectional-text characters",
    "[experiments][hostile]") {
    const auto problem = [](const std::string& name) {
        const Error::Parts parts = parts_of_error([&] { parse_policy("name = '" + name + "'", "mine.toml"); });
        CHECK((parts.exit == Exit::ok || contains(parts.where, "mine.toml:1:8 (name)")));
        return parts.what;
    };
    for (const char* name : {"=1+1", "+a", "-a", "@a", "=cmd|' /C calc'!A0"}) {
        CAPTURE(name);
        const Error::Parts parts =
            parts_of_error([&] { parse_policy(fmt::format("name = \"{}\"", name), "mine.toml"); });
        CHECK(parts.exit == Exit::bad_input);
        CHECK(contains(parts.what, "spreadsheets read as a formula"));
    }
    for (const char* turn : {"\u061c", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066",
                             "\u2067", "\u2068", "\u2069"}) {
        CAPTURE(turn);
        CHECK(contains(problem(std::string("a") + turn + "b"), "changes the text direction"));
        CHECK(contains(problem(turn), "changes the text direction"));
    }
    CHECK(contains(problem("a\u2028b"), "line separator"));
    CHECK(contains(problem("a\u009b31mb"), "control character"));  // the 8-bit control sequence introducer
    // TOML allows escape sequences only in double quotes.
    for (const char* name : {"\\ta", "a\\tb", "\\u001b[31m", "a\\u007f", "a,b"}) {
        CAPTURE(name);
        const std::string toml = fmt::format("name = \"{}\"", name);
        CHECK(contains(parts_of_error([&] { parse_policy(toml, "mine.toml"); }).what, "comma or a control character"));
    }
    for (const char* name : {"a=b", "a-b", "fp8+ao", "naïve", "日本", "\u2010dash", "a\u2065b", "1", "_x", "</b>"}) {
        CAPTURE(name);
        CHECK(problem(name) == "no error");
    }
    // If a policy does not set its name, the name of the file is checked instead.
    const TemporaryFolder folder;
    const std::string path = write(folder / "=x.toml", "");
    const Error::Parts parts = parts_of_error([&] { load_policy(path); });
    CHECK(contains(parts.what, "begins with '='"));
    CHECK(parts.where == path);
    CHECK(load_policy(write(folder / "=y.toml", "name = \"y\"")).name == "y");
}

TEST_CASE("a data file that is truncated while it is in use causes an error, not a signal", "[experiments][hostile]") {
    const TemporaryFolder folder;
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += static_cast<char>('a' + i % 26);
    const fs::path path = write(folder / "text.txt", text);
    const auto data = open_data({.train = path}, 256, 32);
    const Batch before = data->batch(Split::train, 1, 1, 4, 32);
    fs::resize_file(path, 0);
    const Error::Parts parts = parts_of_error([&] { data->batch(Split::train, 1, 1, 4, 32); });
    CHECK(parts.exit == Exit::bad_input);
    CHECK(parts.where == path.string());
    CHECK(contains(parts.what, "cut short while it was in use: it had 100000 bytes"));
    write(path, text);  // restores the contents without replacing the file
    CHECK(data->batch(Split::train, 1, 1, 4, 32).tokens == before.tokens);
}

TEST_CASE("data may come through a pipe, and may not come from a device", "[experiments][hostile]") {
    const TemporaryFolder folder;
    const std::string text = repeated("the same bytes from a file and from a pipe. ", 5000);
    const fs::path path = write(folder / "file.txt", text), pipe = folder / "pipe.txt";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    auto writer = std::async(std::launch::async, [&] { write(pipe, text); });
    const DataFiles files{.train = pipe};
    CHECK(vocabulary_of(files) == 256);  // reads the pipe and keeps its bytes
    writer.get();
    const auto piped = open_data(files, 256, 16), whole = open_data({.train = path}, 256, 16);  // the kept bytes
    for (const Split split : {Split::train, Split::held_out}) {
        CHECK(piped->batch(split, 3, 7, 5, 16).tokens == whole->batch(split, 3, 7, 5, 16).tokens);
    }
    CHECK(mark_of(FileBytes(pipe)) == mark_of(FileBytes(path)));
    CHECK(mark_of(FileBytes(path)) == reports::csv::mark_of(path));
    CHECK(contains(parts_of_error([] { open_data({.train = "/dev/zero"}, 256, 16); }).what, "neither a regular file"));
    CHECK(contains(parts_of_error([] { vocabulary_of({.train = "/dev/zero"}); }).what, "neither a regular file"));
}

TEST_CASE("every reader of files refuses a device that never ends, such as /dev/zero", "[experiments][hostile]") {
    for (const auto& read : std::vector<std::function<void()>>{
             [] { read_numbers("/dev/zero"); }, [] { Safetensors::read("/dev/zero"); },
             [] { read_manifest(fs::path("/dev/zero")); }, [] { load_policy("/dev/zero"); }}) {
        const Error::Parts parts = parts_of_error(read);
        CHECK(parts.exit == Exit::bad_input);
        CHECK(contains(parts.what, "neither a regular file nor a pipe"));
    }
}

TEST_CASE("JSON that nests too deeply is refused before a tree is built", "[experiments][hostile]") {
    const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
    const TemporaryFolder folder;
    const Error::Parts manifest = parts_of_error(
        [&] { read_manifest(fs::path(write(folder / "manifest.json", "{\n\"schema\": " + deep + "}"))); });
    CHECK(manifest.exit == Exit::bad_input);
    CHECK(manifest.where == (folder / "manifest.json").string() + ":2");

    const std::string header = "{\"a\": {\"dtype\": " + deep + "}}";
    std::string file(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
    const Error::Parts tensors = parts_of_error([&] { Safetensors::read(write(folder / "deep.st", file + header)); });
    CHECK(tensors.exit == Exit::bad_input);
    CHECK(contains(tensors.what, "nests deeper than 256 levels"));

    const Error::Parts line = parts_of_error([&] { parse_machine_line("{\"arch\": " + deep + "}", "lines:3"); });
    CHECK(line.exit == Exit::bad_input);
    CHECK(line.where == "lines:3");
    CHECK(contains(line.what, "the line is nested deeper than 256 levels"));
}

}  // namespace hostile_files_test
