# SPDX-License-Identifier: Apache-2.0
"""Prints results of the Python package. The text is the same on every CPU."""

from __future__ import annotations

import hashlib

import macheps as me
import numpy as np


def show(name: str, value: object) -> None:
    data = np.ascontiguousarray(value)
    print(name, data.dtype, data.shape, hashlib.sha256(data.tobytes()).hexdigest())


# Uses only exact operations of NumPy. NumPy's exp depends on the CPU. So do its normal deviates, which call the C
# library's log.
rng = np.random.default_rng(7)
x = (rng.integers(-4096, 4097, (40, 96)) / 1000).astype(np.float32)
for name in ("bf16", "fp16", "e4m3fn", "e5m2", "e2m1fn", "tf32"):
    show(f"encode {name}", me.encode(x, name))
    show(f"round {name}", me.round(x, name, mode="toward_zero"))
show("stochastic", me.round(x, "bf16", mode="stochastic", seed=3))
a, b = me.round(x, "bf16"), me.round(x.reshape(96, 40), "bf16")
for machine in ("sm80.mma.bf16", "sm90.wgmma.bf16", "fp32.chain", "bf16.chain", "x86.vdpbf16ps"):
    show(f"matmul {machine}", me.matmul(a, b, machine=machine, format_a="bf16", format_b="bf16"))
out = me.matmul(a, b, machine="sm80.mma.bf16", format_a="bf16", format_b="bf16")
codes = me.encode(a, "bf16"), me.encode(b, "bf16")
print(me.check(out, *codes, machine="sm80.mma.bf16", a_format="bf16", b_format="bf16"))
print(me.check(np.full((40, 64), 1 / 64, np.float32), operation="softmax", x=np.zeros((40, 64), np.float32)))
for name, arrays in me.make_inputs("gemm", shape=(8, 8, 64), a_format="fp16", b_format="fp16", out_format="fp16").items():
    for key, array in arrays.items():
        show(f"inputs {name} {key}", array)
print(me.show(0.1, "bf16"))
