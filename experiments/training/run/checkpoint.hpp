// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the state of one run between two steps, as a safetensors file.
//
// Tensors of type F32: `value`, `master`, `moment1` and `moment2` of every parameter, and the amax histories of delayed
// scaling. Tensors of type F64: `optimizer`, `loss_scaler` and `seconds`. In addition: `step` (I64), `files` (U64) and,
// as the last tensor, `checksum` (U8 [8]), the little-endian XXH64 of all bytes before it. Random streams and batches
// are functions of (seed, step), so they have no state to save. The losses so far are in steps.csv.
#pragma once
#include "core/tensor.hpp"
#include "reports/rows/csv.hpp"
#include "reports/rows/event.hpp"

#include <array>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps::training {

/// The CSV files of a run directory whose lengths and checksums a checkpoint records.
inline constexpr auto row_files = files_of(std::type_identity<reports::GrowingRows>{});

struct Checkpoint {
    /// A tensor of the saved state. All bits are preserved, including those of NaNs.
    struct State {
        std::string name;  ///< `block.0.mlp.up.weight:moment1`
        std::vector<std::int64_t> shape;
        std::vector<float> values;
    };

    std::string run;           ///< `amp-fp16/0`
    std::uint64_t recipe = 0;  ///< recipe_checksum() of the manifest
    std::int64_t step = 0;     ///< number of completed steps, and index of the next step
    double seconds = 0;        ///< time that these steps took
    std::vector<double> optimizer, loss_scaler;
    std::array<reports::csv::FileMark, row_files.size()> files;  ///< lengths and checksums of `row_files` at this step
    std::vector<State> state;
};

/// Suffix in the names of tensors that hold amax histories. Such a name consists of the slot's name and this suffix.
inline constexpr std::string_view history_ending = ".amax_history";

std::string to_bytes(const Checkpoint& checkpoint);

/// Verifies the checksum of the output of to_bytes() and parses it. Throws Error, Exit::bad_input, if the bytes are
/// damaged or have another format version.
Checkpoint parse_checkpoint(std::string_view bytes, const std::string& where);

/// The folder `checkpoints` of a run directory. It holds the last two checkpoints of the current run. The name of a
/// file contains the step and the index of the run.
class CheckpointFolder {
  public:
    explicit CheckpointFolder(const std::filesystem::path& run_directory);

    /// Returns the checkpoints of run number `run`, newest first.
    std::vector<std::filesystem::path> files(std::size_t run) const;
    /// Saves a checkpoint in the background: syncs the row files to disk, publishes the checkpoint atomically, and
    /// removes all checkpoints except the last two that were saved here or passed to is_good(). First waits for the
    /// previous save, and throws Error, Exit::cannot_write, if that save failed.
    void save(std::size_t run, Checkpoint checkpoint);
    /// Waits until the current save is complete. Throws Error, Exit::cannot_write, if it failed.
    void wait();
    /// Records that the checkpoint `path` has been read and is intact.
    void is_good(const std::filesystem::path& path) { good_.push_back(path); }
    /// Removes every checkpoint, and the folder if nothing else is in it.
    void clear();

  private:
    void write(const std::filesystem::path& path, const Checkpoint& checkpoint);
    void remove_all_but(const std::vector<std::filesystem::path>& kept) const;

    std::filesystem::path directory_, folder_;
    std::vector<std::filesystem::path> good_;  // while `task_` runs, only `task_` uses this
    std::future<void> task_;                   // declared last: the destructor waits for it first
};

}  // namespace macheps::training
