// SPDX-License-Identifier: Apache-2.0
// Replay of differing outputs against the models, for variants of matrix instructions, which have no traces. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/probe.hpp"

#include <string_view>

namespace macheps::evidence {

/// Returns whether the header is that of a file of differing outputs.
bool is_variant_capture(const Json& header);
/// Returns the name of the file's form: `wgmma.m64n8k16.f32.f16.f16+chain4`.
std::string variant_of(const Json& header, const std::string& where);
/// Gives one row of the kind `replay` for each class of operands. If an output still differs, the row's note gives the
/// likely cause, judged by the variant. Errors: throws Error that names `where` and the line if the text is not valid.
void replay_variant(std::string_view text, const std::string& where, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
