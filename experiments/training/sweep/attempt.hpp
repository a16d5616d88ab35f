// SPDX-License-Identifier: Apache-2.0
// Attempts at a unit. Any number of processes, on any machines that see the folder, may work at one unit at the same
// time. No server is needed, and no clock is read. These invariants keep the work safe:
//
//  1. Claim. An attempt is a folder work/ID.N. The process that makes the folder (mkdir) owns the attempt. It makes
//     attempt.json in it, locks that file (flock), and only then writes its note into it. An attempt without a whole
//     note is never counted.
//  2. Life. The owner holds the lock until it publishes or leaves the attempt, or ends in any way. An attempt has ended
//     only if its lock can be taken. On a file system without locks, an attempt has ended only if its process ran on
//     this machine and is gone; nothing is known there about the attempts of other machines, and they are never
//     counted.
//  3. Ownership. Other processes do not write in the folder of a living attempt, and do not rename or remove it. A
//     process that holds the lock of an ended attempt may publish or remove it. Once a unit is finished, attempts in
//     an unknown state are removed as well. An owner that loses its files for this reason finds the unit finished and
//     drops its work.
//  4. Order. `done` is written last. A removal starts with `done`, then removes manifest.json, and attempt.json last. A
//     process that copies or checks rows of another process looks for manifest.json after all other files: if it is
//     still the same file, no file was missing because of a removal.
//  5. Publication. The folder of a unit appears by one rename of an attempt that has `done`. The first rename wins. A
//     unit's folder without `done` belongs to nobody and is removed.
//  6. Comparison. Every later attempt that finishes is compared with the unit. If the marks differ, both folders are
//     read again. If each still agrees with its own mark, both are kept, and an error names both hosts.
//  7. Failures. A record under `failed` stops a unit that is not finished. For a finished unit it counts only while a
//     second finished attempt is kept.
#pragma once
#include "core/host/descriptor.hpp"
#include "experiments/training/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps::training {

/// Progress of an attempt: runs that are over, and steps of the next run that a checkpoint holds.
struct UnitProgress {
    std::int64_t runs = 0, step = 0;

    auto operator<=>(const UnitProgress&) const = default;
};
UnitProgress progress_in(const std::filesystem::path& folder);

/// The owner of an attempt, and how far the attempt had come when it began.
struct AttemptNote {
    std::string host{}, shard{};
    std::int64_t process = 0;
    UnitProgress began{};
};

struct Attempt {
    int number = 0;
    std::filesystem::path folder{};
    bool has_rows = false;  ///< copied from an earlier attempt: training resumes
    AttemptNote note{};
    Descriptor lock{};  ///< attempt.json, locked while this process works at the attempt
};

/// Returns the numbers of the attempts at a unit that are under `work`, in ascending order.
std::vector<int> attempts_at(const std::filesystem::path& out, const std::string& id);
/// Returns nothing if the note is missing or half written.
std::optional<AttemptNote> read_attempt_note(const std::filesystem::path& folder);

/// Returns how many of the last attempts ended where they had begun. Attempts that are not known to have ended are not
/// counted.
int attempts_without_progress(const std::filesystem::path& out, const std::string& id);

/// Claims the first free number after the last attempt, and copies rows and checkpoints of the attempt that came
/// farthest. Errors: Exit::cannot_write.
Attempt take_attempt(const std::filesystem::path& out, const std::string& id, const std::string& shard);
/// Removes everything in an attempt except its note: training begins again from step 0.
void empty_attempt(Attempt& attempt);
/// Ends an attempt that will not be published. Removes it if it came no further than it began, or if the unit is
/// finished. Keeps a finished attempt whose rows differ from the unit's.
void leave_attempt(const std::filesystem::path& out, const std::string& id, Attempt& attempt);
/// Removes the ended attempts at a unit, except the one that came farthest.
void forget_attempts(const std::filesystem::path& out, const std::string& id);

enum class Published { by_us, by_another };
/// Marks a finished attempt, renames it to the unit's folder, and removes attempts that have ended. If another process
/// was first, removes our own attempt if its rows are the same. Errors: Exit::check_failed, naming both hosts, if they
/// are not; Exit::cannot_write.
Published publish_unit(const std::filesystem::path& out, const std::string& id, Attempt& attempt);
/// Publishes an attempt whose process ended between its mark and the rename. Returns false if there is none.
bool publish_leftover(const std::filesystem::path& out, const std::string& id);

bool is_done(const std::filesystem::path& out, const std::string& id);
/// Removes the attempts at a finished unit whose owners are gone. A finished attempt is removed if its rows are the
/// same. Errors: Exit::check_failed, naming both hosts, if they are not; both stay.
void remove_attempts(const std::filesystem::path& out, const std::string& id);
/// Returns whether an attempt at a finished unit is kept because it was finished as well.
bool has_finished_attempt(const std::filesystem::path& out, const std::string& id);

}  // namespace macheps::training
