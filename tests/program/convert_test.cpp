// SPDX-License-Identifier: Apache-2.0
// Tests `macheps convert` on raw bytes and .npy files.
#include "core/codec.hpp"
#include "core/format_table.hpp"
#include "core/rng.hpp"
#include "tests/program/program.hpp"
#include "tests/test.hpp"

#include <cstring>
#include <limits>
#include <vector>

namespace convert_test {

using namespace macheps::test;

namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

/// Runs `macheps convert` with `input` on stdin.
Outcome convert(const std::string& arguments, const std::string& input) {
    write("in.bin", input);
    const std::string command =
        "cd '" + scratch().string() + "' && '" MACHEPS_PROGRAM "' convert " + arguments + " <in.bin >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(scratch() / "out.txt"),
            contents(scratch() / "err.txt")};
}

}  // namespace

TEST_CASE("convert turns raw numbers into codes and back", "[program]") {
    const std::vector<float> x{0.0f, 1.0f, 464.0f, 0x1.ep-7f, -0x1p-10f, std::numeric_limits<float>::infinity()};
    const std::vector<std::uint8_t> codes{0x00, 0x38, 0x7e, 0x08, 0x80, 0x7f};
    const Outcome encoded = convert("--to e4m3fn", raw(x));
    CHECK(encoded.code == 0);
    CHECK(encoded.out == raw(codes));
    CHECK(convert("--from e4m3fn --to fp32", raw(std::vector<std::uint8_t>{0x38, 0x7e, 0x80})).out ==
          raw(std::vector<float>{1.0f, 448.0f, -0.0f}));
    struct Case {
        const char* arguments;
        std::string in, out;
        const char* why;
    };
    const double above_tie = 1 + 0x1p-8 + 0x1p-40;  // just above a tie of bf16; rounded to fp32, it becomes the tie
    for (const Case& c : std::initializer_list<Case>{
             {"--to e4m3fn --saturate", raw<float>({1000.0f}), "\x7e", "saturating"},
             {"--to e4m3fn --round rz", raw<float>({463.0f}), "\x7e", "abbreviation of a rounding mode"},
             {"--to e4m3fn --profile cuda_sat", raw<float>({1000.0f}), "\x7e", "conventions of an implementation"},
             {"--to bf16", raw<float>({1.0f, -2.0f}), raw<std::uint16_t>({0x3f80, 0xc000}), "two bytes per code"},
             {"--from fp64 --to bf16", raw<double>({above_tie}), raw<std::uint16_t>({0x3f81}), "fp64 is rounded once"},
             {"--from fp64 --to bf16 --profile torch_sat", raw<double>({above_tie}), raw<std::uint16_t>({0x3f80}),
              "fp64 is rounded twice if the library does so"},
             {"--from e2m1fn --to fp64", std::string("\x07\x0f", 2), raw<double>({6.0, -6.0}),
              "each code of four bits is a byte"},
             {"--from e3m2fn --to e2m1fn", std::string("\x1f", 1), "\x07", "from one narrow format to another"},
             {"--to e5m2", "", "", "empty input gives empty output"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = convert(c.arguments, c.in);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.out == c.out);
    }
    // The program reads long input in pieces. Every element must be converted with its own random word of the stream,
    // whichever piece contains it.
    const std::vector<float> numbers(200000, 1.03125f);
    const std::string many = raw(numbers);
    const Outcome first = convert("--to e4m3fn --round sr --seed 7", many);
    const macheps::RngKey key{7, 0, macheps::site_id("convert")};
    std::string wanted;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        wanted += static_cast<char>(macheps::encode(macheps::e4m3fn, numbers[i], macheps::Round::stochastic,
                                                    macheps::Overflow::nonsaturate,
                                                    macheps::RandomBits{macheps::random_bits(key, i), 32}));
    }
    CHECK(first.out == wanted);
    CHECK(first.out != convert("--to e4m3fn --round sr --seed 8", many).out);
    std::filesystem::remove_all(scratch());
}

TEST_CASE("convert recognises an .npy file and writes an .npy file of the same shape", "[program]") {
    const auto npy = [](const std::string& type, const std::string& shape, const std::string& bytes,
                        bool is_fortran = false) {
        std::string header = "{'descr': '" + type + "', 'fortran_order': " + (is_fortran ? "True" : "False") +
                             ", 'shape': (" + shape + "), }";
        header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
        header += '\n';
        return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + bytes;
    };
    const std::string x = npy("<f4", "2, 3, ", raw<float>({0, 1, 464, 0x1.ep-7f, -1, 2}));
    struct Case {
        const char* arguments;
        std::string in, out;
        const char* why;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"--to e4m3fn", x, npy("|u1", "2, 3, ", raw<std::uint8_t>({0, 0x38, 0x7e, 0x08, 0xb8, 0x40})),
              "codes are bytes"},
             {"--to fp16", x, npy("<f2", "2, 3, ", raw<std::uint16_t>({0, 0x3c00, 0x5f40, 0x2380, 0xbc00, 0x4000})),
              "NumPy has a type for fp16"},
             {"--to fp64 --from fp32", x, npy("<f8", "2, 3, ", raw<double>({0, 1, 464, 0x1.ep-7, -1, 2})),
              "--from may name the type of the file"},
             {"--to bf16", npy("<f8", "", raw<double>({1.5})), npy("<u2", "", raw<std::uint16_t>({0x3fc0})),
              "the type of the file is the format"},
             {"--to e5m6", npy("<f2", "1, ", raw<std::uint16_t>({0x3c00})),
              npy("<u2", "1, ", raw<std::uint16_t>({0x3c0})), "formats of any width"},
             {"--from e4m3fn --to fp32", npy("|u1", "2, ", raw<std::uint8_t>({0x38, 0x7e})),
              npy("<f4", "2, ", raw<float>({1, 448})), "--from names the format of codes"},
             {"--to e4m3fn", npy("<f4", "2, 2, ", raw<float>({1, 2, 3, 4}), true),
              npy("|u1", "2, 2, ", raw<std::uint8_t>({0x38, 0x44, 0x40, 0x48})),
              "column-major order becomes row-major"},
             {"--to fp32", npy("<f4", "0, ", ""), npy("<f4", "0, ", ""), "an empty array"}}) {
        CAPTURE(c.arguments, c.why);
        const Outcome outcome = convert(c.arguments, c.in);
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.out == c.out);
    }
    const std::string many = npy("<f4", "200000, ", raw(std::vector<float>(200000, 1.03125f)));
    CHECK(convert("--to e4m3fn", many).out.size() == 200000 + 128);
    CHECK(convert("--to e4m3fn", npy("|u1", "1, ", "8")).code == 2);  // the format of the codes is missing
    CHECK(convert("--to e4m3fn --from bf16", x).code == 3);           // the file has another format
    CHECK(convert("--to e4m3fn", npy("<f4", "3, ", raw<float>({1, 2}))).code == 3);  // the file is too short
    std::filesystem::remove_all(scratch());
}

TEST_CASE("convert counts or refuses NaN, infinity, sign or zero if the format cannot represent them", "[program]") {
    constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
    struct Case {
        const char* arguments;
        std::vector<float> in;
        std::string out;
        const char* note;
    };
    for (const Case& c : std::initializer_list<Case>{
             {"--to e8m0fnu",
              {1.0f, -3.0f, -1.0f},
              "\x7f\x81\x7f",
              "note: e8m0fnu has no sign: 2 elements, the first at 1: -3 became 4 (0x81)\n"},
             {"--to e8m0fnu",
              {0.0f},
              std::string(1, '\0'),
              "note: e8m0fnu has no zero: 1 element, the first at 0: 0 became "},
             {"--to e8m0fnu --profile mldtypes", {-1.0f}, "\xff", ": -1 became nan (0xff)\n"},
             {"--to e2m1fn",
              {nan, 1.0f, infinity},
              "\x07\x02\x07",
              "note: e2m1fn has no NaN: 1 element, the first at 0: nan became 6 (0x7)\n"
              "note: e2m1fn has no infinity: 1 element, the first at 2: inf became 6 (0x7)\n"},
             {"--to e2m1fn --profile onnx.24", {nan}, "\x08", "nan became -0 (0x8)\n"},
             {"--to e4m3fnuz", {-0.0f}, std::string(1, '\0'), "note: e4m3fnuz has no -0: 1 element"},
             {"--to e4m3fn --refuse all", {nan, -0.0f, -1.0f}, "\x7f\x80\xb8", ""},
             {"--to e2m1fn --refuse inf", {nan}, "\x07", "has no NaN"}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = convert(c.arguments, raw(c.in));
        CAPTURE(outcome.err);
        CHECK(outcome.code == 0);
        CHECK(outcome.out == c.out);
        CHECK((*c.note == '\0' ? outcome.err.empty() : outcome.err.find(c.note) != std::string::npos));
    }
    struct Refused {
        const char* arguments;
        std::vector<float> in;
        const char* says;
        int code;
    };
    for (const Refused& c : std::initializer_list<Refused>{
             {"--to e2m1fn --refuse nan", {1.0f, nan}, "element 1 is nan, but e2m1fn has no NaN", 3},
             {"--to e8m0fnu --refuse negative_zero", {1.0f, -0.0f}, "element 1 is -0, but e8m0fnu has no -0", 3},
             {"--to e4m3fn --refuse nan,inf", {infinity}, "element 0 is inf, but e4m3fn has no infinity", 3},
             {"--to e8m0fnu --refuse all", {-2.0f}, "element 0 is -2, but e8m0fnu has no sign", 3},
             {"--to bf16 --refuse nann", {}, "did you mean nan?", 2},
             {"--to e8m0fnu --profile onnx.19", {}, "profile onnx.19 does not convert to e8m0fnu", 2},
             {"--to e4m3fn --profile onnx_saturate", {}, "choose an edition: onnx.19, ", 2}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = convert(c.arguments, raw(c.in));
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.out.empty());
        CHECK(outcome.err.find(c.says) != std::string::npos);
    }
    std::filesystem::remove_all(scratch());
}

TEST_CASE("a profile decides how e8m0fnu rounds if --round is left out", "[program]") {
    const std::string in = raw<float>({1.25f});
    for (const auto& [arguments, code] : {std::pair{"--to e8m0fnu", "\x7f"},
                                          {"--to e8m0fnu --profile onnx.24", "\x80"},
                                          {"--to e8m0fnu --profile onnx.24 --round nearest_even", "\x7f"},
                                          {"--to e8m0fnu --profile cuda_sat", "\x80"},
                                          {"--to e8m0fnu --profile torch_sat", "\x7f"},
                                          {"--to e4m3fn --profile onnx.24", "\x3a"}}) {
        CAPTURE(arguments);
        CHECK(convert(arguments, in).out == code);
    }
    std::filesystem::remove_all(scratch());
}

TEST_CASE("convert refuses invalid input and invalid options", "[program]") {
    struct Case {
        const char *arguments, *in, *says;
        int code;
    };
    for (const Case& c :
         {Case{"--to e4m3fn", "12345", "5 bytes", 3}, Case{"--to bf61", "", "bf16", 2},
          Case{"--from e4m3 --to fp32", "", "e4m3fn", 2}, Case{"", "", "--to", 2},
          Case{"--to bf16 --round sideways", "", "unknown rounding mode 'sideways' (use one of nearest_even,", 2},
          Case{"--to bf16 --round towardzero", "", "did you mean toward_zero?", 2},
          Case{"--to bf16 --profile mldtype", "", "mldtypes", 2}}) {
        CAPTURE(c.arguments);
        const Outcome outcome = convert(c.arguments, c.in);
        CAPTURE(outcome.err);
        CHECK(outcome.code == c.code);
        CHECK(outcome.err.find(c.says) != std::string::npos);
    }
    std::filesystem::remove_all(scratch());
}

}  // namespace convert_test
