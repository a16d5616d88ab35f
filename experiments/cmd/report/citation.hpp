// SPDX-License-Identifier: Apache-2.0
// The citation of macheps as BibTeX.
#pragma once
#include <string>

namespace macheps::cmd::report {

/// Returns the BibTeX entry of this program, with the key `macheps`. The facts come from CITATION.cff, which is part of
/// the program; the revision is that of the build. The year is that of the release or, without a release, of the commit.
std::string bibtex();

}  // namespace macheps::cmd::report
