// SPDX-License-Identifier: Apache-2.0
// Tests names on the command line: verbs, policies, sizes, GPUs and seeds.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <algorithm>
#include <string>

namespace names_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool says(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("an unknown name of any kind gives exit code 2", "[program]") {
    write("x.npy", "");
    for (const char* arguments : {"nosuch",
                                  "help nosuch",
                                  "train --policy nosuch",
                                  "train --size nosuch",
                                  "train --model nosuch",
                                  "train --device nosuch",
                                  "train --gelu nosuch",
                                  "train --optimizer nosuch",
                                  "train --policy fp32,nosuch",
                                  "policy show nosuch",
                                  "policy explain nosuch",
                                  "policy diff fp32 nosuch",
                                  "policy diff nosuch fp32",
                                  "policy explain fp32 --size nosuch",
                                  "policy explain fp32 --model nosuch",
                                  "policy advise --device-profile nosuch --goal pretrain",
                                  "policy advise --device-profile h100 --goal nosuch",
                                  "scaler nosuch",
                                  "machine show nosuch",
                                  "gemm --machine nosuch",
                                  "gemm -f nosuch",
                                  "gemm -d nosuch",
                                  "gemm --scaling nosuch",
                                  "gemm --output nosuch",
                                  "gemm -M chain:nosuch",
                                  "reveal --machine nosuch",
                                  "reveal -f nosuch",
                                  "show 1 -f nosuch",
                                  "show 1 --bits nosuch",
                                  "show 1 --round nosuch",
                                  "convert --to nosuch",
                                  "convert --to fp16 --profile nosuch",
                                  "testfloat nosuch",
                                  "check x.npy --op nosuch",
                                  "check make-inputs --op nosuch -o in",
                                  "check power --op nosuch",
                                  "verify --only nosuch",
                                  "completion nosuch"}) {
        const Outcome outcome = run(arguments);
        CAPTURE(arguments, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(outcome.out.empty());
        CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
        CHECK_FALSE(says(outcome.err, "''"));  // no suggestion if no name is similar
    }
    // An unknown name in a file is bad input (exit code 3), not a usage error.
    write("mine.toml", "name = \"mine\"\nextends = \"nosuch\"\n");
    CHECK(run("policy show mine.toml").code == 3);
    CHECK(run("train --size huge").err == "macheps: --size: unknown size 'huge' (use one of tiny, small, base)\n");
    CHECK(says(run("train --size smal").err, "did you mean 'small'?"));
    fs::remove_all(scratch());
}

TEST_CASE("seeds may be given as a range", "[program]") {
    const auto seeds = [](const std::string& given) {
        const Outcome outcome = run(std::string(quick) + "--policy fp32 --dry-run --json --seeds " + given);
        CAPTURE(given, outcome.err);
        REQUIRE(outcome.code == 0);
        return json::parse(outcome.out)["seeds"];
    };
    CHECK(seeds("0-4") == json({0, 1, 2, 3, 4}));
    CHECK(seeds("7,10-12,3") == json({7, 10, 11, 12, 3}));
    CHECK(seeds("5-5") == json({5}));
    struct Case {
        const char *given, *says;
    };
    for (const Case& c : {Case{"4-0", "write the smaller number first: 0-4"}, Case{"-1", "out of range"},
                          Case{"0-", "not a whole number"}, Case{"0-x", "'x' is not a whole number"},
                          Case{"0-4,2", "a seed is given twice"}, Case{"0-1000000", "at most 100000"}}) {
        const Outcome outcome = run(std::string("train --dry-run --seeds ") + c.given);
        CAPTURE(c.given, outcome.err);
        CHECK(outcome.code == 2);
        CHECK(says(outcome.err, c.says));
        CHECK(says(outcome.err, "--seeds"));
    }
    CHECK(json::parse(run("gemm --dry-run --json --seeds 1-3 -k 32").out)["products"] == 3);
    fs::remove_all(scratch());
}

TEST_CASE("help VERB prints the same as VERB --help", "[program]") {
    for (const std::string verb : {"", "train", "policy", "policy explain", "check make-inputs", "help"}) {
        CAPTURE(verb);
        const Outcome help = run("help " + verb);
        CHECK(help.code == 0);
        CHECK(help.err.empty());
        CHECK(help.out == run(verb + " --help").out);
    }
    CHECK(says(run("help trian").err, "did you mean 'train'?"));
    CHECK(says(run("help policy exlain").err, "policy: unknown verb 'exlain' (did you mean 'explain'?)"));
    CHECK(says(run("help train more").err, "there are no verbs below this one"));
    fs::remove_all(scratch());
}

TEST_CASE("machine show accepts the name of a GPU or of an architecture", "[program]") {
    const Outcome h100 = run("machine show h100");
    CHECK(h100.code == 0);
    CHECK(says(h100.out, "sm90.wgmma.fp8 "));
    CHECK(says(h100.out, "sm90.mma.fp16 "));
    CHECK_FALSE(says(h100.out, "sm80.mma"));
    CHECK(run("machine show H200").out == h100.out);
    CHECK(run("machine show sm_90").out == h100.out);
    CHECK(says(run("machine show a10").out, "sm80.mma.bf16 "));  // sm_86 computes like sm_80
    CHECK(json::parse(run("machine show mi300x --json").out).size() ==
          json::parse(run("machine show cdna3 --json").out).size());
    CHECK(says(run("machine show h1000").err, "did you mean 'h100'?"));
    // Every known GPU has machines.
    for (const char* gpu : {"v100", "t4", "rtx2080", "a100", "l4", "rtx4090", "b200", "rtx5090", "mi100", "mi210"}) {
        CAPTURE(gpu);
        CHECK(run(std::string("machine show ") + gpu).code == 0);
    }
    fs::remove_all(scratch());
}

}  // namespace names_test
