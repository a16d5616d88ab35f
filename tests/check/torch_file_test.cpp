// SPDX-License-Identifier: Apache-2.0
// Tests the readers of .pt files and of raw numbers. The tests compose the files byte by byte, as PyTorch 2.9 writes
// them.
#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "experiments/files/arrays/arrays.hpp"
#include "experiments/files/arrays/strided.hpp"
#include "experiments/files/arrays/zip.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

namespace torch_file_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::files;

namespace fs = std::filesystem;

namespace {

/// Builds a pickle from the instructions that torch.save writes.
struct Pickler {
    std::string bytes{"\x80\x02", 2};

    Pickler& add(std::string_view more) {
        bytes += more;
        return *this;
    }
    Pickler& text(const std::string& s) {
        bytes += 'X';
        for (int i = 0; i < 4; ++i) bytes += static_cast<char>(s.size() >> (8 * i));
        return add(s);
    }
    Pickler& number(std::int64_t x) {
        if (x >= 0 && x < 256) return add({"K"}).add(std::string(1, static_cast<char>(x)));
        bytes += "\x8a\x08";
        for (int i = 0; i < 8; ++i) bytes += static_cast<char>(x >> (8 * i));
        return *this;
    }
    Pickler& name(const std::string& module, const std::string& function) {
        return add("c" + module + "\n" + function + "\n");
    }
    Pickler& sizes(const std::vector<std::int64_t>& all) {
        add("(");
        for (const std::int64_t size : all) number(size);
        return add("t");
    }
    /// Adds a tensor in the untyped storage `key`. PyTorch writes tensors in this way if their type has no storage
    /// class.
    Pickler& tensor_3(const std::string& dtype, const std::string& key, std::int64_t offset,
                      const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
        name("torch._utils", "_rebuild_tensor_v3").add("((").text("storage").name("torch.storage", "UntypedStorage");
        text(key).text("cpu").number(24).add("tQ").number(offset).sizes(shape).sizes(strides).add("\x89");
        return name("collections", "OrderedDict").add(")R").name("torch", dtype).add("tR");
    }
    /// Adds a tensor in the typed storage `key`.
    Pickler& tensor(const std::string& type, const std::string& key, std::int64_t offset,
                    const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& strides) {
        name("torch._utils", "_rebuild_tensor_v2").add("((").text("storage").name("torch", type).text(key).text("cpu");
        number(6).add("tQ").number(offset).sizes(shape).sizes(strides).add("\x89");
        return name("collections", "OrderedDict").add(")RtR");
    }
};

std::string floats(std::initializer_list<float> values) {
    std::string bytes;
    for (const float x : values) bytes.append(reinterpret_cast<const char*>(&x), 4);
    return bytes;
}

const std::string storage = floats({1, 2, 3, -4, 5.5f, 1e-30f});

std::string torch_file(const std::string& pickle, const std::string& order = "little") {
    return stored_zip({{"out/data.pkl", pickle},
                       {"out/byteorder", order},
                       {"out/data/0", storage},
                       {"out/data/1", std::string("\x80\x3f\x00\xc0", 4)},
                       {"out/version", "3\n"}});
}

std::vector<StoredArray> read(const std::string& pickle) { return parse_arrays(torch_file(pickle), "stem", "test.pt"); }

std::string error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.exit())) + " " + error.what();
    }
    return "accepted";
}
bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

using Shape = std::vector<std::int64_t>;
using Values = std::vector<double>;

}  // namespace

TEST_CASE("single tensors, dictionaries, views and tensors in any memory order are read from .pt files",
          "[check][files]") {
    const auto one = read(Pickler().tensor("FloatStorage", "0", 0, {2, 3}, {3, 1}).add(".").bytes);
    REQUIRE(one.size() == 1);
    CHECK(one[0].name == "stem");
    CHECK(one[0].shape == Shape{2, 3});
    CHECK(values_of(one[0], fp32) == Values{1, 2, 3, -4, 5.5, static_cast<double>(1e-30f)});

    Pickler dictionary;
    dictionary.add("}q").add(std::string(1, '\0')).add("(").text("a").tensor("FloatStorage", "0", 0, {3, 2}, {1, 3});
    dictionary.text("out").tensor("FloatStorage", "0", 1, {2, 2}, {3, 1}).text("eps").add("G\x3f\xf0");
    dictionary.add(std::string(6, '\0')).text("b").tensor("BFloat16Storage", "1", 0, {2}, {1});
    dictionary.text("s").tensor("FloatStorage", "0", 4, {}, {}).text("none").add("Nu.");
    const auto all = read(dictionary.bytes);
    REQUIRE(all.size() == 4);
    CHECK(all[0].name == "a");
    CHECK(values_of(all[0], fp32) == Values{1, -4, 2, 5.5, 3, static_cast<double>(1e-30f)});
    CHECK(values_of(all[1], fp32) == Values{2, 3, 5.5, static_cast<double>(1e-30f)});
    CHECK(all[2].format == bf16);
    CHECK(values_of(all[2], bf16) == Values{1, -2});
    CHECK(all[3].shape.empty());
    CHECK(values_of(all[3], fp32) == Values{5.5});

    Pickler ordered;
    ordered.name("collections", "OrderedDict").add(")R(").text("y").tensor("FloatStorage", "0", 5, {1}, {1}).add("u.");
    CHECK(read(ordered.bytes).at(0).name == "y");
}

TEST_CASE("a .pt file of PyTorch 2.15 with fp8 tensors, a state_dict and other entries is read", "[check][files]") {
    // The file was written by torch.save (see tests/golden/README.md). g has the values -5.5, -4.5, ..., 5.5 in 3 rows.
    const auto all = read_arrays(fs::path(MACHEPS_SOURCE_DIR) / "tests/golden/torch_files/torch_2_15.pt");
    std::vector<std::string> names;
    for (const StoredArray& array : all) names.push_back(array.name);
    CHECK(names == std::vector<std::string>{"a", "b", "s", "nz", "packed", "u16", "model.weight", "model.bias",
                                            "weight", "inputs.0"});
    REQUIRE(all.size() == 10);
    const Values g{-5.5, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5};
    CHECK(all[0].format == e4m3fn);
    CHECK(all[0].shape == Shape{3, 4});
    CHECK(values_of(all[0], e4m3fn) == g);
    CHECK(all[1].format == e5m2);
    CHECK(all[1].shape == Shape{4, 3});
    // The array is a transposed view. 5.5 and 4.5 are ties between two e5m2 numbers.
    CHECK(values_of(all[1], e5m2) == Values{-6, -1.5, 2.5, -4, -0.5, 3.5, -3.5, 0.5, 4, -2.5, 1.5, 6});
    CHECK(all[2].format == e8m0fnu);
    CHECK(values_of(all[2], e8m0fnu) == Values{1, 2, 4});
    CHECK(all[3].format == e4m3fnuz);
    CHECK(values_of(all[3], e4m3fnuz) == g);
    CHECK(values_of(all[4], e2m1fn, true) == Values{0.5, 1, -6, 6});
    CHECK(all[5].type == "U16");
    CHECK(all[5].bytes == std::string("\x01\x00\xff\xff", 4));
    CHECK(values_of(all[6], fp32) == Values{1, 2, 3, 4});
    CHECK(values_of(all[7], fp32) == Values{0.5, -0.5});
    CHECK(values_of(all[8], fp32) == Values{1, 2, 3, 4});
    CHECK(values_of(all[9], fp16) == g);
}

TEST_CASE("tensors of every type without a storage class are read, with offsets and strides", "[check][files]") {
    struct Case {
        const char* dtype;
        std::size_t width;
        std::optional<Format> format;
    };
    for (const auto& [dtype, width, format] :
         {Case{"float8_e4m3fn", 1, e4m3fn}, Case{"float8_e5m2", 1, e5m2}, Case{"float8_e4m3fnuz", 1, e4m3fnuz},
          Case{"float8_e5m2fnuz", 1, e5m2fnuz}, Case{"float8_e8m0fnu", 1, e8m0fnu}, Case{"float4_e2m1fn_x2", 1, {}},
          Case{"uint16", 2, {}}, Case{"uint32", 4, {}}, Case{"uint64", 8, {}}, Case{"bits8", 1, {}},
          Case{"bits16", 2, {}}, Case{"bfloat16", 2, bf16}}) {
        CAPTURE(dtype);
        const auto all = read(Pickler().tensor_3(dtype, "0", 1, {2}, {1}).add(".").bytes);
        REQUIRE(all.size() == 1);
        CHECK(all[0].format == format);
        CHECK(all[0].width == width);
        CHECK(all[0].bytes == storage.substr(width, 2 * width));
    }
    CHECK(read(Pickler().tensor_3("uint16", "0", 0, {3, 2}, {1, 3}).add(".").bytes)[0].bytes ==
          storage.substr(0, 2) + storage.substr(6, 2) + storage.substr(2, 2) + storage.substr(8, 2) +
              storage.substr(4, 2) + storage.substr(10, 2));
    CHECK(holds(error_of([] { read(Pickler().tensor_3("uint64", "0", 2, {2}, {1}).add(".").bytes); }), "lies outside"));
}

TEST_CASE("dictionary entries that are not tensors are skipped, and tensors inside them are found", "[check][files]") {
    const auto names = [](const std::string& pickle) {
        std::string all;
        for (const StoredArray& array : read(pickle)) all += array.name + " ";
        return all;
    };
    const auto with = [](const std::string& entry) {
        Pickler pickler;
        pickler.add("}(").text("x").add(entry).text("y").tensor("FloatStorage", "0", 0, {1}, {1}).add("u.");
        return pickler.bytes;
    };
    const std::string none = Pickler().bytes, header = none;
    const auto body = [&](const Pickler& pickler) { return pickler.bytes.substr(header.size()); };
    CHECK(names(with("]")) == "y ");
    CHECK(names(with("}")) == "y ");
    CHECK(names(with(")")) == "y ");
    CHECK(names(with("\x88")) == "y ");
    CHECK(names(with(body(Pickler().name("torch", "Size").add("K\x01\x85\x85R")))) == "y ");
    CHECK(names(with(body(Pickler().name("torch", "float16")))) == "y ");
    CHECK(names(with(std::string("\x8a\x09\x05\x00\x00\x00\x00\x00\x00\x80\x00", 11))) == "y ");  // 2^63 + 5
    CHECK(names(with(body(Pickler().add("]").tensor("FloatStorage", "0", 0, {1}, {1}).add("a")))) == "x.0 y ");
    CHECK(names(with(body(Pickler().add("}").text("z").tensor("FloatStorage", "0", 0, {1}, {1}).add("s")))) ==
          "x.z y ");
    CHECK(names(with(body(Pickler().add("}").number(7).tensor("FloatStorage", "0", 0, {1}, {1}).add("s")))) ==
          "x.7 y ");
    // In the first pickle, a list contains itself. In the second, there are sixty lists, and each occurs twice in the
    // next. The reader must visit every container only once.
    CHECK(names(with("]q\x09h\x09"
                     "a")) == "y ");
    std::string doubled = "(]q\x01";
    for (int i = 0; i < 60; ++i)
        doubled +=
            "](h\x01h\x01"
            "eq\x01";
    CHECK(names(with(doubled + "t")) == "y ");
    std::string deep = "]";
    for (int i = 0; i < 1000; ++i) deep = "]" + deep + "a";
    CHECK(holds(error_of([&] { read(with(deep)); }), "nested more than 64 levels deep"));
}

TEST_CASE("a .pt file that is malformed or whose pickle calls unexpected code is refused, with the reason",
          "[check][files]") {
    const auto refused = [](const std::string& pickle) { return error_of([&] { read(pickle); }); };
    const Pickler plain = Pickler().tensor("FloatStorage", "0", 0, {2, 3}, {3, 1});
    CHECK(refused(plain.bytes + ".") == "accepted");
    // This is the smallest pickle that makes an unsafe reader run a command.
    const std::string shell = refused(Pickler().name("os", "system").add("(").text("true").add("tR.").bytes);
    CHECK(shell.starts_with("3 test.pt: the pickle names os.system, and macheps does not open pickled code (byte 2"));
    CHECK(holds(shell, "save as safetensors"));
    CHECK(holds(refused(Pickler().name("torch._utils", "_rebuild_sparse_tensor").bytes),
                "the pickle names torch._utils._rebuild"));
    CHECK(holds(refused(Pickler().name("builtins", "eval").bytes), "the pickle names builtins.eval"));
    CHECK(holds(refused(Pickler().name("__builtin__", "getattr").bytes), "the pickle names __builtin__.getattr"));
    CHECK(holds(refused(Pickler().tensor_3("complex32", "0", 0, {1}, {1}).add(".").bytes),
                "'stem' has elements of type torch.complex32, which is not supported"));
    CHECK(holds(refused(Pickler().add("}(").text("a").add("ub.").bytes), "a key has no value"));
    CHECK(holds(refused(plain.bytes + "}b."), "the pickle sets the state of an object"));
    CHECK(holds(refused(Pickler().number(1).add(".").bytes), "neither a tensor nor a dictionary"));
    CHECK(holds(refused(Pickler().add("}").number(1).number(2).add("s.").bytes), "has keys that are not names"));
    CHECK(holds(refused("\x80\x04."), "protocol 4"));
    CHECK(holds(refused(Pickler().add("R").bytes), "an instruction has no operand"));
    CHECK(holds(refused(Pickler().add("K\x01(0").bytes), "the instruction 0x30 is refused"));
    CHECK(holds(refused(Pickler().add("K\x01(\x85").bytes), "an instruction has no operand"));  // below the mark
    CHECK(holds(refused(Pickler().add("h\x05").bytes), "the pickle reads a memo entry that was never stored"));
    CHECK(holds(refused(Pickler().add("X\xff\xff\xff\xff").bytes), "the pickle is cut short"));
    CHECK(holds(refused(Pickler().add("NN.").bytes), "more than one value"));
    CHECK(holds(error_of([&] { parse_arrays(torch_file(plain.bytes + ".", "big"), "x", "test.pt"); }), "big-endian"));
    CHECK(holds(error_of([&] { parse_arrays("\x80\x02}.", "x", "test.pt"); }), "as PyTorch saved before 1.6"));
}

TEST_CASE("a tensor that claims elements outside of its storage is refused", "[check][files]") {
    const auto refused = [](std::int64_t offset, const Shape& shape, const Shape& strides) {
        return error_of([&] { read(Pickler().tensor("FloatStorage", "0", offset, shape, strides).add(".").bytes); });
    };
    const std::string outside = "'stem' lies outside its storage, or repeats elements of it";
    CHECK(refused(0, {6}, {1}) == "accepted");
    CHECK(refused(0, {0, 4}, {4, 1}) == "accepted");
    for (const auto& [offset, shape, strides] : {
             std::tuple<std::int64_t, Shape, Shape>{1, {6}, {1}},
             {-1, {6}, {1}},
             {0, {7}, {1}},
             {0, {2, 3}, {4, 1}},
             {0, {2, 3}, {3}},
             {0, {3}, {-1}},
             {0, {-3}, {1}},
             {5, {2}, {INT64_MAX}},
             {INT64_MAX, {1}, {1}},
             {0, {INT64_MAX}, {0}},  // with a stride of 0, a tensor may have any size
             {0, {INT64_MAX, INT64_MAX}, {1, 1}},
             {0, {0, INT64_MAX, 16}, {1, 1, 1}},
             {0, {3, 3}, {0, 1}},
         }) {
        CAPTURE(offset, shape, strides);
        CHECK(holds(refused(offset, shape, strides), outside));
    }
    CHECK(holds(error_of([&] { read(Pickler().tensor("FloatStorage", "7", 0, {1}, {1}).add(".").bytes); }),
                "the storage '7' of 'stem' is missing"));
    // Forty arrays refer to the same storage. The reader limits the total size of all arrays to 16 times the size of
    // the file, so it refuses this file.
    const std::string large(1 << 20, 'x');
    Pickler many;
    many.add("}(");
    for (int i = 0; i < 40; ++i) many.text(std::to_string(i)).tensor("ByteStorage", "0", 0, {1 << 20}, {1});
    many.add("u.");
    const std::string file = stored_zip({{"x/data.pkl", many.bytes}, {"x/data/0", large}});
    CHECK(holds(error_of([&] { parse_arrays(file, "x", "test.pt"); }), "more than 16 times the bytes of the file"));
}

TEST_CASE("reading a damaged .pt file gives an error or different numbers, and never crashes", "[check][files]") {
    Pickler pickler;
    pickler.add("}(").text("a").tensor("FloatStorage", "0", 1, {2, 2}, {3, 1}).text("b");
    pickler.tensor("BFloat16Storage", "1", 0, {2}, {1}).text("c").tensor_3("float8_e4m3fn", "0", 3, {4, 2}, {2, 1});
    pickler.text("d")
        .add(
            "](K\x01\x88"
            "e")
        .text("e")
        .name("torch", "Size")
        .add("K\x01\x85\x85Ru.");
    const std::string pickle = pickler.bytes, file = torch_file(pickle);
    for (std::size_t length = 0; length < pickle.size(); ++length)
        CHECK(error_of([&] { read(pickle.substr(0, length)); }).starts_with("3 test.pt: "));
    for (std::size_t length = 0; length < file.size(); ++length)
        CHECK(error_of([&] { parse_arrays(file.substr(0, length), "x", "test.pt"); }).starts_with("3 test.pt: "));
    std::mt19937 random(1);
    for (int trial = 0; trial < 20000; ++trial) {
        std::string broken = pickle;
        for (int flips = 0; flips < 1 + trial % 3; ++flips)
            broken[random() % broken.size()] = static_cast<char>(random());
        const std::string said = error_of([&] { read(broken); });
        CHECK((said == "accepted" || said.starts_with("3 ")));
    }
}

TEST_CASE("raw numbers are read in the declared format and shape, and never past the end of the file",
          "[check][files]") {
    const TemporaryFolder folder;
    const auto path = folder / "a.bin";
    publish(path, "head" + storage);
    const auto read_as = [&](const RawArray& raw) { return read_raw(path, raw); };
    const StoredArray rows = read_as({.name = "a", .format = fp32, .shape = {2, 3}, .offset = 4});
    CHECK(rows.name == "a");
    CHECK(values_of(rows, fp32) == Values{1, 2, 3, -4, 5.5, static_cast<double>(1e-30f)});
    CHECK(values_of(read_as({.name = "a", .format = fp32, .shape = {2, 3}, .offset = 4, .is_column_major = true}),
                    fp32) == Values{1, 3, 5.5, 2, -4, static_cast<double>(1e-30f)});
    CHECK(values_of(read_as({.name = "a", .format = fp32, .shape = {2}, .offset = 8}), fp32) == Values{2, 3});
    const auto refused = [&](const RawArray& raw) { return error_of([&] { read_as(raw); }); };
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {2, 3}}), "28 bytes, but fp32 [2, 3] has 24"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {8}}),
                "28 bytes from position 0 on are too few for fp32 [8]"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {1}, .offset = 28}),
                "0 bytes from position 28 on are too few"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {1}, .offset = UINT64_MAX}), "are too few"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {INT64_MAX, 4}}), "are too few"));
    publish(path, std::string("\x21\x7f", 2));
    CHECK(values_of(read_as({.name = "a", .format = e2m1fn, .shape = {4}, .is_packed = true}), e2m1fn, true) ==
          Values{0.5, 1, -6, 6});
    CHECK(holds(refused({.name = "a", .format = e2m1fn, .shape = {3}, .is_packed = true}),
                "the rows have an odd number of codes"));
}

TEST_CASE("the elements of a tensor are gathered by its strides, unless an element is outside the data",
          "[check][files]") {
    const std::string data = "abcdef";
    CHECK(in_rows(data, 1, {2, 3}, {3, 1}) == "abcdef");
    CHECK(in_rows(data, 1, {3, 2}, {1, 3}) == "adbecf");
    CHECK(in_rows(data, 2, {3}, {1}) == "abcdef");
    CHECK(in_rows(data, 2, {2}, {2}) == "abef");
    CHECK(in_rows(data, 1, {2, 1, 2}, {2, 9, 1}, 1) == "bcde");
    CHECK(in_rows(data, 1, {}, {}, 5) == "f");
    CHECK(in_rows(data, 1, {0, 7}, {7, 1}) == "");
    CHECK_FALSE(in_rows(data, 1, {2, 3}, {3, 1}, 1));
    CHECK_FALSE(in_rows(data, 4, {2}, {1}));
    CHECK(array_bytes({0, INT64_MAX, 2}, 1) == std::nullopt);
    CHECK(array_bytes({1 << 20, 1 << 20}, 4) == std::size_t{1} << 42);
}

}  // namespace torch_file_test
