# SPDX-License-Identifier: Apache-2.0
"""Formats and single numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from typing import Any, Generic, TypeVar

from . import _core
from ._arrays import needed
from ._errors import Error
from ._html import bits, table
from ._plain import refuse_hidden
from ._whole import whole

Row = TypeVar("Row")


class Records(list[Row], Generic[Row]):
    """A list of records, which notebooks show as a table."""

    def to_pandas(self) -> Any:
        """Returns a DataFrame with a row for each record."""
        return needed("pandas").DataFrame([asdict(row) for row in self])  # type: ignore[call-overload]

    def _repr_html_(self) -> str:
        rows = [asdict(row) for row in self]  # type: ignore[call-overload]
        hidden = {"source", "aliases", "disputed"}
        header = [name for name in (rows[0] if rows else {}) if name not in hidden]
        return table(header, [["" if row[name] is None else row[name] for name in header] for row in rows])


@dataclass(frozen=True)
class FormatInfo:
    """Parameters of a format, similar to `numpy.finfo`.

    Examples
    --------
    >>> import macheps as me
    >>> me.finfo("bf16").max == (2 - 2**-7) * 2.0**127
    True
    """

    format: str  #: the name in macheps
    bits: int  #: bits of sign, exponent and fraction
    container_bits: int  #: width of a stored code: `bits` plus the zero bits below them (tf32)
    exponent_bits: int | None
    fraction_bits: int
    precision: int  #: bits of the significand, including the leading one
    exponent_bias: int | None
    max: float
    max_code: int
    smallest_normal: float | None
    smallest_subnormal: float  #: the smallest positive number
    eps: float  #: distance from 1 to the next number, 2 u
    unit_roundoff: float
    has_inf: bool
    has_nan: bool
    has_negative_zero: bool
    has_sign: bool
    has_zero: bool
    max_digits10: int
    summary: str = ""
    source: str = ""
    aliases: dict[str, list[str]] = field(default_factory=dict)  #: names in other systems

    @property
    def min(self) -> float:
        """The smallest number: -max, or the smallest positive number if there is no sign (2**-127 in e8m0fnu)."""
        return -self.max if self.has_sign else self.smallest_subnormal


def _known(kind: Callable[..., Any], record: dict[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return {name: value for name, value in record.items() if name in names}


@lru_cache(maxsize=1)
def _formats() -> tuple[FormatInfo, ...]:
    return tuple(FormatInfo(**_known(FormatInfo, record)) for record in json.loads(_core.formats()))


def formats() -> Records[FormatInfo]:
    """Returns all formats that have a name.

    Examples
    --------
    >>> import macheps as me
    >>> [f.format for f in me.formats() if f.bits == 4]
    ['e2m1fn']
    """
    return Records(_formats())


@lru_cache(maxsize=256)
def finfo(format: str) -> FormatInfo:
    """Returns the parameters of a format, given by a name or alias of `formats`, or by its widths, such as ``e5m6``.

    Examples
    --------
    >>> import macheps as me
    >>> me.finfo("e4m3fn").max, me.finfo("e4m3fn").unit_roundoff
    (448.0, 0.0625)
    >>> me.finfo("e5m6").precision
    7
    """
    if not isinstance(format, str):
        raise TypeError(f"format is a name, such as 'e4m3fn', not {type(format).__name__}")
    record = json.loads(_core.format(format))
    return next((row for row in _formats() if row.format == record["format"]), FormatInfo(**_known(FormatInfo, record)))


@dataclass(frozen=True)
class ProfileInfo:
    """A codec profile: the conventions that an implementation follows when it converts to a format."""

    profile: str
    aliases: list[str]
    edition: str  #: the newest version that the profile was compared with
    formats: list[str]  #: formats to which the implementation converts
    summary: str
    source: str


def profiles() -> Records[ProfileInfo]:
    """Returns all codec profiles, for ``profile=`` of `round` and `encode`.

    ``macheps formats --profiles`` prints how each profile converts NaN, infinities, overflow and zeros.

    Examples
    --------
    >>> import macheps as me
    >>> [p.edition for p in me.profiles() if p.profile == "mldtypes"]
    ['ml_dtypes 0.6.0']
    """
    return Records(ProfileInfo(**record) for record in json.loads(_core.profiles()))


def _real(value: Any) -> float | None:
    return None if value is None else float(value)


@dataclass(frozen=True)
class Number:
    """A code of a format, with its bit fields and the neighbouring numbers. Notebooks show the bits."""

    format: str
    code: int
    code_hex: str
    value: float
    hex: str
    sign: str
    exponent: str
    fraction: str
    ulp: float
    below: float | None
    above: float | None

    def __repr__(self) -> str:
        parts = "|".join(part for part in (self.sign, self.exponent, self.fraction) if part)
        return f"{self.format} {self.code_hex} = {self.value!r} ({parts}), between {self.below!r} and {self.above!r}"

    def _repr_html_(self) -> str:
        return (
            f"<div>{bits(self.sign, self.exponent, self.fraction)} <code>{self.code_hex}</code> in {self.format}<br>"
            f"= <b>{self.value!r}</b> = <code>{self.hex}</code>, ulp {self.ulp!r}<br>"
            f"between {self.below!r} and {self.above!r}</div>"
        )


def _number(record: dict[str, Any]) -> Number:
    parts = record["fields"]
    return Number(
        record["format"], record["code"], record["code_hex"], float(record["value"]), record["hex"], parts["sign"],
        parts["exponent"], parts["fraction"], float(record["ulp"]), _real(record["below"]), _real(record["above"]),
    )  # fmt: skip


def number(code: int, format: str) -> Number:
    """Returns the number that a code represents, with its neighbours.

    Examples
    --------
    >>> import macheps as me
    >>> me.number(0x2e66, "fp16")
    fp16 0x2e66 = 0.0999755859375 (0|01011|1001100110), between 0.09991455078125 and 0.10003662109375
    """
    return _number(json.loads(_core.number(format, whole(code, "code", 0, 2**64 - 1))))


@dataclass(frozen=True)
class Shown:
    """A number rounded to a format."""

    format: str
    value: float
    code: int
    error: float  #: value minus the original number
    relative_error: float
    ulp_error: float  #: error in units in the last place of the original number
    number: Number
    unheld: list[str] = field(default_factory=list)  #: properties that the format cannot hold: nan, inf, sign, zero, negative_zero


def show(x: float, formats: Sequence[str] | str = (), mode: str = "nearest_even", saturate: bool = False,
         random: int | None = None) -> Records[Shown]:  # fmt: skip
    """Rounds one number to every format, or to the given formats, as ``macheps show`` does.

    Stochastic rounding needs ``random``, the 32 random bits that it adds.

    Examples
    --------
    >>> import macheps as me
    >>> me.show(0.1, ["bf16", "e2m1fn"])[0].value
    0.10009765625
    >>> me.show(-3.0, "e8m0fnu")[0].unheld
    ['sign']
    """
    refuse_hidden(x, "show")
    names = [formats] if isinstance(formats, str) else list(formats)
    cast = _core.cast("fp32", mode, saturate, 1.0, "")  # raises Error for an unknown mode
    if cast.draws and random is None:
        raise Error("stochastic rounding has no random bits", "mode", "pass random=, a whole number from 0 to 2**32 - 1")
    bits_added = 0 if random is None else whole(random, "random", 0, 2**32 - 1)
    return Records(
        Shown(
            record["format"], float(record["value"]), record["code"], float(record["error"]),
            float(record["relative_error"]), float(record["ulp_error"]), _number(record), record["unheld"],
        )  # fmt: skip
        for record in json.loads(_core.show(float(x), names, mode, saturate, bits_added))
    )
