// SPDX-License-Identifier: Apache-2.0
// Determines the role of each file that is given to an import: the config, a part of it, or a file that the config
// names.
#pragma once
#include "experiments/configs/framework.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// A given file that another given file names with a key.
struct NamedFile {
    std::string file;  ///< path as given
    std::string key;   ///< dotted key that names the file: "deepspeed"
    std::string by;    ///< path, as given, of the file that contains the key
    files::ConfigPlace place;
};

/// The files and overrides of one config.
struct GivenFiles {
    files::ConfigFile config;              ///< merged files and overrides; later values replace earlier values
    const Framework* framework = nullptr;  ///< the framework of the config
    const Framework* also = nullptr;       ///< see Recognition::also; null if the options decide between the two
    std::vector<std::string> files;        ///< paths of all files, as given
    std::vector<NamedFile> named;          ///< files that are not merged, but read as the value of a key
};

/// Reads the files and overrides in the arguments. The framework of each file is recognised by its keys. The order of
/// the arguments matters only if a key is set several times: the last value applies. Throws Error for files of two
/// frameworks if neither file names the other.
GivenFiles read_given_files(std::span<const std::string> files_and_overrides, const ImportOptions& options);

/// Returns whether an argument is `key=value` and not the name of a file.
bool is_override(const std::string& argument);

}  // namespace macheps::configs
