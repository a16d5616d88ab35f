// SPDX-License-Identifier: Apache-2.0
// An attempt at a unit: a folder of its own under `work`, which no other process writes in, until the finished unit is
// published by renaming it. So a process that was thought dead and still writes can harm nobody.
#pragma once
#include "experiments/sweep/sweep.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace macheps {

/// How far an attempt has come: runs that are over, and steps of the next one that a checkpoint holds.
struct UnitProgress {
    std::int64_t runs = 0, step = 0;

    auto operator<=>(const UnitProgress&) const = default;
};
UnitProgress progress_in(const std::filesystem::path& folder);

/// Whose an attempt is; written before anything else in it.
struct AttemptNote {
    std::string host{}, shard{};
    std::int64_t process = 0;
    UnitProgress began{};
};

struct Attempt {
    int number = 0;
    std::filesystem::path folder{};
    bool has_rows = false;  ///< copied from an earlier attempt: training resumes
    UnitProgress began{};
};

/// The attempts at a unit that stand under `work`, in ascending order.
std::vector<int> attempts_at(const std::filesystem::path& out, const std::string& id);
/// Nothing where the note is missing or half written.
std::optional<AttemptNote> read_attempt_note(const std::filesystem::path& folder);

/// How many of the last attempts ended where they had begun; those whose processes are at work here are not counted.
int attempts_without_progress(const std::filesystem::path& out, const std::string& id);

/// Takes the least number that is free behind the last, and copies rows and checkpoint of the attempt that came farthest.
/// Errors: Exit::cannot_write.
Attempt take_attempt(const std::filesystem::path& out, const std::string& id, const std::string& shard);
/// Removes all that an attempt holds but its note: training begins anew.
void empty_attempt(Attempt& attempt);

enum class Published { by_us, by_another };
/// Marks a finished attempt and renames it to the unit's folder, then removes earlier attempts. Where another process was
/// first, our own is removed if its rows are the same.
/// Errors: Exit::check_failed, naming both hosts, where they are not; Exit::cannot_write.
Published publish_unit(const std::filesystem::path& out, const std::string& id, const Attempt& attempt);
/// Publishes an attempt that was marked and not renamed before its process ended; false where there is none.
bool publish_leftover(const std::filesystem::path& out, const std::string& id);

bool is_done(const std::filesystem::path& out, const std::string& id);
/// Of a finished unit: attempts that others left. One that was finished too goes where its rows are the same.
/// Errors: Exit::check_failed, naming both hosts, where they are not, and both stay.
void remove_attempts(const std::filesystem::path& out, const std::string& id);

}  // namespace macheps
