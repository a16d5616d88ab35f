// SPDX-License-Identifier: Apache-2.0
// Tests that a setting is written into the text of a config, and that the rest of the text stays.
#include "experiments/files/config/edit.hpp"
#include "tests/test.hpp"

#include <string>
#include <string_view>

namespace edit_test {

using namespace macheps;
using namespace macheps::files;

namespace {

/// Returns the text with the setting, or "-" if it cannot be written.
std::string edited(std::string_view text, const std::string& name, std::string_view path, std::string_view value) {
    return with_setting(text, read_config_text(text, name, name), path, value).value_or("-");
}

}  // namespace

TEST_CASE("a value in a config is replaced in its place", "[config]") {
    CHECK(edited("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128.0}}", "a.json", "fp16.loss_scale", "0") ==
          "{\"fp16\": {\"enabled\": true, \"loss_scale\": 0}}");
    CHECK(edited("{\"dtype\": \"fp16\", \"x\": 1}", "a.json", "dtype", "bf16") == "{\"dtype\": \"bf16\", \"x\": 1}");
    CHECK(edited("{\"dtype\": \"a\\\"b\"}", "a.json", "dtype", "fp32") == "{\"dtype\": \"fp32\"}");
    CHECK(edited("bf16: false  # for Turing\nlr: 1e-5\n", "a.yaml", "bf16", "true") ==
          "bf16: true  # for Turing\nlr: 1e-5\n");
    CHECK(edited("a:\n  b: 'x y'\n  c: {d: 1, e: 2}\n", "a.yaml", "a.b", "z") == "a:\n  b: z\n  c: {d: 1, e: 2}\n");
    CHECK(edited("a:\n  b: 'x y'\n  c: {d: 1, e: 2}\n", "a.yaml", "a.c.d", "3") ==
          "a:\n  b: 'x y'\n  c: {d: 3, e: 2}\n");
    CHECK(edited("[training]\ndtype = \"float16\" # low\n", "a.toml", "training.dtype", "float32") ==
          "[training]\ndtype = \"float32\" # low\n");
    CHECK(edited("dtype = 'float16'\ncompile = True\n", "a.py", "compile", "false") ==
          "dtype = 'float16'\ncompile = False\n");
}

TEST_CASE("a key that a config lacks is added to its map", "[config]") {
    CHECK(edited("{\n  \"fp16\": {\n    \"enabled\": true\n  }\n}\n", "a.json", "fp16.hysteresis", "1") ==
          "{\n  \"fp16\": {\n    \"hysteresis\": 1,\n    \"enabled\": true\n  }\n}\n");
    CHECK(edited("{\n  \"bf16\": {}\n}\n", "a.json", "zero_optimization.stage", "1") ==
          "{\n  \"zero_optimization\": {\"stage\": 1},\n  \"bf16\": {}\n}\n");
    CHECK(edited("{\"a\": {}}", "a.json", "a.b", "true") == "{\"a\": {\"b\": true}}");
    CHECK(edited("{}", "a.json", "a.b.c", "x") == "{\"a\": {\"b\": {\"c\": \"x\"}}}");
    CHECK(edited("# comment\nbf16: true\n", "a.yaml", "tf32", "false") == "# comment\ntf32: false\nbf16: true\n");
    CHECK(edited("a:\n    b: 1\nc: 2\n", "a.yaml", "a.d", "NO") == "a:\n    d: NO\n    b: 1\nc: 2\n");
    CHECK(edited("a: {b: 1}\n", "a.yaml", "a.d", "2") == "a: {d: 2, b: 1}\n");
    CHECK(edited("[a]\nb = 1\n", "a.toml", "a.c", "2") == "[a]\nc = 2\nb = 1\n");
    CHECK(edited("dtype = 'float16'", "a.py", "eps", "1e-6") == "dtype = 'float16'\neps = 1e-6\n");
}

TEST_CASE("a setting that cannot be written is refused", "[config]") {
    CHECK(edited("{\"a\": [1, 2]}", "a.json", "a", "3") == "-");          // a list
    CHECK(edited("{\"a\": 1}", "a.json", "a.b", "3") == "-");             // not a map
    CHECK(edited("a: &x {b: 1}\nc: *x\n", "a.yaml", "c.b", "2") == "-");  // would also change a.b
    CHECK(edited("torchrun train.py --bf16 True\n", "a.sh", "bf16", "false") == "-");
    CHECK(edited("--bf16\n", "a.args", "bf16", "false") == "-");
}

}  // namespace edit_test
