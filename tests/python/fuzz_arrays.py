# SPDX-License-Identifier: Apache-2.0
"""Passes random arrays of many kinds to every function. Each exception must have a message, and no call may crash.

usage: python tests/python/fuzz_arrays.py [SECONDS] [SEED]

The default is 30 seconds. If a call crashes, a signal ends the script, and the exit code is that of the signal.
"""

from __future__ import annotations

import random
import sys
import time
import traceback
from typing import Any

import macheps as me
import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None  # type: ignore[assignment]

TYPES = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">u4", "<i8", "<f2", ">f2", "<f4", ">f4", "<f8", ">f8", "g", "F", "D", "O", "S3", "U2",
         "M8[D]", "m8[s]", "V2", "i4,f4"]  # fmt: skip
FORMATS = [f.format for f in me.formats()] + ["e5m6", "e8m23", "e4m3", "", "no", "\u00e4", "float8_e4m3fn", "e2m1", "E4M3FN"]
MODES = ["nearest_even", "nearest_away", "toward_zero", "up", "down", "stochastic", "to_odd", "rne", "", "no"]
#: The exceptions that a function may raise for wrong arguments. Any other exception is a defect.
EXPECTED = (me.Error, TypeError, MemoryError, OverflowError)


class Odd:
    """An object that pretends to be an array."""

    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __dlpack_device__(self) -> Any:
        return [(1, 0), (2, 0), (13, 1)][self.kind % 3]

    def __dlpack__(self, **words: Any) -> Any:
        return None if self.kind % 2 else np.ones(3, np.float32).__dlpack__()


def some_array(r: random.Random) -> Any:
    shape = tuple(r.choice([0, 1, 2, 3, 7, 16, 33, 64]) for _ in range(r.randrange(5)))
    if int(np.prod(shape)) > 20000:
        shape = shape[:2]
    if r.random() < 0.05:
        return r.choice([None, 1.5, 7, True, "1", b"1", [], [1, 2.5], [[1], [1, 2]], {}, Odd(r.randrange(6)), float("nan"), 10**400, -(2**63), [2**63],
                         np.float16(1), np.int64(3), object()])  # fmt: skip
    if ml_dtypes is not None and r.random() < 0.2:
        kind = np.dtype(getattr(ml_dtypes, r.choice(["bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float6_e2m3fn", "int4", "float8_e8m0fnu"])))
    else:
        kind = np.dtype(r.choice(TYPES))
    raw = np.frombuffer(r.randbytes(int(np.prod(shape)) * kind.itemsize or kind.itemsize), np.uint8)
    if kind.kind in "OUSMm" or kind.names:
        array = np.zeros(shape, kind)
    else:
        count = int(np.prod(shape))
        array = raw[: count * kind.itemsize].copy().view(kind).reshape(shape)
    for _ in range(r.randrange(3)):
        change = r.randrange(7)
        if change == 0:
            array = array.T
        elif change == 1 and array.ndim:
            array = array[..., :: r.choice([1, 2, -1, 3])]
        elif change == 2 and array.ndim:
            array = np.broadcast_to(array, (r.choice([1, 2, 5]), *array.shape))
        elif change == 3:
            array = array.view()
            array.flags.writeable = False
        elif change == 4 and array.ndim and array.dtype.names is None:
            array = np.asfortranarray(array)
        elif change == 5 and array.size and array.ndim == 1 and array.dtype.itemsize > 1 and array.flags.c_contiguous and array.dtype.kind in "fiu":
            moved = np.empty(array.nbytes + 1, np.uint8)  # an offset of one byte, so no element is aligned
            moved[1:] = array.view(np.uint8)
            array = moved[1:].view(array.dtype)
        elif change == 6 and array.ndim < 30:
            array = array[None]
    return array


def some_call(r: random.Random) -> None:
    x, format, mode = some_array(r), r.choice(FORMATS), r.choice(MODES[:7] if r.random() < 0.9 else MODES)
    words: dict[str, Any] = {"mode": mode, "saturate": r.random() < 0.5, "seed": r.choice([0, 1, 2**64 - 1, -1, None]), "stream": r.choice([0, 2**32 - 1])}
    if r.random() < 0.3:
        words["scale"] = r.choice([1.0, 0.5, 1e-300, 1e300, 3, float("inf"), -1.0, 1e-45])
    out = {} if r.random() < 0.7 else {"out": some_array(r) if r.random() < 0.7 else x}
    choice = r.randrange(9)
    if choice <= 1:
        made = me.round(x, format, **words, **out)
    elif choice <= 3:
        made = me.encode(x, format, dtype=r.choice([None, None, None, "ml_dtypes", "no"]), **words, **out)
    elif choice == 4:
        made = me.decode(x, r.choice([format, None]), **out)
    elif choice == 5:
        made = me.tally(x, format, **words)
    elif choice == 6:
        made = me.scale(x, r.choice(["tensor", "row", "column", "1x128", "128x128", "mx32", "nvfp4", "no", ""]), format, rule=r.choice(["", "no"]),
                        axis=r.choice([None, 0, 1, 5]))  # fmt: skip
    elif choice == 7:
        machine = r.choice(["fp32.chain", "sm90.wgmma.fp8", "sm80.mma.bf16", "exact", "pairwise:fp16", "no", "sm100.tcgen05.mxfp8"])
        y = r.choice([x, np.transpose(x) if isinstance(x, np.ndarray) else x, some_array(r)])
        made = me.matmul(x, y, machine=machine, promote=r.choice([None, 128, 7, -3]), format_a=r.choice([None, format]), bias=r.choice([None, some_array(r)]),
                         out_format=r.choice([None, format]), **out)  # fmt: skip
    else:
        made = me.check(some_array(r), x, some_array(r), machine=r.choice(["any", "sm80.mma.bf16"]))
    assert made is not None


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    end, calls, refused = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        seed += 1
        try:
            with np.errstate(all="ignore"):
                some_call(random.Random(seed))
        except EXPECTED as error:
            refused += 1
            assert str(error), f"seed {seed}: the exception has no message"
        except Exception:
            traceback.print_exc()
            print(f"seed {seed}: unexpected type of exception", file=sys.stderr)
            return 1
        calls += 1
    print(f"{calls} calls, {refused} refused, seeds up to {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
