// SPDX-License-Identifier: Apache-2.0
// Compares all-reduces of 1 to 9 ranks with tests/oracle/reduce.py bit by bit, and checks that the comparison detects a
// ring that starts at the wrong rank.
#include "core/codec.hpp"
#include "emulation/cpu/cpu_backend.hpp"
#include "experiments/training/run/optimizer/ranks.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace reduce_python_test {

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

struct ReduceCase {
    std::string order, wire;
    std::vector<std::vector<float>> parts;
};

std::vector<ReduceCase> cases() {
    std::mt19937 random(3);
    std::vector<ReduceCase> list;
    for (const char* order : {"ring", "tree", "gather"}) {
        for (const char* wire : {"fp32", "bf16", "fp16"}) {
            for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
                for (const std::size_t count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, std::size_t{1000}}) {
                    ReduceCase one{order, wire, std::vector<std::vector<float>>(ranks, std::vector<float>(count))};
                    for (auto& part : one.parts) {
                        for (float& x : part) {
                            const int exponent = static_cast<int>(random() % 24) - 20;
                            x = std::ldexp(static_cast<float>(static_cast<int>(random() % 2000001) - 1000000) * 1e-6f,
                                           exponent);
                        }
                    }
                    list.push_back(std::move(one));
                }
            }
        }
    }
    return list;
}

std::vector<std::string> reduced(const ReduceCase& one) {
    const ReduceConfig config =
        parse_policy(fmt::format("name = \"test\"\nextends = \"fp32\"\n[reduce]\nwire = \"{}\"\norder = \"{}\"\n",
                                 one.wire, one.order),
                     "test")
            .reduce;
    CpuBackend backend(1);
    std::vector<Tensor> tensors;
    std::vector<View> views;
    for (const auto& part : one.parts) {
        tensors.push_back(backend.empty({static_cast<std::int64_t>(part.size())}));
        backend.upload(part, tensors.back());
        views.push_back(tensors.back());
    }
    AllReduce(backend, config, config.wire.value_or(CastRule{.format = fp32}), {1, 2, 3}).run(views);
    std::vector<float> out(one.parts[0].size());
    backend.download(views[0], out);
    std::vector<std::string> codes;
    for (const float x : out) codes.push_back(fmt::format("{:08x}", bit_cast<std::uint32_t>(x)));
    return codes;
}

/// Runs tests/oracle/reduce.py with rings that begin at rank `start`. Returns a list of codes for each case.
std::vector<std::vector<std::string>> of_python(const std::vector<ReduceCase>& list, int start) {
    const test::TemporaryFolder folder;
    std::ofstream file(folder / "cases");
    for (const ReduceCase& one : list) {
        file << fmt::format("{} {} {} {}\n", one.order, one.wire, one.parts.size(), one.parts[0].size());
        for (const auto& part : one.parts) {
            for (const float x : part) file << fmt::format("{:08x} ", bit_cast<std::uint32_t>(x));
            file << '\n';
        }
    }
    file.close();
    const std::string command = fmt::format("python3 '{}/tests/oracle/reduce.py' '{}' {} >'{}'", MACHEPS_SOURCE_DIR,
                                            (folder / "cases").string(), start, (folder / "sums").string());
    REQUIRE(std::system(command.c_str()) == 0);
    std::ifstream sums(folder / "sums");
    std::vector<std::vector<std::string>> all;
    for (std::string line, code; std::getline(sums, line);) {
        std::istringstream codes(line);
        all.emplace_back();
        while (codes >> code) all.back().push_back(code);
    }
    REQUIRE(all.size() == list.size());
    return all;
}

}  // namespace

TEST_CASE("ring, tree and gather have the bits of a Python reference, for 1 to 9 ranks and lengths of 0 to 1000",
          "[ranks]") {
    if (std::system("python3 -c '' 2>/dev/null") != 0) SKIP_TEST("no python3 here");
    const std::vector<ReduceCase> list = cases();
    const auto theirs = of_python(list, 1), with_wrong_start = of_python(list, 2);
    std::size_t compared = 0, seen = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
        const ReduceCase& one = list[i];
        CAPTURE(one.order, one.wire, one.parts.size(), one.parts[0].size());
        const std::vector<std::string> ours = reduced(one);
        CHECK(ours == theirs[i]);
        compared += ours.size();
        // A ring of three or more ranks that starts at the next rank adds in another order.
        const bool must_differ = one.order == "ring" && one.parts.size() > 2 && one.parts[0].size() == 1000;
        if (must_differ) CHECK(ours != with_wrong_start[i]);
        if (one.order != "ring") CHECK(ours == with_wrong_start[i]);
        seen += must_differ ? 1 : 0;
    }
    CHECK(compared > 80000);
    CHECK(seen == 21);
}

}  // namespace reduce_python_test
