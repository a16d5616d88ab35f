// SPDX-License-Identifier: Apache-2.0
// The options of a verb by the library's names of what they set.
#pragma once
#include "core/error.hpp"
#include "experiments/cmd/frame/cli.hpp"

#include <string>

namespace macheps::cmd {

/// The line that tells of `error`, as Error::what() has it but in the words of the command line: a field that the
/// error is about (FieldError) or that it names in backquotes gives way to the option of `verb` that sets it.
std::string in_options(const Command& verb, const Error& error);

}  // namespace macheps::cmd
