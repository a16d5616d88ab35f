// SPDX-License-Identifier: Apache-2.0
// Tests the program on good and bad input: its output streams, exit codes and files.
#include "tests/program/program.hpp"

namespace program_test {

using namespace macheps::test;

TEST_CASE("bad input gives an error message that names it, the exit code of its kind, and no output", "[program]") {
    fs::remove_all(scratch());
    write("short.txt", "too short");
    write("typo.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncats = \"bf16\"\n");
    write("format.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"bf61\"\n");
    write("ambiguous.toml", "name = \"mine\"\n[[rule]]\nsites = \"*:forward.out\"\ncast = \"e4m3\"\n");
    write("pattern.toml", "name = \"mine\"\n[[rule]]\nsites = \"blok.*:forward.out\"\ncast = \"bf16\"\n");
    write("syntax.toml", "name = \"mine\n");
    write("file", "");
    fs::create_directories(scratch() / "taken");
    write("taken/manifest.json", "{}");
    struct Case {
        const char *arguments, *says;
        int code;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"train --data nowhere.txt --steps 1", "nowhere.txt", 3, "missing data file"},
             {"train --data . --steps 1", "directory", 3, "a directory for a data file"},
             {"train --data short.txt --steps 1", "short.txt", 3, "a file shorter than one context"},
             {"train --policy amp-bf61 --steps 1", "amp-bf16", 2, "unknown policy: the nearest name"},
             {"train --policy typo.toml --steps 1", "typo.toml:4", 3, "unknown key: file and line"},
             {"train --policy format.toml --steps 1", "bf16", 3, "unknown format: the nearest name"},
             {"train --policy ambiguous.toml --steps 1", "e4m3fn", 3, "plain e4m3 is ambiguous"},
             {"train --policy pattern.toml --steps 1", "pattern.toml:3", 3, "a pattern without a match"},
             {"train --policy syntax.toml --steps 1", "syntax.toml:1", 3, "not TOML"},
             {"train --policy nowhere.toml --steps 1", "nowhere.toml", 3, "missing policy file"},
             {"train --out taken --steps 1", "--force", 2, "an existing run directory"},
             {"train --out file --steps 1", "file", 5, "a file where the directory should be"},
             {"train --out /proc/nowhere/run --steps 1", "/proc/nowhere", 5, "an unwritable directory"},
             {"train --steps 0", "--steps", 2, "no steps"},
             {"train --batch 0", "--batch", 2, "an empty batch"},
             {"train --ranks 3 --batch 16 --steps 1", "--ranks: 3 ranks do not divide", 2,
              "samples that ranks cannot share"},
             {"train --layers 0", "--layers", 2, "no layers"},
             {"train --width 0", "--width", 2, "no width"},
             {"train --heads 3", "--heads", 2, "heads that do not divide the width"},
             {"train --context 0", "--context", 2, "no context"},
             {"train --vocabulary 0", "--vocabulary", 2, "no tokens"},
             {"train --steps ten", "--steps", 2, "a word instead of a number"},
             {"train --lr nan", "--lr", 2, "a learning rate of NaN"},
             {"train --token-weight 0.3", "--token-weight", 2, "not a power of two"},
             {"train --token-weight x", "--token-weight", 2, "not a number"},
             {"train --size medium", "--size", 2, "unknown size"},
             {"train --seeds 1,1 --steps 1", "--seeds", 2, "a seed twice"},
             {"train --policy tf32,tf32 --steps 1", "tf32", 2, "a policy twice"},
             {"train --threads -1 --steps 1", "thread", 2, "a negative number of threads"},
             {"show twelve", "twelve", 2, "a word instead of a number"},
             {"show 1 --format e4m3", "e4m3fn", 2, "an ambiguous format"},
             {"policy show amp-bf61", "amp-bf16", 2, "unknown policy"},
             {"report nowhere", "nowhere", 3, "a missing run directory"},
             {"", "subcommand", 2, "no verb"},
             {"trian", "trian", 2, "an unknown verb"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = run(c.arguments);
        CAPTURE(outcome.out, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.err.find(c.says) != std::string::npos);
        CHECK(outcome.out.empty());
        CHECK_FALSE(fs::exists(scratch() / "runs"));  // no run was started
    }
    CHECK(contents(scratch() / "taken/manifest.json") == "{}");
    fs::remove_all(scratch());
}

TEST_CASE("an error of the library about one of its fields names the option that sets the field", "[program]") {
    fs::remove_all(scratch());
    struct Case {
        const char *arguments, *line;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"train --layers 0", "--layers: '0' is out of range (give 1 to 1048576)"},
             {"train --kv-heads 2",
              "--kv-heads: a gpt2 model has one key head for every query head (remove it, or use --model llama)"},
             {"train --lr 1e-4 --min-lr 5", "--min-lr: 5 is not between 0 and the learning rate (use at most --lr)"},
             {"train --model lama", "--model: unknown model 'lama' (did you mean 'llama'? use gpt2 or llama)"},
             {"policy explain fp32 --layers 0", "--layers: '0' is out of range (give 1 to 1048576)"},
             {"train --vocabulary 5",
              "--vocabulary: the synthetic language cannot have 5 tokens (use 9 to 4096, or pass a text with --data)"},
             {"train --save-every -1", "--save-every: '-1' is out of range (give 0 to 1099511627776)"},
             {"train --dump-step 9 x.safetensors --steps 3",
              "--dump-step: step 9 does not exist in a run of 3 steps (use 0 to 2; the first step is 0)"},
             {"train --export-inputs none/x.safetensors",
              "--export-inputs: the folder none does not exist (create it first)"},
             {"train --out err.txt", "err.txt: this is a file, not a directory (choose another directory with --out)"},
             {"gemm --sweep k=x",
              "--sweep k=x: 'x' is not a number (use a sweep such as k=16..65536, scale=2^-20..1 or n=1,7,64)"},
             {"gemm -M all -f fp16 --scaling nvfp4 -k 8",
              "--format, --scaling: no machine accepts operands with these formats and scales (use other formats or "
              "scalings)"}}) {
        CHECK(run(c.arguments).err == std::string("macheps: ") + c.line + "\n");
    }
    fs::remove_all(scratch());
}

TEST_CASE("MACHEPS_SIMD and MACHEPS_SIMD_EXTENSIONS accept only known words", "[program]") {
    CHECK(run(std::string(quick) + "--policy tf32 --out simd", "MACHEPS_SIMD=scalar").code == 0);
    const Outcome outcome = run(std::string(quick) + "--out simd2", "MACHEPS_SIMD=mmx");
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("MACHEPS_SIMD") != std::string::npos);
    CHECK(run(std::string(quick) + "--policy tf32 --out simd3", "MACHEPS_SIMD_EXTENSIONS=none").code == 0);
    const Outcome extensions = run(std::string(quick) + "--out simd4", "MACHEPS_SIMD_EXTENSIONS=amx");
    CHECK(extensions.code == 2);
    CHECK(extensions.err.find("MACHEPS_SIMD_EXTENSIONS") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("a run writes every documented file, and report rebuilds the summary and the page from them", "[program]") {
    const Outcome outcome = run(std::string(quick) + "--policy amp-bf16 --out run");
    CAPTURE(outcome.err);
    REQUIRE(outcome.code == 0);
    CHECK(outcome.out.find("amp-bf16") != std::string::npos);
    for (const char* name : {"manifest.json", "runs.csv", "steps.csv", "evals.csv", "sites.csv", "exponents.csv",
                             "summary.csv", "report.html"}) {
        CAPTURE(name);
        CHECK(fs::file_size(scratch() / "run" / name) > 0);
    }
    const std::string summary = contents(scratch() / "run/summary.csv");
    fs::remove(scratch() / "run/summary.csv");
    fs::remove(scratch() / "run/report.html");
    CHECK(run("report run").code == 0);
    CHECK(contents(scratch() / "run/summary.csv") == summary);
    CHECK(fs::exists(scratch() / "run/report.html"));
    fs::remove_all(scratch());
}

TEST_CASE("two runs with the same options write the same rows for any number of threads", "[program]") {
    REQUIRE(run(std::string(quick) + "--policy pure-bf16-sr --out a --threads 1").code == 0);
    REQUIRE(run(std::string(quick) + "--policy pure-bf16-sr --out b --threads 3").code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "a" / name) == contents(scratch() / "b" / name));
    }
    fs::remove_all(scratch());
}

TEST_CASE("a run on matrix units has the same rows on every SIMD path, and its manifest and page name the units",
          "[program]") {
    const std::string policies = " --policy b200-fp8,amp-bf16 --out ";
    REQUIRE(run(quick + policies + "a --threads 1").code == 0);
    REQUIRE(run(quick + policies + "b --threads 2", "MACHEPS_SIMD=scalar").code == 0);
    for (const char* name : {"steps.csv", "evals.csv", "sites.csv", "exponents.csv"}) {
        CAPTURE(name);
        CHECK(contents(scratch() / "a" / name) == contents(scratch() / "b" / name));
    }
    const std::string page = contents(scratch() / "a/report.html"), manifest = contents(scratch() / "a/manifest.json");
    CHECK(page.find("on sm100.tcgen05.fp8, cublaslt.fp8.sm100, unverified") != std::string::npos);
    CHECK(page.find("amp-bf16</th><td>21 on fp32.chain</td>") != std::string::npos);
    CHECK(page.find("promotion is not needed") != std::string::npos);
    CHECK(manifest.find("\"sm100.tcgen05.fp8, cublaslt.fp8.sm100, unverified\"") != std::string::npos);
    fs::remove_all(scratch());
}

TEST_CASE("on a full disk, train exits with 5 and names the run directory", "[program]") {
    fs::create_directories(scratch() / "full");
    // A file system of 64 kB acts as a full disk. Only root may mount it.
    const std::string mount = "mount -t tmpfs -o size=64k tmpfs '" + (scratch() / "full").string() + "' 2>/dev/null";
    if (std::system(mount.c_str()) != 0) {
        fs::remove_all(scratch());
        SKIP_TEST("mounting a small tmpfs is not allowed here");
    }
    const Outcome outcome =
        run("train --steps 200 --layers 1 --width 16 --heads 2 --context 8 --batch 2 --probe-every 1 --out full/run");
    CAPTURE(outcome.err);
    CHECK(outcome.code == 5);
    CHECK(outcome.err.find("full/run") != std::string::npos);
    REQUIRE(std::system(("umount '" + (scratch() / "full").string() + "'").c_str()) == 0);
    fs::remove_all(scratch());
}

}  // namespace program_test
