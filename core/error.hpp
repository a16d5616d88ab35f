// SPDX-License-Identifier: Apache-2.0
// The exception type of macheps, and the exit codes of the program macheps. Host only.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace macheps {

/// Exit codes of the program. Each Error has one of them.
enum class Exit : int {
    ok = 0,
    check_failed = 1,
    usage = 2,
    bad_input = 3,
    no_device = 4,
    cannot_write = 5,
    stopped = 75,  ///< stopped by a signal after everything was saved; the work can be resumed
};

/// An error that states what went wrong, where, and how to fix it.
class Error : public std::exception {
  public:
    struct Parts {
        std::string what;
        std::string where{};
        std::string fix{};
        Exit exit = Exit::bad_input;
    };

    explicit Error(Parts parts) : parts_(std::move(parts)) {
        line_ = parts_.where.empty() ? parts_.what : parts_.where + ": " + parts_.what;
        if (!parts_.fix.empty()) line_ += " (" + parts_.fix + ")";
    }

    const char* what() const noexcept override { return line_.c_str(); }
    const Parts& parts() const { return parts_; }
    Exit exit() const { return parts_.exit; }

  private:
    Parts parts_;
    std::string line_;
};

/// Returns an Error with exit code 2, for wrong options and arguments.
inline Error usage_error(std::string what, std::string where = {}, std::string fix = {}) {
    return Error({.what = std::move(what), .where = std::move(where), .fix = std::move(fix), .exit = Exit::usage});
}

}  // namespace macheps
