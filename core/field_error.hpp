// SPDX-License-Identifier: Apache-2.0
// FieldError reports a field with an invalid value.
//
// The library cannot know by which name a user knows a field. For example, `kv_heads` of ModelConfig is the option
// --kv-heads on a command line and a keyword in a script. Errors therefore contain the library's own names of fields:
// `where` of a FieldError is such a name, and the texts `what` and `fix` of every Error put such names in backquotes.
// The caller replaces them with the names that its user knows before it shows the error.
#pragma once
#include "core/error.hpp"

#include <cstdint>
#include <string>
#include <utility>

namespace macheps {

class FieldError : public Error {
  public:
    /// `field` is the name of a field, or several names joined by ", ". `given` is the text from which the value was
    /// read, if any. `where` is then the name followed by this text.
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
