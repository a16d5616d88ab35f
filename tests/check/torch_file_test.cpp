// SPDX-License-Identifier: Apache-2.0
// Readers of .pt files and of bare numbers. The files are put together here, byte by byte, as PyTorch 2.9 writes them.
#include "core/error.hpp"
#include "core/publish.hpp"
#include "experiments/files/arrays.hpp"
#include "experiments/files/strided.hpp"
#include "experiments/files/zip.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <cstring>
#include <functional>
#include <random>

using namespace macheps;
using namespace macheps::test;

namespace {

/// Instructions of a pickle, as torch.save writes them.
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
    /// One tensor of the storage `key`.
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

TEST_CASE("tensors of .pt files are read: one, a dictionary, views and other orders", "[check][files]") {
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

TEST_CASE("a .pt file that is more than tensors is refused by name", "[check][files]") {
    const auto refused = [](const std::string& pickle) { return error_of([&] { read(pickle); }); };
    const Pickler plain = Pickler().tensor("FloatStorage", "0", 0, {2, 3}, {3, 1});
    CHECK(refused(plain.bytes + ".") == "accepted");
    // The smallest pickle that runs a command.
    const std::string shell = refused(Pickler().name("os", "system").add("(").text("true").add("tR.").bytes);
    CHECK(shell.starts_with("3 test.pt: it names os.system, and a file of pickled code is not opened (byte 2"));
    CHECK(holds(shell, "save as safetensors"));
    CHECK(holds(refused(Pickler().name("torch._utils", "_rebuild_tensor_v3").bytes), "it names torch._utils._rebuild"));
    CHECK(holds(refused(Pickler().add("}(").text("a").add("ub.").bytes), "a key without a value"));
    CHECK(holds(refused(plain.bytes + "}b."), "its instruction 0x62 is none that tensors need"));
    CHECK(holds(refused(Pickler().number(1).add(".").bytes), "neither a tensor nor a dictionary"));
    CHECK(holds(refused(Pickler().add("}").number(1).number(2).add("s.").bytes), "whose keys are no names"));
    CHECK(holds(refused(Pickler().add("}").text("a").add("]s.").bytes), "'a' in it is no tensor"));
    CHECK(holds(refused("\x80\x04."), "protocol 4"));
    CHECK(holds(refused(Pickler().add("R").bytes), "an instruction without its operand"));
    CHECK(holds(refused(Pickler().add("K\x01(0").bytes), "its instruction 0x30"));
    CHECK(holds(refused(Pickler().add("K\x01(\x85").bytes), "an instruction without its operand"));  // below the mark
    CHECK(holds(refused(Pickler().add("h\x05").bytes), "it recalls what it never remembered"));
    CHECK(holds(refused(Pickler().add("X\xff\xff\xff\xff").bytes), "a pickle that is cut short"));
    CHECK(holds(refused(Pickler().add("NN.").bytes), "more than one value"));
    CHECK(holds(error_of([&] { parse_arrays(torch_file(plain.bytes + ".", "big"), "x", "test.pt"); }), "big-endian"));
    CHECK(holds(error_of([&] { parse_arrays("\x80\x02}.", "x", "test.pt"); }), "as PyTorch saved before 1.6"));
}

TEST_CASE("a tensor that lies about its size costs no memory", "[check][files]") {
    const auto refused = [](std::int64_t offset, const Shape& shape, const Shape& strides) {
        return error_of([&] { read(Pickler().tensor("FloatStorage", "0", offset, shape, strides).add(".").bytes); });
    };
    const std::string outside = "'stem' lies outside of its storage, or repeats elements of it";
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
             {0, {INT64_MAX}, {0}},  // an expanded tensor may be of any size
             {0, {INT64_MAX, INT64_MAX}, {1, 1}},
             {0, {0, INT64_MAX, 16}, {1, 1, 1}},
             {0, {3, 3}, {0, 1}},
         }) {
        CAPTURE(offset, shape, strides);
        CHECK(holds(refused(offset, shape, strides), outside));
    }
    CHECK(holds(error_of([&] { read(Pickler().tensor("FloatStorage", "7", 0, {1}, {1}).add(".").bytes); }),
                "the storage '7' of 'stem' is missing"));
    // Thousands of names for one storage: together they are held to a multiple of the file.
    const std::string large(1 << 20, 'x');
    Pickler many;
    many.add("}(");
    for (int i = 0; i < 40; ++i) many.text(std::to_string(i)).tensor("ByteStorage", "0", 0, {1 << 20}, {1});
    many.add("u.");
    const std::string file = stored_zip({{"x/data.pkl", many.bytes}, {"x/data/0", large}});
    CHECK(holds(error_of([&] { parse_arrays(file, "x", "test.pt"); }), "more than 16 times the bytes of the file"));
}

TEST_CASE("a .pt file that is damaged anywhere is an error or other numbers, never a crash", "[check][files]") {
    Pickler pickler;
    pickler.add("}(").text("a").tensor("FloatStorage", "0", 1, {2, 2}, {3, 1}).text("b");
    pickler.tensor("BFloat16Storage", "1", 0, {2}, {1}).add("u.");
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

TEST_CASE("bare numbers are read as what is declared of them, and no further than they go", "[check][files]") {
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
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {2, 3}}), "28 bytes, and fp32 [2, 3] has 24"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {8}}), "28 bytes from 0 on are too few for fp32 [8]"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {1}, .offset = 28}), "0 bytes from 28 on are too few"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {1}, .offset = UINT64_MAX}), "are too few"));
    CHECK(holds(refused({.name = "a", .format = fp32, .shape = {INT64_MAX, 4}}), "are too few"));
    publish(path, std::string("\x21\x7f", 2));
    CHECK(values_of(read_as({.name = "a", .format = e2m1fn, .shape = {4}, .is_packed = true}), e2m1fn, true) ==
          Values{0.5, 1, -6, 6});
    CHECK(holds(refused({.name = "a", .format = e2m1fn, .shape = {3}, .is_packed = true}), "rows of an odd number"));
}

TEST_CASE("elements are gathered by their strides, and only where all of them are there", "[check][files]") {
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
