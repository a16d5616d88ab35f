// SPDX-License-Identifier: Apache-2.0
// Tests `macheps check` for row-wise operations: the declared properties of a kernel decide its verdict.
#include "tests/json.hpp"
#include "tests/program/program.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace check_rows_test {

using namespace macheps::test;
using nlohmann::json;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <class T>
std::string npy(const std::string& type, const std::string& shape, const std::vector<T>& values) {
    std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.append(117 - header.size(), ' ');
    header += '\n';
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
           std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

float to_bf16(float x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, 4);
    bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u;
    std::memcpy(&x, &bits, 4);
    return x;
}

}  // namespace

TEST_CASE("the declaration of a row-wise kernel decides how much accuracy it may lose", "[program][check]") {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::vector<float> x(64 * 96), gate(64 * 96), rounded(64 * 96), loss(1);
    std::vector<std::int64_t> target(64);
    for (float& each : x) each = normal(random);
    for (std::size_t i = 0; i < x.size(); ++i) {
        gate[i] = normal(random);
        rounded[i] = to_bf16(gate[i] / (1 + std::exp(-gate[i]))) * x[i];
    }
    double total = 0, counted = 0;
    for (std::size_t r = 0; r < 64; ++r) {
        target[r] = r % 5 == 0 ? -1 : static_cast<std::int64_t>(random() % 96);
        if (target[r] < 0) continue;
        double sum = 0;
        for (std::size_t i = 0; i < 96; ++i) sum += std::exp(static_cast<double>(x[r * 96 + i]));
        total += std::log(sum) - static_cast<double>(x[r * 96 + static_cast<std::size_t>(target[r])]);
        ++counted;
    }
    loss[0] = static_cast<float>(total / counted);
    write("x.npy", npy("<f4", "(64, 96)", x));
    write("gate.npy", npy("<f4", "(64, 96)", gate));
    write("out.npy", npy("<f4", "(64, 96)", rounded));
    write("target.npy", npy("<i8", "(64,)", target));
    write("loss.npy", npy("<f4", "()", loss));

    const Outcome plain = run("check x.npy up=x gate.npy out.npy --op swiglu");
    CHECK(plain.code == 1);
    CHECK(holds(plain.out, "KC020"));
    const Outcome declared = run("check x.npy up=x gate.npy out.npy --op swiglu --inner bf16 --json");
    CAPTURE(declared.out.substr(0, 700));
    CHECK(declared.code == 0);
    const json swiglu = json::parse(declared.out);
    CHECK(holds(swiglu.dump(), "intermediate results rounded to bf16"));

    const std::string entropy = "check x.npy target.npy loss.npy out=loss --op cross_entropy --reduction mean";
    const Outcome refused = run(entropy);
    CHECK(refused.code == 3);
    CHECK(holds(refused.err, "--ignore-index"));
    const Outcome mean = run(entropy + " --ignore-index -1");
    CHECK(mean.code == 0);
    CHECK(holds(mean.out, "pass"));
    CHECK(run(entropy + " --ignore-index -1 --functions cuda.fast").code == 0);
}

TEST_CASE("an invalid declaration of a row-wise operation is refused", "[program][check]") {
    write("x.npy", npy("<f4", "(2, 2)", std::vector<float>{1, 2, 3, 4}));
    write("out.npy", npy("<f4", "(2, 2)", std::vector<float>{1, 2, 3, 4}));
    for (const auto& [words, text] : {
             std::pair{"--op relu --sum pairwise", "relu has no sum"},
             {"--op softmax --sum parwise", "unknown order of summation 'parwise'"},
             {"--op softmax --functions cuda,expp=3", "did you mean 'exp'?"},
             {"--op softmax --functions cuda,exp=0.1", "is not a valid number of ulp"},
             {"--op softmax --block 1.5", "is not a whole number"},
             {"--op quantize", "--granularity"},
             {"--op quantize --granularity tensors", "tensors not in {none,tensor,row"},
             {"--op rope --layout paired", "paired not in {halves,pairs}"},
             {"--op softmaxx", "softmaxx not in {gemm,sum"},
         }) {
        const Outcome refused = run(std::string("check x.npy out.npy ") + words);
        CAPTURE(words, refused.err);
        CHECK(refused.code == 2);
        CHECK(holds(refused.err, text));
    }
}

}  // namespace check_rows_test
