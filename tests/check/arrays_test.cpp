// SPDX-License-Identifier: Apache-2.0
// Tests the readers of arrays: .npy and .npz files as NumPy writes them, and files that are cut short, contradict
// themselves, or claim wrong sizes.
#include "experiments/files/arrays/arrays.hpp"
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "experiments/files/arrays/npy.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <zlib.h>

#include <cstring>
#include <random>

namespace arrays_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace {

void append(std::string& text, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
}

/// Returns an archive with one deflated member. As in numpy.savez_compressed, the sizes are in a zip64 field of its
/// local header.
std::string deflated_zip(const std::string& name, const std::string& bytes) {
    std::string packed(compressBound(bytes.size()) + 16, '\0');
    z_stream stream{};
    deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, Z_FINISH);
    packed.resize(stream.total_out);
    deflateEnd(&stream);
    const auto checksum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    std::string text("PK\x03\x04\x2d\x00\x00\x00\x08\x00\x00\x00\x21\x00", 14);
    append(text, checksum, 4);
    append(text, 0xffffffff, 4);
    append(text, 0xffffffff, 4);
    append(text, name.size(), 2);
    append(text, 20, 2);
    text += name;
    append(text, 1, 2);
    append(text, 16, 2);
    append(text, bytes.size(), 8);
    append(text, packed.size(), 8);
    text += packed;
    const std::size_t at = text.size();
    text += std::string("PK\x01\x02\x2d\x03\x2d\x00\x00\x00\x08\x00\x00\x00\x21\x00", 16);
    append(text, checksum, 4);
    append(text, packed.size(), 4);
    append(text, bytes.size(), 4);
    append(text, name.size(), 2);
    text += std::string(16, '\0') + name;
    const std::size_t directory = text.size() - at;
    text += std::string("PK\x05\x06\x00\x00\x00\x00\x01\x00\x01\x00", 12);
    append(text, directory, 4);
    append(text, at, 4);
    append(text, 0, 2);
    return text;
}

std::string npy_of(const std::string& type, const std::vector<std::int64_t>& shape, const std::string& bytes) {
    return npy_header(type, shape) + bytes;
}

std::string floats(std::initializer_list<float> values) {
    std::string bytes;
    for (const float x : values) bytes.append(reinterpret_cast<const char*>(&x), 4);
    return bytes;
}

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}

}  // namespace

TEST_CASE("arrays are read from .npy files, from .npz files (uncompressed or deflated) and from .safetensors files",
          "[check][files]") {
    const TemporaryFolder folder;
    const std::string bytes = floats({1, 2, 3, -4, 5.5f, 1e-30f});
    const std::string npy = npy_of("<f4", {2, 3}, bytes);
    const std::string header = R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
    std::string safetensors;
    append(safetensors, header.size(), 8);
    safetensors += header + bytes;
    publish(folder / "x.npy", npy);
    publish(folder / "deflated.npz", deflated_zip("x.npy", npy));
    publish(folder / "x.safetensors", safetensors);
    for (const char* name : {"x.npy", "deflated.npz", "x.safetensors"}) {
        CAPTURE(name);
        const auto arrays = read_arrays(folder / name);
        REQUIRE(arrays.size() == 1);
        CHECK(arrays[0].name == "x");
        CHECK(arrays[0].shape == std::vector<std::int64_t>{2, 3});
        CHECK(values_of(arrays[0], fp32) == std::vector<double>{1, 2, 3, -4, 5.5, static_cast<double>(1e-30f)});
    }
    publish(folder / "stored.npz", npz_text({{"y", {2}, {0.1, -7}}, {"z", {}, {3}}}));
    const auto arrays = read_arrays(folder / "stored.npz");
    REQUIRE(arrays.size() == 2);
    CHECK(values_of(arrays[0], fp64) == std::vector<double>{0.1, -7});
    CHECK(arrays[1].shape.empty());
}

TEST_CASE("column-major arrays are converted to row-major order", "[check][files]") {
    std::string npy = npy_of("<f4", {2, 3}, floats({1, 4, 2, 5, 3, 6}));
    const std::size_t at = npy.find("False");
    npy.replace(at, 5, "True ");
    CHECK(values_of(parse_npy(npy, "x", "test"), fp32) == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("codes, packed or not, are read in the declared format", "[check][files]") {
    const StoredArray codes = parse_npy(npy_of("|V2", {2}, std::string("\x80\x3f\x00\xc0", 4)), "x", "test");
    CHECK_FALSE(codes.format);
    CHECK(values_of(codes, bf16) == std::vector<double>{1, -2});
    const StoredArray bytes = parse_npy(npy_of("|u1", {2}, std::string("\x21\x7f", 2)), "x", "test");
    CHECK(values_of(bytes, e2m1fn, true) == std::vector<double>{0.5, 1, -6, 6});
    CHECK(values_of(bytes, e4m3fn)[0] == 0x1.2p-3);
    CHECK(error_of([&] {
              values_of(bytes, e2m1fn);
          }).starts_with("3 test (x): element 0 is 0x21, which is not a code of e2m1fn"));
    CHECK(error_of([&] {
              values_of(bytes, bf16);
          }).starts_with("3 test (x): |u1 has 8 bits per element, but bf16 has 16"));
    CHECK(error_of([&] { values_of(bytes, e4m3fn, true); }).starts_with("3 test (x): e4m3fn is not packed"));
}

TEST_CASE("malformed array files give an error with exit code 3", "[check][files]") {
    const std::string npy = npy_of("<f4", {2, 3}, std::string(24, 'x'));
    const auto parse = [](const std::string& bytes) { return error_of([&] { parse_npy(bytes, "x", "test"); }); };
    CHECK(parse(npy) == "accepted");
    CHECK(parse(npy_of("<f4", {std::int64_t{1} << 62, 4}, "xxxx"))
              .starts_with("3 test: the .npy file ends before its last element"));
    CHECK(parse(npy_of("<f4", {INT64_MAX, INT64_MAX}, "")).starts_with("3 test: the .npy file ends"));
    CHECK(parse(npy_of("<f4", {1}, "xxxxx")).starts_with("3 test: the .npy file has bytes after"));
    CHECK(parse(npy_of("|O", {1}, "xxxx")).starts_with("3 test: elements of type '|O'"));
    CHECK(parse(npy_of(">f4", {1}, "xxxx")).starts_with("3 test: elements of type"));
    std::string negative = npy;
    negative.replace(negative.find("(2, 3"), 5, "(-2,3");
    CHECK(parse(negative).starts_with("3 test: '-2' is not a valid size"));

    const std::string zip = deflated_zip("x.npy", npy);
    const auto unzip = [](const std::string& bytes) { return error_of([&] { read_zip(bytes, "test"); }); };
    CHECK(unzip(zip) == "accepted");
    for (std::size_t length = 0; length < zip.size(); ++length)
        CHECK(unzip(zip.substr(0, length)).starts_with("3 test: "));
    for (std::size_t length = 0; length < npy.size(); ++length)
        CHECK(parse(npy.substr(0, length)).starts_with("3 test: "));
    std::string large = zip;  // claims an unpacked size of 4 GB
    const std::size_t size = large.rfind("PK\x01\x02") + 24;
    std::memcpy(large.data() + size, "\xf0\xff\xff\xff", 4);
    CHECK(unzip(large).find("more than its compressed data can contain") != std::string::npos);
    const std::string stored = npz_text({{"x", {2}, {0.1, -7}}});
    CHECK(unzip(stored) == "accepted");
    for (std::string checksum : {zip, stored}) {
        checksum[checksum.rfind("PK\x01\x02") + 16] ^= 1;
        CHECK(unzip(checksum).starts_with("3 test: the checksum of 'x.npy' is wrong"));
    }
    // Some bytes are replaced by random bytes. The readers may accept the result or throw an Error, but must not crash.
    std::mt19937 random(1);
    for (int trial = 0; trial < 20000; ++trial) {
        std::string broken = zip;
        for (int flips = 0; flips < 1 + trial % 3; ++flips)
            broken[random() % broken.size()] = static_cast<char>(random());
        error_of([&] {
            for (const ZipMember& member : read_zip(broken, "test")) parse_npy(member.bytes, member.name, "test");
        });
        std::string array = npy;
        array[random() % array.size()] = static_cast<char>(random());
        error_of([&] { parse_npy(array, "x", "test"); });
    }
    const TemporaryFolder folder;
    publish(folder / "model.pt", deflated_zip("archive/data.pkl", "cos\nsystem\n"));
    CHECK(error_of([&] { read_arrays(folder / "model.pt"); }).find("macheps does not open pickled code") !=
          std::string::npos);
    publish(folder / "empty.npz", "");
    CHECK(error_of([&] { read_arrays(folder / "empty.npz"); }).find("the file is empty") != std::string::npos);
}

}  // namespace arrays_test
