// SPDX-License-Identifier: Apache-2.0
// Composes a config from several files as Hydra does, and reads references and numbers as OmegaConf does.
#pragma once
#include "experiments/configs/framework.hpp"

#include <string_view>

namespace macheps::configs::hydra {

/// Composes the config from its `defaults` list. An entry `group: NAME` or `group@package: NAME` names a file in a
/// folder next to the config or above it. The entry `_self_` is the config itself; if the list does not contain
/// `_self_`, the config comes last. Later entries override earlier ones. Afterwards, `${a.b}` is replaced by the value
/// at that path, and texts such as `1e8` become numbers. A file that is missing or includes itself is reported as a
/// finding.
void compose(ImportContext& context);

/// Replaces references and converts numbers as compose() does, but does not read the `defaults` list. First applies keys
/// of the root that overrides have added with a prefix: `+a.b` and `++a.b` set `a.b`, and `~a.b` removes it. Use this
/// function for a framework whose `defaults` lists name files of the same package.
void interpolate(ImportContext& context);

/// The config files of a program whose values are the defaults in its key table.
struct KnownConfigs {
    std::string_view path;   ///< folder of the files, as --config-path names it
    std::string_view names;  ///< names without ending, separated by spaces
};

/// Removes Hydra's own options from the keys of a command: `--config-name`, `--multirun` and keys of the section
/// `hydra`. If `--config-name` or `--config-path` selects a file that is neither known nor given by the user, the
/// defaults of the program are not known: leaves them open, and reports the name of the file.
void take_options(ImportContext& context, const KnownConfigs& known);

/// Returns whether Hydra refuses a key that the program's config does not have: a command sets it, and does not add it
/// with `+` or `++`.
bool refuses_key(const ImportContext& context, std::string_view path);

/// Returns whether the key is set to something other than null or an empty text, map or list.
bool is_set(const files::ConfigValue& root, std::string_view path);

}  // namespace macheps::configs::hydra
