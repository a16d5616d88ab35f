// SPDX-License-Identifier: Apache-2.0
// Prepares the process, so that the way in which it was started changes neither results nor files.
#pragma once

namespace macheps::cmd {

/// Prepares the process. main calls it first. It
/// - opens /dev/null as each of the descriptors 0 to 2 that is closed. Otherwise, the next file to be opened could get
///   the number of stderr, and progress would be written into that file, such as the rows of a run. Data printed on a
///   stdout that was closed still counts as not written;
/// - sets the default floating-point modes, whatever modes a library set while it was loaded;
/// - ignores the signal that a limit on the size of files (ulimit -f) causes. A write beyond the limit then fails as on
///   a full disk, and the program does not end.
void settle_process();

/// Exit code for a defect in macheps itself: EX_SOFTWARE of sysexits.h. It is not a value of the enum Exit.
inline constexpr int defect_exit = 70;

/// Reports the current exception in one line on stderr, and returns its exit code. The last handler in main calls it.
int explain_current_exception() noexcept;

}  // namespace macheps::cmd
