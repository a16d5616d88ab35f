// SPDX-License-Identifier: Apache-2.0
// Tests the arrays that `macheps convert --granularity` writes, and its errors.
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "tests/program/program.hpp"

#include <cstring>
#include <string>
#include <vector>

namespace convert_scaled_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const StoredArray* find(const std::vector<StoredArray>& arrays, const std::string& name) {
    for (const StoredArray& one : arrays) {
        if (one.name == name) return &one;
    }
    return nullptr;
}

template <class Number>
std::vector<Number> numbers(const StoredArray& array) {
    std::vector<Number> list(array.bytes.size() / sizeof(Number));
    std::memcpy(list.data(), array.bytes.data(), array.bytes.size());
    return list;
}

void write_array(const std::string& name, const std::vector<float>& values, const std::vector<std::int64_t>& shape) {
    write_npy((scratch() / name).string(), values, shape);
}

}  // namespace

TEST_CASE("convert --granularity writes codes, scales and values", "[program][scaling]") {
    std::vector<float> x(2 * 32, 1.0f);
    x[0] = -448, x[40] = 6;
    write_array("x.npy", x, {2, 32});
    REQUIRE(run("convert --to e4m3fn --granularity mx32 x.npy -o mx.npz").code == 0);
    const std::vector<StoredArray> mx = read_arrays(scratch() / "mx.npz");
    REQUIRE(mx.size() == 4);
    CHECK(find(mx, "codes")->type == "|u1");
    CHECK(find(mx, "codes")->shape == std::vector<std::int64_t>{2, 32});
    CHECK(find(mx, "scales")->shape == std::vector<std::int64_t>{2, 1});
    CHECK(numbers<float>(*find(mx, "scales")) == std::vector<float>{1, 0x1p-6f});
    CHECK(numbers<std::uint8_t>(*find(mx, "scale_codes")) == std::vector<std::uint8_t>{127, 121});
    CHECK(numbers<std::uint8_t>(*find(mx, "codes"))[0] == 0xfe);
    CHECK(numbers<float>(*find(mx, "decoded")) == x);

    REQUIRE(run("convert --to bf16 --scale-rule te_current --granularity column x.npy -o wide.npz").code == 0);
    const std::vector<StoredArray> wide = read_arrays(scratch() / "wide.npz");
    CHECK(find(wide, "codes")->type == "<u2");
    CHECK(find(wide, "scales")->shape == std::vector<std::int64_t>{1, 32});
    CHECK(find(wide, "scale_codes") == nullptr);

    REQUIRE(run("convert --to e2m1fn --granularity nvfp4 x.npy -o fp4.npz").code == 0);
    const std::vector<StoredArray> fp4 = read_arrays(scratch() / "fp4.npz");
    CHECK(find(fp4, "tensor_scale")->shape.empty());
    CHECK(numbers<float>(*find(fp4, "tensor_scale")) == std::vector<float>{1.0f / 6.0f});

    REQUIRE(run("convert --to e4m3fn --granularity 1x128 --axis 0 x.npy -o first.npz").code == 0);
    CHECK(find(read_arrays(scratch() / "first.npz"), "scales")->shape == std::vector<std::int64_t>{1, 32});
    fs::remove_all(scratch());
}

TEST_CASE("convert with scales refuses arrays and options that it cannot use", "[program][scaling]") {
    write_array("x.npy", std::vector<float>(40, 1.0f), {1, 40});
    write_array("cube.npy", std::vector<float>(8, 1.0f), {2, 2, 2});
    write_array("empty.npy", {}, {0, 4});
    write("codes.npy", npy_header("|u1", {1, 4}) + "abcd");
    struct Case {
        const char *arguments, *says;
        int code;
    };
    for (const Case& c :
         {Case{"x.npy", "--granularity: the granularity is missing", 2},
          Case{"--granularity tensor -o y.npz", "IN: the array is missing", 2},
          Case{"--granularity tensor x.npy", "--output: the name of the output file is missing", 2},
          Case{"--granularity tensr x.npy -o y.npz",
               "--granularity: unknown granularity 'tensr' (did you mean 'tensor'?", 2},
          Case{"--granularity tensor --scale-rule te_curent x.npy -o y.npz", "--scale-rule: unknown scale rule", 2},
          Case{"--granularity mx32 x.npy -o y.npz", "40 columns cannot be divided into blocks of 32", 2},
          Case{"--granularity row --axis 0 x.npy -o y.npz", "leave out --axis, or use column", 2},
          Case{"--granularity tensor --axis 2 x.npy -o y.npz", "--axis", 2},
          Case{"--granularity tensor --saturate x.npy -o y.npz", "--saturate: it has no effect with scales", 2},
          Case{"--granularity tensor --from bf16 x.npy -o y.npz", "--from: it has no effect with scales", 2},
          Case{"--granularity tensor cube.npy -o y.npz", "an array of shape [2, 2, 2]", 3},
          Case{"--granularity tensor empty.npy -o y.npz", "an array of shape [0, 4]", 3},
          Case{"--granularity tensor codes.npy -o y.npz", "elements of type '|u1'", 3},
          Case{"--granularity tensor missing.npy -o y.npz", "missing.npy", 3},
          Case{"--granularity tensor x.npy -o no/such/y.npz", "no/such", 5}}) {
        const Outcome outcome = run(std::string("convert --to e4m3fn ") + c.arguments);
        CAPTURE(c.arguments, outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(holds(outcome.err, c.says));
        CHECK_FALSE(fs::exists(scratch() / "y.npz"));
    }
    CHECK(holds(run("convert --to e8m0fnu --granularity tensor x.npy -o y.npz").err,
                "--to: 'e8m0fnu' cannot be the format"));
    fs::remove_all(scratch());
}

TEST_CASE("convert with scales writes the same bytes with scalar code and with SIMD", "[program][scaling]") {
    std::vector<float> x;
    for (int i = 0; i < 64 * 96; ++i) x.push_back(static_cast<float>((i * 7919) % 1013 - 506) * 0.37f);
    write_array("x.npy", x, {64, 96});
    for (const char* what : {"e4m3fn --granularity 1x128", "e2m1fn --granularity nvfp4 --round sr --seed 3"}) {
        const std::string command = std::string("convert x.npy --to ") + what;
        REQUIRE(run(command + " -o a.npz", "MACHEPS_SIMD=scalar").code == 0);
        REQUIRE(run(command + " -o b.npz").code == 0);
        CHECK(contents(scratch() / "a.npz") == contents(scratch() / "b.npz"));
    }
    fs::remove_all(scratch());
}

}  // namespace convert_scaled_test
