# SPDX-License-Identifier: Apache-2.0
"""Lists the machines, computes matrix products with the sums of a machine, and casts arrays with scales."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from . import _core
from ._arrays import Array, ArrayLike, Source, code_type, given_back, numbers, output_like
from ._casts import Tally, round
from ._errors import Error
from ._formats import FormatInfo, Records, finfo
from ._random import Generator, call_seed
from ._whole import whole


@dataclass(frozen=True)
class MachineInfo:
    """A matrix unit, or an order of summation."""

    machine: str
    arch: str
    instruction: str
    operands: list[str]  #: formats of a and b
    c: str  #: format of the addend
    d: str  #: format of the result
    k: int | None  #: products that one instruction adds
    terms: int | None  #: products that one fused step adds
    fraction_bits: int | None  #: bits kept below the largest exponent of a step
    model: str
    delivery: str
    scale: str | None
    scale_block: int | None
    evidence: str  #: hardware, published, inferred or definition
    measured: str  #: GPUs whose captured results the emulation reproduces
    source: str
    summary: str
    disputed: list[dict[str, str]] = field(default_factory=list)


@lru_cache(maxsize=1)
def _machines() -> tuple[MachineInfo, ...]:
    return tuple(MachineInfo(**record) for record in json.loads(_core.machines()))


def machines() -> Records[MachineInfo]:
    """Returns all matrix units and orders of summation.

    Examples
    --------
    >>> import macheps as me
    >>> [m.fraction_bits for m in me.machines() if m.machine == "sm90.wgmma.fp8"]
    [13]
    """
    return Records(_machines())


@dataclass(frozen=True)
class Scaled:
    """An array stored as codes and scales.

    The value of an element is the number of its code times the scale of its group, and times `tensor_scale` if that is
    not None. `matmul` accepts a `Scaled` as an operand.
    """

    format: str
    granularity: str
    rule: str  #: how scales are made
    codes: Array  #: codes in the shape of the array
    scales: Array  #: decode scales, one for each group, in fp32
    scale_codes: Array | None  #: codes of the scales if they are stored as bytes
    tensor_scale: float | None  #: additional scale of the whole tensor (NVFP4)
    decoded: Array  #: the values, in fp32
    block: tuple[int, int]  #: rows or columns per scale, and terms per scale; 0 means all
    k_is_last: bool  #: whether the terms of a product's sums run along the last axis
    counts: Tally = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.codes.shape

    def tally(self) -> Tally:
        """Returns the counts of the cast. Underflow and saturation are counted on the scaled elements.

        Examples
        --------
        >>> import macheps as me, numpy as np
        >>> x = np.ones((2, 64), np.float32); x[0, 0] = 2.0 ** 20
        >>> me.scale(x, "mx32", "e4m3fn").tally().underflow
        31
        """
        return self.counts

    def __repr__(self) -> str:
        return f"Scaled({self.format}/{self.granularity}:{self.rule}, shape={self.shape}, scales={self.scales.shape})"

    def _repr_html_(self) -> str:
        return f"<div><p>{self!r}</p>{self.counts._repr_html_()}</div>"


def _counts_of(values: Array, codes: Array, decoded: Array, info: FormatInfo) -> Tally:
    """Counts effects of a cast from inputs and results. Overflow is 0: values beyond the maximum count as saturated."""
    finite, size = np.isfinite(values), np.abs(values)
    magnitudes = codes & ((1 << (info.container_bits - 1)) - 1)
    bits_below = info.container_bits - info.bits
    if info.exponent_bits is None:  # two's complement
        signed = codes.astype(np.int8)
        magnitudes = np.abs(signed.astype(np.int32))
    normal = 0 if info.exponent_bits is None else 1 << (info.fraction_bits + bits_below)
    some = size[finite & (values != 0)]
    lost = finite & (values != 0) & (decoded == 0)
    return Tally([
        values.size, int(np.isnan(values).sum()), int(np.isinf(values).sum()), int((values == 0).sum()),
        int(lost.sum()), int((finite & (magnitudes != 0) & (magnitudes < normal)).sum()), 0,
        int((finite & (magnitudes == info.max_code)).sum()),
        float(some.max(initial=0.0)), float(some.min()) if some.size else 0.0,
    ])  # fmt: skip


def scale(x: ArrayLike, granularity: str, format: str, rule: str = "", axis: int | None = None,
          mode: str = "nearest_even", seed: int | None = None, *, generator: Generator | None = None) -> Scaled:  # fmt: skip
    """Casts a matrix with a scale for each group of its elements. The cast saturates, as in other libraries.

    Parameters
    ----------
    x : array_like
        A matrix of numbers that fp32 holds exactly.
    granularity : str
        ``tensor``, ``row``, ``column``, ``1x128``, ``128x128``, ``mx32``, ``nvfp4``, ``nvfp4_16x16``.
    format : str
        Format of the elements.
    rule : str
        How scales are computed (``macheps policy words``). The default is the usual rule of the granularity.
    axis : int, optional
        Axis of the contraction, along which blocks run: 1 (the last) or 0.
    mode, seed
        Rounding mode and seed; see `round`.
    generator : Generator, optional
        Stochastic rounding takes two words from it as the seed of this call.

    Examples
    --------
    >>> import macheps as me, numpy as np
    >>> s = me.scale(np.arange(64, dtype=np.float32).reshape(1, 64), "mx32", "e2m1fn")
    >>> print(s.scales)
    [[ 8. 16.]]
    >>> print(s.decoded[0, :8])
    [0. 0. 0. 4. 4. 4. 8. 8.]
    """
    source = numbers(x, "scale")
    values = source.values
    if values.dtype != np.float32:
        narrow = values.astype(np.float32)
        if not np.array_equal(narrow.astype(np.float64), values, equal_nan=True):
            raise TypeError("scale() needs fp32 numbers: pass numpy.float32(x)")
        values = narrow
    if values.ndim != 2 or values.size == 0:
        raise Error(f"an array of shape {values.shape} cannot be scaled", "x", "use an array with at least one row and one column")
    along = None if axis is None else whole(axis, "axis", -2, 1) % 2
    words = 0
    if _core.cast(format, mode, True, 1.0, "").draws:  # raises for unknown names
        words = call_seed(seed, generator)
    made = _core.scale(values, format, granularity, rule, along, mode, words)
    code_bytes, rows, columns, scales, scale_codes, tensor, decoded_bytes, rule, k_is_last, outer, k = made
    info = finfo(format)
    codes = np.frombuffer(code_bytes, np.uint32).astype(code_type(info.container_bits)).reshape(values.shape)
    decoded = np.frombuffer(decoded_bytes, np.float32).reshape(values.shape).copy()
    grid = (rows, columns)
    return Scaled(
        info.format, granularity, rule, codes, np.frombuffer(scales, np.float32).reshape(grid).copy(),
        np.frombuffer(scale_codes, np.uint8).reshape(grid).copy() if scale_codes else None, tensor, decoded,
        (outer, k), k_is_last, _counts_of(values, codes, decoded, info),
    )  # fmt: skip


def _scale_format(scaled: Scaled) -> str:
    if scaled.scale_codes is None:
        return "fp32"
    return "e4m3fn" if scaled.granularity.startswith("nvfp4") else "e8m0fnu"


class _Operand:
    """An operand of `matmul`: numbers of a format, with their decode scales."""

    def __init__(self, x: Any, name: str, format: str | None) -> None:
        self.scales, self.factor = _core.BlockScales(), 1.0
        if isinstance(x, Scaled):
            self._take(x, name, format)
            return
        self.source = numbers(x, "matmul")
        self.values, named = self.source.values, self.source.format
        self.format = finfo(format or (named if named not in (None, "fp64") else "fp32")).format
        if self.values.dtype == np.float64:
            narrow = self.values.astype(np.float32)
            if not np.array_equal(narrow.astype(np.float64), self.values, equal_nan=True):
                raise TypeError("matmul() needs fp32 numbers: round them first, for example with macheps.round")
            self.values = narrow
        if self.format not in ("fp32", named):
            on_grid = round(self.values, self.format)
            if not np.array_equal(on_grid, self.values, equal_nan=True):
                raise Error(f"some numbers of {name} cannot be represented in {self.format}", f"format_{name}",
                            f'round them first: {name} = me.round({name}, "{self.format}")')

    def _take(self, x: Scaled, name: str, format: str | None) -> None:
        if format is not None and finfo(format).format != x.format:
            raise Error(f"{name} has codes of {x.format}", f"format_{name}", "leave it out")
        if x.k_is_last != (name == "a") and x.block != (0, 0):
            wanted = 1 if name == "a" else 0
            raise Error(f"the scales of {name} run along the wrong axis, not along the sums of the product", name,
                        f"compute them with axis={wanted}")
        self.values = np.empty(x.shape, np.float32)
        _core.decode_into(x.format, x.codes, self.values)
        self.format, self.source = x.format, Source(self.values, x.format, False, False)
        self.factor = 1.0 if x.tensor_scale is None else x.tensor_scale
        if x.block == (0, 0):
            self.factor *= float(x.scales[0, 0])
            return
        outer_size, k_size = x.shape if name == "a" else x.shape[::-1]
        data = np.ascontiguousarray(x.scales if name == "a" else x.scales.T)
        self.scales = _core.BlockScales(data, x.block[0] or outer_size, x.block[1] or k_size, _scale_format(x))


def spelled(machine: str, promote: int | None) -> str:
    """Returns a machine with promotion as the program spells it, such as `sm90.wgmma.fp8+promote128`."""
    if not isinstance(machine, str):
        raise TypeError(f"machine is a name, such as 'sm90.wgmma.fp8', not {type(machine).__name__}")
    terms = 0 if promote is None else whole(promote, "promote", 0, 2**31 - 1)
    return f"{machine}+promote{terms}" if terms else machine


def matmul(
    a: Any,
    b: Any,
    machine: str = "fp32.chain",
    promote: int | None = None,
    format_a: str | None = None,
    format_b: str | None = None,
    out_format: str | None = None,
    bias: ArrayLike | None = None,
    scale: float = 1.0,
    out: Any = None,
    *,
    seed: int | None = None,
    generator: Generator | None = None,
) -> Any:
    """Returns the product of a and b. Every sum has exactly the bits that the machine computes.

    Parameters
    ----------
    a, b : array_like or Scaled
        Arrays of shapes [m, k] and [k, n]. Their formats must hold the elements exactly, because `matmul` does not
        quantise.
    machine : str
        A name in `machines`, a library's rule (``deepgemm.sm90.1d2d``), or an order in a format (``pairwise:fp16``).
    promote : int, optional
        Number of terms after which a partial sum is added to an fp32 accumulator.
    format_a, format_b : str, optional
        Formats of the operands. By default, their types determine them; format_b defaults to format_a if that is given.
    out_format : str, optional
        Format to which the result is rounded (to nearest even). The default is the machine's result format.
    bias : array_like, optional
        Array of shape [n]. It is added to the sums in fp32, before they are rounded to ``out_format``.
    scale : float
        Multiplies the sums. Usually it is the product of the operands' decode scales.
    seed : int, optional
        Selects the random words of one call, for an order with stochastic rounding (``chain:bf16:stochastic``).
    generator : Generator, optional
        Replaces ``seed``: two words are taken from it as the seed of this call.

    Examples
    --------
    >>> import macheps as me, numpy as np
    >>> a = np.full((1, 65536), 0.0625, np.float32)
    >>> float(me.matmul(a, a.T, machine="sm90.wgmma.fp8", format_a="e4m3fn")[0, 0])
    64.0
    >>> float(me.matmul(a, a.T, machine="sm90.wgmma.fp8", promote=128, format_a="e4m3fn")[0, 0])
    256.0
    """
    first = _Operand(a, "a", format_a)
    second = _Operand(b, "b", format_b or (None if isinstance(b, Scaled) else format_a))
    x, y = first.values, second.values
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        raise Error(f"shapes disagree: a {x.shape}, b {y.shape}", "matmul", "use a [m, k] and b [k, n]")
    addend = None
    if bias is not None:
        addend = np.ascontiguousarray(numbers(bias, "matmul").values, np.float32)
        if addend.shape != (y.shape[1],):
            raise Error(f"the bias has the shape {addend.shape}", "bias", f"use the shape [{y.shape[1]}]")
    source = Source(np.broadcast_to(np.float32(0), (x.shape[0], y.shape[1])), None, first.source.is_tensor, False)
    made = output_like(source, np.float32, out, "matmul")
    x, y = (operand.copy() if made.size and np.may_share_memory(operand, made) else operand for operand in (x, y))
    factor = float(scale) * first.factor * second.factor
    name = spelled(machine, promote)
    words = call_seed(seed, generator) if _core.draws(name) else 0
    if made.size:
        _core.matmul_into(x, y, made, addend, name, first.format, second.format,
                          finfo(out_format).format if out_format else "", factor, first.scales, second.scales, words)
    return out if out is not None else given_back(made, source)


__all__ = ["MachineInfo", "Scaled", "machines", "matmul", "scale"]
