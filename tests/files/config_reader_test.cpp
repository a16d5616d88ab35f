// SPDX-License-Identifier: Apache-2.0
// Tests the readers of other programs' config files: the kind of each scalar, the position of each value, and the
// errors. The expected kinds of YAML scalars were produced by PyYAML 6.0.
#include "core/error.hpp"
#include "experiments/files/config/environment.hpp"
#include "experiments/files/config/value.hpp"
#include "tests/scratch.hpp"
#include "tests/test.hpp"

#include <cmath>
#include <ctime>
#include <fstream>
#include <string>

namespace config_reader_test {

using namespace macheps;
using namespace macheps::files;

namespace {

using Kind = ConfigValue::Kind;

/// Returns the error message of a reader, or an empty text if it reports no error.
template <class Read>
std::string refusal(Read read) {
    try {
        read();
    } catch (const Error& error) {
        CHECK(error.exit() == Exit::bad_input);
        return error.what();
    }
    return {};
}

std::string json_refusal(const std::string& text) {
    return refusal([&] { read_json_config(text, "x.json"); });
}
std::string yaml_refusal(const std::string& text) {
    return refusal([&] { read_yaml_config(text, "x.yaml"); });
}

std::string place(const ConfigValue& root, std::string_view path) { return to_string(root.find(path)->place); }
std::string key_place(const ConfigValue& root, std::string_view key) { return to_string(root.entry(key)->place); }

}  // namespace

TEST_CASE("a plain YAML scalar has the type that PyYAML gives it", "[config]") {
    struct Case {
        const char* written;
        Kind kind;
        double number;
        const char* why;
    };
    const auto [written, kind, number, why] = GENERATE(table<const char*, Kind, double, const char*>({
        {"yes", Kind::boolean, 1, "YAML 1.1"},
        {"No", Kind::boolean, 0, "capitalised"},
        {"OFF", Kind::boolean, 0, "upper case"},
        {"oN", Kind::text, 0, "mixed case is not a boolean"},
        {"y", Kind::text, 0, "PyYAML does not treat single letters as booleans"},
        {"1e-5", Kind::text, 0, "no point"},
        {"1e+5", Kind::text, 0, "no point"},
        {"1.0e5", Kind::text, 0, "no sign in the exponent"},
        {"1.0e-5", Kind::number, 1e-5, "point and sign"},
        {"1.e+5", Kind::number, 1e5, "no digits after the point"},
        {".5", Kind::number, 0.5, "no digits before the point"},
        {"-.5", Kind::text, 0, "without digits before the point, a sign is not allowed"},
        {"-1.5", Kind::number, -1.5, ""},
        {"+.inf", Kind::number, INFINITY, ""},
        {"inf", Kind::text, 0, "no dot"},
        {"0x1F", Kind::number, 31, ""},
        {"017", Kind::number, 15, "octal"},
        {"089", Kind::text, 0, "not octal digits"},
        {"0o17", Kind::text, 0, "YAML 1.2"},
        {"0b101", Kind::number, 5, ""},
        {"1_000", Kind::number, 1000, ""},
        {"1:30", Kind::number, 90, "base 60"},
        {"190:20:30.15", Kind::number, 685230.15, "base 60"},
        {"1:60", Kind::text, 0, "60 is not a base-60 digit"},
        {"~", Kind::null, 0, ""},
        {"NULL", Kind::null, 0, ""},
        {"nUll", Kind::text, 0, "mixed case"},
        {"2001-01-01", Kind::text, 0, "a date is not a number"},
        {"12345678901234567890", Kind::number, 12345678901234567890.0, ""},
    }));
    CAPTURE(written, why);
    const ConfigFile file = read_yaml_config(std::string("key: ") + written + "\n", "x.yaml");
    const ConfigValue& value = *file.root.find("key");
    CHECK(value.kind == kind);
    if (kind != Kind::null) CHECK(value.written == written);
    if (kind == Kind::number) CHECK(value.number == number);
    if (kind == Kind::boolean) CHECK(value.boolean == (number == 1));
    // A quoted scalar is a text, whatever its characters are.
    const ConfigFile quoted = read_yaml_config(std::string("key: '") + written + "'\n", "x.yaml");
    CHECK(quoted.root.find("key")->is_text());
    CHECK(quoted.root.find("key")->quoted);
}

TEST_CASE("a number that YAML loads as a text is still converted to a number on request", "[config]") {
    const auto number = [](const char* text) {
        return written_number(*read_yaml_config(std::string("k: '") + text + "'", "x").root.find("k"));
    };
    CHECK(number("1e-5") == 1e-5);
    CHECK(number("0x10") == 16);
    CHECK(number("1_000") == 1000);
    CHECK(number("-.5") == -0.5);
    CHECK(number("1e999") == INFINITY);
    CHECK(number("1e-999") == 0);
    for (const char* text : {"", "auto", "1__0", "_1", "1_", "--1", "1 2", "0x", "nan(1)"}) {
        CAPTURE(text);
        CHECK_FALSE(number(text).has_value());
    }
}

TEST_CASE("every value and every key records its line and its column in bytes, counted from 1", "[config]") {
    const ConfigFile json =
        read_json_config("{\n  \"a\": {\"b\": [1, true,\n\t-2.5]},\n \"\xc3\xa9\": null}", "x.json");
    CHECK(place(json.root, "a") == "x.json:2:8");
    CHECK(place(json.root, "a.b") == "x.json:2:14");
    CHECK(to_string(json.root.find("a.b")->items[1].place) == "x.json:2:18");
    CHECK(to_string(json.root.find("a.b")->items[2].place) == "x.json:3:2");
    CHECK(json.root.find("a.b")->items[2].written == "-2.5");
    CHECK(key_place(json.root, "\xc3\xa9") == "x.json:4:2");
    CHECK(place(json.root, "\xc3\xa9") == "x.json:4:8");

    const ConfigFile yaml =
        read_yaml_config("# first\na: 1\nb:\n  c: [x, 'y']\n  \xc3\xa9: {d: on}\ne:\nf: |\n  text\n", "x.yaml");
    CHECK(place(yaml.root, "a") == "x.yaml:2:4");
    CHECK(key_place(yaml.root, "b") == "x.yaml:3:1");
    CHECK(to_string(yaml.root.find("b.c")->items[1].place) == "x.yaml:4:10");
    CHECK(place(yaml.root, "b.\xc3\xa9.d") == "x.yaml:5:11");
    CHECK(place(yaml.root, "e") == "x.yaml:6:1");
    CHECK(to_string(read_yaml_config("# nothing\n", "x").root.place) == "x:1:1");
    CHECK(read_yaml_config("- \n- 1\n", "x").root.items[0].place.line >= 1);
    CHECK(yaml.root.find("f")->written == "text\n");

    // A byte order mark and a carriage return at the end of a line do not count as columns.
    CHECK(place(read_yaml_config("\xef\xbb\xbf"
                                 "a: 1\r\nb: 2\r\n",
                                 "x")
                    .root,
                "b") == "x:2:4");
    CHECK(place(read_json_config("\xef\xbb\xbf{\"a\":\r\n 1}", "x").root, "a") == "x:2:2");
}

TEST_CASE("anchors, aliases and merge keys are expanded", "[config]") {
    const ConfigFile file = read_yaml_config(
        "base: &b {x: 1, y: 2}\n"
        "other: &o {y: 3, z: 4}\n"
        "one: {<<: *b, y: 9}\n"
        "two:\n  <<: [*b, *o]\n  q: 1\n"
        "three:\n  <<: *b\n  <<: *o\n"
        "again: *b\n"
        "\"<<\": 5\n",
        "x");
    const auto number = [&](const char* path) { return file.root.find(path)->number; };
    CHECK(number("one.x") == 1);
    CHECK(number("one.y") == 9);  // a map's own keys take precedence
    CHECK(number("two.y") == 2);  // in a list of maps, the earlier map wins
    CHECK(number("two.z") == 4);
    CHECK(number("three.y") == 3);  // the later of two merges wins
    CHECK(number("again.x") == 1);
    CHECK(number("<<") == 5);  // a quoted << is an ordinary key
    CHECK(place(file.root, "one.x") == "x:1:14");
    CHECK(file.repeated.empty());
    CHECK(yaml_refusal("a: {<<: 1}").find("x.yaml:1:9: the value of '<<' is not a map") == 0);
    CHECK(yaml_refusal("a: &a [*a]").find("x.yaml:1:8: an alias is inside the value that it names") == 0);
    CHECK(yaml_refusal("a: *b").find("x.yaml:1:4: ") == 0);
    // Each value consists of nine aliases of the previous value. The file is shorter than a kilobyte, but would have
    // hundreds of gigabytes if all aliases were expanded.
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
        const std::string before = "*a" + std::to_string(i - 1);
        bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
        for (int k = 0; k < 9; ++k) bomb += before + (k < 8 ? ", " : "]\n");
    }
    CHECK(yaml_refusal(bomb).find("more than 20000 values") != std::string::npos);
}

TEST_CASE("a repeated key is reported with both places, and the later value wins", "[config]") {
    const ConfigFile yaml = read_yaml_config("a: {b: 1, b: 2}\nc: 1\nc: 3\n", "x");
    REQUIRE(yaml.repeated.size() == 2);
    CHECK(yaml.repeated[0].path == "a.b");
    CHECK(to_string(yaml.repeated[0].first) == "x:1:5");
    CHECK(to_string(yaml.repeated[0].second) == "x:1:11");
    CHECK(yaml.root.find("a.b")->number == 2);
    CHECK(yaml.root.find("c")->number == 3);
    const ConfigFile json = read_json_config(R"({"fp16": 1, "fp16": {"enabled": true}})", "x");
    REQUIRE(json.repeated.size() == 1);
    CHECK(json.repeated[0].path == "fp16");
    CHECK(to_string(json.repeated[0].second) == "x:1:13");
    CHECK(json.root.find("fp16.enabled")->boolean);
}

TEST_CASE("invalid JSON is refused at the position of its first error", "[config]") {
    struct Case {
        const char *text, *where, *reason;
    };
    const auto [text, where, reason] = GENERATE(table<const char*, const char*, const char*>({
        {"{\n  \"a\": CONFIG_BATCH}", "x.json:2:8: ", "invalid literal"},
        {"{\"\xc3\xa9\": tru}", "x.json:1:8: ", "invalid literal"},
        {"{\"a\": 1,}", "x.json:1:9: ", "'}'"},
        {"{,}", "x.json:1:2: ", "','"},
        {"{\"a\" 1}", "x.json:1:6: ", "expected ':'"},
        {"{\"a\": [1 2]}", "x.json:1:10: ", "expected ']'"},
        {"{\"a\": 1", "x.json:1:8: ", "end of input"},
        {"{\"a\": 1}\n{\"b\": 2}", "x.json:2:1: ", "expected end of input"},
        {"{\"a\": \"\\q\"}", "x.json:1:9: ", "backslash"},
        {"{\"a\": NaN}", "x.json:1:7: ", "invalid literal"},
        {"// note\n{}", "x.json:1:1: ", "invalid literal"},
        {"{\"a\": 1e999}", "x.json:1:7: ", "overflow"},
    }));
    CAPTURE(text);
    const std::string refused = json_refusal(text);
    CAPTURE(refused);
    CHECK(refused.starts_with(where));
    CHECK(refused.find(reason) != std::string::npos);
    CHECK(refused.find('\n') == std::string::npos);
}

TEST_CASE("invalid YAML is refused at the position of its first error", "[config]") {
    struct Case {
        const char *text, *where, *reason;
    };
    const auto [text, where, reason] = GENERATE(table<const char*, const char*, const char*>({
        {"a: 1\np: [Your Directory]/models/\n", "x.yaml:2:20: ", "needs quotes"},
        {"a: b: c\n", "x.yaml:1:5: ", "': ' needs quotes"},
        {"a: 1\n b: 2\n", "x.yaml:2:3: ", "': ' needs quotes"},
        {"a: %x\n", "x.yaml:1:4: ", "put the value in quotes"},
        {"a: \"x\n", "x.yaml:1:4: ", "a quote is not closed"},
        {"a: [1,\n", "x.yaml:2:1: ", "a [ is not closed"},
        {"{a: 1\n", "x.yaml:1:1: ", "close every bracket"},
        {"a: 1\n---\nb: 2\n", "x.yaml:2:1: ", "second document"},
        {"\xef\xbb\xbf\xef\xbb\xbf"
         "a: 1\n",
         "x.yaml:1:1: ", "second byte order mark"},
        {"a: !custom x\n", "x.yaml:1:4: ", "'!custom'"},
        {"a: !!python/object:os.system {}\n", "x.yaml:1:4: ", "is not supported"},
        {"a: !!int x\n", "x.yaml:1:4: ", "is not supported"},
        {"? [a]\n: x\n", "x.yaml:1:3: ", "cannot be a key"},
    }));
    CAPTURE(text);
    const std::string refused = yaml_refusal(text);
    CAPTURE(refused);
    CHECK(refused.starts_with(where));
    CHECK(refused.find(reason) != std::string::npos);
    CHECK(refused.find('\n') == std::string::npos);
}

TEST_CASE("JSON and YAML files that are not text, too large, too deeply nested or empty are refused", "[config]") {
    const auto both = [](const std::string& text, const std::string& begins, const std::string& reason) {
        CAPTURE(begins, reason);
        for (const std::string& refused : {json_refusal(text), yaml_refusal(text)}) {
            CAPTURE(refused);
            CHECK(refused.starts_with("x."));
            CHECK(refused.find(begins) != std::string::npos);
            CHECK(refused.find(reason) != std::string::npos);
        }
    };
    both("", ": ", "the file is empty");
    both(" \n\t\n", ": ", "the file is empty");
    both("\xef\xbb\xbf", ": ", "the file is empty");
    both(std::string("{\"a\": \"\0\"}", 10), ":1:8: ", "0x00 is not valid UTF-8");
    both("{\"a\":\n \"\xff\"}", ":2:3: ", "0xff is not valid UTF-8");
    both("{\"a\": \"\xc0\xaf\"}", ":1:8: ", "0xc0 is not valid UTF-8");      // overlong
    both("{\"a\": \"\xed\xa0\x80\"}", ":1:8: ", "0xed is not valid UTF-8");  // a surrogate
    both("\xff\xfe{", ":1:1: ", "not valid UTF-8");                          // UTF-16
    both(std::string(10 << 20, 'a'), ": ", "larger than 1048576 bytes");
    both(std::string(10'000, '[') + std::string(10'000, ']'), ":1:", "");
    both(std::string(300, '[') + std::string(300, ']'), ":1:257: ", "more than 256 levels");
    std::string many = "[0";
    for (int i = 0; i < 30'000; ++i) many += ",0";
    both(many + "]", ":1:", "more than 20000 values");
}

TEST_CASE("arguments are split as a shell splits them", "[config]") {
    const ConfigFile file = read_argument_config(
        "# a comment\n"
        "--bf16 --loss-scale-window 1000 \\\n"
        "  --lr=1e-5 --name 'a b' --betas 0.9 0.95 -1 \\\r\n"
        "--no-load --path=x=y --empty= --on TRUE # behind\n"
        "--lr 2 -k v\n",
        "x.args");
    CHECK(file.root.find("bf16")->boolean);
    CHECK(file.root.find("loss-scale-window")->number == 1000);
    CHECK(place(file.root, "loss-scale-window") == "x.args:2:28");
    CHECK(key_place(file.root, "betas") == "x.args:3:26");
    CHECK(file.root.find("lr")->number == 2);  // the last value wins
    CHECK(file.root.find("name")->written == "a b");
    REQUIRE(file.root.find("betas")->is_list());
    CHECK(file.root.find("betas")->items.size() == 3);
    CHECK(file.root.find("betas")->items[2].number == -1);
    CHECK(file.root.find("no-load")->boolean);
    CHECK(file.root.find("path")->written == "x=y");
    CHECK(file.root.find("empty")->is_text());
    CHECK(file.root.find("on")->is_boolean());
    CHECK(file.root.find("k")->written == "v");
    CHECK(file.repeated.empty());

    const auto refused = [](const std::string& text) { return refusal([&] { read_argument_config(text, "x.args"); }); };
    CHECK(refused("train.py --bf16").starts_with("x.args:1:1: 'train.py' comes before any option"));
    CHECK(refused("--a\n  --b 'x").starts_with("x.args:2:7: a quote is not closed"));
    CHECK(refused("--a --=3").starts_with("x.args:1:5: '--=3' is not a valid option"));
    CHECK(refused("--a ---b").starts_with("x.args:1:5: '---b' is not a valid option"));
}

TEST_CASE("an override sets one key, and merging a later file replaces only the keys that it contains", "[config]") {
    ConfigFile file = read_yaml_config("fp16: {enabled: true, loss_scale: 0}\nlist: [1, 2]\n", "x");
    apply_override(file.root, "fp16.loss_scale=128", "argument 2");
    apply_override(file.root, "bf16.enabled=no", "argument 3");
    apply_override(file.root, "lr=1e-5", "argument 4");
    apply_override(file.root, "name=\"1\"", "argument 5");
    apply_override(file.root, "pair=[1, {a: x}]", "argument 6");
    apply_override(file.root, "gone=", "argument 7");
    CHECK(file.root.find("fp16.loss_scale")->number == 128);
    CHECK(file.root.find("fp16.enabled")->boolean);
    CHECK_FALSE(file.root.find("bf16.enabled")->boolean);
    CHECK(file.root.find("lr")->number == 1e-5);
    CHECK(file.root.find("name")->is_text());
    CHECK(file.root.find("pair")->items[1].find("a")->written == "x");
    CHECK(file.root.find("gone")->is_null());
    CHECK(place(file.root, "fp16.loss_scale") == "argument 2");
    for (const char* text : {"=1", ".a=1", "a..b=1", "a.=1"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(apply_override(file.root, text, "argument 1"), Error);
    }
    merge_config(file.root, read_json_config(R"({"fp16": {"enabled": false}, "list": [3]})", "y").root);
    CHECK_FALSE(file.root.find("fp16.enabled")->boolean);
    CHECK(file.root.find("fp16.loss_scale")->number == 128);
    CHECK(file.root.find("list")->items.size() == 1);
    CHECK(place(file.root, "fp16.enabled") == "y:1:22");
}

TEST_CASE("a comment can name rules whose findings are ignored", "[config]") {
    const ConfigFile file = read_yaml_config(
        "a: 1  # macheps: ignore deepspeed/x, hf/y because it is meant\n"
        "# macheps: ignore z/w\n"
        "b: 'not# macheps: ignore a/b'\n",
        "x");
    REQUIRE(file.ignored_rules.size() == 3);
    CHECK(file.ignored_rules[0].rule == "deepspeed/x");
    CHECK(file.ignored_rules[1].rule == "hf/y");
    CHECK(file.ignored_rules[2].rule == "z/w");
    CHECK(to_string(file.ignored_rules[2].place) == "x:2:1");
}

TEST_CASE("the language of a file follows from its name, or from its first characters if the name is not known",
          "[config]") {
    const std::filesystem::path folder = test::memory_folder() / "config";
    std::filesystem::create_directories(folder);
    const auto read = [&](const char* name, const std::string& text) {
        std::ofstream(folder / name, std::ios::binary) << text;
        return read_config_file((folder / name).string());
    };
    CHECK(read("a.json", "{\"a\": 1}").root.find("a")->number == 1);
    CHECK(read("a.yml", "a: 1").root.find("a")->number == 1);
    CHECK(read("a.sh", "--a 1").root.find("a")->number == 1);
    CHECK(read("json", " {\n\"a\": 1}").root.find("a")->number == 1);
    CHECK(read("flow", "{a: on}").root.find("a")->boolean);
    CHECK(read("arguments", "\n--a 1 --b").root.find("b")->boolean);
    CHECK(read("document", "---\na: 1\n").root.find("a")->number == 1);
    CHECK(read("no_root.yaml", "# nothing\n").root.is_null());
    CHECK(refusal([&] { read("bad.json", "{a: 1}"); }).find("bad.json:1:2: ") != std::string::npos);
    CHECK(refusal([&] { read_config_file(folder.string()); }).find("this is a directory") != std::string::npos);
    CHECK(refusal([&] { read_config_file((folder / "none").string()); }).find("cannot read this file") !=
          std::string::npos);
    std::filesystem::remove_all(folder);
}

TEST_CASE("an environment file consists of NAME=VALUE lines", "[config]") {
    const Environment env = parse_environment("# note\nA=1\nexport B='x y'\r\n\nC=\nD=\"a=b\"\n", "x.env");
    CHECK(env == Environment{{"A", "1"}, {"B", "x y"}, {"C", ""}, {"D", "a=b"}});
    CHECK(refusal([] { parse_environment("A=1\nnonsense\n", "x.env"); }).starts_with("x.env:2: "));
    CHECK(refusal([] { parse_environment("=1\n", "x.env"); }).starts_with("x.env:1: "));
}

TEST_CASE("every file that the YAML reader accepts is read and merged in a few seconds", "[config]") {
    // These files do not exceed the reader's limits, but they are expensive to copy or to search, because they have
    // many keys, deep levels or repeated aliases.
    std::string keys, deep, aliases = "a: &a {k: 1}\nl: [";
    for (int i = 0; i < 19'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
    for (int i = 0; i < 250; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "k:\n";
    for (int i = 0; i < 9'000; ++i) aliases += "*a,";
    for (const std::string& text : {keys, deep, aliases + "*a]\n"}) {
        const std::clock_t start = std::clock();  // processor time of this program only
        ConfigFile file = read_yaml_config(text, "x");
        merge_config(file.root, file.root);
        CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 5);
    }
}

}  // namespace config_reader_test
