// SPDX-License-Identifier: Apache-2.0
// Checkpoint: the state of one run between two steps, as a safetensors file.
//
// Tensors: every parameter's `value`, `master`, `moment1`, `moment2` and the amax histories of delayed scaling as F32; `optimizer`, `loss_scaler`, `seconds` as
// F64; `step`, `files` as I64 and U64; last `checksum`, U8 [8]: the little-endian XXH64 of every byte
// before it. Random streams and batches are functions of (seed, step), so that they have no state to keep; the losses
// so far stand in steps.csv.
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

/// The files whose ends a checkpoint marks.
inline constexpr auto row_files = files_of(std::type_identity<reports::GrowingRows>{});

struct Checkpoint {
    /// A tensor of the state; its bits are kept, those of a NaN too.
    struct State {
        std::string name;  ///< `block.0.mlp.up.weight:moment1`
        std::vector<std::int64_t> shape;
        std::vector<float> values;
    };

    std::string run;           ///< `amp-fp16/0`
    std::uint64_t recipe = 0;  ///< recipe_checksum() of the manifest
    std::int64_t step = 0;     ///< steps done: the next one's index
    double seconds = 0;        ///< spent in them
    std::vector<double> optimizer, loss_scaler;
    std::array<reports::csv::FileMark, row_files.size()> files;  ///< as they were
    std::vector<State> state;
};

/// Behind the name of a slot: the state of its amax history.
inline constexpr std::string_view history_ending = ".amax_history";

std::string to_bytes(const Checkpoint& checkpoint);

/// Reads what to_bytes() wrote, once its checksum has been found right. Errors: throws Error, Exit::bad_input, for any
/// damage and for files of a newer version.
Checkpoint parse_checkpoint(std::string_view bytes, const std::string& where);

/// The folder `checkpoints` of a run directory: files named by the run's place in the order of runs and by step, the
/// last two of the run in hand.
class CheckpointFolder {
  public:
    explicit CheckpointFolder(const std::filesystem::path& run_directory);

    /// Those of run number `run`, newest first.
    std::vector<std::filesystem::path> files(std::size_t run) const;
    /// Writes one in the background: the files of rows onto the disk, then the checkpoint in one step; then removes all
    /// but the last two that this object saved or was told of. Waits for the one before. Throws Error,
    /// Exit::cannot_write, if that one could not be written.
    void save(std::size_t run, Checkpoint checkpoint);
    /// Until all is on the disk. Throws Error, Exit::cannot_write.
    void wait();
    /// `path` was read and is whole.
    void is_good(const std::filesystem::path& path) { good_.push_back(path); }
    /// Removes every checkpoint, and the folder when nothing else is in it.
    void clear();

  private:
    void write(const std::filesystem::path& path, const Checkpoint& checkpoint);
    void remove_all_but(const std::vector<std::filesystem::path>& kept) const;

    std::filesystem::path directory_, folder_;
    std::vector<std::filesystem::path> good_;  // of the task while there is one
    std::future<void> task_;                   // last: its end is waited for first
};

}  // namespace macheps::training
