# SPDX-License-Identifier: Apache-2.0
"""Generates operands, as integer codes of a format, that have the same bits on every machine.

A capture records a class and a seed instead of its operands. Every code is made from random words by integer arithmetic
(splitmix64 in counter mode, modulo 2^64). Floating-point operations and random generators of libraries are not used, so
the result depends neither on the machine nor on the version of NumPy. To verify this, `self_check` returns a hash of
samples, which must be equal to SELF_CHECK.

    python3 scripts/gpu/operands.py      prints the hash, and exits with 1 if it is not equal to SELF_CHECK

The classes are chosen so that summation rules with different accumulators give different bits:
  plain       uniform in (-2, 2)
  wide        exponents spread over the range of the format, at most 24 binades
  cancelling  the second half of the terms cancels the first half, but the last bit of one term in eight differs
  swamp       one term in sixteen is much larger than the others
  positive    uniform in [0, 2): sums grow, and an accumulator with few bits stalls
"""
import hashlib
import sys
import zlib

import numpy as np

CLASSES = ("plain", "wide", "cancelling", "swamp", "positive")
SELF_CHECK = "29f672b3e81b305f"


class Format:
    """A binary format: its widths, the range of its powers of two, and the exponents that the classes use."""

    def __init__(self, bits, fraction, bias, least, most, wide, swamp):
        self.bits, self.fraction, self.bias = bits, fraction, bias
        self.least, self.most = least, most  # exponents of the smallest and the largest power of two
        self.wide, self.swamp = wide, swamp  # exponents: class wide; large terms of class swamp
        self.type = {8: np.uint8, 16: np.uint16, 32: np.uint32}[bits]


FORMATS = {
    "fp32": Format(32, 23, 127, -149, 127, (-16, 8), (8, 12)),
    "bf16": Format(16, 7, 127, -133, 127, (-16, 8), (8, 12)),
    "fp16": Format(16, 10, 15, -24, 15, (-12, 2), (3, 5)),
    "e4m3fn": Format(8, 3, 7, -9, 8, (-6, 6), (5, 7)),
    "e5m2": Format(8, 2, 15, -16, 15, (-12, 6), (6, 9)),
}
# tf32 products read fp32 operands. The hardware or the library drops the last 13 bits of each operand.
FORMATS["tf32"] = FORMATS["fp32"]


def words(seed, stream, count):
    """Returns `count` 64-bit words of splitmix64 in counter mode. Each stream is a different sequence."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        start = _mix(np.array([(seed << 8) + stream], np.uint64))
        return _mix(start + np.arange(1, count + 1, dtype=np.uint64) * golden)


def _mix(x):
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def seed_of(text):
    """Returns the seed that belongs to a name."""
    return zlib.crc32(text.encode())


def _bits(word, first, count):
    return (word >> np.uint64(first)) & np.uint64((1 << count) - 1)


def _trailing_zeros(x, most):
    """Returns the number of trailing zero bits of x, at most `most`."""
    zeros = np.zeros(x.shape, np.int64)
    open_ = np.ones(x.shape, bool)
    for bit in range(most):
        open_ &= _bits(x, bit, 1) == 0
        zeros += open_
    return zeros


def matrix(format, kind, seed, stream, rows, terms, shift=0):
    """Returns the codes [rows, terms] of the class `kind`. `shift` is added to all exponents.

    Bits of a random word: 0-22 give the fraction, 23 the sign, 24-39 the exponent. 40-47 select the terms that are
    large (swamp) or differ in the last bit (cancelling), and give the exponents of large terms.
    """
    f = FORMATS[format]
    w = words(seed, stream, rows * terms).reshape(rows, terms)
    fraction = _bits(w, 23 - f.fraction, f.fraction).astype(np.int64)
    sign = _bits(w, 23, 1).astype(np.int64)
    if kind == "wide":
        least, most = f.wide
        exponent = least + (_bits(w, 24, 16).astype(np.int64) * (most - least + 1) >> 16)
    else:
        # The number of trailing zeros of a random word has the same distribution as the exponent of a uniform number.
        exponent = -np.minimum(_trailing_zeros(_bits(w, 24, 16), 6), 6)
    if kind == "positive":
        sign[:] = 0
    if kind == "swamp":
        large = _bits(w, 40, 4) == 0
        low, high = f.swamp
        exponent = np.where(large, low + (_bits(w, 44, 4).astype(np.int64) * (high - low + 1) >> 4), exponent)
    if kind == "cancelling":
        half = terms // 2
        for field in (fraction, exponent, sign):
            field[:, half : 2 * half] = field[:, :half]
        if stream == 0:
            sign[:, half : 2 * half] ^= 1
            fraction[:, half : 2 * half] ^= (_bits(w, 40, 3) == 0)[:, half : 2 * half]
    exponent = np.clip(exponent + shift, 1 - f.bias, f.most)
    if format == "e4m3fn":  # fraction 7 with the largest exponent is NaN
        fraction = np.where(exponent == 8, np.minimum(fraction, 6), fraction)
    code = (sign << (f.bits - 1)) | ((exponent + f.bias) << f.fraction) | fraction
    return code.astype(f.type)


def product(format_a, format_b, kind, m, n, k, seed):
    """Returns the codes a [m, k] and b [n, k] of the operands of a product. b is transposed."""
    return matrix(format_a, kind, seed, 0, m, k), matrix(format_b, kind, seed, 1, n, k)


def scales(seed, stream, count):
    """Returns codes of `count` fp32 decode scales in [2^-3, 2^1), with random fractions."""
    w = words(seed, stream, count)
    return ((_bits(w, 24, 2).astype(np.int64) + 124 << 23) | _bits(w, 0, 23).astype(np.int64)).astype(np.uint32)


def integers(seed, stream, count, limit):
    """Returns `count` random integers from 0 to `limit` - 1. `limit` is at most 2^24."""
    return (_bits(words(seed, stream, count), 24, 32).astype(np.int64) * limit) >> 32


def cast_inputs(seed, count=65536):
    """Returns fp32 codes for casts: special values, ties of narrow formats, numbers next to ties, and random codes."""
    special = np.array([0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000,
                        0x7FFFFFFF, 0x7FC12345], np.int64)
    w = words(seed, 0, count)
    sign, near = _bits(w, 31, 1).astype(np.int64) << 31, _bits(w, 40, 2).astype(np.int64) - 1
    raw = _bits(w, 0, 32).astype(np.int64)
    ties = []
    # A tie is a number halfway between two numbers of the format: below the last bit that is kept, it has a one and
    # then only zeros. `near` moves it by -1, 0, 1 or 2 units in the last place of fp32. Below the smallest normal
    # number of the format, more bits are dropped.
    for fraction, least, most in ((7, -127, 127), (10, -26, 16), (3, -11, 9), (2, -18, 16)):
        exponent = least + (_bits(w, 48, 16).astype(np.int64) * (most - least + 1) >> 16)
        emin = {7: -126, 10: -14, 3: -6, 2: -14}[fraction]
        drop = np.clip(23 - fraction + np.maximum(emin - exponent, 0), 1, 24)
        significand = (raw & 0x7FFFFF) | 0x800000
        significand = (significand >> drop << drop) | (1 << (drop - 1))
        # A carry or borrow into the exponent field gives the correct neighbouring number.
        code = np.where(drop == 24, (exponent + 127 << 23), (exponent + 127 << 23) + (significand & 0x7FFFFF)) + near
        ties.append(sign | np.clip(code, 0, 0x7FFFFFFF))
    eighth = count // 8
    parts = [special, special | 0x80000000] + [t[: eighth + (eighth // 2 if i == 2 else 0)] for i, t in enumerate(ties)]
    made = np.concatenate(parts)
    return np.concatenate([made, raw[: count - made.size]]).astype(np.uint32)


def all_codes(bits):
    """Returns every code of a format of 8 or 16 bits."""
    return np.arange(1 << bits, dtype=np.uint16 if bits == 16 else np.uint8)


def decode(format, codes):
    """Returns the exact values of finite codes as float32. No step rounds."""
    f = FORMATS[format]
    codes = np.asarray(codes).astype(np.int64)
    if f.bits == 32:
        return codes.astype(np.uint32).view(np.float32)
    sign = codes >> (f.bits - 1)
    field = (codes >> f.fraction) & ((1 << (f.bits - 1 - f.fraction)) - 1)
    fraction = codes & ((1 << f.fraction) - 1)
    significand = np.where(field == 0, fraction, fraction + (1 << f.fraction)).astype(np.float64)
    value = np.ldexp(significand, np.maximum(field, 1) - f.bias - f.fraction)
    return np.where(sign == 1, -value, value).astype(np.float32)


def power_of_two(format, exponent):
    """Returns the code of 2^exponent."""
    f = FORMATS[format]
    if exponent >= 1 - f.bias:
        return (exponent + f.bias) << f.fraction
    return 1 << (exponent - (1 - f.bias - f.fraction))


def _ceil_log2(n):
    return (n - 1).bit_length()


def _masks(format_a, format_b, terms):
    """Returns the exponents of mask_a, mask_b, unit_a and unit_b, or None if the range of the formats is too small.

    These four operands are powers of two. The product mask_a * mask_b is so large that an fp32 sum does not change when
    `terms` - 2 products unit_a * unit_b are added to it. `macheps reveal --emit-operands` has the same exponents for
    kernels that sum in fp32.
    """
    a, b = FORMATS[format_a], FORMATS[format_b]
    vanishing, largest, least = 25, 60, -120

    def gap(mask):
        return mask - vanishing - _ceil_log2(terms) - 1

    def vanishes(mask, unit):
        return (terms - 2) * 2.0**unit < 2.0 ** (mask - vanishing)

    alone = min(a.most, largest)
    unit = max(gap(alone), a.least, least)
    if b.least <= 0 <= b.most and vanishes(alone, unit):
        return alone, 0, unit, 0
    mask = min(a.most + b.most, largest)
    unit = max(gap(mask), a.least + b.least, least)
    if not vanishes(mask, unit):
        return None

    def split(e):
        half = (e + 1) // 2 if e >= 0 else -(-e // 2)
        other = min(max(e - min(max(half, a.least), a.most), b.least), b.most)
        return e - other, other

    (mask_a, mask_b), (unit_a, unit_b) = split(mask), split(unit)
    return mask_a, mask_b, unit_a, unit_b


def near_pairs(terms):
    """Returns all pairs of terms whose distance is a power of two, sorted by first term, then by second term."""
    pairs = []
    for i in range(terms):
        distance = 1
        while i + distance < terms:
            pairs.append((i, i + distance))
            distance *= 2
    return pairs


def reveal(format_a, format_b, terms):
    """Returns the codes a and b [rows, terms] of FPRev's operands, or None if the range of the formats is too small.

    The kernel must sum the products of row r of a and row r of b. The first rows are controls. In each further row, the
    two terms of a pair of near_pairs are masks of opposite sign. If b is 1 everywhere, its rows are equal, so one of
    them is enough.
    """
    exponents = _masks(format_a, format_b, terms)
    if exponents is None:
        return None
    mask_a, mask_b, unit_a, unit_b = (power_of_two(f, e) for f, e in zip((format_a, format_b) * 2, exponents))
    sign = 1 << (FORMATS[format_a].bits - 1)
    controls, pairs = 1 + _ceil_log2(terms), np.array(near_pairs(terms))
    rows = controls + len(pairs)
    a = np.full((rows, terms), unit_a, FORMATS[format_a].type)
    b = np.full((rows, terms), unit_b, FORMATS[format_b].type)
    for row in range(1, controls):
        a[row, (np.arange(terms) >> (row - 1) & 1) == 0] = 0
    row = np.arange(controls, rows)
    a[row, pairs[:, 0]], a[row, pairs[:, 1]] = mask_a, mask_a | sign
    b[row, pairs[:, 0]] = b[row, pairs[:, 1]] = mask_b
    return a, b


def self_check():
    """Returns a hash of samples of all operands that this file generates."""
    digest = hashlib.sha256()
    for format in ("fp32", "bf16", "fp16", "e4m3fn", "e5m2"):
        for kind in CLASSES:
            a, b = product(format, format, kind, 7, 5, 65, seed_of(format + kind))
            digest.update(a.tobytes() + b.tobytes())
        for made in reveal(format, format, 64):
            digest.update(made.tobytes())
    digest.update(scales(3, 2, 100).tobytes() + integers(4, 2, 100, 1000).astype(np.int64).tobytes())
    digest.update(cast_inputs(5, 4096).tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    found = self_check()
    print(found)
    sys.exit(found != SELF_CHECK)
