// SPDX-License-Identifier: Apache-2.0
// What stands where in the folder of a sweep.
//
//     OUT/plan.toml  policies/*.toml  sweep.json   the plan as it is run
//         units/3f/3f9c0a71d2e4b856/               a finished unit: a run directory, and `done`
//         work/3f9c0a71d2e4b856.0/  .1/            attempts in hand or given up
//         failed/3f9c0a71d2e4b856.json             the last error of a unit
//         merged/                                  what `merge` wrote
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace macheps::training {

inline constexpr const char *sweep_file = "sweep.json", *done_file = "done", *attempt_file = "attempt.json",
                            *shards_file = "shards";

/// Sixteen hexadecimal digits, small.
bool is_unit_id(std::string_view text);

std::filesystem::path unit_folder(const std::filesystem::path& out, const std::string& id);
std::filesystem::path attempt_folder(const std::filesystem::path& out, const std::string& id, int attempt);
std::filesystem::path failure_path(const std::filesystem::path& out, const std::string& id);

/// Makes a folder and those above it. Throws Error, Exit::cannot_write.
void make_folders(const std::filesystem::path& folder);
/// Removes a folder with all in it, whoever may still write there. What cannot be removed stays.
void remove_folder(const std::filesystem::path& folder);
/// Puts the names in a folder onto the disk, where the system can.
void sync_folder(const std::filesystem::path& folder);

/// Of this machine.
std::string host_name();

}  // namespace macheps::training
