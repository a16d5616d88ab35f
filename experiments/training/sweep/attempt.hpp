// SPDX-License-Identifier: Apache-2.0
// Attempts to train a unit of a sweep. Any number of processes may work on the same unit at the same time, on any
// machines that share the folder of the sweep. No server is needed, and no clock is read. These invariants keep the
// work safe:
//
//  1. Claim. An attempt is a folder work/ID.N, for the unit ID and the attempt number N. The process that creates the
//     folder (mkdir) owns the attempt. The owner creates attempt.json in the folder, locks this file (flock), and only
//     then writes its note (AttemptNote) to the file. An attempt without a complete note never counts as a failed
//     attempt.
//  2. Life. The owner holds the lock until it publishes or leaves the attempt, or until its process ends. Other
//     processes treat an attempt as ended only if they can take its lock. On a file system without locks, they treat it
//     as ended only if its process ran on their own machine and no longer exists. The state of attempts from other
//     machines is then unknown, and they never count as failed attempts.
//  3. Ownership. While the owner of an attempt is alive, other processes do not write to its folder, rename it or
//     remove it. A process that holds the lock of an ended attempt may publish or remove it. Once a unit is finished,
//     attempts in an unknown state are also removed. If the owner of such an attempt is still alive, it finds the unit
//     finished and discards its work.
//  4. Order. `done` is the last file to be written. A removal deletes `done` first, then manifest.json, then the other
//     files, and attempt.json last. A process that copies or checks the rows of another process looks at manifest.json
//     last. If manifest.json is still the same file, no other file was missing because of a removal.
//  5. Publication. A single rename turns an attempt that has `done` into the folder of the unit. The first rename wins.
//     A unit's folder without `done` belongs to nobody and is removed.
//  6. Comparison. `done` contains a mark, which records checksums of the rows. If a second attempt finishes later, its
//     mark is compared with the mark of the unit. If the marks differ, the rows of both folders are read again. If the
//     rows of each folder still match its own mark, both folders are kept, and an error names both hosts.
//  7. Failures. If a unit is not finished, a record under `failed` prevents further attempts. If the unit is finished,
//     the record has an effect only while a second finished attempt is kept.
#pragma once
#include "core/host/descriptor.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

/// Progress of an attempt: the number of finished runs, and the step of the newest checkpoint of the next run.
struct UnitProgress {
    std::int64_t runs = 0, step = 0;

    auto operator<=>(const UnitProgress&) const = default;
};
UnitProgress progress_in(const std::filesystem::path& folder);

/// The owner of an attempt, and the progress that the attempt took over from an earlier attempt when it began.
struct AttemptNote {
    std::string host{}, shard{};
    std::int64_t process = 0;
    UnitProgress began{};
};

struct Attempt {
    int number = 0;
    std::filesystem::path folder{};
    bool has_rows = false;  ///< rows were copied from an earlier attempt, so training resumes
    AttemptNote note{};
    Descriptor lock{};  ///< attempt.json, locked while this process works on the attempt
};

/// Returns the numbers of the attempts at unit `id`, in ascending order.
std::vector<int> attempts_at(const std::filesystem::path& out, const std::string& id);
/// Reads the note of an attempt. Returns nothing if the note is missing or incomplete.
std::optional<AttemptNote> read_attempt_note(const std::filesystem::path& folder);

/// Returns the number of attempts that ended without progress since the last attempt that made progress. Attempts that
/// are not known to have ended are not counted.
int attempts_without_progress(const std::filesystem::path& out, const std::string& id);

/// Begins an attempt with the first free number after the last attempt. Copies the rows and checkpoints of the earlier
/// attempt with the most progress. Errors: Exit::cannot_write.
Attempt take_attempt(const std::filesystem::path& out, const std::string& id, const std::string& shard);
/// Removes everything in an attempt except its note, so that training begins again from step 0.
void empty_attempt(Attempt& attempt);
/// Ends an attempt without publishing it. Removes the attempt if it made no progress or if the unit is finished. An
/// attempt that has `done` is always kept, because its rows may differ from the rows of the unit.
void leave_attempt(const std::filesystem::path& out, const std::string& id, Attempt& attempt);
/// Removes all ended attempts at a unit except the attempt with the most progress.
void forget_attempts(const std::filesystem::path& out, const std::string& id);

enum class Published { by_us, by_another };
/// Writes `done` for a finished attempt, renames the attempt to the unit's folder, and calls remove_attempts(). If
/// another process published the unit first, compares the rows and removes this attempt if they are equal. Errors:
/// Exit::check_failed, naming both hosts, if the rows differ; Exit::cannot_write.
Published publish_unit(const std::filesystem::path& out, const std::string& id, Attempt& attempt);
/// Publishes an attempt that has `done` but whose process ended before the rename. Returns false if it finds none.
bool publish_leftover(const std::filesystem::path& out, const std::string& id);

bool is_done(const std::filesystem::path& out, const std::string& id);
/// Removes the attempts at a finished unit, except those whose owners are known to be alive. If an attempt is also
/// finished, its rows are first compared with the rows of the unit. Errors: Exit::check_failed, naming both hosts, if
/// the rows differ; both folders are then kept.
void remove_attempts(const std::filesystem::path& out, const std::string& id);
/// Returns whether a finished unit has a second finished attempt, which was kept.
bool has_finished_attempt(const std::filesystem::path& out, const std::string& id);

}  // namespace macheps::training
