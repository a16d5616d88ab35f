// SPDX-License-Identifier: Apache-2.0
// Tests the options --device and --hash-sites on a machine without a visible GPU.
#include "tests/program/program.hpp"

#include <sstream>

namespace device_test {

using namespace macheps::test;

namespace {

const char* const hidden = "CUDA_VISIBLE_DEVICES=";

}  // namespace

TEST_CASE("a missing GPU and a word that is not a device have different exit codes", "[program][device]") {
    struct Case {
        std::string arguments;
        int code;
        const char* words;
        const char* why;
    };
    const Case cases[] = {
        {std::string(quick) + "-p fp32 --device cuda -o d1", 4, "--device cpu",
         "no GPU: the error names the alternative"},
        {std::string(quick) + "-p fp32 --device cuda:7 -o d1", 4, "cuda", "no eighth GPU"},
        {std::string(quick) + "-p fp32 --device cuda -o d1 --dry-run", 4, "cuda", "a dry run measures on the device"},
        {"gemm --device cuda --sweep k=16 --machine fp32.chain", 4, "cuda", "other verbs give the same error"},
        {std::string(quick) + "-p fp32 --device gpu -o d1", 2, "cuda:1", "a word that is not a device"},
        {std::string(quick) + "-p fp32 --device cuda:x -o d1", 2, "cuda:1", "an index that is not a number"},
        {std::string(quick) + "-p fp32 --matrix-units some -o d1", 2, "native",
         "matrix units must be one of two words"}};
    for (const Case& each : cases) {
        CAPTURE(each.arguments, each.why);
        const Outcome outcome = run(each.arguments, hidden);
        CAPTURE(outcome.err);
        CHECK(outcome.code == each.code);
        CHECK(outcome.out.empty());
        CHECK(outcome.err.find(each.words) != std::string::npos);
        CHECK_FALSE(fs::exists(scratch() / "d1"));
    }
}

TEST_CASE("hashes.csv is the same for any number of threads, and shows where policies diverge", "[program][device]") {
    const std::string options = std::string(quick) + "-q --no-report --hash-sites --force -p fp32,tf32 ";
    REQUIRE(run(options + "-o h1 --threads 1", "MACHEPS_SIMD=scalar").code == 0);
    REQUIRE(run(options + "-o h2 --threads 2").code == 0);
    const std::string rows = contents(scratch() / "h1/hashes.csv");
    CHECK(rows.starts_with("run,step,micro_batch,site,count,hash\nfp32/0,0,0,embed:forward.out,256,"));
    CHECK(rows.find("tf32/0,1,0,lm_head:forward.a,") != std::string::npos);
    CHECK(rows == contents(scratch() / "h2/hashes.csv"));
    // A resumed run cannot write hashes.csv, because the earlier steps would be missing.
    CHECK(run("train --resume h1 --hash-sites").code == 2);
    // A run that starts again without --hash-sites removes the old hashes.csv.
    REQUIRE(run(std::string(quick) + "-q --no-report --force -p fp32 -o h1").code == 0);
    CHECK_FALSE(fs::exists(scratch() / "h1/hashes.csv"));
}

}  // namespace device_test
