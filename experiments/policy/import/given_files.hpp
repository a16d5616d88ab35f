// SPDX-License-Identifier: Apache-2.0
// Decides what each file of one import is: the config, a part of it, or a file that the config names.
#pragma once
#include "experiments/policy/import/framework.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// A file that was given and that another given file names by a key.
struct NamedFile {
    std::string file;  ///< as it was given
    std::string key;   ///< the dotted key that names it: "deepspeed"
    std::string by;    ///< the file that names it, as it was given
    ConfigPlace place;
};

/// The files and overrides of one config.
struct GivenFiles {
    ConfigFile config;                     ///< files of one framework and overrides, later ones over earlier ones
    const Framework* framework = nullptr;  ///< whose config it is
    std::vector<std::string> files;        ///< every file, as given
    std::vector<NamedFile> named;          ///< files that are read where the config names them, and not merged
};

/// Reads the arguments. Each file is recognised by its own keys, so that their order decides nothing but which value of one
/// framework's key is later. Throws Error for files of two frameworks of which neither names the other.
GivenFiles read_given_files(std::span<const std::string> files_and_overrides, const ImportOptions& options);

/// Whether an argument is `key=value`, and not a file of such a name.
bool is_override(const std::string& argument);

}  // namespace macheps
