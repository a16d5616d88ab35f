// SPDX-License-Identifier: Apache-2.0
// Tests `macheps check make-inputs` and `macheps check power`: a kernel runs on generated files and is checked, `power`
// prints its tables, and invalid commands are refused.
#include "core/format.hpp"
#include "emulation/cpu/simd/simd.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "tests/json.hpp"
#include "tests/program/program.hpp"
#include "tests/regex.hpp"

#include <algorithm>
#include <cstring>

namespace check_inputs_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const StoredArray& array(const std::vector<StoredArray>& all, const std::string& name) {
    return *std::find_if(all.begin(), all.end(), [&](const StoredArray& each) { return each.name == name; });
}

/// Plays the author of a kernel: loads a and b from a file, runs the kernel, and saves its output in the array `out`.
/// The elements of `out` after the m x n results are canaries, which a correct kernel does not write.
void run_kernel(const fs::path& from, const std::string& to, bool drops_last, bool writes_behind) {
    const std::vector<StoredArray> all = read_arrays(from);
    const std::vector<double> a = values_of(array(all, "a"), fp16), b = values_of(array(all, "b"), fp16);
    const StoredArray& buffer = array(all, "out");
    const auto m = static_cast<std::size_t>(array(all, "a").shape[0]),
               k = static_cast<std::size_t>(array(all, "a").shape[1]),
               n = static_cast<std::size_t>(array(all, "b").shape[1]);
    std::string out = buffer.bytes;
    for (std::size_t i = 0; i < m; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            float sum = 0;
            for (std::size_t p = 0; p < k - (drops_last ? 1 : 0); ++p)
                sum += static_cast<float>(a[i * k + p]) * static_cast<float>(b[p * n + j]);
            std::memcpy(out.data() + (i * n + j) * 4, &sum, 4);
        }
    }
    if (writes_behind) std::memset(out.data() + m * n * 4, 0, 4);
    std::vector<ZipMember> members;
    for (const StoredArray& each : all)
        members.push_back(
            {each.name + ".npy", npy_header(each.type, each.shape) + (each.name == "out" ? out : each.bytes)});
    write(to, stored_zip(members));
}

}  // namespace

TEST_CASE("on the inputs of make-inputs, a right kernel passes its check and wrong kernels fail", "[program][check]") {
    write(
        "recipe.toml",
        "[recipe]\nop = \"gemm\"\na = \"fp16\"\nb = \"fp16\"\nout = \"fp32\"\nm = 33\nn = 30\nk = 100\ncanaries = 1\n");
    const Outcome made = run("check make-inputs recipe.toml -o inputs/deep --all");
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    CHECK(made.out.starts_with("inputs/deep/normal.npz\n"));
    int files = 0;
    for (const auto& entry : fs::directory_iterator(scratch() / "inputs/deep")) {
        const std::string name = entry.path().filename();
        if (name == "suite.toml") continue;
        CAPTURE(name);
        CHECK(holds(made.out, "inputs/deep/" + name + "\n"));
        const std::string check = "check out.npz --op gemm --a fp16 --b fp16 --canaries 1 --allow-weak";
        run_kernel(entry.path(), "out.npz", false, false);
        const Outcome right = run(check);
        CAPTURE(right.out, right.err);
        CHECK(right.code == 0);
        run_kernel(entry.path(), "out.npz", true, false);
        if (name != "tail-first.npz") CHECK(run(check).code == 1);
        run_kernel(entry.path(), "out.npz", false, true);
        const Outcome behind = run(check);
        CHECK(behind.code == 1);
        CHECK(holds(behind.out, "KC011 T0  the kernel wrote to element 0 after the end of the output"));
        ++files;
    }
    CHECK(files >= 12);
    // Options on the command line give the same bytes as the same settings in a recipe file. A safetensors file
    // contains the same arrays as an .npz file. Without --all and --inputs, make-inputs writes fewer files.
    const std::string options = "--op gemm --a fp16 --b fp16 --out fp32 --canaries 1 --shape 33,30,100";
    REQUIRE(run("check make-inputs " + options + " --inputs normal -o again").code == 0);
    CHECK(contents(scratch() / "again/normal.npz") == contents(scratch() / "inputs/deep/normal.npz"));
    REQUIRE(run("check make-inputs " + options + " --inputs normal -o again --save safetensors").code == 0);
    CHECK(holds(contents(scratch() / "again/normal.safetensors"), R"(\"recipe\":\"normal\")"));
    CHECK(array(read_arrays(scratch() / "again/normal.safetensors"), "b").bytes ==
          array(read_arrays(scratch() / "again/normal.npz"), "b").bytes);
    const Outcome least = run("check make-inputs " + options + " -o least");
    CHECK(least.code == 0);
    CHECK(all_matches(least.out, "least/[a-z0-9-]+\\.npz\n").size() <= 5);
    CHECK(holds(least.out, "wrong kernels would be caught"));
    CHECK(holds(run("check make-inputs --list").out, "  swamp "));
    fs::remove_all(scratch());
}

TEST_CASE("check power reports which wrong kernels the inputs would catch, as text and as JSON", "[program][check]") {
    const Outcome text = run("check power --op rmsnorm --x bf16 --gain bf16 --out bf16 --eps 1e-5 --shape 20,90");
    CAPTURE(text.err);
    CHECK(text.code == 0);
    CHECK(text.out.starts_with("rmsnorm  x bf16 [20, 90], gain bf16 [90] -> bf16 [20, 90]\n  wrong kernel"));
    CHECK(holds(text.out, "\n  a least set: "));
    const Outcome blind =
        run("check power --op rmsnorm --x bf16 --gain bf16 --out bf16 --eps 1e-5 --shape 20,90 --inputs equal --json");
    CHECK(blind.code == 1);
    const json document = json::parse(blind.out);
    CHECK(document["schema"] == "macheps.check.power/1");
    const json& one = document["checks"][0];
    CHECK(one["inputs"].size() == 1);
    CHECK(one["declared"]["eps"] == 1e-5);
    CHECK(one["power"][0]["sights"].size() == 1);
    CHECK(one["blind"].dump().find("eps 1e-06 for 1e-05") != std::string::npos);
    write("suite.toml",
          "[suite]\nrequire = \"structure\"\n[[check]]\nname = \"rows\"\nop = \"softmax\"\nfiles = \"*.npz\"\nx = "
          "\"bf16\"\n"
          "[[check]]\nop = \"adam\"\nfiles = \"y\"\n");
    const Outcome suite = run("check power suite.toml");
    CHECK(suite.code == 2);
    CHECK(suite.out.starts_with("rows  x bf16 [64, 1000]"));
    CHECK(holds(suite.out, "declined: suite.toml"));
    fs::remove_all(scratch());
}

TEST_CASE("an error of make-inputs or power is one line, and the kind of error decides the exit code",
          "[program][check]") {
    write("recipe.toml", "[recipe]\nop = \"gemm\"\nk = 0\n");
    write("two.toml", "[[check]]\nop = \"sum\"\n[[check]]\nop = \"mean\"\n");
    write("file", "");
    struct Case {
        const char* arguments;
        int code;
        const char* says;
    };
    for (const Case& c : {
             Case{"make-inputs -o in", 2, "neither a recipe nor an operation"},
             Case{"make-inputs recipe.toml -o in", 2, "recipe.toml:3:5 (k): k = 0"},
             Case{"make-inputs recipe.toml --op gemm -o in", 2, "a recipe and an operation"},
             Case{"make-inputs recipe.toml --seed 3 -o in", 2, "cannot be combined with a recipe file"},
             Case{"make-inputs two.toml -o in", 2, "the file has several checks"},
             Case{"make-inputs none.toml -o in", 3, "none.toml"},
             Case{"make-inputs --op sum", 2, "no folder"},
             Case{"make-inputs --op sum -o file/in --shape 2,40", 5, "file/in"},
             Case{"make-inputs --op sum -o in --shape 2", 2, "give rows,columns"},
             Case{"make-inputs --op sum -o in --shape 2,0", 2, "--shape"},
             Case{"make-inputs --op sum -o in --inputs norml", 2, "did you mean 'normal'?"},
             Case{"make-inputs --op rmsnorm -o in", 2, "--eps"},
             Case{"make-inputs --op sum --a fp16 -o in", 2, "sum has no array 'a'"},
             Case{"power --op sun", 2, "--op"},
             Case{"a.bin:fp31[3] --op sum", 2, "fp31"},
             Case{"file:fp32[3] --op sum", 3, "0 bytes from position 0 on are too few for fp32 [3]"},
         }) {
        CAPTURE(c.arguments);
        const Outcome outcome = run(std::string("check ") + c.arguments);
        CAPTURE(outcome.err, outcome.out);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    }
    fs::remove_all(scratch());
}

TEST_CASE("the commands on docs/check-inputs.md succeed in the order of the page", "[program][check]") {
    const std::string page = contents(fs::path(MACHEPS_SOURCE_DIR) / "docs/check-inputs.md");
    const auto block = [&](const std::string& kind) {
        const std::size_t begin = page.find("```" + kind + "\n") + 4 + kind.size();
        return page.substr(begin, page.find("```", begin) - begin);
    };
    write("recipe.toml", block("toml"));
    std::istringstream commands(block("sh"));
    int count = 0;
    for (std::string line; std::getline(commands, line); ++count) {
        REQUIRE(line.starts_with("macheps "));
        const Outcome outcome = run(line.substr(8));
        CAPTURE(line, outcome.err);
        CHECK(outcome.code == 0);
    }
    CHECK(count == 4);
    CHECK(!fs::is_empty(scratch() / "inputs"));
    // The section Recipes of the page contains every recipe that --list prints.
    const std::string listed = run("check make-inputs --list").out, recipes = page.substr(page.find("## Recipes"));
    std::istringstream lines(listed);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("  ")) CHECK(holds(recipes, "`" + line.substr(2, line.find(' ', 2) - 2) + "`"));
    }
    fs::remove_all(scratch());
}

TEST_CASE("checks of every kind print the same bytes with every instruction set and number of threads",
          "[program][check]") {
    // tests/dispatch/on_cpu.sh may run the program on an emulated CPU, which lacks some instructions of this CPU.
    const bool is_emulated = std::getenv("MACHEPS_RUN_BY") != nullptr;
    // No kernel runs: the check judges the output buffers as make-inputs wrote them. All printed numbers and reasons
    // then depend only on the references and limits, which --bounds writes in full.
    for (const char* declared :
         {"gemm --a fp32 --b fp32 --bias fp32 --out fp32 --shape 40,36,250",
          "gemm --a e4m3fn --b e4m3fn --a-scale fp32 --b-scale fp32 --out bf16 --machine sm90.wgmma.fp8+promote128 "
          "--shape "
          "40,36,500",
          "softmax --x bf16 --out fp16 --shape 30,333", "log_softmax --shape 30,333", "logsumexp --shape 30,333",
          "rmsnorm --x bf16 --gain fp32 --out bf16 --eps 1e-5 --shape 30,333",
          "layernorm --gain fp32 --shift fp32 --eps 1e-5 --shape 30,333", "gelu --out bf16 --shape 30,333",
          "gelu_tanh --shape 30,333", "silu --shape 30,333", "tanh --shape 30,333",
          "swiglu --gate bf16 --up bf16 --out bf16 --shape 30,333", "cross_entropy --x bf16 --shape 30,333"}) {
        CAPTURE(declared);
        fs::remove_all(scratch());
        const Outcome made = run(std::string("check make-inputs --inputs normal -o in --op ") + declared);
        CAPTURE(made.err);
        REQUIRE(made.code == 0);
        std::string command = std::string("check in/normal.npz --json --bounds bounds.npz --op ") + declared;
        command.erase(command.find(" --shape"));
        const Outcome first = run(command, "MACHEPS_SIMD=scalar taskset -c 0");
        CAPTURE(first.err);
        REQUIRE(first.code == 1);
        const std::string limits = contents(scratch() / "bounds.npz");
        CHECK(json::parse(first.out).at("checks").at(0).at("rho") > 1);
        for (const Simd simd : available_simd()) {
            CAPTURE(simd_name(simd));
            const Outcome other = run(command, "MACHEPS_SIMD=" + std::string(simd_name(simd)));
            if (is_emulated && other.code == 2 && holds(other.err, "MACHEPS_SIMD")) continue;
            CHECK(other.out == first.out);
            CHECK((contents(scratch() / "bounds.npz") == limits));  // the parentheses keep binary data out of messages
        }
    }
    fs::remove_all(scratch());
}

TEST_CASE("raw binary files are checked with the format, shape and offset on the command line", "[program][check]") {
    std::string x, y;
    for (int i = 0; i < 96; ++i) {
        const float each = static_cast<float>(i % 7) - 2;
        x.append(reinterpret_cast<const char*>(&each), 4);
    }
    for (int row = 0; row < 4; ++row) {
        float sum = 0;
        for (int i = 0; i < 24; ++i) sum += static_cast<float>((24 * row + i) % 7) - 2;
        y.append(reinterpret_cast<const char*>(&sum), 4);
    }
    write("x.bin", x);
    write("y.raw", "head" + y);
    const Outcome outcome = run("check 'x.bin:fp32[4,24]' 'y.raw:fp32[4]@4' out=y --op sum --allow-weak");
    CAPTURE(outcome.out, outcome.err);
    CHECK(outcome.code == 0);
    CHECK(run("check 'x.bin:fp32[4,24]' 'y.raw:fp32[4]@0' out=y --op sum --allow-weak").code == 1);
    CHECK(run("check 'x.bin:fp32[4,25]' 'y.raw:fp32[4]@4' out=y --op sum").code == 3);
    fs::remove_all(scratch());
}

}  // namespace check_inputs_test
