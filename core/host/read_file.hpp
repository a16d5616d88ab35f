// SPDX-License-Identifier: Apache-2.0
// Files that others give, read: the one door. Only what has an end is read, and no more of it than its reader can use.
// Host only.
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

/// Of a pipe, which has no size until it ends.
inline constexpr std::uint64_t most_pipe_bytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t any_bytes = std::numeric_limits<std::uint64_t>::max();

/// A file that is open for reading, and what it is.
struct OpenFile {
    Descriptor descriptor{};
    bool is_pipe = false;
    std::uint64_t bytes = 0;           ///< of a regular file, when it was opened
    std::uint64_t device = 0, id = 0;  ///< which file it is, on this machine
};

/// Throws Error, Exit::bad_input, for what is missing, for a folder, and for a device (`/dev/zero`), which has no end.
void check_has_end(const std::filesystem::path& path);

/// Opens a regular file or a pipe. Errors: as check_has_end; what may not be read.
OpenFile open_for_reading(const std::filesystem::path& path);

/// Hands a file to `take`, block by block and in order, and stops after `most` bytes; a pipe has most_pipe_bytes at
/// most. Errors: as open_for_reading.
void read_blocks(const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);
/// The same of a file that is open, named `path` in errors.
void read_blocks(const OpenFile& file, const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);

/// All bytes of a file. Throws Error, Exit::bad_input, for one of more than `most`.
std::string read_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Opens a file that only programs write, such as the rows of a run. Refuses a pipe as well, so that no reader waits for
/// a writer that never comes. Errors: as open_for_reading.
OpenFile open_regular_file(const std::filesystem::path& path);
/// Returns all bytes of such a file. Errors: as open_regular_file; Exit::bad_input for more than `most` bytes.
std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);
/// Calls read_regular_file. Returns nothing if the file is missing, or if another process removes it meanwhile.
std::optional<std::string> read_if_there(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Return whether the file exists, and whether it is a folder. Links are followed. They throw Error, Exit::bad_input, if
/// the system refuses an answer, for instance because a parent folder may not be searched. In that case
/// std::filesystem::exists(path, error) returns false, and an existing file would count as missing.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// The names in a folder, in no order. A folder that does not exist has none. Every other folder that cannot be read, to
/// its last name, throws Error, Exit::bad_input. This is the one place that lists folders: std::filesystem's iterators are
/// not used, because they drop errors easily, and libstdc++'s end the program if they find no memory.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Every regular file below `folder`, and links to regular files, in the order of their paths. Links to folders are not
/// followed. Errors: as names_in, also for a folder that does not exist.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

}  // namespace macheps
