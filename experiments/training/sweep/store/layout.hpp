// SPDX-License-Identifier: Apache-2.0
// Layout of the folder of a sweep.
//
//     OUT/plan.toml  policies/*.toml  sweep.json   the plan, its policies and the sweep
//         units/3f/3f9c0a71d2e4b856/               a finished unit: a run directory, and `done`
//         work/3f9c0a71d2e4b856.0/  .1/            attempts that are in progress or given up
//         failed/3f9c0a71d2e4b856.json             the last error of a unit
//         merged/                                  files written by `merge`
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace macheps::training {

inline constexpr const char *sweep_file = "sweep.json", *done_file = "done", *attempt_file = "attempt.json",
                            *shards_file = "shards";

/// Returns true for sixteen hexadecimal digits in lowercase.
bool is_unit_id(std::string_view text);

std::filesystem::path unit_folder(const std::filesystem::path& out, const std::string& id);
std::filesystem::path attempt_folder(const std::filesystem::path& out, const std::string& id, int attempt);
std::filesystem::path failure_path(const std::filesystem::path& out, const std::string& id);

/// Makes a folder and its missing parents. Throws Error, Exit::cannot_write.
void make_folders(const std::filesystem::path& folder);
/// Removes a folder and its contents, even if another process still writes to it. Files that cannot be removed stay.
void remove_folder(const std::filesystem::path& folder);
/// Flushes the directory entries of a folder to the disk, if the system supports this.
void sync_folder(const std::filesystem::path& folder);

/// Returns the name of this machine.
std::string host_name();

}  // namespace macheps::training
