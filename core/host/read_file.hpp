// SPDX-License-Identifier: Apache-2.0
// Reads files. macheps reads all input files through this header. The functions read only files that have an end, and
// only as many bytes as the caller can use. Host only.
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

/// Throws Error, Exit::bad_input, if `path` is missing, is a folder, or is a device. A device such as `/dev/zero` has
/// no end.
void check_has_end(const std::filesystem::path& path);

/// Opens a regular file or a pipe. Errors: as check_has_end; also throws Error if the file cannot be opened, for
/// example because the process has no permission to read it.
OpenFile open_for_reading(const std::filesystem::path& path);

/// Reads a file block by block, passes each block to `take`, and stops after `most` bytes. A pipe may deliver at most
/// max_pipe_bytes. Errors: as open_for_reading.
void read_blocks(const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);
/// Does the same for a file that is already open. `path` is only used to name the file in error messages.
void read_blocks(const OpenFile& file, const std::filesystem::path& path, std::uint64_t most,
                 const std::function<void(std::string_view)>& take);

/// Returns all bytes of a file. Throws Error, Exit::bad_input, if there are more than `most`.
std::string read_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Opens a file that a program wrote, such as the output of a run. Unlike open_for_reading, this function throws Error
/// for a pipe, because opening a pipe could wait forever for a writer. Other errors: as open_for_reading.
OpenFile open_regular_file(const std::filesystem::path& path);
/// Opens a file with open_regular_file and returns all its bytes. Errors: as open_regular_file; Exit::bad_input for
/// more than `most` bytes.
std::string read_regular_file(const std::filesystem::path& path, std::uint64_t most = any_bytes);
/// Calls read_regular_file. Returns nothing if the file is missing, or if another process removes it during the call.
std::optional<std::string> read_if_there(const std::filesystem::path& path, std::uint64_t most = any_bytes);

/// Return whether `path` exists, and whether it is a folder. Links are followed. Both functions throw Error,
/// Exit::bad_input, if the answer is unknown, for instance because the process has no permission to search a parent
/// folder. In that case, std::filesystem::exists(path, error) would return false for a file that exists.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// Returns the names in a folder, in no particular order, or no names if the folder does not exist. Throws Error,
/// Exit::bad_input, if the folder cannot be read completely for another reason. All code lists folders through this
/// function. The iterators of std::filesystem are not used, because errors are easily lost with them, and because those
/// of libstdc++ terminate the program if they cannot allocate memory.
std::vector<std::string> names_in(const std::filesystem::path& folder);

/// Returns every regular file below `folder` and every link to a regular file, sorted by path. Links to folders are not
/// followed. Errors: as names_in; also throws Error if `folder` does not exist.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

}  // namespace macheps
