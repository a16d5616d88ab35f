# SPDX-License-Identifier: Apache-2.0
"""Properties of numbers that a format cannot hold, and the option that refuses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._arrays import Array
from ._errors import Error
from ._formats import FormatInfo, finfo

#: For each name: whether a format can hold the property, which elements have it, and the noun for messages.
_PROPERTIES: dict[str, tuple[Callable[[FormatInfo], bool], Callable[[Array], Any], str]] = {
    "nan": (lambda f: f.has_nan, np.isnan, "NaN"),
    "inf": (lambda f: f.has_inf, np.isinf, "infinity"),
    "sign": (lambda f: f.has_sign, lambda x: x < 0, "sign"),
    "zero": (lambda f: f.has_zero, lambda x: x == 0, "zero"),
    "negative_zero": (lambda f: f.has_negative_zero, lambda x: (x == 0) & np.signbit(x), "-0"),
}


def _names(refuse: str | Iterable[str]) -> list[str]:
    names = [refuse] if isinstance(refuse, str) else list(refuse)
    if "all" in names:
        return list(_PROPERTIES)
    for name in names:
        if name not in _PROPERTIES:
            raise Error(f"unknown property {name!r}", "refuse", f"use {', '.join(_PROPERTIES)}, or all")
    return names


def refuse_unheld(values: Array, scale: float, format: str, refuse: str | Iterable[str]) -> None:
    """Raises `Error` if an element has a property, such as NaN, that `refuse` names and that the format cannot hold.

    The error names the first such element.
    """
    info = finfo(format)
    with np.errstate(all="ignore"):
        scaled = values if scale == 1 else values * values.dtype.type(scale)
    for name in _names(refuse):
        can_hold, has, noun = _PROPERTIES[name]
        if can_hold(info):
            continue
        found = np.atleast_1d(has(scaled))
        if found.any():
            first = int(np.flatnonzero(found.ravel())[0])
            number = float(np.ravel(scaled)[first])
            raise Error(f"element {first} is {number!r}, and {info.format} has no {noun}", "refuse",
                        f"remove such elements, or leave {name!r} out of refuse to convert them")


__all__ = ["refuse_unheld"]
