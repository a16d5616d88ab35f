// SPDX-License-Identifier: Apache-2.0
// Replaces the library's field names in an error by the options of a verb.
#pragma once
#include "core/error.hpp"
#include "experiments/cmd/frame/cli.hpp"

#include <string>

namespace macheps::cmd {

/// Returns the line that reports `error`. It is Error::what() with option names instead of field names: the field of a
/// FieldError, and each field in backquotes, is replaced by the option of `verb` that sets it.
std::string in_options(const Command& verb, const Error& error);

}  // namespace macheps::cmd
