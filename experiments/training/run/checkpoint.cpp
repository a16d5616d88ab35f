// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/run/checkpoint.hpp"

#include "core/error.hpp"
#include "core/host/publish.hpp"
#include "core/host/read_file.hpp"
#include "core/host/version.hpp"
#include "experiments/files/arrays/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace macheps::training {

namespace {

namespace fs = std::filesystem;

/// Format version of checkpoint files. Increase it if older programs cannot read the new files.
constexpr std::int64_t format_version = 2;
constexpr const char* version_key = "macheps.checkpoint";
constexpr std::string_view own_tensors[] = {"optimizer", "loss_scaler", "seconds", "step", "files", "checksum"};
constexpr std::size_t checksum_bytes = sizeof(std::uint64_t);

template <class T>
void add(files::SafetensorsWriter& writer, const char* name, const std::vector<T>& values) {
    writer.add(name, {static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
}

Error damaged(const std::string& where, std::string what) {
    return Error(
        {.what = std::move(what),
         .where = where,
         .fix = "no action is needed: training continues from an earlier checkpoint, or from the start of the run"});
}

std::int64_t parse_version(const std::string& text) {
    std::int64_t version = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    return error == std::errc{} && end == text.data() + text.size() ? version : -1;
}

}  // namespace

std::string to_bytes(const Checkpoint& c) {
    files::SafetensorsWriter writer;
    writer.metadata(version_key, std::to_string(format_version));
    writer.metadata("created_by", fmt::format("macheps {} ({})", version(), git_revision()));
    writer.metadata("run", c.run);
    writer.metadata("recipe", reports::to_hex(c.recipe));
    add(writer, "optimizer", c.optimizer);
    add(writer, "loss_scaler", c.loss_scaler);
    add(writer, "seconds", std::vector{c.seconds});
    add(writer, "step", std::vector{c.step});
    std::vector<std::uint64_t> files;
    for (const reports::csv::FileMark& mark : c.files) files.insert(files.end(), {mark.bytes, mark.checksum});
    add(writer, "files", files);
    for (const Checkpoint::State& tensor : c.state) {
        writer.borrow(tensor.name, files::Dtype::f32, tensor.shape, std::as_bytes(std::span(tensor.values)));
    }
    // The writer puts tensors of single bytes after all wider tensors. The checksum is the only tensor of single bytes,
    // so it comes last.
    add(writer, "checksum", std::vector<std::uint8_t>(checksum_bytes));
    std::string bytes;
    std::size_t values = 0;
    for (const Checkpoint::State& tensor : c.state) values += tensor.values.size();
    bytes.reserve(values * sizeof(float) + 256 * c.state.size() + 8192);  // the last two terms estimate the header
    writer.write([&](std::span<const std::byte> piece) {
        bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
    bytes.resize(bytes.size() - checksum_bytes);
    const std::uint64_t value = reports::checksum_of(bytes);
    bytes.append(reinterpret_cast<const char*>(&value), checksum_bytes);
    return bytes;
}

Checkpoint parse_checkpoint(std::string_view bytes, const std::string& where) {
    if (bytes.size() < checksum_bytes) throw damaged(where, "the checkpoint is truncated");
    const std::string_view before = bytes.substr(0, bytes.size() - checksum_bytes);
    std::uint64_t recorded = 0;
    std::memcpy(&recorded, bytes.data() + before.size(), checksum_bytes);
    if (recorded != reports::checksum_of(before))
        throw damaged(where, "the checkpoint is damaged: its checksum is wrong");

    const auto file = files::Safetensors::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), where);
    const std::int64_t version = parse_version(file.metadata_at(version_key));
    if (version != format_version) {
        throw damaged(where, fmt::format("the checkpoint has version {}, but this program reads version {}",
                                         file.metadata_at(version_key), format_version));
    }
    Checkpoint c;
    c.run = file.metadata_at("run");
    const std::string& recipe = file.metadata_at("recipe");
    std::from_chars(recipe.data(), recipe.data() + recipe.size(), c.recipe, 16);
    c.optimizer = file.values<double>("optimizer");
    c.loss_scaler = file.values<double>("loss_scaler");
    const auto seconds = file.values<double>("seconds");
    const auto step = file.values<std::int64_t>("step");
    const auto files = file.values<std::uint64_t>("files");
    if (seconds.size() != 1 || step.size() != 1 || step[0] < 1 || files.size() != 2 * c.files.size()) {
        throw damaged(where, "the checkpoint has tensors with unexpected shapes");
    }
    c.seconds = seconds[0];
    c.step = step[0];
    for (std::size_t i = 0; i < c.files.size(); ++i) c.files[i] = {files[2 * i], files[2 * i + 1]};
    for (const files::StoredTensor& tensor : file.tensors()) {
        if (std::find(std::begin(own_tensors), std::end(own_tensors), tensor.name) != std::end(own_tensors)) continue;
        c.state.push_back({tensor.name, tensor.shape, file.values<float>(tensor.name)});
    }
    return c;
}

CheckpointFolder::CheckpointFolder(const fs::path& run_directory)
    : directory_(run_directory), folder_(run_directory / "checkpoints") {}

std::vector<fs::path> CheckpointFolder::files(std::size_t run) const {
    // Names contain the step with leading zeros, so they sort by step.
    const std::string prefix = fmt::format("run-{:04}-step-", run);
    std::vector<fs::path> found;
    for (const std::string& name : names_in(folder_)) {
        if (name.starts_with(prefix) && name.ends_with(".safetensors")) found.push_back(folder_ / name);
    }
    std::sort(found.rbegin(), found.rend());
    return found;
}

void CheckpointFolder::save(std::size_t run, Checkpoint checkpoint) {
    wait();
    const fs::path path = folder_ / fmt::format("run-{:04}-step-{:09}.safetensors", run, checkpoint.step);
    const auto kept = std::make_shared<const Checkpoint>(std::move(checkpoint));
    try {
        task_ = std::async(std::launch::async, [this, path, kept] { write(path, *kept); });
    } catch (const std::system_error&) {
        write(path, *kept);  // no thread could be started: this thread writes the checkpoint itself
    }
}

void CheckpointFolder::wait() {
    if (task_.valid()) task_.get();
}

void CheckpointFolder::write(const fs::path& path, const Checkpoint& checkpoint) {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) {
        throw Error({.what = fmt::format("cannot create the folder of checkpoints: {}", error.message()),
                     .where = folder_.string(),
                     .fix = "check the permissions and the free space",
                     .exit = Exit::cannot_write});
    }
    for (const std::string_view name : row_files) reports::csv::sync_file(directory_ / name);
    publish(path, to_bytes(checkpoint));
    good_.erase(std::remove(good_.begin(), good_.end(), path), good_.end());
    good_.push_back(path);
    if (good_.size() > 2) good_.erase(good_.begin(), good_.end() - 2);
    remove_all_but(good_);
}

void CheckpointFolder::remove_all_but(const std::vector<fs::path>& kept) const {
    remove_leftover_drafts(folder_);
    std::vector<std::string> names;
    try {
        names = names_in(folder_);
    } catch (const Error&) {  // the folder cannot be listed: old checkpoints stay
    }
    for (const std::string& name : names) {
        // Also removes unfinished checkpoints (.new) of earlier versions. Other files stay.
        const bool is_ours =
            name.starts_with("run-") && (name.ends_with(".safetensors") || name.ends_with(".safetensors.new"));
        std::error_code error;
        if (is_ours && std::find(kept.begin(), kept.end(), folder_ / name) == kept.end()) {
            fs::remove(folder_ / name, error);
        }
    }
}

void CheckpointFolder::clear() {
    wait();
    good_.clear();
    remove_all_but({});
    std::error_code error;
    fs::remove(folder_, error);
}

}  // namespace macheps::training
