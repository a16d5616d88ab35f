// SPDX-License-Identifier: Apache-2.0
// The plan of a sweep as people write it: a TOML file of axes. Every combination of their values is trained.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

/// A value, as the text that an option takes.
struct PlanValue {
    std::string text{};
    bool is_switch = false;  ///< for an option without a value: `true` passes it, `false` leaves it out

    bool operator==(const PlanValue&) const = default;
};

/// An option of `macheps train` by its long name, and its values: one in [train], one or more in [axes].
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
    std::vector<std::string> policies{};      ///< presets, globs of them, and files
    std::string where_policies{};
    std::vector<std::int64_t> seeds{0};
    std::vector<PlanExclusion> exclusions{};
    double minutes = 30;  ///< approximate time of a unit
    bool sites = true, exponents = false;

    /// Returns the path of a file that the plan names, which is relative to the folder of the plan.
    std::filesystem::path beside(const std::filesystem::path& file) const { return path.parent_path() / file; }
};

/// The axes that are not options of a setting.
inline constexpr const char *policy_axis = "policy", *seeds_axis = "seeds";

/// Reads a plan. Errors: throws Error, Exit::bad_input, with file, line and column, if the plan is not valid, or if it
/// sets an option of `macheps train` that the sweep sets itself.
PlanFile read_plan_file(const std::filesystem::path& path);

/// Reads `0..4`, `3`, `0,2..5`. Returns nothing if the text is not of this form or names a seed twice.
std::optional<std::vector<std::int64_t>> parse_seeds(std::string_view text);

}  // namespace macheps::training
