// SPDX-License-Identifier: Apache-2.0
// The settings of run directories, read from their manifests. Directories with equal settings are grouped. The options
// that differ between groups are the axes of the comparison.
#pragma once
#include "reports/logs/manifest_facts.hpp"
#include "reports/logs/method_facts.hpp"

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace macheps {
class Json;
}

namespace macheps::reports {

/// Names and values of the model, data and training options, in the order of the manifest; empty without a manifest.
/// The paths of data files are left out, because the same data may be in different places.
using FolderSettings = std::vector<std::pair<std::string, std::string>>;
FolderSettings folder_settings(const Json& manifest);

/// The axes of a list of settings, with the value of each setting on each axis.
struct SettingAxes {
    std::vector<std::string> names{};
    std::vector<std::vector<std::string>> values{};  ///< for each setting, its value on each axis
    std::vector<std::string> notes{};                ///< options that were left out, and which option determines them
};
/// Returns the options whose values differ. An option that another option determines is left out, because a second axis
/// would only repeat the first. For example, if each width has its own number of heads, the width determines the heads.
/// If the learning rate and another option determine each other, only the learning rate is kept.
SettingAxes setting_axes(const std::vector<FolderSettings>& settings);

/// Facts from the manifests of many directories. The texts of the manifests are not kept in memory.
class FolderManifests {
  public:
    /// Reads the manifest of the next directory. Directories are numbered in the order of these calls.
    void add(const std::filesystem::path& folder);

    std::size_t setting_of(std::size_t folder) const { return setting_of_[folder]; }
    const ManifestFacts& facts_of(std::size_t folder) const { return facts_[facts_of_[folder]]; }
    /// Returns the displayed name of a policy. If directories have policies of the same name with different texts, the
    /// later policies are shown as `policy@directory`.
    std::string shown(std::size_t folder, const std::string& policy) const;

    const std::vector<FolderSettings>& settings() const { return settings_; }
    std::size_t without_manifest() const { return without_manifest_; }
    std::size_t programs() const { return programs_.size(); }
    const MethodFacts& methods() const { return methods_; }

  private:
    void add_policies(std::size_t number, const std::filesystem::path& folder, const Json& manifest,
                      const Json& policies);

    std::vector<FolderSettings> settings_{};
    std::map<std::map<std::string, std::string>, std::size_t> index_of_{};  ///< index of a setting, by sorted options
    std::vector<ManifestFacts> facts_{};
    std::vector<std::size_t> setting_of_{}, facts_of_{};
    std::map<std::string, std::map<std::uint64_t, std::string>> texts_{};  ///< displayed name, by policy and checksum
    std::map<std::pair<std::size_t, std::string>, std::string> renamed_{};
    std::set<std::string> programs_{};
    MethodFacts methods_{};
    std::size_t without_manifest_ = 0;
};

/// Returns the last component of a path: `7` for both `runs/7` and `runs/7/`.
std::string last_name(const std::filesystem::path& folder);

}  // namespace macheps::reports
