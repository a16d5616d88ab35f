// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of suites of kernel checks and of their baselines. A text is read, or refused with an Error.
#include "core/error.hpp"
#include "experiments/check/verdicts/baseline.hpp"
#include "experiments/check/verdicts/run.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <set>

using namespace macheps;

namespace {

void read_suite(std::string_view text) {
    check::Suite suite;
    try {
        suite = check::parse_suite(text, "fuzz.toml");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::usage, "a bad suite is a usage error");
        fuzz::require(error.parts().where.starts_with("fuzz.toml"), "an error of a suite names the place");
        return;
    }
    std::set<std::string> names;
    for (const check::SuiteCheck& each : suite.checks) {
        fuzz::require(names.insert(each.name).second, "no two checks have the same name");
        fuzz::require(each.declaration.operation != nullptr || !each.declined.empty(), "a check has an operation");
        if (each.declaration.operation == nullptr) continue;
        const Json json = check::declared_json(each.declaration);
        fuzz::require(Json::parse(json.dump(-1, Json::BadUtf8::is_replaced)).is_object(),
                      "a declaration can be written as JSON");
    }
}

void read_baseline(std::string_view text) {
    try {
        check::parse_baseline(text, "fuzz.lock");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input, "a bad baseline is a bad input file");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text = fuzz::text(data, size);
    read_suite(text);
    read_baseline(text);
    return 0;
}
