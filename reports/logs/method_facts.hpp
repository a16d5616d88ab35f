// SPDX-License-Identifier: Apache-2.0
// Collects the facts about how runs were made: the settings of model, data and training with all their values, the
// seeds, the policies and the program. A paper reports these facts as its methods.
#pragma once
#include "reports/logs/run_log.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {
class Json;
}

namespace macheps::reports {

struct MethodFacts {
    /// A setting, as folder_settings() names it, and its different values in the order of the runs.
    struct Setting {
        std::string name{};
        std::vector<std::string> values{};
    };
    struct Policy {
        std::string name{}, description{};
        std::vector<std::string> bases{};     ///< descriptions of the policies that it extends
        std::string beside_precision{};       ///< settings other than formats that differ from the fp32 runs
        std::vector<std::string> machines{};  ///< as in ManifestFacts::machines
        std::vector<std::string> not_emulated{};
        std::string matmul_formats{};  ///< in the form of RunRow::matmul_formats; empty if unknown
        std::int64_t runs = 0;
    };

    /// Adds the settings and the program of a manifest.
    void add(const Json& manifest);
    /// Adds the policy `name` of a manifest under the name `shown`, unless there is one.
    void add_policy(const std::string& shown, const std::string& name, const Json& manifest);
    /// Adds the seed and the operand formats of a run. `shown` is the name of its policy.
    void add_run(const std::string& shown, const RunRow& row);

    /// Returns the values of a setting, or nothing if no manifest has it.
    std::vector<std::string> values_of(std::string_view name) const;

    std::vector<Setting> settings{};
    std::vector<std::string> programs{};  ///< "macheps 0.1.0 (revision 0123abc)"
    std::vector<std::string> devices{};
    std::set<std::int64_t> seeds{}, parameters{};
    std::vector<Policy> policies{};  ///< in the order of the calls
    std::int64_t runs = 0;
};

}  // namespace macheps::reports
