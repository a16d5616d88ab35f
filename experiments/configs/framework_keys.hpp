// SPDX-License-Identifier: Apache-2.0
// Every key that a framework knows, by version, as its own data classes have it: keys/NAME.txt, written by
// scripts/framework-keys and compiled in. Importers describe the keys that decide numbers in rows; the others are known from here.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// A line of a list: versions since <= v < until know the key; an end that is open is "".
struct FrameworkKey {
    std::string_view path, since, until;
};

/// The text of keys/NAME.txt; empty where the framework has no list.
std::string_view framework_key_text(std::string_view framework);

/// The key of a list that stands for `path`: that path itself, or one with `*` for a part of it, or one that ends in `**`
/// for everything below. An index in a list of the config counts as a part.
std::optional<FrameworkKey> find_framework_key(std::string_view text, std::string_view path);

/// All keys of a list, for the nearest spelling.
std::vector<FrameworkKey> framework_keys(std::string_view text);

}  // namespace macheps::configs
