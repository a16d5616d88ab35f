// SPDX-License-Identifier: Apache-2.0
// --device and --hash-sites as people give them, on a machine without a GPU (or with one that is hidden).
#include "tests/program/program.hpp"

#include <sstream>

namespace device_test {

using namespace macheps::test;

namespace {

const char* const hidden = "CUDA_VISIBLE_DEVICES=";

}  // namespace

TEST_CASE("a GPU that is not there, and a device that there is not, are told apart", "[program][device]") {
    struct Case {
        std::string arguments;
        int code;
        const char* words;
        const char* why;
    };
    const Case cases[] = {
        {std::string(quick) + "-p fp32 --device cuda -o d1", 4, "--device cpu", "no device: what to do instead"},
        {std::string(quick) + "-p fp32 --device cuda:7 -o d1", 4, "cuda", "nor an eighth one"},
        {std::string(quick) + "-p fp32 --device cuda -o d1 --dry-run", 4, "cuda", "a plan would be measured there"},
        {"gemm --device cuda --sweep k=16 --machine fp32.chain", 4, "cuda", "other verbs too"},
        {std::string(quick) + "-p fp32 --device gpu -o d1", 2, "cuda:1", "a word that is no device"},
        {std::string(quick) + "-p fp32 --device cuda:x -o d1", 2, "cuda:1", "nor is this"},
        {std::string(quick) + "-p fp32 --matrix-units some -o d1", 2, "native", "one of two"}};
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

TEST_CASE("hashes.csv is the same for any number of threads, and names where two policies part", "[program][device]") {
    const std::string options = std::string(quick) + "-q --no-report --hash-sites --force -p fp32,tf32 ";
    REQUIRE(run(options + "-o h1 --threads 1", "MACHEPS_SIMD=scalar").code == 0);
    REQUIRE(run(options + "-o h2 --threads 2").code == 0);
    const std::string rows = contents(scratch() / "h1/hashes.csv");
    CHECK(rows.starts_with("run,step,micro_batch,site,count,hash\nfp32/0,0,0,embed:forward.out,256,"));
    CHECK(rows.find("tf32/0,1,0,lm_head:forward.a,") != std::string::npos);
    CHECK(rows == contents(scratch() / "h2/hashes.csv"));
    // Runs that may not have it: it would lack the steps before.
    CHECK(run("train --resume h1 --hash-sites").code == 2);
    // One that is begun again without it leaves no stale file behind.
    REQUIRE(run(std::string(quick) + "-q --no-report --force -p fp32 -o h1").code == 0);
    CHECK_FALSE(fs::exists(scratch() / "h1/hashes.csv"));
}

}  // namespace device_test
