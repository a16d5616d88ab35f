# SPDX-License-Identifier: Apache-2.0
"""Typical calls of the package, for `mypy --strict`."""

from __future__ import annotations

import macheps as me
import numpy as np

x = np.ones((4, 64), np.float32)
total: me.Tally = me.tally(x, "e4m3fn") + me.tally(x, "bf16")
largest: float = me.finfo("e4m3fn").max
names: list[str] = [f.format for f in me.formats()] + [m.machine for m in me.machines()] + me.policies()
scaled: me.Scaled = me.scale(x, "mx32", "e2m1fn")
verdict: me.Verdict = me.check(x @ x.T, x, x.T)
assert bool(verdict) in (True, False), verdict
explained: me.Explanation = me.policy("amp-bf16").explain("small")
try:
    me.round(x, "e4m3fn", mode="nearest_even", saturate=True, scale=2.0, out=x, tally=total)
except me.Error as error:
    parts: tuple[str, str, str] = (error.what, error.where, error.fix)
