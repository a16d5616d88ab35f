// SPDX-License-Identifier: Apache-2.0
// Differing outputs of variants of matrix instructions, which have no traces, against the models. Host only.
#pragma once
#include "core/text/json.hpp"
#include "emulation/evidence/probe.hpp"

#include <string_view>

namespace macheps::evidence {

/// Whether the header is one of a file of differing outputs.
bool is_variant_capture(const Json& header);
/// The name of its form: `wgmma.m64n8k16.f32.f16.f16+chain4`.
std::string variant_of(const Json& header, const std::string& where);
/// Gives one row of the kind `replay` for each class of operands. An output that differs still has a note with the likely cause, by the
/// variant. Errors: throws Error that names `where` and the line when anything is off.
void replay_variant(std::string_view text, const std::string& where, const evidence::ProbeSink& sink);

}  // namespace macheps::evidence
