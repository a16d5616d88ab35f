# SPDX-License-Identifier: Apache-2.0
"""Refuses arrays that contain more than plain numbers: masks, missing elements, units, or scales of a quantisation."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

#: Array classes that add nothing to the numbers, if no element is masked. Other subclasses may add units or scales.
_PLAIN_ARRAYS = (np.ndarray, np.matrix, np.memmap, np.recarray, np.ma.MaskedArray)
_PLAIN_ELEMENTS = frozenset({int, float, bool, complex, str, bytes, type(None)})
_DEEPEST = 64  # the maximum number of axes in NumPy


def refuse_hidden(x: Any, function: str) -> None:
    """Raises TypeError if a conversion of `x` to a plain NumPy array would lose information."""
    if np.ma.is_masked(x):
        raise TypeError(f"{function}() would lose the mask of this array: pass x.filled(value), or x.compressed()")
    if isinstance(x, np.ndarray):
        if type(x) not in _PLAIN_ARRAYS:
            raise TypeError(f"{function}() needs a plain array, and {type(x).__name__} may contain more than its numbers:"
                            " pass numpy.asarray(x) if only the numbers count")
        return
    if isinstance(x, (list, tuple)):
        _refuse_hidden_elements(x, function, 0)
    elif _is_missing_any(x):
        raise TypeError(f"{function}() would turn missing elements into NaN: fill them first, for example with x.fillna(0)")
    elif hasattr(x, "toarray") and hasattr(x, "nnz"):
        raise TypeError(f"{function}() needs a dense array: pass x.toarray()")


def refuse_hidden_tensor(x: Any, function: str) -> None:
    """Raises TypeError if a conversion of a torch tensor to a plain array would lose information."""
    torch = sys.modules["torch"]
    if x.layout != torch.strided or x.is_quantized:
        raise TypeError(f"{function}() needs a dense tensor: pass x.to_dense() or x.dequantize()")
    if getattr(x, "is_nested", False):
        raise TypeError(f"{function}() needs a tensor of one shape: pass x.to_padded_tensor(value)")
    if type(x) not in (torch.Tensor, torch.nn.Parameter):
        raise TypeError(f"{function}() needs a plain tensor, and {type(x).__name__} may contain more than its numbers:"
                        " pass x.as_subclass(torch.Tensor) if only the numbers count")


def _refuse_hidden_elements(x: Any, function: str, depth: int) -> None:
    kinds = set(map(type, x)) - _PLAIN_ELEMENTS
    if not kinds or depth == _DEEPEST:
        return
    torch = sys.modules.get("torch")
    for each in x:
        if type(each) not in kinds:
            continue
        if isinstance(each, (list, tuple)):
            _refuse_hidden_elements(each, function, depth + 1)
        elif torch is not None and isinstance(each, torch.Tensor):
            refuse_hidden_tensor(each, function)
        else:
            refuse_hidden(each, function)


def _is_missing_any(x: Any) -> bool:
    """Returns whether a pandas, pyarrow or polars object has missing elements. NumPy would convert them to NaN."""
    nulls = getattr(x, "null_count", None)
    if nulls is not None:
        count = nulls() if callable(nulls) else nulls
        if not isinstance(count, int):  # a polars table has one count for each column
            count = count.sum_horizontal()[0]
        return bool(count)
    pandas = sys.modules.get("pandas")
    if pandas is None or not hasattr(x, "isna"):
        return False
    kinds = list(x.dtypes) if hasattr(x, "columns") else [getattr(x, "dtype", None)]
    if not any(getattr(kind, "na_value", None) is pandas.NA for kind in kinds):
        return False
    return bool(np.asarray(x.isna()).any())


__all__ = ["refuse_hidden", "refuse_hidden_tensor"]
