# SPDX-License-Identifier: Apache-2.0
"""Functions that make numbers on which wrong casts fail, and a fixture for the macheps program."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import macheps as me
import numpy as np
import pytest

SOURCE = Path(__file__).parents[2]


def adversarial(format: str, count: int = 4096, dtype=np.float32) -> np.ndarray:
    """Returns values of the format, midpoints between neighbouring values, the fp64 and fp32 numbers next to these
    values and midpoints, special values, and random numbers over all exponents."""
    info = me.finfo(format)
    bits = info.container_bits
    step = 1 << (bits - info.bits)
    rng = np.random.default_rng(5)
    if info.bits <= 8:
        codes = np.arange(1 << info.bits, dtype=np.uint64) * np.uint64(step)
    else:
        codes = rng.integers(0, 2**info.bits, count, dtype=np.uint64) * np.uint64(step)
        codes[:8] = np.arange(8, dtype=np.uint64) * np.uint64(step)
        codes[8:16] = np.uint64(info.max_code) + (np.arange(8, dtype=np.uint64) - np.uint64(4)) * np.uint64(step)
    values = me.decode(codes, info.format).astype(np.float64)
    neighbours = me.decode(np.minimum(codes + np.uint64(step), np.uint64((1 << bits) - 1)), info.format).astype(np.float64)
    with np.errstate(all="ignore"):
        middle = (values + neighbours) / 2
    at = np.concatenate([values, middle])
    around = [np.nextafter(at, np.inf), np.nextafter(at, -np.inf)]
    with np.errstate(all="ignore"):
        around += [np.nextafter(at.astype(np.float32), np.float32(s)).astype(np.float64) for s in (np.inf, -np.inf)]
    with np.errstate(all="ignore"):
        random = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32).astype(np.float64)
    specials = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 2.0**-149, -(2.0**-149), 3e38, -3e38, 1.0]
    everything = np.concatenate([at, *around, random, specials])
    with np.errstate(all="ignore"):
        return everything.astype(dtype)


def a_million(format: str) -> np.ndarray:
    """Returns 2**20 fp32 numbers: values of the format, midpoints between neighbouring values, and the fp32 numbers
    around them. If the format has at most 19 bits, all its values and midpoints are included. Otherwise, they are
    chosen at random."""
    info = me.finfo(format)
    step = 1 << (info.container_bits - info.bits)
    codes = np.arange(1 << min(info.bits, 19), dtype=np.uint64)
    if info.bits > 19:
        codes = np.random.default_rng(6).integers(0, 2**info.bits, codes.size, dtype=np.uint64)
    top = np.uint64((1 << info.container_bits) - 1)
    with np.errstate(all="ignore"):
        values, next_ = (me.decode(np.minimum((codes + np.uint64(k)) * np.uint64(step), top), format).astype(np.float64) for k in (0, 1))
        at = np.concatenate([values, values / 2 + next_ / 2]).astype(np.float32)
    room = 2**20 // at.size
    near = at.view(np.int32)[:, None] + np.arange(-(room // 2), room - room // 2, dtype=np.int32)
    made = near.ravel().view(np.float32)
    return np.concatenate([made, np.arange(2**20 - made.size, dtype=np.uint32).view(np.float32)])


@pytest.fixture(scope="session")
def program() -> str:
    """Returns the path of the macheps program: MACHEPS, or `macheps` on PATH, or the program that the package finds."""
    found = os.environ.get("MACHEPS") or shutil.which("macheps")
    try:
        return found or me.find_program()
    except me.Error:
        pytest.skip("the program macheps was not found: set MACHEPS")


def same_bits(a, b) -> bool:
    """Returns whether two arrays are equal in every bit, including the signs of zeros and NaNs."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
