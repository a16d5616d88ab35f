// SPDX-License-Identifier: Apache-2.0
// Recognises the framework of a config by its marks (marks.hpp) and by the share of its top-level keys that a framework
// knows. A config that looks like a framework without an importer is refused by name, because the table of another
// framework would be wrong.
#pragma once
#include "experiments/configs/framework.hpp"
#include "experiments/configs/recognition/refused.hpp"

#include <string>
#include <vector>

namespace macheps::configs {

struct Recognition {
    /// The frameworks to which the config may belong. Several are equally likely. Empty if there is none.
    std::vector<const Framework*> owners{};
    /// If there is one owner: a framework that reads the same keys as the owner, which has no key or program of its own
    /// here. For example, recipes of TRL and example scripts of Transformers share most keys. May be null.
    const Framework* also = nullptr;
    const RefusedFramework* refused = nullptr;  ///< the config belongs to this framework, which is not read
    std::vector<std::string> marks{};           ///< marks of `refused`
    /// If `owners` is empty: the framework with the largest share of known keys, and the reason why it is not an
    /// owner, such as "3 of 8 keys are Transformers'". May be empty.
    std::string nearest{};
};

Recognition recognise(const files::ConfigFile& config);

/// Returns whether a file is a config of a framework, even of one that is not read, and not a policy, a program or
/// another file.
bool looks_like_config(const files::ConfigFile& config);

/// Throws Error (exit 3) for a config of a framework that is not read.
[[noreturn]] void refuse_by_name(const Recognition& recognition, const files::ConfigFile& config);

}  // namespace macheps::configs
