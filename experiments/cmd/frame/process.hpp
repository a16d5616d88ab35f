// SPDX-License-Identifier: Apache-2.0
// What the program settles about its process, so that how it was started changes neither a bit nor a file.
#pragma once

namespace macheps::cmd {

/// First thing in main:
/// - descriptors 0 to 2 that are closed become /dev/null. The next file that is opened would get the number of stderr,
///   and progress would be written into the rows of a run. Data that is printed on a stdout that was closed still counts
///   as not written;
/// - the floating-point modes are the default ones, whatever a library set while it was loaded;
/// - a limit on the size of files (ulimit -f) makes a write fail, as a full disk does, and ends nothing.
void settle_process();

/// The exit code of a defect of macheps itself, which is none of class Exit: EX_SOFTWARE of sysexits.h.
inline constexpr int defect_exit = 70;

/// Says in one line what the exception in flight is, and returns the exit code for it. For the last of main's handlers.
int explain_current_exception() noexcept;

}  // namespace macheps::cmd
