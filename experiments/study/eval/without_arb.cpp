// SPDX-License-Identifier: Apache-2.0
// Implements enclosure.hpp in a build without Arb.
#include "core/error.hpp"
#include "experiments/study/eval/enclosure.hpp"

namespace macheps::study {

bool has_enclosures() { return false; }

void require_enclosures() {
    throw Error({.what = "this build does not include Arb, which computes the exact values of formulas",
                 .where = "macheps eval",
                 .fix = "use the program of a released Python wheel, which includes Arb; or install FLINT (Debian 12: "
                        "libflint-arb-dev; Ubuntu 24.04: libflint-dev), then configure and build macheps again",
                 .exit = Exit::no_device});
}

std::optional<FormulaReference> reference_value(const Expression&, const Format&, Round, const std::vector<double>&) {
    require_enclosures();
    return std::nullopt;
}
std::optional<bool> is_precondition_met(const Expression&, const std::vector<double>&) {
    require_enclosures();
    return std::nullopt;
}
std::optional<double> enclosed_call(Op, const std::vector<double>&, const Format&, Round, RandomBits) {
    require_enclosures();
    return std::nullopt;
}
std::optional<double> enclosed_literal(const Node&, const Format&, Round, RandomBits) {
    require_enclosures();
    return std::nullopt;
}
void free_enclosure_memory() {}

}  // namespace macheps::study
