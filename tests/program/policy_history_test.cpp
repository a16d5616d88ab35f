// SPDX-License-Identifier: Apache-2.0
// Tests `macheps policy history`, the options --requirements and --despite, and the refusal of configs by `train`.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <string>

namespace policy_history_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

constexpr const char* fp16_without_zero =
    R"({"fp16": {"enabled": true}, "optimizer": {"type": "SGD"}, "gradient_clipping": 0})";

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("policy history lists faults, and describes one of them", "[program][history]") {
    const json all = json::parse(run("policy history --json").out);
    CHECK(all.size() > 100);
    const json of_one = json::parse(run("policy history deepspeed --json").out);
    CHECK(of_one.size() < all.size());
    for (const json& row : of_one) CHECK(row.at("package") == "deepspeed");
    const Outcome one = run("policy history ds-z2-last-micro-batch");
    CHECK(one.code == 0);
    CHECK(contains(one.out, "deepspeed from 0.17.6 until 0.18.3"));
    CHECK(contains(one.out, "remedy"));
    const Outcome table = run("policy history deepspeed");
    CHECK(contains(table.out, "ds-z0-fp16-unscaled"));
    CHECK(contains(run("policy history --csv").out, "id,package,first_bad,first_good"));
    const Outcome wrong = run("policy history ds-z2-last-micro-bach");
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "did you mean 'ds-z2-last-micro-batch'"));
}

TEST_CASE("policy history of a package leaves out the faults that the named version does not have",
          "[program][history]") {
    write("old.txt", "deepspeed==0.18.2\n");
    write("new.txt", "deepspeed==0.19.8\n");
    const Outcome old = run("policy history deepspeed --requirements old.txt");
    CHECK(old.code == 0);
    CHECK_FALSE(contains(old.out, "ds-z0-fp16-unscaled"));
    CHECK(contains(run("policy history deepspeed --requirements new.txt").out, "ds-z0-fp16-unscaled"));
    CHECK(contains(run("policy history deepspeed --framework-version 0.19.8").out, "ds-z0-fp16-unscaled"));
    CHECK(contains(run("policy history --requirements new.txt").out, "ds-z0-fp16-unscaled"));
    const Outcome both = run("policy history ds-z0-fp16-unscaled --diff 0.18.2:0.19.8");
    CHECK(both.code == 2);
    CHECK(contains(both.err, "deepspeed"));
}

TEST_CASE("policy history of a config depends on the versions that requirements name", "[program][history]") {
    write("z0.json", fp16_without_zero);
    write("old.txt", "deepspeed==0.18.2\n");
    write("new.txt", "torch==2.9.1\ndeepspeed==0.19.8\n");
    CHECK(run("policy history z0.json --requirements old.txt").code == 0);
    const Outcome faulty = run("policy history z0.json --requirements new.txt");
    CHECK(faulty.code == 1);
    CHECK(contains(faulty.out, "ds-z0-fp16-unscaled"));
    const Outcome named = run("policy history z0.json --requirements new.txt --framework-version deepspeed=0.18.2");
    CHECK(named.code == 0);
    CHECK(run("policy history z0.json --requirements no.txt").code == 3);
}

TEST_CASE("policy history --diff says what an upgrade repairs and breaks", "[program][history]") {
    write("old.txt", "deepspeed==0.17.6\n");
    write("new.txt", "deepspeed==0.18.3\n");
    for (const char* pair : {"0.17.6:0.18.3", "old.txt:new.txt"}) {
        CAPTURE(pair);
        const json said = json::parse(run(std::string("policy history deepspeed --json --diff ") + pair).out);
        const auto has = [&](const char* list, const char* id) {
            for (const json& row : said.at(list)) {
                if (row.at("id") == id) return true;
            }
            return false;
        };
        CHECK(has("gone", "ds-z2-last-micro-batch"));
        CHECK_FALSE(has("new", "ds-z2-last-micro-batch"));
        CHECK(has("new", "ds-z0-fp16-unscaled"));
    }
    write("z0.json", fp16_without_zero);
    const Outcome config = run("policy history z0.json --diff 0.18.2:0.19.8");
    CHECK(config.code == 0);
    CHECK(contains(config.out, "new:\nID"));
    CHECK(contains(run("policy history z0.json --diff 0.18.1:0.18.1").out, "no known fault or default changes"));
    CHECK(run("policy history deepspeed --diff 0.18").code == 2);
    CHECK(run("policy history --diff 0.17.6:0.18.3").code == 2);
}

TEST_CASE("a severe fault refuses a config, and --despite makes it a warning", "[program][history]") {
    write("z0.json", fp16_without_zero);
    const Outcome refused = run("policy import z0.json --framework-version 0.19.8");
    CHECK(refused.code == 1);
    CHECK(contains(refused.out, "[deepspeed/ds-z0-fp16-unscaled]"));
    const Outcome accepted = run("policy import z0.json --framework-version 0.19.8 --despite ds-z0-fp16-unscaled");
    CHECK(accepted.code == 0);
    CHECK(contains(accepted.out, "W z0.json"));
    const std::string train = "train --config z0.json --steps 1 --seeds 0 --warmup 1 --eval-batches 1 ";
    const Outcome untrained = run(train + "-o refused --framework-version deepspeed=0.19.8");
    CHECK(untrained.code == 1);
    CHECK(contains(untrained.err, "--despite ds-z0-fp16-unscaled"));
    const Outcome trained =
        run(train + "-o trained --framework-version deepspeed=0.19.8 --despite ds-z0-fp16-unscaled");
    CHECK(trained.code == 0);
    CHECK(contains(trained.out, "the fault ds-z0-fp16-unscaled is not emulated"));
    CHECK(run("policy import z0.json --despite no-such-fault").code == 2);
}

TEST_CASE("a report of a log names the faults of the installed versions, and the causes that a config has",
          "[program][history]") {
    std::string log;
    for (int step = 1; step <= 30; ++step)
        log +=
            "{'loss': 10.3735, 'grad_norm': 1e-05, 'learning_rate': 1e-05, 'epoch': 0." + std::to_string(step) + "}\n";
    write("flat.log", log);
    write("old.txt", "deepspeed==0.18.2\ntransformers==5.1.0\n");
    write("new.txt", "deepspeed==0.19.8\ntransformers==5.1.0\n");
    write("z0.json", fp16_without_zero);
    const Outcome any = run("report flat.log");
    CHECK(any.code == 0);
    CHECK(contains(any.out, "no-learning"));
    CHECK(contains(any.out, "--requirements says whether your versions have them"));
    CHECK(contains(run("report flat.log --requirements new.txt").out,
                   "The named versions have these faults: ds-z0-fp16-unscaled"));
    CHECK_FALSE(contains(run("report flat.log --requirements old.txt").out, "ds-z0-fp16-unscaled"));
    const Outcome config = run("report flat.log --config z0.json --framework-version deepspeed=0.19.8 --json");
    CHECK(config.code == 0);
    CHECK(contains(config.out, "The config has a known cause"));
    CHECK(contains(config.out, "ds-z0-fp16-unscaled"));
    CHECK(run("report flat.log --config no.json").code == 3);
}

}  // namespace policy_history_test
