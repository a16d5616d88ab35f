// SPDX-License-Identifier: Apache-2.0
// Every key that a framework knows, by version, taken from its data classes: keys/NAME.txt, which
// scripts/framework-keys writes and which is compiled in. Importers describe the keys that decide numbers in rows. All
// other keys are known only from here.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// A line of a list. Versions since <= v < until know the key; "" means no limit.
struct FrameworkKey {
    std::string_view path, since, until;
};

/// Returns the text of keys/NAME.txt, or an empty text if the framework has no list.
std::string_view framework_key_text(std::string_view framework);

/// Returns the key of a list that matches `path`: the path itself, a key with `*` for a part of the path, or a key that
/// ends in `**`, which matches everything below. An index in a list of the config counts as a part.
std::optional<FrameworkKey> find_framework_key(std::string_view text, std::string_view path);

/// Returns all keys of a list, to find the nearest spelling.
std::vector<FrameworkKey> framework_keys(std::string_view text);

}  // namespace macheps::configs
