// SPDX-License-Identifier: Apache-2.0
// Lists of all keys that a framework knows, with the versions that know them. scripts/framework-keys reads the keys
// from the data classes of the framework and writes keys/NAME.txt, which is compiled into the library. The tables of
// the importers describe only the keys that affect numerical results.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace macheps::configs {

/// A line of a list. Versions with since <= version < until know the key. An empty limit means no limit.
struct FrameworkKey {
    std::string_view path, since, until;
};

/// Returns the text of keys/NAME.txt, or an empty text if the framework has no list.
std::string_view framework_key_text(std::string_view framework);

/// Returns the first key in the list `text` that matches `path`. In the list, `*` matches one part of a path, and `**`
/// at the end matches all parts that follow. An index into a list of the config counts as a part.
std::optional<FrameworkKey> find_framework_key(std::string_view text, std::string_view path);

/// Returns all keys of a list, to find the nearest spelling.
std::vector<FrameworkKey> framework_keys(std::string_view text);

}  // namespace macheps::configs
