// SPDX-License-Identifier: Apache-2.0
// Tests `macheps check` on files that have a recipe of make-inputs: the recipe replaces the declaration, a folder and
// several files of one recipe are one check, and make-inputs ends with commands that work.
#include "core/format.hpp"
#include "core/text/json.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

namespace check_folder_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const StoredArray& array(const std::vector<StoredArray>& all, const std::string& name) {
    return *std::find_if(all.begin(), all.end(), [&](const StoredArray& each) { return each.name == name; });
}

std::string npz(const std::vector<StoredArray>& arrays) {
    std::vector<ZipMember> members;
    for (const StoredArray& each : arrays)
        members.push_back({each.name + ".npy", npy_header(each.type, each.shape) + each.bytes});
    return stored_zip(members);
}

/// Runs a kernel on each input in a folder, and saves its output with all other arrays in the folder `to`. The kernel
/// computes the maximum of each row of x.
void run_max(const std::string& from, const std::string& to, bool is_wrong = false) {
    fs::create_directories(scratch() / to);
    for (const auto& entry : fs::directory_iterator(scratch() / from)) {
        if (entry.path().extension() != ".npz") continue;
        std::vector<StoredArray> all = read_arrays(entry.path());
        const std::vector<double> x = values_of(array(all, "x"), fp32);
        const auto columns = static_cast<std::size_t>(array(all, "x").shape[1]);
        for (StoredArray& each : all) {
            if (each.name != "out") continue;
            for (std::size_t row = 0; row * columns < x.size(); ++row) {
                double most = x[row * columns];
                for (std::size_t i = 0; i < columns; ++i) {
                    const double value = x[row * columns + i];
                    if (std::isnan(value) || value > most) most = value;
                    if (std::isnan(most)) break;
                }
                const float result = static_cast<float>(is_wrong && row == 3 ? most + 1 : most);
                std::memcpy(each.bytes.data() + row * 4, &result, 4);
            }
        }
        write(to + "/" + entry.path().filename().string(), npz(all));
    }
}

void make_max(const std::string& options = "") {
    fs::remove_all(scratch());
    const Outcome made = run("check make-inputs --op max --shape 20,70 -o in " + options);
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
}

}  // namespace

TEST_CASE("the suite of make-inputs reports an input that is missing", "[program][check]") {
    make_max("--inputs normal,specials");
    run_max("in", "out");
    fs::copy(scratch() / "in/suite.toml", scratch() / "out/suite.toml");
    CHECK(run("check out/suite.toml --allow-weak").code == 0);
    fs::copy(scratch() / "out/normal.npz", scratch() / "out/added.npz");
    CHECK(holds(run("check out/suite.toml --allow-weak").out, "3 inputs: 3 "));  // also files that are not named
    fs::remove(scratch() / "out/specials.npz");
    const Outcome lost = run("check out/suite.toml --allow-weak");
    CAPTURE(lost.out, lost.err);
    CHECK(lost.code == 3);
    CHECK(holds(lost.out, "out/specials.npz"));
    fs::remove_all(scratch());
}

TEST_CASE("make-inputs overwrites its own files, but neither outputs of a kernel nor an edited suite",
          "[program][check]") {
    for (const std::string save : {"npz", "safetensors"}) {
        CAPTURE(save);
        make_max("--save " + save);
        const std::string suite = contents(scratch() / "in/suite.toml");
        for (const char* other : {"--seed 8", "--seed 8", "--x bf16 --out bf16", "--inputs normal"})
            CHECK(run("check make-inputs --op max --shape 20,70 -o in --save " + save + " " + other).code == 0);
        write("in/suite.toml", suite + "rtol = 1e-3\n");
        const Outcome edited = run("check make-inputs --op max --shape 20,70 -o in --save " + save);
        CHECK(edited.code == 2);
        CHECK(holds(edited.err, "in/suite.toml: this suite exists, and make-inputs did not write it in this form"));
        CHECK(holds(edited.err, "--force to replace the file"));
        CHECK(run("check make-inputs --op max --shape 20,70 --force -o in --save " + save).code == 0);
        CHECK(contents(scratch() / "in/suite.toml") == suite);
    }
    make_max("--inputs normal,specials");
    run_max("in", "out");
    const std::string normal = contents(scratch() / "out/normal.npz");
    const std::string again = "check make-inputs --op max --shape 20,70 --inputs specials,normal -o out";
    for (const std::string& options : {std::string(), std::string(" --seed 9")}) {
        const Outcome refused = run(again + options);
        CAPTURE(refused.err);
        CHECK(refused.code == 2);
        CHECK(holds(refused.err, "out/specials.npz: this file exists and holds arrays that make-inputs did not write"));
        CHECK(contents(scratch() / "out/normal.npz") == normal);
        CHECK(!fs::exists(scratch() / "out/suite.toml"));
    }
    write("out/specials.npz", "no archive");
    CHECK(run(again).code == 2);
    CHECK(run(again + " --force").code == 0);
    CHECK(contents(scratch() / "out/normal.npz") == contents(scratch() / "in/normal.npz"));
    fs::remove_all(scratch());
}

TEST_CASE("a folder of inputs from make-inputs is one check, which needs no declaration", "[program][check]") {
    make_max("--canaries 1");
    run_max("in", "out");
    const Outcome right = run("check out");
    CAPTURE(right.out, right.err);
    CHECK(right.code == 0);
    CHECK(holds(right.out, "pass  max, "));
    CHECK(holds(right.out, " inputs: all outputs are exact\n"));
    CHECK(!holds(right.out, "rho"));
    // The same files on the command line, or as a suite, are the same check.
    const Outcome files = run("check out/*.npz");
    CHECK(files.code == 0);
    CHECK(files.out == right.out);
    fs::copy(scratch() / "in/suite.toml", scratch() / "out/suite.toml");
    CHECK(run("check out/suite.toml").out == right.out);
    CHECK(run("check ../out/suite.toml", "cd in &&").out == run("check ../out", "cd in &&").out);
    // A single file is reported in full.
    const Outcome one = run("check out/one-huge.npz --allow-weak");
    CAPTURE(one.out, one.err);
    CHECK(one.code == 0);
    CHECK(holds(one.out, "  exact: 20 of 20 outputs have their only right value\n"));
    CHECK(!holds(one.out, "rho"));
    CHECK(!holds(one.out, "unused arrays"));

    run_max("in", "bad", true);
    const Outcome wrong = run("check bad");
    CAPTURE(wrong.out);
    CHECK(wrong.code == 1);
    CHECK(finds(wrong.out, R"(\nfail  max, \d+ inputs: bad/[a-z0-9-]+\.npz: KC0\d\d .*; at \(3\): got )"));
    CHECK(run("check in").code == 1);
    CHECK(holds(run("check in").out, "hint: `out` still holds the values that make-inputs wrote"));
    CHECK(!holds(wrong.out, "still holds"));
    fs::remove_all(scratch());
}

TEST_CASE("a command line that contradicts the recipe in a file is an error that names both values and the file",
          "[program][check]") {
    make_max("--canaries 1");
    run_max("in", "out");
    struct Case {
        const char* arguments;
        int code;
        const char* says;
    };
    for (const Case& c : {
             Case{"out --op max --canaries 1", 0, ""},
             Case{"out --rounding toward_zero", 0, ""},  // the recipe does not declare a rounding
             Case{"out --op min", 2,
                  "--op: the recipe in out/far.npz has the operation max, but the command line has min (remove "
                  "--op"},
             Case{"out/one-huge.npz --canaries 2", 2,
                  "--canaries: the recipe in out/one-huge.npz declares 1, but the command line declares 2 (remove the "
                  "option"},
             Case{"out/one-huge.npz --eps 1e-5", 2, "max has no eps"},
             Case{"out --bounds limits.npz", 2, "--bounds: the limits of several inputs cannot be written"},
             Case{"empty", 2, "empty: the folder has no files of arrays"},
             Case{"plain", 2, "--op: the operation is missing (pass the operation of the kernel: plain/x.npy has no"},
             Case{"out/one-huge.npz out/subnormal.npz plain/x.npy", 2,
                  "plain/x.npy: several files have a recipe of make-inputs, but this file has none"},
             Case{"torn.npz", 3, "torn.npz: "},
             Case{"damaged.npz", 3, "damaged.npz: the recipe in this file cannot be used"},
             Case{"damaged.npz --op max", 3, "damaged.npz: the recipe in this file cannot be used"},
         }) {
        fs::create_directories(scratch() / "empty");
        fs::create_directories(scratch() / "plain");
        std::vector<StoredArray> all = read_arrays(scratch() / "out/one-huge.npz");
        const StoredArray& x = array(all, "x");
        write("plain/x.npy", npy_header(x.type, x.shape) + x.bytes);
        for (StoredArray& each : all) {
            if (each.name == "recipe") each.bytes[9] = '}';
        }
        write("damaged.npz", npz(all));
        write("torn.npz", "PK\x03\x04");
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("check ") + c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == (c.code == 0 ? 0 : 1));
    }
    fs::remove_all(scratch());
}

TEST_CASE("files of different recipes are separate checks", "[program][check]") {
    make_max();
    run_max("in", "out");
    REQUIRE(run("check make-inputs --op min --shape 20,70 --inputs normal -o min").code == 0);
    const Outcome both = run("check out min --json");
    CAPTURE(both.err);
    CHECK(both.code == 1);
    const Json document = Json::parse(both.out);
    std::map<std::string, std::string> verdicts;
    for (const Json& one : document.at("checks")) verdicts[one.at("name").string()] = one.at("verdict").string();
    CHECK(verdicts == std::map<std::string, std::string>{{"max", "pass"}, {"min", "fail"}});
    // Two recipes of one operation get numbers. A file that cannot be read is an input without a check.
    REQUIRE(run("check make-inputs --op max --shape 20,70 --canaries 2 --inputs normal -o more").code == 0);
    write("more/torn.npz", "PK\x03\x04");
    const Outcome numbered = run("check out more");
    CHECK(holds(numbered.out, "pass      max 1/out/one-huge.npz "));
    CHECK(holds(numbered.out, "fail      max 2/more/normal.npz "));
    CHECK(holds(numbered.out, "input     unknown/more/torn.npz "));
    fs::remove_all(scratch());
}

TEST_CASE("a folder without recipes is one check if the operation is given", "[program][check]") {
    make_max();
    run_max("in", "out");
    for (const auto& entry : fs::directory_iterator(scratch() / "out")) {
        std::vector<StoredArray> all = read_arrays(entry.path());
        std::erase_if(all, [](const StoredArray& each) { return each.name == "recipe"; });
        write("out/" + entry.path().filename().string(), npz(all));
        for (const StoredArray& each : all)
            write("in/" + each.name + ".npy", npy_header(each.type, each.shape) + each.bytes);
    }
    const Outcome outcome = run("check out --op max");
    CAPTURE(outcome.out, outcome.err);
    CHECK(outcome.code == 0);
    CHECK(holds(outcome.out, "pass  max, "));
    // The .npy files of a folder are one input, whose arrays have the names of the files.
    fs::create_directories(scratch() / "single");
    for (const char* name : {"x.npy", "out.npy"}) fs::copy(scratch() / "in" / name, scratch() / "single" / name);
    const Outcome single = run("check single --op max --allow-weak");
    CAPTURE(single.out, single.err);
    CHECK(single.code == 0);
    CHECK(holds(single.out, "have their only right value"));
    // Words such as out=y rename an array of each input.
    CHECK(run("check out out=x --op max").code != 0);
    fs::remove_all(scratch());
}

TEST_CASE("the commands at the end of make-inputs run a kernel and check its outputs", "[program][check]") {
    if (std::system("python3 -c 'import numpy' >/dev/null 2>&1") != 0) {
        WARN("MACHEPS-SKIPPED: no NumPy");
        return;
    }
    for (const char* canaries : {"", "--canaries 2"}) {
        CAPTURE(canaries);
        fs::remove_all(scratch());
        const Outcome made = run(std::string("check make-inputs --op sum --shape 20,70 -o \"the in's\" ") + canaries);
        REQUIRE(made.code == 0);
        const std::size_t at = made.out.find("\nnext:\n");
        REQUIRE(at != std::string::npos);
        write("my_kernels.py",
              "import numpy\n"
              "def kernel(x):\n"
              "    with numpy.errstate(all='ignore'):\n"
              "        return x.astype(numpy.float64).sum(1).astype(numpy.float32)\n");
        const std::string programs = fs::path(MACHEPS_PROGRAM).parent_path().string();
        write("next.sh", "set -e\nPATH='" + programs + "':$PATH\nexport PYTHONPATH=.\n" + made.out.substr(at + 7));
        const std::string command = "cd '" + scratch().string() + "' && sh next.sh >out.txt 2>&1 </dev/null";
        const int status = std::system(command.c_str());
        CAPTURE(made.out, contents(scratch() / "out.txt"));
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
        CHECK(holds(contents(scratch() / "out.txt"), "pass  sum, "));
    }
    fs::remove_all(scratch());
}

TEST_CASE("errors above a million bounds are printed as more than 1e6 bounds", "[program][check]") {
    make_max();
    REQUIRE(run("check make-inputs --op rmsnorm --eps 1e-5 --shape 20,70 --inputs normal -o norm").code == 0);
    std::vector<StoredArray> all = read_arrays(scratch() / "norm/normal.npz");
    for (StoredArray& each : all) {
        const float huge = 1e30f;
        if (each.name == "out") std::memcpy(each.bytes.data(), &huge, 4);
    }
    write("norm/normal.npz", npz(all));
    const Outcome full = run("check norm/normal.npz --junit junit.xml --sarif check.sarif");
    CHECK(full.code == 1);
    CHECK(holds(full.out, "error more than 1e6 times the bound"));
    CHECK(holds(full.out, "  rho more than 1e6 (limit 1)"));
    const Outcome listed = run("check norm in");
    CHECK(holds(listed.out, "KC020: more than 1e6 times the limit; rho more than 1e6, z "));
    for (const std::string& text : {full.out, listed.out, contents(scratch() / "check.sarif")}) {
        CAPTURE(text);
        CHECK(!finds(text, R"((rho|error) [0-9.]+e\+\d\d)"));
    }
    CHECK(holds(contents(scratch() / "check.sarif"), "more than 1e6 times the bound"));
    fs::remove_all(scratch());
}

}  // namespace check_folder_test
