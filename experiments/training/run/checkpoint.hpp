// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the state of one run between two steps, as a safetensors file.
//
// Tensors: every parameter's `value`, `master`, `moment1`, `moment2` and the amax histories of delayed scaling as F32;
// `optimizer`, `loss_scaler`, `seconds` as F64; `step` as I64 and `files` as U64; last `checksum`, U8 [8]: the
// little-endian XXH64 of every byte before it. Random streams and batches are functions of (seed, step), so they have
// no state to save. The losses so far are in steps.csv.
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

/// The row files whose lengths and checksums a checkpoint records.
inline constexpr auto row_files = files_of(std::type_identity<reports::GrowingRows>{});

struct Checkpoint {
    /// A tensor of the state. Its bits are preserved, also those of a NaN.
    struct State {
        std::string name;  ///< `block.0.mlp.up.weight:moment1`
        std::vector<std::int64_t> shape;
        std::vector<float> values;
    };

    std::string run;           ///< `amp-fp16/0`
    std::uint64_t recipe = 0;  ///< recipe_checksum() of the manifest
    std::int64_t step = 0;     ///< steps done, which is the index of the next one
    double seconds = 0;        ///< time spent in these steps
    std::vector<double> optimizer, loss_scaler;
    std::array<reports::csv::FileMark, row_files.size()> files;  ///< their ends at this step
    std::vector<State> state;
};

/// Suffix of the tensor that holds a slot's amax history; the name of the slot comes before it.
inline constexpr std::string_view history_ending = ".amax_history";

std::string to_bytes(const Checkpoint& checkpoint);

/// Reads the output of to_bytes(), after its checksum was found to be right. Errors: throws Error, Exit::bad_input, for
/// any damage and for files of another version.
Checkpoint parse_checkpoint(std::string_view bytes, const std::string& where);

/// The folder `checkpoints` of a run directory. It holds the last two checkpoints of the current run. A file's name has
/// the index of the run in the order of runs, and the step.
class CheckpointFolder {
  public:
    explicit CheckpointFolder(const std::filesystem::path& run_directory);

    /// Returns the checkpoints of run number `run`, newest first.
    std::vector<std::filesystem::path> files(std::size_t run) const;
    /// Writes a checkpoint in the background: first the row files onto the disk, then the checkpoint in one step. Then
    /// removes all checkpoints except the last two that were saved here or passed to is_good(). Waits for the previous
    /// save, and throws Error, Exit::cannot_write, if that failed.
    void save(std::size_t run, Checkpoint checkpoint);
    /// Waits until everything is on the disk. Throws Error, Exit::cannot_write.
    void wait();
    /// Records that `path` was read and is intact.
    void is_good(const std::filesystem::path& path) { good_.push_back(path); }
    /// Removes every checkpoint, and the folder if nothing else is in it.
    void clear();

  private:
    void write(const std::filesystem::path& path, const Checkpoint& checkpoint);
    void remove_all_but(const std::vector<std::filesystem::path>& kept) const;

    std::filesystem::path directory_, folder_;
    std::vector<std::filesystem::path> good_;  // used by the task while there is one
    std::future<void> task_;                   // last: destroyed first, which waits for its end
};

}  // namespace macheps::training
