# SPDX-License-Identifier: Apache-2.0
"""Checks the whole numbers that callers pass."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ._errors import Error


def whole(value: Any, name: str, low: int, high: int) -> int:
    """Returns `value` as an int. Raises `Error` unless it is a whole number from `low` to `high`.

    Integers of Python, NumPy and torch are accepted. Booleans are refused. Floating-point numbers are refused, even
    1.0, because a number that was computed as a float may be off by one.
    """
    is_bool = isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", None) == np.bool_
    number = None
    if not is_bool and str(getattr(value, "dtype", "")) != "torch.bool":
        try:
            number = operator.index(value)
        except TypeError:
            pass
    if number is None or not low <= number <= high:
        raise Error(f"{value!r} is not a valid {name}", name, f"use a whole number from {low} to {_power(high)}")
    return number


def _power(limit: int) -> str:
    """Returns a limit in readable form, such as 2**64 - 1."""
    for extra, text in ((1, " - 1"), (0, "")):
        number = limit + extra
        if number > 2**16 and number & (number - 1) == 0:
            return f"2**{number.bit_length() - 1}{text}"
    return str(limit)


__all__ = ["whole"]
