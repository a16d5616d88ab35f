// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of policies in TOML. A policy is parsed and resolved for a model, or refused with an Error.
#include "core/error.hpp"
#include "experiments/policy/policy.hpp"
#include "experiments/training/model/config.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace macheps;
using namespace macheps::policy;
using namespace macheps::training;

namespace {

/// Returns whether the policy may extend a file. Such policies are skipped, because a fuzzer must not open other files.
bool names_a_path(std::string_view toml) { return toml.find("extends") != toml.npos && toml.find('/') != toml.npos; }

const SiteList& sites() {
    static const SiteList list = model_sites(named_size("tiny").model);
    return list;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view toml = fuzz::text(data, size);
    if (names_a_path(toml)) return 0;
    Policy policy;
    try {
        policy = parse_policy(toml, "fuzz.toml");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input, "a bad policy is a bad input file");
        return 0;
    }
    try {
        const ResolvedPolicy resolved = resolve(policy, sites());
        for (const auto& row : resolved.table()) fuzz::require(!row.cast.empty(), "every slot of a table has a cast");
    } catch (const Error& error) {
        fuzz::require(error.exit() == Exit::bad_input, "a policy that does not fit the model is a bad input file");
    }
    return 0;
}
