# SPDX-License-Identifier: Apache-2.0
"""Computes matrix products in NumPy with a given order of summation. judge_captures.py compares captures with them.

macheps models the sums of instructions and of some libraries. This file models the same sums, and in addition parts of
library sums for which macheps has no rule: slices of any length, interleaved slices, an incomplete first tile, and
operands rounded to tf32. A model reproduces the bits of a kernel. It is not an approximation.
"""
import dataclasses

import numpy as np

import operands


@dataclasses.dataclass(frozen=True)
class Rule:
    """The order and the rounding of the sum of one output.

    A chain adds the terms in ascending order, in steps. A step adds up to `terms` products to the sum. It truncates the
    products and the sum `bits` bits below their largest exponent, and adds them exactly. Then it truncates the result
    to fp32, truncates it to 13 fraction bits (e8m13), or rounds it to fp16. With terms = 0, a step is one fp32 fma.
    """

    terms: int = 16
    bits: int = 25
    delivery: str = "fp32"  # format of the result of a step: fp32, e8m13, fp16
    convert: str = ""  # rounding of fp32 operands to tf32: nearest_even, nearest_away, cut (truncation)
    tile: int = 0  # terms of a tile; the incomplete tile of a slice comes first, as in CUTLASS 2; 0: it comes last
    slice: int = 0  # terms of a slice; 0: all terms are one slice
    lanes: int = 0  # number of interleaved slices: slice i has the terms t with (t // turn) % lanes == i
    turn: int = 8
    join: str = "ascending"  # how slices are added: ascending, halves, rounded (slices to the output's format), serial
    promote: int = 0  # number of terms after which the sum is added to an fp32 sum and restarts; 0: never
    pairs_of_four: bool = False  # of each 32 terms, the terms with t % 4 < 2 come first

    def __str__(self):
        if self.terms == 0:
            text = "fma chain"
        else:
            text = f"{self.terms} terms, {self.bits} bits" + (f", {self.delivery}" if self.delivery != "fp32" else "")
        parts = [text]
        if self.convert:
            parts.append(f"operands rounded to tf32 by {self.convert}")
        if self.tile:
            parts.append(f"tiles of {self.tile}, the rest first")
        if self.slice:
            parts.append(f"slices of {self.slice} added {self.join}")
        if self.lanes:
            parts.append(f"{self.lanes} slices that take turns of {self.turn}, added {self.join}")
        if self.promote:
            parts.append(f"promoted every {self.promote}")
        if self.pairs_of_four:
            parts.append("terms 0 1 4 5 8 9 ... of each 32 first")
        return ", ".join(parts)


class Operand:
    """Numbers as signed integer significands and exponents: value = significand * 2^(exponent - fraction)."""

    def __init__(self, format, codes, rule=None):
        codes = np.ascontiguousarray(codes)
        if format in ("fp32", "tf32") and rule is not None and rule.terms:
            codes, format = to_tf32(codes, rule.convert or "cut"), "tf32"
        elif format == "tf32":  # names a tf32 product in PyTorch; its operands are fp32
            format = "fp32"
        f = operands.FORMATS[format]
        c = codes.astype(np.int64)
        field = (c >> f.fraction) & ((1 << (f.bits - 1 - f.fraction)) - 1)
        fraction = c & ((1 << f.fraction) - 1)
        size = np.where(field == 0, fraction, fraction + (1 << f.fraction))
        drop = 13 if format == "tf32" else 0
        self.fraction = f.fraction - drop
        self.significand = np.where(c >> (f.bits - 1) & 1, -(size >> drop), size >> drop)
        self.exponent = np.maximum(field, 1) - f.bias
        self.codes = codes

    def take(self, terms):
        part = object.__new__(Operand)
        part.fraction = self.fraction
        part.significand, part.exponent, part.codes = (x[:, terms] for x in (self.significand, self.exponent, self.codes))
        return part

    def values(self):
        return np.ldexp(self.significand.astype(np.float64), self.exponent - self.fraction).astype(np.float32)


def to_tf32(codes, how):
    """Rounds fp32 codes to tf32, so that their last 13 bits are zero. Does not support NaN and infinities."""
    if how == "nearest_even":
        codes = codes + (np.uint32(0xFFF) + (codes >> np.uint32(13) & np.uint32(1)))
    elif how == "nearest_away":
        codes = codes + np.uint32(0x1000)
    return codes & np.uint32(0xFFFFE000)


def to_bf16(x):
    """Rounds numbers to nearest even in bf16 and returns their codes. Does not support NaN."""
    code = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((code + 0x7FFF + ((code >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def codes(x, format):
    """Rounds sums to `format`, the format of the output, and returns their codes."""
    if format == "bf16":
        return to_bf16(x)
    with np.errstate(over="ignore"):
        made = np.ascontiguousarray(x, np.float16 if format == "fp16" else np.float32)
    return made.view(np.uint16 if format == "fp16" else np.uint32)


def rounded(x, format):
    """Rounds numbers to `format` and returns them as fp32 numbers."""
    if format == "bf16":
        return (to_bf16(x).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return codes(x, format).view(np.float16).astype(np.float32) if format == "fp16" else x


def cut_to(x, fraction):
    """Truncates exact fp64 numbers to fp32 numbers with `fraction` fraction bits."""
    drop = np.uint64(52 - fraction)
    cut = (np.ascontiguousarray(x, np.float64).view(np.uint64) >> drop << drop).view(np.float64)
    small = np.abs(x) < 2.0**-126
    if small.any():
        cut = np.where(small, np.trunc(np.ldexp(x, 149)) * 2.0**-149, cut)
    return (cut + 0.0).astype(np.float32)  # a negative number that is truncated to zero gives +0


def fma(a, b, c):
    """Returns fma(a, b, c) in fp32. Rounding the fp64 sum to odd makes the second rounding, to fp32, correct."""
    product, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    code = total.view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where((error != 0) & (code & 1 == 0), code + step, code).view(np.float64).astype(np.float32)


def step(rule, a, b, c):
    """Adds the products of a [m, L] and b [n, L] to the sums c [m, n] in one step, and returns the new sums."""
    product = a.significand[:, None, :] * b.significand[None, :, :]
    exponent = a.exponent[:, None, :] + b.exponent[None, :, :]
    half = rule.delivery == "fp16"
    zero = -21 if half else -133
    addend = np.where(c == 0, zero, np.maximum(np.frexp(c.astype(np.float64))[1] - 1, -14 if half else -126))
    unit = np.maximum(np.where(product == 0, -100000, exponent).max(-1), addend) - rule.bits
    shift = np.clip(exponent - (a.fraction + b.fraction) - unit[..., None], -63, 62)
    size = np.abs(product)
    size = np.where(shift >= 0, size << np.maximum(shift, 0), size >> np.maximum(-shift, 0))
    total = np.where(product < 0, -size, size).sum(-1)
    total = total + np.trunc(np.ldexp(c.astype(np.float64), -unit)).astype(np.int64)
    exact = np.ldexp(total.astype(np.float64), unit)
    if half:
        with np.errstate(over="ignore"):
            return (exact + 0.0).astype(np.float16)
    return cut_to(exact, 13 if rule.delivery == "e8m13" else 23)


def steps(rule, count):
    """Returns, for a slice of `count` terms, the terms that each step adds."""
    if rule.pairs_of_four:
        order = [s + 4 * i + j + h for s in range(0, count, 32) for h in (0, 2) for i in range(8) for j in (0, 1)]
        return [order[i : i + rule.terms] for i in range(0, count, rule.terms)]
    made, begin = [], 0
    end = (count % rule.tile or rule.tile) if rule.tile else count
    while begin < count:
        made += [slice(t, min(t + rule.terms, end)) for t in range(begin, end, rule.terms)]
        begin, end = end, min(end + (rule.tile or count), count)
    return made


def chain(rule, a, b, c=None):
    """Returns the sums of one slice. They start from c, or from zero."""
    m, k = a.significand.shape
    if c is None:
        c = np.zeros((m, b.significand.shape[0]), np.float16 if rule.delivery == "fp16" else np.float32)
    if rule.terms == 0:
        x, y = a.values(), b.values()
        for t in range(k):
            c = fma(np.broadcast_to(x[:, t, None], c.shape), np.broadcast_to(y[None, :, t], c.shape), c)
        return c
    for terms in steps(rule, k):
        c = step(rule, a.take(terms), b.take(terms), c)
    return c


def promoted(rule, a, b):
    if not rule.promote:
        return chain(rule, a, b)
    total = None
    for begin in range(0, a.significand.shape[1], rule.promote):
        terms = slice(begin, begin + rule.promote)
        part = chain(rule, a.take(terms), b.take(terms))
        total = part if total is None else total + part
    return total


def joined(rule, parts, out):
    if rule.join == "halves":
        parts = list(parts)
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            parts = [parts[i] + parts[i + half] if i + half < len(parts) else parts[i] for i in range(half)]
        return parts[0]
    if rule.join == "rounded":
        parts = [rounded(p, out) for p in parts]
    total = rounded(parts[0], out) if rule.join == "serial" else parts[0]
    for part in parts[1:]:
        total = total + part
        if rule.join == "serial":
            total = rounded(total, out)
    return total


def product(rule, format_a, format_b, a, b, out):
    """Returns the sums [m, n] of codes a [m, k] and b [n, k], before scales, bias and the rounding to `out`."""
    a, b = Operand(format_a, a, rule), Operand(format_b, b, rule)
    k = a.significand.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        if rule.lanes:
            places = [np.flatnonzero(np.arange(k) // rule.turn % rule.lanes == i) for i in range(rule.lanes)]
        elif rule.slice:
            places = [slice(t, min(t + rule.slice, k)) for t in range(0, k, rule.slice)]
        else:
            return promoted(rule, a, b)
        return joined(rule, [promoted(rule, a.take(p), b.take(p)) for p in places], out)


def scaled(total, a_scale, b_scale, order):
    """Returns the sums times the decode scales, which broadcast to [m, n]."""
    if order == "joint":
        return total * (a_scale * b_scale)
    return (total * a_scale) * b_scale if order == "a_first" else (total * b_scale) * a_scale


def block_scaled(format_a, format_b, a, b, a_scale, b_scale, order):
    """Returns the sums of fp8 products. a_scale [m, blocks] and b_scale [n, blocks] have a scale per 128 terms."""
    rule = Rule(32, 13, "e8m13")
    a, b = Operand(format_a, a), Operand(format_b, b)
    total = np.zeros((a.codes.shape[0], b.codes.shape[0]), np.float32)
    for block in range(a_scale.shape[1]):
        terms = slice(128 * block, 128 * block + 128)
        part = chain(rule, a.take(terms), b.take(terms))
        x, y = (np.broadcast_to(s, part.shape) for s in (a_scale[:, block, None], b_scale[None, :, block]))
        if order == "fma_joint":
            total = fma(part, x * y, total)
        elif order == "fma_left":
            total = fma(part * x, y, total)
        elif order == "fma_right":
            total = fma(part * y, x, total)
        else:
            total = total + part * (x * y)
    return total


def split_fp32(x, format, pieces, convert="nearest_away"):
    """Returns the pieces into which Triton splits fp32 numbers. Each is the rounded remainder of the earlier pieces."""
    rest, made = x, []
    for _ in range(pieces):
        if format == "tf32" and len(made) < pieces - 1:
            piece = to_tf32(np.ascontiguousarray(rest).view(np.uint32), convert).view(np.float32)
        else:
            piece = rounded(rest, "bf16") if format == "bf16" else rest
        made.append(piece)
        rest = rest - piece
    return made


def block_dots(a, b):
    """Returns the sums of fp32 codes as cuBLAS's dot_kernel and reduce_1Block_kernel compute them, for k up to 1024.

    A block has 256 terms and 128 threads. Each thread rounds the products of two neighbouring terms and adds them. The
    sums of the threads are added in a tree, in which each step adds the second half to the first half. The sums of the
    blocks are added in ascending order.
    """
    x, y = a.view(np.float32), b.view(np.float32)
    missing = -x.shape[1] % 256
    x, y = (np.pad(z, ((0, 0), (0, missing))).reshape(z.shape[0], -1, 128, 2) for z in (x, y))
    products = x[:, None] * y[None]
    sums = products[..., 0] + products[..., 1]
    while sums.shape[-1] > 1:
        half = sums.shape[-1] // 2
        sums = sums[..., :half] + sums[..., half:]
    total = sums[:, :, 0, 0]
    for block in range(1, sums.shape[2]):
        total = total + sums[:, :, block, 0]
    return total


# input_precision of tl.dot: (format of the pieces, pieces per operand, pairs of a piece of a and a piece of b). Triton
# adds the products of these pairs to the sum of a tile, in this order and thus with the largest product last.
PIECES = {"tf32x3": ("tf32", 2, ((1, 0), (0, 1), (0, 0))), "bf16x3": ("bf16", 2, ((1, 0), (0, 1), (0, 0))),
          "bf16x6": ("bf16", 3, ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)))}


def in_pieces(name, a, b, tile):
    """Returns the sums of Triton's tl.dot of fp32 codes with input_precision = name, in tiles of `tile` terms."""
    format, count, order = PIECES[name]
    rule = Rule(8, 25, convert="cut") if format == "tf32" else Rule(16, 25)

    def operand(piece):
        if format == "bf16":
            return Operand("bf16", to_bf16(piece))
        return Operand("fp32", np.ascontiguousarray(piece).view(np.uint32), rule)

    a, b = ([operand(p) for p in split_fp32(x.view(np.float32), format, count)] for x in (a, b))
    total = None
    for begin in range(0, a[0].codes.shape[1], tile):
        terms, part = slice(begin, begin + tile), None
        for i, j in order:
            part = chain(rule, a[i].take(terms), b[j].take(terms), part)
        total = part if total is None else total + part
    return total
