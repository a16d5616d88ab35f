# SPDX-License-Identifier: Apache-2.0
"""Prints the speed of casts by macheps and, for comparison, of functions of NumPy and ml_dtypes. All of them run in one
process and one thread. First checks that macheps and ml_dtypes give the same codes.

usage: python tests/python/speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import macheps as me
import ml_dtypes
import numpy as np


def least(work: Callable[[], object], repeats: int = 30) -> float:
    """Returns the processor time of the fastest call, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times)


def main() -> None:
    me.set_threads(1)
    count = 2**22
    x = np.random.default_rng(1).standard_normal(count, dtype=np.float32)
    wide, out, codes = x.astype(np.float64) * (1 + 2.0**-30), np.empty_like(x), np.empty(count, np.uint8)
    out64 = np.empty_like(wide)
    e4m3 = np.dtype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(me.encode(x, "e4m3fn"), x.astype(e4m3).view(np.uint8))
    rows = [
        ("np.copyto", lambda: np.copyto(out, x)), ("round e4m3fn", lambda: me.round(x, "e4m3fn", out=out)),
        ("encode e4m3fn", lambda: me.encode(x, "e4m3fn", out=codes)), ("ml_dtypes astype", lambda: x.astype(e4m3)),
        ("round bf16", lambda: me.round(x, "bf16", out=out)),
        ("round e4m3fn stochastic", lambda: me.round(x, "e4m3fn", mode="stochastic", seed=1, out=out)),
        ("tally e4m3fn", lambda: me.tally(x, "e4m3fn")), ("fp64 round e4m3fn", lambda: me.round(wide, "e4m3fn", out=out64)),
        ("fp64 encode e4m3fn", lambda: me.encode(wide, "e4m3fn", out=codes)),
        ("fp64 round stochastic", lambda: me.round(wide[: 2**18], "e4m3fn", mode="stochastic", seed=1, out=out64[: 2**18])),
    ]  # fmt: skip
    rates = {}
    for name, work in rows:
        rates[name] = (2**18 if "fp64 round st" in name else count) / least(work) / 1e6
        print(f"{name:<26} {rates[name]:9.0f} M/s")
    print(f"round / copyto             {rates['np.copyto'] / rates['round e4m3fn']:9.2f} times as long (at most 1.2)")
    print(f"encode / ml_dtypes         {rates['encode e4m3fn'] / rates['ml_dtypes astype']:9.1f} times as fast (at least 20)")
    one, to = np.ones(1, np.float32), np.ones(1, np.float32)

    def thousand() -> None:
        for _ in range(1000):
            me.round(one, "e4m3fn", saturate=True)

    def thousand_into() -> None:
        for _ in range(1000):
            me.round(one, "e4m3fn", saturate=True, out=to)

    print(f"round of one element       {least(thousand, 50) * 1e6:9.0f} ns (below 1500); into an array {least(thousand_into, 50) * 1e6:.0f} ns")


if __name__ == "__main__":
    main()
