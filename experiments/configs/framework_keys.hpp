// SPDX-License-Identifier: Apache-2.0
// Lists of all keys that a framework knows, with the versions that know them. scripts/framework-keys reads the keys
// from the data classes of the framework and writes keys/NAME.txt, which is compiled into the library. The tables of
// the importers describe only the keys that affect numerical results.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// One entry of a list of keys. The key exists in framework versions from `since` up to, but not including, `until`. An
/// empty version sets no limit.
struct FrameworkKey {
    std::string_view path, since, until;
};

/// Returns the text of keys/NAME.txt, or an empty text if the framework has no list.
std::string_view framework_key_text(std::string_view framework);

/// Returns the first key in the list `text` that matches `path`. The parts of a path are separated by dots. In a key of
/// the list, the part `*` matches any one part of `path`, and the part `**` at the end matches all parts that follow.
/// If the config contains a list, the index of an element is a part too.
std::optional<FrameworkKey> find_framework_key(std::string_view text, std::string_view path);

/// Returns all keys of the list `text`. Used to find the key whose name is nearest to that of an unknown key.
std::vector<FrameworkKey> framework_keys(std::string_view text);

}  // namespace macheps::configs
