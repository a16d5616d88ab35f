// SPDX-License-Identifier: Apache-2.0
// Generators for the classes of operands that distributions.hpp defines.
#pragma once
#include "tests/machine/maker.hpp"

namespace macheps::machine_oracle::classes {

void random_bits(Maker& m, bool finite);
void normal(Maker& m);
void close_exponents(Maker& m);
void cancellation(Maker& m);
void subnormal(Maker& m);
void mixed(Maker& m);
void overflow(Maker& m);
void specials(Maker& m);
void integers(Maker& m, Class cls);

void alignment_edge(Maker& m);
void swamp(Maker& m);
void near_one_and_four(Maker& m);
void c_far(Maker& m, int direction);
void underflow(Maker& m);
void tie(Maker& m);
void zeros(Maker& m);

}  // namespace macheps::machine_oracle::classes
