// SPDX-License-Identifier: Apache-2.0
#include "experiments/files/arrays/safetensors.hpp"
#include "core/error.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <array>
#include <fstream>

namespace safetensors_test {

using namespace macheps;
using namespace macheps::files;

namespace {

std::vector<std::byte> written(const SafetensorsWriter& writer) {
    std::vector<std::byte> file;
    writer.write([&](std::span<const std::byte> piece) { file.insert(file.end(), piece.begin(), piece.end()); });
    return file;
}

/// Returns a file that consists of the header's length, the header and `data_bytes` zeros.
std::vector<std::byte> file_of(const std::string& header, std::size_t data_bytes) {
    const std::uint64_t length = header.size();
    std::vector<std::byte> file(8 + header.size() + data_bytes);
    std::memcpy(file.data(), &length, 8);
    std::memcpy(file.data() + 8, header.data(), header.size());
    return file;
}

std::string complaint(std::span<const std::byte> file) {
    try {
        Safetensors::parse(file, "some.safetensors");
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        CHECK(error.parts().where == "some.safetensors");
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("reading a written file returns every tensor of every dtype, and the metadata",
          "[experiments][safetensors]") {
    SafetensorsWriter writer;
    const std::array<float, 6> f32{0.0f, -0.0f, 1e-45f, 3.4e38f, 0.1f, -2.0f};
    const std::array<double, 2> f64{0.1, -1e-320};
    const std::array<std::int8_t, 3> i8{-128, 0, 127};
    const std::array<std::uint8_t, 1> u8{255};
    const std::array<std::uint16_t, 2> u16{1, 65535};
    const std::array<std::int32_t, 2> i32{-1, 1 << 30};
    const std::array<std::uint32_t, 1> u32{0xffffffffu};
    const std::array<std::int64_t, 1> i64{std::int64_t{1} << 62};
    writer.add("i8", {3}, std::span<const std::int8_t>(i8));
    writer.add("f32", {2, 3}, std::span<const float>(f32));
    writer.add("empty", {0, 7}, std::span<const float>());
    writer.add("u8", {}, std::span<const std::uint8_t>(u8));
    writer.add("f64", {2, 1}, std::span<const double>(f64));
    writer.add("u16", {2}, std::span<const std::uint16_t>(u16));
    writer.add("i32", {1, 1, 2}, std::span<const std::int32_t>(i32));
    writer.add("u32", {1}, std::span<const std::uint32_t>(u32));
    writer.add("i64", {1}, std::span<const std::int64_t>(i64));
    writer.borrow("bf16 \"quoted\\\n", Dtype::bf16, {2}, std::as_bytes(std::span(u16)));
    writer.borrow("f16", Dtype::f16, {2}, std::as_bytes(std::span(u16)));
    writer.metadata("policy", "amp \"fp16\"\n\xc3\xa9");
    writer.metadata("a", "");
    const std::vector<std::byte> file = written(writer);
    const Safetensors read = Safetensors::parse(file, "memory");

    CHECK(read.tensors().size() == 11);
    const auto same = [](const auto& vector, const auto& array) {
        return vector.size() == array.size() && std::memcmp(vector.data(), array.data(), sizeof array) == 0;
    };
    CHECK(same(read.values<float>("f32"), f32));
    CHECK(same(read.values<double>("f64"), f64));
    CHECK(same(read.values<std::int8_t>("i8"), i8));
    CHECK(same(read.values<std::uint8_t>("u8"), u8));
    CHECK(same(read.values<std::uint16_t>("u16"), u16));
    CHECK(same(read.values<std::int32_t>("i32"), i32));
    CHECK(same(read.values<std::uint32_t>("u32"), u32));
    CHECK(same(read.values<std::int64_t>("i64"), i64));
    CHECK(read.values<float>("empty").empty());
    CHECK(read.at("f32").shape == std::vector<std::int64_t>{2, 3});
    CHECK(read.at("u8").shape.empty());
    CHECK(read.at("empty").shape == std::vector<std::int64_t>{0, 7});
    CHECK(read.at("bf16 \"quoted\\\n").dtype == Dtype::bf16);
    CHECK(read.at("f16").count() == 2);
    CHECK(read.metadata() == std::map<std::string, std::string>{{"a", ""}, {"policy", "amp \"fp16\"\n\xc3\xa9"}});
    CHECK(read.metadata_at("policy").starts_with("amp"));
    CHECK_FALSE(read.contains("nothing"));
    CHECK_THROWS_AS(read.at("nothing"), Error);
    CHECK_THROWS_AS(read.metadata_at("nothing"), Error);
    CHECK_THROWS_AS(read.values<double>("f32"), Error);

    SECTION("every tensor is aligned to the size of its elements") {
        for (const StoredTensor& tensor : read.tensors()) {
            CAPTURE(tensor.name);
            CHECK((tensor.bytes.data() - file.data()) % static_cast<std::ptrdiff_t>(dtype_bytes(tensor.dtype)) == 0);
        }
    }
    SECTION("the same calls write the same bytes, in memory and to a file") {
        CHECK(written(writer) == file);
        const auto path = test::disk_folder() / "stored";
        writer.write(path);
        CHECK(std::filesystem::file_size(path) == file.size());
        const Safetensors from_disk = Safetensors::read(path);
        CHECK(same(from_disk.values<float>("f32"), f32));
        std::filesystem::remove(path);
    }
    SECTION("a file that is truncated anywhere, or has an extra byte, is refused") {
        for (std::size_t size = 0; size < file.size(); ++size) {
            CAPTURE(size);
            if (complaint(std::span(file).first(size)).empty()) FAIL("accepted");
        }
        std::vector<std::byte> longer = file;
        longer.push_back({});
        CHECK(complaint(longer).find("belong to no tensor") != std::string::npos);
    }
}

TEST_CASE("a file that breaks a rule of safetensors is refused with an error about that rule",
          "[experiments][safetensors]") {
    const std::string f32x2 = R"("dtype":"F32","shape":[2],"data_offsets":)";
    struct Case {
        std::string header;
        std::size_t data_bytes;
        const char* says;
    };
    for (const Case& c : std::initializer_list<Case>{
             {R"({"a":{)" + f32x2 + "[0,8]}}", 8, ""},
             {R"({"a":{)" + f32x2 + "[0,8]}}    ", 8, ""},
             {"{}", 0, ""},
             {R"({"a":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}})", 0, ""},
             {"", 0, "'{'"},
             {" {}", 0, "'{'"},
             {"[]", 0, "'{'"},
             {"{}x", 0, "not valid JSON"},
             {R"({"a":)", 0, "not valid JSON"},
             {"{\"\xff\":1}", 0, "not valid JSON"},
             {R"({"a":1})", 0, "no dtype"},
             {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, "no dtype"},
             {R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8, "no shape"},
             {R"({"a":{"dtype":"F32","shape":[2]}})", 8, "no data_offsets"},
             {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8, "F33"},
             {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8, "dtype 7"},
             {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8, "not a list"},
             {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "-2"},
             {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "2.0"},
             {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8,
              "18446744073709551615"},
             {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
              "cannot have 0 bytes"},
             {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "cannot have 8 bytes"},
             {R"({"a":{)" + f32x2 + "[0]}}", 8, "not a pair"},
             {R"({"a":{)" + f32x2 + "[8,0]}}", 8, "8 to 0"},
             {R"({"a":{)" + f32x2 + "[0,8]}}", 7, "0 to 8, but there are only 7"},
             {R"({"a":{)" + f32x2 + "[0,8]}}", 9, "1 bytes at the end"},
             {R"({"a":{)" + f32x2 + "[1,9]}}", 9, "begins at byte 1"},
             {R"({"a":{)" + f32x2 + R"([0,8]},"b":{)" + f32x2 + "[4,12]}}", 12, "begins at byte 4"},
             {R"({"a":{)" + f32x2 + R"([0,8]},"b":{)" + f32x2 + "[0,8]}}", 8, "begins at byte 0"},
             {R"({"a":{)" + f32x2 + R"([0,8]},"a":{)" + f32x2 + "[8,16]}}", 16, "'a' occurs twice"},
             {R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8, "'dtype' occurs twice"},
             {R"({"__metadata__":7})", 0, "not an object"},
             {R"({"__metadata__":{"k":7}})", 0, "not a string"},
         }) {
        CAPTURE(c.header, c.data_bytes, c.says);
        const std::string said = complaint(file_of(c.header, c.data_bytes));
        CAPTURE(said);
        CHECK((*c.says == '\0' ? said.empty() : said.find(c.says) != std::string::npos));
    }
    std::vector<std::byte> long_claim = file_of("{}", 0);
    const std::uint64_t too_long = 100'000'001, beyond = 3;
    std::memcpy(long_claim.data(), &too_long, 8);
    CHECK(complaint(long_claim).find("allowed") != std::string::npos);
    std::memcpy(long_claim.data(), &beyond, 8);
    CHECK(complaint(long_claim).find("claims 3 bytes") != std::string::npos);
}

TEST_CASE("a writer refuses tensors and metadata that no reader would accept", "[experiments][safetensors]") {
    const std::array<float, 2> x{1, 2};
    SafetensorsWriter writer;
    writer.add("x", {2}, std::span<const float>(x));
    CHECK_THROWS_AS(writer.add("x", {2}, std::span<const float>(x)), Error);
    CHECK_THROWS_AS(writer.add("__metadata__", {2}, std::span<const float>(x)), Error);
    CHECK_THROWS_AS(writer.add("y", {3}, std::span<const float>(x)), Error);
    CHECK_THROWS_AS(writer.write(std::filesystem::path("/nowhere/at/all.safetensors")), Error);
    CHECK_THROWS_AS(Safetensors::read("/nowhere/at/all.safetensors"), Error);
    CHECK_THROWS_AS(Safetensors::read(test::disk_folder()), Error);
    writer.metadata("k", "\xff");
    CHECK_THROWS_AS(written(writer), Error);
}

}  // namespace safetensors_test
