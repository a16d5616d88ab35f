# SPDX-License-Identifier: Apache-2.0
"""Rounding, encoding and decoding, with counts of their effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _core
from ._arrays import (
    FLOAT32,
    Array,
    ArrayLike,
    apart,
    code_type,
    codes,
    given_back,
    is_plain_output,
    is_tensor,
    ml_dtype_of,
    numbers,
    output_like,
    torch_dtype_of,
)
from ._errors import Error
from ._html import bars
from ._random import Generator, random_words
from ._unheld import refuse_unheld

_casts: dict[tuple[str, str | None, bool, float, str | None], _core.Cast] = {}


def _cast(format: str, mode: str | None, saturate: bool, scale: float, profile: str | None = None) -> _core.Cast:
    """Returns the resolved cast for these arguments, from a cache."""
    key = (format, mode, saturate, scale, profile)
    cast = _casts.get(key)
    if cast is None:
        if not isinstance(format, str):
            raise TypeError(f"format is a name, such as 'e4m3fn', not {type(format).__name__}")
        scale = float(scale)
        if not (np.isfinite(scale) and scale > 0):
            raise Error(f"{scale} is not a valid scale", "scale", "use a positive number")
        if profile is not None and saturate:
            raise Error("saturate and profile cannot be used together", "saturate", "leave it out: the profile determines overflow")
        cast = _core.cast(format, mode or "", bool(saturate), scale, profile or "")
        if len(_casts) > 1000:  # scales may change with every call
            _casts.clear()
        _casts[key] = cast
    return cast


class Tally:
    """Counts of the effects of a cast. Tallies can be added.

    Attributes
    ----------
    count, nan_in, inf_in, zero_in : int
        Number of all elements, and of elements that were NaN, infinite or zero before the cast. The counts below
        include only elements that were finite.
    underflow : int
        Elements that were not zero and became zero.
    to_subnormal : int
        Elements that became subnormal.
    overflow : int
        Elements whose magnitude exceeded the largest finite value before rounding.
    saturated : int
        Elements that became the largest finite value, with either sign.
    amax, amin_nz : float
        The largest magnitude and the smallest nonzero magnitude before the cast. 0 if there is none.

    Examples
    --------
    >>> import macheps as me
    >>> t = me.tally([0.0, 1e-5, 0.01, 1.0, 500.0], "e4m3fn")
    >>> t.underflow, t.to_subnormal, t.overflow
    (1, 1, 1)
    >>> (t + t).count
    10
    """

    __slots__ = _names = (
        "count", "nan_in", "inf_in", "zero_in", "underflow", "to_subnormal", "overflow", "saturated", "amax", "amin_nz",
    )  # fmt: skip
    count: int
    nan_in: int
    inf_in: int
    zero_in: int
    underflow: int
    to_subnormal: int
    overflow: int
    saturated: int
    amax: float
    amin_nz: float

    def __init__(self, values: Iterable[int | float] = (0,) * 8 + (0.0, 0.0)) -> None:
        for name, value in zip(self._names, values, strict=True):
            setattr(self, name, value)

    def _values(self) -> tuple[int | float, ...]:
        return tuple(getattr(self, name) for name in self._names)

    def __add__(self, other: Tally) -> Tally:
        if not isinstance(other, Tally):
            return NotImplemented
        counts = [a + b for a, b in zip(self._values()[:8], other._values()[:8], strict=True)]
        nonzero = [x for x in (self.amin_nz, other.amin_nz) if x != 0]
        return Tally([*counts, max(self.amax, other.amax), min(nonzero, default=0.0)])

    def add(self, other: Tally) -> None:
        """Adds another tally to this one."""
        total = self + other
        for name in self._names:
            setattr(self, name, getattr(total, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def rates(self) -> dict[str, float]:
        """Returns each count divided by the number of elements.

        Examples
        --------
        >>> import macheps as me
        >>> me.tally([1e-5, 1.0], "e4m3fn").rates()["underflow"]
        0.5
        """
        return {name: getattr(self, name) / self.count if self.count else 0.0 for name in self._names[1:8]}

    def to_dict(self) -> dict[str, int | float]:
        """Returns the counts by name."""
        return dict(zip(self._names, self._values(), strict=True))

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}={getattr(self, name)}" for name in self._names if getattr(self, name) or name == "count")
        return f"Tally({counts})"

    def _repr_html_(self) -> str:
        title = f"{self.count} elements, magnitudes {self.amin_nz:.3g} to {self.amax:.3g}"
        return bars(title, {name: getattr(self, name) for name in self._names[1:8]}, self.count)


def round(
    x: ArrayLike,
    format: str,
    mode: str | None = None,
    saturate: bool = False,
    scale: float = 1.0,
    seed: int | None = None,
    stream: int = 0,
    out: Any = None,
    tally: Tally | None = None,
    *,
    generator: Generator | None = None,
    profile: str | None = None,
    refuse: str | Iterable[str] = (),
) -> Any:
    """Rounds numbers to a format and returns the rounded numbers.

    Without ``saturate``, a number beyond the format's largest finite value becomes an infinity, or NaN if the format
    has no infinity. With ``saturate``, it becomes the largest finite value. fp64 numbers are rounded once, never to
    fp32 first, and the result is fp64. For all other numbers the result is fp32.

    Some formats cannot hold a NaN, an infinity, a sign, zero or -0. Without a profile, such elements become:

    ==================================  ===============================================================================
    fp4, fp6, mxint8 (no NaN, no Inf)   NaN gives the largest value, an infinity the largest value of its sign; finite
                                        overflow saturates too
    e4m3fn, fnuz (no Inf)               an infinity gives NaN; with ``saturate`` the largest value
    e8m0fnu (no sign, no zero)          |x| is converted; zero gives 2**-127, the smallest scale
    fnuz, mxint8 (no -0)                -0 gives 0
    ==================================  ===============================================================================

    Parameters
    ----------
    x : array_like
        Numbers of Python, NumPy, ml_dtypes or a CPU tensor. Apart from fp64, a type is refused if fp32 cannot hold all
        its values.
    format : str
        ``e4m3fn``, ``bf16``, or any name or alias of `formats`.
    mode : str, optional
        ``nearest_even``, ``nearest_away``, ``toward_zero``, ``up``, ``down``, ``to_odd``, ``stochastic``. The default
        is nearest_even, or the profile's mode for e8m0fnu.
    saturate : bool
        Replace an overflow by the largest finite value.
    scale : float
        Factor that multiplies the numbers before rounding. The result is not divided by this factor. The product is
        computed in fp32 for fp32 numbers, and in fp64 for fp64 numbers.
    seed, stream : int
        Select the random words of one call with stochastic rounding. Element i, in C order, uses word i of the stream.
        Stream 0 has the words of ``macheps convert --seed``. The same seed gives the same words in every call.
    out : array, optional
        Array for the result: contiguous, with the type and shape of the result. It may be ``x``.
    tally : Tally, optional
        Tally to which the counts of this cast are added.
    generator : Generator, optional
        Source of random words. Each call takes the next words. Stochastic rounding needs either ``generator`` or
        ``seed``.
    profile : str, optional
        Name of an implementation, such as ``mldtypes`` or ``onnx.24``, whose treatment of NaN, infinities and overflow
        is used (``macheps formats --profiles``).
    refuse : str or list of str
        Raise `Error` if an element has a property that the format cannot hold: ``nan``, ``inf``, ``sign``, ``zero``,
        ``negative_zero``, or ``all``.

    Examples
    --------
    >>> import macheps as me
    >>> me.round(0.1, "e4m3fn")
    np.float64(0.1015625)
    >>> me.round([float("nan"), -1e9], "e2m1fn"), me.round([float("nan"), -1e9], "e2m1fn", profile="mldtypes")
    (array([ 6., -6.]), array([-0., -6.]))
    >>> me.round([1.0, float("nan")], "e2m1fn", refuse="nan")
    Traceback (most recent call last):
    macheps.Error: refuse: element 1 is nan, and e2m1fn has no NaN (...)
    >>> me.round([448.0, 464.0, 465.0, 1e9], "e4m3fn")
    array([448., 448.,  nan,  nan])
    >>> me.round([448.0, 464.0, 465.0, 1e9], "e4m3fn", saturate=True)
    array([448., 448., 448., 448.])
    """
    cast = _casts.get((format, mode, saturate, scale, profile)) or _cast(format, mode, saturate, scale, profile)
    is_plain = tally is None and not refuse and not cast.draws and seed is None and not stream
    if is_plain and type(x) is np.ndarray and x.dtype is FLOAT32 and x.flags.c_contiguous:
        if out is None or is_plain_output(x, out):  # most calls; takes about a microsecond
            made: Array = np.empty(x.shape, FLOAT32) if out is None else out
            _core.round_into(cast, x, made, 0, 0, 0, False)
            return made
    source = numbers(x, "round")
    values = source.values
    if out is None:
        made = np.empty(values.shape, values.dtype)
    else:
        made = output_like(source, values.dtype, out, "round")
        values = apart(values, made)
    if refuse:
        refuse_unheld(values, scale, cast.format, refuse)
    words = random_words(cast.draws, seed, stream, generator, values.size)
    counts = _core.round_into(cast, values, made, *words, tally is not None)
    if tally is not None:
        tally.add(Tally(counts))
    if out is not None:
        return out
    return made if not (source.is_tensor or source.is_scalar) else given_back(made, source)


def encode(
    x: ArrayLike,
    format: str,
    mode: str | None = None,
    saturate: bool = False,
    scale: float = 1.0,
    seed: int | None = None,
    stream: int = 0,
    out: Any = None,
    tally: Tally | None = None,
    dtype: str | None = None,
    *,
    generator: Generator | None = None,
    profile: str | None = None,
    refuse: str | Iterable[str] = (),
) -> Any:
    """Rounds numbers to a format and returns their codes.

    Effect of ``saturate`` (e4m3fn has no infinity; its largest number is 448; 464 is a tie between 448 and 480)::

        x                     448    464    465    1e9
        saturate=False        126    126    127    127     the code of NaN
        saturate=True         126    126    126    126     the code of 448

    Parameters
    ----------
    x, format, mode, saturate, scale, seed, stream, tally, generator, profile, refuse
        See `round`.
    out : array, optional
        Array for the codes: unsigned integers of 8, 16, 32 or 64 bits, depending on the format.
    dtype : str, optional
        ``"ml_dtypes"`` or ``"torch"``: return the codes as an array of that library's type, without a copy.

    Examples
    --------
    >>> import macheps as me
    >>> print(me.encode([448., 464., 465.], "e4m3fn"))
    [126 126 127]
    >>> print(me.encode([448., 464., 465.], "e4m3fn", saturate=True))
    [126 126 126]
    """
    cast = _casts.get((format, mode, saturate, scale, profile)) or _cast(format, mode, saturate, scale, profile)
    source = numbers(x, "encode")
    kind = code_type(cast.code_bits)
    values = source.values
    if refuse:
        refuse_unheld(values, scale, cast.format, refuse)
    if cast.code_bits == 64 and values.dtype == np.float32:
        values = np.multiply(values, np.float32(scale), dtype=np.float32) if scale != 1 else values
        values = np.asarray(values, np.float64)
        cast = _cast(format, mode, saturate, 1.0, profile)
    made = output_like(source, kind, out, "encode")
    values = apart(values, made)
    words = random_words(cast.draws, seed, stream, generator, values.size)
    counts = _core.encode_into(cast, values, made, *words, tally is not None)
    if tally is not None:
        tally.add(Tally(counts))
    if dtype is None:
        return out if out is not None else given_back(made, source)
    if out is not None:
        raise Error("out and dtype cannot be used together", "dtype", "view out as that type")
    return _as_dtype(made, cast.format, dtype)


def _as_dtype(made: Array, format: str, dtype: str) -> Any:
    if dtype == "ml_dtypes":
        return made.view(ml_dtype_of(format))
    if dtype == "torch":
        kind = torch_dtype_of(format)
        import torch

        signed = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[made.dtype.itemsize]
        return torch.from_numpy(made.view(signed)).view(kind)
    raise Error(f"'{dtype}' is not a known library", "dtype", 'use "ml_dtypes" or "torch"')


def decode(codes_: ArrayLike, format: str | None = None, out: Any = None) -> Any:
    """Returns the exact numbers that codes represent, in fp32, or in fp64 for codes of fp64.

    Parameters
    ----------
    codes_ : array_like
        Unsigned integers, or an array of a float type of NumPy, ml_dtypes or torch. A float type determines the format.
    format : str, optional
        Format of the codes. It is needed if their type does not determine it.
    out : array, optional
        Array for the numbers.

    Examples
    --------
    >>> import macheps as me
    >>> print(me.decode([126, 1, 127], "e4m3fn"))
    [4.480000e+02 1.953125e-03          nan]
    """
    source, name = codes(codes_, format, "decode")
    is_wide = source.values.dtype == np.uint64
    made = output_like(source, np.float64 if is_wide else np.float32, out, "decode")
    if is_wide:
        made[...] = source.values.view(np.float64)
    else:
        _core.decode_into(name, apart(source.values, made), made)
    return out if out is not None else given_back(made, source)


def tally(x: ArrayLike, format: str, mode: str | None = None, saturate: bool = False, scale: float = 1.0, seed: int | None = None,
          stream: int = 0, *, generator: Generator | None = None, profile: str | None = None) -> Tally:  # fmt: skip
    """Counts what a cast would do to these numbers. The arguments are those of `round`.

    Examples
    --------
    >>> import macheps as me
    >>> me.tally([1e-9, 1.0, 1e6], "fp16").rates()["overflow"] == 1 / 3
    True
    """
    made = Tally()
    round(x.detach() if is_tensor(x) else x, format, mode, saturate, scale, seed, stream, tally=made, generator=generator,
          profile=profile)
    return made
