// SPDX-License-Identifier: Apache-2.0
// A verdict as text and as JSON.
#pragma once
#include "core/json.hpp"
#include "experiments/check/check.hpp"

#include <string>
#include <vector>

namespace macheps {

/// What a check was told, beside its arrays.
struct CheckedFiles {
    std::vector<std::string> files{}, unused{};  ///< arrays that no role has
    std::string digest{};                        ///< sha256 of all files, one after the other
};

std::string check_text(const check::Problem& problem, const check::Verdict& verdict, const check::Options& options,
                       const CheckedFiles& files);
/// The document `macheps.check/1`.
Json check_json(const check::Problem& problem, const check::Verdict& verdict, const check::Options& options,
                const CheckedFiles& files);

}  // namespace macheps
