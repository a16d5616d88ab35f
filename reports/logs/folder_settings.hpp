// SPDX-License-Identifier: Apache-2.0
// What run directories were trained with, told apart by their manifests: equal settings are one, and what differs between
// them are the axes of a study that nobody wrote a plan for.
#pragma once
#include "reports/logs/manifest_facts.hpp"

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

/// Names and values of the model, the data and the training options, in the manifest's order; empty without a manifest.
/// Where the data lies is not what it is.
using FolderSettings = std::vector<std::pair<std::string, std::string>>;
FolderSettings folder_settings(const Json& manifest);

/// The axes of some settings, each with its value for every one of them.
struct SettingAxes {
    std::vector<std::string> names{};
    std::vector<std::vector<std::string>> values{};  ///< of each setting, in their order
    std::vector<std::string> notes{};                ///< which names were left out, as they follow from another one
};
/// An axis is a name whose values differ. One that follows from another one (the heads from the width, where each width has
/// its own) would draw the same table twice and is left out; the learning rate stays where one of two may go.
SettingAxes setting_axes(const std::vector<FolderSettings>& settings);

/// The manifests of many directories, of which no text is kept.
class FolderManifests {
  public:
    /// Reads the next directory's manifest, in the order of the directories.
    void add(const std::filesystem::path& folder);

    std::size_t setting_of(std::size_t folder) const { return setting_of_[folder]; }
    const ManifestFacts& facts_of(std::size_t folder) const { return facts_[facts_of_[folder]]; }
    /// The policy as it is shown: of two texts under one name the later one stands as `policy@directory`.
    std::string shown(std::size_t folder, const std::string& policy) const;

    const std::vector<FolderSettings>& settings() const { return settings_; }
    std::size_t without_manifest() const { return without_manifest_; }
    std::size_t programs() const { return programs_.size(); }

  private:
    void add_policies(std::size_t number, const std::filesystem::path& folder, const Json& policies);

    std::vector<FolderSettings> settings_{};
    std::map<std::map<std::string, std::string>, std::size_t> index_of_{};  ///< in whichever order they stand
    std::vector<ManifestFacts> facts_{};
    std::vector<std::size_t> setting_of_{}, facts_of_{};
    std::map<std::string, std::map<std::uint64_t, std::string>> texts_{};  ///< of each policy: how each text is shown
    std::map<std::pair<std::size_t, std::string>, std::string> renamed_{};
    std::set<std::string> programs_{};
    std::size_t without_manifest_ = 0;
};

/// `runs/7` and `runs/7/` are both `7`.
std::string last_name(const std::filesystem::path& folder);

}  // namespace macheps::reports
