// SPDX-License-Identifier: Apache-2.0
// Decides the role of each file of an import: the config, a part of it, or a file that the config names.
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
    std::string key;   ///< the dotted key that names it: "deepspeed"
    std::string by;    ///< path, as given, of the file that names it
    files::ConfigPlace place;
};

/// The files and overrides of one config.
struct GivenFiles {
    files::ConfigFile config;              ///< files of one framework and overrides, later ones over earlier ones
    const Framework* framework = nullptr;  ///< the framework of the config
    std::vector<std::string> files;        ///< every file, as given
    std::vector<NamedFile> named;          ///< files that are read at the key that names them and are not merged
};

/// Reads the arguments. Each file is recognised by its keys. The order only decides which value of a repeated key is
/// the later one. Throws Error for files of two frameworks if neither file names the other.
GivenFiles read_given_files(std::span<const std::string> files_and_overrides, const ImportOptions& options);

/// Returns whether an argument is `key=value` and not the name of a file.
bool is_override(const std::string& argument);

}  // namespace macheps::configs
