// SPDX-License-Identifier: Apache-2.0
// Converts plain text to LaTeX.
#pragma once
#include <string>
#include <string_view>

namespace macheps::reports {

/// Returns text that LaTeX prints as it is. Escapes every character that LaTeX treats specially. Typesets powers such
/// as 2^-12 and the signs of `report` (±, −, ×) in math mode, and quotations with the quotes of LaTeX. Control characters become spaces. Other characters
/// outside ASCII are kept: pdfLaTeX knows those of Latin scripts, LuaLaTeX knows all.
std::string latex_text(std::string_view text);

/// Returns a number in the form that siunitx parses: the exponent without a plus sign and leading zeros ("-1.5e-6").
/// Returns an empty text if `text` is not a finite number.
std::string siunitx_number(std::string_view text);

}  // namespace macheps::reports
