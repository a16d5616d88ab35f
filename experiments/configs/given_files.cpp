// SPDX-License-Identifier: Apache-2.0
#include "experiments/configs/given_files.hpp"
#include "core/error.hpp"
#include "experiments/configs/recognition/recognise.hpp"
#include "experiments/configs/recognition/training_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

namespace macheps::configs {

namespace {

namespace fs = std::filesystem;

/// Returns a text such as "Transformers" or "Transformers or DeepSpeed".
std::string titles(const std::vector<const Framework*>& owners) {
    std::vector<std::string_view> words;
    for (const Framework* each : owners) words.push_back(each->title);
    return fmt::format("{}", fmt::join(words, " or "));
}

/// A file that was given as an argument.
struct Given {
    std::string path;
    files::ConfigFile file;
    std::vector<const Framework*>
        owners;  ///< frameworks that the keys of the file fit best; if empty, the file may be part of any config
    std::optional<NamedFile> named{};

    bool belongs_to(const Framework& framework) const {
        return owners.empty() || std::find(owners.begin(), owners.end(), &framework) != owners.end();
    }
};

std::string identity(const std::string& path) {
    std::error_code failed;
    const fs::path canonical = fs::weakly_canonical(path, failed);
    return failed ? path : canonical.string();
}

files::ConfigFile read_map(const std::string& path, const ImportOptions& options) {
    files::ConfigFile file = files::read_config_file(path, options.line);
    merge_config_files(file);
    if (file.root.is_map()) return file;
    throw Error({.what = "the file contains no keys",
                 .where = to_string(file.root.place),
                 .fix = "write a map: KEY: VALUE in YAML, {\"KEY\": VALUE} in JSON"});
}

/// Merges files and overrides in the order of the arguments. Leaves out each file whose name is the value of a key in
/// another given file.
files::ConfigFile joined(std::span<const std::string> arguments, const std::vector<Given>& files) {
    files::ConfigFile all;
    bool is_first = true;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto given =
            std::find_if(files.begin(), files.end(), [&](const Given& one) { return one.path == arguments[i]; });
        if (given == files.end()) {
            const std::string name = fmt::format("argument {}", i + 1);
            if (is_first) {
                all.root.kind = files::ConfigValue::Kind::map;
                all.root.place = {name, 0, 0};
            }
            files::apply_override(all.root, arguments[i], name);
            // A value that was unknown is known now.
            const std::string_view path = std::string_view(arguments[i]).substr(0, arguments[i].find('='));
            std::erase_if(all.unknown_values, [&](const files::UnknownValue& one) { return one.path == path; });
            is_first = false;
            continue;
        }
        if (given->named) continue;
        const files::ConfigFile& file = given->file;
        if (is_first) {
            all = file;
        } else {
            if (all.root.place.line == 0) all.root.place = file.root.place;
            files::merge_config_file(all, file);
        }
        is_first = false;
    }
    return all;
}

/// Returns the options without the version that the user gave without the name of a framework. This version applies to
/// the framework of the config, which is not known before all files have been examined.
ImportOptions without_unnamed_version(ImportOptions options) {
    options.versions.erase("");
    return options;
}

/// Marks the files that the config files[by] names. Overrides are applied to this config first, because they may also
/// name files.
void mark_named(std::vector<Given>& files, std::size_t by, std::span<const std::string> arguments,
                const ImportOptions& options) {
    const Framework* owner = options.framework.empty() ? nullptr : find_framework(options.framework);
    if (owner == nullptr || !files[by].belongs_to(*owner))
        owner = files[by].owners.empty() ? nullptr : files[by].owners.front();
    if (owner == nullptr) return;
    files::ConfigValue root = files[by].file.root;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (is_override(arguments[i])) files::apply_override(root, arguments[i], fmt::format("argument {}", i + 1));
    }
    ImportOptions of_file = options;
    of_file.written_files = files[by].file.written_files;
    ImportContext context(*owner, std::move(root), of_file);
    context.run();
    for (const IncludedFile& included : context.included_files()) {
        for (Given& other : files) {
            if (&other == &files[by] || other.named || identity(other.path) != included.identity) continue;
            other.named =
                NamedFile{.file = other.path, .key = included.key, .by = files[by].path, .place = included.place};
        }
    }
}

/// Returns advice on how to combine two configs: a key of one config can name the file of the other framework.
std::string remedy(const Given& a, const Given& b) {
    for (const auto& [main, part] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        for (const Framework* owner : main->owners) {
            for (const FileKey& row : owner->file_keys) {
                const auto is_it = [&](const Framework* one) { return one->name == row.framework; };
                if (std::none_of(part->owners.begin(), part->owners.end(), is_it)) continue;
                return fmt::format("add `{0}: {1}` to {2}, pass {0}={1}, or import each file separately", row.key,
                                   part->path, main->path);
            }
        }
    }
    return fmt::format("import each file separately: {} and {} have no key that names a config of the other framework",
                       titles(a.owners), titles(b.owners));
}

[[noreturn]] void refuse(const Given& a, const Given& b) {
    throw Error({.what = fmt::format("{} is a config of {} and {} is a config of {}, but neither names the other",
                                     a.path, titles(a.owners), b.path, titles(b.owners)),
                 .where = b.path,
                 .fix = remedy(a, b)});
}

bool has_package(const ImportOptions& options, std::string_view package) {
    return options.versions.contains(package) || options.requirements.versions.contains(package) ||
           options.requirements.inexact.contains(package);
}

/// If the config fits two frameworks, leaves the one whose package the requirements name. If they name neither or the
/// package of the owner, the owner remains, except for models with an encoder and a decoder: these are usually trained
/// by a script of the framework that shares its keys, such as one of Transformers.
void use_requirements(Recognition& found, const ImportOptions& options) {
    if (found.also == nullptr) return;
    if (has_package(options, found.owners.front()->name)) {
        found.also = nullptr;
    } else if (options.requirements.versions.contains(found.also->name) ||
               options.requirements.inexact.contains(std::string(found.also->name)) || options.model.is_seq2seq) {
        found.owners = {std::exchange(found.also, nullptr)};
    }
}

/// Returns the framework of the config. If a key of one given file names another given file, the named file is ignored
/// here, because it may belong to another framework.
const Framework& owner_of(const std::vector<Given>& files, const files::ConfigFile& config,
                          const ImportOptions& options) {
    const Given* first = nullptr;
    std::vector<const Framework*> shared;
    for (const Given& one : files) {
        if (one.named || one.owners.empty()) continue;
        if (first == nullptr) shared = one.owners;
        std::erase_if(shared, [&](const Framework* each) { return !one.belongs_to(*each); });
        if (shared.empty()) refuse(*first, one);
        if (first == nullptr) first = &one;
    }
    if (!options.framework.empty()) return *find_framework(options.framework);
    if (shared.size() == 1) return *shared.front();
    Recognition found = recognise(config);
    use_requirements(found, options);
    if (found.refused != nullptr) refuse_by_name(found, config);
    std::vector<std::string_view> names;
    for (const Framework* each : frameworks()) names.push_back(each->name);
    const std::string fix = fmt::format("pass --framework with one of {}", fmt::join(names, ", "));
    if (found.owners.empty()) {
        const std::string nearest = found.nearest.empty() ? "" : ": " + found.nearest;
        throw Error({.what = "no framework was recognised by these keys" + nearest,
                     .where = to_string(config.root.place),
                     .fix = fix});
    }
    if (found.owners.size() > 1) {
        throw Error({.what = fmt::format("the keys fit both {} and {}", found.owners[0]->title, found.owners[1]->title),
                     .where = to_string(config.root.place),
                     .fix = fix});
    }
    return *found.owners.front();
}

}  // namespace

bool is_override(const std::string& argument) {
    std::error_code failed;
    return argument.find('=') != std::string::npos && !fs::exists(argument, failed);
}

GivenFiles read_given_files(std::span<const std::string> arguments, const ImportOptions& given_options) {
    if (arguments.empty()) throw Error({.what = "no file was given", .where = "FILE", .exit = Exit::usage});
    const Framework* wanted = given_options.framework.empty() ? nullptr : find_framework(given_options.framework);
    GivenFiles given;
    std::vector<Given> files;
    for (const std::string& argument : arguments) {
        if (is_override(argument)) continue;
        const auto is_same = [&](const Given& one) { return one.path == argument; };
        if (std::any_of(files.begin(), files.end(), is_same)) continue;
        files.push_back({.path = argument, .file = read_map(argument, given_options), .owners = {}});
        Given& file = files.back();
        Recognition found = recognise(file.file);
        use_requirements(found, given_options);
        if (found.refused != nullptr && (wanted == nullptr || file.file.python_statement))
            refuse_by_name(found, file.file);
        file.owners = found.owners;
        // If the user names a framework, each file that may belong to this framework is assumed to belong to it.
        if (wanted != nullptr && wanted->recognises != nullptr && wanted->recognises(file.file.root) > 0)
            file.owners = {wanted};
        given.files.push_back(argument);
    }
    // A single file is assumed to belong to the framework that the user named, even if its keys do not fit.
    if (files.size() == 1 && wanted != nullptr) files.front().owners = {wanted};
    if (files.size() > 1) {
        ImportOptions options = without_unnamed_version(given_options);
        options.given_files.insert(options.given_files.end(), given.files.begin(), given.files.end());
        for (std::size_t i = 0; i < files.size(); ++i) {
            if (!files[i].named) mark_named(files, i, arguments, options);
        }
    }
    given.config = joined(arguments, files);
    given.framework = &owner_of(files, given.config, given_options);
    if (wanted == nullptr) {
        Recognition found = recognise(given.config);
        use_requirements(found, given_options);
        const bool is_owner = found.owners.size() == 1 && found.owners.front() == given.framework;
        given.also = is_owner ? found.also : nullptr;
    }
    for (Given& file : files) {
        if (file.named) given.named.push_back(std::move(*file.named));
    }
    return given;
}

}  // namespace macheps::configs
