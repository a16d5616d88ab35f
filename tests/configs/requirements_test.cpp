// SPDX-License-Identifier: Apache-2.0
// Tests the reader of requirements.txt, `pip freeze`, uv.lock and poetry.lock.
#include "experiments/configs/requirements.hpp"
#include "core/error.hpp"
#include "tests/configs/import_case.hpp"

namespace requirements_test {

using namespace macheps;
using namespace macheps::test;
using namespace macheps::configs;

namespace {

Requirements read(std::string_view text) {
    const ConfigFolder folder;
    return read_requirements(folder.write("requirements.txt", text));
}

std::string version(const Requirements& found, std::string_view package) {
    const auto at = found.versions.find(package);
    return at == found.versions.end() ? "none" : to_string(at->second);
}

std::string inexact(const Requirements& found, std::string_view package) {
    const auto at = found.inexact.find(package);
    return at == found.inexact.end() ? "none" : at->second;
}

}  // namespace

TEST_CASE("requirements.txt gives exact versions and names the packages without one", "[import]") {
    const Requirements found = read(
        "# the environment\n"
        "torch==2.9.1+cu128\n"
        "DeepSpeed == 0.17.6  # pinned\n"
        "transformers[torch]==4.57.1 ; python_version > \"3.9\"\n"
        "accelerate===1.12.0\n"
        "peft>=0.12\n"
        "trl==0.2*\n"
        "liger_kernel==0.4.0 \\\n    --hash=sha256:00\n"
        "bitsandbytes\n"
        "pytorch-lightning~=2.5\n"
        "-e git+https://example.org/axolotl.git@abc#egg=axolotl\n"
        "torchao @ file:///wheels/torchao.whl\n"
        "--extra-index-url https://example.org/simple\n");
    CHECK(version(found, "torch") == "2.9.1");
    CHECK(version(found, "deepspeed") == "0.17.6");
    CHECK(version(found, "transformers") == "4.57.1");
    CHECK(version(found, "accelerate") == "1.12");
    CHECK(version(found, "liger-kernel") == "0.4");
    CHECK(inexact(found, "peft") == ">=0.12");
    CHECK(inexact(found, "trl") == "==0.2*");
    CHECK(inexact(found, "bitsandbytes") == "any version");
    CHECK(inexact(found, "lightning") == "~=2.5");
    CHECK(inexact(found, "axolotl") == "a copy of its sources");
    CHECK(inexact(found, "torchao") == "@ file:///wheels/torchao.whl");
    CHECK(found.versions.size() == 5);
}

TEST_CASE("lock files of uv and of Poetry give the version of each package", "[import]") {
    const Requirements found = read(
        "version = 1\nrequires-python = \">=3.11\"\n\n"
        "[[package]]\nname = \"megatron-core\"\nversion = \"0.15.0\"\n"
        "source = { registry = \"https://pypi.org/simple\" }\n\n"
        "[package.metadata]\nname = \"wrong\"\nversion = \"9\"\n\n"
        "[[package]]\nname = \"mosaicml\"\nversion = \"0.32.1\"\ndescription = \"a == b\"\n");
    CHECK(version(found, "megatron") == "0.15");
    CHECK(version(found, "composer") == "0.32.1");
    CHECK(found.versions.size() == 2);
}

TEST_CASE("a package with several versions has no exact version", "[import]") {
    const Requirements found = read(
        "torch==2.9.1 ; sys_platform == 'linux'\ntorch==2.2.2 ; sys_platform == 'darwin'\ntorch==2.9.1\n"
        "peft==0.18.1\npeft==0.18.1 ; python_version > '3.9'\n");
    CHECK(version(found, "torch") == "none");
    CHECK(inexact(found, "torch") == "several versions");
    CHECK(version(found, "peft") == "0.18.1");
    const Requirements lock = read(
        "[[package]]\nname = \"torch\"\nversion = \"2.9.1\"\n[[package]]\nname = \"torch\"\nversion = \"2.8.0\"\n");
    CHECK(version(lock, "torch") == "none");
    CHECK(inexact(lock, "torch") == "several versions");
}

TEST_CASE("a file of constraints gives the versions of packages", "[import]") {
    const ConfigFolder folder;
    folder.write("pins.txt", "torch==2.9.1\n");
    const Requirements found = read_requirements(folder.write("all.txt", "-c pins.txt\ntorch>=2\n"));
    CHECK(version(found, "torch") == "2.9.1");
    CHECK(inexact(found, "torch") == "none");
}

TEST_CASE("a requirements file includes others", "[import]") {
    const ConfigFolder folder;
    folder.write("base.txt", "torch==2.9.1\npeft>=0.12\n");
    const Requirements found = read_requirements(folder.write("all.txt", "-r base.txt\npeft==0.18.1\n"));
    CHECK(version(found, "torch") == "2.9.1");
    CHECK(version(found, "peft") == "0.18.1");
    CHECK(found.inexact.empty());
    CHECK_THROWS_WITH(read_requirements(folder.write("loop.txt", "-r loop.txt\n")),
                      Catch::Contains("include each other"));
}

TEST_CASE("a file that names no package is refused", "[import]") {
    for (const std::string_view text : {"", "# nothing\n", "{\"fp16\": true}\n", "a sentence of words\n"}) {
        CAPTURE(text);
        CHECK_THROWS_WITH(read(text), Catch::Contains("names a package"));
    }
    CHECK_THROWS_AS(read_requirements("no/such/file.txt"), Error);
    std::string long_name(std::size_t{1} << 20, 'x');
    long_name += "==1\n";
    CHECK_NOTHROW(read(long_name));
}

}  // namespace requirements_test
