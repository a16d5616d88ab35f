// SPDX-License-Identifier: Apache-2.0
// Replay of variants of matrix instructions. Variants have no traces, so a probe records only the outputs that differ
// from the model. Replay compares these outputs with the models of this program. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/probe.hpp"

#include <string_view>

namespace macheps::evidence {

/// Returns whether `header` belongs to a file of differing outputs.
bool is_variant_capture(const Json& header);
/// Returns the name of the instruction form in the file: `wgmma.m64n8k16.f32.f16.f16+chain4`.
std::string variant_of(const Json& header, const std::string& where);
/// Replays one file. Emits one row of the kind `replay` for each class of operands. If an output still differs, the
/// note of the row gives likely causes, which follow from the properties of the variant. Errors: throws Error that
/// names `where` and the line if the text is not valid.
void replay_variant(std::string_view text, const std::string& where, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
