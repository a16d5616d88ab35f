// SPDX-License-Identifier: Apache-2.0
// FieldError reports a field with an invalid value.
//
// The library cannot know what its caller calls a field: `kv_heads` of ModelConfig is --kv-heads on a command line and
// a keyword in a script. `where` therefore contains the library's name of the field, and `what` and `fix` of every
// Error put names of fields in backquotes. A caller replaces these names with its own before it shows the error to a
// user.
#pragma once
#include "core/error.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace macheps {

class FieldError : public Error {
  public:
    /// `field` may be several names, joined by ", ". If the value of the field was read as text, `given` is that text.
    /// `where` then contains the field, followed by `given`.
    FieldError(std::string field, std::string what, std::string fix, const std::string& given = {})
        : Error({.what = std::move(what),
                 .where = given.empty() ? field : field + " " + given,
                 .fix = std::move(fix),
                 .exit = Exit::usage}),
          field_(std::move(field)) {}

    const std::string& field() const { return field_; }

  private:
    std::string field_;
};

/// Throws FieldError if `value` is outside [`least`, `greatest`]. The error names these limits.
inline void check_range(const char* field, std::int64_t value, std::int64_t least, std::int64_t greatest) {
    if (value >= least && value <= greatest) return;
    throw FieldError(field, std::to_string(value) + " is out of range",
                     "give " + std::to_string(least) + " to " + std::to_string(greatest));
}

}  // namespace macheps
