// SPDX-License-Identifier: Apache-2.0
// Multiplies polynomials over GF(2). This is the only function that NTL takes from the library gf2x. Debian's gf2x is
// under the GPL, so the wheel contains this library in its place (scripts/release). macheps itself never calls it: Arb
// needs FLINT, and Debian's FLINT loads NTL.

// scripts/notices looks for this text in the wheel.
const char macheps_gf2x_notice[] = "gf2x_mul of macheps, Apache-2.0";

/// Sets c = a b. a has `an` words and b has `bn` words, with the lowest coefficients first. c has an + bn words and
/// does not overlap a or b. Returns 0.
int gf2x_mul(unsigned long* c, const unsigned long* a, unsigned long an, const unsigned long* b, unsigned long bn) {
    const unsigned long bits = 8 * sizeof(unsigned long);
    for (unsigned long i = 0; i < an + bn; ++i) c[i] = 0;
    for (unsigned long bit = 0; bit < bits * an; ++bit) {
        const unsigned long word = bit / bits, shift = bit % bits;
        if (!(a[word] >> shift & 1)) continue;
        for (unsigned long j = 0; j < bn; ++j) {
            c[word + j] ^= b[j] << shift;
            if (shift) c[word + j + 1] ^= b[j] >> (bits - shift);
        }
    }
    return 0;
}
