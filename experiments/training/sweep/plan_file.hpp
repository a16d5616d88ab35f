// SPDX-License-Identifier: Apache-2.0
// The plan of a sweep as people write it: a TOML file of axes. Every combination of their values is trained.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// A value of an option, as text.
struct PlanValue {
    std::string text{};
    bool is_switch = false;  ///< the option has no value: the text `true` passes it, `false` omits it

    bool operator==(const PlanValue&) const = default;
};

/// The long name of an option of `macheps train`, and its values: one value in [train], one or more in [axes].
struct PlanOption {
    std::string name{};
    std::vector<PlanValue> values{};
    std::string where{};  ///< file, line and column
};

/// An exclusion: a run that matches all of its patterns is not trained.
struct PlanExclusion {
    struct Pattern {
        std::string axis;
        std::vector<std::string> globs;
    };
    std::vector<Pattern> patterns{};
    std::string where{};
};

struct PlanFile {
    std::filesystem::path path{};
    std::string text{}, name{};
    std::vector<PlanOption> train{}, axes{};  ///< in the order of the file; without policies and seeds
    std::vector<std::string> policies{};      ///< names of presets, globs that match presets, and files
    std::string where_policies{};
    std::vector<std::int64_t> seeds{0};
    std::vector<PlanExclusion> exclusions{};
    double minutes = 30;  ///< approximate time of a unit
    bool sites = true, exponents = false;

    /// Returns the path of a file that the plan names. In the plan, paths are relative to the folder of the plan.
    std::filesystem::path beside(const std::filesystem::path& file) const { return path.parent_path() / file; }
};

/// Returns whether the value of an option of `macheps train` is the path of a data file.
inline bool is_data_option(std::string_view name) { return name == "data" || name == "val-data"; }

/// Names of the two axes that do not belong to a setting: a setting combines the values of all other axes.
inline constexpr const char *policy_axis = "policy", *seeds_axis = "seeds";

/// Reads a plan. Errors: throws Error, Exit::bad_input, with file, line and column, if the plan is not valid, or if it
/// sets an option of `macheps train` that the sweep sets itself.
PlanFile read_plan_file(const std::filesystem::path& path);

/// Parses a list of seeds, such as `0..4`, `3` or `0,2..5`. Returns nothing if the text is not such a list or names a
/// seed twice.
std::optional<std::vector<std::int64_t>> parse_seeds(std::string_view text);

}  // namespace macheps::training
