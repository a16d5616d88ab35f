// SPDX-License-Identifier: Apache-2.0
#include "experiments/policy/language/layer_language.hpp"

namespace macheps::policy {

bool read_layer_key(const files::TomlReader& toml, std::string_view key, const toml::node& node, LayerChoice& choice) {
    if (key == "multiple_of") {
        choice.multiple_of = toml.integer(node, key, 1);
    } else if (key == "filter") {
        choice.filter = &layer_filters()[toml.one_of(names_of(layer_filters()), node, key, "layer filter")];
    } else if (key == "skip_first_blocks") {
        choice.skip_first_blocks = toml.integer(node, key, 0);
    } else if (key == "skip_last_blocks") {
        choice.skip_last_blocks = toml.integer(node, key, 0);
    } else {
        return false;
    }
    return true;
}

}  // namespace macheps::policy
