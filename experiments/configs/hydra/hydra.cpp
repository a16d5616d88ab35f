// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/hydra/hydra.hpp"

#include "core/host/read_file.hpp"
#include "core/text/split.hpp"
#include "experiments/files/config/command_line/hydra_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace macheps::configs::hydra {

namespace {

namespace fs = std::filesystem;

/// An entry of the defaults list: `deepspeed@ds_cfg: NAME`.
struct Default {
    std::string group, package, name;
    files::ConfigPlace place;
};

std::optional<Default> parse_default(const files::ConfigValue& item) {
    Default found{.group = {}, .package = {}, .name = {}, .place = item.place};
    if (item.is_text()) {
        found.name = item.written;
        return found;
    }
    if (!item.is_map() || item.entries.size() != 1) return {};
    const files::ConfigValue::Entry& entry = item.entries.front();
    if (entry.value.is_null()) return {};
    std::string_view key = entry.key;
    for (const std::string_view prefix : {"override ", "optional "}) {
        if (key.starts_with(prefix)) key.remove_prefix(prefix.size());
    }
    const std::size_t at = key.find('@');
    found.group = key.substr(0, at);
    found.package = at == std::string_view::npos ? found.group : std::string(key.substr(at + 1));
    found.name = entry.value.written;
    found.place = entry.place;
    return found;
}

/// Returns the path of an entry's file, relative to the folder of the config. The file is looked up in that folder and
/// in the two folders above it.
std::string path_of(const Default& one, const fs::path& config) {
    const fs::path file = fs::path(one.group) / (one.name + ".yaml");
    fs::path folder = config.parent_path();
    for (const char* up : {".", "..", "../.."}) {
        const fs::path candidate = fs::path(up) / file;
        if (is_there(folder / candidate)) return candidate.lexically_normal().string();
    }
    return file.string();
}

void place_at(files::ConfigValue& root, const std::string& package, files::ConfigValue tree) {
    if (package == "_global_" || package.empty()) {
        files::merge_config(root, tree);
        return;
    }
    if (files::ConfigValue* there = root.find(package); there != nullptr && there->is_map())
        files::merge_config(*there, tree);
    else
        root.set(package, std::move(tree));
}

class Interpolation {
  public:
    explicit Interpolation(const files::ConfigValue& root) : root_(root) {}

    void resolve(files::ConfigValue& value, int depth) {
        for (files::ConfigValue& item : value.items) resolve(item, depth);
        for (files::ConfigValue::Entry& entry : value.entries) resolve(entry.value, depth);
        if (value.is_text()) text(value, depth);
    }

  private:
    // These limits stop references that contain references, because the resulting text can grow exponentially. No real
    // config reaches the limits.
    static constexpr int deepest = 16, max_references = 10'000;
    static constexpr std::size_t longest = 1 << 16;

    /// Replaces references such as `${a.b}` by the value at the path. If the reference is the whole text, the value
    /// keeps its type. In a longer text, the reference is replaced by the value as text.
    void text(files::ConfigValue& value, int depth) {
        std::string out;
        std::string_view rest = value.written;
        for (;;) {
            const std::size_t open = rest.find("${"), close = rest.find('}', open);
            if (open == std::string_view::npos || close == std::string_view::npos) break;
            const files::ConfigValue* target = root_.find(rest.substr(open + 2, close - open - 2));
            // A resolver (`${now:...}`) or a path that does not exist stays as written.
            if (target == nullptr || depth >= deepest || ++references_ > max_references || out.size() > longest) return;
            files::ConfigValue copy = *target;
            resolve(copy, depth + 1);
            if (open == 0 && close + 1 == rest.size() && out.empty()) {
                copy.place = value.place;
                value = std::move(copy);
                return;
            }
            out += rest.substr(0, open);
            out += copy.written;
            rest.remove_prefix(close + 1);
        }
        if (rest.size() == value.written.size()) return;
        value.written = out + std::string(rest);
    }

    const files::ConfigValue& root_;
    int references_ = 0;
};

/// Converts texts such as `1e8` to numbers, as OmegaConf does.
void read_numbers(files::ConfigValue& value) {
    for (files::ConfigValue& item : value.items) read_numbers(item);
    for (files::ConfigValue::Entry& entry : value.entries) read_numbers(entry.value);
    if (!value.is_text() || value.quoted || value.written.find_first_of("eE") == std::string::npos) return;
    if (const std::optional<double> number = files::written_number(value)) {
        value.kind = files::ConfigValue::Kind::number;
        value.number = *number;
    }
}

/// Removes from `map` the keys that `removed` has. If both values of a key are maps, only the keys below are removed.
void remove_keys(files::ConfigValue& map, const files::ConfigValue& removed) {
    for (const files::ConfigValue::Entry& entry : removed.entries) {
        files::ConfigValue* below = map.find(entry.key);
        if (below != nullptr && below->is_map() && entry.value.is_map())
            remove_keys(*below, entry.value);
        else
            map.erase(entry.key);
    }
}

/// Applies the keys of the root whose names begin with `+`, `++` or `~`, and removes the prefixes.
void apply_prefixes(files::ConfigValue& root) {
    const std::vector<files::ConfigValue::Entry> entries = root.entries;
    for (const files::ConfigValue::Entry& entry : entries) {
        const std::size_t length = std::min(entry.key.find_first_not_of("+~"), entry.key.size());
        if (length == 0) continue;
        root.erase(entry.key);
        files::ConfigValue change;
        change.kind = files::ConfigValue::Kind::map;
        change.entries.push_back({entry.key.substr(length), entry.place, entry.value});
        if (entry.key.front() == '~')
            remove_keys(root, change);
        else
            files::merge_config(root, change);
    }
}

/// The config file that a command selects.
struct Selected {
    std::string name, path;  ///< values of --config-name and --config-path; empty if they are not given
    files::ConfigPlace place;
};

bool is_known(const ImportContext& context, const Selected& selected, const KnownConfigs& known) {
    const std::string stem = fs::path(selected.name).stem().string();
    const std::vector<std::string_view> names = listed_names(known.names);
    const bool has_known_name = stem.empty() || std::find(names.begin(), names.end(), stem) != names.end();
    const fs::path folder = fs::path(selected.path).lexically_normal();
    if (has_known_name && (selected.path.empty() || folder == known.path)) return true;
    const auto& given = context.options().given_files;
    return std::any_of(given.begin(), given.end(), [&](const std::string& one) {
        const fs::path file = one;
        return file.stem() == stem && (file.extension() == ".yaml" || file.extension() == ".yml");
    });
}

}  // namespace

bool is_set(const files::ConfigValue& root, std::string_view path) {
    const files::ConfigValue* value = root.find(path);
    if (value == nullptr || value->is_null()) return false;
    if (value->is_map()) return !value->entries.empty();
    if (value->is_list()) return !value->items.empty();
    return !value->written.empty();
}

void compose(ImportContext& context) {
    files::ConfigValue& root = context.root();
    if (const files::ConfigValue* list = root.find("defaults"); list != nullptr && list->is_list()) {
        const files::ConfigValue own = root;
        const files::ConfigValue defaults = *list;
        files::ConfigValue composed;
        composed.kind = files::ConfigValue::Kind::map;
        composed.place = root.place;
        bool has_self = false;
        for (const files::ConfigValue& item : defaults.items) {
            const std::optional<Default> one = parse_default(item);
            if (!one) continue;
            if (one->name == "_self_") {
                files::merge_config(composed, own);
                has_self = true;
                continue;
            }
            // Hydra's own settings (logging, folders) do not affect numerical results.
            if (one->group == "hydra" || one->group.starts_with("hydra/")) continue;
            std::optional<files::ConfigValue> tree =
                context.read_file("defaults", one->place, path_of(*one, one->place.file));
            if (tree && tree->is_map()) place_at(composed, one->package, std::move(*tree));
        }
        if (!has_self) files::merge_config(composed, own);
        context.root() = std::move(composed);
    }
    interpolate(context);
}

void take_options(ImportContext& context, const KnownConfigs& known) {
    if (!context.options().is_command) return;
    Selected selected;
    const std::vector<files::ConfigValue::Entry> entries = context.root().entries;
    for (const files::ConfigValue::Entry& entry : entries) {
        const files::HydraOption* option = files::find_hydra_option(entry.key);
        const bool is_section = entry.key == "hydra" || entry.key.starts_with("hydra/");
        if (option == nullptr && !is_section) continue;
        context.root().erase(entry.key);
        if (is_section || (option->name != "config-name" && option->name != "config-path")) continue;
        (option->name == "config-name" ? selected.name : selected.path) = entry.value.written;
        selected.place = entry.place;
    }
    if (is_known(context, selected, known)) return;
    context.leave_defaults_open();
    const std::string file = selected.name.empty() ? selected.path : selected.name;
    context
        .report(FindingCode::note, "config-unread", {},
                fmt::format("the defaults are those of the config `{}`, which is not read: fields that no key of the "
                            "command decides are not listed",
                            file),
                "give the file of this config together with the command")
        .place = selected.place;
}

bool refuses_key(const ImportContext& context, std::string_view path) {
    const ImportOptions& options = context.options();
    if (!options.is_command || context.defaults_are_open()) return false;
    const bool is_of_command = context.place_of(path).file == context.root().place.file;
    return is_of_command && std::none_of(options.new_keys.begin(), options.new_keys.end(), [&](std::string_view key) {
               return path == key || (path.starts_with(key) && path[key.size()] == '.');
           });
}

void interpolate(ImportContext& context) {
    apply_prefixes(context.root());
    const files::ConfigValue before = context.root();
    Interpolation(before).resolve(context.root(), 0);
    read_numbers(context.root());
}

}  // namespace macheps::configs::hydra
