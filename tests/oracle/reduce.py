# SPDX-License-Identifier: Apache-2.0
"""Third implementation of the all-reduces of docs/ranks.md (ring, tree and gather), in Python, element by element.

    reduce.py CASES START

CASES is a file. Each case is a line `order wire ranks count`, followed by a line of hexadecimal fp32 codes for each
rank. The script prints a line of codes for each case. START is the rank at which the first chunk of a ring begins
(docs/ranks.md: 1).
"""
import struct
import sys

# Formats of the wire: significand bits, smallest exponent of a normal number, largest finite value.
WIRES = {"fp32": (24, -126, (2 - 2**-23) * 2.0**127), "bf16": (8, -126, (2 - 2**-7) * 2.0**127), "fp16": (11, -14, 65504.0)}


def of_code(text):
    return struct.unpack(">f", bytes.fromhex(text))[0]


def code_of(x):
    return struct.pack(">f", x).hex()


def rounded(x, wire):
    """Rounds to nearest, ties to even. x may be the sum, product or quotient of two fp32 numbers, rounded to a double. This
    first rounding does not change the result, because 53 >= 2 * 24 + 2 (Figueroa 1995)."""
    bits, least, greatest = WIRES[wire]
    if x == 0 or x != x or abs(x) == float("inf"):
        return x
    mantissa, exponent = abs(x), 0
    while mantissa >= 2:
        mantissa, exponent = mantissa / 2, exponent + 1
    while mantissa < 1:
        mantissa, exponent = mantissa * 2, exponent - 1
    ulp = 2.0 ** (max(exponent, least) - bits + 1)
    value = round(abs(x) / ulp) * ulp  # round() rounds ties to even
    value = float("inf") if value > greatest else value
    return value if x > 0 else -value


def added(a, b):
    return rounded(a + b, "fp32")


def tree(parts, first, leaves, wire):
    if first >= len(parts):
        return None
    if leaves == 1:
        return parts[first]
    left, right = tree(parts, first, leaves // 2, wire), tree(parts, first + leaves // 2, leaves // 2, wire)
    return left if right is None else rounded(added(left, right), wire)


def reduced(order, wire, parts, chunk, start):
    ranks = len(parts)
    share = rounded(1.0 / ranks, "fp32")  # DDP multiplies by this factor before it sends
    sent = [rounded(x, wire) for x in parts]
    if ranks > 1:
        sent = [rounded(rounded(x * share, "fp32"), wire) for x in sent]
    if order == "tree":
        leaves = 1
        while leaves < ranks:
            leaves *= 2
        return tree(sent, 0, leaves, wire)
    if order == "gather":
        total = 0.0
        for x in sent:
            total = added(total, x)
        return total
    total = sent[(chunk + start) % ranks]
    for hop in range(1, ranks):
        total = rounded(added(total, sent[(chunk + start + hop) % ranks]), wire)
    return total


def main():
    start = int(sys.argv[2])
    with open(sys.argv[1], encoding="ascii") as file:
        lines = iter(file.read().splitlines())
    for head in lines:
        order, wire, ranks, count = head.split()
        ranks, count = int(ranks), int(count)
        parts = [[of_code(code) for code in next(lines).split()] for _ in range(ranks)]
        each = max(1, -(-count // ranks))
        sums = (reduced(order, wire, [part[i] for part in parts], i // each, start) for i in range(count))
        print(" ".join(code_of(x) for x in sums))


main()
