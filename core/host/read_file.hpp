// SPDX-License-Identifier: Apache-2.0
// Reads files. All input files are read through this header. It reads only files that have an end, and only as much of
// them as the caller can use. Host only.
#pragma once
#include "core/host/descriptor.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace macheps {

/// Maximum number of bytes read from a pipe, whose size is unknown until it ends.
inline constexpr std::uint64_t max_pipe_bytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t any_bytes = std::numeric_limits<std::uint64_t>::max();

/// A file that is open for reading, and its properties.
struct OpenFile {
    Descriptor descriptor{};
    bool is_pipe = false;
    std::uint64_t bytes = 0;           ///< size of a regular file when it was opened
    std::uint64_t device = 0, id = 0;  ///< identify the file on this machine
};

/// Throws Error, Exit::bad_input, if `path` is missing, a folder, or a device (`/dev/zero`), which has no end.
void check_has_end(const std::filesystem::path& path);

/// Opens a regular file or a pipe. Errors: as check_has_end, and if the file may not be read.
OpenFile open_for_reading(const std::filesystem::path& path);

/// Passes a file to `take` block by block and in order, and stops after `most` bytes. A pipe may have at most
/// max_pipe_bytes. Errors: as open_for_reading.
void read_blocks(const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);
/// Does the same for an open file, which errors call `path`.
void read_blocks(const OpenFile& file, const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);

/// Returns all bytes of a file. Throws Error, Exit::bad_input, if there are more than `most`.
std::string read_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Opens a file that only programs write, such as the rows of a run. Refuses a pipe as well, so that no reader waits
/// for a writer that never comes. Errors: as open_for_reading.
OpenFile open_regular_file(const std::filesystem::path& path);
/// Returns all bytes of such a file. Errors: as open_regular_file; Exit::bad_input for more than `most` bytes.
std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);
/// Calls read_regular_file. Returns nothing if the file is missing, or if another process removes it meanwhile.
std::optional<std::string> read_if_there(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Return whether the file exists, and whether it is a folder. Links are followed. They throw Error, Exit::bad_input,
/// if the system refuses an answer, for instance because a parent folder may not be searched. In that case
/// std::filesystem::exists(path, error) returns false, and an existing file would count as missing.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Returns the names in a folder, in no particular order. A folder that does not exist has none. Throws Error,
/// Exit::bad_input, if a folder cannot be read completely for another reason. All code lists folders through this
/// function. std::filesystem's iterators are not used, because they drop errors easily, and libstdc++'s terminate the
/// program if they cannot allocate memory.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Returns every regular file below `folder` and every link to a regular file, sorted by path. Links to folders are not
/// followed. Errors: as names_in, and if the folder does not exist.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

}  // namespace macheps
